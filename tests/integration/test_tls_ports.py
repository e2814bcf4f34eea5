"""TLS at a node's ports, and what goes wrong at them: it ends soon, with a line that names the remedy."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from liftlog.api.clients import ClientRegistry
from liftlog.api.handshake import CLIENT, PEER, REFUSED_PLAIN, HandshakeError
from liftlog.config import MIB, NetworkLimits
from liftlog.messages import (
    ClientRequest,
    ClusterStatusRequest,
    DoneReply,
    Event,
    Heartbeat,
    PeerBack,
    Received,
)
from liftlog.real.certificates import Certificates
from liftlog.real.door import TLS_COST_BYTES
from liftlog.real.incoming import receive_message
from liftlog.real.tlsstream import PIECE_BYTES, TcpStream, TlsBroken, TlsStream
from liftlog.tls.files import TlsFiles
from liftlog.tls.settings import NodeTls
from liftlog.tls.words import why_not
from tests.integration.nats_keys import Authority
from tests.integration.wires import Known, TcpPorts, addresses, call, close_all, eventually, open_raw

pytestmark = [pytest.mark.real, pytest.mark.trio]

HOST = "127.0.0.1"
HEARTBEAT = Heartbeat(incarnation=1, sequence=1, applied=0)


class Ca:
    """Certificates of one CA, by name."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder)
        self.file = self._authority.ca_file

    def files(self, name: str = "node", **how: object) -> TlsFiles:
        return TlsFiles(self.file, *self._authority.issue(name, **how))  # type: ignore[arg-type]

    def certificates(self, name: str = "node", **settings: object) -> Certificates:
        files = self.files(name)
        assert files.cert_file is not None and files.key_file is not None
        tls = NodeTls(files.ca_file, files.cert_file, files.key_file, **settings)  # type: ignore[arg-type]
        return Certificates(tls, HOST, HOST)


@pytest.fixture
def ca(tmp_path: Path) -> Ca:
    return Ca(tmp_path / "ca")


