"""The real ports one by one: TCP between two nodes, the bus against a real nats-server."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import trio

from liftlog.api import wire
from liftlog.api.clients import ClientRegistry
from liftlog.config import Secrets
from liftlog.messages import (
    AckPublishes,
    BusDown,
    BusUp,
    ClientGone,
    ClientRequest,
    ClusterStatusRequest,
    DoneReply,
    Drained,
    ErrorReply,
    Event,
    Heartbeat,
    Published,
    ReadRequest,
    Received,
    Subscribe,
    Subscribed,
)
from liftlog.real.bus import NatsBus
from liftlog.real.clock import RealClock
from liftlog.real.nats_parser import NatsParser
from liftlog.real.nats_server import NatsServer, free_port, give_back
from liftlog.real.nats_wire import parse_url
from liftlog.real.network import listen
from liftlog.types import LiftlogError, PartitionId
from tests.integration.wires import SECRETS, TcpPorts, addresses, call, eventually

pytestmark = [pytest.mark.real, pytest.mark.trio]

PARTITION = PartitionId(5, 0)


class Sink:
    """Collects events; waits for one that fits."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._moved = trio.Event()

    def take(self, event: Event) -> None:
        self.events.append(event)
        self._moved.set()

    async def wait_for(self, kind: type[Event], count: int = 1) -> list[Event]:
        """The events of this kind, once there are so many."""
        with trio.fail_after(15):
            while True:
                found = [event for event in self.events if type(event) is kind]
                if len(found) >= count:
                    return found
                self._moved = trio.Event()
                await self._moved.wait()


# -- TCP ---------------------------------------------------------------------------------------------------


class TcpNode:
    """A network with its sink and registry."""

    def __init__(self, node: int, peers: dict[int, str], secrets: Secrets = SECRETS) -> None:
        self.sink = Sink()
        self.clients = ClientRegistry()
        self.ports = TcpPorts(node, peers, self.sink.take, self.clients, secrets=secrets)
        self.network = self.ports.network
        self.run = self.ports.run


def heartbeat(sequence: int) -> Heartbeat:
    return Heartbeat(incarnation=1, sequence=sequence, applied=0)


async def test_messages_arrive_in_order_with_their_sender_and_survive_a_restart_of_the_peer() -> None:
    peers = addresses(1, 2)
    first, second = TcpNode(1, peers), TcpNode(2, peers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.run)
        async with trio.open_nursery() as short:
            short.start_soon(second.run)
            await eventually(lambda: first.network.counters["network.connects"] > 0, "a connection")
            for sequence in range(100):
                first.network.send(2, heartbeat(sequence))
                first.network.flush()
            received = await second.sink.wait_for(Received, 100)
            assert received == [Received(1, heartbeat(sequence)) for sequence in range(100)]
            short.cancel_scope.cancel()
        again = TcpNode(2, peers)
        nursery.start_soon(again.run)
        with trio.fail_after(15):
            while not again.sink.events:
                first.network.send(2, heartbeat(7))
                first.network.flush()
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()


async def test_messages_to_a_peer_that_is_away_are_dropped_and_counted() -> None:
    first = TcpNode(1, addresses(1, 2))
    first.network.send(2, heartbeat(1))
    first.network.flush()
    first.network.send(9, heartbeat(2))
    first.network.flush()
    assert first.network.counters["network.dropped"] == 2


async def test_a_client_s_call_is_answered_by_number_and_its_leaving_is_told() -> None:
    first = TcpNode(1, addresses(1, 2))
    async with trio.open_nursery() as nursery:
        await nursery.start(first.run)
        client = await call(first.ports.client_address)
        for number in (11, 12):
            await client.send((number, ClusterStatusRequest()))
        requests = await first.sink.wait_for(ClientRequest, 2)
        second = requests[1]
        assert isinstance(second, ClientRequest)
        first.ports.answer(second.client, DoneReply("yes"))
        assert await client.answers(1) == [wire.ClientAnswer(12, DoneReply("yes"))]
        await client.close()
        (gone,) = await first.sink.wait_for(ClientGone)
        waiting = requests[0]
        assert isinstance(gone, ClientGone)
        assert isinstance(waiting, ClientRequest)
        assert gone.client == waiting.client
        nursery.cancel_scope.cancel()


