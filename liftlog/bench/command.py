"""The command `liftlog bench`: its kinds, and what `liftlog bench publish` and `handover` print."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from liftlog.bench.checks import check_folder, check_range, check_ranges
from liftlog.bench.cluster import LiftlogCluster
from liftlog.bench.consume_command import add_consume
from liftlog.bench.door_command import add_jetstream
from liftlog.bench.failover_command import add_failover
from liftlog.bench.floor import NAMES, Floor
from liftlog.bench.groups_command import add_groups
from liftlog.bench.handover import Stop, measure_stops, summary_of
from liftlog.bench.indexed import Indexed
from liftlog.bench.jetstream import JetStream
from liftlog.bench.latency_command import add_latency
from liftlog.bench.life_command import add_life
from liftlog.bench.load import Load
from liftlog.bench.loadoptions import LOAD_RANGES, SIZE_MAX, add_load, load_of
from liftlog.bench.matching_command import add_matching
from liftlog.bench.partitions_command import add_partitions
from liftlog.bench.publish import Batched, PublishSummary, comparison, measure, over_ceiling
from liftlog.bench.rounds import System
from liftlog.bench.sick_command import add_sick
from liftlog.bench.storage_command import add_storage
from liftlog.bench.subjects_command import add_subjects
from liftlog.bench.tls_command import add_tls
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, print_figures
from liftlog.types import LiftlogError
from liftlog.version import VERSION

SUBJECT = "bench.publish"
STREAM = "bench"
SUBJECTS_MAX = 1_000_000
RECORD_BYTES = 24 + len(SUBJECT)
"""What a record has in a parcel beside its payload."""

NOTES = """\
One load generator (a plain socket, a window of unacknowledged publications) was used for all of them, in
alternating rounds; medians are shown, spread is (max - min) / median. CPU and disk: per message, summed over
the servers; MB: their peak memory. Every liftlog ack follows a sync on every in-sync replica;
jetstream-always syncs before it acks, jetstream-default every two minutes.

responder acknowledges and does nothing else: a Python process behind a NATS server, as liftlog's nodes are.
ceiling: the rate as a share of its; x CPU: processor time per message as a multiple of its; both are medians
of the ratios within the rounds. JetStream sits inside the server and may lie above that ceiling.

