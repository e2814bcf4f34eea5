"""A connected socket that is read and written without a task switch more than it takes.

trio's streams are made for any kind of stream; on the path of an ack their checkpoints and wake-ups of other
tasks cost more than the work itself. Here a reader waits only when there is nothing to read, and whoever has
something to send tries to, at once and from wherever it is; the rest is left to a task that can wait.

Only for plain TCP. What runs through TLS stays a `trio.abc.Stream` (`direct` says None).
"""

from __future__ import annotations

import os

import trio

READ_BYTES_MIN = 16 * 1024


class DirectSocket:
    """The socket of a stream, which stays the owner and closes it. All methods belong to the trio thread."""

    __slots__ = ("_read_bytes", "_read_bytes_max", "_socket")

    def __init__(self, stream: trio.SocketStream, read_bytes_max: int) -> None:
        # Asked for its number each time: that of a closed one may be another file's by now.
        self._socket = stream.socket
        self._read_bytes_max = read_bytes_max
        self._read_bytes = READ_BYTES_MIN

    async def receive(self) -> bytes:
        """What has come in, after waiting for it; empty at the end. Always a checkpoint. Raises OSError,
        trio.ClosedResourceError.
        """
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            data = self.receive_now()
            if data is not None:
                return data

    def receive_now(self) -> bytes | None:
        """What has come in, empty at the end; None if nothing has. Raises OSError."""
        try:
            data = os.read(self._socket.fileno(), self._read_bytes)
        except BlockingIOError:
            return None
        # A buffer of the greatest size for every small message costs more than the message.
        if len(data) == self._read_bytes:
            self._read_bytes = min(4 * self._read_bytes, self._read_bytes_max)
        elif len(data) < self._read_bytes // 16:
            self._read_bytes = max(self._read_bytes // 4, READ_BYTES_MIN)
        return data

    def send(self, data: bytes | memoryview) -> int:
        """How many bytes the kernel has taken: 0 if it has no room now, or if the connection is broken, which
        the task that waits for room finds out as well, and ends.
        """
        try:
            return os.write(self._socket.fileno(), data)
        except OSError:
            return 0


def direct(stream: trio.abc.Stream, read_bytes_max: int) -> DirectSocket | None:
    """Direct access to a stream, if it is a plain socket."""
    return DirectSocket(stream, read_bytes_max) if type(stream) is trio.SocketStream else None
