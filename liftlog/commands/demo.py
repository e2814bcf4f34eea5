"""`liftlog demo`: the whole story in one go."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from liftlog.demo.display import Display
from liftlog.demo.story import DemoOptions, DemoSummary, run_demo
from liftlog.demo.work import PROGRAMS
from liftlog.types import LiftlogError

MESSAGES = 300_000
MESSAGES_MIN = 100
SEEDS = 100


def add_parser(subparsers: Any) -> None:
    demo = subparsers.add_parser(
        "demo",
        help="the whole story in one go",
        description=(
            "Simulates clusters under faults, catches a planted bug, runs three real nodes on NATS, kills "
            "the leader in mid-stream, and once more under a durable consumer and a processor, reads every "
            "replica back and checks the history on Spark. "
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


def _print(summary: DemoSummary) -> None:
    table = Table(title="liftlog demo", title_justify="left", show_header=False, box=box.ROUNDED)
    for name, text in rows(summary):
        table.add_row(name, text)
    Console(file=sys.stdout, highlight=False).print(table)


def rows(summary: DemoSummary) -> Iterator[tuple[str, str]]:
    """What the summary's table says, by name."""
    simulation, planted, real, spark = summary.simulation, summary.planted, summary.real, summary.spark
    yield (
        "simulated",
        f"{simulation.seeds} clusters, {simulation.simulated_seconds:,.0f} s of their time, "
        f"{simulation.faults:,} faults",
    )
    yield "invariants", f"checked {simulation.checks:,} times, {simulation.violations} violations"
    if simulation.unreached:
        yield "never reached", f"{', '.join(simulation.unreached)}: so few worlds prove too little"
    yield "planted bug", f"caught by {planted.invariant}" if planted.caught else "NOT caught"
    yield "messages", f"{real.messages:,}"
    yield "acked", f"{real.acked:,}"
    yield "lost", f"{real.lost}"
    again = real.attempts - real.messages
    yield "sent again", f"{again:,}: {real.unknown:,} unanswered, {real.refused:,} with nobody to take them"
    yield (
        "fail-over",
        f"{real.failover_ms:,.0f} ms from the SIGKILL of node {real.killed_node} to the next ack",
    )
    yield (
        "throughput",
        f"{real.acked_per_second:,.0f} acked msg/s with the fail-over, "
        f"{real.acked_per_second_before_kill:,.0f} before it; {real.read_per_second:,.0f} read/s",
    )
    consumer, processor = real.consumer, real.processor
    yield (
        "consumer",
        f"{consumer.acked:,} messages acked by {PROGRAMS} programs, through the SIGKILL of node "
        f"{consumer.killed_node}; {consumer.again:,} given again, {consumer.acked_again} of them after their "
        f"ack; {consumer.never_acked} skipped",
    )
    made = f"{processor.outputs:,} outputs of {processor.inputs:,} messages"
    yield "processor", f"{made}, {processor.wrong} missing, doubled or wrong"
    if spark is None:
        yield "Spark", summary.missing
        yield "summary", f"{summary.folder}/summary.json"
    else:
        found = ", ".join(spark.anomalies) or "no anomaly"
        yield "Spark", f"{spark.verdict}: {spark.operations:,} operations, {found}"
        yield "report", spark.report
    yield "took", f"{summary.seconds:.0f} s"
