"""`liftlog spec map`: check that the models do nothing that the proofs' models do not do.

Exit codes: 0 every step has its counterpart; 1 one has none; 2 wrong use.
"""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from liftlog.terminal import Activity
from liftlog.types import LiftlogError
from liftlog_spec.checking import print_json, progress_of
from liftlog_spec.lang.types import SpecError
from liftlog_spec.mappings import MAPPINGS, MappingEntry, mapping_of
from liftlog_spec.mappings.checker import MappingReport, check_mapping

MOST_PAIRS = 20_000
WALK_DEPTH = 80
FLAGS = sorted({flag for entry in MAPPINGS.values() for flag in entry.flags})


def add_map(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser("map", help="check on explored states that models do only what proofs allow")
    names = ", ".join(MAPPINGS)
    parser.add_argument("--mapping", default="", metavar="NAME", help=f"default: all of {names}")
    parser.add_argument("--variant", default="", metavar="NAME", help="a variant of the explored model")
    for flag in FLAGS:
        parser.add_argument(f"--{flag}", type=int, default=None, metavar="N")
    parser.add_argument(
        "--max-states",
        type=int,
        default=MOST_PAIRS,
        metavar="N",
        help=f"stop after so many pairs of states, 0: never (default {MOST_PAIRS:,})",
    )
    parser.add_argument(
        "--simulate", type=int, default=0, metavar="N", help="make N random walks instead of exploring all"
    )
    parser.add_argument(
        "--depth", type=int, default=WALK_DEPTH, metavar="D", help=f"of a walk (default {WALK_DEPTH})"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the walks (default 0)")
    parser.add_argument("--list", action="store_true", help="the mappings, their constants, what is outside")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=_map)


def _map(arguments: argparse.Namespace) -> int:
    if arguments.list:
        return _list(arguments.json)
    for name, least in (("max_states", 0), ("simulate", 0), ("depth", 1)):
        if getattr(arguments, name) < least:
            flag = name.replace("_", "-")
            raise LiftlogError(f"--{flag} {getattr(arguments, name)} is out of range; give {least} or more")
    given = {flag: getattr(arguments, flag) for flag in FLAGS if getattr(arguments, flag) is not None}
    if not arguments.mapping and (arguments.variant or given):
        raise LiftlogError("--variant and constants need --mapping NAME")
    reports = []
    try:
        for entry in [mapping_of(arguments.mapping)] if arguments.mapping else list(MAPPINGS.values()):
            with Activity() as activity:
                report = check_mapping(
                    entry.load(arguments.variant, given),
                    entry.name,
                    arguments.max_states,
                    progress_of(activity),
                    walks=arguments.simulate,
                    walk_steps=arguments.depth,
                    seed=arguments.seed,
                )
            reports.append(report)
            if not arguments.json:
                print("\n".join(lines_of(entry, report)), flush=True)
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    if arguments.json:
        print_json(msgspec.to_builtins(reports))
    return 0 if all(report.failure is None for report in reports) else 1


def _list(as_json: bool) -> int:
    found: list[dict[str, Any]] = [
        {"name": e.name, "about": e.about, "constants": list(e.flags), "outside": e.kind().outside}
        for e in MAPPINGS.values()
    ]
    if as_json:
        print_json(found)
        return 0
    for item in found:
        print(f"{item['name']}: {item['about']}")
        print("  constants: " + ", ".join(f"--{flag}" for flag in item["constants"]))
        for action, why in item["outside"].items():
            print(f"  outside:   {action}: {why}")
    return 0


def lines_of(entry: MappingEntry, report: MappingReport) -> list[str]:
    """What a person reads; a failure in full."""
    constants = ", ".join(f"{name} = {value}" for name, value in report.constants.items())
    settings = "".join(f" ({value})" for value in report.settings.values())
    said = {
        "holds": "every step has its counterpart",
        "bounded": "every step has its counterpart, as far as this went",
        "violated": "a step has no counterpart",
    }
    lines = [
        f"{entry.about}{settings}: {constants}",
        f"  {said[report.verdict]}: {report.steps:,} steps, {report.stutters:,} of which change nothing; "
        f"{report.states:,} states, {report.pairs:,} pairs, depth {report.depth}, {report.seconds:.1f} s",
    ]
    lines += [f"  never taken there: {', '.join(report.never)}"] if report.never else []
    lines += [f"  outside of the proof, not followed: {n} ({count:,})" for n, count in report.outside.items()]
    return lines if report.failure is None else [*lines, *_failure(report)]


def _failure(report: MappingReport) -> list[str]:
    failure = report.failure
    assert failure is not None
    steps = [f"  {number:>3}. {step}" for number, step in enumerate(failure.trace, 1)]
    changes = [f"  {line}" for line in failure.concrete]
    before = [f"  {line}" for line in failure.abstract_before]
    after = [f"  {line}" for line in failure.abstract_after]
    head = f"why: {failure.why}"
    if failure.abstract_before == failure.abstract_after:
        after = ["  the same"]
    return [
        "",
        *steps,
        head,
        "what the last step changes:",
        *changes,
        "the proof's state before it:",
        *before,
        "and as far as its steps led:",
        *after,
    ]
