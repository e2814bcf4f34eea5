"""What is around JetStream's door in a simulated world: NATS on one side, the nodes on the other.

The door itself is the one that users run (`liftlog/jetstream/`). Here it has a connection to a simulated
NATS, that carries requests to one door of a queue group and what doors send to who listens; a leaf node
connection, by which messages come under their own subjects; and a client, which asks nodes as
`liftlog.client` does. Clients and doors sit at the server, as publishers do: what they send takes a moment,
and is lost with a door that dies.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, cast

import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from liftlog.client.client import Client
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.reader import RETRY_PAUSE_S, Reader
from liftlog.client.subjects import AsksSubjects
from liftlog.jetstream.door import Door, DoorPlace
from liftlog.jetstream.leaf import Leaf, LeafMessage
from liftlog.messages import (
    ClientMessage,
    ClientReply,
    ClusterStatusReply,
    ClusterStatusRequest,
    ErrorReply,
    StreamInfo,
    StreamInfoReply,
    StreamInfoRequest,
)
from liftlog.mutants import Mutants
from liftlog.subjects.grammar import matches
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.doorloop import SimLoop

logging.getLogger("liftlog").addHandler(logging.NullHandler())
"""What doors say of requests that fail is no news here."""

LATENCY_US = MILLISECOND
"""For so long at most something is under way between a client and a door."""
TIMEOUT_MS = 4000
UNHEARD_LOOK_S = 0.5


class DoorMessage(NamedTuple):
    """What comes to who listens. `block`: its headers, with their first line."""

    subject: str
    reply: str = ""
    block: bytes = b""
    body: bytes = b""

    @property
    def status(self) -> int:
        """Of what is no message; 0: it is one."""
        words = self.block.partition(b"\r\n")[0].split()
        return int(words[1]) if len(words) > 1 else 0

    def header(self, name: str) -> str:
        for line in self.block.decode().split("\r\n"):
            if line.lower().startswith(f"{name.lower()}: "):
                return line.partition(": ")[2]
        return ""


Listen = Callable[[DoorMessage], None]
Came = Callable[[Msg], Awaitable[None]]
Judge = Callable[[ClientMessage], Callable[[object], None]]
"""Is told what a door asks of a leader, and gives who is told the answer."""


class DoorWays:
    """The simulated NATS, as far as clients and doors use it to talk to each other."""

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._kernel = shared.cluster.kernel
        self._sent = 0
        self._inboxes = 0
        self._listening: dict[str, Listen] = {}
        self._doors: list[tuple[DoorProcess, str, Came]] = []

    def listen(self, on_message: Listen) -> str:
        """An inbox, until it is left."""
        self._inboxes += 1
        inbox = f"_INBOX.door.{self._inboxes}"
        self._listening[inbox] = on_message
        return inbox

    def leave(self, inbox: str) -> None:
        self._listening.pop(inbox, None)

    def hears(self, inbox: str) -> bool:
        return inbox in self._listening

    def serve(self, door: DoorProcess, pattern: str, came: Came) -> None:
        """A door listens, in the queue group of all of them."""
        self._doors.append((door, pattern, came))

    def gone(self, door: DoorProcess) -> None:
        self._doors = [one for one in self._doors if one[0] is not door]

    def ask(self, subject: str, payload: bytes = b"", reply: str = "") -> bool:
        """A client publishes. False: there is no door."""
        fit = [one for one in self._doors if matches(one[1], subject)]
        if not fit:
            return False
        draws, after_us = self._next()
        door, _, came = fit[draws % len(fit)]
        message = Msg(cast(NatsConnection, None), subject, reply, payload)
        self._kernel.after(after_us, door.take, came, message)
        return True

    def carry(self, to: str, message: DoorMessage) -> None:
        """A door sends something to a client."""
        self._kernel.after(self._next()[1], self._delivered, to, message)

    def _delivered(self, to: str, message: DoorMessage) -> None:
        listen = self._listening.get(to)
        if listen is not None:
            listen(message)

    def _next(self) -> tuple[int, int]:
        """A number, and how long the next message is under way."""
        self._sent += 1
        draws = self._shared.cluster.chances.draws("doorway", self._sent)
        return draws.randrange(1 << 16), 1 + draws.randrange(LATENCY_US)


class DoorNats:
    """A door's connection, with what it uses of nats-py's."""

    is_closed = False
    is_connected = True

    def __init__(self, ways: DoorWays, door: DoorProcess) -> None:
        self._ways = ways
        self._door = door

    async def subscribe(self, subject: str, queue: str = "", cb: Came | None = None) -> None:
        assert cb is not None
        self._ways.serve(self._door, subject, cb)

    async def request(self, subject: str, payload: bytes = b"", timeout: float = 0.5) -> Msg:
        """Nobody else answers for this cluster's domain."""
        raise nats.errors.NoRespondersError

    async def publish(self, subject: str, payload: bytes = b"", headers: object = None) -> None:
        self._send(DoorMessage(subject, body=payload))

    async def flush(self) -> None:
        """What is written is sent."""

    async def _send_command(self, command: bytes) -> None:
        """PUB and HPUB, as `publish_block` writes them."""
        line, _, rest = command.partition(b"\r\n")
        words = line.decode().split()
        size = int(words[-2]) if words[0] == "HPUB" else 0
        rest = rest.removesuffix(b"\r\n")
        self._send(DoorMessage(words[1], block=rest[:size], body=rest[size:]))

    def _send(self, message: DoorMessage) -> None:
        if not self._door.dead:
            self._ways.carry(message.subject, message)

    async def _flush_pending(self) -> None:
        """What is written is sent."""


