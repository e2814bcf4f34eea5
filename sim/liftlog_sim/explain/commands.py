"""What `liftlog sim run`, `sweep`, `replay` and `shrink` say of a failure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.explain.failures import BUNDLES, FOLDER, check_folder, keep, keep_some
from liftlog_sim.runs.runs import RunOptions, RunResult


def add_failures(parser: argparse.ArgumentParser, *, sweep: bool = False) -> None:
    """Add where bundles go, and of a sweep how many."""
    parser.add_argument(
        "--failures",
        type=Path,
        default=FOLDER,
        metavar="FOLDER",
        help=f"where the bundle of a failure is written; default: {FOLDER}",
    )
    if sweep:
        parser.add_argument(
            "--bundles",
            type=int,
            default=BUNDLES,
            metavar="N",
            help=f"how many failures are bundled at most, 0 = none; default: {BUNDLES}",
        )


def check_failures(arguments: argparse.Namespace) -> None:
    """Whether bundles can be written. Raises LiftlogError."""
    check_folder(arguments.failures)
    if getattr(arguments, "bundles", 0) < 0:
        raise LiftlogError(f"--bundles {arguments.bundles} is out of range; choose 0 or more")


def explain_run(options: RunOptions, result: RunResult, folder: Path, *, quiet: bool) -> str:
    """Bundle a failed run and tell its story; where the bundle is, empty if none can be made."""
    try:
        bundle, path = keep(options, result, folder)
    except LiftlogError as error:
        print(f"no bundle of {result.invariant}: {error}", file=sys.stderr)
        return ""
    if not quiet:
        print(f"\nwhat caused it ({len(bundle.trace)} steps; ask for any of them with --why STEP):")
        print("\n".join(bundle.story))
        print(f"bundle: {path}\nshrink it with: liftlog sim shrink {path}")
    return str(path)


def explain_sweep(
    options: Sequence[RunOptions], failed: Sequence[RunResult], arguments: argparse.Namespace
) -> tuple[list[Path], list[str]]:
    """Bundle some failures of a sweep; the bundles, and why some could not be made."""
    return keep_some(options, failed, arguments.failures, arguments.bundles)


def print_bundles(paths: Sequence[Path], problems: Sequence[str], failed: int) -> None:
    """Say where they are, and which are missing."""
    for path in paths:
        print(f"bundle: {path}")
    for problem in problems:
        print(f"no bundle of {problem}")
    tried = len(paths) + len(problems)
    if tried < failed:
        print(f"{failed - tried} of {failed} failures have no bundle (--bundles {tried})")


def why_of(options: RunOptions, step: int) -> list[str]:
    """The story of one step of a run, failed or not. Raises LiftlogError."""
    from liftlog_sim.explain.recording import record_run
    from liftlog_sim.explain.story import why

    return why(record_run(options), step)


def replay_bundle(path: Path, arguments: Any) -> tuple[Any, list[str]]:
    """Run a bundle's world again; what came of it, as data and in words. Raises LiftlogError."""
    from liftlog_sim.explain.failures import replay, verdict_of
    from liftlog_sim.explain.story import why

    bundle, replayed = replay(path)
    lines = why(bundle, arguments.why) if arguments.why is not None else list(bundle.story)
    return replayed, [*lines, *verdict_of(bundle, replayed)]


# -- shrinking -----------------------------------------------------------------------------------------------


def add_shrink(verbs: Any) -> None:
    """Add `shrink`."""
    parser = verbs.add_parser("shrink", help="find the smallest world that fails as a bundle does")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE")
    parser.add_argument(
        "--seconds", type=float, default=60, metavar="S", help="stop after so much CPU time; default: 60"
    )
    parser.add_argument(
        "--output", type=Path, default=None, metavar="FOLDER", help="default: where the bundle is"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=_shrink)


def check_budget(seconds: float) -> None:
    """Whether that is a time to shrink for. Raises LiftlogError."""
    if not 0 < seconds <= 100_000:
        raise LiftlogError(f"--seconds {seconds:g} is out of range; choose more than 0, to 100000")


def _shrink(arguments: argparse.Namespace) -> int:
    from liftlog_sim.explain.shrinking import shrink, summary_of

    check_budget(arguments.seconds)

    def say(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    result, smallest = shrink(arguments.bundle, arguments.seconds, arguments.output, say)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    else:
        print("\n".join(summary_of(result, smallest)))
    return 0
