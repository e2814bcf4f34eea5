"""What `liftlog bench partitions` reads and prints."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from liftlog.bench.checks import check_folder, check_ranges
from liftlog.bench.jetstream_many import JetStreamMany, JetStreamStreams
from liftlog.bench.partitions import ManyPartitions, Phase
from liftlog.protocolranges import PROTOCOL_RANGES
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, print_figures
from liftlog.version import VERSION

NOTES = """\
s: until all streams are created with every leader subscribed at NATS, or until every partition of the killed
node is led by another one that is. moved: partitions that it led. Steps: of all nodes that lived through the
phase, in ms of thread CPU time, as upper ends of the nodes' buckets; nothing else runs in a node during a
step. CPU: of one core, for each of these nodes. All processes share this machine: its load is in the seconds
and not in the steps.
"""


def add_partitions(kinds: Any) -> None:
    partitions = kinds.add_parser(
        "partitions",
        help="what many partitions cost: created, at rest, and when a node dies",
        description="Nodes in a temporary folder; two of them get SIGKILL, one after the other.",
    )
    partitions.add_argument("--partitions", type=int, default=2000, help="of all streams (default 2000)")
    partitions.add_argument("--nodes", type=int, default=3, help="3 to 7 (default 3)")
    partitions.add_argument("--idle", type=float, default=10.0, help="seconds at rest (default 10)")
    partitions.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=N",
        help="a setting of the nodes' [protocol], as tick_ms=150; may be repeated",
    )
    partitions.add_argument(
        "--vs", choices=("jetstream",), help="also create as many JetStream streams of three copies on files"
    )
    partitions.add_argument(
        "--vs-seconds", type=float, default=120.0, help="and so long at most (default 120)"
    )
    partitions.add_argument(
        "--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)"
    )
    partitions.add_argument("--json", action="store_true", help="print one JSON object")
    partitions.set_defaults(run=run_partitions)


def _setting(text: str) -> tuple[str, int]:
    """For argparse. What the settings are, and how far they go, the nodes say."""
    name, _, number = text.partition("=")
    if name not in PROTOCOL_RANGES or not number.isdecimal():
        raise argparse.ArgumentTypeError(
            f"'{text}' is no setting: write NAME=N with a name of the nodes' [protocol], as tick_ms=150"
        )
    return name, int(number)


def run_partitions(options: argparse.Namespace) -> int:
    ranges = (("partitions", 1, 100_000), ("nodes", 3, 7), ("idle", 0.5, 3600), ("vs_seconds", 1, 3600))
    check_ranges(options, ranges)
    check_folder(options.dir)
    theirs: JetStreamStreams | None = None
    with Activity() as activity:
        with Scratch("bench", options.dir) as scratch:
            many = ManyPartitions(scratch, options.partitions, options.nodes, dict(options.set))
            phases = many.measure(options.idle, activity.show)
        if options.vs == "jetstream":
            activity.show("creating JetStream streams")
            with Scratch("bench", options.dir) as scratch:
                jetstream = JetStreamMany(scratch, options.nodes)
                theirs = jetstream.measure(options.partitions, options.vs_seconds, options.idle)
    if options.json:
        found = {
            "version": VERSION,
            "python": platform.python_version(),
            "partitions": options.partitions,
            "nodes": options.nodes,
            "protocol": dict(options.set),
            "phases": [asdict(phase) for phase in phases],
            "jetstream": asdict(theirs) if theirs is not None else None,
        }
        print(json.dumps(found, indent=2))
    else:
        _print(options, phases, theirs)
    return 0


def _print(options: argparse.Namespace, phases: list[Phase], theirs: JetStreamStreams | None) -> None:
    console = Console(file=sys.stdout, highlight=False)
    title = f"{options.partitions} partitions on {options.nodes} nodes"
    table = figure_table(title, ["phase", "s", "moved", "steps", "p50", "p99", "p99.9", "max", "CPU"])
    for phase in phases:
        table.add_row(
            phase.name,
            f"{phase.seconds:.1f}",
            str(phase.moved) if phase.moved else "",
            f"{phase.steps:,}",
            *(f"{value:g}" for value in (phase.p50_ms, phase.p99_ms, phase.p999_ms, phase.max_ms)),
            f"{phase.cpu_share:.2f}",
        )
    print_figures(console, table)
    if theirs is not None:
        console.print(
            f"JetStream: {theirs.created} streams of three copies in {theirs.seconds:.1f} s, "
            f"{theirs.refused} requests failed; at rest {theirs.idle_cpu_share:.2f} of a core a server.",
            soft_wrap=True,
        )
    console.print(NOTES, end="", soft_wrap=True)
