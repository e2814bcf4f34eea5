"""The TCP ports of a node as a test sees them: who it is, a raw connection, frames and answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

import trio

from liftlog.api import wire
from liftlog.api.clients import ClientRegistry
from liftlog.api.handshake import CLIENT, CLIENT_NODE, NONCE_BYTES, PEER, Caller, Party, SecureSession
from liftlog.api.tags import FrameSealer
from liftlog.config import NetworkLimits, Secrets
from liftlog.messages import Event
from liftlog.real.certificates import Certificates
from liftlog.real.gate import Gate
from liftlog.real.incoming import introduce
from liftlog.real.nats_server import free_port
from liftlog.real.network import Take, TcpNetwork, listen
from liftlog.real.tlsstream import TcpStream, TlsStream
from liftlog.rights.book import shared_book
from liftlog.rights.needs import NamedStream
from liftlog.tls.files import TlsFiles, binding_of
from liftlog.types import ClientRef

CLUSTER = "c"
SECRETS = Secrets((b"p" * 32,), (b"c" * 32,))


def addresses(*nodes: int) -> dict[int, str]:
    return {node: f"127.0.0.1:{free_port()}" for node in nodes}


class NoStreams:
    """The metadata of a node that has heard nothing."""

    applied = 0
    by_id: Mapping[int, NamedStream] = MappingProxyType({})


class TcpPorts:
    """The network of a node with both its listeners."""

    def __init__(
        self,
        node: int,
        peers: dict[int, str],
        take: Take,
        clients: ClientRegistry,
        *,
        secrets: Secrets = SECRETS,
        gate: Gate | None = None,
        limits: NetworkLimits | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        self.node = node
        self.peer_address = peers[node]
        self.client_address = addresses(node)[node]

        self._clients = clients
        self.together: list[int] = []
        """How many requests of clients were taken in at once."""

        def take_all(events: list[Event]) -> None:
            self.together.append(len(events))
            for event in events:
                take(event)

        self.network = TcpNetwork(
            cluster=CLUSTER,
            node=node,
            peers=peers,
            take=take,
            take_all=take_all,
            clients=clients,
            secrets=secrets,
            gate=gate or Gate(shared_book(secrets.clients), NoStreams),
            limits=limits or NetworkLimits(),
            certificates=certificates,
        )

    def answer(self, client: ClientRef, reply: object) -> None:
        """As a node does in a wake-up that has nothing else to say."""
        self._clients.reply(client, reply)
        self.network.flush()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        peers_at, clients_at = await listen(self.peer_address), await listen(self.client_address)
        task_status.started()
        await self.network.run(peers_at, clients_at)


_opened: list[trio.SocketStream] = []


async def open_raw(address: str) -> trio.SocketStream:
    """A connection; `close_all` sees to it if nobody else does."""
    host, _, port = address.rpartition(":")
    stream = await trio.open_tcp_stream(host, int(port))
    _opened.append(stream)
    return stream


def close_all() -> None:
    """Close every connection that was opened here."""
    while _opened:
        _opened.pop().socket.close()


class Known:
    """Somebody who called and was let in."""

    def __init__(self, plain: trio.SocketStream, stream: TcpStream, session: SecureSession) -> None:
        self._plain = plain
        self.stream = stream
        """As it is spoken on: over TLS, or as it is."""
        self.session = session
        self._sealer = FrameSealer(session.caller_key)
        self._splitter = wire.FrameSplitter()

    async def send(self, *messages: object) -> None:
        await self.stream.send_all(b"".join(map(self._sealer.seal, messages)))

    async def close(self) -> None:
        await self._plain.aclose()

    async def answers(self, count: int) -> list[wire.ClientAnswer]:
        found: list[wire.ClientAnswer] = []
        with trio.fail_after(15):
            while len(found) < count:
                data = await self.stream.receive_some(1 << 20)
                assert data, "hung up"
                found += [wire.client_answer(frame) for frame in self._splitter.feed(data)]
        return found


async def call(
    address: str,
    role: int = CLIENT,
    *,
    node: int = CLIENT_NODE,
    to: int = 1,
    secrets: tuple[bytes, ...] | None = None,
    cluster: str = CLUSTER,
    tls: TlsFiles | None = None,
    binding: bytes | None = None,
) -> Known:
    """Connect and prove; by default as a client does. Raises HandshakeError, ssl.SSLError, TlsBroken.

    `tls`: over TLS with these files. `binding`: to which the handshake is bound, if it is another one.
    """
    known = SECRETS.peers if role == PEER else SECRETS.clients
    plain = await open_raw(address)
    me = Party(cluster, node, known if secrets is None else secrets)
    stream: TcpStream = plain
    bound = b""
    if tls is not None:
        secured = TlsStream(plain, tls.calling(), server_side=False, host=address.rpartition(":")[0])
        await secured.shake_hands()
        stream, bound = secured, binding_of(secured.shown)
    bound = bound if binding is None else binding
    session = await introduce(stream, Caller(me, role, to, os.urandom(NONCE_BYTES), binding=bound))
    return Known(plain, stream, session)


async def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until it holds."""
    with trio.move_on_after(15):
        while not condition():
            await trio.sleep(0.01)
        return
    raise AssertionError(f"not within 15 s: {what}")
