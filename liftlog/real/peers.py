"""TCP between nodes.

Each node opens one connection to every other and only sends on it; what it receives comes in on the
connections that the others opened. A half-open connection then blocks one direction, never both, and there is
no question of who may close what. Both ends prove that they know the cluster's secret before anything else,
and every frame carries a tag that only the other end of this connection can have made (V6).

Best effort, as the `Network` port says: while a peer is not connected or its queue is full, messages to it
are dropped and counted. The protocol repeats whatever matters, and old messages are the least useful ones.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Mapping

import trio

from liftlog.api import wire
from liftlog.api.handshake import (
    NONCE_BYTES,
    PEER,
    VERSION,
    VERSIONS,
    Caller,
    HandshakeError,
    Party,
    SecureSession,
)
from liftlog.api.tags import FrameOpener, FrameSealer, possible_tags
from liftlog.config import NetworkLimits
from liftlog.messages import (
    SINCE_PROTOCOL,
    Belongs,
    Event,
    PeerBack,
    PeerLost,
    PeerMessage,
    Received,
    intake,
)
from liftlog.real.budget import Budget
from liftlog.real.certificates import Certificates
from liftlog.real.incoming import Incoming, Reception, introduce, prepare
from liftlog.real.lanes import PeerLanes
from liftlog.real.rarelog import RareLog
from liftlog.real.sendqueue import NETWORK_ERRORS
from liftlog.real.tlsport import SpeaksNoTls, TlsCalls, TlsProblem
from liftlog.real.tlsstream import TcpStream, TlsBroken, direct_of
from liftlog.types import FIRST_CLUSTER, ClusterEpoch

log = logging.getLogger("liftlog.network")

READ_BYTES = 512 * 1024
CONNECT_TIMEOUT_S = 2.0
SEND_TIMEOUT_S = 5.0
"""A peer that takes in nothing for so long is connected anew."""
BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 0.5
REFUSED_BACKOFF_S = 3.0
"""Another secret does not become the right one by asking again at once."""
KEEP_ALIVE_S = 4.0
"""Who has nothing to say to a peer says that."""
LAST_WORDS_S = 1.0
"""For so long a peer that was removed is still sent what told it so."""
QUIET_SWEEPS_MAX = 16
"""A connection from a peer on which nothing came for so many seconds, keep-alives included, is half open."""

Take = Callable[[Event], None]


class PeerNetwork:
    """`Network` port over TCP. All methods belong to the trio thread."""

    def __init__(
        self,
        me: Party,
        peers: Mapping[int, tuple[str, int]],
        take: Take,
        limits: NetworkLimits,
        budget: Budget,
        counters: dict[str, int],
        reading: Callable[[], None] = lambda: None,
        lowest: Callable[[], int] = lambda: VERSIONS[0],
        belongs_to: Callable[[], ClusterEpoch] = lambda: FIRST_CLUSTER,
        certificates: Certificates | None = None,
    ) -> None:
        """`reading`: told when something has come in from a peer. `lowest`: the version of the protocol that
        peers have to speak at least, now (U2). `belongs_to`: the node's cluster (M5).
        """
        self._me = me
        self._peers = dict(peers)
        self._calls: dict[int, trio.CancelScope] = {}
        """Of each peer that is called, or is about to be."""
        self._nursery: trio.Nursery | None = None
        self._take = take
        self._reading = reading
        self._limits = limits
        self._budget = budget
        self._counters = counters
        self._lowest = lowest
        self._belongs_to = belongs_to
        self._queues: dict[int, PeerLanes] = {}
        self._versions: dict[int, int] = {}
        """What is spoken on the connections to these peers, and those from them by `Incoming`."""
        self._told: dict[int, ClusterEpoch] = {}
        """M5: what each peer was told on the present connection; nothing: the first."""
        self._incoming: dict[int, Incoming] = {}
        self._tags = possible_tags()
        self._rare: dict[int, RareLog] = {}
        self._reception = Reception(
            lambda: me,
            PEER,
            may_call=lambda peer: peer in self._peers,
            admit=lambda session: None,
            serve=self._serve_incoming,
            limits=limits,
            counters=counters,
            tags=self._tags,
            versions=lambda: (lowest(), VERSION),
            certificates=certificates,
        )
        self._tls = TlsCalls(certificates)

    def send(self, to: int, message: PeerMessage) -> None:
        if SINCE_PROTOCOL.get(type(message), 0) > self._versions.get(to, VERSION):
            # U1: who speaks an earlier version could not read it, and would hang up.
            return
        told = self._tell_epoch(to, self._belongs_to())
        self._counters["network.sent" if told and self._queue(to, message) else "network.dropped"] += 1

    def _tell_epoch(self, to: int, epoch: ClusterEpoch) -> bool:
        """M5: whether the peer knows of which cluster what it is sent is. Who speaks a version without that
        word takes it for its own, which nothing is that comes after a recovery.
        """
        if self._versions.get(to, VERSION) < SINCE_PROTOCOL[Belongs]:
            return epoch.number <= FIRST_CLUSTER.number
        if epoch != self._told.get(to, FIRST_CLUSTER) and self._queue(to, Belongs(*epoch)):
            self._told[to] = epoch
        return epoch == self._told.get(to, FIRST_CLUSTER)

    def _queue(self, to: int, message: PeerMessage) -> bool:
        """Whether there is a connection that such a message may take, and room in it."""
        lanes = self._queues.get(to)
        if lanes is None or SINCE_PROTOCOL.get(type(message), 0) > self._versions[to]:
            return False
        return lanes.send(message)

    async def run(self, listeners: list[trio.SocketListener]) -> None:
        """Answer on `listeners`, none if there are no peers, and keep a connection to every peer."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for peer in self._peers:
                self._call(peer)
            if listeners:
                nursery.start_soon(self._reception.run, listeners)

    def know(self, peers: Mapping[int, tuple[str, int]]) -> None:
        """I3: these are the peers now. Who is one no more hears what was sent to it, and is hung up on."""
        before, self._peers = self._peers, dict(peers)
        if self._nursery is None:
            return
        for peer in before:
            if before[peer] != peers.get(peer):
                scope = self._calls.pop(peer)
                scope.deadline = trio.current_time() + (0 if peer in peers else LAST_WORDS_S)
        for peer, one in self._incoming.items():
            if peer not in peers:
                one.cut(f"node {peer} is none of this cluster any more")
        for peer in peers:
            if peer not in self._calls:
                self._call(peer)

    def _call(self, peer: int) -> None:
        assert self._nursery is not None
        self._calls[peer] = scope = trio.CancelScope()
        self._rare.setdefault(peer, RareLog(log))
        self._nursery.start_soon(self._keep_connected, peer, self._peers[peer], scope)

    def flush(self) -> None:
        """What was sent since the last time leaves now."""
        for lanes in self._queues.values():
            lanes.flush()

    def sweep(self) -> None:
        """Called every second: hang up on peers that have fallen silent."""
        for one in self._incoming.values():
            if one.version < self._lowest():
                one.cut(f"it speaks protocol version {one.version}, which is too old for the feature level")
            if one.sweep() > QUIET_SWEEPS_MAX:
                one.cut(f"silent for {QUIET_SWEEPS_MAX} s")

    @property
    def incoming(self) -> int:
        return len(self._incoming)

    @property
    def plain(self) -> int:
        """Connections that peers have opened without TLS."""
        return sum(one.plain for one in self._incoming.values())

    @property
    def fullest(self) -> int:
        """Bytes that wait in the fullest queue."""
        return max((lanes.held for lanes in self._queues.values()), default=0)

    # -- connections that we opened ------------------------------------------------------------------------

    async def _keep_connected(self, peer: int, at: tuple[str, int], scope: trio.CancelScope) -> None:
        with scope:
            await self._connect_forever(peer, *at)

    async def _connect_forever(self, peer: int, host: str, port: int) -> None:
        backoff_s = BACKOFF_MIN_S
        secure = True
        """Whether TLS is tried: who hangs up on it is called once without, if that is allowed."""
        while True:
            try:
                with trio.fail_after(CONNECT_TIMEOUT_S):
                    stream = await trio.open_tcp_stream(host, port)
            except NETWORK_ERRORS as error:
                secure = True
                if nobody_listens(error):
                    self._take(PeerLost(peer))
                await trio.sleep(backoff_s)
                backoff_s = min(BACKOFF_MAX_S, backoff_s * 2)
                continue
            if stream.socket.getsockname() == stream.socket.getpeername():
                # Nobody listens there, and the kernel happened to connect us to ourselves. Let the port go.
                await trio.aclose_forcefully(stream)
                self._take(PeerLost(peer))
                continue
            backoff_s, tried, secure = BACKOFF_MIN_S, secure, True
            try:
                await self._serve_outgoing(peer, stream, host if tried else "")
            except* NETWORK_ERRORS as group:
                log.info("connection to node %d ended: %s", peer, group.exceptions[0])
            except* SpeaksNoTls as group:
                secure = not self._tls.falls_back
                if secure:
                    backoff_s = BACKOFF_MAX_S
                    self._tell_refused(peer, f"{host}:{port}", group.exceptions[0])
            except* HandshakeError as group:
                backoff_s = REFUSED_BACKOFF_S
                self._tell_refused(peer, f"{host}:{port}", group.exceptions[0])
            await trio.sleep(backoff_s)

    def _tell_refused(self, peer: int, address: str, error: BaseException) -> None:
        self._counters["network.refused_by_peers"] += 1
        about = "[tls]" if isinstance(error, (TlsProblem, SpeaksNoTls)) else "cluster, [peers] and [security]"
        text = f"no connection to node {peer} at {address}: {error}; compare {about} of both nodes"
        self._rare[peer].warning("refused", text)

    async def _serve_outgoing(self, peer: int, plain: trio.SocketStream, tls_host: str) -> None:
        """`tls_host`: whom the certificate must name there; empty: without TLS."""
        prepare(plain)
        async with plain:
            with trio.fail_after(self._limits.handshake_ms / 1000):
                stream, session = await self._introduce(peer, plain, tls_host)
            self._counters["network.connects"] += 1
            self._take(PeerBack(peer))
            sealer = FrameSealer(session.caller_key, session.tags)
            socket, limit = direct_of(stream, READ_BYTES), self._limits.connection_bytes
            self._versions[peer] = session.version
            lanes = self._queues[peer] = PeerLanes(sealer, limit, self._budget, socket)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(lanes.pump, stream, SEND_TIMEOUT_S)
                    nursery.start_soon(_keep_alive, lanes)
                    # Nothing comes in on this connection but its end, which would otherwise go unnoticed.
                    await stream.receive_some(1)
                    nursery.cancel_scope.cancel()
            finally:
                # Called at another address meanwhile, it may have another queue.
                if self._queues.get(peer) is lanes:
                    del self._queues[peer]
                    self._told.pop(peer, None)

    async def _introduce(
        self, peer: int, plain: trio.SocketStream, tls_host: str
    ) -> tuple[TcpStream, SecureSession]:
        """Both handshakes. Raises HandshakeError, NETWORK_ERRORS."""
        stream, binding = await self._tls.begin(plain, tls_host)
        nonce, versions = os.urandom(NONCE_BYTES), (self._lowest(), VERSION)
        caller = Caller(self._me, PEER, peer, nonce, self._tags, versions=versions, binding=binding)
        try:
            return stream, await introduce(stream, caller)
        except TlsBroken as error:
            # What the other side says against our certificate comes after TLS has begun for us.
            raise self._tls.problem(error.error, tls_host) from None

    # -- connections that peers opened ---------------------------------------------------------------------

    async def _serve_incoming(self, one: Incoming, session: SecureSession) -> None:
        peer = session.node
        before = self._incoming.pop(peer, None)
        if before is not None:
            # It proved to be the same node: what it opened earlier is dead, even if nobody has told us.
            before.cut(f"node {peer} has connected anew")
        self._incoming[peer] = one
        one.version = session.version
        splitter = wire.FrameSplitter()
        counted, epoch = 0, FIRST_CLUSTER
        opener, decode = FrameOpener(session.caller_key, session.tags), intake.peer_message
        try:
            socket = direct_of(one.stream, READ_BYTES)
            while data := await socket.receive():
                one.heard = True
                self._reading()
                messages = []
                for frame in splitter.feed(data):
                    with opener.open(frame) as opened:
                        if opened:
                            messages.append(decode(opened))
                if not self._budget.take(max(0, splitter.buffered - counted)):
                    raise wire.WireError(f"no memory left for what node {peer} sends")
                self._budget.give(max(0, counted - splitter.buffered))
                counted = splitter.buffered
                self._counters["network.received"] += len(messages)
                for message in messages:
                    if type(message) is Belongs:
                        epoch = ClusterEpoch(message.number, message.name)
                    else:
                        self._take(Received(peer, message, epoch))
        finally:
            self._budget.give(counted)
            if self._incoming.get(peer) is one:
                del self._incoming[peer]


def nobody_listens(error: BaseException) -> bool:
    """Whether a host has answered an attempt to connect: there is no such port. A hint (N2).

    A host that is gone, a cut cable and a process that is stopped do not answer like that.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(nobody_listens(each) for each in error.exceptions)
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return True
    return error.__cause__ is not None and nobody_listens(error.__cause__)


async def _keep_alive(lanes: PeerLanes) -> None:
    """Say that we are there whenever there is nothing else to say."""
    while True:
        lanes.used = False
        await trio.sleep(KEEP_ALIVE_S)
        if not lanes.used:
            lanes.say_alive()
            lanes.flush()
