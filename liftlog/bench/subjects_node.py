"""How long a real node takes after SIGKILL until it stores again, and until it answers about subjects (S1).

The log of its stream is written beforehand, without the node: so many messages, of subjects drawn evenly, as
batches of 100. Then

    first    the node's first question about it: the whole log is read, and subject files are written
    again    the node is killed and started; from the start of the process on it is told when it was ready,
             when the first message was acknowledged, and when a question was answered that needs all of the
             index. One client publishes all the while, one message after the other; the other one asks.
    read     as `again`, with the subject files removed before

and the peak of the process's memory in each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from liftlog.bench.usage import usage_of
from liftlog.client import Client
from liftlog.format import encode_messages
from liftlog.local import ask, create_stream
from liftlog.messages import AppendLog
from liftlog.real.disk import RealDisk
from liftlog.real.local_cluster import LocalCluster, LocalNode
from liftlog.scratch import Scratch
from liftlog.storage.engine import StorageEngine
from liftlog.storage.layout import SUBJECTS_SUFFIX, partitions_on_disk
from liftlog.types import Batch, LiftlogError, Message, PartitionId, StreamConfig, Ticket

STREAM = "bench"
PAYLOAD = bytes(128)
BATCH = 100
GROUP = 400
"""Batches that are written and synced together."""
TOLD_EVERY = 1_000_000
"""After so many messages it is said how far it is."""
WITHIN_MS = 600_000
SEED = 1

Values = dict[str, float]
Progress = Callable[[str], None]


def measure_node(scratch: Scratch, messages: int, subjects: int, progress: Progress) -> dict[str, Values]:
    """Seconds and MB of each step. Raises LiftlogError if the node does not answer."""
    cluster = LocalCluster(scratch.folder, 1)
    scratch.enter_context(cluster)
    create_stream(cluster, StreamConfig(STREAM, f"{STREAM}.>"))
    node = cluster.nodes[1]
    node.terminate()
    node.wait()
    log = fill(node.config.data, messages, subjects, progress)
    found = {}
    for step, files in (("first", True), ("again", True), ("read", False)):
        progress(f"{step}: the node starts")
        if not files:
            _remove_subject_files(node.config.data, log)
        found[step] = _started(cluster, node, messages)
        found[step] |= {"files_mb": _subject_files_mb(node.config.data, log)}
        node.kill()
    return found


def fill(data: Path, messages: int, subjects: int, progress: Progress) -> PartitionId:
    """Append so many messages to the one log of a node that does not run."""
    disk = RealDisk(str(data))
    engine = StorageEngine(disk)
    engine.recover(1, "", 0)
    (log,) = partitions_on_disk(disk)
    random = Random(SEED)
    at, _ = engine.log_ends()[log]
    end, ticket, told = at + messages, 0, 0
    while at < end:
        batches: list[Batch] = []
        while at < end and len(batches) < GROUP:
            some = [
                Message(subject_of(random.randrange(subjects)), b"", b"", PAYLOAD)
                for _ in range(min(BATCH, end - at))
            ]
            batches.append(encode_messages(log, at, 1, 1_700_000_000_000, some))
            at += len(some)
        ticket += 1
        refused = [*engine.write([AppendLog(log, batches, Ticket(ticket))]), *engine.sync()][1:]
        if refused:
            raise LiftlogError(f"cannot write the log in {data}: {refused}")
        if at // TOLD_EVERY > told:
            told = at // TOLD_EVERY
            progress(f"filling: {at:,} of {end:,} messages")
    engine.close(clean=True)
    disk.close()
    return log


def subject_of(number: int) -> bytes:
    """25 or 26 bytes for most of a million."""
    return b"%s.eu%d.service%02d.e%06d" % (STREAM.encode(), number % 10, number // 10 % 100, number)


def _started(cluster: LocalCluster, node: LocalNode, messages: int) -> Values:
    begun_s = time.perf_counter()
    node.launch()
    node.wait_ready()
    ready_s = time.perf_counter() - begun_s

    async def story(client: Client) -> Values:
        waits: list[float] = []
        acknowledged = asyncio.Event()
        first_s = 0.0

        async def publish() -> None:
            nonlocal first_s
            while True:
                sent_s = time.perf_counter()
                ack = await client.publish(f"{STREAM}.published", PAYLOAD, WITHIN_MS)
                now_s = time.perf_counter()
                # Refused while the stream is not led yet.
                if ack.outcome == "ok":
                    first_s = first_s or now_s - begun_s
                    waits.append(now_s - sent_s)
                    acknowledged.set()
                await asyncio.sleep(0.005)

        publisher = asyncio.ensure_future(publish())
        counted = await client.subjects(STREAM, f"{STREAM}.eu3.service00.e000003", timeout_ms=WITHIN_MS)
        await client.last(STREAM, f"{STREAM}.published", timeout_ms=WITHIN_MS)
        answered_s = time.perf_counter() - begun_s
        await acknowledged.wait()
        publisher.cancel()
        if not counted and messages > 100_000:
            raise LiftlogError("the index does not know a subject that is there")
        waits.sort()
        return {
            "first_ack_s": first_s,
            "answered_s": answered_s,
            "publish_p50_ms": 1000 * waits[len(waits) // 2],
            "publish_most_ms": 1000 * waits[-1],
        }

    found = ask(cluster, story)
    usage = usage_of([node.pid])
    return {"ready_s": ready_s, **found, "peak_mb": usage.memory_peak_mb, "cpu_s": usage.cpu_seconds}


def _files(data: Path, log: PartitionId) -> list[Path]:
    return sorted((data / "streams" / str(log)).glob(f"*{SUBJECTS_SUFFIX}"))


def _subject_files_mb(data: Path, log: PartitionId) -> float:
    return sum(path.stat().st_size for path in _files(data, log)) / 1e6


def _remove_subject_files(data: Path, log: PartitionId) -> None:
    for path in _files(data, log):
        path.unlink()
