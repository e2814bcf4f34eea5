"""Attacks on running nodes by somebody without the secret: each is refused, and the node goes on.

Some are on the ports alone (`TcpPorts`), most on a cluster of three processes, which must not acknowledge,
delete or hand out anything because of them.
"""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from liftlog.api import wire
from liftlog.api.ackgroups import ACKS_A_REQUEST
from liftlog.api.clients import ClientRegistry
from liftlog.api.handshake import (
    CLIENT,
    FRAME_MAX_BYTES,
    NO_SECRET,
    NONCE_BYTES,
    PEER,
    REFUSED_DOOR,
    REFUSED_FULL,
    REFUSED_NODE,
    REFUSED_PROOF,
    Caller,
    HandshakeError,
    Party,
)
from liftlog.config import MIB, NetworkLimits, Secrets
from liftlog.messages import (
    ERR_OVERLOAD,
    ClientRequest,
    ClusterStatusRequest,
    DoneReply,
    ErrorReply,
    Event,
    Heartbeat,
    PeerBack,
    PeerLost,
    PullReply,
    PullRequest,
    Received,
    SettledReply,
    SettleRequest,
)
from liftlog.real.door import REQUESTS_MAX
from liftlog.real.incoming import PENDING_MAX, send_message
from liftlog.real.peers import PeerNetwork
from liftlog.types import ClientRef, PartitionId
from tests.integration.wires import (
    CLUSTER,
    SECRETS,
    Known,
    TcpPorts,
    addresses,
    call,
    close_all,
    eventually,
    open_raw,
)

pytestmark = [pytest.mark.real, pytest.mark.trio]

OTHER = (b"another secret, just as long....",)


class Node:
    """Both ports of a node, what came in, and its counters."""

    def __init__(
        self,
        node: int = 1,
        peers: dict[int, str] | None = None,
        *,
        secrets: Secrets = SECRETS,
        limits: NetworkLimits | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.clients = ClientRegistry()
        self.ports = TcpPorts(
            node,
            peers or addresses(1, 2, 3),
            self.take,
            self.clients,
            secrets=secrets,
            limits=limits,
        )
        self.network = self.ports.network

    def take(self, event: Event) -> None:
        """Who of the others is there is not what these tests are about."""
        if not isinstance(event, PeerLost | PeerBack):
            self.events.append(event)

    def count(self, name: str) -> int:
        return self.network.counters["network." + name]

    @property
    def asked(self) -> list[ClientRef]:
        return [event.client for event in self.events if isinstance(event, ClientRequest)]


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        for node in nodes:
            await nursery.start(node.ports.run)
        try:
            yield nursery
        finally:
            nursery.cancel_scope.cancel()
            close_all()


async def hung_up(stream: trio.SocketStream) -> bool:
    """Whether the node closes the connection; what it says before does not count."""
    with trio.fail_after(15):
        try:
            while await stream.receive_some(4096):
                pass
        except trio.BrokenResourceError:
            pass
    return True


async def refused(code: int, *arguments: object, **options: object) -> None:
    with pytest.raises(HandshakeError) as caught:
        await call(*arguments, **options)  # type: ignore[arg-type]
    assert caught.value.code == code


HEARTBEAT = Heartbeat(incarnation=1, sequence=1, applied=0)


# -- who is let in -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [PEER, CLIENT], ids=["peer", "client"])
@pytest.mark.parametrize(
    "first_bytes",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x09\x93\x01\xa7liftlog\x02",
        struct.pack(">I", 1 << 30),
        struct.pack(">I", FRAME_MAX_BYTES + 1) + b"x" * 100,
        struct.pack(">I", FRAME_MAX_BYTES) + bytes(FRAME_MAX_BYTES),
        struct.pack(">I", 0),
        wire.encode_frame(HEARTBEAT),
    ],
    ids=["http", "old-hello", "huge", "large", "zeros", "empty", "no-hello"],
)
async def test_what_is_no_handshake_ends_the_connection_at_once(role: int, first_bytes: bytes) -> None:
    node = Node()
    async with running(node):
        stream = await open_raw(node.ports.peer_address if role == PEER else node.ports.client_address)
        await stream.send_all(first_bytes)
        assert await hung_up(stream)
        await eventually(lambda: node.count("refused") == 1, "a refusal that is counted")
        await call(node.ports.client_address)
    assert node.events == []


