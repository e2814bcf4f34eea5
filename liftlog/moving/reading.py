"""The messages of a stream in order, as a consumer without acks gives them.

Such a consumer misses nothing: its deliveries have numbers of their own, and where one is skipped another
consumer begins behind the last message that came. So a sequence between two messages that came is known to be
gone. What lies behind the last one is known when the stream was asked how far it goes, then there was nothing
more to give, and the stream itself finds no message there: a consumer hears of new ones a moment late.

The consumer lies in the origin's memory, and goes by itself a minute after nobody asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from typing import NamedTuple

import msgspec
import nats.errors

from liftlog.jetstream.ackwords import AckSubject, parse_ack_subject
from liftlog.jetstream.errors import CONSUMER_NOT_FOUND, NO_MESSAGE
from liftlog.jetstream.statuses import BATCH_COMPLETED, IDLE, NO_MESSAGES, REQUEST_TIMEOUT, TOO_LARGE
from liftlog.moving.origin import ASK_S, JetStreamOrigin, OriginAway, OriginSays

READER_PREFIX = "liftlog-import-"
"""How the consumers are called that read."""
BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
"""So much is asked for at once, and as much more as one message may have."""
UNUSED_NS = 60 * 1_000_000_000
NO_MORE_NOW = (TOO_LARGE.text, BATCH_COMPLETED.text, "Requests Pending")


class OriginMessage(NamedTuple):
    """One message as it lies there. `block`: its headers with their first line; empty: it has none."""

    seq: int
    subject: bytes
    block: bytes
    body: bytes
    time_ns: int


class OriginChunk(NamedTuple):
    """Some messages, in order. What lies up to `told`, behind what was told before, and is not among them is
    not in the stream.
    """

    messages: list[OriginMessage]
    told: int


class _Came(NamedTuple):
    subject: bytes
    reply: bytes
    body: bytes
    block: bytes


class _Made(msgspec.Struct):
    name: str


class _Stored(msgspec.Struct):
    seq: int


class _Found(msgspec.Struct):
    message: _Stored


class OriginReading:
    """Reads from a sequence on. Use as an async context manager."""

    def __init__(self, origin: JetStreamOrigin, first: int) -> None:
        self._origin = origin
        self._next = max(1, first)
        self._inbox = ""
        self._came: deque[_Came] = deque()
        self._moved = asyncio.Event()
        self._consumer = ""
        self._due = 1
        """The next delivery's number."""
        self._pulls = 0
        self._drained = True
        """The last answer had all that was there."""
        self.level = False
        """All that the stream had when it was asked last has been told."""

    async def __aenter__(self) -> OriginReading:
        connection = self._origin.nats
        self._inbox = connection.new_inbox()
        try:
            self._subscription = await connection.subscribe(f"{self._inbox}.*")
        except nats.errors.Error as error:
            raise OriginAway(f"the origin's NATS takes no subscription: {error}") from None
        connection.takers[self._subscription._id] = self._take
        return self

    async def __aexit__(self, *_: object) -> None:
        del self._origin.nats.takers[self._subscription._id]
        await self._leave_consumer()
        with contextlib.suppress(nats.errors.Error):
            await self._subscription.unsubscribe()

    def _take(self, subject: bytes, reply: bytes, body: bytes, block: bytes) -> None:
        self._came.append(_Came(subject, reply, body, block))
        self._moved.set()

    async def _begin(self) -> None:
        """Have a consumer that begins with what is next."""
        name = f"{READER_PREFIX}{secrets.token_hex(6)}"
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._next,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": UNUSED_NS,
            "mem_storage": True,
            "num_replicas": 1,
        }
        stream = self._origin.place.stream
        body = {"stream_name": stream, "config": config}
        made = await self._origin.ask(f"CONSUMER.CREATE.{stream}.{name}", body, _Made)
        self._consumer, self._due = made.name, 1

    async def _leave_consumer(self) -> None:
        """Forget it. The origin is told, if it hears that."""
        name, self._consumer = self._consumer, ""
        if name and self._origin.nats.is_connected:
            place = self._origin.place
            with contextlib.suppress(nats.errors.Error):
                await self._origin.nats.publish(f"{place.prefix}.CONSUMER.DELETE.{place.stream}.{name}")

    async def next(self, wait_ms: int = 0) -> OriginChunk:
        """What is there, or, where that is nothing, comes within `wait_ms`. Raises OriginAway, OriginSays,
        LiftlogError.
        """
        try:
            self.level = False
            last = (await self._origin.stream()).state.last_seq if self._drained else 0
            if not self._consumer:
                await self._begin()
            waits = self._drained and self._next > last
            chunk = await self._pull(wait_ms if waits else 0, last)
            self._next = max(self._next, chunk.told + 1)
            self.level = self._drained and 0 < last < self._next
            return chunk
        except OriginAway:
            await self._leave_consumer()
            raise
        except OriginSays as said:
            if said.number != CONSUMER_NOT_FOUND.err_code:
                raise
            await self._leave_consumer()
            return OriginChunk([], self._next - 1)

    async def _pull(self, wait_ms: int, last: int) -> OriginChunk:
        """One request. `last`: the stream's last sequence, if it was asked for just now."""
        self._pulls += 1
        inbox = f"{self._inbox}.{self._pulls}"
        most = BATCH_BYTES + self._origin.nats.max_payload
        wish: dict[str, object] = {"batch": BATCH, "max_bytes": most}
        wish |= {"expires": wait_ms * 1_000_000} if wait_ms else {"no_wait": True}
        place = self._origin.place
        subject = f"{place.prefix}.CONSUMER.MSG.NEXT.{place.stream}.{self._consumer}"
        try:
            await self._origin.nats.publish(subject, msgspec.json.encode(wish), reply=inbox)
        except nats.errors.Error as error:
            raise OriginAway(f"the origin's NATS takes no request: {error}") from None
        messages: list[OriginMessage] = []
        until = asyncio.get_running_loop().time() + wait_ms / 1000 + ASK_S
        self._drained = False
        while len(messages) < BATCH and not self._drained:
            came = await self._one(until)
            place_of = parse_ack_subject(came.reply.decode("utf-8", "replace")) if came.reply else None
            if place_of is None:
                if came.subject == inbox.encode() and await self._is_over(came):
                    break
            elif place_of.consumer == self._consumer:
                if place_of.consumer_seq != self._due:
                    await self._leave_consumer()
                    break
                messages.append(self._message(came, place_of))
                self._drained = place_of.pending == 0
        if messages:
            return OriginChunk(messages, messages[-1].seq)
        below = self._next - 1
        gone = self._drained and not wait_ms and below < last and await self._nothing_up_to(last)
        return OriginChunk([], last if gone else below)

    async def _nothing_up_to(self, last: int) -> bool:
        """Whether the stream has no message from the next one up to this sequence."""
        body = {"seq": self._next, "next_by_subj": ">"}
        try:
            found = await self._origin.ask(f"STREAM.MSG.GET.{self._origin.place.stream}", body, _Found)
        except OriginSays as said:
            if said.number != NO_MESSAGE.err_code:
                raise
            return True
        return found.message.seq > last

    def _message(self, came: _Came, place: AckSubject) -> OriginMessage:
        self._due += 1
        self._next = place.stream_seq + 1
        return OriginMessage(place.stream_seq, came.subject, came.block, came.body, place.timestamp_ns)

    async def _one(self, until: float) -> _Came:
        """The next thing that comes. Raises OriginAway if nothing does in time."""
        while not self._came:
            left_s = until - asyncio.get_running_loop().time()
            self._moved.clear()
            try:
                async with asyncio.timeout(max(0.0, left_s)):
                    await self._moved.wait()
            except TimeoutError:
                text = f"the origin at {self._origin.place.shown} does not give its messages in time"
                raise OriginAway(text) from None
        return self._came.popleft()

    async def _is_over(self, came: _Came) -> bool:
        """Whether a status ends the request; another consumer is to be made where it ends this one."""
        _, _, said = came.block.partition(b"\r\n")[0].decode("utf-8", "replace").partition(" ")
        code, _, text = said.partition(" ")
        if code == str(IDLE.code):
            return False
        if code == str(NO_MESSAGES.code) or text.strip() == REQUEST_TIMEOUT.text:
            self._drained = True
        elif text.strip() not in NO_MORE_NOW:
            await self._leave_consumer()
        return True
