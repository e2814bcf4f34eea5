"""V9 at the port itself: what is refused does not reach the node, and what changes changes at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest
import trio

from liftlog.api.clients import ClientRegistry
from liftlog.messages import (
    ERR_NOT_ALLOWED,
    ClientRequest,
    ClusterStatusReply,
    ClusterStatusRequest,
    DeleteStreamRequest,
    ErrorReply,
    Event,
    ReadRequest,
    ReplicaInfo,
    StreamInfo,
    StreamInfoReply,
    StreamInfoRequest,
)
from liftlog.messages.rightstold import NAMED
from liftlog.real.gate import Gate
from liftlog.rights.book import RightsBook
from liftlog.rights.client import EVERYTHING, ClientRights
from liftlog.types import LiftlogError, PartitionId, StreamConfig
from tests.integration.wires import SECRETS, TcpPorts, addresses, call, close_all, eventually

pytestmark = [pytest.mark.real, pytest.mark.trio]

ORDERS, SECRET = PartitionId(7, 0), PartitionId(8, 0)
BILLING = (b"b" * 32,)


class Stream(NamedTuple):
    config: StreamConfig


class Metadata:
    applied = 20
    by_id: Mapping[int, Stream] = {
        7: Stream(StreamConfig("orders", "orders")),
        8: Stream(StreamConfig("secret", "secret")),
    }


def book(rights: ClientRights | None, digest: int = 5) -> RightsBook:
    named = {} if rights is None else {BILLING[0]: rights}
    return RightsBook({SECRETS.clients[0]: EVERYTHING, **named}, digest)


class Door:
    """A node's ports, what came in, and the rights that its files say now."""

    def __init__(self) -> None:
        self.says: RightsBook | LiftlogError = book(ClientRights("billing", read=("orders",)))
        self.events: list[Event] = []
        self.clients = ClientRegistry()
        self.gate = Gate(self.read(), Metadata, self.read)
        self.ports = TcpPorts(1, addresses(1, 2), self.take, self.clients, gate=self.gate)

    def read(self) -> RightsBook:
        if isinstance(self.says, LiftlogError):
            raise self.says
        return self.says

    def take(self, event: Event) -> None:
        if isinstance(event, ClientRequest):
            self.events.append(event)

    def asked(self) -> ClientRequest:
        event = self.events.pop(0)
        assert isinstance(event, ClientRequest)
        return event

    async def change(self, says: RightsBook | LiftlogError) -> None:
        before = self.gate.counters
        self.says = says
        self.gate.read_again()
        await eventually(lambda: self.gate.counters != before, "the files are read")


@pytest.fixture
async def door() -> Door:
    return Door()


async def test_V9_what_is_refused_never_reaches_the_node(door: Door) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(door.ports.run)
        known = await call(door.ports.client_address, secrets=BILLING)
        asked = ReadRequest(SECRET, 0), DeleteStreamRequest("orders"), ReadRequest(ORDERS, 0)
        await known.send(*enumerate(asked))
        for answer in await known.answers(2):
            assert isinstance(answer.reply, ErrorReply)
            assert (answer.reply.code, answer.reply.retryable) == (ERR_NOT_ALLOWED, False)
            assert "'secret'" not in answer.reply.description
        await eventually(lambda: bool(door.events), "a request came in")
        assert door.asked().request == ReadRequest(ORDERS, 0)
        assert door.events == []
        assert door.gate.counters["rights.refused"] == 2
        everybody = await call(door.ports.client_address)
        await everybody.send((1, ReadRequest(SECRET, 0)))
        await eventually(lambda: bool(door.events), "a request came in")
        nursery.cancel_scope.cancel()
    close_all()


async def test_V9_answers_show_what_a_client_may_see(door: Door) -> None:
    streams = [StreamInfo(number, stream.config, []) for number, stream in Metadata.by_id.items()]
    copies = [ReplicaInfo(PartitionId(n, 0), "leader", 1, 0, 0, 0, 0, "good", "ready") for n in (7, 8, 9)]
    async with trio.open_nursery() as nursery:
        await nursery.start(door.ports.run)
        seen = []
        for secrets in (BILLING, SECRETS.clients):
            known = await call(door.ports.client_address, secrets=secrets)
            await known.send((1, StreamInfoRequest()), (2, ClusterStatusRequest()))
            await eventually(lambda: len(door.events) == 2, "two requests came in")
            door.ports.answer(door.asked().client, StreamInfoReply(streams))
            door.ports.answer(door.asked().client, ClusterStatusReply(1, 1, 1, 1, [], copies, {}))
            first, second = [answer.reply for answer in await known.answers(2)]
            assert isinstance(first, StreamInfoReply)
            assert isinstance(second, ClusterStatusReply)
            seen.append(([s.id for s in first.streams], [copy.partition.stream for copy in second.replicas]))
            assert (NAMED in second.counters) == (secrets == BILLING)
        assert seen == [([7], [7]), ([7, 8], [7, 8, 9])]
        nursery.cancel_scope.cancel()
    close_all()


async def test_V9_a_connection_has_the_rights_that_were_read_last(door: Door) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(door.ports.run)
        nursery.start_soon(door.gate.run)
        known = await call(door.ports.client_address, secrets=BILLING)
        await door.change(book(ClientRights("other", read=("secret",)), 6))
        await known.send((1, ReadRequest(SECRET, 0)), (2, ReadRequest(ORDERS, 0)))
        (answer,) = await known.answers(1)
        assert answer.number == 2
        await door.change(LiftlogError("line 3 is wrong"))
        assert door.gate.counters["rights.mistaken"] == 1
        await known.send((3, ReadRequest(SECRET, 0)))
        await eventually(lambda: len(door.events) == 2, "two requests came in")
        # Of what it waits for nothing comes any more: it is hung up on.
        await door.change(book(None, 7))
        with trio.fail_after(15):
            assert await known.stream.receive_some(1) == b""
        assert door.gate.counters["rights.mistaken"] == 0
        nursery.cancel_scope.cancel()
    close_all()
