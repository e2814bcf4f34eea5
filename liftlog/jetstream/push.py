"""Push consumers: the door of the node that leads a stream pulls for them, and sends on.

Each of these doors looks once in a second at which streams its node leads, and at their consumers now and
then, or when another door says that one was made. While nobody listens nothing is pulled: then the consumer
is inactive, as a pull consumer that nobody asks.

Flow control: so many bytes may be sent that the client has not confirmed. A request to confirm is sent when
half of them are; what was sent before it counts no more once it is answered, and then there may be more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Sequence

import nats.errors
from nats.aio.msg import Msg

from liftlog.client.consuming import WAIT_SLICE_MS, Delivery
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.eventlog import say
from liftlog.jetstream import statuses
from liftlog.jetstream.deliveries import give_back, give_back_late, messages_of, settle_unasked, size_of
from liftlog.jetstream.dispatch import Room
from liftlog.jetstream.heartbeats import Heartbeats
from liftlog.jetstream.knownconsumers import KnownConsumer, is_over
from liftlog.jetstream.leaf import LeafAway, LeafMessage
from liftlog.jetstream.shown import is_shown
from liftlog.messages import StreamInfo
from liftlog.types import LiftlogError

LOOK_S = 1.0
"""How often is looked at which streams are led here."""
LIST_EVERY = 5
"""Every so many looks the consumers of all of them are looked at."""
PUSH_MESSAGES = 1000
PUSH_BYTES = 1024 * 1024
WINDOW_MIN = 64 * 1024
WINDOW_MAX = 32 * 1024 * 1024
RETRY_S = 0.2
SENT_WAIT_S = 1.0


def sent_subject(domain: str, stream: str, consumer: str) -> str:
    """Where the door that pushes for a consumer says whether what was given is sent."""
    return f"$JS.{domain}.DOOR.SENT.{stream}.{consumer}"


async def all_is_sent(room: Room, known: KnownConsumer) -> None:
    """Return when what a push consumer was given, as we know, is sent: who is told that nothing is pending
    takes what has not come by then for nothing.
    """
    subject = sent_subject(room.domain, known.stream_name, known.name)
    with contextlib.suppress(nats.errors.Error, TimeoutError):
        await room.nats.request(subject, b"%d" % known.last_info.sequence, timeout=2 * SENT_WAIT_S)


class FlowWindow:
    """How much a client has not confirmed."""

    def __init__(self) -> None:
        self.most = WINDOW_MIN
        self.unconfirmed = 0
        self.asked = ""
        """The subject by which what was sent is to be confirmed; empty: nobody was asked."""
        self._asked_at = 0

    @property
    def is_full(self) -> bool:
        return self.unconfirmed >= self.most

    def sent(self, size: int) -> bool:
        """Whether it is to be asked now."""
        self.unconfirmed += size
        return not self.asked and self.unconfirmed > self.most // 2

    def ask(self, subject: str) -> None:
        self.asked, self._asked_at = subject, self.unconfirmed

    def confirmed(self, subject: str) -> bool:
        """Whether that was what was asked."""
        if subject != self.asked:
            return False
        self.unconfirmed -= self._asked_at
        self.most = min(WINDOW_MAX, self.most * 2)
        self.asked = ""
        return True


class Pushing:
    """What goes on for one push consumer. `run` until it is cancelled, or the consumer is over."""

    def __init__(self, room: Room, known: KnownConsumer) -> None:
        self._room = room
        self._known = known
        self.config = known.config
        self._to = known.config.deliver_subject
        self._clock = asyncio.get_running_loop().time
        self._beats = Heartbeats(room.leaf, self._to, known.config.idle_heartbeat)
        self._window = FlowWindow()
        self._confirmed = asyncio.Event()
        self._sent = asyncio.Event()
        """Set, and another one taken, whenever something was sent."""
        self._flow = f"$JS.FC.{known.stream_name}.{known.name}"

    async def run(self) -> None:
        connection = self._room.nats
        asked_at = sent_subject(self._room.domain, self._known.stream_name, self._known.name)
        subscriptions = [await connection.subscribe(asked_at, cb=self._on_asked_what_was_sent)]
        if self.config.flow_control:
            subscriptions.append(await connection.subscribe(f"{self._flow}.*", cb=self._on_confirmed))
        try:
            info = self._known.last_info
            self._beats.last = info.sequence, info.position
            self._beats.restart()
            while await self._once():
                pass
        finally:
            for subscription in subscriptions:
                if not connection.is_closed:
                    await subscription.unsubscribe()

    async def _on_asked_what_was_sent(self, message: Msg) -> None:
        """Answer when the deliveries up to this one are on their way, behind them."""
        if message.data.isdigit():
            self._room.start(self._say_when_sent(int(message.data), message.reply), "what was sent")

    async def _say_when_sent(self, sequence: int, reply: str) -> None:
        try:
            async with asyncio.timeout(SENT_WAIT_S):
                while self._beats.last[0] < sequence:
                    await self._sent.wait()
        except TimeoutError:
            return  # What was given meanwhile was given back, or is given to nobody.
        await self._room.leaf.send([LeafMessage(reply)])

    async def _on_confirmed(self, message: Msg) -> None:
        if self._window.confirmed(message.subject):
            self._confirmed.set()

    async def _once(self) -> bool:
        """Send what the leader gives, once. Whether there is still a consumer."""
        await self._room.leaf.heard(self._to)
        try:
            if self.config.flow_control and self._window.is_full:
                await self._wait_for_room()
                return True
            found = await self._asked()
            if found:
                await self._hand_over(found)
        except LeafAway:
            pass
        except (RequestFailed, Unreachable) as error:
            if is_over(error):
                return False
            await asyncio.sleep(RETRY_S)
        except LiftlogError as error:
            if is_over(error):
                return False
            raise
        return True

    async def _wait_for_room(self) -> None:
        """Until the client has confirmed, or for a while; heartbeats say that it is waited for."""
        self._confirmed.clear()
        if not self._window.asked:
            await self._room.leaf.send([self._question()])
        try:
            async with asyncio.timeout(self._quiet_s() or LOOK_S):
                await self._confirmed.wait()
        except TimeoutError:
            await self._beat()
            if not self._room.leaf.hears(self._to):
                self._window = FlowWindow()

    def _question(self) -> LeafMessage:
        """By which the client is to confirm all that was sent so far."""
        subject = f"{self._flow}.{secrets.token_hex(4)}"
        self._window.ask(subject)
        return LeafMessage(self._to, subject, statuses.FLOW_CONTROL.block())

    def _quiet_s(self) -> float:
        due_at = self._beats.due_at
        return max(0.001, due_at - self._clock()) if due_at is not None else 0.0

    async def _asked(self) -> list[Delivery]:
        """What the leader gives within a while, with heartbeats meanwhile."""
        asking = asyncio.create_task(self._known.pull(PUSH_MESSAGES, PUSH_BYTES, WAIT_SLICE_MS))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=self._quiet_s() or None)
                if not asking.done():
                    await self._beat()
            return asking.result()
        finally:
            if not asking.done():
                late = give_back_late(self._known, asking)
                self._room.start(late, "messages that came too late for a push consumer")

    async def _beat(self) -> None:
        """A heartbeat may be due."""
        stalled = self._window.is_full and self._window.asked
        await self._beats.beat({statuses.STALLED: self._window.asked} if stalled else None)

    async def _hand_over(self, found: Sequence[Delivery]) -> None:
        """Send them, and ask for a confirmation when there is much without one."""
        if not self._room.leaf.hears(self._to):
            await give_back(self._known, found)
            return
        messages = messages_of(self._known, found, self._to)
        if self.config.flow_control:
            messages = self._with_questions(messages)
        try:
            await self._room.leaf.send(messages)
        except LeafAway:
            await give_back(self._known, found)
            raise
        self._beats.last = found[-1].sequence, found[-1].record.offset + 1
        sent, self._sent = self._sent, asyncio.Event()
        sent.set()
        await self._slowly(messages)
        self._beats.restart()
        if self.config.ack_policy == "none":
            self._room.start(settle_unasked(self._known, found), "messages of a consumer without acks")

    def _with_questions(self, messages: Sequence[LeafMessage]) -> list[LeafMessage]:
        """These, and what the client is to confirm between them."""
        asking: list[LeafMessage] = []
        for message in messages:
            asking.append(message)
            if self._window.sent(size_of(message)):
                asking.append(self._question())
        return asking

    async def _slowly(self, messages: Sequence[LeafMessage]) -> None:
        """So many bits a second, and no more, if there is a limit; heartbeats go on."""
        if self.config.rate_limit_bps > 0:
            until = self._clock() + 8 * sum(map(size_of, messages)) / self.config.rate_limit_bps
            while (left := until - self._clock()) > 0:
                await asyncio.sleep(min(left, self._quiet_s() or left))
                await self._beat()


class Pushes:
    """All push consumers of the streams that one node leads; of all streams, if the door stands alone."""

    def __init__(self, room: Room, node: int) -> None:
        self._room = room
        self._node = node
        self._running: dict[tuple[int, str], tuple[Pushing, asyncio.Task[None]]] = {}
        self._led: dict[int, StreamInfo] = {}
        self._look = asyncio.Event()
        self._named: set[str] = set()
        """Streams whose consumers are to be looked at soon."""

    @property
    def subject(self) -> str:
        """Where doors tell each other of push consumers that were made."""
        return f"$JS.{self._room.domain}.DOOR.PUSH"

    async def soon(self, stream: str) -> None:
        """Have the leader's door look at a stream's consumers."""
        await self._room.nats.publish(f"{self.subject}.{stream}", b"")

    async def run(self) -> None:
        """Until cancelled."""
        await self._room.nats.subscribe(f"{self.subject}.*", cb=self._on_named)
        looks = 0
        try:
            while True:
                try:
                    await self._look_at(everything=looks % LIST_EVERY == 0)
                except Exception as error:
                    # A cluster that says nothing now is asked again.
                    if not isinstance(error, LiftlogError):
                        say(logging.WARNING, "jetstream", f"push consumers: {type(error).__name__}: {error}")
                looks += 1
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self._look.wait()
                except TimeoutError:
                    pass
                self._look.clear()
        finally:
            for key in list(self._running):
                self._end(key)

    async def _on_named(self, message: Msg) -> None:
        self._named.add(message.subject.rpartition(".")[2])
        self._look.set()

    async def _look_at(self, *, everything: bool) -> None:
        """Begin what is to begin here, and end what is to end."""
        named, self._named = self._named, set()
        known = await self._room.client.known_streams(self._node)
        led = {info.id: info for info in known if self._leads(info)}
        for key in [key for key in self._running if key[0] not in led]:
            self._end(key)
        for info in led.values():
            if everything or info.id not in self._led or info.config.name in named:
                await self._begin(info)
        self._led = led
        # Who has heard of a stream before its node has looks at it again.
        missed = named - {info.config.name for info in known}
        if missed:
            self._named |= missed

    def _leads(self, info: StreamInfo) -> bool:
        return is_shown(info) and (not self._node or info.partitions[0].leader == self._node)

    async def _begin(self, stream: StreamInfo) -> None:
        """Those of one stream that this node leads."""
        found: set[tuple[int, str]] = set()
        reader = self._room.client.reader(stream, 0)
        for info in await self._room.client.consumers(stream):
            known = self._room.consumers.add(stream, reader, info)
            if not known.config.is_push:
                continue
            key = stream.id, known.name
            found.add(key)
            running = self._running.get(key)
            if running is not None and (running[1].done() or running[0].config != known.config):
                self._end(key)
                running = None
            if running is None:
                pushing = Pushing(self._room, known)
                self._running[key] = pushing, asyncio.create_task(self._push(pushing, known))
        for key in [key for key in self._running if key[0] == stream.id and key not in found]:
            self._end(key)

    async def _push(self, pushing: Pushing, known: KnownConsumer) -> None:
        try:
            await pushing.run()
        except Exception as error:
            # It is begun again with the next list.
            name = f"{known.stream_name}.{known.name}"
            say(logging.WARNING, "jetstream", f"push consumer {name}: {type(error).__name__}: {error}")
        self._room.consumers.forget(known.stream_name, known.name)

    def _end(self, key: tuple[int, str]) -> None:
        """The consumer, or the office, is over."""
        self._running.pop(key)[1].cancel()
