"""TCP between nodes, and the door for clients, on one port.

Each node opens one connection to every other and only sends on it; what it receives comes in on the
connections that the others opened. A half-open connection then blocks one direction, never both, and there is
no question of who may close what.

Best effort, as the `Network` port says: while a peer is not connected or its queue is full, messages to it
are dropped and counted. The protocol repeats whatever matters, and old messages are the least useful ones.

Cold data goes to clients without passing through this process: an answer may name *spans* of files, which the
kernel copies to the socket (`sendfile`) out of a reader thread, since a cold file blocks.
"""

from __future__ import annotations

import logging
import select
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping

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
    SpannedRead,
    intake,
)
from liftlog.ports import DiskError
from liftlog.types import ClientRef, FileSpan, LiftlogError

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
SPAN_COST_BYTES = 1024 * 1024
"""What a span counts for at least in a queue: a client that does not read holds few files open."""
ROOM_WAIT_MS = 5
READER_THREADS_MAX = 4
"""A read from a cold file occupies a thread until the disk has answered."""
CLIENT_REQUESTS_MAX = 64
"""Requests of one client connection that may be in work; beyond it the connection is not read."""

Put = Callable[[Event], Awaitable[None]]
Post = Callable[[Event], None]
NETWORK_ERRORS = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)


class SendQueue:
    """Frames on their way to one socket, joined into one write. Bounded in bytes and in open files."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._parts: deque[bytes | FileSpan] = deque()
        self._bytes = 0
        self._wake = trio.Event()
        self._closed = False

    def add(self, *frame: bytes | FileSpan) -> bool:
        """Queue a frame's parts; False if there is no room. A frame always fits into an empty queue.

        The files of spans belong to the queue from here on, whatever becomes of them.
        """
        cost = sum(map(_cost_bytes, frame))
        if self._closed or (self._parts and self._bytes + cost > self._limit):
            _close_files(frame)
            return False
        self._parts += frame
        self._bytes += cost
        self._wake.set()
        return True

    async def pump(
        self, stream: trio.SocketStream, timeout_s: float, readers: trio.CapacityLimiter
    ) -> None:
        """Send until the connection breaks. Raises one of NETWORK_ERRORS. Nothing can be queued after it."""
        try:
            while True:
                await self._send_all(stream, timeout_s, readers)
                self._wake = trio.Event()
                await self._wake.wait()
        finally:
            self._closed = True
            _close_files(self._parts)
            self._parts.clear()

    async def _send_all(
        self, stream: trio.SocketStream, timeout_s: float, readers: trio.CapacityLimiter
    ) -> None:
        parts = self._parts
        while parts:
            part = parts.popleft()
            if isinstance(part, FileSpan):
                self._bytes -= _cost_bytes(part)
                await send_span(stream, part, timeout_s, readers)
                continue
            joined = [part]
            while parts and isinstance(parts[0], bytes):
                joined.append(parts.popleft())  # type: ignore[arg-type]
            data = part if len(joined) == 1 else b"".join(joined)
            self._bytes -= len(data)
            with trio.fail_after(timeout_s):
                await stream.send_all(data)


def _cost_bytes(part: bytes | FileSpan) -> int:
    """How much of a queue's bound a part takes: a span also for the file that it holds open."""
    return max(part.length, SPAN_COST_BYTES) if isinstance(part, FileSpan) else len(part)


def _close_files(parts: Iterable[bytes | FileSpan]) -> None:
    for part in parts:
        if isinstance(part, FileSpan):
            part.file.close()


async def send_span(
    stream: trio.SocketStream, span: FileSpan, timeout_s: float, readers: trio.CapacityLimiter
) -> None:
    """Let the kernel send a span; its file is closed afterwards, however this ends. Raises NETWORK_ERRORS.

    What cannot be read goes out as zeros, since the frame's length has been promised: the client finds a
    damaged batch and asks for a verified read, which is how storage hears of it (D2).
    """
    sending = _Sending(span, stream.socket.fileno())
    try:
        while sending.left:
            with trio.fail_after(timeout_s):
                await trio.to_thread.run_sync(sending.run, limiter=readers)
                if sending.left:
                    await trio.lowlevel.wait_writable(stream.socket)
    except DiskError as error:
        log.error("cannot send what was asked for: %s", error)
        with trio.fail_after(timeout_s):
            await stream.send_all(bytes(sending.left))
    finally:
        span.file.close()


class _Sending:
    """A span on its way into a socket, in a reader thread."""

    def __init__(self, span: FileSpan, descriptor: int) -> None:
        self._file = span.file
        self._end = span.position + span.length
        self._descriptor = descriptor
        self.left = span.length

    def run(self) -> None:
        """Send until all is sent or the socket has been full for a moment. Raises DiskError, OSError.

        Waiting that moment here saves most readers the way to another thread and back for every megabyte.
        """
        room = select.poll()
        room.register(self._descriptor, select.POLLOUT)
        while self.left:
            self.left -= self._file.send_to(self._descriptor, self._end - self.left, self.left)
            if self.left and not room.poll(ROOM_WAIT_MS):
                return


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
        self._readers = trio.CapacityLimiter(READER_THREADS_MAX)
        self.counters = {
            "network.sent": 0,
            "network.dropped": 0,
            "network.connects": 0,
            "network.received": 0,
            "network.client_connections": 0,
            "network.refused": 0,
            "network.spans": 0,
            "network.span_bytes": 0,
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
                nursery.start_soon(queue.pump, stream, SEND_TIMEOUT_S, self._readers)
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
        except* intake.InputRefused as group:
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
        decode = intake.peer_message
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
        connection = ClientConnection(stream, self._put, self._post, self._clients, self.counters)
        try:
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(connection.queue.pump, stream, SEND_TIMEOUT_S, self._readers)
                await connection.read(splitter, pending)
                nursery.cancel_scope.cancel()
        finally:
            connection.leave()


class ClientConnection:
    """One client's TCP connection: requests in, answers out, in any order."""

    def __init__(
        self,
        stream: trio.SocketStream,
        put: Put,
        post: Post,
        clients: ClientRegistry,
        counters: dict[str, int],
    ) -> None:
        self.queue = SendQueue(CLIENT_QUEUE_BYTES)
        self._stream = stream
        self._put = put
        self._post = post
        self._clients = clients
        self._counters = counters
        self._waiting: dict[ClientRef, None] = {}
        self._room = trio.Event()

    async def read(self, splitter: wire.FrameSplitter, pending: list[bytes]) -> None:
        """Turn calls into events until the client closes the connection."""
        decode = wire.client_call
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
            if isinstance(reply, SpannedRead):
                self._counters["network.spans"] += len(reply.spans)
                self._counters["network.span_bytes"] += sum(span.length for span in reply.spans)
                self.queue.add(*wire.spanned_frame(number, reply))
            else:
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
