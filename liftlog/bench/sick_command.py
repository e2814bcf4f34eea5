"""`liftlog bench sick`: its options, and what it prints."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from liftlog.bench.checks import check_folder, check_ranges
from liftlog.bench.sick import CASES, LEARNING_S, SYNC_MS, SickCase, SickFinding, measure_case
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, print_figures
from liftlog.version import VERSION


def add_sick(kinds: Any) -> None:
    sick = kinds.add_parser(
        "sick",
        help="whether one sick node is everybody's latency",
        description="Three nodes, an open loop; one follower's disk is slow, then the leader's, then a "
        "follower is stopped for 2 s of every 5. Each case has a cluster of its own.",
    )
    sick.add_argument("--case", action="append", choices=CASES, help="only this one; may be repeated")
    sick.add_argument("--before", type=float, default=10.0, metavar="S", help="well before it (default 10 s)")
    sick.add_argument("--seconds", type=float, default=60.0, metavar="S", help="sick (default 60 s)")
    sick.add_argument("--after", type=float, default=20.0, metavar="S", help="well again (default 20 s)")
    sick.add_argument("--rate", type=float, default=3000.0, help="messages a second (default 3000)")
    sick.add_argument(
        "--sync-ms", type=float, default=SYNC_MS, help=f"so much longer a sync takes (default {SYNC_MS:g})"
    )
    sick.add_argument("--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)")
    sick.add_argument("--json", action="store_true", help="print one JSON object")
    sick.set_defaults(run=run_sick)


def run_sick(options: argparse.Namespace) -> int:
    ranges = (
        ("before", 3, 3600),
        ("seconds", 5, 3600),
        ("after", 3, 3600),
        ("rate", 100, 100_000),
        ("sync_ms", 1, 10_000),
    )
    check_ranges(options, ranges, "g")
    check_folder(options.dir)
    found = []
    for number, name in enumerate(options.case or CASES):
        case = SickCase(
            name, options.before, options.seconds, options.after, options.rate, options.sync_ms
        )
        with Scratch("bench", options.dir) as scratch, Activity() as activity:
            found.append(measure_case(scratch, case, number, activity))
    if options.json:
        cases = [asdict(finding) | {"ratio": finding.ratio} for finding in found]
        print(json.dumps({"version": VERSION, "rate": options.rate, "cases": cases}, indent=2))
    else:
        _print(options, found)
    return 0


def _print(options: argparse.Namespace, found: list[SickFinding]) -> None:
    console = Console(file=sys.stdout, highlight=False)
    title = f"{options.rate:g} messages a second, one node sick for {options.seconds:g} s"
    columns = ("before\np50", "\np99", "sick\np50", "\np99", "\ntimes", "no ack\nfor")
    table = figure_table(title, ["sick", *columns, "new\nleader", "new\nISR", "no\nack"])
    for each in found:
        table.add_row(
            each.case,
            *(f"{each.before[key]:.1f}" for key in ("p50", "p99")),
            *(f"{each.during[key]:.1f}" for key in ("p50", "p99")),
            f"{each.ratio:.1f}",
            f"{each.longest_gap_ms:.0f}",
            str(each.elections),
            str(each.isr_changes),
            str(each.unanswered + each.refused),
        )
    print_figures(console, table)
    console.print(
        f"Milliseconds from when a message was due. sick: what was due from {LEARNING_S:g} s after its "
        "beginning on; times: its p99 by that before. no ack for: the longest time between two acks while "
        "sick. new leader, new ISR: how often. no ack: messages without one, which were perhaps stored.",
        soft_wrap=True,
    )
    for each in found:
        story = "; ".join(
            f"{at_s:+.1f} s: node {leader} leads, in sync {', '.join(map(str, isr))}"
            for at_s, leader, isr in each.history
        )
        console.print(f"{each.case} (node {each.node}): {story}", soft_wrap=True)
