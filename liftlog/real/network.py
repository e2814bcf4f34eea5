"""TCP between nodes, and the door for clients, on one port.

Each node opens one connection to every other and only sends on it; what it receives comes in on the
connections that the others opened. A half-open connection then blocks one direction, never both, and there is
no question of who may close what.

Best effort, as the `Network` port says: while a peer is not connected or its queue is full, messages to it
are dropped and counted. The protocol repeats whatever matters, and old messages are the least useful ones.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import trio

from liftlog.api import wire
from liftlog.api.clients import ClientRegistry
from liftlog.messages import (
    ERR_INVALID,
    ClientGone,
    ClientRequest,
    ErrorReply,
    Event,
    PeerMessage,
    Received,
)
from liftlog.types import ClientRef, LiftlogError

log = logging.getLogger("liftlog.network")

READ_BYTES = 512 * 1024
CONNECT_TIMEOUT_S = 2.0
HELLO_TIMEOUT_S = 5.0
SEND_TIMEOUT_S = 5.0
"""A peer that takes in nothing for so long is connected anew."""
BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 0.5
PEER_QUEUE_BYTES = 32 * 1024 * 1024
CLIENT_QUEUE_BYTES = 32 * 1024 * 1024
CLIENT_REQUESTS_MAX = 64
"""Requests of one client connection that may be in work; beyond it the connection is not read."""

Put = Callable[[Event], Awaitable[None]]
Post = Callable[[Event], None]
NETWORK_ERRORS = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)


class SendQueue:
    """Frames on their way to one socket, joined into one write. Bounded in bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._frames: list[bytes] = []
        self._bytes = 0
        self._wake = trio.Event()

    def add(self, frame: bytes) -> bool:
        """Queue a frame; False if there is no room. A frame always fits into an empty queue."""
        if self._bytes and self._bytes + len(frame) > self._limit:
            return False
        self._frames.append(frame)
        self._bytes += len(frame)
        self._wake.set()
        return True

    def clear(self) -> None:
        self._frames.clear()
        self._bytes = 0

    async def pump(self, stream: trio.abc.SendStream, timeout_s: float) -> None:
        """Send until the connection breaks. Raises one of NETWORK_ERRORS."""
        while True:
            if self._frames:
                data = self._frames[0] if len(self._frames) == 1 else b"".join(self._frames)
                self.clear()
                with trio.fail_after(timeout_s):
                    await stream.send_all(data)
            else:
                self._wake = trio.Event()
                await self._wake.wait()


