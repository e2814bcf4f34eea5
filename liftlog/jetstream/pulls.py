"""Pulls: a request for messages, to which they are sent one by one, with a status at its end.

Any door serves a pull, by asking the partition's leader. While it waits there the door looks after all that
has to do with time: when it expires, when a heartbeat is due, and whether anybody still listens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from liftlog.client.consuming import WAIT_SLICE_MS, Delivery
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.jetstream import statuses
from liftlog.jetstream.answers import NS_PER_S
from liftlog.jetstream.calls import JsCall
from liftlog.jetstream.deliveries import give_back, give_back_late, messages_of, settle_unasked, size_of
from liftlog.jetstream.dispatch import Handlers, Room
from liftlog.jetstream.errors import JsError
from liftlog.jetstream.heartbeats import Heartbeats
from liftlog.jetstream.knownconsumers import KnownConsumer, is_over
from liftlog.jetstream.leaf import LeafAway, LeafMessage
from liftlog.jetstream.nextrequests import NextRequest, PullRefused, check_limits, parse_next, standing_of
from liftlog.jetstream.statuses import JsStatus
from liftlog.messages import ERR_PIN_LOST, ERR_PIN_OTHER
from liftlog.types import LiftlogError

PULL_BYTES = 1024 * 1024
"""So much is asked for at once."""
LEVEL_HEADER = "Nats-Required-Api-Level"
NO_RESPONDERS = JsStatus(503, "")


class Ended(Exception):
    """A pull is over; `status` is sent, with what was not given if `counts`; None: nothing."""

    def __init__(self, status: JsStatus | None, counts: bool = False) -> None:
        super().__init__()
        self.status = status
        self.counts = counts


def _ended_by(error: RequestFailed) -> Ended:
    """Why a pull is over whose leader has refused it."""
    if error.code == ERR_PIN_OTHER:
        return Ended(statuses.PIN_MISMATCH)
    if error.code == ERR_PIN_LOST:
        return Ended(statuses.WRONG_PIN, counts=True)
    return Ended(statuses.LEADERSHIP_CHANGE)


class Pull:
    """One of them, which has been accepted."""

    def __init__(self, room: Room, known: KnownConsumer, request: NextRequest, reply: str) -> None:
        self._room = room
        self._known = known
        self._reply = reply
        self._clock = asyncio.get_running_loop().time
        self._left = request.batch
        self._bytes_left = request.max_bytes
        self._by_bytes = request.max_bytes > 0
        self._given = False
        self._no_wait = request.no_wait
        self._until = self._clock() + request.expires / NS_PER_S if request.expires else None
        self._standing = standing_of(request, known.config)
        self._beats = Heartbeats(room.leaf, reply, request.idle_heartbeat)

    async def run(self) -> None:
        """Until it is fulfilled or over."""
        self._known.waiting += 1
        try:
            while self._left > 0:
                await self._once()
            if self._by_bytes and self._bytes_left > 0:
                raise Ended(statuses.BATCH_COMPLETED, counts=True)
        except Ended as ended:
            await self._end(ended)
        except LeafAway:
            pass
        except asyncio.CancelledError:
            await self._end(Ended(statuses.SERVER_SHUTDOWN, counts=True))
            raise
        finally:
            self._known.waiting -= 1

    async def _end(self, ended: Ended) -> None:
        if ended.status is None:
            return
        counts = statuses.unserved(self._left, self._bytes_left) if ended.counts else None
        with contextlib.suppress(LeafAway):
            await self._room.leaf.send([LeafMessage(self._reply, block=ended.status.block(counts))])

    async def _once(self) -> None:
        """Ask the leader once, and hand over what it gives. Raises Ended."""
        wait_ms = self._wait_ms()
        found = await self._asked(wait_ms)
        if found:
            await self._hand_over(found)
        elif self._no_wait and (self._given or self._until is None):
            raise Ended(statuses.NO_MESSAGES)
        elif self._until is not None and self._clock() >= self._until:
            raise Ended(statuses.REQUEST_TIMEOUT, counts=True)

    def _wait_ms(self) -> int:
        if self._no_wait and (self._given or self._until is None):
            return 0
        if self._until is None:
            return WAIT_SLICE_MS
        return max(0, min(WAIT_SLICE_MS, round((self._until - self._clock()) * 1000)))

    async def _asked(self, wait_ms: int) -> list[Delivery]:
        """What the leader gives. Raises Ended; what comes later than that is given back."""
        max_bytes = min(self._bytes_left, PULL_BYTES) if self._by_bytes else PULL_BYTES
        asking = asyncio.create_task(self._known.pull(self._left, max_bytes, wait_ms, self._standing))
        unheard = asyncio.create_task(self._room.leaf.unheard(self._reply))
        try:
            while not asking.done():
                await asyncio.wait({asking, unheard}, timeout=self._quiet_s(), return_when="FIRST_COMPLETED")
                if asking.done():
                    break
                if unheard.done():
                    raise Ended(None)
                if self._until is not None and self._clock() >= self._until:
                    raise Ended(statuses.REQUEST_TIMEOUT, counts=True)
                await self._beats.beat()
            return asking.result()
        except LeafAway:
            raise Ended(None) from None
        except Unreachable:
            raise Ended(statuses.LEADERSHIP_CHANGE) from None
        except LiftlogError as error:
            if is_over(error):
                await self._go_on_with_another()
                return []
            if isinstance(error, RequestFailed):
                raise _ended_by(error) from None
            raise
        finally:
            unheard.cancel()
            if not asking.done():
                late = give_back_late(self._known, asking)
                self._room.start(late, "messages that came too late for a pull")

    async def _go_on_with_another(self) -> None:
        """Its consumer is no more: another one has taken its place, or it was deleted. Raises Ended."""
        try:
            found = await self._room.consumers.in_place_of(self._known)
        except LiftlogError:
            raise Ended(statuses.LEADERSHIP_CHANGE) from None
        if found is None:
            raise Ended(statuses.CONSUMER_DELETED)
        self._known = found

    def _quiet_s(self) -> float | None:
        """How long nothing is due."""
        due = [at for at in (self._until, self._beats.due_at) if at is not None]
        return max(0.0, min(due) - self._clock()) if due else None

    async def _hand_over(self, found: Sequence[Delivery]) -> None:
        """Send them, as far as bytes are left. Raises Ended."""
        messages = messages_of(self._known, found, self._reply, self._standing.pin)
        if self._by_bytes:
            del messages[self._fitting(messages) :]
        sent, kept = found[: len(messages)], found[len(messages) :]
        try:
            await self._room.leaf.send(messages)
        except LeafAway:
            sent, kept = [], found
        if kept:
            self._room.start(give_back(self._known, kept), "messages that a pull has no room for")
        if sent:
            self._left -= len(sent)
            self._given = True
            self._beats.last = sent[-1].sequence, sent[-1].record.offset + 1
            self._beats.restart()
            if self._known.config.ack_policy == "none":
                self._room.start(settle_unasked(self._known, sent), "messages of a consumer without acks")
        elif found and not messages:
            raise Ended(statuses.TOO_LARGE, counts=True)
        if kept:
            raise Ended(statuses.TOO_LARGE if messages else None, counts=True)
        if self._by_bytes and not self._bytes_left and self._left:
            self._left = 0

    def _fitting(self, messages: Sequence[LeafMessage]) -> int:
        """How many of these have room, which they take."""
        for place, size in enumerate(map(size_of, messages)):
            if size > self._bytes_left:
                return place
            self._bytes_left -= size
        return len(messages)


async def next_messages(room: Room, call: JsCall) -> None:
    """Serve a pull."""
    if call.reply:
        await serve(room, call)


async def serve(room: Room, call: JsCall) -> None:
    """Serve it, to `call.reply`."""
    try:
        known = await room.consumers.find(call.stream, call.consumer)
        request = _accepted(known, call)
    except PullRefused as refused:
        await room.leaf.send([LeafMessage(call.reply, block=refused.status.block())])
    except JsError as error:
        if error.code != 404:
            raise
        # As if nobody listened, as nobody does for JetStream's consumers that are not there.
        await room.leaf.send([LeafMessage(call.reply, block=NO_RESPONDERS.block())])
    else:
        await Pull(room, known, request, call.reply).run()


def _accepted(known: KnownConsumer, call: JsCall) -> NextRequest:
    """What is asked for. Raises PullRefused."""
    if known.config.is_push:
        raise PullRefused(statuses.PUSH_BASED)
    request = parse_next(call.payload)
    check_limits(request, known.config)
    if 0 < known.config.max_waiting <= known.waiting:
        raise PullRefused(statuses.MAX_WAITING)
    return request


HANDLERS: Handlers = {"CONSUMER.MSG.NEXT": next_messages}