@pytest.mark.parametrize("secrets", [OTHER, (NO_SECRET,), SECRETS.clients], ids=["other", "none", "client's"])
async def test_a_peer_without_the_cluster_s_secret_says_nothing(secrets: tuple[bytes, ...]) -> None:
    node = Node()
    async with running(node):
        await refused(REFUSED_PROOF, node.ports.peer_address, PEER, node=2, secrets=secrets)
        # The same with frames sent behind the proof, before the answer.
        stream = await open_raw(node.ports.peer_address)
        caller = Caller(Party(CLUSTER, 2, secrets), PEER, 1, os.urandom(NONCE_BYTES))
        await send_message(stream, caller.hello())
        await stream.send_all(wire.encode_frame(HEARTBEAT) * 10)
        assert await hung_up(stream)
        assert node.count("peers") == 0
    assert node.events == []


@pytest.mark.parametrize("secrets", [OTHER, (NO_SECRET,), SECRETS.peers], ids=["other", "none", "peers'"])
async def test_a_client_without_the_clients_secret_asks_nothing(secrets: tuple[bytes, ...]) -> None:
    node = Node()
    async with running(node):
        await refused(REFUSED_PROOF, node.ports.client_address, secrets=secrets)
    assert node.events == []


async def test_whoever_knows_only_the_cluster_s_name_gets_nowhere_and_doors_do_not_mix() -> None:
    node = Node()
    async with running(node):
        await refused(REFUSED_DOOR, node.ports.peer_address, CLIENT)
        await refused(REFUSED_DOOR, node.ports.client_address, PEER, node=2)
        await refused(REFUSED_PROOF, node.ports.peer_address, PEER, node=2, cluster="another")
        await refused(REFUSED_NODE, node.ports.peer_address, PEER, node=9)
        await refused(0, node.ports.peer_address, PEER, node=1)  # the caller itself finds that odd
    assert node.events == []


class Tap:
    """A man in the middle on the way to `target`, who remembers what the caller says and may change it."""

    def __init__(self, target: str, change: Callable[[bytes], bytes] = lambda data: data) -> None:
        self.target = target
        self.change = change
        self.seen = b""
        self.address = addresses(1)[1]

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        host, _, port = self.address.rpartition(":")
        listeners = await trio.open_tcp_listeners(int(port), host=host)
        task_status.started()
        await trio.serve_listeners(self._relay, listeners)

    async def _relay(self, near: trio.SocketStream) -> None:
        far = await open_raw(self.target)
        async with far, trio.open_nursery() as nursery:
            nursery.start_soon(self._copy, near, far, True)
            await self._copy(far, near, False)
            nursery.cancel_scope.cancel()

    async def _copy(self, source: trio.SocketStream, sink: trio.SocketStream, forth: bool) -> None:
        try:
            while data := bytes(await source.receive_some(65536)):
                if forth:
                    self.seen += data
                    data = self.change(data)
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


async def test_a_recorded_connection_played_again_is_refused() -> None:
    node = Node()
    async with running(node) as nursery:
        tap = Tap(node.ports.peer_address)
        await nursery.start(tap.run)
        peer = await call(tap.address, PEER, node=2)
        await peer.send(HEARTBEAT)
        await eventually(lambda: len(node.events) == 1, "the message")
        stream = await open_raw(node.ports.peer_address)
        await stream.send_all(tap.seen)
        assert await hung_up(stream)
    assert node.events == [Received(2, HEARTBEAT)]


async def test_who_passes_a_node_on_to_another_one_gets_neither_in() -> None:
    first, third = Node(1), Node(3)
    async with running(first, third) as nursery:
        tap = Tap(third.ports.peer_address)
        await nursery.start(tap.run)
        with pytest.raises(HandshakeError, match="node 3 answers where node 1 should be"):
            await call(tap.address, PEER, node=2, to=1)
        assert third.count("peers") == 0
    assert first.events == third.events == []


