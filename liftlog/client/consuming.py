"""Durable consumers: the cluster remembers what was acked, and gives the rest again (K1-K8).

    consumer = await client.consumer("orders", "billing", config=ConsumerConfig(ack_wait_ms=10_000))
    async with consumer.pull() as deliveries:
        async for delivery in deliveries:
            ...
            await consumer.ack(delivery)

A consumer belongs to one partition of a stream that has a journal. Programs that open the same one share its
messages: each goes to one of them, and to another one if it is not acked in time. An ack that has returned is
durable: the message does not come again. One that raises leaves that open.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from liftlog.client.errors import RequestFailed
from liftlog.client.joining import JoinedAcks
from liftlog.client.reader import Reader
from liftlog.client.recent import RecentBatches
from liftlog.format import CorruptBatch
from liftlog.messages import (
    ACK,
    ERR_NOT_FOUND,
    NAK,
    PROGRESS,
    PULL_MAX,
    RUNS_MAX,
    SETTLE_MAX,
    TERM,
    TO_FLOOR,
    AlterConsumerRequest,
    ConsumerConfig,
    ConsumerInfo,
    ConsumersReply,
    ConsumersRequest,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DoneReply,
    PullReply,
    PullRequest,
    ResetConsumerRequest,
    SettledReply,
    SettleRequest,
    StreamInfo,
    offsets_of,
    runs_of,
)
from liftlog.types import LiftlogError, PartitionId, Record

WAIT_SLICE_MS = 2000
"""For so long a server waits at once: less than one attempt takes."""

RECENT = 2
"""Batches that a consumer keeps decoded: the one that it is given messages of, and the next."""


class Delivery(NamedTuple):
    """A message that a consumer was given, for the `delivered`-th time, by the leader of `epoch`."""

    record: Record
    delivered: int
    epoch: int = 0
    recorded: int = 0
    """Where the entry of the partition's journal ends that says so; 0: it left before that was committed."""
    sequence: int = 0
    """Its number among all deliveries of its consumer, from 1 on (K8). Another one may have the same if this
    one was not recorded, and its leader is lost.
    """
    to_come: int = -1
    """Behind it so many messages were to come that its consumer is to be given for the first time; -1: nobody
    could tell.
    """


class Settlement(NamedTuple):
    """What a leader answers to who settles messages. `unknown`: of these it knows no delivery. What it says
    of the others stands below the offset `journal` of the partition's journal; 0 of "nak" and "progress".
    """

    unknown: list[int]
    journal: int


