"""What `liftlog bench latency` reads and prints."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from liftlog.bench.checks import check_folder, check_range
from liftlog.bench.cluster import LiftlogCluster
from liftlog.bench.floor import NAMES, Floor
from liftlog.bench.jetstream import JetStream
from liftlog.bench.latency import (
    FIVE,
    Configuration,
    Contender,
    LatencySummary,
    check_disk,
    disk_bytes_needed,
    measure_latency,
    ratios,
    start_all,
)
from liftlog.bench.openloop import OpenLoad
from liftlog.bench.percentile_plot import Panel, percentile_picture
from liftlog.commands.breakdownview import BreakdownView, compare
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, print_figures
from liftlog.types import LiftlogError
from liftlog.version import VERSION

SUBJECT = "bench.latency"
STREAM = "bench"
COMPARED = ("p50", "p99")
COMPARED_WITH = ("responder", "resp.-sync", "default")
SHOWN = ("p50", "p90", "p99", "p99.9", "p99.99", "max")
RATE_MAX = 200_000
SECONDS_MAX = 600
MESSAGES_MAX = 5_000_000
"""A round keeps every answer until it is over."""
CONNECTIONS_MAX = 500
GREATEST = {"size": 1_000_000, "rate": RATE_MAX, "connections": CONNECTIONS_MAX, "rounds": 100}
LEAST = {"size": 20, "rate": 1, "connections": 1, "rounds": 1}

NOTES = """\
Milliseconds from the time at which a message was due to its ack, whether or not those before it were
answered. Shown are medians of the rounds (max: of all), ratios are medians of the ratios within the rounds.
A percentile that needs more messages than a round has is the round's maximum.

responder        a Python process that subscribes and acknowledges at once: the floor of NATS and Python
responder-sync   the same with one write and one fdatasync for whatever had arrived: the floor of an ack that
                 means "on disk"
request-reply    the same with the message itself as the answer: what plain NATS costs

default          JetStream with as many replicas as the system, which syncs every two minutes

