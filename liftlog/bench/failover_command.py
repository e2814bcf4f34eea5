"""What `liftlog bench failover` reads and prints."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from liftlog.bench.checks import check_folder, check_range
from liftlog.bench.failover import LiftlogVictim, Outage, Victim, load_of, measure_kills, summary_of_kills
from liftlog.bench.jetstream_victim import JetStreamVictim
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, print_figures
from liftlog.version import VERSION

SUBJECT = "bench.failover"
STREAM = "bench"
NOTES = """\
Milliseconds without an ack around a SIGKILL of the stream's leader, as a publisher sees them that sends at
fixed times and never again. Every second one led the metadata too (liftlog: the controller; JetStream: as
often as the stream's leader could be moved there): "both", of which there were "of both". liftlog's nodes are
killed, not the NATS server that they use; with JetStream that is one process, and the publisher is connected
to another server. p99: the nearest rank. acked, gone: acknowledged messages whose sequence number another one
was given later; at least so many are lost (liftlog: the command would have ended with an error).
"""


def add_failover(kinds: Any) -> None:
    failover = kinds.add_parser(
        "failover",
        help="how long writes stop when a leader is killed",
        description="Three servers in a temporary folder; in each round the leader gets SIGKILL.",
    )
    failover.add_argument("--kills", type=int, default=30, help="how often (default 30)")
    failover.add_argument("--vs", choices=("jetstream",), help="also kill JetStream's leader, in turns")
    failover.add_argument("--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)")
    failover.add_argument("--json", action="store_true", help="print one JSON object")
    failover.set_defaults(run=run_failover)


def run_failover(options: argparse.Namespace) -> int:
    check_range("kills", options.kills, 1, 1000)
    check_folder(options.dir)
    with Scratch("bench", options.dir) as scratch, Activity() as activity:
        victims: list[Victim] = [LiftlogVictim(scratch, SUBJECT, STREAM)]
        if options.vs == "jetstream":
            victims.append(JetStreamVictim(scratch, False, SUBJECT, STREAM))
        found = measure_kills(victims, options.kills, load_of(SUBJECT, STREAM), activity.show)
    if options.json:
        systems = {
            name: {**summary_of_kills(kills), "rounds": [asdict(kill) for kill in kills]}
            for name, kills in found.items()
        }
        print(json.dumps({"version": VERSION, "python": platform.python_version(), **systems}, indent=2))
    else:
        _print(found)
    return 0


def _print(found: dict[str, list[Outage]]) -> None:
    console = Console(file=sys.stdout, highlight=False)
    columns = ("kills", "p50", "p99", "max", "one: p50", "both: p50", "of both", "acked, gone")
    table = figure_table(None, ["killed", *columns])
    for name, kills in found.items():
        told = summary_of_kills(kills)
        figures = [told.get(key) for key in ("p50_ms", "p99_ms", "max_ms", "one_p50_ms", "both_p50_ms")]
        shown = ["" if figure is None else f"{figure:,.0f}" for figure in figures]
        counts = (sum(kill.both for kill in kills), sum(kill.overwritten for kill in kills))
        table.add_row(name, str(len(kills)), *shown, *map(str, counts))
    print_figures(console, table)
    console.print(NOTES, soft_wrap=True)