class PullConsumer:
    """A consumer that exists, under one number: if it is deleted, and made anew, this one is over."""

    def __init__(self, reader: Reader, info: ConsumerInfo) -> None:
        self._reader = reader
        self._name = info.name
        self.number = info.number
        self.config = info.config
        self._recent = RecentBatches(RECENT)
        self._given: dict[int, None] = {}
        """Offsets that were given to this program, and that it has not settled."""
        self._acks = JoinedAcks(lambda offsets: self._settle_offsets(ACK, offsets))

    @property
    def name(self) -> str:
        return self._name

    @property
    def partition(self) -> PartitionId:
        return self._reader.partition

    async def info(self) -> ConsumerInfo:
        """As the partition's leader knows it now. Raises RequestFailed."""
        return (await consumers_of(self._reader, self._name))[0]

    async def alter(self, **changes: object) -> ConsumerInfo:
        """Give it other values of `ConsumerConfig`, such as `ack_wait_ms=5000`: but not where it begins.
        With another `filter`, or other `filters`, it is given what these match from its position on; what it
        was given already comes again as before, if it is not acked. With `pause_until_ms` nothing is
        delivered before that time, by its leader's clock.

        Raises RequestFailed, with code "already-exists" if somebody else altered it.
        """
        try:
            config = msgspec.structs.replace(self.config, **changes)
        except TypeError as error:
            raise LiftlogError(f"a consumer has no such thing to alter: {error}") from None
        request = AlterConsumerRequest(self.partition, self.number, self.config, config)
        info = (await self._reader.ask_leader(request, ConsumersReply)).consumers[0]
        self.config = info.config
        return info

    async def reset(self, offset: int | None = None) -> ConsumerInfo:
        """See `reset_consumer`. What this object was given counts for nothing from now on; it goes on."""
        info = await reset_consumer(self._reader, self._name, offset)
        self._become(info)
        return info

    def _become(self, info: ConsumerInfo) -> None:
        self.number, self.config = info.number, info.config
        self._given.clear()

    async def fetch(
        self, messages: int = 100, *, wait_ms: int = 1000, max_bytes: int = 1024 * 1024
    ) -> list[Delivery]:
        """At most so many messages; as soon as there are any, none if none came within `wait_ms` (0: what is
        there now). Those not acked within the consumer's `ack_wait_ms` are given again, to anybody.

        Raises RequestFailed, with code "not-found" if the consumer was deleted, or reset by somebody else:
        then it can be opened again; LiftlogError.
        """
        if not 0 < messages <= PULL_MAX:
            raise LiftlogError(f"{messages} messages cannot be fetched at once; 1 to {PULL_MAX} can")
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_ms / 1000
        while True:
            left_ms = max(0, round((until - loop.time()) * 1000))
            request = PullRequest(
                partition=self.partition,
                consumer=self.number,
                messages=messages,
                max_bytes=max_bytes,
                wait_ms=min(left_ms, WAIT_SLICE_MS),
            )
            reply = await self._reader.ask_leader(request, PullReply)
            if reply.runs or left_ms <= WAIT_SLICE_MS:
                return self._deliveries(reply)

    def _deliveries(self, reply: PullReply) -> list[Delivery]:
        found = deliveries_of(self.partition, reply, self._recent)
        self._given.update(dict.fromkeys(one.record.offset for one in found))
        return found

    async def ack(self, *deliveries: Delivery) -> list[int]:
        """These are done and never come again: that is durable when this returns. Returns offsets of which
        the leader knows no delivery, as after a change of leader: these do come again. Calls from several
        tasks are joined: at any time one request is under way.
        """
        return await self._acks.ack([one.record.offset for one in deliveries])

    async def term(self, *deliveries: Delivery) -> list[int]:
        """As `ack`, of what cannot be processed."""
        return await self._settle(TERM, deliveries)

    async def nak(self, *deliveries: Delivery, delay_ms: int = 0) -> list[int]:
        """Have these given again, `delay_ms` from now. A new leader may forget the delay."""
        return await self._settle(NAK, deliveries, delay_ms)

    async def progress(self, *deliveries: Delivery) -> list[int]:
        """These are still being worked on: their `ack_wait_ms` begins anew."""
        return await self._settle(PROGRESS, deliveries)

    async def _settle(self, how: str, deliveries: Sequence[Delivery], delay_ms: int = 0) -> list[int]:
        return await self._settle_offsets(how, [one.record.offset for one in deliveries], delay_ms)

    async def _settle_offsets(self, how: str, offsets: Sequence[int], delay_ms: int = 0) -> list[int]:
        return (await self.settle(how, offsets, delay_ms)).unknown

    async def settle(self, how: str, offsets: Sequence[int], delay_ms: int = 0) -> Settlement:
        """As `ack` and the others, by offset; `how` is one of "ack", "term", "nak" and "progress"."""
        unknown: list[int] = []
        journal = 0
        for request in settle_requests(self.partition, self.number, how, offsets, delay_ms):
            reply = await self._reader.ask_leader(request, SettledReply)
            journal = max(journal, reply.journal)
            unknown += offsets_of(reply.unknown)
            if how != PROGRESS:
                for place in offsets_of(request.runs):
                    self._given.pop(place, None)
        return Settlement(unknown, journal)

    async def give_back(self) -> None:
        """Have given again, to anybody and at once, what this program has not settled."""
        if self._given:
            await self._settle_offsets(NAK, list(self._given))

    def pull(self, messages: int = 100, *, max_bytes: int = 1024 * 1024) -> Pulling:
        """Deliveries without end, fetched so many at a time: an async context and iterator. Who leaves it
        gives back what is not settled.
        """
        return Pulling(self, messages, max_bytes)


class Pulling:
    """See `PullConsumer.pull`."""

    def __init__(self, consumer: PullConsumer, messages: int, max_bytes: int) -> None:
        self._consumer = consumer
        self._messages = messages
        self._max_bytes = max_bytes
        self._here: deque[Delivery] = deque()

    async def __aenter__(self) -> Pulling:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.give_back()

    def __aiter__(self) -> Pulling:
        return self

    async def __anext__(self) -> Delivery:
        while not self._here:
            self._here.extend(
                await self._consumer.fetch(
                    self._messages, wait_ms=WAIT_SLICE_MS, max_bytes=self._max_bytes
                )
            )
        return self._here.popleft()


def deliveries_of(partition: PartitionId, reply: PullReply, recent: RecentBatches) -> list[Delivery]:
    """The messages of an answer to a pull of this partition's. Raises LiftlogError."""
    try:
        batches = [recent.records(partition, frame) for frame in reply.batches]
    except CorruptBatch as error:
        text = f"partition {partition}: a server sent a damaged batch: {error}"
        raise LiftlogError(text) from None
    records = batches[0] if len(batches) == 1 else dict(pair for each in batches for pair in each.items())
    epoch, recorded, sequence, is_counted = reply.epoch, reply.recorded, reply.sequence, reply.to_come >= 0
    behind = reply.to_come + sum(length for _, length, count in reply.runs if count == 1)
    found: list[Delivery] = []
    for offset, length, count in reply.runs:
        for place in range(offset, offset + length):
            behind -= count == 1
            record = records.get(place)
            if record is not None:
                to_come = behind if is_counted else -1
                found.append(Delivery(record, count, epoch, recorded, sequence, to_come))
            sequence += 1
    return found


