"""The TCP door for clients: requests in, answers out, in any order.

A client proves first that it knows a secret (V6), by which the gate knows what it may ask (V9). What it may
then occupy is bounded three times (V7): by itself, by what all clients may have together, and by what all
connections may have. When all clients together reach their bound, the one that occupies most is hung up on:
it asks and does not read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from liftlog.api import wire
from liftlog.api.ackgroups import ACKS_A_REQUEST, AckGroup, OpenGroups
from liftlog.api.clients import ClientRegistry
from liftlog.api.handshake import CLIENT, REFUSED_FULL, HandshakeError, Party, SecureSession
from liftlog.api.spans import release
from liftlog.api.tags import FrameOpener
from liftlog.config import NetworkLimits
from liftlog.messages import (
    ERR_INVALID,
    ERR_OVERLOAD,
    ClientGone,
    ClientMessage,
    ClientRequest,
    ErrorReply,
    Event,
    PullRequest,
    SpannedRead,
)
from liftlog.messages.filespan import FileSpan
from liftlog.real.budget import Budget
from liftlog.real.certificates import Certificates
from liftlog.real.gate import Gate
from liftlog.real.incoming import Incoming, Reception
from liftlog.real.sendqueue import SendQueue, cost_bytes
from liftlog.rights.client import ClientRights
from liftlog.types import ClientRef

log = logging.getLogger("liftlog.network")

READ_BYTES = 64 * 1024
SEND_TIMEOUT_S = 5.0
READER_THREADS_MAX = 4
"""A read from a cold file occupies a thread until the disk has answered."""
REQUESTS_MAX = 64
"""Requests of one client connection that may be in work, but for pulls that wait; beyond it the connection is
not read. Of acks of one message ACKS_A_REQUEST count as one.
"""
PULLS_MAX = 512
"""Pulls of one client connection that may wait for messages; beyond it they are refused."""
REQUEST_COST_BYTES = 1024
"""What a request in work counts for besides its frame; an ack of one message for a part of that."""
ACK_COST_BYTES = REQUEST_COST_BYTES // ACKS_A_REQUEST
TLS_COST_BYTES = 96 * 1024
"""What a connection over TLS counts for while it stands: what OpenSSL keeps, and a piece that is sealed."""
JOINED_MAX = 64 * 1024
"""Answers of one wake-up to one client are queued together up to so many bytes."""

TakeAll = Callable[[list[Event]], None]


class ClientDoor:
    """All client connections of a node. All methods belong to the trio thread."""

    def __init__(
        self,
        me: Callable[[], Party],
        gate: Gate,
        take: TakeAll,
        clients: ClientRegistry,
        limits: NetworkLimits,
        budget: Budget,
        counters: dict[str, int],
        certificates: Certificates | None = None,
    ) -> None:
        """`me`: with the secrets of all clients that are let in now."""
        self.take = take
        self.gate = gate
        self.clients = clients
        self.limits = limits
        self.budget = budget
        self.counters = counters
        self._connections: dict[Incoming, ClientConnection] = {}
        self._answered: dict[ClientConnection, None] = {}
        """Those with answers that are not queued yet."""
        self._readers = trio.CapacityLimiter(READER_THREADS_MAX)
        gate.on_change(self._look_again)
        self._reception = Reception(
            me,
            CLIENT,
            may_call=lambda node: True,
            admit=self._admit,
            serve=self._serve,
            limits=limits,
            counters=counters,
            certificates=certificates,
        )

    async def run(self, listeners: list[trio.SocketListener]) -> None:
        """Until cancelled."""
        await self._reception.run(listeners)

    def sweep(self) -> None:
        """Called every second: hang up on clients that want nothing."""
        most = max(1, self.limits.client_idle_ms // 1000)
        for one, connection in self._connections.items():
            one.busy = connection.occupied
            if one.sweep() > most:
                one.cut(f"idle for {most} s")

    def relieve(self, count: int) -> bool:
        """See to room for so many bytes, at the cost of those who occupy most. False if there is none."""
        if self.budget.room(count):
            return True
        if count > self.budget.limit:
            return False
        while not self.budget.room(count):
            one, greediest = max(
                self._connections.items(), key=lambda item: item[1].held, default=(None, None)
            )
            if one is None or greediest is None or not greediest.held:
                return False
            one.cut(f"it occupies {greediest.held} bytes, and all clients together too many")
            greediest.leave()
        return True

    def answers(self, connection: ClientConnection) -> None:
        """It has an answer, which leaves with `flush`."""
        self._answered[connection] = None

    def flush(self) -> None:
        """The wake-up is over: what it has answered leaves now."""
        while self._answered:
            self._answered.popitem()[0].flush()

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def plain(self) -> int:
        """Connections without TLS."""
        return sum(one.plain for one in self._connections)

    def _admit(self, session: SecureSession) -> None:
        most = self.limits.client_connections_max
        if len(self._connections) >= most:
            raise HandshakeError(f"there are {most} clients ([network] client_connections_max)", REFUSED_FULL)

    def _look_again(self) -> None:
        """V9: other rights are in force. Who has a secret that is nobody's any more is hung up on."""
        for one, connection in self._connections.items():
            rights = self.gate.holder(connection.secret)
            if rights is None:
                one.cut(f"client '{connection.rights.name}' has proved a secret that is accepted no more")
            else:
                connection.rights = rights

    async def _serve(self, one: Incoming, session: SecureSession) -> None:
        self._admit(session)
        rights = self.gate.holder(session.secret)
        if rights is None:
            raise HandshakeError("its secret is accepted no more since it has proved it")
        self.counters["network.client_connections"] += 1
        connection = self._connections[one] = ClientConnection(self, session.secret, rights)
        try:
            connection.resize(0 if one.plain else TLS_COST_BYTES)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.queue.pump, one.stream, SEND_TIMEOUT_S, self._readers)
                await connection.read(one, FrameOpener(session.caller_key))
                nursery.cancel_scope.cancel()
        finally:
            del self._connections[one]
            connection.leave()


