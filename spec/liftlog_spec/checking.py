"""`liftlog spec check`: explore a model's states, all within bounds or some on random walks."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from liftlog.terminal import Activity
from liftlog.types import LiftlogError
from liftlog_spec.explore.report import MEMORY_MB, Bounds, ExplorationReport, Walks, show_trace
from liftlog_spec.explore.search import check
from liftlog_spec.explore.simulate import simulate
from liftlog_spec.lang.model import Setting
from liftlog_spec.lang.types import Constant, SpecError
from liftlog_spec.registry import MODELS, ModelEntry, build

QUIET_S = 2.0
"""What is done sooner shows no progress."""
TERMINAL_S = 0.5
PLAIN_S = 10.0
"""Between two progress lines, on a terminal and elsewhere."""
WALK_DEPTH = 100
FLAGS = sorted({flag for entry in MODELS.values() for flag in entry.flags})


def add_check(verbs: Any) -> None:
    """Add the verb `check`."""
    parser = verbs.add_parser("check", help="explore every state of a model within bounds")
    parser.add_argument("--model", default="", metavar="NAME", help=f"one of: {', '.join(MODELS)}")
    parser.add_argument("--variant", default="", metavar="NAME", help="a variant of the model; see --list")
    for flag in FLAGS:
        parser.add_argument(f"--{flag}", type=int, default=None, metavar="N")
    parser.add_argument("--symmetry", action="store_true", help="states that differ by names count as one")
    parser.add_argument(
        "--deadlock",
        action="store_true",
        help="a state without a successor is a violation, unless a @terminal property allows it",
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    parser.add_argument(
        "--memory",
        type=int,
        default=MEMORY_MB,
        metavar="MB",
        help=f"for what grows with the states; the rest is on disk (default {MEMORY_MB})",
    )
    parser.add_argument("--max-states", type=int, default=0, metavar="N", help="stop after so many states")
    parser.add_argument("--max-depth", type=int, default=0, metavar="N", help="stop at this depth")
    parser.add_argument(
        "--simulate", type=int, default=0, metavar="N", help="make N random walks instead of exploring all"
    )
    parser.add_argument(
        "--depth", type=int, default=None, metavar="D", help=f"steps of a walk at most (default {WALK_DEPTH})"
    )
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of the walks (default 0)")
    parser.add_argument("--list", action="store_true", help="the models, their variants and constants")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=run_check)


def run_check(arguments: argparse.Namespace) -> int:
    """Exit code 1 for a violation and for what never happens, else 0."""
    if arguments.list:
        return _list(arguments.json)
    if not arguments.model:
        raise LiftlogError(f"name a model with --model: {', '.join(MODELS)}")
    walks = _walks(arguments)
    bounds = _bounds(arguments)
    given = {flag: getattr(arguments, flag.replace("-", "_")) for flag in FLAGS}
    constants = {flag: value for flag, value in given.items() if value is not None}
    try:
        model = build(arguments.model, arguments.variant, constants)
        with Activity() as activity:
            show = progress_of(activity)
            report = check(model, bounds, show) if walks is None else simulate(model, bounds, walks, show)
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    if arguments.json:
        print_json(msgspec.to_builtins(report))
    else:
        print("\n".join(lines_of(report)))
    return 0 if report.verdict in ("holds", "bounded") else 1


def _bounds(arguments: argparse.Namespace) -> Bounds:
    if not 1 <= arguments.jobs <= 64:
        raise LiftlogError(f"--jobs {arguments.jobs} is out of range; choose 1 to 64")
    if arguments.memory < 1:
        raise LiftlogError(f"--memory {arguments.memory} is out of range; give 1 MB or more")
    for name in ("max_states", "max_depth"):
        if getattr(arguments, name) < 0:
            raise LiftlogError(f"--{name.replace('_', '-')} must not be negative; 0 = no limit")
    return Bounds(
        jobs=arguments.jobs,
        symmetry=arguments.symmetry,
        states=arguments.max_states,
        depth=arguments.max_depth,
        memory=arguments.memory,
        deadlock=arguments.deadlock,
    )


def _walks(arguments: argparse.Namespace) -> Walks | None:
    if arguments.simulate < 0:
        raise LiftlogError(f"--simulate {arguments.simulate} is out of range; give the number of walks")
    if not arguments.simulate:
        for name in ("depth", "seed"):
            if getattr(arguments, name) is not None:
                raise LiftlogError(f"--{name} belongs to --simulate N; a search is bounded by --max-depth")
        return None
    for name in ("max_states", "max_depth", "symmetry"):
        if getattr(arguments, name):
            flag = name.replace("_", "-")
            raise LiftlogError(f"--{flag} does not go with --simulate, which is bounded by N and --depth")
    depth = WALK_DEPTH if arguments.depth is None else arguments.depth
    if depth < 1:
        raise LiftlogError(f"--depth {depth} is out of range; give 1 or more")
    return Walks(arguments.simulate, depth, arguments.seed or 0)


def progress_of(activity: Activity) -> Callable[[str], None]:
    """Shows what takes long: often on a terminal, seldom elsewhere."""
    started = shown = time.monotonic()
    pause = TERMINAL_S if sys.stderr.isatty() else PLAIN_S

    def show(text: str) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - started > QUIET_S and (now - shown > pause or shown == started):
            shown = now
            activity.show(text)

    return show


def lines_of(report: ExplorationReport) -> list[str]:
    """The report as text."""
    constants = ", ".join(f"{name} = {value}" for name, value in report.constants.items())
    settings = "".join(f" ({value})" for value in report.settings.values())
    lines = [f"{report.model}{settings}: {constants}"]
    if report.trace:
        shortest = "The shortest way there" if not report.walks else "The shortest way that was walked"
        what = f"{report.invariant} is violated" if report.invariant != "Deadlock" else "Nothing can follow"
        lines += ["", f"{what}. {shortest}, showing what changes:", ""]
        lines += [*show_trace(report.trace), ""]
    else:
        said = {
            "holds": "holds in every reachable state",
            "vacuous": "vacuous: no invariant is violated, but something never happens",
            "bounded": "not violated as far as this search went; a limit ended it",
        }
        lines.append(said[report.verdict] if not report.walks else "not violated on any of these walks")
    complete = report.verdict in ("holds", "vacuous")
    if report.verdict != "violated":
        lines += [f"never reached: {name}" for name in report.unreached]
    width = max((len(f"{steps:,}") for steps in report.actions.values()), default=0)
    lines += ["steps of each action:"]
    lines += [f"  {steps:{width},} {name}" for name, steps in report.actions.items()]
    if report.never:
        never = ", ".join(report.never)
        lines.append(f"{'warning: never taken within these bounds' if complete else 'not yet'}: {never}")
    return [*lines, *_figures(report)]


def _figures(report: ExplorationReport) -> list[str]:
    rate = f"{report.seconds:.1f} s ({report.states_per_second:,}/s)"
    ends = f"{report.deadlocks:,} without a successor"
    if report.walks:
        walked = f"{report.walks:,} walks of at most {report.depth} states, seed {report.seed}"
        return [f"{walked}: {report.generated_states:,} states, {ends}, {rate}"]
    spilled = f", {report.spills} times too many for the memory" if report.spills else ""
    return [
        f"{report.distinct_states:,} distinct states of {report.generated_states:,}{spilled}, "
        f"depth {report.depth}, {ends}, {rate}",
        f"two states taken for one: probability {report.collision_probability:.1e}",
    ]


def _list(as_json: bool) -> int:
    found = [describe(entry) for entry in MODELS.values()]
    if as_json:
        print_json(found)
        return 0
    for item in found:
        print(f"{item['name']}: {item['about']}")
        print("  constants: " + ", ".join(f"--{flag} {value}" for flag, value in item["constants"].items()))
        if item["variants"]:
            print("  variants:  " + ", ".join(item["variants"]))
    return 0


def print_json(value: object) -> None:
    """One object on stdout."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def describe(entry: ModelEntry) -> dict[str, Any]:
    """Constants with their defaults and variants, for `--list`."""
    declared = entry.load().declared
    variants = declared.get("variant")
    return {
        "name": entry.name,
        "about": entry.about,
        "variants": list(variants.choices) if isinstance(variants, Setting) else [],
        "constants": {
            flag: declared[name].default
            for flag, name in entry.flags.items()
            if isinstance(declared[name], Constant)
        },
    }
