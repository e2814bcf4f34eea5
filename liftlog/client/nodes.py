"""A client's TCP connections to nodes: calls with numbers, answers in any order.

Node and client prove to each other that they know the clients' secret before anything is asked.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import struct
from collections.abc import Awaitable, Callable

import msgspec

from liftlog.api import wire
from liftlog.api.ackgroups import ACKS_A_REQUEST, share_of
from liftlog.api.handshake import (
    CLIENT,
    CLIENT_NODE,
    FRAME_MAX_BYTES,
    NO_SECRET,
    NONCE_BYTES,
    REFUSED_PLAIN,
    REFUSED_PROOF,
    Caller,
    HandshakeError,
    Party,
    SecureSession,
)
from liftlog.api.tags import FrameSealer
from liftlog.client.answers import AwaitedAnswers
from liftlog.client.errors import NodeTooOld, RequestFailed, Unreachable
from liftlog.messages import ERR_INVALID, ClientMessage, ClientReply, ErrorReply, intake
from liftlog.tls.files import TlsFiles, binding_of
from liftlog.tls.words import UNKNOWN_CA, why_not
from liftlog.types import LiftlogError

READ_BYTES = 512 * 1024
"""At once, and half of what is held before the socket is left alone: an answer may be a mebibyte."""

IN_WORK_MAX = 48 * ACKS_A_REQUEST
"""Requests of one connection that have no answer yet (`share_of` each), before another one is opened: below
what a node takes (`liftlog.real.door.REQUESTS_MAX`)."""
CONNECTIONS_MAX = 16
"""To one node."""

_LENGTH = struct.Struct(">I")


class NodeConnection:
    """One connection to one node. Made by `open`; after `Unreachable` it is of no more use."""

    def __init__(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: SecureSession
    ) -> None:
        self.address = address
        self._version = session.version
        self._sealer = FrameSealer(session.caller_key)
        self._reader = reader
        self._writer = writer
        self._answers = AwaitedAnswers()
        self._unsent: list[bytes] = []
        self.in_work = 0
        """Requests that have no answer yet, `share_of` each."""
        self._next = 1
        self._lost = ""
        self._task = asyncio.create_task(self._read_answers())

    @classmethod
    async def open(cls, node: int, address: str, access: Access, timeout_s: float) -> NodeConnection:
        """Connect, and make sure that it is this node. Raises Unreachable, LiftlogError."""
        host, _, port = address.rpartition(":")
        who = f"node {node} at {address}" if node else f"the node at {address}"
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await _connect(host.strip("[]"), int(port), access.tls)
                try:
                    session = await _introduce(reader, writer, access.caller(node, _binding(writer)))
                except BaseException:
                    _end(writer)
                    raise
        except ssl.SSLError as error:
            raise tls_problem(who, error, access.tls, host.strip("[]")) from None
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            reason = str(error) or "no answer"
            raise Unreachable(f"{who} is not reachable: {reason}") from None
        except HandshakeError as error:
            text = f"{who} and this client do not trust each other: {error}"
            if error.code == REFUSED_PLAIN:
                raise LiftlogError(f"{who} and this client do not speak the same: {error}") from None
            if error.code == REFUSED_PROOF:
                raise LiftlogError(f"{text}; this client used {access.source}: {access.remedy}") from None
            raise Unreachable(text) from None
        return cls(address, reader, writer, session)

    @property
    def usable(self) -> bool:
        return not self._lost

    async def call(self, request: ClientMessage, timeout_s: float) -> ClientReply:
        """Ask, wait for the answer. Raises Unreachable, or RequestFailed for an `ErrorReply` and for what
        the node's version of the protocol does not have.
        """
        since = wire.REQUEST_SINCE.get(type(request), 0)
        if self._version < since:
            raise NodeTooOld(
                ERR_INVALID,
                f"node at {self.address} speaks version {self._version} of the protocol, and "
                f"{type(request).__name__} came with version {since}: upgrade the node",
            )
        if self._lost:
            raise Unreachable(self._lost)
        number = self._next
        self._next += 1
        share = share_of(request)
        self.in_work += share
        # Not `wait_for`, which may keep a cancellation to itself when the answer comes at that moment.
        answer = self._answers.expect(number, timeout_s)
        try:
            self._send(self._sealer.seal((number, request)))
            reply = await answer
        except TimeoutError:
            raise Unreachable(f"node at {self.address} did not answer within {timeout_s:.1f} s") from None
        finally:
            self.in_work -= share
            self._answers.forget(number)
        if isinstance(reply, ErrorReply):
            raise RequestFailed(reply.code, reply.description, reply.retryable, reply.leader)
        return reply

    def _send(self, frame: bytes) -> None:
        """It leaves in one write with all that is asked before the event loop goes round."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(frame)

    def _flush(self) -> None:
        frames, self._unsent = self._unsent, []
        if frames:
            self._writer.write(b"".join(frames))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._flush()
        _end(self._writer)

    async def _read_answers(self) -> None:
        splitter = wire.FrameSplitter()
        reason = "it closed the connection"
        try:
            while data := await self._reader.read(READ_BYTES):
                for frame in splitter.feed(data):
                    answer = wire.client_answer(frame)
                    self._answers.come(answer.number, answer.reply)
        except (OSError, intake.InputRefused) as error:
            reason = str(error)
        finally:
            self._lost = f"node at {self.address}: {reason}"
            self._answers.fail(Unreachable(self._lost))


