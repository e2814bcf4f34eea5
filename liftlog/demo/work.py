"""The demo's consumer and processor: two programs share a durable consumer, and a processor makes another
stream of what it reads, while the leader of what they read is killed.

The programs ack message by message, and leave every seventh once, as one that dies with it does. The
processor dies with the leader, whatever it has on its way, and another one goes on. What the programs are
given and what they ack is written down as facts of docs/promises.md: acks stay, deliveries are bounded, none
is skipped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from liftlog.client import Client, ConsumerConfig, Delivery, StreamProcessor
from liftlog.demo.account import Kill
from liftlog.demo.display import Bar
from liftlog.demo.lines import Line
from liftlog.demo.readback import ReplicaRead
from liftlog.real.local_cluster import LocalCluster
from liftlog.rooms import room_module
from liftlog.types import LiftlogError, StreamConfig

WORK, CAPITALS = "work", "capitals"
"""What is worked off, and what the processor makes of it."""
WORK_KEY = f"{WORK}/0"
CONSUMER = "programs"
PROGRAMS = 2
WORK_MESSAGES = 300
KILL_AT = 0.4
"""Share of the messages that is acked when the leader is killed."""
LEFT_ONCE = 7
ACK_WAIT_MS = 1500
WINDOW_MS = 3_600_000
FETCH_MESSAGES, FETCH_WAIT_MS = 20, 200
PUBLISH_TIMEOUT_MS = 1000
BATCH_RECORDS = 20
PAUSE_S = 0.02
SECONDS_MAX = 60.0


class ConsumerResult(msgspec.Struct):
    """Messages that the consumer was to give, and what became of them. `again`: deliveries that were not the
    first of their message; `acked_again`: recorded behind an ack of it; `never_acked`: messages that no ack
    names although the consumer says that all below its floor is done, or that its floor does not cover.
    """

    messages: int
    acked: int
    again: int
    acked_again: int
    never_acked: int
    killed_node: int
    failover_ms: float
    """From the SIGKILL to the first ack of what the next leader gave."""
    seconds: float


class ProcessorResult(msgspec.Struct):
    """`wrong`: places in the outputs of a replica where not the output of the input of that place is."""

    inputs: int
    outputs: int
    wrong: int


def output_of(value: str) -> str:
    """What the processor makes of a message."""
    return value.upper()


def config_of(stream: str, replicas: int) -> StreamConfig:
    """The two streams. An ack of either is on two nodes, so that none is lost with one."""
    if stream == WORK:
        return StreamConfig(stream, stream, 1, replicas, min_insync_replicas=2, removal=True)
    return StreamConfig(stream, stream, 1, replicas, min_insync_replicas=2, dedupe_window_ms=WINDOW_MS)


class Work:
    """What is done on a cluster whose streams are there. Call `run` once; then the account is here."""

    def __init__(self, cluster: LocalCluster, lines: Sequence[Line], writer: Any, bar: Bar) -> None:
        """`writer`: a `liftlog_jepsen.history.HistoryWriter`."""
        self.recorder = room_module("liftlog_jepsen.consuming").ConsumerRecorder(writer, WORK_KEY)
        self._cluster = cluster
        self._lines = lines
        self._bar = bar
        self.end = 0
        """Behind the last message that was acknowledged to its publisher."""
        self._published = False
        self._acked: set[int] = set()
        self.floor = 0
        self._epoch_before = -1
        self.victim = 0
        self.killed_ns = 0
        self.restarted_ns = 0
        self.failover_ms = 0.0
        self.position = 0
        """Up to here the processor has stored what comes of the messages."""
        self.seconds = 0.0
        self._complaint = "nothing was refused"

    @property
    def acked(self) -> int:
        """Messages of which an ack was answered."""
        return len(self._acked)

    def run(self) -> None:
        """Raises LiftlogError when it is not done within `SECONDS_MAX`."""
        started_s = time.monotonic()
        try:
            asyncio.run(self._limited())
        except TimeoutError:
            raise LiftlogError(
                f"the consumer '{CONSUMER}' and the processor were not done within {SECONDS_MAX:.0f} s "
                f"({self.acked} of {WORK_MESSAGES} messages acked; last trouble: {self._complaint}); "
                f"see the nodes' logs in {self._cluster.folder}"
            ) from None
        self.seconds = time.monotonic() - started_s

    def record(self) -> Kill:
        """For the history's fault bands."""
        return Kill(self.victim, self.killed_ns, self.restarted_ns)

    async def _limited(self) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await self._run()

    async def _run(self) -> None:
        async with await self._connect() as first, await self._connect() as second:
            programs = [await self._program(client) for client in (first, second)]
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._publish(first))
                for program in programs:
                    tasks.create_task(self._consume(program))
                processor = tasks.create_task(self._process(second))
                await self._kill_leader(first)
                processor.cancel()
                processor = tasks.create_task(self._process(second))
                while not self.failover_ms:
                    await asyncio.sleep(PAUSE_S)
                self._restart()
                while not (self._published and self.position >= self.end):
                    await asyncio.sleep(PAUSE_S)
                processor.cancel()
            self.floor = await programs[0].floor()

    async def _connect(self) -> Client:
        cluster = self._cluster
        return await Client.connect(
            cluster.nats_url, cluster=cluster.cluster, secret_file=cluster.client_secret_file
        )

    async def _trouble(self, what: str) -> None:
        """Programs go on when they were not answered in time: that is what the history is for."""
        self._complaint = what
        await asyncio.sleep(PAUSE_S)

    # -- who publishes -------------------------------------------------------------------------------------

    async def _publish(self, client: Client) -> None:
        """One message after the other until so many are stored. No two are equal: of a short input lines are
        sent again, as other attempts.
        """
        stored = attempt = 0
        while stored < WORK_MESSAGES:
            attempt += 1
            value = self._lines[stored % len(self._lines)].value(attempt)
            sent = client.publish(WORK, value.encode(), PUBLISH_TIMEOUT_MS)
            result = await self.recorder.publish(value, lambda sent=sent: sent)
            if result.outcome == "ok":
                self.end = result.offset + 1
                stored += 1
            else:
                await self._trouble(result.error)
        self._published = True

    # -- who consumes --------------------------------------------------------------------------------------

    async def _program(self, client: Client) -> Any:
        config = ConsumerConfig(ack_wait_ms=ACK_WAIT_MS)
        return await self.recorder.consumer(lambda: client.consumer(WORK, CONSUMER, config=config))

    async def _consume(self, program: Any) -> None:
        """Until all is published and done."""
        while True:
            over = self._published
            try:
                for delivery in await program.fetch(FETCH_MESSAGES, wait_ms=FETCH_WAIT_MS):
                    if delivery.delivered > 1 or (delivery.record.offset + 1) % LEFT_ONCE:
                        unknown = await program.ack(delivery)
                        if not unknown:
                            self._note_ack(delivery)
                if over:
                    info = await program.consumer.info()
                    if not info.num_pending and not info.ack_pending:
                        return
            except LiftlogError as error:
                await self._trouble(str(error))

    def _note_ack(self, delivery: Delivery) -> None:
        self._acked.add(delivery.record.offset)
        self._bar.update(min(self.acked, WORK_MESSAGES))
        if self.victim and not self.failover_ms and delivery.epoch > self._epoch_before:
            self.failover_ms = (time.monotonic_ns() - self.killed_ns) / 1e6
            self._bar.note(f"acks again after {self.failover_ms:,.0f} ms, epoch {delivery.epoch}")

    # -- who processes -------------------------------------------------------------------------------------

    async def _process(self, client: Client) -> None:
        """Until it is cancelled."""
        while True:
            try:
                opened = client.processor(
                    CAPITALS, source=WORK, sink=CAPITALS, begin=0, records_max=BATCH_RECORDS
                )
                async with opened as processor:
                    await self._transform(processor)
            except LiftlogError as error:
                await self._trouble(str(error))

    async def _transform(self, processor: StreamProcessor) -> None:
        async for batch in processor:
            values = [(record.value or b"").decode() for record in batch.records]
            await batch.commit([output_of(value).encode() for value in values])
            self.position = processor.position

    # -- the kill ------------------------------------------------------------------------------------------

    async def _kill_leader(self, client: Client) -> None:
        while self.acked < KILL_AT * WORK_MESSAGES:
            await asyncio.sleep(PAUSE_S)
        partition = (await client.stream(WORK)).partitions[0]
        self._epoch_before = partition.epoch
        self.killed_ns = time.monotonic_ns()
        self.victim = partition.leader
        self._cluster.nodes[self.victim].kill()
        self._bar.note(
            f"killed node {self.victim}, their leader, with SIGKILL after {self.acked:,} acks, "
            "and the processor with it"
        )

    def _restart(self) -> None:
        self._cluster.nodes[self.victim].launch()
        self.restarted_ns = time.monotonic_ns()