CPU: microseconds a message, of all servers + of the generator. late: how late the generator sent, p99 in ms;
it is part of every latency above. All processes share this machine: trust the ratios, not the digits.
{priority}
"""
PRIORITY = {
    True: "The generator had real-time priority: load from another machine would not wait either.",
    False: "The generator had no real-time priority (not permitted: run this as root, or after\n"
    "'ulimit -r 1') and was late when the servers kept all processors busy.",
}


def add_latency(kinds: Any) -> None:
    latency = kinds.add_parser(
        "latency",
        help="response times at fixed rates, from the time at which a message was due",
        description="Starts everything it needs in a temporary folder, measures, and removes it again.",
    )
    latency.add_argument(
        "--replicas", type=int, nargs="+", choices=(1, 3), default=[1], help="1, 3 or both (default 1)"
    )
    latency.add_argument("--size", type=int, help="payload bytes (default 256)")
    latency.add_argument("--rate", type=float, help="messages a second over all connections (default 3000)")
    latency.add_argument("--connections", type=int, help="connections of the generator (default 1)")
    latency.add_argument(
        "--five", action="store_true", help="instead: " + "; ".join(str(one) for one in FIVE)
    )
    latency.add_argument("--seconds", type=float, default=10.0, help="a round (default 10)")
    latency.add_argument("--rounds", type=int, default=5, help="rounds for each system (default 5)")
    latency.add_argument("--vs", choices=("jetstream",), help="also measure JetStream, default and synced")
    latency.add_argument(
        "--breakdown", action="store_true", help="also tell where messages waited on liftlog's nodes"
    )
    latency.add_argument("--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)")
    latency.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write JSON; no FILE: print it")
    latency.add_argument("--svg", type=Path, metavar="FILE", help="draw the percentiles")
    latency.add_argument("--markdown", action="store_true", help="print the tables for a page")
    latency.set_defaults(run=run_latency)


def run_latency(options: argparse.Namespace) -> int:
    configurations = _configurations(options)
    replicas = sorted(set(options.replicas))
    with Scratch("bench", options.dir) as scratch, Activity() as activity:
        copies = sum(replicas) * (3 if options.vs else 1)
        check_disk(scratch.folder, disk_bytes_needed(configurations, options.seconds, options.rounds, copies))
        contenders = _contenders(scratch, replicas, options.vs == "jetstream")
        start_all(contenders, activity.show)
        found: Found = {}
        breakdowns: Breakdowns = {}
        for configuration in configurations:
            activity.show(str(configuration))
            load = OpenLoad(
                port=0,
                subject=SUBJECT,
                stream=STREAM,
                rate=configuration.rate,
                size=configuration.size,
                seconds=options.seconds,
                connections=configuration.connections,
            )
            followed = _Followed(contenders if options.breakdown else ())
            found[configuration] = measure_latency(contenders, load, options.rounds, activity.show)
            breakdowns[configuration] = followed.until_now()
    _write(options, replicas, found, breakdowns)
    # A refusal of somebody else's is his affair; ours is a failed measurement.
    ours = [one for systems in found.values() for name, one in systems.items() if "jetstream" not in name]
    return 1 if any(one.lost for one in ours) else 0


def _contenders(scratch: Scratch, replicas: Sequence[int], jetstream: bool) -> list[Contender]:
    contenders: list[Contender] = [
        Floor(scratch, kind, SUBJECT, STREAM) for kind in ("echo", "answer", "sync")
    ]
    for count in replicas:
        contenders.append(LiftlogCluster(scratch, count, SUBJECT, STREAM, f"liftlog-{count}"))
        if jetstream:
            contenders += [
                JetStream(scratch, count, always, SUBJECT, STREAM, f"-{count}") for always in (False, True)
            ]
    return contenders


def _configurations(options: argparse.Namespace) -> Sequence[Configuration]:
    """What is to be measured. Raises LiftlogError for values out of range."""
    own = {name: getattr(options, name) for name in ("size", "rate", "connections")}
    given = {name: value for name, value in own.items() if value is not None}
    if options.five and given:
        raise LiftlogError(f"--five names its own loads; leave out --{next(iter(given))}")
    for name, value in (given | {"rounds": options.rounds}).items():
        check_range(name, value, LEAST[name], GREATEST[name], "g")
    check_range("seconds", options.seconds, 0.5, SECONDS_MAX, "g")
    configurations = FIVE if options.five else (Configuration(**({"size": 256, "rate": 3000.0} | given)),)
    for one in configurations:
        if one.rate * options.seconds > MESSAGES_MAX:
            raise LiftlogError(
                f"{one.rate:,g} a second for {options.seconds:g} seconds are more than {MESSAGES_MAX:,} "
                "messages a round; choose fewer --seconds or a lower --rate"
            )
    check_folder(options.dir)
    for option, path in (("json", options.json), ("svg", options.svg)):
        if path in (None, "-"):
            continue
        if Path(path).is_dir() or not os.access(Path(path).resolve().parent, os.W_OK):
            raise LiftlogError(f"--{option} {path} cannot be written; name a file in a folder of yours")
    return configurations


Found = dict[Configuration, dict[str, LatencySummary]]
Breakdowns = dict[Configuration, dict[str, BreakdownView]]


class _Followed:
    """Where messages wait on the nodes of those of these systems that are liftlog, from now on."""

    def __init__(self, contenders: Sequence[Contender]) -> None:
        self._clusters = [one for one in contenders if isinstance(one, LiftlogCluster)]
        self._before = {cluster.name: cluster.counters() for cluster in self._clusters}
        self._began_s = time.monotonic()

    def until_now(self) -> dict[str, BreakdownView]:
        """By system; rounds that warmed up are among them. Raises LiftlogError."""
        seconds = time.monotonic() - self._began_s
        return {
            cluster.name: compare(self._before[cluster.name], cluster.counters(), (), seconds)
            for cluster in self._clusters
        }


def references_of(name: str) -> tuple[str, ...]:
    """What a system is compared with: both floors, and JetStream's default with as many replicas."""
    replicas = name.rpartition("-")[2]
    ours = (f"jetstream-default-{replicas}",) if replicas.isdigit() else ()
    return (NAMES["answer"], NAMES["sync"], *ours)


def _ratios(systems: dict[str, LatencySummary]) -> dict[str, dict[str, dict[str, float]]]:
    return {name: ratios(systems, references_of(name), COMPARED)[name] for name in systems}


