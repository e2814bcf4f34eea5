"""`liftlog spec`: check models of the protocol, every state within bounds, and prove them without bounds.

Exit codes: 0 the model holds; 1 an invariant is violated, or a "sometimes" property was never reached, or a
proof fails or is not finished in time; 2 wrong use. `--json` prints one object.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from liftlog.terminal import Activity
from liftlog.types import LiftlogError
from spec.explore.report import Bounds, Report, show_trace
from spec.explore.search import check
from spec.lang.types import SpecError
from spec.proofs import PROOFS, proof_of
from spec.registry import MODELS, build, describe, every_model
from spec.tla.files import FOLDER, differences, write

QUIET_S = 2.0
"""What is done sooner shows no progress."""
FLAGS = sorted({flag for entry in MODELS.values() for flag in entry.flags})


def add_parser(subparsers: Any) -> None:
    """Add `spec` and its verbs."""
    spec = subparsers.add_parser("spec", help="check models of the protocol")
    verbs = spec.add_subparsers(dest="verb", required=True)
    parser = verbs.add_parser("check", help="explore every state of a model within bounds")
    parser.add_argument("--model", default="", metavar="NAME", help=f"one of: {', '.join(MODELS)}")
    parser.add_argument("--variant", default="", metavar="NAME", help="a variant of the model; see --list")
    for flag in FLAGS:
        parser.add_argument(f"--{flag}", type=int, default=None, metavar="N")
    parser.add_argument("--symmetry", action="store_true", help="states that differ by names count as one")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    parser.add_argument("--max-states", type=int, default=0, metavar="N", help="stop after so many states")
    parser.add_argument("--max-depth", type=int, default=0, metavar="N", help="stop at this depth")
    parser.add_argument("--list", action="store_true", help="the models, their variants and constants")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=_check)
    _add_prove(verbs)
    _add_export(verbs)


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
        from spec.prover.prove import prove
        from spec.prover.text import lines_of_report
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
                    progress=_progress(activity),
                )
            reports.append(report)
            if not arguments.json:
                print("\n".join(lines_of_report(proof, report, arguments.show)), flush=True)
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    if arguments.json:
        _print_json(msgspec.to_builtins(reports))
    return 0 if all(report.holds for report in reports) else 1


def _list_proofs(as_json: bool) -> int:
    if as_json:
        _print_json([{"name": p.name, "about": p.about, "safety": p.safety} for p in PROOFS.values()])
        return 0
    for proof in PROOFS.values():
        print(f"{proof.name}: {proof.about}\n  wanted: {', '.join(proof.safety)}")
    return 0


def _add_export(verbs: Any) -> None:
    parser = verbs.add_parser("export", help="write the models as TLA+ modules")
    parser.add_argument("--folder", type=Path, default=FOLDER, metavar="F", help=f"default: {FOLDER}")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a file is not up to date"
    )
    parser.set_defaults(run=_export)


def _export(arguments: argparse.Namespace) -> int:
    models = every_model()
    if not arguments.check:
        for path in write(models, arguments.folder):
            print(path)
        return 0
    lines = differences(models, arguments.folder)
    print("\n".join(lines) or f"{arguments.folder} is up to date")
    return 1 if lines else 0


def _check(arguments: argparse.Namespace) -> int:
    if arguments.list:
        return _list(arguments.json)
    if not arguments.model:
        raise LiftlogError(f"name a model with --model: {', '.join(MODELS)}")
    if not 1 <= arguments.jobs <= 64:
        raise LiftlogError(f"--jobs {arguments.jobs} is out of range; choose 1 to 64")
    for name in ("max_states", "max_depth"):
        if getattr(arguments, name) < 0:
            raise LiftlogError(f"--{name.replace('_', '-')} must not be negative; 0 = no limit")
    given = {flag: getattr(arguments, flag.replace("-", "_")) for flag in FLAGS}
    constants = {flag: value for flag, value in given.items() if value is not None}
    bounds = Bounds(arguments.jobs, arguments.symmetry, arguments.max_states, arguments.max_depth)
    try:
        model = build(arguments.model, arguments.variant, constants)
        with Activity() as activity:
            report = check(model, bounds, _progress(activity))
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    if arguments.json:
        _print_json(msgspec.to_builtins(report))
    else:
        print("\n".join(_lines(report)))
    return 0 if report.verdict in ("holds", "bounded") else 1


def _progress(activity: Activity) -> Callable[[str], None]:
    started = time.monotonic()

    def show(text: str) -> None:
        if time.monotonic() - started > QUIET_S:
            activity.show(text)

    return show


def _lines(report: Report) -> list[str]:
    constants = ", ".join(f"{name} = {value}" for name, value in report.constants.items())
    settings = "".join(f" ({value})" for value in report.settings.values())
    lines = [f"{report.model}{settings}: {constants}"]
    if report.trace:
        lines += ["", f"{report.invariant} is violated. The shortest way there, showing what changes:", ""]
        lines += [*show_trace(report.trace), ""]
    else:
        said = {
            "holds": "holds in every reachable state",
            "vacuous": "no invariant is violated, but something never happens",
            "bounded": "not violated as far as this search went; a limit ended it",
        }
        lines.append(said[report.verdict])
    lines += [f"never reached: {name}" for name in report.unreached if report.verdict != "violated"]
    rate = f"{report.states_per_second:,}/s"
    lines.append(
        f"{report.distinct_states:,} distinct states of {report.generated_states:,}, depth {report.depth}, "
        f"{report.deadlocks:,} without a successor, {report.seconds:.1f} s ({rate})"
    )
    lines.append(f"two states taken for one: probability {report.collision_probability:.1e}")
    return lines


def _list(as_json: bool) -> int:
    found = [describe(entry) for entry in MODELS.values()]
    if as_json:
        _print_json(found)
        return 0
    for item in found:
        print(f"{item['name']}: {item['about']}")
        print("  constants: " + ", ".join(f"--{flag} {value}" for flag, value in item["constants"].items()))
        if item["variants"]:
            print("  variants:  " + ", ".join(item["variants"]))
    return 0


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