def judge_consumer(work: Work, reads: Sequence[ReplicaRead]) -> ConsumerResult:
    """What the recorded history says of the consumer, and what the replicas hold below `work.end`."""
    ops = list(work.recorder.writer.history.ops())
    there = {offset for read in reads for offset in read.by_offset() if offset < work.end}
    asked = {mop.offset for op in ops if op.outcome != "fail" for mop in op.mops if mop.f == "settle"}
    counts = [mop.epoch for op in ops if op.outcome == "ok" for mop in op.mops if mop.f == "deliver"]
    return ConsumerResult(
        messages=len(there),
        acked=work.acked,
        again=sum(count > 1 for count in counts),
        acked_again=count_acked_again(ops),
        never_acked=sum(offset not in asked or offset >= work.floor for offset in there),
        killed_node=work.victim,
        failover_ms=work.failover_ms,
        seconds=work.seconds,
    )


def count_acked_again(ops: Iterable[Any]) -> int:
    """Deliveries that the journal has behind an ack of the same message that its leader knew (K3): their
    places decide, not the times at which answers came.
    """
    settled: dict[int, int] = {}
    given: list[tuple[int, int]] = []
    for op in ops:
        if op.outcome != "ok":
            continue
        unknown = {mop.offset for mop in op.mops if mop.f == "unknown-delivery"}
        recorded = next((mop.offset for mop in op.mops if mop.f == "pull"), None)
        for mop in op.mops:
            if mop.f == "settle" and mop.offset not in unknown:
                settled[mop.offset] = min(mop.epoch, settled.get(mop.offset, mop.epoch))
            elif mop.f == "deliver" and recorded is not None:
                given.append((mop.offset, recorded))
    return sum(recorded > settled.get(offset, recorded) for offset, recorded in given)


def judge_processor(
    position: int, inputs: Sequence[ReplicaRead], outputs: Sequence[ReplicaRead]
) -> ProcessorResult:
    """Whether each replica has the output of each message below `position`, once and in order."""
    log = inputs[0].by_offset()
    wanted = [output_of(log[offset]) for offset in sorted(log) if offset < position]
    # A record without a value only says how far the processor is (L10).
    found = [[value for poll in read.polls for value in poll.values if value] for read in outputs]
    wrong = sum(a != b for values in found for a, b in zip_longest(wanted, values))
    return ProcessorResult(inputs=len(wanted), outputs=len(found[0]), wrong=wrong)
