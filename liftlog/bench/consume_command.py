"""What `liftlog bench consume` reads and prints."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from liftlog.bench.checks import check_folder, check_ranges
from liftlog.bench.cluster import LiftlogCluster
from liftlog.bench.consume import (
    JETSTREAM_AIM,
    PUBLISH_AIM,
    RUNS_AIM,
    STREAM,
    SUBJECT,
    Beside,
    Consumption,
    Measured,
    fill,
    measure_publishing,
    measure_rates,
    ratio,
)
from liftlog.bench.consume_many import (
    AT_REST_AIM,
    MEMORY_AIM_MB,
    STEP_AIM_MS,
    ManyPhase,
    our_many,
    their_many,
)
from liftlog.bench.consumer import JETSTREAM_ACK, JETSTREAM_SYNC, JOINED, RUNS, SINGLE, Duties
from liftlog.bench.jetstream import JetStream
from liftlog.bench.openloop import OpenLoad
from liftlog.bench.rounds import median_and_spread
from liftlog.messages import PULL_MAX
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, large_number, print_figures
from liftlog.types import LiftlogError
from liftlog.version import VERSION

NOTES = """\
One consuming process at a time, in Python's asyncio, for all: it fetches a batch, acks its messages, fetches
the next; from the first fetch until no message waits for an ack. Rounds alternate; medians are shown, and
ratios are medians of those within the rounds. CPU: microseconds a message.

single: a request for each message, all of a batch under way at once; joined: the same program with
`PullConsumer.ack`, which joins them; runs: one call for the batch; in-turn: one after the other, each
awaited. Every ack of liftlog follows a sync on every in-sync replica. jetstream-ack is a publication that
nobody confirms; jetstream-sync is confirmed, but nothing is synced by then.