class Node:
    """Both ports of a node, what came in, and its counters."""

    def __init__(
        self,
        certificates: Certificates | None,
        node: int = 1,
        peers: dict[int, str] | None = None,
        limits: NetworkLimits | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.ports = TcpPorts(
            node,
            peers or addresses(1, 2, 3),
            self.events.append,
            ClientRegistry(),
            limits=limits,
            certificates=certificates,
        )

    def count(self, name: str) -> int:
        return self.ports.network.counters[name]

    def asked(self) -> list[ClientRequest]:
        return [event for event in self.events if isinstance(event, ClientRequest)]

    async def ask(self, client: Known, count: int = 1) -> None:
        """Requests that reach the node, and are answered."""
        before = len(self.asked())
        for number in range(count):
            await client.send((number, ClusterStatusRequest()))
        await eventually(lambda: len(self.asked()) == before + count, f"{count} requests")
        for event in self.asked()[before:]:
            self.ports.answer(event.client, DoneReply("here"))
        assert [answer.reply for answer in await client.answers(count)] == [DoneReply("here")] * count


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        for node in nodes:
            await nursery.start(node.ports.run)
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()
            close_all()


async def hung_up(stream: TcpStream) -> None:
    """The node closes the connection; what it says before does not count."""
    with trio.fail_after(15):
        try:
            while await stream.receive_some(4096):
                pass
        except (trio.BrokenResourceError, HandshakeError):
            pass


# -- who is let in -----------------------------------------------------------------------------------------


async def test_both_ports_speak_tls_and_plain_callers_are_told(
    ca: Ca, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(ca.certificates())
    async with running(node):
        client = await call(node.ports.client_address, tls=TlsFiles(ca.file))
        await node.ask(client, 20)
        peer = await call(node.ports.peer_address, PEER, node=2, tls=ca.files("other"))
        await peer.send(HEARTBEAT)
        await eventually(lambda: Received(2, HEARTBEAT) in node.events, "the message")
        for address, role in ((node.ports.client_address, CLIENT), (node.ports.peer_address, PEER)):
            with pytest.raises(
                HandshakeError, match="connections with TLS only; nodes need a table"
            ) as caught:
                await call(address, role, node=2 if role == PEER else 0)
            assert caught.value.code == REFUSED_PLAIN
        assert node.count("network.refused") == 2
        assert node.count("tls.plain_peers") == node.count("tls.plain_clients") == 0
    assert 'it speaks no TLS, and [tls] peers = "require" here' in caplog.text
    assert 'it speaks no TLS, and [tls] clients = "require" here' in caplog.text


async def test_a_port_that_accepts_both_counts_who_speaks_plain(ca: Ca) -> None:
    node = Node(ca.certificates(peers="accept", clients="accept"))
    async with running(node):
        for tls in (TlsFiles(ca.file), None):
            await call(node.ports.client_address, tls=tls)
        await call(node.ports.peer_address, PEER, node=2)
        await call(node.ports.peer_address, PEER, node=3, tls=ca.files("other"))
        await eventually(lambda: node.count("network.peers") == 2, "both nodes")
        assert (node.count("tls.plain_peers"), node.count("tls.plain_clients")) == (1, 1)


async def test_tls_at_a_port_without_is_hung_up_on_at_once(ca: Ca, caplog: pytest.LogCaptureFixture) -> None:
    """Also where the other port has it."""
    for certificates in (None, ca.certificates(clients="off")):
        node = Node(certificates)
        async with running(node):
            with trio.fail_after(3), pytest.raises((trio.BrokenResourceError, OSError)):
                await call(node.ports.client_address, tls=TlsFiles(ca.file))
        assert "it speaks TLS, which the port for clients does not: see [tls] here" in caplog.text


async def test_a_client_without_the_certificate_that_is_wanted_is_told(ca: Ca, tmp_path: Path) -> None:
    other = Ca(tmp_path / "other")
    node = Node(ca.certificates(client_ca_file=ca.file))
    async with running(node):
        await node.ask(await call(node.ports.client_address, tls=ca.files("client")))
        for files, said in (
            (TlsFiles(ca.file), "it wants a certificate of us; name one with --tls-cert"),
            (TlsFiles(ca.file, *other.files("x").pair), "it does not believe our certificate"),
            (ca.files("y", begins_days=-3, days=-1), "that has expired; make a new one"),
        ):
            with pytest.raises(TlsBroken) as caught:
                await call(node.ports.client_address, tls=files)
            assert said in why_not(caught.value.error, files, str(ca.file))
        assert node.count("network.refused") == 3


@pytest.mark.parametrize("fault", ["other ca", "expired", "no certificate"])
async def test_a_peer_whose_certificate_is_not_believed_is_named(
    ca: Ca, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    node = Node(ca.certificates())
    files, said = {
        "other ca": (Ca(tmp_path / "other").files("x"), f"its certificate is of no CA in {ca.file}"),
        "expired": (ca.files("x", begins_days=-3, days=-1), "its certificate has expired"),
        "no certificate": (TlsFiles(ca.file), "it shows no certificate, and must show one of a CA"),
    }[fault]
    async with running(node):
        with pytest.raises(TlsBroken):
            await call(node.ports.peer_address, PEER, node=2, tls=TlsFiles(ca.file, *files.pair))
        await eventually(lambda: node.count("network.refused") == 1, "a refusal")
    assert said in caplog.text and f"refused a connection from {HOST}:" in caplog.text


async def test_v6_the_secret_is_asked_for_over_tls_too_and_bound_to_the_certificate(ca: Ca) -> None:
    node = Node(ca.certificates())
    async with running(node):
        with pytest.raises(HandshakeError, match="the secret or the name of the cluster"):
            await call(node.ports.client_address, tls=TlsFiles(ca.file), secrets=(b"x" * 32,))
        # Who stands in the middle with another certificate that is believed, and passes on what is said.
        for bound in (b"", bytes(32)):
            with pytest.raises(HandshakeError, match="the secret or the name of the cluster"):
                await call(node.ports.client_address, tls=TlsFiles(ca.file), binding=bound)
        plain = Node(None)
        async with running(plain):
            with pytest.raises(HandshakeError, match="the secret or the name of the cluster"):
                await call(plain.ports.client_address, binding=bytes(32))


# -- nodes among themselves --------------------------------------------------------------------------------


@pytest.mark.parametrize("second", ["require", "accept", "off", None])
async def test_nodes_that_accept_both_reach_all_others(ca: Ca, second: str | None) -> None:
    """`None`: one of an earlier release, or without a certificate."""
    peers = addresses(1, 2)
    nodes = [
        Node(ca.certificates("one", peers="accept"), 1, peers),
        Node(None if second is None else ca.certificates("two", peers=second), 2, peers),
    ]
    async with running(*nodes):
        # Who called may send when it has heard that it was let in, which is after the other counts it.
        for name in ("network.peers", "network.connects"):
            await eventually(lambda: all(node.count(name) == 1 for node in nodes), "connections")  # noqa: B023
        for node, other in ((nodes[0], 2), (nodes[1], 1)):
            node.ports.network.send(other, HEARTBEAT)
            node.ports.network.flush()
        await eventually(lambda: Received(1, HEARTBEAT) in nodes[1].events, "a message of the first")
        await eventually(lambda: Received(2, HEARTBEAT) in nodes[0].events, "a message of the second")
        assert nodes[0].count("tls.plain_peers") == (second in ("off", None))


async def test_nodes_of_different_cas_say_why_they_do_not_connect(
    ca: Ca, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    peers = addresses(1, 2)
    other = Ca(tmp_path / "other")
    nodes = [Node(ca.certificates("one"), 1, peers), Node(other.certificates("two"), 2, peers)]
    async with running(*nodes):
        for name in ("network.refused_by_peers", "network.refused"):
            await eventually(lambda: min(node.count(name) for node in nodes) > 0, "refusals")  # noqa: B023
    for called, trusted in ((2, ca.file), (1, other.file)):
        where = f"no connection to node {called} at {peers[called]}"
        assert f"{where}: its certificate is of no CA in {trusted}" in caplog.text
    assert "compare [tls] of both nodes" in caplog.text
    assert "it does not believe our certificate" in caplog.text
    assert not any(isinstance(event, PeerBack) for node in nodes for event in node.events)


async def test_a_node_that_wants_tls_says_that_the_other_speaks_none(
    ca: Ca, caplog: pytest.LogCaptureFixture
) -> None:
    peers = addresses(1, 2)
    nodes = [Node(ca.certificates(), 1, peers), Node(None, 2, peers)]
    async with running(*nodes):
        await eventually(
            lambda: all(node.count("network.refused_by_peers") > 0 for node in nodes), "refusals"
        )
    assert "it hung up when TLS began: it speaks none there, or stops; compare [tls]" in caplog.text
    assert "it takes connections with TLS only; nodes need a table [tls]" in caplog.text


# -- strangers, and much at once ---------------------------------------------------------------------------


async def test_the_handshake_s_time_covers_that_of_tls(ca: Ca, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(ca.certificates(), limits=NetworkLimits(handshake_ms=300))
    hello = ssl.MemoryBIO()
    caller = TlsFiles(ca.file).calling().wrap_bio(ssl.MemoryBIO(), hello, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        caller.do_handshake()
    beginning = hello.read()
    async with running(node):
        for address in (node.ports.client_address, node.ports.peer_address):
            for said in (b"", beginning[:1], beginning[:50], beginning):
                stream = await open_raw(address)
                await stream.send_all(said) if said else None
                await hung_up(stream)
        await eventually(lambda: node.count("network.refused") == 8, "refusals")
        assert node.count("network.memory_peak_bytes") == 0
    assert "no handshake within 300 ms" in caplog.text


@pytest.mark.parametrize(
    "said",
    [
        b"\x16" * 5000,
        b"\x16\x03\x01\xff\xff" + bytes(70_000),
        b"\x16\x03\x01\x00\x05\x01\x00\xff\xff\xff" + bytes(200_000),
        b"\x16\x03\x03\x00\x02\x01\x00",
    ],
    ids=["many", "huge record", "huge message", "cut off"],
)
async def test_what_only_begins_like_tls_is_hung_up_on(ca: Ca, said: bytes) -> None:
    node = Node(ca.certificates(), limits=NetworkLimits(handshake_ms=500))
    async with running(node):
        for address in (node.ports.client_address, node.ports.peer_address):
            stream = await open_raw(address)
            with suppress(trio.BrokenResourceError):
                await stream.send_all(said)
            await hung_up(stream)
        await eventually(lambda: node.count("network.refused") == 2, "refusals")
        await call(node.ports.client_address, tls=TlsFiles(ca.file))


async def test_what_is_changed_on_the_way_ends_the_connection(ca: Ca) -> None:
    node = Node(ca.certificates())
    async with running(node):
        client = await call(node.ports.client_address, tls=TlsFiles(ca.file))
        await node.ask(client)
        os.write(client.stream.socket.fileno(), b"\x17\x03\x03" + struct.pack(">H", 40) + bytes(40))
        await hung_up(client.stream)
        await eventually(lambda: node.count("network.clients") == 0, "nobody")
        assert node.count("network.memory_bytes") == 0


async def test_v7_a_client_that_does_not_read_over_tls_is_within_the_same_bounds(ca: Ca) -> None:
    limits = NetworkLimits(connection_bytes=8 * MIB, clients_bytes=32 * MIB)
    node = Node(ca.certificates(), limits=limits)
    async with running(node):
        client = await call(node.ports.client_address, tls=TlsFiles(ca.file))
        text = "x" * MIB
        for number in range(30):
            await client.send((number, ClusterStatusRequest()))
        await eventually(lambda: len(node.asked()) == 30, "requests")
        for event in node.asked():
            node.ports.answer(event.client, DoneReply(text))
        assert 6 * MIB < node.count("network.memory_bytes") <= 8 * MIB + TLS_COST_BYTES
        assert [answer.reply for answer in await client.answers(7)] == [DoneReply(text)] * 7
        await client.close()
        await eventually(lambda: node.count("network.memory_bytes") == 0, "nothing is occupied")


async def test_who_falls_silent_over_tls_is_hung_up_on_and_who_is_half_open_is_replaced(
    ca: Ca, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Node(ca.certificates())
    async with running(before):
        older = await call(before.ports.peer_address, PEER, node=2, tls=ca.files("other"))
        await call(before.ports.peer_address, PEER, node=2, tls=ca.files("other"))
        await hung_up(older.stream)
        assert before.count("network.peers") == 1
    monkeypatch.setattr("liftlog.real.network.SWEEP_S", 0.01)
    node = Node(ca.certificates(), limits=NetworkLimits(client_idle_ms=2000))
    async with running(node):
        idle = await call(node.ports.client_address, tls=TlsFiles(ca.file))
        silent = await call(node.ports.peer_address, PEER, node=2, tls=ca.files("other"))
        await hung_up(idle.stream)
        await hung_up(silent.stream)
        assert node.count("network.cut") == 2


# -- the stream itself -------------------------------------------------------------------------------------


@asynccontextmanager
async def two_ends(ca: Ca, small: bool = False) -> AsyncIterator[tuple[TlsStream, TlsStream]]:
    """A caller and an answerer, connected; `small`: over sockets that take in little at once."""
    first, second = socket.socketpair()
    for each in (first, second):
        each.setblocking(False)
        if small:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(one)) for one in (first, second)]
    files = ca.files()
    one = TlsStream(streams[0], files.calling(), server_side=False, host=HOST)
    other = TlsStream(streams[1], files.answering(files.ca_file, "ca"), server_side=True)
    async with streams[0], streams[1]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.shake_hands)
            nursery.start_soon(other.shake_hands)
        yield one, other


async def received(stream: TlsStream, count: int) -> bytes:
    found = b""
    with trio.fail_after(15):
        while len(found) < count:
            data = await stream.receive()
            assert data
            found += data
    assert len(found) == count
    return found


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("size", [1, 16_384, 16_385, PIECE_BYTES, PIECE_BYTES + 1, 1_000_000])
async def test_all_bytes_arrive_in_their_order_however_they_were_sent(ca: Ca, small: bool, size: int) -> None:
    text = os.urandom(size)
    async with two_ends(ca, small) as (one, other), trio.open_nursery() as nursery:
        for _ in range(3):
            # As the queues do: at once as far as there is room, and the rest by a task that waits.
            sent = one.send(text)
            nursery.start_soon(one.send_all, text[sent:])
            assert await received(other, size) == text
        nursery.start_soon(other.send_all, text)
        assert await received(one, size) == text


async def test_what_the_kernel_has_no_room_for_is_not_sent_twice_and_the_rest_may_be_joined(ca: Ca) -> None:
    async with two_ends(ca) as (one, other), trio.open_nursery() as nursery:
        text = os.urandom(3_000_000)
        sent = one.send(text)
        assert 0 < sent < len(text)
        assert one.send(text[sent:]) == 0, "there is no room"
        nursery.start_soon(one.send_all, text[sent:] + b"and more")
        assert await received(other, len(text) + 8) == text + b"and more"


async def test_receive_some_gives_no_more_than_is_asked_for_and_then_the_end(ca: Ca) -> None:
    async with two_ends(ca) as (one, other):
        await one.send_all(struct.pack(">I", 5) + b"hello" + bytes(40_000))
        assert await receive_message(other) == b"hello"
        assert len(await other.receive_some(20_000)) <= 20_000
        one.socket.shutdown(socket.SHUT_WR)
        while await other.receive():
            pass
        assert await other.receive() == b""


async def test_a_broken_connection_takes_no_bytes_and_says_so_to_who_waits(ca: Ca) -> None:
    async with two_ends(ca) as (one, other):
        other.socket.close()
        with pytest.raises((OSError, trio.BrokenResourceError)):
            for _ in range(100):
                await one.send_all(bytes(PIECE_BYTES))
        assert one.send(b"x") == 0
