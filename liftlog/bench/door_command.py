"""What `liftlog bench jetstream` reads and prints."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from liftlog.bench.checks import check_folder, check_ranges
from liftlog.bench.door import Found, Visited, measure
from liftlog.bench.door_systems import DoorCluster, DoorSystem, PlainJetStream, fill
from liftlog.bench.door_user import PUBLISH, PULL, PUT, REPLAY, WORKS, Visit
from liftlog.bench.rounds import median_and_spread, ratios
from liftlog.messages import PULL_MAX
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, large_number, print_figures
from liftlog.version import VERSION

NOTES = """\
One program at a time, in Python with nats-py as it is, for all; rounds alternate, after one that does not
count. Medians are shown; spread is (max - min) / median. Ratios are liftlog's rate over the other's within a
round: median, least and greatest. CPU: microseconds a message of the servers, all their processes together,
and of the program. What is measured is checked: acks name sequences of their own, messages come once and in
order, and what was pulled is acked.

Every ack of liftlog follows a sync on every in-sync replica, of one for a pulled message too.
jetstream-always syncs messages before it acks them, jetstream-default every two minutes; acks of consumers
are confirmed by neither. put: many at once; put-in-turn: one after the other.

Where a program can choose it connects to the server of the stream's leader. All processes share this
machine: trust the ratios, not the digits.
"""
DEFAULT, ALWAYS = "jetstream-default", "jetstream-always"


class Aim(NamedTuple):
    """Our rate over another's is to be at least that."""

    work: str
    other: str
    least: float


def aims(replicas: int) -> list[Aim]:
    return [
        Aim(PUBLISH, DEFAULT, 1.0 if replicas > 1 else 0.9),
        Aim(PULL, DEFAULT, 0.7),
        Aim(REPLAY, DEFAULT, 1.0),
        Aim(PUT, ALWAYS, 5.0),
    ]


def add_jetstream(kinds: Any) -> None:
    jetstream = kinds.add_parser(
        "jetstream",
        help="programs that use JetStream, on liftlog's door and on nats-server",
        description="Starts everything it needs in a temporary folder, measures, and removes it again.",
    )
    jetstream.add_argument("--replicas", type=int, choices=(1, 3), default=1)
    jetstream.add_argument(
        "--works", nargs="+", choices=WORKS, default=list(WORKS), help="what is measured (default all)"
    )
    jetstream.add_argument(
        "--count", type=large_number, default=20_000, help="messages a round (default 20k)"
    )
    jetstream.add_argument("--size", type=int, default=128, help="payload bytes (default 128)")
    jetstream.add_argument("--batch", type=int, default=100, help="messages a fetch (default 100)")
    jetstream.add_argument("--at-once", type=int, default=100, help="puts under way (default 100)")
    jetstream.add_argument("--seconds", type=float, default=1.0, help="a round ends after this at the latest")
    jetstream.add_argument("--rounds", type=int, default=3, help="rounds for each (default 3)")
    jetstream.add_argument("--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)")
    jetstream.add_argument(
        "--vs",
        nargs="+",
        choices=(DEFAULT, ALWAYS),
        default=[DEFAULT, ALWAYS],
        help="what it is compared with (default both; a busy disk may leave no room for jetstream-always)",
    )
    jetstream.add_argument("--json", action="store_true", help="print one JSON object")
    jetstream.set_defaults(run=run_jetstream)


def run_jetstream(options: argparse.Namespace) -> int:
    _check(options)
    visit = Visit(
        url="",
        work="",
        name="",
        messages=options.count,
        size=options.size,
        batch=options.batch,
        at_once=options.at_once,
        seconds_max=options.seconds,
    )
    with Scratch("bench", options.dir) as scratch, Activity() as activity:
        systems: list[DoorSystem] = [
            DoorCluster(scratch, options.replicas),
            *(PlainJetStream(scratch, options.replicas, sync_always=one == ALWAYS) for one in options.vs),
        ]
        for system in systems:
            activity.show(f"starting {system.name}")
            system.start()
            fill(system, options.count, options.size)
        found = measure(systems, visit, options.works, options.rounds, activity.show)
    verdicts = verdicts_of(found, options.replicas)
    if options.json:
        print(json.dumps(_document(options, found, verdicts), indent=2))
    else:
        _print(options, found, verdicts)
    return 0


def _check(options: argparse.Namespace) -> None:
    ranges = (
        ("count", 100, 10_000_000),
        ("size", 1, 500_000),
        ("batch", 1, PULL_MAX),
        ("at_once", 1, 10_000),
        ("seconds", 0.5, 3600),
        ("rounds", 1, 1000),
    )
    check_ranges(options, ranges, "g")
    check_folder(options.dir)


def verdicts_of(found: Found, replicas: int) -> list[str]:
    """How liftlog compares, work by work, with what was aimed at beside it."""
    wanted = {(aim.work, aim.other): aim.least for aim in aims(replicas)}
    return [
        _compared(work, other, rounds["liftlog"], rounds[other], wanted.get((work, other), 0.0))
        for work, rounds in found.items()
        for other in rounds
        if other != "liftlog"
    ]


def _compared(work: str, other: str, mine: list[Visited], its: list[Visited], aim: float) -> str:
    """`aim`: it is met from there on; 0: none was set."""
    rates = ratios([one.rate for one in mine], [one.rate for one in its])
    over = statistics.median(rates)
    cpu = statistics.median(ratios([one.cpu_us for one in mine], [one.cpu_us for one in its]))
    told = f"{work}: {over:.2f} times the rate of {other} ({min(rates):.2f} to {max(rates):.2f}), "
    told += f"{cpu:.1f} times its CPU"
    return f"{told} (aim: at least {aim:g}, {'met' if over >= aim else 'missed'})" if aim else told


def _document(options: argparse.Namespace, found: Found, verdicts: list[str]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "replicas": options.replicas,
        "size": options.size,
        "batch": options.batch,
        "at_once": options.at_once,
        "works": {
            work: {name: [asdict(one) for one in each] for name, each in rounds.items()}
            for work, rounds in found.items()
        },
        "verdicts": verdicts,
    }


def _print(options: argparse.Namespace, found: Found, verdicts: list[str]) -> None:
    console = Console(file=sys.stdout, highlight=False)
    title = f"{options.replicas} replica{'s' * (options.replicas > 1)}, {options.size} bytes, "
    title += f"median of {options.rounds}"
    table = figure_table(title, ["", "messages/s", "spread", "server CPU us", "client CPU us"])
    for work, systems in found.items():
        for name, rounds in systems.items():
            rate, spread = median_and_spread([one.rate for one in rounds])
            cpu_us = statistics.median(one.cpu_us for one in rounds)
            client_us = statistics.median(one.client_cpu_us for one in rounds)
            table.add_row(
                f"{work}, {name}", f"{rate:,.0f}", f"{spread:.0%}", f"{cpu_us:.1f}", f"{client_us:.1f}"
            )
    print_figures(console, table)
    for verdict in verdicts:
        console.print(verdict, soft_wrap=True)
    console.print(f"\n{NOTES}", end="", soft_wrap=True)
