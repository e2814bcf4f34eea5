"""The real part of the demo: three nodes, plain NATS, a kill in mid-stream, consumers and a processor whose
leader is killed, and every replica read back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from liftlog.bench.cluster import wait_for_level
from liftlog.demo.account import end_history, new_history
from liftlog.demo.display import Display
from liftlog.demo.kill import LeaderKill
from liftlog.demo.lines import Line
from liftlog.demo.publisher import FAIL, INFO, OK, Publisher
from liftlog.demo.readback import ReplicaRead, count_lost, read_replica
from liftlog.demo.work import (
    CAPITALS,
    PROGRAMS,
    WORK,
    WORK_KEY,
    WORK_MESSAGES,
    ConsumerResult,
    ProcessorResult,
    Work,
    config_of,
    judge_consumer,
    judge_processor,
)
from liftlog.local import create_stream, stream_info, wait_in_sync
from liftlog.real.local_cluster import LocalCluster
from liftlog.scratch import Scratch
from liftlog.types import StreamConfig

NODES = 3
STREAM = "source"
SUBJECT = "source"
KILL_AT = 0.4
"""Share of the messages that is acknowledged when the leader is killed."""
HISTORY_NAME = "demo"
PAINT_NS = 100_000_000


class RealResult(msgspec.Struct):
    """What was published, what came back, what the kill cost."""

    messages: int
    acked: int
    attempts: int
    unknown: int
    refused: int
    lost: int
    stored: int
    killed_node: int
    failover_ms: float
    seconds: float
    acked_per_second: float
    acked_per_second_before_kill: float
    read_per_second: float
    history: str
    consumer: ConsumerResult
    processor: ProcessorResult


def run_real(lines: Sequence[Line], folder: Path, display: Display) -> RealResult:
    """Run it and leave the history in `folder`. Raises LiftlogError if the cluster cannot do its work."""
    display.heading("3/6  The same core for real: three nodes, NATS, and a SIGKILL in mid-stream")
    with Scratch("demo") as scratch:
        cluster = LocalCluster(scratch.folder / "cluster", NODES)
        with display.busy(f"starting nats-server and {NODES} nodes"):
            scratch.enter_context(cluster)
            # Consumers need it, and once a node was killed the level no longer rises by itself (U2).
            wait_for_level(cluster)
            config = StreamConfig(STREAM, f"{SUBJECT}.>", replication_factor=NODES)
            create_stream(cluster, config)
            wait_in_sync(cluster, STREAM)
        display.line(f"stream '{STREAM}' on '{config.subject}', {NODES} replicas; NATS at {cluster.nats_url}")
        kill, publisher, started_ns, ended_ns = _publish(cluster, lines, display)
        with display.busy("waiting for the killed node to catch up"):
            caught_up_s = wait_in_sync(cluster, STREAM)
        display.line(f"node {kill.victim} was restarted and is in sync again (waited {caught_up_s:.1f} s)")
        meta = {"nodes": str(NODES), "replicas": str(NODES), "input": f"{len(lines)} lines"}
        writer = new_history(HISTORY_NAME, meta)
        work = _work(cluster, lines, writer, display)
        display.heading("5/6  Everything read back, from each replica by itself")
        started_reading_s = time.monotonic()
        reads = _read_back(cluster, publisher.acked, display)
        read_s = time.monotonic() - started_reading_s
        replicas = stream_info(cluster, STREAM).partitions[0].replicas
        worked, made = (_read_small(cluster, name) for name in (WORK, CAPITALS))
    records = sum(read.records for read in reads)
    attempts = publisher.attempts
    lost = count_lost(attempts, reads)
    display.line(f"read {records:,} records back from nodes {', '.join(map(str, replicas))}; lost: {lost}")
    consumer = judge_consumer(work, worked)
    processor = judge_processor(work.position, worked, made)
    display.line(
        f"consumer: of {consumer.messages:,} messages {consumer.never_acked} never acked, "
        f"{consumer.acked_again} given again behind their ack; "
        f"processor: of {processor.outputs:,} outputs on {NODES} nodes {processor.wrong} wrong"
    )
    with display.busy("writing the history"):
        end_history(
            folder / "history",
            writer,
            f"{STREAM}/0",
            attempts,
            reads={f"{STREAM}/0": reads, WORK_KEY: worked},
            kills=[*kill.record(), work.record()],
            first_process=work.recorder.process(),
        )
    seconds = (ended_ns - started_ns) / 1e9
    return RealResult(
        messages=len(lines),
        acked=publisher.acked,
        attempts=len(attempts),
        unknown=attempts.outcome.count(INFO),
        refused=attempts.outcome.count(FAIL),
        lost=lost,
        stored=reads[0].records,
        killed_node=kill.victim,
        failover_ms=kill.failover_ms,
        seconds=seconds,
        acked_per_second=attempts.outcome.count(OK) / seconds,
        acked_per_second_before_kill=kill.acked_before / ((kill.killed_ns - started_ns) / 1e9),
        read_per_second=records / read_s,
        history=str(folder / "history"),
        consumer=consumer,
        processor=processor,
    )


def _publish(
    cluster: LocalCluster, lines: Sequence[Line], display: Display
) -> tuple[LeaderKill, Publisher, int, int]:
    kill = LeaderKill(cluster, STREAM, int(len(lines) * KILL_AT))
    painted_ns = 0
    with display.bar("published and acknowledged", len(lines)) as bar:

        def watch(acked: int, epoch: int, now_ns: int) -> None:
            nonlocal painted_ns
            was_alive, was_down = not kill.victim, not kill.done
            kill.watch(acked, epoch, now_ns)
            if was_alive and kill.victim:
                bar.note(f"killed node {kill.victim}, the leader, with SIGKILL after {acked:,} acks")
            if was_down and kill.done:
                bar.note(f"acks again after {kill.failover_ms:,.0f} ms, epoch {epoch}; restarting the node")
            if now_ns - painted_ns > PAINT_NS or acked == len(lines):
                painted_ns = now_ns
                bar.update(acked)

        port = int(cluster.nats_url.rpartition(":")[2])
        publisher = Publisher(port, SUBJECT, STREAM, lines, watch)
        started_ns = time.monotonic_ns()
        publisher.run()
        ended_ns = time.monotonic_ns()
        kill.restart()
    return kill, publisher, started_ns, ended_ns


def _read_back(cluster: LocalCluster, expected: int, display: Display) -> list[ReplicaRead]:
    reads = []
    with display.bar("read back", NODES * expected) as bar:
        for node in sorted(cluster.nodes):
            reads.append(read_replica(cluster, STREAM, node, bar.advance))
    return reads


def _work(cluster: LocalCluster, lines: Sequence[Line], writer: Any, display: Display) -> Work:
    display.heading("4/6  A durable consumer and a processor, and a SIGKILL while they work")
    with display.busy("creating their streams"):
        for name in (WORK, CAPITALS):
            create_stream(cluster, config_of(name, NODES))
    display.line(f"stream '{WORK}': {PROGRAMS} programs share a consumer, a processor fills '{CAPITALS}'")
    with display.bar("acked", WORK_MESSAGES) as bar:
        work = Work(cluster, lines, writer, bar)
        work.run()
    with display.busy("waiting for the killed node to catch up"):
        for name in (STREAM, WORK, CAPITALS):
            wait_in_sync(cluster, name)
    return work


def _read_small(cluster: LocalCluster, stream: str) -> list[ReplicaRead]:
    return [read_replica(cluster, stream, node, lambda count: None) for node in sorted(cluster.nodes)]
