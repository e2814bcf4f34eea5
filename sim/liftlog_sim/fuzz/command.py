"""`liftlog sim fuzz`: anything, to all parsers that face a network and to `Node.step`
(`fuzz/parsers.py`)."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from typing import Any

import msgspec

from liftlog.terminal import large_number
from liftlog.types import LiftlogError
from liftlog_sim.fuzz import parsers as fuzzing

INPUTS_MAX = 10**9
SLICE_INPUTS = 50_000
"""What one process does at a time, so that a finding is told soon."""


def add_fuzz(verbs: Any) -> None:
    """Add the verb `fuzz`."""
    parser = verbs.add_parser("fuzz", help="give anything to all that faces a network")
    parser.add_argument(
        "--inputs",
        type=large_number,
        default=200_000,
        metavar="N",
        help="how many: 200k, 10M (default 200k)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with this number")
    parser.add_argument(
        "--target",
        default="",
        metavar="LIST",
        help=f"only these, separated by commas: {', '.join(fuzzing.NAMES)}",
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes; 0: one a core")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=_fuzz)


def _fuzz(arguments: argparse.Namespace) -> int:
    names = [name.strip() for name in arguments.target.split(",") if name.strip()] or list(fuzzing.NAMES)
    for name in names:
        if name != fuzzing.NODE:
            fuzzing.target_named(name)
    inputs = arguments.inputs
    if not 0 < inputs <= INPUTS_MAX:
        raise LiftlogError(f"--inputs {inputs}: use a number up to {INPUTS_MAX // 10**6}M")
    slices = [
        (names, arguments.seed, min(SLICE_INPUTS, inputs - done), arguments.first + done)
        for done in range(0, inputs, SLICE_INPUTS)
    ]
    jobs = arguments.jobs or os.cpu_count() or 1
    total = fuzzing.FuzzReport(inputs=dict.fromkeys(names, 0), refused=dict.fromkeys(names, 0))
    if jobs == 1:
        for one in slices:
            _add(total, fuzzing.run(*one))
            if not total.good:
                break
    else:
        with multiprocessing.get_context("spawn").Pool(min(jobs, len(slices))) as pool:
            for report in pool.imap(_run, slices):
                _add(total, report)
                if not total.good:
                    pool.terminate()
                    break
    _tell(arguments, total)
    return 0 if total.good else 1


def _run(one: tuple[list[str], int, int, int]) -> fuzzing.FuzzReport:
    return fuzzing.run(*one)


def _add(total: fuzzing.FuzzReport, report: fuzzing.FuzzReport) -> None:
    for name, number in report.inputs.items():
        total.inputs[name] += number
        total.refused[name] += report.refused[name]
    total.finding = total.finding or report.finding
    total.grown_bytes = max(total.grown_bytes, report.grown_bytes)
    total.seconds += report.seconds


def _tell(arguments: argparse.Namespace, total: fuzzing.FuzzReport) -> None:
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(total), indent=2) + b"\n")
        return
    for name, number in total.inputs.items():
        print(f"{name:<14} {number:>11,} inputs, {total.refused[name]:>11,} refused")
    print(f"memory grew by {total.grown_bytes / 1e6:.1f} MB; {total.seconds:.1f} s of CPU")
    finding = total.finding
    if finding is not None:
        print(f"{finding.target} input {finding.number}: {finding.error}")
        if finding.data:
            print(f"  it is {len(finding.data)} bytes: {finding.data[:200].hex()}")
        target = f"--target {finding.target} --inputs 1"
        print(f"  replay with: liftlog sim fuzz {target} --seed {arguments.seed} --first {finding.number}")
    elif not total.good:
        most = fuzzing.GROWTH_MAX_BYTES / 1e6
        print(f"memory grew by more than {most:.0f} MB")
    print("verdict: " + ("everything was taken or refused" if total.good else "FAILED"))