class ClientConnection:
    """One client's requests and answers."""

    def __init__(self, door: ClientDoor, secret: bytes, rights: ClientRights) -> None:
        self._door = door
        self.secret = secret
        self.rights = rights
        self.queue = SendQueue(door.limits.connection_bytes, door.budget)
        self._waiting: dict[ClientRef, _InWork] = {}
        """Requests in work, or that wait."""
        self._in_work = 0
        """What those in work count for, of REQUESTS_MAX times ACKS_A_REQUEST."""
        self._pulls: set[ClientRef] = set()
        """Those of them that wait for messages of a consumer."""
        self._requested = 0
        """Bytes that requests occupy: those in work, and the one that is not complete yet."""
        self._answers: list[bytes] = []
        """Of this wake-up, with so many bytes. They answer requests that occupied `_answered`."""
        self._answer_bytes = 0
        self._answered = 0
        self._room = trio.Event()
        self._left = False

    @property
    def held(self) -> int:
        return self.queue.held + self._requested

    @property
    def occupied(self) -> bool:
        """Whether the client waits for something."""
        return bool(self._waiting or self.queue.held)

    @property
    def _is_full(self) -> bool:
        """Whether as many requests are in work as may be."""
        return self._in_work >= REQUESTS_MAX * ACKS_A_REQUEST

    async def read(self, one: Incoming, opener: FrameOpener) -> None:
        """Turn calls into events until the client hangs up. Raises InputRefused, NETWORK_ERRORS."""
        splitter = wire.FrameSplitter(wire.CALL_MAX_BYTES)
        decode = wire.client_call
        partial = 0
        while data := await one.stream.receive_some(READ_BYTES):
            calls = []
            for frame in splitter.feed(data):
                with opener.open(frame) as call:
                    calls.append((decode(call), len(frame)))
            # Half a request does not count as a sign of life: somebody may send a byte a minute.
            one.heard = one.heard or bool(calls)
            self.resize(splitter.buffered - partial)
            partial = splitter.buffered
            asking = _Asking()
            for asked, size in calls:
                if self._is_full:
                    self._take(asking)
                    asking = _Asking()
                    while self._is_full:
                        self._room = trio.Event()
                        await self._room.wait()
                self._ask(asked, size, asking)
            self._take(asking)

    def _ask(self, call: wire.ClientCall, size: int, asking: _Asking) -> None:
        """Take in a call: as one of `asking`, if it is a request that the node is to take in."""
        number, request = call.number, call.request
        problem = wire.request_problem(request)
        if problem:
            self._refuse(number, ErrorReply(ERR_INVALID, problem, False))
            return
        missing = self._door.gate.refusal(self.rights, request)
        if missing is not None:
            self._refuse(number, missing)
            return
        group, begun = asking.open.take(number, request)
        if group is not None:
            if begun:
                group.client = self._door.clients.register(lambda reply: self._respond_acks(group, reply))
                asking.asked.append((group.client, group))
            self._count(group.client, 1, size + ACK_COST_BYTES, asking)
            return
        waits = isinstance(request, PullRequest) and request.wait_ms > 0
        if waits and len(self._pulls) >= PULLS_MAX:
            text = f"{PULLS_MAX} pulls of this connection wait for messages, and no more may"
            text = f"{text}: wait for answers, or open another connection"
            self._refuse(number, ErrorReply(ERR_OVERLOAD, text, True))
            return
        client = self._door.clients.register(lambda reply: self._respond(client, number, reply))
        if waits:
            self._pulls.add(client)
        asking.asked.append((client, request))
        self._count(client, 0 if waits else ACKS_A_REQUEST, size + REQUEST_COST_BYTES, asking)

    def _count(self, client: ClientRef, share: int, cost: int, asking: _Asking) -> None:
        """It is in work now, or more of it."""
        work = self._waiting.setdefault(client, _InWork())
        work.share += share
        work.cost += cost
        self._in_work += share
        asking.cost += cost

    def _is_done(self, client: ClientRef) -> None:
        """The node has answered; what is short leaves at the end of the wake-up, together."""
        work = self._waiting.pop(client, None)
        if work is not None:
            self._in_work -= work.share
            self._answered += work.cost
        self._pulls.discard(client)
        self._door.answers(self)

    def _take(self, asking: _Asking) -> None:
        """Have the node take in what was asked. Raises WireError if there is no room."""
        if asking.asked:
            self.resize(asking.cost)
            if not self._left:
                self._door.take(asking.events())

    def _respond(self, client: ClientRef, number: int, reply: object) -> None:
        """The node has answered a request."""
        self._is_done(client)
        if isinstance(reply, SpannedRead):
            self.flush()
            if self._left:
                release(reply)
                return
            self._door.counters["network.spans"] += len(reply.spans)
            self._door.counters["network.span_bytes"] += sum(span.length for span in reply.spans)
            self._send(*wire.spanned_frame(number, reply))
            return
        self._queue(wire.encode_frame((number, self._door.gate.shown(self.rights, reply))))

    def _respond_acks(self, group: AckGroup, reply: object) -> None:
        """The node has answered acks that came together: each hears of its own message (K3)."""
        self._is_done(group.client)
        for numbers, told in group.answers(reply):
            self._queue(wire.answer_frames(numbers, told))

    def _queue(self, frames: bytes) -> None:
        if self._answer_bytes + len(frames) > JOINED_MAX:
            self.flush()
        self._answers.append(frames)
        self._answer_bytes += len(frames)

    def flush(self) -> None:
        """Queue what was answered; these requests occupy nothing any more."""
        answers, self._answers, self._answer_bytes = self._answers, [], 0
        answered, self._answered = self._answered, 0
        self.resize(-answered)
        self._room.set()
        if answers:
            self._send(answers[0] if len(answers) == 1 else b"".join(answers))

    def _refuse(self, number: int, reply: ErrorReply) -> None:
        self._send(wire.encode_frame((number, reply)))

    def _send(self, *parts: bytes | FileSpan) -> None:
        # An answer that does not fit means a client that asks and does not read: it will time out.
        cost = sum(map(cost_bytes, parts))
        if self.queue.fits(cost):
            self._door.relieve(cost)
        self.queue.add(*parts)
        self.queue.flush()

    def resize(self, count: int) -> None:
        """Requests occupy so many bytes more, or less. Raises WireError if there is no room."""
        if self._left:
            return
        if count > 0 and not self._door.budget.take(count):
            room = self._door.relieve(count)
            if self._left:
                return
            if not room or not self._door.budget.take(count):
                raise wire.WireError("no memory left for requests of clients")
        if count < 0:
            self._door.budget.give(-count)
        self._requested += count

    def leave(self) -> None:
        """The connection is gone: the core may forget what this client still waited for."""
        if self._left:
            return
        self._left = True
        self._door.budget.give(self._requested)
        self._requested = 0
        self.queue.close()
        for client in self._door.clients.forget(self._waiting):
            self._door.take([ClientGone(client)])
        self._waiting.clear()
        self._pulls.clear()


class _InWork:
    """A request that the node has not answered, or acks that came together. `share`: see `share_of`."""

    __slots__ = ("cost", "share")

    def __init__(self) -> None:
        self.cost = self.share = 0


class _Asking:
    """What one read has brought for the node, and what that counts for."""

    def __init__(self) -> None:
        self.asked: list[tuple[ClientRef, ClientMessage | AckGroup]] = []
        self.open = OpenGroups()
        self.cost = 0

    def events(self) -> list[Event]:
        return [
            ClientRequest(client, one.request if isinstance(one, AckGroup) else one)
            for client, one in self.asked
        ]