publishing: an open loop, milliseconds from due to acked, with and without a consumer of the partition that
takes and acks the messages meanwhile. Many consumers: CPU of one core and resident memory of a server; steps
of a node in ms of thread CPU time, as upper ends of buckets. All processes share this machine: trust the
ratios, not the digits.
"""
Found = dict[str, Any]


def add_consume(kinds: Any) -> None:
    consume = kinds.add_parser(
        "consume",
        help="durable consumers: acked deliveries per second, what they cost publishers, many of them",
        description="Starts everything it needs in a temporary folder, measures, and removes it again.",
    )
    consume.add_argument("--replicas", type=int, choices=(1, 3), default=1)
    consume.add_argument("--count", type=large_number, default=20_000, help="messages a round (default 20k)")
    consume.add_argument("--size", type=int, default=128, help="payload bytes (default 128)")
    consume.add_argument("--batch", type=int, default=100, help="messages a fetch (default 100)")
    consume.add_argument("--seconds", type=float, default=5.0, help="a round ends after this at the latest")
    consume.add_argument("--rounds", type=int, default=3, help="rounds for each (default 3)")
    consume.add_argument(
        "--rate", type=float, default=1000.0, help="published a second beside a consumer; 0: not measured"
    )
    consume.add_argument(
        "--consumers", type=int, default=1000, help="how many at once (default 1000); 0: not measured"
    )
    consume.add_argument("--idle", type=float, default=5.0, help="seconds at rest with these (default 5)")
    consume.add_argument("--vs", choices=("jetstream",), help="also measure JetStream's durable consumers")
    consume.add_argument("--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)")
    consume.add_argument("--json", action="store_true", help="print one JSON object")
    consume.set_defaults(run=run_consume)


def run_consume(options: argparse.Namespace) -> int:
    _check(options)
    theirs = options.vs == "jetstream"
    many: dict[str, list[ManyPhase]] = {}
    publishing: dict[str, list[Beside]] = {}
    with Activity() as activity:
        with Scratch("bench", options.dir) as scratch:
            systems: list[Measured] = [
                LiftlogCluster(scratch, options.replicas, SUBJECT, STREAM, removal=True)
            ]
            if theirs:
                systems.append(JetStream(scratch, options.replicas, False, SUBJECT, STREAM))
            for system in systems:
                activity.show(f"starting {system.name}")
                system.start()
                fill(system, options.count, options.size)
            duties = Duties(
                url="",
                stream=STREAM,
                name="",
                way="",
                messages=options.count,
                batch=options.batch,
                seconds_max=options.seconds,
            )
            rates = measure_rates(systems, duties, options.rounds, activity.show)
            if options.rate:
                load = OpenLoad(
                    0, SUBJECT, STREAM, rate=options.rate, size=options.size, seconds=options.seconds
                )
                publishing = measure_publishing(systems, load, options.batch, options.rounds, activity.show)
        if options.consumers:
            with Scratch("bench", options.dir) as scratch:
                many["liftlog"] = our_many(scratch, options.consumers, options.idle, activity.show)
            if theirs:
                with Scratch("bench", options.dir) as scratch:
                    many["jetstream"] = their_many(scratch, options.consumers, options.idle, activity.show)
    verdicts = verdicts_of(rates, publishing, many)
    if options.json:
        print(json.dumps(_document(options, rates, publishing, many, verdicts), indent=2))
    else:
        _print(options, rates, publishing, many, verdicts)
    return 0


def _check(options: argparse.Namespace) -> None:
    ranges = (
        ("count", 100, 10_000_000),
        ("size", 20, 100_000),
        ("batch", 1, PULL_MAX),
        ("seconds", 0.5, 3600),
        ("rounds", 1, 1000),
        ("rate", 0, 100_000),
        ("consumers", 0, 10_000),
        ("idle", 0.5, 3600),
    )
    check_ranges(options, ranges, "g")
    if 0 < options.rate < 1:
        raise LiftlogError(f"--rate {options.rate:g} is out of range; choose 1 to 100000, or 0")
    check_folder(options.dir)


def verdicts_of(
    rates: dict[str, list[Consumption]],
    publishing: dict[str, list[Beside]],
    many: dict[str, list[ManyPhase]],
) -> list[str]:
    """What was measured beside each aim, and how the ways of acking compare."""
    found = [
        _compared(rates, JOINED, f"liftlog {SINGLE}"),
        _compared(rates, RUNS, f"liftlog {SINGLE}", RUNS_AIM),
    ]
    for name in rates:
        if name.endswith((JETSTREAM_ACK, JETSTREAM_SYNC)):
            aim = JETSTREAM_AIM if name.endswith(JETSTREAM_ACK) else 0.0
            found += [_compared(rates, way, name, aim) for way in (SINGLE, JOINED)]
            found.append(_compared(rates, RUNS, name))
    cpu_us = statistics.median(one.server_cpu_us for one in rates[f"liftlog {SINGLE}"])
    found.append(_at_most("server CPU of a single ack, us", cpu_us))
    for name, rounds in publishing.items():
        beside = publishing.get(f"{name} busy")
        if beside is not None:
            p50 = ratio([one.p50_ms for one in beside], [one.p50_ms for one in rounds])
            p99 = ratio([one.p99_ms for one in beside], [one.p99_ms for one in rounds])
            aim = PUBLISH_AIM if name == "liftlog" else 0.0
            what = f"{name}: publishing beside a busy consumer, p50 over that without"
            found.append(_at_most(what, p50, aim))
            found.append(_at_most(f"{name}: p99 of the same", p99))
    for name, phases in many.items():
        grown_mb = phases[2].memory_mb - phases[0].memory_mb
        found.append(f"{name}: {grown_mb:.1f} MB more with the consumers than without")
        if name == "liftlog":
            found.append(_at_most("the node with them, MB", phases[2].memory_mb, MEMORY_AIM_MB))
            found.append(_at_most("its share of a core with all at rest", phases[2].cpu_share, AT_REST_AIM))
            longest_ms = max(one.step_max_ms for one in phases)
            found.append(_at_most("the longest step with many consumers, ms", longest_ms, STEP_AIM_MS))
    return found


def _compared(rates: dict[str, list[Consumption]], way: str, its: str, aim: float = 0.0) -> str:
    """`aim`: it is met from there on; 0: none was set."""
    over = ratio([one.rate for one in rates[f"liftlog {way}"]], [one.rate for one in rates[its]])
    told = f"liftlog {way}: {over:.2f} times the rate of {its}"
    return f"{told} (aim: at least {aim:g}, {'met' if over >= aim else 'missed'})" if aim else told


def _at_most(what: str, value: float, aim: float = 0.0) -> str:
    """`aim`: it is met up to there; 0: none was set."""
    if not aim:
        return f"{what}: {value:.2f}"
    return f"{what}: {value:.2f} (aim: at most {aim:g}, {'met' if value <= aim else 'missed'})"


def _document(
    options: argparse.Namespace,
    rates: dict[str, list[Consumption]],
    publishing: dict[str, list[Beside]],
    many: dict[str, list[ManyPhase]],
    verdicts: list[str],
) -> Found:
    named: tuple[tuple[str, dict[str, list[Any]]], ...] = (
        ("consuming", rates),
        ("publishing", publishing),
        ("many", many),
    )
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "replicas": options.replicas,
        "size": options.size,
        "batch": options.batch,
        "consumers": options.consumers,
        **{key: {name: [asdict(one) for one in each] for name, each in told.items()} for key, told in named},
        "verdicts": verdicts,
    }


def _print(
    options: argparse.Namespace,
    rates: dict[str, list[Consumption]],
    publishing: dict[str, list[Beside]],
    many: dict[str, list[ManyPhase]],
    verdicts: list[str],
) -> None:
    console = Console(file=sys.stdout, highlight=False)
    title = f"{options.replicas} replica{'s' * (options.replicas > 1)}, {options.size} bytes, "
    title += f"batches of {options.batch}, median of {options.rounds}"
    table = figure_table(title, ["acks", "acked/s", "spread", "server CPU us", "client CPU us"])
    for name, rounds in rates.items():
        rate, spread = median_and_spread([one.rate for one in rounds])
        table.add_row(
            name,
            f"{rate:,.0f}",
            f"{spread:.0%}",
            f"{statistics.median(one.server_cpu_us for one in rounds):.1f}",
            f"{statistics.median(one.client_cpu_us for one in rounds):.1f}",
        )
    print_figures(console, table)
    if publishing:
        table = figure_table(f"publishing, {options.rate:g}/s", ["", "p50 ms", "p99 ms", "consumed/s"])
        for name, beside in publishing.items():
            consumed = statistics.median(one.consumed for one in beside)
            table.add_row(
                name,
                f"{statistics.median(one.p50_ms for one in beside):.2f}",
                f"{statistics.median(one.p99_ms for one in beside):.2f}",
                f"{consumed:,.0f}" if consumed else "",
            )
        print_figures(console, table)
    for name, phases in many.items():
        title = f"{name}: {options.consumers} consumers, one server"
        table = figure_table(title, ["phase", "s", "CPU", "MB", "step p50", "step max"])
        for phase in phases:
            steps = [f"{ms:g}" if ms else "" for ms in (phase.step_p50_ms, phase.step_max_ms)]
            table.add_row(
                phase.name,
                f"{phase.seconds:.1f}",
                f"{phase.cpu_share:.2f}",
                f"{phase.memory_mb:.0f}",
                *steps,
            )
        print_figures(console, table)
    for verdict in verdicts:
        console.print(verdict, soft_wrap=True)
    console.print(f"\n{NOTES}", end="", soft_wrap=True)
