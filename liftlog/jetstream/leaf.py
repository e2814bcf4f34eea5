"""The door's connection as a leaf node: by it messages keep their subjects, and the door knows who listens.

A message of a stream comes to the inbox of who has pulled it, and bears the subject under which it was
published. A client of NATS cannot send that. What comes over a leaf node with the reply
"$JS.ACK.<...>@<subject>" is handed to clients with this subject, and with the reply before the "@"
(nats-server, client.go, processMsgResults). And a leaf node is told of every subscription of its account.

What is sent while the connection is away raises LeafAway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from liftlog.eventlog import say
from liftlog.nats_login import NO_LOGIN, NatsLogin
from liftlog.subjects.grammar import tokens_match
from liftlog.types import LiftlogError

DEFAULT_LEAF_PORT = 7422
PAUSE_S = 0.5
"""Before another attempt to connect."""
ANSWER_S = 5.0
CLOSE_S = 1.0
LINE_MAX = 1024 * 1024
UNHEARD_S = 1.0
UNSENT_MAX = 32 * 1024 * 1024
"""More bytes than that are not held for a slow NATS: who sends waits."""


NO_LEAF = (
    "this door has no leaf node connection, by which alone messages keep their subjects: give nats-server "
    "'leafnodes { port: 7422 }' and the door '[jetstream] leaf = \"nats-leaf://host:7422\"'"
)


BROKEN = (
    OSError,
    EOFError,
    ValueError,
    asyncio.LimitOverrunError,
    msgspec.MsgspecError,
    LiftlogError,
    TimeoutError,
)
"""How a connection ends; `EOFError`: it was closed."""


class LeafAway(LiftlogError):
    """There is no connection now."""


class LeafMessage(NamedTuple):
    """One message to `to`. With a `subject` it is handed over as one of this subject; then `reply` is an ack
    subject. `block`: its headers as they are sent, with their first line; empty = none.
    """

    to: str
    reply: str = ""
    block: bytes = b""
    body: bytes = b""
    subject: str = ""

    def encoded(self, queues: Sequence[str] = ()) -> bytes:
        """As it is sent; one member of each of these queue groups gets it, beside all who are in none."""
        return encode_messages([self], lambda _: queues)


def encode_messages(messages: Iterable[LeafMessage], queues_of: Callable[[str], Sequence[str]]) -> bytes:
    """All of them as they are sent. `queues_of`: the queue groups that listen to a subject, which are asked
    for where it is another one than that of the message before.
    """
    parts: list[bytes] = []
    before: str | None = None
    bare = asking = groups = ""
    for to, reply, block, body, subject in messages:
        if to != before:
            queues, before = queues_of(to), to
            bare, asking = (f"{to} |", f"{to} + ") if queues else (to, f"{to} ")
            groups = f" {' '.join(queues)}" if queues else ""
        if subject:
            where = f"{asking}{reply}@{subject}{groups}"
        else:
            where = f"{asking}{reply}{groups}" if reply else f"{bare}{groups}"
        size = len(block)
        if size:
            parts += (f"HMSG {where} {size} {size + len(body)}\r\n".encode(), block, body, b"\r\n")
        else:
            parts += (f"LMSG {where} {len(body)}\r\n".encode(), body, b"\r\n")
    return b"".join(parts)


class Interests:
    """Which subjects somebody listens to, as the server has told. It tells a queue group again when that
    grows or shrinks.
    """

    def __init__(self) -> None:
        self._queues: dict[str, set[str]] = {}
        """By subject or pattern: the queue groups that listen; the empty one is who is in none."""
        self._patterns: dict[str, tuple[str, ...]] = {}

    def add(self, subject: str, queue: str = "") -> None:
        self._queues.setdefault(subject, set()).add(queue)
        if "*" in subject or ">" in subject:
            self._patterns[subject] = tuple(subject.split("."))

    def remove(self, subject: str, queue: str = "") -> None:
        queues = self._queues.get(subject, set())
        queues.discard(queue)
        if not queues:
            self._queues.pop(subject, None)
            self._patterns.pop(subject, None)

    def __contains__(self, subject: str) -> bool:
        if subject in self._queues:
            return True
        tokens = subject.split(".")
        return any(tokens_match(pattern, tokens) for pattern in self._patterns.values())

    def queues(self, subject: str) -> list[str]:
        """The queue groups that listen to it."""
        tokens = subject.split(".")
        matching = [pattern for pattern, named in self._patterns.items() if tokens_match(named, tokens)]
        found: set[str] = set()
        return sorted(found.union(*(self._queues.get(one, set()) for one in (subject, *matching))) - {""})


class LeafLogin(NamedTuple):
    """How the door logs in; all empty = it does not."""

    user: str = ""
    password: str = ""
    token: str = ""


def parse_leaf_url(url: str) -> tuple[str, int, LeafLogin]:
    """Host, port and login of nats-leaf://[user:password@|token@]host[:port]. Raises LiftlogError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_LEAF_PORT
    except ValueError as error:
        raise LiftlogError(f"{url!r} is no address of a leaf node port: {error}") from None
    if parts.scheme != "nats-leaf" or not host or parts.path.strip("/"):
        text = "say nats-leaf://host:port, where nats-server has 'leafnodes { port: 7422 }'"
        raise LiftlogError(f"{url!r} is no address of a leaf node port: {text}")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    login = LeafLogin(user, password) if password else LeafLogin(token=user)
    return host, port, login


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close it. Over TLS that takes the server's farewell, which is waited for, and not for long."""
    writer.close()
    try:
        async with asyncio.timeout(CLOSE_S):
            await writer.wait_closed()
    except BROKEN:
        writer.transport.abort()


