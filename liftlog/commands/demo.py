"""`liftlog demo`: the whole story in one go."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from liftlog.demo.checking import SparkResult
from liftlog.demo.display import Display
from liftlog.demo.story import DemoOptions, Summary, run_demo
from liftlog.types import LiftlogError

MESSAGES = 300_000
MESSAGES_MIN = 100
SEEDS = 40


def add_parser(subparsers: Any) -> None:
    demo = subparsers.add_parser(
        "demo",
        help="the whole story in one go",
        description=(
            "Simulates clusters under faults, catches a planted bug, runs three real nodes on NATS, kills the "
            "leader in mid-stream, reads everything back from every replica and checks the history on Spark. "
            "Exit codes: 0 all good, 1 a violation was found, 2 something was missing (Java, say)."
        ),
    )
    demo.add_argument("--input", type=Path, metavar="FILE", help="publish this file's lines instead")
    demo.add_argument(
        "--messages", type=int, default=MESSAGES, metavar="N", help=f"at most N lines (default {MESSAGES})"
    )
    demo.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help=f"to simulate (default {SEEDS})")
    demo.add_argument("--jobs", type=int, default=2, metavar="N", help="simulations at a time (default 2)")
    demo.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="for results")
    demo.add_argument("--json", action="store_true", help="print the summary as JSON")
    demo.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    for name, low in (("messages", MESSAGES_MIN), ("seeds", 1), ("jobs", 1)):
        if getattr(arguments, name) < low:
            raise LiftlogError(f"--{name} {getattr(arguments, name)} is too small; choose {low} or more")
    options = DemoOptions(
        source=arguments.input,
        messages=arguments.messages,
        seeds=arguments.seeds,
        jobs=arguments.jobs,
        store=arguments.store,
    )
    summary = run_demo(options, Display())
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(summary)).decode())
    else:
        _print(summary)
    return summary.exit_code


def _print(summary: Summary) -> None:
    real, simulation = summary.real, summary.simulation
    console = Console(file=sys.stdout, highlight=False)
    table = Table(title="liftlog demo", show_header=False, title_justify="left")
    rows = {
        "simulated": f"{simulation.seeds} clusters, {simulation.simulated_seconds:,.0f} s of cluster time, "
        f"{simulation.faults:,} faults",
        "invariants checked": f"{simulation.checks:,} times, {simulation.violations} violations",
        "planted bug": f"{'caught by ' + summary.planted.invariant if summary.planted.caught else 'NOT caught'}"
        f"  ({summary.planted.replay})",
        "messages": f"{real.messages:,}",
        "acked": f"{real.acked:,}",
        "lost": f"{real.lost}",
        "sent again": f"{real.attempts - real.messages:,} ({real.unknown:,} unanswered, {real.refused:,} refused)",
        "fail-over": f"{real.failover_ms:,.0f} ms from SIGKILL of the leader (node {real.killed_node}) to the next ack",
        "throughput": f"{real.acked_per_second:,.0f} acked msg/s with the fail-over, "
        f"{real.acked_per_second_before_kill:,.0f} before it",
        "Spark": _verdict(summary.spark) if summary.spark is not None else summary.missing,
        "report": summary.spark.report if summary.spark is not None else f"none; summary in {summary.folder}",
        "took": f"{summary.seconds:.0f} s",
    }
    for name, text in rows.items():
        table.add_row(name, text)
    console.print(table)


def _verdict(spark: SparkResult) -> str:
    anomalies = ", ".join(spark.anomalies) or "no anomaly"
    return f"{spark.verdict}: {spark.operations:,} operations, {anomalies}"