@pytest.mark.parametrize("what", ["flip", "repeat", "inject"])
async def test_frames_that_a_man_in_the_middle_changes_repeats_or_adds_end_the_connection(what: str) -> None:
    node = Node()
    armed = False

    def change(data: bytes) -> bytes:
        if not armed:
            return data
        spoiled = bytearray(data)
        spoiled[-1] ^= 1
        forged = wire.encode_frame(HEARTBEAT)
        return {"flip": bytes(spoiled), "repeat": data * 2, "inject": forged + data}[what]

    async with running(node) as nursery:
        tap = Tap(node.ports.peer_address, change)
        await nursery.start(tap.run)
        peer = await call(tap.address, PEER, node=2)
        await peer.send(HEARTBEAT)
        await eventually(lambda: len(node.events) == 1, "the message")
        armed = True
        await peer.send(HEARTBEAT)
        assert await hung_up(peer.stream)
        await eventually(lambda: node.count("peers") == 0, "a closed connection")
        assert node.count("refused") == 1
    assert len(node.events) == 1


async def test_secrets_change_while_everybody_stays_connected() -> None:
    old, new = SECRETS.peers[0], OTHER[0]
    peers = addresses(1, 2)
    for mine, theirs in (((old,), (new, old)), ((new, old), (new, old)), ((new, old), (new,))):
        first = Node(1, peers, secrets=Secrets(mine, SECRETS.clients))
        second = Node(2, peers, secrets=Secrets(theirs, SECRETS.clients))
        async with running(first, second):
            await eventually(lambda f=first, s=second: f.count("peers") == s.count("peers") == 1, "both")  # type: ignore[misc]


async def test_without_secrets_nodes_and_clients_that_have_none_understand_each_other() -> None:
    peers = addresses(1, 2)
    first, second = Node(1, peers, secrets=Secrets()), Node(2, peers, secrets=Secrets())
    async with running(first, second):
        await eventually(lambda: first.count("peers") == second.count("peers") == 1, "connections")
        client = await call(first.ports.client_address, secrets=(NO_SECRET,))
        await ask(first, client, 1)
        await refused(REFUSED_PROOF, first.ports.client_address)


async def test_a_wrong_secret_is_told_on_both_sides_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("liftlog.real.peers.REFUSED_BACKOFF_S", 0.01)
    peers = addresses(1, 2)
    first, second = Node(1, peers), Node(2, peers, secrets=Secrets(OTHER, SECRETS.clients))
    async with running(first, second):
        await eventually(lambda: first.count("refused") > 10, "many attempts")
    lines = [record.getMessage() for record in caplog.records]
    (ours,) = [line for line in lines if line.startswith("no connection to node 2")]
    assert "the secret or the name of the cluster is another one there" in ours
    refusals = [line for line in lines if line.startswith("refused a connection")]
    assert any("node 2 did not prove that it knows our secret" in line for line in refusals)
    assert len(refusals) == 2  # one of each node
    assert not any(secret.hex() in line for line in lines for secret in (*SECRETS.peers, *OTHER))


# -- how much they may occupy ------------------------------------------------------------------------------


async def test_who_says_nothing_or_a_byte_at_a_time_is_hung_up_on_and_holds_nothing() -> None:
    node = Node(limits=NetworkLimits(handshake_ms=300))
    async with running(node):
        for address in (node.ports.peer_address, node.ports.client_address):
            silent, slow = await open_raw(address), await open_raw(address)
            with trio.fail_after(15):
                try:
                    for byte in struct.pack(">I", 200) + b"LLOG" * 100:
                        await slow.send_all(bytes((byte,)))
                        await trio.sleep(0.02)
                except trio.BrokenResourceError:
                    pass
            assert await hung_up(silent) and await hung_up(slow)
        await eventually(lambda: node.count("refused") == 4, "refusals")
        assert node.count("memory_bytes") == node.count("memory_peak_bytes") == 0