def _write(
    options: argparse.Namespace, replicas: Sequence[int], found: Found, breakdowns: Breakdowns
) -> None:
    document = json.dumps(_document(options, replicas, found, breakdowns), indent=2)
    if options.json == "-":
        print(document)
    else:
        console = Console(file=sys.stdout, highlight=False)
        for configuration, systems in found.items():
            _print(console, options, configuration, systems)
            for name, view in breakdowns[configuration].items():
                _print_breakdown(console, options, f"{name}, {configuration}: where groups waited", view)
        rounds = [found for systems in found.values() for one in systems.values() for found in one.rounds]
        notes = NOTES.format(priority=PRIORITY[any(found.realtime for found in rounds)])
        console.print(f"\n{notes}", end="", soft_wrap=True)
    panels = [
        Panel(
            f"{configuration}, from due to acknowledged",
            {name: one.distribution for name, one in systems.items() if one.valid},
        )
        for configuration, systems in found.items()
    ]
    files = {options.svg: percentile_picture(panels), options.json: document + "\n"}
    for path, text in files.items():
        if path not in (None, "-"):
            try:
                Path(path).write_text(text, encoding="utf-8")
            except OSError as error:
                raise LiftlogError(f"cannot write {path}: {error.strerror}; name another file") from None


def _document(
    options: argparse.Namespace, replicas: Sequence[int], found: Found, breakdowns: Breakdowns
) -> dict[str, Any]:
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "replicas": list(replicas),
        "seconds": options.seconds,
        "configurations": [
            {
                "size": configuration.size,
                "rate": configuration.rate,
                "connections": configuration.connections,
                "systems": {name: one.to_json() for name, one in systems.items()},
                "ratios": _ratios(systems),
                **_plain(breakdowns[configuration]),
            }
            for configuration, systems in found.items()
        ],
    }


def _print(
    console: Console,
    options: argparse.Namespace,
    configuration: Configuration,
    systems: dict[str, LatencySummary],
) -> None:
    title = f"{configuration}, ms from due to ack, median of {options.rounds}"
    table = _table(options, title, *SHOWN, "acked/s")
    for name, one in systems.items():
        values = [_short(one.latency_ms(p)) for p in SHOWN] if one.valid else ["-"] * len(SHOWN)
        table.add_row(name, *values, f"{one.median(lambda found: found.acked_per_s):,.0f}")
    print_figures(console, table)
    table = _table(options, "p50/p99 as a multiple of theirs; costs", *COMPARED_WITH, "CPU", "late")
    references = (NAMES["answer"], NAMES["sync"], "jetstream-default-")
    for name, compared in _ratios(systems).items():
        one = systems[name]
        servers = one.median(lambda found: found.server_cpu_us_per_message)
        generator = one.median(lambda found: found.generator_cpu_us_per_message)
        table.add_row(
            name,
            *(_multiples(compared, reference) for reference in references),
            f"{servers:.0f}+{generator:.0f}",
            _short(one.median(lambda found: found.late_ms.get("p99", 0.0))),
        )
    print_figures(console, table)
    for name, one in systems.items():
        if one.troubles:
            counted = "counts as slower than any" if one.valid else "no result"
            console.print(
                f"{name}: {counted}; {len(one.troubles)} of {len(one.rounds)} rounds: {one.troubles[0]}",
                soft_wrap=True,
                markup=False,
            )


def _plain(views: dict[str, BreakdownView]) -> dict[str, Any]:
    return {"breakdown": {name: view.to_json() for name, view in views.items()}} if views else {}


def _print_breakdown(console: Console, options: argparse.Namespace, title: str, view: BreakdownView) -> None:
    fence = ["```"] if options.markdown else []
    lines = [title, "", *fence, *view.lines, *fence, ""]
    console.print("\n".join(lines), soft_wrap=True, markup=False)


def _table(options: argparse.Namespace, title: str, *columns: str) -> Table:
    style = box.MARKDOWN if options.markdown else box.SIMPLE
    table = Table(title=title, title_justify="left", box=style, padding=(0, 1), pad_edge=options.markdown)
    table.add_column("system", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _multiples(compared: dict[str, dict[str, float]], reference: str) -> str:
    """`reference`: a system, or its name without the replicas."""
    for name, its in compared.items():
        if name == reference or name.rstrip("13") == reference:
            return "/".join(f"{its[p]:.1f}" if its[p] < 100 else f"{its[p]:.0f}" for p in COMPARED)
    return "-"


def _short(milliseconds: float) -> str:
    """Three significant digits."""
    if milliseconds >= 100:
        return f"{milliseconds:,.0f}"
    return f"{milliseconds:.1f}" if milliseconds >= 10 else f"{milliseconds:.2f}"
