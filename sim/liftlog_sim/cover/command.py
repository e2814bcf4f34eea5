"""`liftlog sim cover`: play the scenarios that `liftlog spec cover` has made on real nodes.

Exit codes: 0 the nodes did what the model says; 1 something differed; 2 wrong use.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from liftlog_sim.cover.plays import FOLDER, Played, files_of, play_file
from liftlog_sim.profiles.mutants import planted


def add_cover(verbs: Any) -> None:
    """Add the verb `cover`."""
    parser = verbs.add_parser("cover", help="drive real nodes along paths of a model's state graph")
    parser.add_argument(
        "place",
        nargs="?",
        default="",
        metavar="PLACE",
        help="a folder, a file, FILE:NAME, or a file that comes with liftlog; default: all of these",
    )
    parser.add_argument(
        "--mutant", default="", metavar="NAME", help="plant a bug (see 'liftlog sim mutants --list')"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=run_cover)


def run_cover(arguments: argparse.Namespace) -> int:
    """Exit code 1 if the core did anything but what a scenario says."""
    mutants = planted(arguments.mutant)
    place, _, only = arguments.place.partition(":")
    played = [
        one for path in files_of(Path(place) if place else FOLDER) for one in play_file(path, mutants, only)
    ]
    wrong = [one for one in played if one.finding]
    steps = sum(one.steps for one in played)
    if arguments.json:
        report = {"scenarios": len(played), "steps": steps, "wrong": msgspec.to_builtins(wrong)}
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    else:
        for one in wrong:
            print(_line(one))
        verdict = f"{len(wrong)} of {len(played)} differ" if wrong else "the nodes do what the model says"
        print(f"{len(played)} scenarios of {steps:,} steps: {verdict}")
    return 1 if wrong else 0


def _line(played: Played) -> str:
    return f"{played.scenario}, step {played.step} ({played.action}): {played.finding}"
