"""Cold reads go from the file to the socket: what arrives is right, and every handle is closed in the end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from liftlog.api import wire
from liftlog.api.clients import ClientRegistry
from liftlog.api.spans import frames
from liftlog.config import NetworkLimits
from liftlog.format import CorruptBatch, decode_records, encode_values, parse_batch
from liftlog.messages import (
    ClientGone,
    ClientRequest,
    DoneReply,
    Event,
    ReadReply,
    ReadRequest,
    SpannedRead,
)
from liftlog.messages.filespan import FileSpan
from liftlog.real.certificates import Certificates
from liftlog.real.disk import RealDisk
from liftlog.real.sendqueue import SPAN_COST_BYTES
from liftlog.tls.settings import NodeTls
from liftlog.types import ClientRef, PartitionId
from tests.integration.nats_keys import Authority
from tests.integration.wires import Known, TcpPorts, addresses, call

pytestmark = [pytest.mark.real, pytest.mark.trio]

LOG = PartitionId(5, 0)
BATCHES = 64
VALUE = bytes(range(256)) * 256


class Store:
    """A file of batches, 64 KiB each, and how many handles to it are open."""

    def __init__(self, folder: Path) -> None:
        self.disk = RealDisk(str(folder))
        self.path = folder / "log"
        self.certificates: Certificates | None = None
        self.batches = [encode_values(LOG, number, 1, 0, [VALUE]).data for number in range(BATCHES)]
        file = self.disk.open("log", create=True)
        file.append(self.batches)
        file.close()

    def span(self, first: int, after: int) -> FileSpan:
        size = len(self.batches[0])
        return FileSpan(self.disk.open("log"), first * size, (after - first) * size, first, after)

    def read(self, *spans: FileSpan) -> SpannedRead:
        return SpannedRead(ReadReply(LOG, 1, BATCHES, 0, spans[-1].end_offset, [], 7), list(spans))

    def open_handles(self) -> int:
        # The folder's own listing is a descriptor too, which is gone when its turn comes.
        links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
        return sum(str(link.readlink()).startswith(str(self.path)) for link in links if link.is_symlink())


@pytest.fixture(params=["plain", "tls"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Sent as it is, and over TLS, where it cannot go from the file to the socket."""
    store = Store(tmp_path)
    if request.param == "tls":
        authority = Authority(tmp_path / "ca")
        store.certificates = Certificates(
            NodeTls(authority.ca_file, *authority.issue("node")), "127.0.0.1", "127.0.0.1"
        )
    return store


class Door:
    """A node's TCP door, one client at it, and the requests that came in."""

    def __init__(self, certificates: Certificates | None) -> None:
        self.clients = ClientRegistry()
        self.ports = TcpPorts(1, addresses(1), self.take, self.clients, certificates=certificates)
        self.requests: list[ClientRef] = []
        self.gone = 0
        self._moved = trio.Event()

    def take(self, event: Event) -> None:
        if isinstance(event, ClientRequest):
            self.requests.append(event.client)
        self.gone += isinstance(event, ClientGone)
        self._moved.set()

    async def until(self, requests: int = 0, gone: int = 0) -> None:
        with trio.fail_after(15):
            while len(self.requests) < requests or self.gone < gone:
                self._moved = trio.Event()
                await self._moved.wait()

    async def ask(self, client: Known, count: int) -> list[ClientRef]:
        """Send so many read requests, numbered from 1; the references of those that wait now."""
        before = len(self.requests)
        for number in range(1, count + 1):
            await client.send((number, ReadRequest(LOG, 0)))
        await self.until(before + count)
        return self.requests[before:]


@asynccontextmanager
async def open_door(store: Store) -> AsyncIterator[tuple[Door, Known]]:
    """A running door with a client that was let in."""
    door = Door(store.certificates)
    async with trio.open_nursery() as nursery:
        await nursery.start(door.ports.run)
        tls = None if store.certificates is None else store.certificates.tls.files
        client = await call(door.ports.client_address, tls=tls)
        yield door, client
        await client.close()
        nursery.cancel_scope.cancel()