async def test_strangers_who_wait_do_not_keep_others_out() -> None:
    node = Node()
    async with running(node):
        for address in (node.ports.peer_address, node.ports.client_address):
            crowd = [await open_raw(address) for _ in range(PENDING_MAX + 20)]
            assert all([await hung_up(stream) for stream in crowd[:10]])
            for stream in crowd:
                await stream.aclose()
        await call(node.ports.client_address)
        await call(node.ports.peer_address, PEER, node=2)
        assert node.count("memory_peak_bytes") == 0


async def test_the_number_of_clients_is_bounded_and_who_leaves_makes_room() -> None:
    node = Node(limits=NetworkLimits(client_connections_max=3))
    async with running(node):
        clients = [await call(node.ports.client_address) for _ in range(3)]
        await refused(REFUSED_FULL, node.ports.client_address)
        await clients[0].close()
        await eventually(lambda: node.count("clients") == 2, "a place")
        await call(node.ports.client_address)


async def test_a_client_that_announces_a_large_request_is_hung_up_on() -> None:
    node = Node()
    async with running(node):
        client = await call(node.ports.client_address)
        await client.stream.send_all(struct.pack(">I", 64 * MIB))
        assert await hung_up(client.stream)
        assert node.count("memory_peak_bytes") < 1024


async def test_half_a_request_counts_and_is_given_back() -> None:
    node = Node()
    async with running(node):
        client = await call(node.ports.client_address)
        await client.stream.send_all(struct.pack(">I", wire.CALL_MAX_BYTES) + bytes(50_000))
        await eventually(lambda: node.count("memory_bytes") == 50_004, "what lies here")
        await client.close()
        await eventually(lambda: node.count("memory_bytes") == 0, "nothing")


async def test_pulls_that_wait_take_no_request_s_place_and_have_a_bound_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("liftlog.real.door.PULLS_MAX", REQUESTS_MAX + 20)
    node = Node()
    async with running(node):
        client = await call(node.ports.client_address)
        partition = PartitionId(7, 0)
        for number in range(REQUESTS_MAX + 20):
            await client.send((number, PullRequest(partition, 1, wait_ms=2000)))
        for number in range(500, 500 + REQUESTS_MAX):
            await client.send((number, SettleRequest(partition, 1, "nak", [(0, 1)])))
        await eventually(lambda: len(node.asked) == 2 * REQUESTS_MAX + 20, "all of them in work")
        # Nothing more is read now, until an answer has left.
        await client.send((900, PullRequest(partition, 1, wait_ms=2000)))
        node.ports.answer(node.asked[-1], DoneReply("acked"))
        done, answer = await client.answers(2)
        assert (done.number, done.reply) == (500 + REQUESTS_MAX - 1, DoneReply("acked"))
        refused = answer.reply
        assert answer.number == 900
        assert isinstance(refused, ErrorReply) and (refused.code, refused.retryable) == (ERR_OVERLOAD, True)
        assert f"{REQUESTS_MAX + 20} pulls" in refused.description
        node.ports.answer(node.asked[0], PullReply(partition, 1, 1))
        assert [each.number for each in await client.answers(1)] == [0]
        await client.send((901, PullRequest(partition, 1, wait_ms=2000)))
        await eventually(lambda: len(node.asked) == 2 * REQUESTS_MAX + 21, "a place for one")


async def test_what_one_read_brings_is_taken_in_at_once_as_far_as_there_is_room() -> None:
    node = Node()
    partition = PartitionId(7, 0)
    naks = [(number, SettleRequest(partition, 1, "nak", [(number, 1)])) for number in range(REQUESTS_MAX + 3)]
    async with running(node):
        client = await call(node.ports.client_address)
        await client.send(*naks[:3])
        await eventually(lambda: len(node.asked) == 3, "three requests")
        assert node.ports.together == [3]
        await client.send(*naks[3:])
        await eventually(lambda: len(node.asked) == REQUESTS_MAX, "as many as may be in work")
        assert node.ports.together == [3, REQUESTS_MAX - 3]
        for one in node.asked[:3]:
            node.ports.answer(one, DoneReply("put off"))
        await eventually(lambda: len(node.asked) == REQUESTS_MAX + 3, "all of them")
        assert node.ports.together == [3, REQUESTS_MAX - 3, 3]


