"""`liftlog bench tls`: what TLS costs, beside the same cluster without it, in alternating rounds.

Publishing shows what nodes pay among themselves: a message is sealed and opened once for each follower. What
publishers say passes over NATS, which is without TLS for both. Reading shows what one node pays that hands
out a log from its page cache: without TLS the kernel sends the file (`sendfile`), with it the node reads and
seals it. Several readers ask for the whole log at once, and throw it away unread.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from liftlog.bench.checks import check_folder, check_ranges
from liftlog.bench.cluster import LiftlogCluster
from liftlog.bench.loadoptions import LOAD_RANGES, add_load, load_of
from liftlog.bench.publish import PublishSummary, measure, over_ceiling
from liftlog.bench.rounds import ratios, turns
from liftlog.bench.usage import usage_of
from liftlog.client import Client
from liftlog.local import ask
from liftlog.messages import ReadReply, ReadRequest
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, print_figures
from liftlog.types import LiftlogError, PartitionId
from liftlog.version import VERSION

SUBJECT, STREAM = "bench.tls", "bench"
READERS = 4
READ_TIMEOUT_S = 30.0
MEGABYTE = 1_000_000


class Handed(NamedTuple):
    """One round of readers at one node."""

    mb_per_s: float
    cpu_ms_per_mb: float


def add_tls(kinds: Any) -> None:
    tls = kinds.add_parser(
        "tls",
        help="what TLS costs: publishing, and reading from a node's files",
        description="Starts two clusters in a temporary folder, one of them with TLS, and compares them.",
    )
    add_load(tls, replicas=3)
    tls.add_argument("--rounds", type=int, default=5, help="rounds for each (default 5)")
    tls.add_argument("--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)")
    tls.add_argument("--json", action="store_true", help="print one JSON object")
    tls.set_defaults(run=run_tls)


def run_tls(options: argparse.Namespace) -> int:
    check_ranges(options, (*LOAD_RANGES, ("rounds", 1, 1000)))
    check_folder(options.dir)
    load = load_of(options, SUBJECT, STREAM)
    with Scratch("bench", options.dir) as scratch, Activity() as activity:
        plain = LiftlogCluster(scratch, options.replicas, SUBJECT, STREAM, "plain")
        secured = LiftlogCluster(scratch, options.replicas, SUBJECT, STREAM, "TLS", tls=True)
        published = measure([plain, secured], load, options.rounds, activity.show)
        read: dict[str, list[Handed]] = {plain.name: [], secured.name: []}
        systems = {one.name: one for one in (plain, secured)}
        for number, name in turns(list(systems), options.rounds):
            activity.show(f"reading, round {number}: {name}")
            found = hand_out(systems[name])
            if number:
                read[name].append(found)
    over = over_ceiling(published, plain.name)[secured.name]
    both = [[list(each) for each in zip(*read[one.name], strict=True)] for one in (plain, secured)]
    over_read = [statistics.median(ratios(mine, its)) for its, mine in zip(*both, strict=True)]
    if options.json:
        document = {
            "version": VERSION,
            "replicas": options.replicas,
            "size": options.size,
            "published": {name: asdict(one) for name, one in published.items()},
            "read": {name: [one._asdict() for one in rounds] for name, rounds in read.items()},
            "tls_over_plain": {**over, "read_rate": over_read[0], "read_cpu": over_read[1]},
        }
        print(json.dumps(document, indent=2))
        return 0
    _print(options, published, read, [over["rate"], over["server_cpu"], *over_read])
    return 0


def _print(
    options: argparse.Namespace,
    published: dict[str, PublishSummary],
    read: dict[str, list[Handed]],
    over: list[float],
) -> None:
    """`over`: rate and CPU of publishing and of reading, as multiples of those without TLS."""
    console = Console(file=sys.stdout, highlight=False)
    title = f"{options.replicas} replicas, {options.size} bytes, {options.window} in flight, median of "
    heads = ["", "acked/s", "CPU us", "MB", "read MB/s", "CPU ms/MB"]
    table = figure_table(f"{title}{options.rounds}", heads)
    for name, one in published.items():
        rate, cpu = (statistics.median(each) for each in zip(*read[name], strict=True))
        figures = (f"{one.rate:,.0f}", f"{one.server_cpu_us_per_message:.1f}", f"{one.memory_peak_mb:.0f}")
        table.add_row(name, *figures, f"{rate:,.0f}", f"{cpu:.2f}")
    print_figures(console, table)
    console.print(
        f"With TLS: {over[0]:.2f} times the rate and {over[1]:.2f} times the CPU of publishing, "
        f"{over[2]:.2f} times the rate and {over[3]:.2f} times a node's CPU of reading (medians of the "
        "ratios within the rounds)",
        soft_wrap=True,
    )


def hand_out(system: LiftlogCluster) -> Handed:
    """Have the first node hand out its whole log to several readers at once. Raises LiftlogError."""
    os.sync()
    pids = [system.local.nodes[1].pid]
    before = usage_of(pids).cpu_seconds
    count, seconds = ask(system.local, read_all)
    megabytes = count / MEGABYTE
    cpu_ms = 1000 * (usage_of(pids).cpu_seconds - before)
    return Handed(megabytes / seconds, cpu_ms / megabytes)


async def read_all(client: Client) -> tuple[int, float]:
    """(bytes, seconds) that several readers at the first node get, and take. Raises LiftlogError."""
    info = await client.stream(STREAM)
    status = await client.status()
    address = next(one.address for one in status.nodes if one.node == 1)
    end = await client.reader(info, 0, node=1).offset("new")

    async def one_reader() -> int:
        offset, count = 0, 0
        while offset < end:
            request = ReadRequest(PartitionId(info.id, 0), offset)
            reply = await client.nodes.call(1, address, request, READ_TIMEOUT_S)
            if not isinstance(reply, ReadReply) or reply.next_offset <= offset:
                raise LiftlogError(f"node 1 handed out nothing from offset {offset} on: {reply}")
            offset = reply.next_offset
            count += sum(map(len, reply.batches))
        return count

    began_s = time.perf_counter()
    counts = await asyncio.gather(*(one_reader() for _ in range(READERS)))
    return sum(counts), time.perf_counter() - began_s