async def _connect(
    host: str, port: int, tls: TlsFiles | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Over TLS if there are files for it. Raises OSError, ssl.SSLError, LiftlogError."""
    if tls is None:
        return await asyncio.open_connection(host, port, limit=READ_BYTES)
    context = tls.calling()
    try:
        return await asyncio.open_connection(
            host, port, limit=READ_BYTES, ssl=context, server_hostname=host
        )
    except ConnectionResetError:
        raise ConnectionResetError("it hung up when TLS began: it speaks none there, or stops") from None


def _end(writer: asyncio.StreamWriter) -> None:
    """Over TLS asyncio would wait for the other side's farewell, when nobody waits for this one any more."""
    if writer.get_extra_info("ssl_object") is None:
        writer.close()
    else:
        writer.transport.abort()


def _binding(writer: asyncio.StreamWriter) -> bytes:
    """What the handshake is bound to; empty without TLS."""
    below: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    return b"" if below is None else binding_of(below.getpeercert(binary_form=True) or b"")


def tls_problem(who: str, error: ssl.SSLError, tls: TlsFiles | None, host: str) -> LiftlogError:
    """What a program is told. Another node may have a good certificate where this one's has expired; but
    whose certificates are believed, and what we show, is the same for all.
    """
    if tls is None:
        return Unreachable(f"{who} is not reachable: {error}")
    text = f"{who} and this client do not trust each other: {why_not(error, tls, str(tls.ca_file), host)}"
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in UNKNOWN_CA:
        return LiftlogError(f"{text} ({tls.names[0]})")
    if "ALERT" in (error.reason or ""):
        return LiftlogError(text)
    return Unreachable(text)


async def _introduce(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: Caller
) -> SecureSession:
    """The caller's side of a handshake. Raises HandshakeError, OSError, IncompleteReadError."""
    message = caller.hello()
    while True:
        writer.write(_LENGTH.pack(len(message)) + message)
        (length,) = _LENGTH.unpack(await reader.readexactly(4))
        if length > FRAME_MAX_BYTES:
            raise HandshakeError("who answers does not speak this protocol")
        message = caller.receive(await reader.readexactly(length))
        if caller.session is not None:
            return caller.session


class Access(msgspec.Struct, frozen=True):
    """How a client gets in: the cluster, what it proves, and where it has that from, in words."""

    cluster: str
    secrets: tuple[bytes, ...] = (NO_SECRET,)
    source: str = "no secret"
    remedy: str = (
        "pass the clients' secret of this cluster, or one's own, with --secret-file, or 'none' if it asks "
        "for none"
    )
    """What to do if that is not the right one."""
    tls: TlsFiles | None = None
    """None: without TLS."""

    def caller(self, node: int, binding: bytes = b"") -> Caller:
        """`binding`: of the TLS connection, empty without one."""
        me = Party(self.cluster, CLIENT_NODE, self.secrets)
        return Caller(me, CLIENT, node, os.urandom(NONCE_BYTES), binding=binding)

    def __repr__(self) -> str:
        return f"Access(cluster={self.cluster!r}, source={self.source!r})"


class NodePool:
    """Connections to the nodes of one cluster, by address, opened when first needed. A node has so many
    requests of a connection in work at once, and some of them wait, as reads at the end of a log do: another
    one is opened before requests would have to wait for those.
    """

    def __init__(
        self,
        access: Callable[[], Access],
        connect_timeout_s: float,
        greet: Callable[[NodeConnection], Awaitable[None]] | None = None,
    ) -> None:
        """`greet`: with each new connection, before it is used; where it raises, that is closed."""
        self._access = access
        self._greet = greet
        self._connect_timeout_s = connect_timeout_s
        self._connections: dict[str, list[NodeConnection]] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        """By address: one attempt at a time, for all who ask meanwhile."""

    async def call(self, node: int, address: str, request: ClientMessage, timeout_s: float) -> ClientReply:
        """Ask a node at `address`. Raises Unreachable, RequestFailed, LiftlogError."""
        while (connection := self._with_room(address)) is None:
            task = self._opening.get(address)
            if task is None:
                wait_s = min(timeout_s, self._connect_timeout_s)
                task = self._opening[address] = asyncio.create_task(self._open(node, address, wait_s))
                task.add_done_callback(lambda done: self._opened(address, done))
            try:
                await asyncio.shield(task)
            except LiftlogError:
                if not self._usable(address):
                    raise
                break
        connection = connection or min(self._usable(address), key=lambda one: one.in_work, default=None)
        if connection is None:
            raise Unreachable(f"node at {address}: the connection was lost")
        return await connection.call(request, timeout_s)

    def _usable(self, address: str) -> list[NodeConnection]:
        return [one for one in self._connections.get(address, ()) if one.usable]

    def _with_room(self, address: str) -> NodeConnection | None:
        """The one with the least in work; None if that is as much as may be, and there may be another one."""
        usable = self._usable(address)
        if not usable:
            return None
        least = usable[0] if len(usable) == 1 else min(usable, key=lambda one: one.in_work)
        return least if least.in_work < IN_WORK_MAX or len(usable) >= CONNECTIONS_MAX else None

    async def _open(self, node: int, address: str, wait_s: float) -> None:
        """One more connection, and none that is of no more use. Raises as `NodeConnection.open`."""
        there = self._connections.setdefault(address, [])
        lost = [one for one in there if not one.usable]
        there[:] = [one for one in there if one.usable]
        for connection in lost:
            await connection.close()
        opened = await NodeConnection.open(node, address, self._access(), wait_s)
        if self._greet is not None:
            try:
                await self._greet(opened)
            except BaseException:
                await opened.close()
                raise
        there.append(opened)

    def _opened(self, address: str, task: asyncio.Task[None]) -> None:
        """The attempt is over; perhaps nobody waits for it any more."""
        del self._opening[address]
        if not task.cancelled():
            task.exception()

    async def close(self) -> None:
        for task in self._opening.values():
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        for connections in self._connections.values():
            for connection in connections:
                await connection.close()
        self._connections.clear()