The generator connects to the server of JetStream's stream leader. All processes share this machine: trust
the ratios, not the digits. Under a window that is always full, the time to an ack is the window over the
rate, whatever the system does: response times are what 'liftlog bench latency' measures.
"""


def add_parser(subparsers: Any) -> None:
    bench = subparsers.add_parser("bench", help="measure, against JetStream or raw files on the same machine")
    kinds = bench.add_subparsers(dest="kind", required=True)
    publish = kinds.add_parser(
        "publish",
        help="acked messages per second",
        description="Starts everything it needs in a temporary folder, measures, and removes it again.",
    )
    add_load(publish, replicas=1)
    publish.add_argument("--rounds", type=int, default=3, help="rounds for each system (default 3)")
    publish.add_argument(
        "--batch", type=int, default=0, help="also publish so many in one message, and compare the rates"
    )
    publish.add_argument(
        "--subjects",
        type=int,
        default=0,
        help="publish to so many subjects in turn, and also to a cluster that keeps an index of them",
    )
    publish.add_argument("--vs", choices=("jetstream",), help="also measure JetStream, default and synced")
    publish.add_argument("--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)")
    publish.add_argument("--json", action="store_true", help="print one JSON object")
    publish.set_defaults(run=run_publish)
    add_consume(kinds)
    add_jetstream(kinds)
    add_latency(kinds)
    add_storage(kinds)
    add_sick(kinds)
    handover = kinds.add_parser(
        "handover",
        help="how long writes stop when a leader is stopped in an orderly way",
        description="Three nodes in a temporary folder; in each round the leader gets SIGTERM.",
    )
    handover.add_argument("--rounds", type=int, default=20, help="how often (default 20)")
    handover.add_argument("--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)")
    handover.add_argument("--json", action="store_true", help="print one JSON object")
    handover.set_defaults(run=run_handover)
    add_failover(kinds)
    add_groups(kinds)
    add_partitions(kinds)
    add_life(kinds)
    add_matching(kinds)
    add_subjects(kinds)
    add_tls(kinds)


def run_publish(options: argparse.Namespace) -> int:
    load = _load_of(options)
    check_folder(options.dir)
    with Scratch("bench", options.dir) as scratch, Activity() as activity:
        subject = f"{SUBJECT}.*" if options.subjects else SUBJECT
        ours = LiftlogCluster(scratch, options.replicas, subject, STREAM)
        systems: list[System] = [Floor(scratch, "answer", subject, STREAM), ours]
        if options.subjects:
            systems.append(Indexed(scratch, options.replicas, SUBJECT, STREAM, options.subjects))
        if options.batch:
            systems.append(Batched(ours, options.batch))
        if options.vs == "jetstream":
            for sync_always in (False, True):
                systems.append(JetStream(scratch, options.replicas, sync_always, subject, STREAM))
        summaries = measure(systems, load, options.rounds, activity.show)
    ceiling = NAMES["answer"]
    ceilings = over_ceiling(summaries, ceiling)
    together = [system.name for system in systems if isinstance(system, Batched)]
    indexed = [system for system in systems if isinstance(system, Indexed)]
    ways = (ceiling, *together, *(system.name for system in indexed))
    ratios = comparison({name: one for name, one in summaries.items() if name not in ways}, ours.name)
    over_single = over_ceiling(summaries, ours.name)
    gains = {name: over_single[name] for name in together}
    prices = {one.name: {**over_single[one.name], "behind_s": one.behind_s} for one in indexed}
    if options.json:
        more = {"over_responder": ceilings, "over_single": gains, "over_unindexed": prices}
        print(json.dumps(_document(options, summaries, ratios) | more, indent=2))
    else:
        _print(options, summaries, ratios, ceilings, gains, prices)
    return 0


def run_handover(options: argparse.Namespace) -> int:
    check_range("rounds", options.rounds, 1, 1000)
    check_folder(options.dir)
    with Scratch("bench", options.dir) as scratch, Activity() as activity:
        stops = measure_stops(scratch, options.rounds, activity)
    if options.json:
        found = {**summary_of(stops), "rounds": [asdict(stop) for stop in stops]}
        print(json.dumps({"version": VERSION, **found}, indent=2))
    else:
        _print_stops(stops)
    return 0


def _print_stops(stops: list[Stop]) -> None:
    console = Console(file=sys.stdout, highlight=False)
    title = f"SIGTERM to the leader, {len(stops)} times"
    table = figure_table(title, ["offices", "no ack for ms", "usual", "process ends", "refused", "unknown"])
    for stop in stops:
        table.add_row(
            "leader, controller" if stop.controller else "leader",
            f"{stop.gap_ms:.0f}",
            f"{stop.usual_ms:.0f}",
            f"{stop.exit_ms:.0f}",
            str(stop.refused),
            str(stop.unknown),
        )
    print_figures(console, table)
    found = summary_of(stops)
    console.print(
        f"writes stop for {found['gap_p50_ms']:.0f} ms (median), {found['gap_max_ms']:.0f} ms at most. "
        "usual: the longest time between two acks before the signal. refused: found nobody and were sent "
        "again. unknown: no answer within 250 ms, sent again, perhaps stored twice.",
        soft_wrap=True,
    )


def _load_of(options: argparse.Namespace) -> Load:
    ranges = (
        ("batch", 0, 1000),
        ("subjects", 0, SUBJECTS_MAX),
        *LOAD_RANGES,
        ("rounds", 1, 1000),
    )
    check_ranges(options, ranges)
    if options.batch * (options.size + RECORD_BYTES) > SIZE_MAX:
        most = SIZE_MAX // (options.size + RECORD_BYTES)
        raise LiftlogError(f"--batch {options.batch} of --size {options.size} is too much; take up to {most}")
    if options.batch and options.subjects:
        raise LiftlogError("--batch and --subjects do not go together: a batch has one subject")
    return load_of(options, SUBJECT, STREAM, options.subjects)


def _document(
    options: argparse.Namespace, summaries: dict[str, PublishSummary], ratios: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "replicas": options.replicas,
        "size": options.size,
        "window": options.window,
        "systems": {name: asdict(summary) for name, summary in summaries.items()},
        "liftlog_over": ratios,
    }


def _print(
    options: argparse.Namespace,
    summaries: dict[str, PublishSummary],
    ratios: dict[str, dict[str, Any]],
    ceilings: dict[str, dict[str, float]],
    gains: dict[str, dict[str, float]],
    prices: dict[str, dict[str, float]],
) -> None:
    console = Console(file=sys.stdout, highlight=False)
    title = f"{options.replicas} replica{'s' * (options.replicas > 1)}, {options.size} bytes, "
    title += f"{options.window} in flight, median of {options.rounds}"
    table = figure_table(title, ["system", "acked/s", "spread", "ceiling", "CPU us", "x CPU", "MB", "disk"])
    for name, summary in summaries.items():
        table.add_row(
            name,
            f"{summary.rate:,.0f}",
            f"{(summary.rate_max - summary.rate_min) / summary.rate:.0%}",
            f"{ceilings[name]['rate']:.2f}",
            f"{summary.server_cpu_us_per_message:.1f}",
            f"{ceilings[name]['server_cpu']:.2f}",
            f"{summary.memory_peak_mb:.0f}",
            f"{summary.disk_bytes_per_message:.0f}",
        )
    print_figures(console, table)
    for name, ratio in ratios.items():
        worse = (
            ", ".join(f"{cost} x{factor}" for cost, factor in ratio["worse"].items()) or "nothing measured"
        )
        console.print(
            f"liftlog / {name}: {ratio['rate_ratio']:.2f} of its rate. Worse: {worse}", soft_wrap=True
        )
    for name, gain in gains.items():
        console.print(
            f"{name}: {gain['rate']:.2f} times the rate of single messages, "
            f"{gain['server_cpu']:.2f} times their CPU (medians of the ratios within the rounds)",
            soft_wrap=True,
        )
    for name, price in prices.items():
        console.print(
            f"{name}, {options.subjects:,} subjects: {price['rate']:.2f} times the rate without an index, "
            f"{price['server_cpu']:.2f} times the CPU (medians of the ratios within the rounds); it knew all "
            f"messages {price['behind_s']:.2f} s after the last ack",
            soft_wrap=True,
        )
    console.print(f"\n{NOTES}", end="", soft_wrap=True)