def acked(node: Node) -> list[list[tuple[int, int]]]:
    """What the node was asked to take as done, by request."""
    requests = [event.request for event in node.events if isinstance(event, ClientRequest)]
    return [request.runs for request in requests if isinstance(request, SettleRequest)]


async def test_acks_that_one_read_brings_are_one_request_and_each_is_answered() -> None:
    node = Node()
    partition = PartitionId(7, 0)
    acks = [(number, SettleRequest(partition, 1, "ack", [(number, 1)])) for number in range(103)]
    async with running(node):
        client = await call(node.ports.client_address)
        await client.send(*acks[:100], (9000, PullRequest(partition, 1)), *acks[100:])
        await eventually(lambda: len(node.asked) == 3, "acks, a pull, acks")
        assert acked(node) == [[(0, 100)], [(100, 3)]]
        # What is not known is told to those who have acked it.
        node.ports.answer(node.asked[0], SettledReply(partition, 1, 70, [(40, 2)]))
        assert {one.number: one.reply for one in await client.answers(100)} == {
            number: SettledReply(partition, 1, 70, [(number, 1)] if number in (40, 41) else [])
            for number in range(100)
        }
        error = ErrorReply(ERR_OVERLOAD, "later", True)
        node.ports.answer(node.asked[2], error)
        assert [(one.number, one.reply) for one in await client.answers(3)] == [
            (number, error) for number in (100, 101, 102)
        ]


async def test_of_acks_more_may_be_in_work_and_beyond_that_nothing_is_read() -> None:
    node = Node()
    partition = PartitionId(7, 0)
    most = REQUESTS_MAX * ACKS_A_REQUEST
    acks = [(number, SettleRequest(partition, 1, "ack", [(number, 1)])) for number in range(most + 3)]
    async with running(node):
        client = await call(node.ports.client_address)
        await client.send(*acks)

        def named() -> int:
            return sum(length for runs in acked(node) for _, length in runs)

        await eventually(lambda: named() == most, "as many as may be in work")
        taken = node.asked
        for one in taken:
            node.ports.answer(one, DoneReply("acked"))
        await eventually(lambda: named() == most + 3, "all of them")
        for one in node.asked[len(taken) :]:
            node.ports.answer(one, DoneReply("acked"))
        assert len({one.number for one in await client.answers(most + 3)}) == most + 3
        await eventually(lambda: node.count("memory_bytes") == 0, "nothing that is occupied")


async def ask(node: Node, client: Known, count: int) -> list[ClientRef]:
    """So many requests that reach the core."""
    before = len(node.asked)
    for number in range(count):
        await client.send((number, ClusterStatusRequest()))
    await eventually(lambda: len(node.asked) == before + count, f"{count} requests")
    return node.asked[before:]


async def test_v7_who_asks_and_does_not_read_is_hung_up_on_before_all_clients_occupy_too_much() -> None:
    node = Node(limits=NetworkLimits(connection_bytes=24 * MIB, clients_bytes=48 * MIB))
    async with running(node):
        greedy = await call(node.ports.client_address)
        others = [await call(node.ports.client_address) for _ in range(4)]
        text = "x" * (2 * MIB)
        for asked in await ask(node, greedy, 30):
            node.ports.answer(asked, DoneReply(text))
        # Its own bound holds it back first: what does not fit is dropped.
        assert 20 * MIB < node.count("memory_bytes") <= 24 * MIB
        for other in others:
            for asked in await ask(node, other, 8):
                node.ports.answer(asked, DoneReply(text))
            assert node.count("memory_bytes") <= 48 * MIB
        await eventually(lambda: node.count("cut") >= 1, "somebody is hung up on")
        assert await hung_up(greedy.stream)
        # The one that came last reads, and gets its answers.
        assert len(await others[-1].answers(8)) == 8
        assert node.count("memory_peak_bytes") <= 48 * MIB


