"""A node's own connection to NATS: ingest, acknowledgements, and the door of the API.

Why not nats-py here: it serves one message per callback, and this is the path the project exists for. The
reader takes whatever the socket holds, parses the whole buffer (`nats_parser`) and hands the core ONE
`Published` event per subscription; the writer sends everything that was queued since its last write in one
call. Between the two nothing is done per message. All the rest of NATS (clients, tools) uses nats-py.

Rules that live here: a subscription counts only once the server has answered the PING sent after the SUB
(N1); a closed subscription's late messages are dropped unanswered (N2, N3); the socket is always drained
(N6): the reader waits for nothing but the core's inbox, which the driver empties without ever blocking; a
message over the stream's limit is refused here (L3), without troubling the core; a plain message needs
nothing but a subject, and its reply subject, if any, gets the ack (L1), unless the stream keeps silent (N8).
"""

from __future__ import annotations

import logging
import re
import ssl
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

import trio

from liftlog.eventlog import say
from liftlog.messages import (
    ERR_TOO_LARGE,
    AckPublishes,
    BusDown,
    BusUp,
    Drained,
    Event,
    Published,
    PublishLetter,
    RefusePublishes,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
    TellFast,
    TellStaged,
)
from liftlog.nats_login import NO_LOGIN, NatsLogin
from liftlog.options.reading import counted_bytes, wishes_of
from liftlog.options.wishes import NONE
from liftlog.ports import Clock
from liftlog.real import nats_wire
from liftlog.real.direct import DirectSocket, direct
from liftlog.real.letterbox import LetterBox
from liftlog.real.nats_handshake import ConnectionLost, log_in
from liftlog.real.nats_parser import NatsParser, Parsed, ProtocolError
from liftlog.real.nats_wire import NatsAddress
from liftlog.real.silence import Silence
from liftlog.types import LiftlogError, Message, PartitionId

READ_BYTES = 256 * 1024
HOLD_MAX_S = 0.005
"""So long at most messages are left in the socket while they would have to wait anyway: they are stored and
copied together then, at the price of one, and no later."""
STEADY_MESSAGES = 2
"""A read that brought so many for each of its partitions will be followed by more of the same."""
PLENTY_BYTES = 64 * 1024
"""After a read that brought more there is no lack of messages that can be stored together: the next one may
come in while the disk is busy."""
CONNECT_TIMEOUT_S = 5.0
PING_INTERVAL_S = 1.0
BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 1.0
OUTGOING_LIMIT_BYTES = 64 * 1024 * 1024
"""Answers beyond this are dropped: a server that does not read must not eat our memory. No answer =
unknown."""

COMPLAINT_INTERVAL_S = 5.0
API_RETRY_ROUNDS = 10
"""Rounds of PING after which a refused subscription of the API is tried again: permissions change."""
REASON_MAX_CHARACTERS = 200
SUBSCRIPTION_VIOLATION = re.compile(r'Permissions Violation for Subscription to "([^"]*)"')

ApiHandler = Callable[[bytes, bytes, bytes, bytes], None]
"""Called with (subject, reply, headers, payload) of a request to the API."""


class Subscription(NamedTuple):
    partition: PartitionId
    epoch: int
    max_payload_bytes: int
    stream: str
    subject: str
    number: int


class ApiSubscription(NamedTuple):
    subject: str
    queue: str
    handler: ApiHandler


def _too_large(
    subscription: Subscription, messages: list[Message], text: str, now_ms: int
) -> RefusePublishes:
    """What their publishers are told, each in the form that he wants (R4)."""
    partition, stream = subscription.partition, subscription.stream
    wishes = [wishes_of(message, stream, partition.index) for message in messages]
    pairs = list(zip(messages, wishes, strict=True))
    return RefusePublishes(
        partition=partition,
        stream=stream,
        epoch=subscription.epoch,
        code=ERR_TOO_LARGE,
        description=text,
        replies=[b"" if wish.policy == NONE else wish.answered_at(message.reply) for message, wish in pairs],
        full=[wish.full_ack for wish in wishes],
        enveloped=[wish.enveloped(message.subject, subscription.subject, now_ms) for message, wish in pairs],
    )