class TcpNetwork:
    """`Network` port over TCP, and the TCP door for clients. All methods belong to the trio thread."""

    def __init__(
        self,
        *,
        cluster: str,
        node: int,
        peers: Mapping[int, str],
        put: Put,
        post: Post,
        clients: ClientRegistry,
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._peers = {peer: split_address(address) for peer, address in peers.items() if peer != node}
        self._put = put
        self._post = post
        self._clients = clients
        self._queues: dict[int, SendQueue] = {}
        self.counters = {
            "network.sent": 0,
            "network.dropped": 0,
            "network.connects": 0,
            "network.received": 0,
            "network.client_connections": 0,
            "network.refused": 0,
        }

    # -- the port ------------------------------------------------------------------------------------------

    def send(self, to: int, message: PeerMessage) -> None:
        queue = self._queues.get(to)
        if queue is not None and queue.add(wire.encode_frame(message)):
            self.counters["network.sent"] += 1
        else:
            self.counters["network.dropped"] += 1

    # -- running -------------------------------------------------------------------------------------------

    async def run(self, listeners: list[trio.SocketListener]) -> None:
        """Serve `listeners` and keep a connection to every peer, until cancelled."""
        async with trio.open_nursery() as nursery:
            for peer in self._peers:
                nursery.start_soon(self._keep_connected, peer)
            await trio.serve_listeners(self._accept, listeners)

    async def _keep_connected(self, peer: int) -> None:
        host, port = self._peers[peer]
        backoff_s = BACKOFF_MIN_S
        while True:
            try:
                with trio.fail_after(CONNECT_TIMEOUT_S):
                    stream = await trio.open_tcp_stream(host, port)
            except NETWORK_ERRORS:
                await trio.sleep(backoff_s)
                backoff_s = min(BACKOFF_MAX_S, backoff_s * 2)
                continue
            if stream.socket.getsockname() == stream.socket.getpeername():
                # Nobody listens there, and the kernel happened to connect us to ourselves. Let the port go.
                await trio.aclose_forcefully(stream)
                continue
            backoff_s = BACKOFF_MIN_S
            self.counters["network.connects"] += 1
            try:
                await self._serve_outgoing(peer, stream)
            except* NETWORK_ERRORS as group:
                log.info("connection to node %d ended: %s", peer, group.exceptions[0])
            await trio.sleep(backoff_s)

    async def _serve_outgoing(self, peer: int, stream: trio.SocketStream) -> None:
        queue = SendQueue(PEER_QUEUE_BYTES)
        queue.add(wire.encode_frame(wire.Hello(wire.PROTOCOL_VERSION, self._cluster, self._node)))
        _no_delay(stream)
        self._queues[peer] = queue
        try:
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(queue.pump, stream, SEND_TIMEOUT_S)
                # Nothing comes in on this connection but its end, which would otherwise go unnoticed.
                await stream.receive_some(1)
                nursery.cancel_scope.cancel()
        finally:
            del self._queues[peer]

    async def _accept(self, stream: trio.SocketStream) -> None:
        peer = _peer_name(stream)
        try:
            await self._serve_incoming(stream)
        except* NETWORK_ERRORS:
            log.debug("connection from %s ended", peer)
        except* (wire.WireError, msgspec.DecodeError) as group:
            self.counters["network.refused"] += 1
            log.warning("closed a connection from %s: %s", peer, group.exceptions[0])

    async def _serve_incoming(self, stream: trio.SocketStream) -> None:
        _no_delay(stream)
        splitter = wire.FrameSplitter()
        pending: list[bytes] = []
        with trio.fail_after(HELLO_TIMEOUT_S):
            while not pending:
                data = await stream.receive_some(READ_BYTES)
                if not data:
                    return
                pending = [bytes(frame) for frame in splitter.feed(data)]
        hello = wire.check_hello(pending[0], self._cluster)
        if hello.node == wire.CLIENT_NODE:
            await self._serve_client(stream, splitter, pending[1:])
        elif hello.node in self._peers:
            await self._serve_peer(hello.node, stream, splitter, pending[1:])
        else:
            raise wire.WireError(f"node {hello.node} is not a peer of node {self._node} (see [peers])")

    async def _serve_peer(
        self, peer: int, stream: trio.SocketStream, splitter: wire.FrameSplitter, pending: list[bytes]
    ) -> None:
        decode = wire.peer_decoder.decode
        messages = [decode(frame) for frame in pending]
        while True:
            self.counters["network.received"] += len(messages)
            for message in messages:
                await self._put(Received(peer, message))
            data = await stream.receive_some(READ_BYTES)
            if not data:
                return
            messages = [decode(frame) for frame in splitter.feed(data)]

    async def _serve_client(
        self, stream: trio.SocketStream, splitter: wire.FrameSplitter, pending: list[bytes]
    ) -> None:
        self.counters["network.client_connections"] += 1
        connection = ClientConnection(stream, self._put, self._post, self._clients)
        try:
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(connection.queue.pump, stream, SEND_TIMEOUT_S)
                await connection.read(splitter, pending)
                nursery.cancel_scope.cancel()
        finally:
            connection.leave()


class ClientConnection:
    """One client's TCP connection: requests in, answers out, in any order."""

    def __init__(self, stream: trio.SocketStream, put: Put, post: Post, clients: ClientRegistry) -> None:
        self.queue = SendQueue(CLIENT_QUEUE_BYTES)
        self._stream = stream
        self._put = put
        self._post = post
        self._clients = clients
        self._waiting: dict[ClientRef, None] = {}
        self._room = trio.Event()

    async def read(self, splitter: wire.FrameSplitter, pending: list[bytes]) -> None:
        """Turn calls into events until the client closes the connection."""
        decode = wire.call_decoder.decode
        calls = [decode(frame) for frame in pending]
        while True:
            for call in calls:
                while len(self._waiting) >= CLIENT_REQUESTS_MAX:
                    self._room = trio.Event()
                    await self._room.wait()
                await self._ask(call)
            data = await self._stream.receive_some(READ_BYTES)
            if not data:
                return
            calls = [decode(frame) for frame in splitter.feed(data)]

    async def _ask(self, call: wire.ClientCall) -> None:
        number = call.number
        problem = wire.request_problem(call.request)
        if problem:
            self.queue.add(wire.encode_frame((number, ErrorReply(ERR_INVALID, problem, False))))
            return

        def respond(reply: object) -> None:
            self._waiting.pop(client, None)
            self._room.set()
            # An answer that does not fit means a client that asks and does not read: it will time out.
            self.queue.add(wire.encode_frame((number, reply)))

        client = self._clients.register(respond)
        self._waiting[client] = None
        await self._put(ClientRequest(client, call.request))

    def leave(self) -> None:
        """The connection is gone: the core may forget what this client still waited for."""
        for client in self._clients.forget(self._waiting):
            self._post(ClientGone(client))


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 host stands in brackets. Raises LiftlogError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise LiftlogError(f"bad address {address!r}; use host:port with a port from 1 to 65535")
    return host.strip("[]"), int(port)


async def listen(address: str) -> list[trio.SocketListener]:
    """Listeners on host:port. Raises LiftlogError if the port is taken or the host is not ours."""
    host, port = split_address(address)
    try:
        return await trio.open_tcp_listeners(port, host=host, backlog=128)
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "stop who uses the port or change [node] listen"
        raise LiftlogError(f"cannot listen on {address}: {reason}; {remedy}") from None


def _no_delay(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _peer_name(stream: trio.SocketStream) -> str:
    try:
        return str(stream.socket.getpeername())
    except OSError:
        return "a closed socket"