async def test_a_client_s_read_beyond_the_limits_is_refused_at_the_door() -> None:
    first = TcpNode(1, addresses(1, 2))
    async with trio.open_nursery() as nursery:
        await nursery.start(first.run)
        client = await call(first.ports.client_address)
        await client.send((5, ReadRequest(PARTITION, 0, max_bytes=1 << 40)))
        (answer,) = await client.answers(1)
        assert answer.number == 5
        assert isinstance(answer.reply, ErrorReply)
        assert "max_bytes" in answer.reply.description
        await client.close()
        nursery.cancel_scope.cancel()
    assert not any(isinstance(event, ClientRequest) for event in first.sink.events)


async def test_a_taken_port_is_named() -> None:
    address = f"127.0.0.1:{free_port()}"
    holder = await listen(address)
    with pytest.raises(LiftlogError, match=address):
        await listen(address)
    for listener in holder:
        await listener.aclose()


# -- NATS --------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path)
    server.start()
    yield server
    server.stop()


class Publisher:
    """A bare NATS connection that publishes and listens, without any library."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._parser = NatsParser()

    @classmethod
    async def open(cls, server: NatsServer) -> Publisher:
        stream = await trio.open_tcp_stream(server.host, server.port)
        await stream.send_all(
            b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB _IN.> 1\r\nPING\r\n'
        )
        publisher = cls(stream)
        with trio.fail_after(10):
            while b"PONG" not in publisher._parser.feed(bytes(await stream.receive_some(65536))).controls:
                pass
        return publisher

    async def close(self) -> None:
        await self._stream.aclose()

    async def publish(self, lines: bytes) -> None:
        await self._stream.send_all(lines)

    async def answers(self, count: int) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        with trio.fail_after(10):
            while len(found) < count:
                parsed = self._parser.feed(bytes(await self._stream.receive_some(65536)))
                for group in parsed.groups.values():
                    found += [json.loads(message.value) for message in group]
        return found


def make_bus(url: str, sink: Sink) -> NatsBus:
    return NatsBus(parse_url(url), "test", "0", sink.take, RealClock())


async def test_a_subscription_is_confirmed_then_one_read_is_one_event_and_acks_go_back(
    server: NatsServer,
) -> None:
    sink = Sink()
    bus = make_bus(server.url, sink)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.run)
        await sink.wait_for(BusUp)
        bus.subscribe(Subscribe(PARTITION, 3, "s.*", 10, True))
        assert await sink.wait_for(Subscribed) == [Subscribed(PARTITION, 3)]
        publisher = await Publisher.open(server)
        lines = b"".join(b"PUB s.x _IN.%d 5\r\nhello\r\n" % number for number in range(100))
        await publisher.publish(lines + b"PUB s.x _IN.big 11\r\nhello world\r\n")
        with trio.fail_after(10):
            while sum(len(e.messages) for e in sink.events if isinstance(e, Published)) < 100:
                await trio.sleep(0.01)
        events = [event for event in sink.events if isinstance(event, Published)]
        assert len(events) < 10
        messages = [message for event in events for message in event.messages]
        assert {message.value for message in messages} == {b"hello"}
        (refused,) = await publisher.answers(1)
        assert refused["error"] == {
            "code": 400,
            "err_code": 10054,
            "description": "message exceeds the stream's limit of 10 bytes (headers and payload)",
        }
        bus.acknowledge(AckPublishes(PARTITION, "s", 3, 9, 0, [message.reply for message in messages]))
        bus.flush()
        answers = await publisher.answers(100)
        assert sorted(str(answer["seq"]) for answer in answers) == sorted(map(str, range(1, 101)))
        await publisher.close()
        nursery.cancel_scope.cancel()


async def test_after_unsubscribing_requesters_get_no_responders_and_the_core_nothing(
    server: NatsServer,
) -> None:
    sink = Sink()
    bus = make_bus(server.url, sink)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.run)
        await sink.wait_for(BusUp)
        bus.subscribe(Subscribe(PARTITION, 1, "s", 10, True))
        await sink.wait_for(Subscribed)
        bus.unsubscribe(PARTITION)
        bus.subscribe(Subscribe(PartitionId(6, 0), 1, "other", 10, True))
        await sink.wait_for(Subscribed, 2)
        publisher = await Publisher.open(server)
        await publisher.publish(b"PUB s _IN.1 1\r\nx\r\n")
        with trio.fail_after(10):
            parsed = publisher._parser.feed(bytes(await publisher._stream.receive_some(65536)))
        (message,) = parsed.groups[b"1"]
        assert message.headers.startswith(b"NATS/1.0 503")
        await publisher.close()
        assert not [event for event in sink.events if isinstance(event, Published)]
        nursery.cancel_scope.cancel()


async def test_a_drained_subscription_delivers_everything_before_it_says_so(server: NatsServer) -> None:
    """What NATS had sent when it read the UNSUB comes first; whoever publishes later is told of nobody."""
    sink = Sink()
    bus = make_bus(server.url, sink)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.run)
        await sink.wait_for(BusUp)
        bus.subscribe(Subscribe(PARTITION, 1, "s", 10, True))
        # Before the confirmation has come: its PONG is not the one that ends the draining.
        publisher = await Publisher.open(server)
        await sink.wait_for(Subscribed)
        sent = 0
        for round_number in range(200):
            await publisher.publish(b"PUB s _IN.%d 1\r\nx\r\n" % round_number * 50)
            sent += 50
            if round_number == 20:
                bus.drain(PARTITION)
            if any(isinstance(event, Drained) for event in sink.events):
                break
        await sink.wait_for(Drained)
        kinds = [type(event) for event in sink.events]
        assert Published not in kinds[kinds.index(Drained) :]
        heard = sum(len(event.messages) for event in sink.events if isinstance(event, Published))
        refused = 0
        with trio.fail_after(10):
            while heard + refused < sent:
                parsed = publisher._parser.feed(bytes(await publisher._stream.receive_some(65536)))
                refused += len(parsed.groups.get(b"1", []))
        assert heard + refused == sent, "each message was either delivered or found nobody"
        assert [type(event) for event in sink.events].count(Drained) == 1
        await publisher.close()
        nursery.cancel_scope.cancel()


async def test_the_bus_reconnects_and_says_so(server: NatsServer) -> None:
    sink = Sink()
    bus = make_bus(server.url, sink)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.run)
        await sink.wait_for(BusUp)
        server.kill()
        await sink.wait_for(BusDown)
        server.start()
        await sink.wait_for(BusUp, 2)
        kinds = [type(event) for event in sink.events]
        assert kinds == [BusUp, BusDown, BusUp]
        nursery.cancel_scope.cancel()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return certificate, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command to make a certificate")
async def test_the_bus_speaks_tls_and_refuses_a_certificate_it_cannot_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = make_certificate(tmp_path)
    server = NatsServer(tmp_path, extra=("--tls", "--tlscert", str(certificate), "--tlskey", str(key)))
    server.start()
    try:
        async with trio.open_nursery() as nursery:
            stranger = make_bus(f"tls://localhost:{server.port}", Sink())
            nursery.start_soon(stranger.run)
            with trio.fail_after(10):
                while "CERTIFICATE_VERIFY_FAILED" not in stranger.last_error:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        sink = Sink()
        async with trio.open_nursery() as nursery:
            bus = make_bus(f"tls://localhost:{server.port}", sink)
            nursery.start_soon(bus.run)
            await sink.wait_for(BusUp)
            bus.subscribe(Subscribe(PARTITION, 1, "s", 10, True))
            assert await sink.wait_for(Subscribed) == [Subscribed(PARTITION, 1)]
            nursery.cancel_scope.cancel()
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("options", "login", "wrong"),
    [
        (("--user", "u", "--pass", "secret"), "u:secret@", "u:guess@"),
        (("--auth", "token1"), "token1@", "token2@"),
    ],
    ids=["password", "token"],
)
async def test_the_bus_logs_in_and_says_when_it_is_refused(
    tmp_path: Path, options: tuple[str, ...], login: str, wrong: str
) -> None:
    server = NatsServer(tmp_path, extra=options)
    server.start()
    try:
        sink = Sink()
        async with trio.open_nursery() as nursery:
            bus = make_bus(f"nats://{login}{server.host}:{server.port}", sink)
            nursery.start_soon(bus.run)
            await sink.wait_for(BusUp)
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            bus = make_bus(f"nats://{wrong}{server.host}:{server.port}", Sink())
            nursery.start_soon(bus.run)
            with trio.fail_after(10):
                while "Authorization" not in bus.last_error:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert not bus.connected
    finally:
        server.stop()


async def test_a_port_is_given_out_once_while_its_process_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests in two processes looked for ports while a node of the other one restarted."""
    taken = free_port()
    numbers = count(taken)
    monkeypatch.setattr("liftlog.real.nats_server._FIRST_PORT", 0)
    monkeypatch.setattr("liftlog.real.nats_server.secrets.randbelow", lambda _: next(numbers))
    with socket.socket() as server:
        server.bind(("127.0.0.1", taken))
    other = free_port()
    assert other > taken
    numbers = count(taken)
    give_back([taken, other])
    assert free_port() == taken