async def test_v7_what_one_wake_up_answers_is_bounded_as_what_many_do() -> None:
    node = Node(limits=NetworkLimits(connection_bytes=24 * MIB, clients_bytes=48 * MIB))
    async with running(node):
        client = await call(node.ports.client_address)
        text = "x" * (2 * MIB)
        for asked in await ask(node, client, 30):
            node.clients.reply(asked, DoneReply(text))
        node.network.flush()
        assert 20 * MIB < node.count("memory_bytes") <= 24 * MIB


async def test_short_answers_of_one_wake_up_arrive_when_it_is_over() -> None:
    node = Node()
    async with running(node):
        client = await call(node.ports.client_address)
        before = node.count("memory_bytes")
        asked = await ask(node, client, 5)
        for number, one in enumerate(asked):
            node.clients.reply(one, DoneReply(f"answer {number}"))
        occupied = node.count("memory_bytes")
        node.network.flush()
        assert before <= node.count("memory_bytes") < occupied, "requests occupy nothing any more"
        answers = await client.answers(5)
        assert [one.reply for one in answers] == [DoneReply(f"answer {number}") for number in range(5)]
        await eventually(lambda: node.count("memory_bytes") == before, "nothing is occupied")


async def test_idle_clients_and_silent_peers_are_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.real.network.SWEEP_S", 0.01)
    node = Node(limits=NetworkLimits(client_idle_ms=20_000))
    async with running(node):
        idle, waiting = await call(node.ports.client_address), await call(node.ports.client_address)
        peer = await call(node.ports.peer_address, PEER, node=2)
        await ask(node, waiting, 1)
        assert await hung_up(idle.stream) and await hung_up(peer.stream)
        # Who waits for an answer is not idle.
        assert node.count("clients") == 1
        node.ports.answer(node.asked[0], DoneReply("late"))
        assert (await waiting.answers(1))[0].reply == DoneReply("late")
        assert await hung_up(waiting.stream)


async def test_peers_that_have_nothing_to_say_stay_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.real.peers.KEEP_ALIVE_S", 0.02)
    monkeypatch.setattr("liftlog.real.network.SWEEP_S", 0.02)
    peers = addresses(1, 2)
    first, second = Node(1, peers), Node(2, peers)
    sweeps = 0
    sweep = PeerNetwork.sweep

    def counting(network: PeerNetwork) -> None:
        nonlocal sweeps
        sweeps += 1
        sweep(network)

    monkeypatch.setattr(PeerNetwork, "sweep", counting)
    async with running(first, second):
        await eventually(lambda: first.count("peers") == second.count("peers") == 1, "connections")
        await eventually(lambda: sweeps > 100, "many sweeps")
        assert first.count("connects") == second.count("connects") == 1
        assert first.count("cut") == second.count("cut") == 0


async def test_a_peer_that_connects_anew_replaces_its_half_open_connection() -> None:
    node = Node()
    async with running(node):
        before = await call(node.ports.peer_address, PEER, node=2)
        after = await call(node.ports.peer_address, PEER, node=2)
        assert await hung_up(before.stream)
        await after.send(HEARTBEAT)
        await eventually(lambda: node.events == [Received(2, HEARTBEAT)], "the message")
        assert node.count("peers") == 1


async def test_a_peer_s_unfinished_frame_counts_and_has_a_bound() -> None:
    node = Node(limits=NetworkLimits(connection_bytes=MIB, clients_bytes=32 * MIB, peers_bytes=128 * MIB))
    async with running(node):
        peers = [await call(node.ports.peer_address, PEER, node=number) for number in (2, 3)]
        for peer in peers:
            await peer.stream.send_all(struct.pack(">I", wire.FRAME_MAX_BYTES) + bytes(20 * MIB))
        await eventually(lambda: node.count("memory_bytes") == 40 * MIB + 8, "what lies here")
        await peers[0].stream.send_all(bytes(44 * MIB))
        assert await hung_up(peers[0].stream)
        await peers[1].close()
        await eventually(lambda: node.count("memory_bytes") == 0, "nothing")