class NatsBus:
    """`Bus` port over one NATS connection. All methods belong to the trio thread."""

    def __init__(
        self,
        addresses: list[NatsAddress],
        name: str,
        version: str,
        take: Callable[[Event], None],
        clock: Clock,
        login: NatsLogin = NO_LOGIN,
        must_wait: Callable[[Collection[PartitionId], bool], bool] = lambda _partitions, _plenty: False,
        reading: Callable[[], None] = lambda: None,
    ) -> None:
        """`must_wait`: whether what is taken in now, for these partitions most likely, has to wait anyway
        (`read_now`), be it plenty or not. `reading`: told when something has come in.
        """
        self._reading = reading
        self._addresses = addresses
        self._login = login
        self._name = name
        self._version = version
        self._take = take
        self._clock = clock
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._socket: DirectSocket | None = None
        """Of the connection, unless it runs through TLS."""
        self._must_wait = must_wait
        self._expected: Collection[PartitionId] = ()
        """Of which partitions more is likely to come, as the last read brought several messages for each."""
        self._plenty = False
        self._parser = NatsParser()
        self._released: trio.Event | None = None
        """What the task that reads waits for, while messages gather in the socket."""
        self._writing = False
        self._wake_writer = trio.Event()
        self._next_sid = 1
        self._subscriptions: dict[bytes, Subscription] = {}
        self._sids_of: dict[PartitionId, dict[int, bytes]] = {}
        """Of each partition, by the numbers of its subscriptions."""
        self._silent: set[PartitionId] = set()
        self._api: list[ApiSubscription] = []
        self._api_by_sid: dict[bytes, ApiSubscription] = {}
        self._api_refused: list[ApiSubscription] = []
        self._pongs: deque[bytes] = deque()
        """What each PONG that is due stands for: a subscription's id, or nothing."""
        self._draining: dict[bytes, bytes] = {}
        """What the last PONG of a drained subscription stands for, and the subscription's id."""
        self._silence = Silence()
        self._letters = LetterBox(take)
        self._largest_bytes = 0
        """So large a message may be for this server; 0: it does not say."""
        self._smallest_limit_bytes = 0
        self._limits_known = True
        """Otherwise they are looked at with the next messages: not for each of many subscriptions."""
        self._complaints: dict[str, tuple[float, int]] = {}
        """For each kind of complaint: when the next one may be logged, and how many were kept back."""
        self.connected = False
        self.last_error = ""
        self.counters = {
            "nats.connects": 0,
            "nats.messages_in": 0,
            "nats.refused_too_large": 0,
            "nats.refused_headers": 0,
            "nats.answers_dropped": 0,
            "nats.errors": 0,
            "nats.subscriptions_refused": 0,
            "nats.publishes_refused": 0,
        }

    # -- the port ------------------------------------------------------------------------------------------

    def subscribe(self, request: Subscribe) -> None:
        """SUB, then PING: `Subscribed` follows when the PONG comes. Without a connection: nothing (BusUp
        tells)."""
        self._end_former(request)
        if request.ack_reply:
            self._silent.discard(request.partition)
        else:
            self._silent.add(request.partition)
        if not self.connected:
            return
        sid = self._new_sid()
        self._subscriptions[sid] = Subscription(
            partition=request.partition,
            epoch=request.epoch,
            max_payload_bytes=request.max_payload_bytes,
            stream=request.stream,
            subject=request.subject,
            number=request.number,
        )
        self._sids_of.setdefault(request.partition, {})[request.number] = sid
        self._limits_known = False
        self._ask_for(request.subject, request.queue, sid)
        self._pongs.append(sid)
        self.flush()

    def unsubscribe(self, partition: PartitionId) -> None:
        """From all subjects; what still comes of them is dropped."""
        sids = self._sids_of.pop(partition, {})
        for sid in sids.values():
            del self._subscriptions[sid]
            self._limits_known = False
            self._write(b"UNSUB %b\r\n" % sid)
        if sids:
            self.flush()

    def _end_former(self, request: Subscribe) -> None:
        """Those of earlier epochs, and one of the same number: another one takes their place."""
        sids = self._sids_of.get(request.partition, {})
        known = [self._subscriptions[sid] for sid in sids.values()]
        if request.number in sids or any(one.epoch != request.epoch for one in known):
            self.unsubscribe(request.partition)

    def drain(self, partition: PartitionId, number: int = 0) -> None:
        """UNSUB, then PING: what the server has sent before it read the UNSUB comes before the PONG."""
        sid = self._sids_of.get(partition, {}).get(number)
        if sid is not None:
            self._write(b"UNSUB %b\r\nPING\r\n" % sid)
            mark = b"drain %b" % sid
            self._draining[mark] = sid
            self._pongs.append(mark)
            self.flush()

    def acknowledge(self, acks: AckPublishes) -> None:
        if acks.partition not in self._silent:
            self._write_answers(nats_wire.acknowledgements(acks, self._clock.wall_ms()))

    def staged(self, told: TellStaged) -> None:
        if told.partition not in self._silent:
            self._write_answers(nats_wire.staged(told))

    def fast(self, told: TellFast) -> None:
        if told.partition not in self._silent:
            self._write_answers(nats_wire.fast(told))

    def refuse(self, refusal: RefusePublishes) -> None:
        if refusal.code in nats_wire.HEADER_CODES:
            self.counters["nats.refused_headers"] += len(refusal.replies)
            self._complain(
                "headers",
                f"stream {refusal.stream!r} refused {len(refusal.replies)} messages: {refusal.description}"
            )
        if refusal.partition not in self._silent:
            self._write_answers(nats_wire.refusals(refusal))

    def publish(self, letter: PublishLetter) -> None:
        """K9: a dead letter leaves with the next `flush`; its answers come to an inbox of this process."""
        size = len(letter.headers) + len(letter.value)
        if 0 < self._largest_bytes < size:
            # The server would close the connection.
            text = f"it has {size} bytes with its headers, and NATS takes {self._largest_bytes}"
            self._letters.fail(letter, f"{text}: raise its max_payload")
        elif self.connected:
            if not self._letters.opened:
                self._letters.opened = True
                self.serve_api(self._letters.pattern, "", self._letters.answered)
            self._write_answers(nats_wire.letter(letter, self._letters.reply_to(letter)))

    # -- the API's door ------------------------------------------------------------------------------------

    def serve_api(self, subject: str, queue: str, handler: ApiHandler) -> None:
        """Hand requests on `subject` to `handler`, on this and every later connection. `queue` may be
        empty."""
        self._api.append(ApiSubscription(subject, queue, handler))
        if self.connected:
            self._subscribe_api(self._api[-1])

    def answer(self, reply: bytes, payload: bytes) -> None:
        """Publish an API answer; an empty reply subject gets nothing."""
        if reply:
            self._write_answers(nats_wire.publish(reply, payload))

    @property
    def outgoing_bytes(self) -> int:
        """What waits to be sent; answers are dropped above OUTGOING_LIMIT_BYTES."""
        return self._outgoing_bytes

    async def flushed(self) -> None:
        """Wait until everything that was queued is with the kernel, or there is no connection."""
        while self.connected and (self._outgoing or self._writing):
            await trio.sleep(0.001)

    # -- the connection ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep a connection until cancelled, over and over, with a growing pause between failed attempts."""
        backoff_s, attempt = BACKOFF_MIN_S, 0
        while True:
            address = self._addresses[attempt % len(self._addresses)]
            attempt += 1
            try:
                stream, rest, self._largest_bytes = await self._connect(address)
            except ConnectionLost as error:
                self.last_error = f"{address}: {error}"
                say(logging.WARNING, "nats", f"cannot connect to NATS at {self.last_error}", up=False)
                await trio.sleep(backoff_s)
                backoff_s = min(BACKOFF_MAX_S, backoff_s * 2)
                continue
            backoff_s = BACKOFF_MIN_S
            say(logging.INFO, "nats", f"connected to NATS at {address}", up=True, server=str(address))
            try:
                await self._serve(stream, rest)
            except* (
                ConnectionLost,
                ProtocolError,
                OSError,
                trio.BrokenResourceError,
                trio.ClosedResourceError,
            ) as group:
                self.last_error = f"{address}: {group.exceptions[0]}"
                say(logging.WARNING, "nats", f"lost NATS at {self.last_error}", up=False)
            self._forget_connection()
            self._take(BusDown())
            await trio.sleep(backoff_s)

    async def _connect(self, address: NatsAddress) -> tuple[trio.abc.Stream, bytes, int]:
        """Connect and log in. Raises ConnectionLost with the reason."""
        try:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                stream: trio.abc.Stream = await trio.open_tcp_stream(address.host, address.port)
                try:
                    return await log_in(stream, address, self._login, self._name, self._version)
                except BaseException:
                    await trio.aclose_forcefully(stream)
                    raise
        except trio.TooSlowError:
            raise ConnectionLost("no answer within 5 s") from None
        except (OSError, trio.BrokenResourceError, ssl.SSLError, LiftlogError) as error:
            cause: BaseException = error.__cause__ or error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
            raise ConnectionLost(str(cause)) from None

    async def _serve(self, stream: trio.abc.Stream, rest: bytes) -> None:
        """Use one connection until it breaks (raises) or the task is cancelled."""
        self.connected = True
        self._socket = direct(stream, READ_BYTES)
        self.counters["nats.connects"] += 1
        try:
            for subscription in self._api:
                self._subscribe_api(subscription)
            self._take(BusUp())
            self.flush()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write_loop, stream)
                nursery.start_soon(self._ping_loop)
                await self._read_loop(stream, rest)
        finally:
            self._socket = None
            await trio.aclose_forcefully(stream)

    def _forget_connection(self) -> None:
        self.connected = False
        self._socket = None
        self._subscriptions.clear()
        self._sids_of.clear()
        self._api_by_sid.clear()
        self._api_refused.clear()
        self._pongs.clear()
        self._draining.clear()
        self._outgoing.clear()
        self._outgoing_bytes = 0

    def flush(self) -> None:
        """Send what was queued: now, as far as the kernel takes it, and the rest as soon as it does."""
        if not self._outgoing or self._writing:
            return
        if self._socket is not None:
            data = b"".join(self._outgoing)
            sent = self._socket.send(data)
            self._outgoing.clear()
            self._outgoing_bytes = len(data) - sent
            if sent == len(data):
                return
            self._outgoing.append(data[sent:])
        self._wake_writer.set()

    async def _write_loop(self, stream: trio.abc.Stream) -> None:
        """Send what `flush` could not."""
        while True:
            self._writing = bool(self._outgoing)
            if self._outgoing:
                data = b"".join(self._outgoing)
                self._outgoing.clear()
                self._outgoing_bytes = 0
                await stream.send_all(data)
            else:
                self._wake_writer = trio.Event()
                await self._wake_writer.wait()

    async def _ping_loop(self) -> None:
        rounds, self._silence = 0, Silence()
        while True:
            await trio.sleep(PING_INTERVAL_S)
            rounds += 1
            if rounds % API_RETRY_ROUNDS == 0:
                refused, self._api_refused = self._api_refused, []
                for subscription in refused:
                    self._subscribe_api(subscription)
            if not self._pongs:
                self._write(b"PING\r\n")
                self._pongs.append(b"")
            self.flush()
            self._letters.tell()
            self._silence.pass_interval()

    async def _read_loop(self, stream: trio.abc.Stream, rest: bytes) -> None:
        self._parser, socket = NatsParser(), self._socket
        data = bytes(rest)
        while True:
            if data:
                self._handle(data)
            if socket is None:
                data = bytes(await stream.receive_some(READ_BYTES))
            else:
                if self._must_wait(self._expected, self._plenty):
                    await self._hold()
                data = await socket.receive()
            if not data:
                raise ConnectionLost("the server closed the connection")

    def _handle(self, data: bytes) -> None:
        self._reading()
        self._silence.heard()
        parsed = self._parser.feed(data)
        # Messages first: behind the PONG of a drained subscription there are none of it.
        self._expected = ()
        self._plenty = len(data) > PLENTY_BYTES
        if parsed.groups:
            self._deliver(parsed)
            self._expect(parsed)
        for line in parsed.controls:
            self._control(line)
        self.flush()

    async def _hold(self) -> None:
        """Leave messages in the socket until `read_now`, but not for long (N6)."""
        self._released = trio.Event()
        try:
            with trio.move_on_after(HOLD_MAX_S):
                await self._released.wait()
        finally:
            self._released = None

    def read_now(self) -> None:
        """Take in what has come meanwhile, all of it in one go, unless it still has to wait."""
        if self._released is None or self._socket is None or self._must_wait(self._expected, self._plenty):
            return
        try:
            data = self._socket.receive_now()
        except OSError:
            data = None
        if data:
            self._handle(data)
        else:
            # Nothing, or the end: that is for the task that reads.
            self._released.set()

    def _control(self, line: bytes) -> None:
        if line == b"PONG":
            self._silence.answered()
            due = self._pongs.popleft() if self._pongs else b""
            drained = self._draining.pop(due, b"")
            subscription = self._subscriptions.get(drained or due)
            if subscription is not None:
                if drained:
                    self._forget(drained)
                kind = Drained if drained else Subscribed
                self._take(kind(subscription.partition, subscription.epoch, subscription.number))
        elif line == b"PING":
            self._write(b"PONG\r\n")
        elif line.startswith(b"-ERR"):
            # The server closes the connection itself where the error is final; a refused subject is not.
            self._refused(line[4:].strip(b" '").decode("utf-8", "replace"))
        elif not line.startswith((b"INFO", b"+OK")):
            raise ProtocolError(f"not a NATS line: {line[:200]!r}")

    def _refused(self, text: str) -> None:
        """NATS refuses something, in these words."""
        self.counters["nats.errors"] += 1
        self.last_error = text
        sid = self._subscription_meant(text)
        subscription = self._forget(sid)
        if subscription is not None:
            self.counters["nats.subscriptions_refused"] += 1
            self._complain(
                "subscriptions",
                f"NATS refuses to let this node subscribe for stream {subscription.stream!r}, "
                f"partition {subscription.partition.index}: {text}; allow it there to the nodes' user"
            )
            reason = text[:REASON_MAX_CHARACTERS]
            partition, epoch, number = subscription.partition, subscription.epoch, subscription.number
            self._take(SubscriptionRefused(partition, epoch, reason, number))
        elif sid in self._api_by_sid:
            self.counters["nats.subscriptions_refused"] += 1
            self._api_refused.append(self._api_by_sid.pop(sid))
            text = f"NATS refuses this node's API, nobody can ask it anything: {text}; allow it there"
            self._complain("API", text)
        elif text.startswith("Permissions Violation for Publish"):
            self.counters["nats.publishes_refused"] += 1
            self._complain(
                "publishing",
                f"NATS refuses an ack or an answer of this node: {text}; allow the nodes' user to publish to "
                "the inboxes of publishers and clients"
            )
        else:
            say(logging.ERROR, "nats", f"NATS says: {text}", error=text)

    def _forget(self, sid: bytes) -> Subscription | None:
        """The server has this one no more, and sends nothing of it."""
        subscription = self._subscriptions.pop(sid, None)
        if subscription is not None:
            sids = self._sids_of.get(subscription.partition, {})
            if sids.get(subscription.number) == sid:
                del sids[subscription.number]
            self._limits_known = False
        return subscription

    def _subscription_meant(self, text: str) -> bytes:
        """The sid of the subscription that an error is about; empty if it is about none.

        The server reads our lines in order, so that what it says before it answers the PING behind a SUB may
        be about that one; where it names the subject, that decides. A subscription can also be taken away
        later, when the server's permissions change.
        """
        named = SUBSCRIPTION_VIOLATION.match(text)
        if named is None:
            about_subscriptions = "subscription" in text.lower() or text == "Invalid Subject"
            return self._pongs[0] if self._pongs and about_subscriptions else b""
        known = (*self._pongs, *self._subscriptions, *self._api_by_sid)
        return next((sid for sid in known if self._subject_of(sid) == named[1]), b"")

    def _subject_of(self, sid: bytes) -> str:
        subscription = self._subscriptions.get(sid)
        if subscription is not None:
            return subscription.subject
        api = self._api_by_sid.get(sid)
        return api.subject if api is not None else ""

    # -- messages ------------------------------------------------------------------------------------------

    def _expect(self, parsed: Parsed) -> None:
        count = sum(map(len, parsed.groups.values()))
        if count >= STEADY_MESSAGES * len(parsed.groups):
            known = map(self._subscriptions.get, parsed.groups)
            self._expected = [subscription.partition for subscription in known if subscription is not None]

    def _deliver(self, parsed: Parsed) -> None:
        now_ms = self._clock.wall_ms()
        smallest_bytes = self._smallest_limit()
        for sid, messages in parsed.groups.items():
            subscription = self._subscriptions.get(sid)
            if subscription is None:
                api = self._api_by_sid.get(sid)
                if api is not None:
                    for message in messages:
                        api.handler(message.subject, message.reply, message.headers, message.value)
                continue
            self.counters["nats.messages_in"] += len(messages)
            if parsed.largest > smallest_bytes:
                messages = self._refuse_large(subscription, messages)
            if messages:
                partition, epoch = subscription.partition, subscription.epoch
                self._take(Published(partition, epoch, messages, now_ms, parsed.plain))

    def _refuse_large(self, subscription: Subscription, messages: list[Message]) -> list[Message]:
        """Answer what is over the stream's limit (L3); return the rest."""
        limit = subscription.max_payload_bytes
        kept: list[Message] = []
        large: list[Message] = []
        for message in messages:
            (kept if counted_bytes(message) <= limit else large).append(message)
        if large:
            self.counters["nats.refused_too_large"] += len(large)
            text = f"message exceeds the stream's limit of {limit} bytes (headers and payload)"
            self.refuse(_too_large(subscription, large, text, self._clock.wall_ms()))
        return kept

    def _complain(self, what: str, text: str) -> None:
        """A warning in the log, one of a kind every `COMPLAINT_INTERVAL_S` at most: others set the pace."""
        now_s = trio.current_time()
        after_s, kept = self._complaints.get(what, (0.0, 0))
        if now_s >= after_s:
            say(logging.WARNING, "nats", f"{text} (and {kept} more)" if kept else text, refused=what)
            self._complaints[what] = (now_s + COMPLAINT_INTERVAL_S, 0)
        else:
            self._complaints[what] = (after_s, kept + 1)

    # -- small helpers -------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        if self.connected:
            self._outgoing.append(data)
            self._outgoing_bytes += len(data)

    def _write_answers(self, data: bytes) -> None:
        if self._outgoing_bytes > OUTGOING_LIMIT_BYTES:
            self.counters["nats.answers_dropped"] += 1
        elif data:
            self._write(data)

    def _new_sid(self) -> bytes:
        sid = b"%d" % self._next_sid
        self._next_sid += 1
        return sid

    def _subscribe_api(self, subscription: ApiSubscription) -> None:
        sid = self._new_sid()
        self._api_by_sid[sid] = subscription
        self._ask_for(subscription.subject, subscription.queue, sid)
        self._pongs.append(sid)

    def _ask_for(self, subject: str, queue: str, sid: bytes) -> None:
        """SUB, in this queue group if one is named (N11), then PING."""
        words = f"{subject} {queue}" if queue else subject
        self._write(b"SUB %b %b\r\nPING\r\n" % (words.encode(), sid))

    def _smallest_limit(self) -> int:
        """No message up to this size is too large, whatever stream it is for."""
        if self._limits_known:
            return self._smallest_limit_bytes
        self._limits_known = True
        limits = [subscription.max_payload_bytes for subscription in self._subscriptions.values()]
        self._smallest_limit_bytes = min(limits, default=0)
        return self._smallest_limit_bytes
