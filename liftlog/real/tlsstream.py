"""A TLS connection over a plain socket, which is read and written without a task switch as `DirectSocket` is.

OpenSSL works in memory here: what it has sealed waits until the kernel takes it, and what the kernel has is
opened as far as it is whole. Whoever sends learns that bytes have left when the kernel has all that they
became. Until then they are his, and counted (V7): he must pass the same bytes again, at the front, as with
OpenSSL itself. A connection so holds one PIECE at most that nobody counts, and what one read has brought.
"""

from __future__ import annotations

import os
import ssl
from typing import Protocol

import trio

from liftlog.real.direct import DirectSocket

PIECE_BYTES = 64 * 1024
"""So much is sealed at once."""
RECORD_BYTES = 16 * 1024
"""No record holds more."""
UNASKED_MAX = 64 * 1024
"""What TLS itself may want to say, while nobody sends: answers to changes of keys."""


class TlsBroken(trio.BrokenResourceError):
    """TLS ended it: what came in is not what the other side has sealed, or it has said why it hangs up."""

    def __init__(self, error: ssl.SSLError) -> None:
        super().__init__(f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}")
        self.error = error


class TlsStream:
    """All methods belong to the trio thread. The plain stream stays its owner's, who closes it."""

    def __init__(
        self, plain: trio.SocketStream, context: ssl.SSLContext, *, server_side: bool, host: str | None = None
    ) -> None:
        """`host`: whom the other side's certificate must name; for who has called."""
        self.socket = plain.socket
        self._plain = DirectSocket(plain, PIECE_BYTES * 2)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=host
        )
        self._unsent = memoryview(b"")
        """Sealed, and on its way into the socket; what follows is in `_outgoing`."""
        self._begun = 0
        """So many bytes of what is passed to `send` next are sealed already."""
        self.heard = False
        """Whether anything has come in."""

    @property
    def shown(self) -> bytes:
        """The other side's certificate; empty if it has shown none."""
        return self._tls.getpeercert(binary_form=True) or b""

    async def shake_hands(self) -> None:
        """Raises ssl.SSLError; OSError, trio.BrokenResourceError if the other side hangs up."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._drain()
                await self._more("hung up during the handshake of TLS")
            except ssl.SSLError:
                # What we have to say against it should arrive.
                self._push()
                raise
            else:
                await self._drain()
                return

    # -- sending -------------------------------------------------------------------------------------------

    def send(self, data: bytes | memoryview) -> int:
        """How many bytes have gone into the kernel: fewer than there are if it has no room now, or if the
        connection is broken, which the task that waits for room finds out as well. The rest is passed again.
        """
        view, done = memoryview(data), 0
        try:
            while done < len(view):
                self._seal(view[done:])
                if not self._push():
                    break
                done += self._begun
                self._begun = 0
        except OSError:
            pass
        return done

    async def send_all(self, data: bytes | memoryview) -> None:
        """Raises one of NETWORK_ERRORS; nothing can be sent after that."""
        await trio.lowlevel.checkpoint()
        view, done = memoryview(data), 0
        while done < len(view):
            self._seal(view[done:])
            await self._drain()
            done += self._begun
            self._begun = 0

    def _seal(self, view: memoryview) -> None:
        """The next piece, unless one is begun."""
        if not self._begun:
            self._begun = self._tls.write(view[:PIECE_BYTES])

    def _push(self) -> bool:
        """Whether the kernel has taken all that is sealed. Raises OSError."""
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            try:
                sent = os.write(self.socket.fileno(), self._unsent)
            except BlockingIOError:
                return False
            self._unsent = self._unsent[sent:]
        return True

    async def _drain(self) -> None:
        while not self._push():
            await trio.lowlevel.wait_writable(self.socket)

    # -- receiving -----------------------------------------------------------------------------------------

    async def receive(self) -> bytes:
        """All that has come in, after waiting for it; empty at the end. Always a checkpoint. Raises
        TlsBroken, OSError, trio.ClosedResourceError.
        """
        return await self._receive(PIECE_BYTES * 4)

    async def receive_some(self, most: int) -> bytes:
        """The same, up to `most`."""
        return await self._receive(most)

    async def _receive(self, most: int) -> bytes:
        data = self._open(most)
        if data is not None:
            await trio.lowlevel.checkpoint()
            return data
        while data is None:
            if not await self._more(""):
                return b""
            data = self._open(most)
        return data

    def _open(self, most: int) -> bytes | None:
        """What is here and whole, up to `most`; empty at the end, None if nothing is."""
        parts: list[bytes] = []
        size = 0
        try:
            while size < most:
                part = self._tls.read(min(RECORD_BYTES, most - size))
                if not part:
                    return b"".join(parts)
                parts.append(part)
                size += len(part)
        except ssl.SSLWantReadError:
            if not parts:
                return None
        except ssl.SSLError as error:
            if not parts:
                raise TlsBroken(error) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _more(self, at_the_end: str) -> bool:
        """Wait for bytes and take them in; False at the end, or BrokenResourceError with these words."""
        raw = await self._plain.receive()
        if not raw:
            if at_the_end:
                raise trio.BrokenResourceError(at_the_end)
            return False
        self.heard = True
        self._incoming.write(raw)
        if self._outgoing.pending > UNASKED_MAX and not self._begun:
            raise trio.BrokenResourceError("it asks for new keys again and again")
        return True


class Direct(Protocol):
    """What is read and written without a task switch; see `DirectSocket`."""

    async def receive(self) -> bytes: ...

    def send(self, data: bytes | memoryview) -> int: ...


TcpStream = trio.SocketStream | TlsStream
"""A connection between nodes, or with a client."""


def direct_of(stream: TcpStream, read_bytes_max: int) -> Direct:
    """Direct access to a connection, whatever it speaks."""
    return stream if isinstance(stream, TlsStream) else DirectSocket(stream, read_bytes_max)