def settle_requests(
    partition: PartitionId, consumer: int, how: str, offsets: Sequence[int], delay_ms: int = 0
) -> list[SettleRequest]:
    """What says that of these offsets, as runs, in as many requests as that takes."""
    requests: list[SettleRequest] = []
    ordered = sorted(dict.fromkeys(offsets))
    for begin in range(0, len(ordered), SETTLE_MAX):
        runs = runs_of(ordered[begin : begin + SETTLE_MAX])
        for first in range(0, len(runs), RUNS_MAX):
            some = runs[first : first + RUNS_MAX]
            requests.append(SettleRequest(partition, consumer, how, some, delay_ms))
    return requests


class ConsumerOwner(Protocol):
    """What consumers are asked for with: the client."""

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo: ...

    def reader(
        self, stream: StreamInfo, partition: int, *, node: int = 0, spread: bool = False, timeout_ms: int = 0
    ) -> Reader: ...


class UsesConsumers:
    """A client's ways to consumers. All raise LiftlogError, RequestFailed, Unreachable."""

    async def consumer(
        self: ConsumerOwner,
        stream: str | StreamInfo,
        name: str,
        *,
        config: ConsumerConfig | None = None,
        partition: int = 0,
        timeout_ms: int = 0,
    ) -> PullConsumer:
        """The consumer with this name. With `config` it is made if it is not there, and refused, with code
        "already-exists", if it has another configuration; without it must be there.
        """
        reader = await _reader(self, stream, partition, timeout_ms)
        if config is None:
            return PullConsumer(reader, (await consumers_of(reader, name))[0])
        request = CreateConsumerRequest(reader.partition, name, config)
        return PullConsumer(reader, (await reader.ask_leader(request, ConsumersReply)).consumers[0])

    async def consumers(
        self: ConsumerOwner, stream: str | StreamInfo, *, partition: int = 0, timeout_ms: int = 0
    ) -> list[ConsumerInfo]:
        """All consumers of a partition, as its leader knows them."""
        return await consumers_of(await _reader(self, stream, partition, timeout_ms), "")

    async def delete_consumer(
        self: ConsumerOwner, stream: str | StreamInfo, name: str, *, partition: int = 0, timeout_ms: int = 0
    ) -> None:
        """Delete a consumer, with all that is known of it."""
        reader = await _reader(self, stream, partition, timeout_ms)
        await consumers_of(reader, name)
        try:
            await reader.ask_leader(DeleteConsumerRequest(reader.partition, name), DoneReply)
        except RequestFailed as error:
            # It was there: an earlier attempt without an answer may have deleted it.
            if error.code != ERR_NOT_FOUND:
                raise

    async def reset_consumer(
        self: ConsumerOwner,
        stream: str | StreamInfo,
        name: str,
        offset: int | None = None,
        *,
        partition: int = 0,
        timeout_ms: int = 0,
    ) -> ConsumerInfo:
        """Have a consumer begin again at this offset, or at the log start if that is behind it; None: at the
        first message that is not done. Its name and configuration stay. All that was delivered and acked is
        forgotten, and whoever was given something before has an ack of it refused: to them, it was deleted.
        """
        return await reset_consumer(await _reader(self, stream, partition, timeout_ms), name, offset)


async def reset_consumer(reader: Reader, name: str, offset: int | None) -> ConsumerInfo:
    """Of this reader's partition. Raises LiftlogError, RequestFailed, Unreachable."""
    if offset is not None and offset < 0:
        raise LiftlogError(f"a consumer cannot be reset to offset {offset}: name 0 or more, or None")
    request = ResetConsumerRequest(reader.partition, name, TO_FLOOR if offset is None else offset)
    return (await reader.ask_leader(request, ConsumersReply)).consumers[0]


async def consumers_of(reader: Reader, name: str) -> list[ConsumerInfo]:
    """The one with this name, or all of the partition."""
    return (await reader.ask_leader(ConsumersRequest(reader.partition, name), ConsumersReply)).consumers


async def _reader(
    client: ConsumerOwner, stream: str | StreamInfo, partition: int, timeout_ms: int
) -> Reader:
    info = stream if isinstance(stream, StreamInfo) else await client.stream(stream, timeout_ms)
    return client.reader(info, partition, timeout_ms=timeout_ms)