class Leaf:
    """One connection that is made again when it is lost. Use `run` in a task."""

    def __init__(self, url: str, name: str, login: NatsLogin = NO_LOGIN) -> None:
        """`name` is unique among the leaf nodes of a NATS. Without a URL there is never a connection. Raises
        LiftlogError.
        """
        self.url = url
        self._host, self._port, self._login = parse_leaf_url(url) if url else ("", 0, LeafLogin())
        self._name = name
        self._files = login
        self._writer: asyncio.StreamWriter | None = None
        self._interests = Interests()
        self._changed = asyncio.Event()
        self.ready = asyncio.Event()
        """Set while it is connected, and knows who listens."""

    async def run(self) -> None:
        """Until cancelled; without a URL there is nothing to do."""
        said = ""
        while self.url:
            try:
                await self._connected()
            except BROKEN as error:
                text = str(error) or "it closed the connection"
                if text != said:
                    where = f"{self._host}:{self._port}"
                    sentence = f"no leaf node connection to {where}: {text}"
                    say(logging.WARNING, "jetstream", sentence, leaf=where)
                said = text
            await asyncio.sleep(PAUSE_S)

    async def _connected(self) -> None:
        """From the connection's begin to its end."""
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(self._host, self._port, limit=LINE_MAX)
        try:
            async with asyncio.timeout(ANSWER_S):
                info = await reader.readuntil(b"\r\n")
                await self._greet(info, writer)
            self._interests = Interests()
            await self._listen(reader, writer)
        finally:
            self.ready.clear()
            self._writer = None
            self._tell()
            await _closed(writer)

    async def _greet(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        if not line.startswith(b"INFO "):
            raise LiftlogError("who answers is no nats-server")
        info = msgspec.json.decode(line[5:], type=dict)
        if info.get("tls_required"):
            await writer.start_tls(self._files.tls_context(), server_hostname=self._host)
        elif self._files.wants_tls:
            raise LiftlogError("it does not speak TLS, which a CA file or a certificate of ours asks for")
        hello: dict[str, object] = {"name": self._name, "server_id": self._name, "headers": True}
        hello |= {"version": "2.11.0", "protocol": 1}
        names = ("user", "pass", "auth_token")
        hello |= {name: said for name, said in zip(names, self._login, strict=True) if said}
        hello |= self._files.proof(str(info.get("nonce", "")))
        writer.write(b"CONNECT " + msgspec.json.encode(hello) + b"\r\nPING\r\n")

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            line = await reader.readuntil(b"\r\n")
            words = line.decode("utf-8", "replace").split()
            match words[0] if words else "":
                case "PING":
                    writer.write(b"PONG\r\n")
                case "PONG":
                    # It answers a PING that came behind CONNECT: what there was of interest was told before.
                    self._writer = writer
                    self.ready.set()
                    self._tell()
                case "LS+" if len(words) > 1:
                    self._interests.add(words[1], "".join(words[2:3]))
                    self._tell()
                case "LS-" if len(words) > 1:
                    self._interests.remove(words[1], "".join(words[2:3]))
                    self._tell()
                case "-ERR":
                    raise LiftlogError(line.decode("utf-8", "replace")[5:].strip())
                case "LMSG" | "HMSG":
                    # Nothing was subscribed to; what comes all the same is passed over.
                    await reader.readexactly(int(words[-1]) + 2)
                case _:
                    pass

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def hears(self, subject: str) -> bool:
        """Whether somebody listens to this subject now."""
        return self._writer is not None and subject in self._interests

    async def heard(self, subject: str) -> None:
        """Return once somebody listens."""
        while not self.hears(subject):
            await self._changed.wait()

    async def unheard(self, subject: str) -> None:
        """Return once nobody has listened for UNHEARD_S: of who has just begun to it may be told later than
        of what he asks for. A connection that is away says nothing of that.
        """
        while True:
            while self._writer is None or subject in self._interests:
                await self._changed.wait()
            try:
                async with asyncio.timeout(UNHEARD_S):
                    await self.heard(subject)
            except TimeoutError:
                if self._writer is not None:
                    return

    async def send(self, messages: Sequence[LeafMessage]) -> None:
        """Send them, in this order. Raises LeafAway."""
        writer = self._writer
        if writer is None or writer.is_closing():
            text = f"there is no leaf node connection to {self._host}:{self._port}"
            raise LeafAway(text if self.url else NO_LEAF)
        writer.write(encode_messages(messages, self._interests.queues))
        if writer.transport.get_write_buffer_size() > UNSENT_MAX:
            try:
                await writer.drain()
            except OSError as error:
                raise LeafAway(str(error)) from None
