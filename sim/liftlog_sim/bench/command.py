"""`liftlog sim bench`: simulated seconds per CPU second, where they go, and memory."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.bench.measuring import (
    OTHER,
    PLAIN,
    STEP,
    TRIO,
    Bench,
    BenchPlan,
    LongRun,
    Rate,
    measure,
    runs_of,
)
from liftlog_sim.sweeps.seeds import parse_seeds, progress

SEEDS = "0:12"
ROUNDS = 5
DURATION_S = 60
A_LINE = 10
"""LongRun on a line."""
TOLD = {STEP: "step gear", TRIO: "trio gear", PLAIN: "step gear, not refined", OTHER: "step gear there"}


def add_bench(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "bench", help="measure simulated seconds per CPU second, where they go, and memory"
    )
    parser.add_argument("--seeds", default=SEEDS, metavar="A:B", help=f"seeds A to B-1 (default {SEEDS})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"default {ROUNDS}")
    parser.add_argument(
        "--duration",
        type=float,
        default=DURATION_S,
        metavar="SECONDS",
        help=f"how long faults strike in each world, simulated (default {DURATION_S})",
    )
    parser.add_argument(
        "--vs", type=Path, default=None, metavar="PATH", help="alternate with another checkout of liftlog"
    )
    parser.add_argument(
        "--minutes",
        type=int,
        default=0,
        metavar="N",
        help="also run the first seed for N simulated minutes, and print the memory at each",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=_bench)


def _bench(arguments: argparse.Namespace) -> int:
    for name, least, most in (("rounds", 1, 100), ("duration", 1, 3600), ("minutes", 2, 1000)):
        value = getattr(arguments, name)
        if not least <= value <= most and (name != "minutes" or value):
            raise LiftlogError(f"--{name} {value:g} is out of range; choose {least} to {most}")
    seeds = parse_seeds(arguments.seeds)
    plan = BenchPlan(seeds, arguments.rounds, arguments.duration, arguments.vs, arguments.minutes)
    with progress(runs_of(plan), enabled=not arguments.json) as advance:
        found = measure(plan, lambda: advance(""))
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    else:
        print("\n".join(lines_of(found)))
    return 0


def lines_of(bench: Bench) -> list[str]:
    """The result as text."""
    lines = [
        f"{bench.seeds} seeds with {bench.nodes} nodes and faults, every invariant on: "
        f"{bench.simulated_s:,.0f} s simulated, {bench.steps:,} steps; medians of {bench.rounds} rounds",
        "simulated seconds in a CPU second:",
        *(_rate_line(TOLD[name], rate, name == STEP) for name, rate in bench.rates.items()),
    ]
    if bench.same is not None:
        told = "has the same trace hashes" if bench.same else "does not run the same worlds"
        lines.append(f"  there: {bench.other}, which {told}")
    lines += _share_lines(bench)
    memory = bench.memory
    lines.append(
        f"memory: {memory.peak_mb:.0f} MB at most for a run (seed {memory.seed}), of which the process had "
        f"{memory.before_mb:.0f} before it"
    )
    if bench.minutes is not None:
        lines += _minute_lines(bench.minutes)
    return lines


def _rate_line(name: str, rate: Rate, base: bool) -> str:
    line = f"  {name:<24}{rate.median:8.1f}  ({rate.least:.1f} to {rate.most:.1f})"
    if base:
        return line
    return f"{line}, {rate.ratio:.2f} times the CPU time ({rate.ratio_least:.2f} to {rate.ratio_most:.2f})"


def _share_lines(bench: Bench) -> list[str]:
    """A column for each gear."""
    ways = list(bench.shares)
    lines = [f"{'share of each part:':<26}" + "".join(f"{way:>8}" for way in ways)]
    for part in bench.shares[STEP].parts:
        lines.append(f"  {part:<24}" + "".join(f"{bench.shares[way].parts[part]:8.1%}" for way in ways))
    costs = "".join(f"{bench.shares[way].doors - 1:8.1%}" for way in ways)
    return [*lines, f"  {'(looking at it adds)':<24}{costs}"]


def _minute_lines(minutes: LongRun) -> list[str]:
    lines = [
        f"memory at each of {len(minutes.mb)} simulated minutes, in MB (seed {minutes.seed}; "
        f"{minutes.cpu_s:.0f} s of CPU):"
    ]
    for first in range(0, len(minutes.mb), A_LINE):
        row = minutes.mb[first : first + A_LINE]
        lines.append(f"  {first + 1:>4}: " + " ".join(f"{mb:6.1f}" for mb in row))
    process_kb, disks_kb = minutes.growth_kb()
    lines.append(
        f"  in the second half {process_kb:+.0f} KB a minute, {disks_kb:+.0f} of them on simulated disks, "
        f"while {(minutes.committed[-1] - minutes.committed[len(minutes.mb) // 2]):,} records were committed"
    )
    return lines