class DoorLeaf(Leaf):
    """Its leaf node connection, which is always there."""

    def __init__(self, ways: DoorWays, door: DoorProcess) -> None:
        super().__init__("", "door")
        self.url = "nats-leaf://simulated"
        self._ways = ways
        self._door = door
        self.ready.set()

    async def run(self) -> None:
        """There is nothing to connect."""

    def hears(self, subject: str) -> bool:
        return self._ways.hears(subject)

    async def unheard(self, subject: str) -> None:
        while self._ways.hears(subject):
            await asyncio.sleep(UNHEARD_LOOK_S)

    async def send(self, messages: Sequence[LeafMessage]) -> None:
        for one in () if self._door.dead else messages:
            found = DoorMessage(one.subject or one.to, one.reply, one.block, one.body)
            self._ways.carry(one.to, found)


class DoorClient(AsksSubjects):
    """What the door asks nodes with."""

    cluster = "sim"

    def __init__(self, shared: Clientele, ways: DoorWays, door: DoorProcess) -> None:
        self._shared = shared
        self.nats = DoorNats(ways, door)
        self._door = door
        self._asked = 0

    async def call(self, node: int, address: str, request: ClientMessage, timeout_s: float) -> ClientReply:
        """Ask a node. Raises Unreachable, RequestFailed."""
        if self._door.dead:
            await asyncio.get_running_loop().create_future()
        self._asked += 1
        heard: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        judge = self._door.judge(request)

        def answered(reply: object) -> None:
            judge(reply)
            if not heard.done():
                heard.set_result(reply)

        name = f"{self._door.name}/{self._asked}"
        self._shared.hub.request(name, node, request, answered, int(timeout_s * SECOND))
        reply = await heard
        if reply is None:
            raise Unreachable(f"node {node} does not answer")
        if isinstance(reply, ErrorReply):
            raise RequestFailed(reply.code, reply.description, reply.retryable, reply.leader)
        return cast(ClientReply, reply)

    async def addresses(self, refresh: bool = False, timeout_ms: int = 0) -> dict[int, str]:
        return {node: f"node-{node}" for node in range(1, self._shared.cluster.knobs.nodes + 1)}

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        reply = await self._insist(StreamInfoRequest(name))
        assert isinstance(reply, StreamInfoReply)
        return reply.streams[0]

    async def known_streams(self, node: int = 0, timeout_ms: int = 0) -> list[StreamInfo]:
        """There are no push consumers."""
        return []

    async def status(self, node: int = 0, timeout_ms: int = 0) -> ClusterStatusReply:
        reply = await self._insist(ClusterStatusRequest())
        assert isinstance(reply, ClusterStatusReply)
        return reply

    async def _insist(self, request: ClientMessage) -> ClientReply:
        """Of one node after the other."""
        deadline = asyncio.get_running_loop().time() + TIMEOUT_MS / 1000
        while True:
            node = 1 + self._asked % self._shared.cluster.knobs.nodes
            try:
                return await self.call(node, "", request, 1.0)
            except (RequestFailed, Unreachable) as error:
                final = isinstance(error, RequestFailed) and not error.retryable
                if final or asyncio.get_running_loop().time() + RETRY_PAUSE_S > deadline:
                    raise
            await asyncio.sleep(RETRY_PAUSE_S)

    def reader(
        self, stream: StreamInfo, partition: int, *, node: int = 0, spread: bool = False, timeout_ms: int = 0
    ) -> Reader:
        return Reader(self, stream, partition, node, timeout_ms or TIMEOUT_MS)


class DoorProcess:
    """One run of a door. It is over when it has died."""

    def __init__(
        self, shared: Clientele, ways: DoorWays, name: str, judge: Judge, mutants: Mutants
    ) -> None:
        self.name = name
        self.judge = judge
        self._ways = ways
        self.dead = False
        self._loop = SimLoop(shared.cluster.kernel)
        client = cast(Client, DoorClient(shared, ways, self))
        self._door = Door(client, DoorPlace(), mutants)
        self._door.leaf = DoorLeaf(ways, self)
        self._loop.start(self._door.open())

    def take(self, came: Came, message: Msg) -> None:
        """Something comes over NATS."""

        async def taken() -> None:
            await came(message)

        if not self.dead:
            self._loop.start(taken())

    def die(self) -> None:
        """With all that it has under way."""
        self.dead = True
        self._ways.gone(self)
        self._loop.die()