def values_of(answer: wire.ClientAnswer) -> list[bytes]:
    assert isinstance(answer.reply, ReadReply)
    batches = [parse_batch(LOG, frame) for data in answer.reply.batches for frame in frames(data)]
    return [record.value or b"" for batch in batches for record in decode_records(batch)]


async def test_spans_arrive_as_batches_among_other_answers_in_their_order(store: Store) -> None:
    async with open_door(store) as (door, client):
        first, second, third = await door.ask(client, 3)
        door.ports.answer(first, DoneReply("before"))
        door.ports.answer(second, store.read(store.span(3, 5), store.span(5, BATCHES)))
        door.ports.answer(third, DoneReply("after"))
        before, read, after = await client.answers(3)
        assert (before.number, before.reply) == (1, DoneReply("before"))
        assert (after.number, after.reply) == (3, DoneReply("after"))
        assert values_of(read) == [VALUE] * (BATCHES - 3)
        assert isinstance(read.reply, ReadReply)
        assert (read.reply.next_offset, read.reply.dropped_below, len(read.reply.batches)) == (BATCHES, 7, 2)
        assert store.open_handles() == 0


async def test_a_file_whose_name_is_gone_is_still_sent(store: Store) -> None:
    async with open_door(store) as (door, client):
        (asked,) = await door.ask(client, 1)
        read = store.read(store.span(0, 8))
        store.disk.remove("log")
        door.ports.answer(asked, read)
        (answer,) = await client.answers(1)
        assert values_of(answer) == [VALUE] * 8
        assert store.open_handles() == 0


async def test_what_cannot_be_read_arrives_as_damage_and_the_connection_goes_on(store: Store) -> None:
    async with open_door(store) as (door, client):
        first, second = await door.ask(client, 2)
        read = store.read(store.span(0, 8))
        os.truncate(store.path, 5 * len(store.batches[0]) + 100)
        door.ports.answer(first, read)
        door.ports.answer(second, DoneReply("still here"))
        damaged, after = await client.answers(2)
        with pytest.raises(CorruptBatch):
            values_of(damaged)
        assert isinstance(damaged.reply, ReadReply)
        good = list(frames(damaged.reply.batches[0]))[:5]
        assert good == store.batches[:5]
        assert after.reply == DoneReply("still here")
        assert store.open_handles() == 0


async def test_no_handle_stays_open_when_the_client_has_left(store: Store) -> None:
    async with open_door(store) as (door, client):
        (asked,) = await door.ask(client, 1)
        await client.close()
        await door.until(gone=1)
        door.ports.answer(asked, store.read(store.span(0, 8)))
        assert store.open_handles() == 0


async def test_no_handle_stays_open_when_the_client_leaves_in_the_middle(store: Store) -> None:
    async with open_door(store) as (door, client):
        clients = await door.ask(client, 5)
        for asked in clients[:4]:
            door.ports.answer(asked, store.read(*(store.span(0, BATCHES) for _ in range(3))))
        await client.stream.receive_some(1000)
        assert store.open_handles() > 0
        await client.close()
        await door.until(gone=1)
        with trio.fail_after(15):
            while store.open_handles():
                await trio.sleep(0.01)
        door.ports.answer(clients[4], store.read(store.span(0, 1)))
        assert store.open_handles() == 0


async def test_no_handle_stays_open_when_the_node_stops_while_sending(store: Store) -> None:
    async with open_door(store) as (door, client):
        (asked,) = await door.ask(client, 1)
        door.ports.answer(asked, store.read(*(store.span(0, BATCHES) for _ in range(6))))
        await client.stream.receive_some(1000)
        assert store.open_handles() > 0
    assert store.open_handles() == 0


async def test_a_client_that_does_not_read_holds_few_files_open(store: Store) -> None:
    limit = NetworkLimits().connection_bytes // SPAN_COST_BYTES
    async with open_door(store) as (door, client):
        for round_ in range(1, 5):
            for asked in await door.ask(client, 30):
                door.ports.answer(asked, store.read(store.span(0, BATCHES)))
            # One more than is queued may be on its way into the socket.
            assert 0 < store.open_handles() <= limit + 1, round_
    assert store.open_handles() == 0
