"""Consumers as a door knows them: what the core said of them, kept as long as it holds.

A consumer is found by its name, and asked by its number. Once the core knows no such number any more, it is
looked for anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from liftlog.client.client import Client
from liftlog.client.consuming import (
    WAIT_SLICE_MS,
    Delivery,
    consumers_of,
    deliveries_of,
    reset_consumer,
    settle_requests,
)
from liftlog.client.errors import RequestFailed
from liftlog.client.joining import JoinedAcks
from liftlog.client.reader import TIME, Reader
from liftlog.client.recent import RecentBatches
from liftlog.jetstream.ackwords import acks_of
from liftlog.jetstream.consumerconfigs import JsConsumerConfig, from_core
from liftlog.jetstream.errors import CONSUMER_NOT_FOUND, JsError
from liftlog.jetstream.groups import PullStanding
from liftlog.jetstream.shown import find_stream
from liftlog.messages import (
    ACK,
    ERR_NOT_FOUND,
    PULL_MAX,
    AlterConsumerRequest,
    ConsumerConfig,
    ConsumerInfo,
    ConsumersReply,
    DoneReply,
    PullReply,
    PullRequest,
    SettledReply,
    StreamInfo,
    UnpinRequest,
    offsets_of,
)
from liftlog.types import LiftlogError

T = TypeVar("T")

KNOWN_MAX = 10_000
"""More than that are forgotten, and looked for anew."""

RECENT_MAX = 16
"""Batches that a door keeps decoded, of all consumers."""


class KnownConsumer:
    """One of them, under one number."""

    def __init__(
        self, stream: StreamInfo, reader: Reader, info: ConsumerInfo, recent: RecentBatches
    ) -> None:
        self.stream = stream
        self.config: JsConsumerConfig
        self.created_ms: int
        self.last_info: ConsumerInfo
        """What was told of it last."""
        self.name = info.name
        self.number = info.number
        self.learn(info)
        self.acks_at = acks_of(stream.config.name, info.name)
        self.waiting = 0
        """Pulls that wait at this door."""
        self._reader = reader
        self._recent = recent
        self._settled_below = info.floor
        """Where acks settle all before them: below it this door has nothing to settle."""
        self._soon: list[int] = []
        self._settling = False
        self._acks = JoinedAcks(lambda offsets: self.settle(ACK, offsets))

    @property
    def stream_name(self) -> str:
        return self.stream.config.name

    async def info(self) -> ConsumerInfo:
        """As the leader knows it now. Raises RequestFailed."""
        return (await consumers_of(self._reader, self.name))[0]

    async def pull(
        self, messages: int, max_bytes: int, wait_ms: int, standing: PullStanding | None = None
    ) -> list[Delivery]:
        """What is there, or comes in time. `standing`: in a priority group. Raises RequestFailed,
        LiftlogError.
        """
        request = PullRequest(
            partition=self._reader.partition,
            consumer=self.number,
            messages=min(messages, PULL_MAX),
            max_bytes=max_bytes,
            wait_ms=min(wait_ms, WAIT_SLICE_MS),
            **(standing.asks() if standing is not None else {}),
        )
        reply = await self._reader.ask_leader(request, PullReply)
        if reply.runs and reply.to_come < 0:
            behind = (await self.info()).num_pending
            if behind < 0:
                # Clients take 0 for the end: where nobody can count it is not said.
                behind = 1 + sum(length for _, length, count in reply.runs if count > 1)
            reply = msgspec.structs.replace(reply, to_come=behind)
        if standing is not None and reply.runs:
            standing.told(reply.pin)
        return deliveries_of(self._reader.partition, reply, self._recent)

    async def unpin(self, group: str) -> None:
        """Nobody is pinned from now on. Raises RequestFailed."""
        await self._reader.ask_leader(UnpinRequest(self._reader.partition, self.number, group), DoneReply)

    async def alter(self, config: ConsumerConfig) -> None:
        """From now on it has this one. Raises RequestFailed if somebody has altered it meanwhile."""
        request = AlterConsumerRequest(
            self._reader.partition, self.number, self.last_info.config, config
        )
        reply = await self._reader.ask_leader(request, ConsumersReply)
        self.learn(reply.consumers[0])

    async def reset(self, offset: int | None) -> ConsumerInfo:
        """Have another one take its place, which begins there; None: with the first that is not done. Raises
        RequestFailed.
        """
        return await reset_consumer(self._reader, self.name, offset)

    async def first_at(self, timestamp_ms: int) -> int:
        """The first offset at this time, or later."""
        return await self._reader.offset(TIME, timestamp_ms)

    def learn(self, info: ConsumerInfo) -> None:
        """It has been told."""
        self.config, self.created_ms = from_core(info.name, info.config)
        self.last_info = info

    async def settle(self, how: str, offsets: Sequence[int], delay_ms: int = 0) -> list[int]:
        """Say what became of messages. Returns of which no delivery is known."""
        unknown: list[int] = []
        for request in settle_requests(self._reader.partition, self.number, how, offsets, delay_ms):
            unknown += offsets_of((await self._reader.ask_leader(request, SettledReply)).unknown)
        return unknown

    async def ack(self, offsets: Sequence[int]) -> list[int]:
        """These are done; that is durable when this returns. Those of several tasks are joined."""
        return await self._acks.ack(offsets)

    def ack_soon(self, offset: int) -> bool:
        """This one is done, and nobody waits to hear that. Whether somebody has to see to it now, by
        `settle_soon`: one task does, for all that come meanwhile.
        """
        self._soon.append(offset)
        first, self._settling = not self._settling, True
        return first

    async def settle_soon(self) -> None:
        """See to what `ack_soon` was told. Raises RequestFailed, LiftlogError."""
        try:
            while self._soon:
                offsets, self._soon = self._soon, []
                await self.ack(offsets)
        finally:
            self._settling = False

    async def ack_all(self, offset: int) -> list[int]:
        """This one is done, and all before it."""
        below = self._settled_below
        unknown = await self.ack(range(min(below, offset), offset + 1))
        self._settled_below = max(self._settled_below, offset + 1)
        return [offset] if offset in unknown else []


class KnownConsumers:
    """Those of one door."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[str, str], KnownConsumer] = {}
        self._recent = RecentBatches(RECENT_MAX)
        self._finding: dict[tuple[str, str], asyncio.Task[KnownConsumer]] = {}

    def known(self, stream: str, name: str) -> KnownConsumer | None:
        """As it was found before, if it was."""
        return self._known.get((stream, name))

    async def find(self, stream: str, name: str) -> KnownConsumer:
        """The consumer of this name. Raises JsError if the stream or the consumer is not there."""
        key = stream, name
        known = self._known.get(key)
        if known is not None:
            return known
        task = self._finding.get(key)
        if task is None:
            task = self._finding[key] = asyncio.create_task(self._find(stream, name))
            task.add_done_callback(lambda _: self._finding.pop(key))
        return await asyncio.shield(task)

    async def _find(self, stream: str, name: str) -> KnownConsumer:
        return await self.look_up(await find_stream(self._client, stream), name)

    async def look_at(self, stream: StreamInfo, name: str) -> KnownConsumer:
        """As `look_up`, but a consumer that goes when it is not used is not used by that."""
        reader = self._client.reader(stream, 0)
        for info in await consumers_of(reader, ""):
            if info.name == name:
                return self.add(stream, reader, info)
        self.forget(stream.config.name, name)
        raise CONSUMER_NOT_FOUND.because()

    async def look_up(self, stream: StreamInfo, name: str) -> KnownConsumer:
        """What the core knows of it now, if the door shows its stream. Raises JsError if it is not there."""
        reader = self._client.reader(stream, 0)
        try:
            info = (await consumers_of(reader, name))[0]
        except RequestFailed as error:
            if error.code == ERR_NOT_FOUND:
                self.forget(stream.config.name, name)
                raise CONSUMER_NOT_FOUND.because() from None
            raise
        return self.add(stream, reader, info)

    def add(self, stream: StreamInfo, reader: Reader, info: ConsumerInfo) -> KnownConsumer:
        """The core has told of it."""
        key = stream.config.name, info.name
        known = self._known.get(key)
        # Its number is of this stream's journal, and a stream of the same name may be another one.
        if known is not None and (known.stream.id, known.number) == (stream.id, info.number):
            known.learn(info)
            return known
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        known = self._known[key] = KnownConsumer(stream, reader, info, self._recent)
        return known

    async def in_place_of(self, known: KnownConsumer) -> KnownConsumer | None:
        """The one that has taken its place when it was reset; None if it was deleted. Raises LiftlogError."""
        self.forget(known.stream_name, known.name)
        try:
            found = await self.find(known.stream_name, known.name)
        except JsError:
            return None
        return found if found.created_ms == known.created_ms and found.number != known.number else None

    def forget(self, stream: str, name: str) -> None:
        """It is no more, or is another one."""
        self._known.pop((stream, name), None)

    async def doing(self, stream: str, name: str, work: Callable[[KnownConsumer], Awaitable[T]]) -> T:
        """What `work` makes of the consumer; of the one that there is now, if the one that was known is no
        more. Raises JsError, LiftlogError.
        """
        known = await self.find(stream, name)
        try:
            return await work(known)
        except LiftlogError as error:
            if not is_over(error):
                raise
        self.forget(stream, name)
        return await work(await self.find(stream, name))


def is_over(error: LiftlogError) -> bool:
    """Whether it says that the consumer, or its stream, is no more."""
    if isinstance(error, RequestFailed):
        return error.code == ERR_NOT_FOUND
    return "was deleted and created anew" in str(error)
