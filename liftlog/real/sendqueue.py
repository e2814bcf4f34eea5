"""Frames on their way to one socket, and files that the kernel sends in the middle of them.

Cold data goes to clients without passing through this process: an answer may name *spans* of files, which the
kernel copies to the socket (`sendfile`) out of a reader thread, since a cold file blocks. Over TLS that
thread reads them, a bounded piece at a time, which is sealed here.
"""

from __future__ import annotations

import errno
import logging
import select
from collections import deque
from collections.abc import Iterable

import trio

from liftlog.messages.filespan import FileSpan
from liftlog.ports import DiskError
from liftlog.real.budget import Budget
from liftlog.real.tlsstream import Direct, TcpStream, TlsStream, direct_of

log = logging.getLogger("liftlog.network")

SPAN_COST_BYTES = 1024 * 1024
"""What a span counts for at least in a queue: a client that does not read holds few files open."""
ROOM_WAIT_MS = 5
PIECE_BYTES = 128 * 1024
"""So much, and the rest of a frame, goes into the socket at once."""
NETWORK_ERRORS = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)


class SendQueue:
    """Frames on their way to one socket, joined into one write. Bounded in bytes and in open files (V7)."""

    def __init__(self, limit_bytes: int, budget: Budget) -> None:
        """`budget`: what the queues of all connections like this one share."""
        self._limit = limit_bytes
        self._budget = budget
        self._parts: deque[bytes | FileSpan] = deque()
        self.held = 0
        """Bytes that wait, or are on their way into the socket."""
        self._socket: Direct | None = None
        """Where `flush` may send by itself; without it, it wakes the task that pumps."""
        self._pumping = True
        """That task sends, or is about to."""
        self._wake = trio.Event()
        self._closed = False

    def fits(self, cost: int) -> bool:
        """Whether this queue's own bound allows so many bytes. A frame always fits into an empty queue."""
        return not self._closed and (not self._parts or self.held + cost <= self._limit)

    def add(self, *frame: bytes | FileSpan) -> bool:
        """Queue a frame's parts, which leave with `flush`; False if there is no room, here or in the budget.

        The files of spans belong to the queue from here on, whatever becomes of them.
        """
        cost = sum(map(cost_bytes, frame))
        if not self.fits(cost) or not self._budget.take(cost):
            close_files(frame)
            return False
        self._parts += frame
        self.held += cost
        return True

    def flush(self) -> None:
        """Send what is queued: now, as far as the kernel takes it; the rest, and what lies in files, is for
        the task that pumps.
        """
        parts, socket = self._parts, self._socket
        if self._pumping or not parts:
            return
        while socket is not None and parts and isinstance(parts[0], bytes):
            piece = self._take()
            sent = socket.send(piece)
            self._let_go(sent)
            if sent < len(piece):
                parts.appendleft(piece[sent:])
                break
        if parts:
            self._pumping = True
            self._wake.set()

    async def pump(self, stream: TcpStream, timeout_s: float, readers: trio.CapacityLimiter) -> None:
        """Send until the connection breaks. Raises one of NETWORK_ERRORS. Nothing can be queued after it."""
        self._socket = direct_of(stream, 0)
        try:
            while True:
                await self._send_all(stream, timeout_s, readers)
                self._pumping = False
                self._wake = trio.Event()
                await self._wake.wait()
        finally:
            self.close()

    def close(self) -> None:
        """Let go of everything. Nothing can be queued afterwards; a second time does nothing."""
        self._closed = True
        close_files(self._parts)
        self._parts.clear()
        self._let_go(self.held)

    def _let_go(self, count: int) -> None:
        count = min(count, self.held)
        self.held -= count
        self._budget.give(count)

    async def _send_all(self, stream: TcpStream, timeout_s: float, readers: trio.CapacityLimiter) -> None:
        parts = self._parts
        while parts:
            if isinstance(parts[0], FileSpan):
                span = parts.popleft()
                assert isinstance(span, FileSpan)
                await send_span(stream, span, timeout_s, readers)
                self._let_go(cost_bytes(span))
                continue
            data = self._take()
            with trio.fail_after(timeout_s):
                await stream.send_all(data)
            self._let_go(len(data))

    def _take(self) -> bytes:
        """The bytes that go next, up to a piece and the end of the frame that it ends in."""
        joined: list[bytes] = []
        size = 0
        while self._parts and size < PIECE_BYTES and isinstance(self._parts[0], bytes):
            part = self._parts.popleft()
            assert isinstance(part, bytes)
            joined.append(part)
            size += len(part)
        return joined[0] if len(joined) == 1 else b"".join(joined)


def cost_bytes(part: bytes | FileSpan) -> int:
    """How much of a queue's bound a part takes: a span also for the file that it holds open."""
    return max(part.length, SPAN_COST_BYTES) if isinstance(part, FileSpan) else len(part)


def close_files(parts: Iterable[bytes | FileSpan]) -> None:
    for part in parts:
        if isinstance(part, FileSpan):
            part.file.close()


async def send_span(
    stream: TcpStream, span: FileSpan, timeout_s: float, readers: trio.CapacityLimiter
) -> None:
    """Let the kernel send a span; its file is closed afterwards, however this ends. Raises NETWORK_ERRORS.
    Over TLS it is read and sealed here, a piece at a time.

    What cannot be read goes out as zeros, since the frame's length has been promised: the client finds a
    damaged batch and asks for a verified read, which is how storage hears of it (D2).
    """
    sending = _Sending(span, stream.socket.fileno())
    try:
        while sending.left:
            if isinstance(stream, TlsStream):
                await _send_sealed(stream, sending, timeout_s, readers)
                continue
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


async def _send_sealed(
    stream: TlsStream, sending: _Sending, timeout_s: float, readers: trio.CapacityLimiter
) -> None:
    """As much of a span as it counts for in a queue: read at once, and sent as far as the client takes it in
    time.
    """
    data = memoryview(await trio.to_thread.run_sync(sending.read, limiter=readers))
    while data:
        with trio.fail_after(timeout_s):
            await stream.send_all(data[:PIECE_BYTES])
        sending.left -= len(data[:PIECE_BYTES])
        data = data[PIECE_BYTES:]


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

    def read(self) -> bytes:
        """What comes next, for who sends it otherwise. Raises DiskError, also if the file ends before it."""
        data = self._file.read_at(self._end - self.left, min(self.left, SPAN_COST_BYTES))
        if not data:
            raise DiskError(errno.EIO, f"the file ends {self.left} bytes before the end of what is sent")
        return data
