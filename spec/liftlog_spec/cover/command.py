"""`liftlog spec cover`: make scenarios from a model's state graph; `liftlog sim cover` plays them.

Exit codes: 0 made, or `--check` found nothing; 1 a kept file is not what would be made now; 2 wrong use.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from liftlog.terminal import Activity
from liftlog.types import LiftlogError
from liftlog_spec.checking import FLAGS, print_json, progress_of
from liftlog_spec.cover.make import SUFFIX, Coverage, contents, cover, write
from liftlog_spec.cover.plans import PLANS, BoundsChoice
from liftlog_spec.cover.scenario import Index, encode
from liftlog_spec.cover.wander import wander
from liftlog_spec.lang.types import SpecError

DEPTH = 50
KEPT = Path("sim/liftlog_sim/cover")
"""Where the scenarios of the plans are kept."""


def add_cover(verbs: Any) -> None:
    """Add the verb `cover`."""
    parser = verbs.add_parser(
        "cover", help="make scenarios that drive the core through every pair of a model's actions"
    )
    parser.add_argument("--model", required=True, metavar="NAME", help=f"with a plan: {', '.join(PLANS)}")
    for flag in FLAGS:
        parser.add_argument(f"--{flag}", type=int, default=None, metavar="N")
    parser.add_argument("--max-states", type=int, default=0, metavar="N", help="look at so many states only")
    parser.add_argument(
        "--walks", type=int, default=0, metavar="N", help="instead, N random paths, by default at wide bounds"
    )
    parser.add_argument(
        "--depth", type=int, default=None, metavar="D", help=f"steps of a random path (default {DEPTH})"
    )
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of random paths (default 0)")
    parser.add_argument("--out", type=Path, default=None, metavar="FOLDER", help=f"write there, as {KEPT}")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if --out has other files than these"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=run_cover)


def run_cover(arguments: argparse.Namespace) -> int:
    """Without bounds those of the model's plan are taken."""
    if arguments.check and arguments.out is None:
        raise LiftlogError(f"--check needs --out FOLDER, as {KEPT}")
    if arguments.max_states < 0:
        raise LiftlogError("--max-states must not be negative; 0 = no limit")
    given = {flag: getattr(arguments, flag.replace("-", "_")) for flag in FLAGS}
    constants = {flag: value for flag, value in given.items() if value is not None}
    part = (
        BoundsChoice("given", constants, arguments.max_states) if constants or arguments.max_states else None
    )
    try:
        if arguments.walks:
            return _wander(arguments, part)
        for name in ("depth", "seed"):
            if getattr(arguments, name) is not None:
                raise LiftlogError(f"--{name} belongs to --walks N")
        with Activity() as activity:
            coverage = cover(arguments.model, [part] if part else (), progress_of(activity))
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    differing = _differing(coverage, arguments.out) if arguments.check else []
    if arguments.out is not None and not arguments.check:
        write(coverage, arguments.out)
    index = coverage.index()
    if arguments.json:
        print_json({**msgspec.to_builtins(index), "differing": differing})
    else:
        print("\n".join([*lines_of(index), *(f"not up to date: {name}" for name in differing)]))
    return 1 if differing else 0


def _wander(arguments: argparse.Namespace, part: BoundsChoice | None) -> int:
    """Random paths. They are made anew each time, so that there is nothing to keep."""
    if arguments.walks < 0:
        raise LiftlogError(f"--walks {arguments.walks} is out of range; give the number of paths")
    if arguments.check or arguments.max_states:
        raise LiftlogError("--check and --max-states do not go with --walks")
    depth = DEPTH if arguments.depth is None else arguments.depth
    if depth < 1:
        raise LiftlogError(f"--depth {depth} is out of range; give 1 or more")
    seed = arguments.seed or 0
    file = wander(arguments.model, part, arguments.walks, depth, seed)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / f"{arguments.model}-walks-{seed}{SUFFIX}").write_bytes(encode(file))
    taken = Counter(step.action for scenario in file.scenarios for step in scenario.steps)
    actions = dict(sorted(taken.items()))
    if arguments.json:
        report = {"model": arguments.model, "constants": file.head.constants, "seed": seed}
        print_json({**report, "scenarios": len(file.scenarios), "actions": actions})
    else:
        print(
            f"{len(file.scenarios)} random paths of {sum(taken.values()):,} steps through {arguments.model}"
        )
        print("  " + ", ".join(f"{name} {count:,}" for name, count in actions.items()))
    return 0


def _differing(coverage: Coverage, folder: Path) -> list[str]:
    """Names of files that are not as they would be written now."""
    found = []
    for name, content in contents(coverage).items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            found.append(name)
    return found


def lines_of(index: Index) -> list[str]:
    """What is covered, as text."""
    pairs = len(index.pairs) + len(index.not_driven_pairs)
    actions = len(index.actions) + len(index.not_driven_actions)
    scenarios = sum(one.scenarios for one in index.files.values())
    lines = [
        f"{index.model}: {len(index.actions)} of {actions} actions and {len(index.pairs)} of {pairs} pairs "
        f"of consecutive actions, in {scenarios} scenarios of {index.steps:,} steps"
    ]
    for name, bounds in index.files.items():
        looked = (
            f"all {bounds.states:,} states" if bounds.complete else f"the nearest {bounds.states:,} states"
        )
        lines.append(
            f"  {name}: {bounds.scenarios} scenarios, from {looked if bounds.states else 'random paths'}"
        )
    if index.unreached:
        lines.append(f"never possible within these bounds: {', '.join(index.unreached)}")
    for reason, text in index.reasons.items():
        actions_out = [action for action, why in index.not_driven_actions.items() if why == reason]
        pairs_out = [f"{one.first}+{one.second}" for one in index.not_driven_pairs if one.reason == reason]
        lines.append(f"not driven ({reason}): {text}:")
        lines.append("  " + ", ".join([*actions_out, *pairs_out]))
    return lines
