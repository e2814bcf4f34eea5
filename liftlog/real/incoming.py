"""Connections that others opened: who they are (V6), how many there may be, and when they end (V7).

Before the handshake is over nobody is known, and so nothing is given: a message of at most 256 bytes is read
at a time, the whole must be done within `handshake_ms`, and of those who are not done yet only the newest
PENDING_MAX stay, so that strangers who connect and say nothing do not keep others out.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Awaitable, Callable
from struct import Struct as Layout

import trio

from liftlog.api.handshake import (
    CLIENT,
    FRAME_MAX_BYTES,
    HMAC_TAGS,
    NONCE_BYTES,
    PEER,
    VERSION,
    VERSIONS,
    Answerer,
    Caller,
    HandshakeError,
    Party,
    SecureSession,
    Versions,
    refusal,
)
from liftlog.config import NetworkLimits
from liftlog.messages import intake
from liftlog.real.certificates import Certificates
from liftlog.real.rarelog import RareLog
from liftlog.real.sendqueue import NETWORK_ERRORS
from liftlog.real.tlsport import TlsEntrance
from liftlog.real.tlsstream import TcpStream, TlsStream

log = logging.getLogger("liftlog.network")

PENDING_MAX = 64
REFUSAL_TIMEOUT_S = 1.0
UNACKNOWLEDGED_MAX_MS = 10_000

_LENGTH = Layout(">I")
_CALLER = {PEER: "a node", CLIENT: "a client"}


class Incoming:
    """One connection that somebody opened. `cut` ends it, for a reason that goes into the log."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream: TcpStream = stream
        """As it is spoken on: over TLS as soon as that has begun."""
        self.scope = trio.CancelScope()
        self.name = peer_name(stream)
        self.reason = ""
        self.heard = True
        """Something came in since the last sweep."""
        self.busy = False
        """What came in is still being worked on: silence is our own doing."""
        self.version = VERSION
        """Of the protocol that is spoken on it."""
        self._quiet = 0

    @property
    def plain(self) -> bool:
        """Whether it is spoken without TLS."""
        return not isinstance(self.stream, TlsStream)

    def sweep(self) -> int:
        """How many sweeps in a row, this one included, nothing has come in.

        Counted are sweeps and not time, so that a process that was stopped for a while blames nobody for it.
        """
        self._quiet = 0 if self.heard or self.busy else self._quiet + 1
        self.heard = False
        return self._quiet

    def cut(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.scope.cancel()


Serve = Callable[[Incoming, SecureSession], Awaitable[None]]


class Reception:
    """Answers callers of one kind: lets in who proves to know the secret, and serves them."""

    def __init__(
        self,
        me: Callable[[], Party],
        role: int,
        *,
        may_call: Callable[[int], bool],
        admit: Callable[[SecureSession], None],
        serve: Serve,
        limits: NetworkLimits,
        counters: dict[str, int],
        tags: int = HMAC_TAGS,
        versions: Callable[[], Versions] = lambda: VERSIONS,
        certificates: Certificates | None = None,
    ) -> None:
        """`me`: with the secrets that are accepted now. `admit` may refuse who has proved who he is: it
        raises HandshakeError. `versions`: of the protocol, those that we are ready to speak now (U1).
        """
        self._me = me
        self._role = role
        self._may_call = may_call
        self._admit = admit
        self._serve = serve
        self._limits = limits
        self._counters = counters
        self._tags = tags
        self._versions = versions
        self._entrance = TlsEntrance(certificates, role)
        self._rare = RareLog(log)
        self._pending: dict[Incoming, None] = {}

    async def run(self, listeners: list[trio.SocketListener]) -> None:
        """Until cancelled."""
        await trio.serve_listeners(self._accept, listeners)

    async def _accept(self, stream: trio.SocketStream) -> None:
        one = Incoming(stream)
        counters, rare = self._counters, self._rare
        try:
            with one.scope:
                prepare(stream)
                await self._serve(one, await self._identify(one, stream))
        except* NETWORK_ERRORS:
            log.debug("connection from %s ended", one.name)
        except* HandshakeError as group:
            counters["network.refused"] += 1
            error = group.exceptions[0]
            code = error.code if isinstance(error, HandshakeError) else 0
            kind = f"refused {type(error).__name__} {code}"
            rare.warning(kind, f"refused a connection from {one.name}: {error}")
        except* intake.InputRefused as group:
            counters["network.refused"] += 1
            rare.warning("closed", f"closed a connection from {one.name}: {group.exceptions[0]}")
        if one.reason:
            counters["network.cut"] += 1
            rare.warning("cut", f"closed a connection from {one.name}: {one.reason}")

    async def _identify(self, one: Incoming, plain: trio.SocketStream) -> SecureSession:
        """The handshakes, of TLS too, within bounds. Raises HandshakeError, NETWORK_ERRORS."""
        if len(self._pending) >= PENDING_MAX:
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            oldest.cut(f"{PENDING_MAX} newer ones wait for a handshake too")
        self._pending[one] = None
        try:
            with trio.move_on_after(self._limits.handshake_ms / 1000):
                one.stream, binding = await self._entrance.enter(plain)
                return await self._converse(one, binding)
        finally:
            self._pending.pop(one, None)
        raise HandshakeError(f"no handshake within {self._limits.handshake_ms} ms")

    async def _converse(self, one: Incoming, binding: bytes) -> SecureSession:
        stream = one.stream
        answerer = Answerer(
            self._me(),
            self._role,
            self._may_call,
            lambda: os.urandom(NONCE_BYTES),
            self._tags,
            versions=self._versions(),
            binding=binding,
        )
        try:
            while True:
                message = await receive_message(stream)
                self._entrance.check(stream)
                reply = answerer.receive(message)
                if answerer.session is not None:
                    self._admit(answerer.session)
                    await send_message(stream, reply)
                    if said := self._entrance.remark(stream):
                        self._rare.warning("plain", f"{_CALLER[self._role]} at {one.name} {said}")
                    return answerer.session
                await send_message(stream, reply)
        except HandshakeError as error:
            if error.code:
                with trio.move_on_after(REFUSAL_TIMEOUT_S):
                    await send_message(stream, refusal(error.code, error.versions))
            raise


async def introduce(stream: TcpStream, caller: Caller) -> SecureSession:
    """The caller's side of a handshake. Raises HandshakeError, NETWORK_ERRORS."""
    await send_message(stream, caller.hello())
    while True:
        reply = caller.receive(await receive_message(stream))
        if caller.session is not None:
            return caller.session
        await send_message(stream, reply)


async def send_message(stream: TcpStream, message: bytes) -> None:
    await stream.send_all(_LENGTH.pack(len(message)) + message)


async def receive_message(stream: TcpStream) -> bytes:
    """One message of a handshake, and not a byte behind it. Raises HandshakeError, NETWORK_ERRORS."""
    (length,) = _LENGTH.unpack(await _receive_exactly(stream, 4))
    if length > FRAME_MAX_BYTES:
        raise HandshakeError("not a liftlog handshake")
    return await _receive_exactly(stream, length)


async def _receive_exactly(stream: TcpStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = await stream.receive_some(count - len(data))
        if not more:
            raise trio.BrokenResourceError("hung up during the handshake")
        data += more
    return data


def prepare(stream: trio.SocketStream) -> None:
    """Send at once, and find out when what was sent is not acknowledged.

    Without the second a connection whose other end is gone takes in what we send until the kernel's buffer is
    full, which can be an hour.
    """
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MAX_MS)


def peer_name(stream: trio.SocketStream) -> str:
    try:
        host, port = stream.socket.getpeername()[:2]
        return f"{host}:{port}"
    except OSError:
        return "a closed socket"
