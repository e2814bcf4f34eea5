"""`liftlog spec`: check models of the protocol, every state within bounds, and prove them without bounds.

Exit codes: 0 the model holds; 1 an invariant is violated, or a "sometimes" property was never reached, or a
proof fails or is not finished in time; 2 wrong use. `--json` prints one object.
"""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from liftlog.terminal import Activity
from liftlog.types import LiftlogError
from liftlog_spec.checking import add_check, print_json, progress_of
from liftlog_spec.cover.command import add_cover
from liftlog_spec.lang.types import SpecError
from liftlog_spec.mappings.command import add_map
from liftlog_spec.proofs import PROOFS, proof_of
from liftlog_spec.refine.command import add_refine
from liftlog_spec.tla.command import add_export, add_tlc


def add_parser(subparsers: Any) -> None:
    """Add `spec` and its verbs."""
    spec = subparsers.add_parser("spec", help="check models of the protocol")
    verbs = spec.add_subparsers(dest="verb", required=True)
    add_check(verbs)
    _add_prove(verbs)
    add_map(verbs)
    add_export(verbs)
    add_tlc(verbs)
    add_cover(verbs)
    add_refine(verbs)


def _add_prove(verbs: Any) -> None:
    parser = verbs.add_parser("prove", help="prove models for any number of nodes, by induction with z3")
    parser.add_argument("--proof", default="", metavar="NAME", help=f"default: all of {', '.join(PROOFS)}")
    parser.add_argument("--variant", default="", metavar="NAME", help="a variant of the model: see it fail")
    parser.add_argument("--minimal", action="store_true", help="also show that no conjunct can be left out")
    parser.add_argument("--show", action="store_true", help="print runs, and what each conjunct prevents")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="for one query (default 60)")
    parser.add_argument("--list", action="store_true", help="the proofs and what they are about")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=_prove)


def _prove(arguments: argparse.Namespace) -> int:
    if arguments.list:
        return _list_proofs(arguments.json)
    if arguments.variant and not arguments.proof:
        raise LiftlogError("--variant needs --proof NAME")
    if not arguments.timeout > 0:
        raise LiftlogError(f"--timeout {arguments.timeout:g} is out of range; give seconds above 0")
    try:
        from liftlog_spec.prover.prove import prove
        from liftlog_spec.prover.text import lines_of_report
    except ModuleNotFoundError as error:
        if error.name != "z3":
            raise
        raise LiftlogError("proofs need z3: pip install 'liftlog[spec]'") from None
    reports = []
    try:
        for proof in [proof_of(arguments.proof)] if arguments.proof else list(PROOFS.values()):
            model = proof.load(variant=arguments.variant) if arguments.variant else None
            with Activity() as activity:
                report = prove(
                    proof,
                    model,
                    minimal=arguments.minimal,
                    timeout_s=arguments.timeout,
                    progress=progress_of(activity),
                )
            reports.append(report)
            if not arguments.json:
                print("\n".join(lines_of_report(proof, report, arguments.show)), flush=True)
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    if arguments.json:
        print_json(msgspec.to_builtins(reports))
    return 0 if all(report.holds for report in reports) else 1


def _list_proofs(as_json: bool) -> int:
    if as_json:
        print_json([{"name": p.name, "about": p.about, "safety": p.safety} for p in PROOFS.values()])
        return 0
    for proof in PROOFS.values():
        print(f"{proof.name}: {proof.about}\n  wanted: {', '.join(proof.safety)}")
    return 0
