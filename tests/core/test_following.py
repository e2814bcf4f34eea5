"""A stream is followed: all of its partitions, and those that it gets meanwhile (R19)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from liftlog.client import EARLIEST, NEW, TIME, nodes
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.following import StreamFollower
from liftlog.client.reader import Reader
from liftlog.format import encode_records
from liftlog.messages import (
    ERR_NOT_FOUND,
    OffsetReply,
    OffsetRequest,
    PartitionInfo,
    ReadReply,
    ReadRequest,
    StreamInfo,
    StreamInfoRequest,
)
from liftlog.types import Batch, LiftlogError, PartitionId, Record, StreamConfig


class Opened:
    """A connection that answers with its number."""

    usable = True
    made = 0

    @classmethod
    async def open(cls, node: int, address: str, access: object, timeout_s: float) -> Opened:
        cls.made += 1
        await asyncio.sleep(0.02)
        if address == "gone:1":
            raise Unreachable("gone")
        return cls()

    async def call(self, request: object, timeout_s: float) -> int:
        return self.made

    async def close(self) -> None:
        pass


def test_many_readers_open_one_connection_to_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are read at the same time; whoever finds an attempt under way waits for that one."""
    monkeypatch.setattr(nodes, "NodeConnection", Opened)
    monkeypatch.setattr(Opened, "made", 0)

    async def story() -> list[object]:
        pool = nodes.NodePool(lambda: nodes.Access("c"), 1.0)
        asked = [pool.call(1, "h:1", StreamInfoRequest(), 1.0) for _ in range(5)]
        lost = [pool.call(2, "gone:1", StreamInfoRequest(), 1.0) for _ in range(3)]
        found = await asyncio.gather(*asked, *lost, return_exceptions=True)
        forgotten = asyncio.create_task(pool.call(3, "gone:1", StreamInfoRequest(), 1.0))
        await asyncio.sleep(0)
        forgotten.cancel()
        await pool.close()
        return found

    found = asyncio.run(story())
    assert found[:5] == [2] * 5
    assert [str(error) for error in found[5:]] == ["gone"] * 3


class Server:
    """One node with a stream, whose partitions hold one batch each of as many records as is said."""

    def __init__(self, *counts: int) -> None:
        self.id = 5
        self.counts = list(counts)
        self.failures: list[Exception] = []
        """What is said to who asks what the stream is, before the truth."""
        self.offsets: list[tuple[int, str, int]] = []

    @property
    def info(self) -> StreamInfo:
        partitions = [PartitionInfo(n, 1, 1, 1, [1], [1], [], True) for n in range(len(self.counts))]
        return StreamInfo(self.id, StreamConfig("s", "s", len(self.counts)), partitions)

    async def addresses(self, refresh: bool = False, timeout_ms: int = 0) -> dict[int, str]:
        return {1: "h:1"}

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        if self.failures:
            raise self.failures.pop(0)
        return self.info

    async def call(self, node: int, address: str, request: Any, timeout_s: float) -> Any:
        partition = request.partition
        count = self.counts[partition.index]
        if isinstance(request, OffsetRequest):
            self.offsets.append((partition.index, request.what, request.timestamp_ms))
            return OffsetReply(partition, count if request.what == "new" else 0, 1)
        assert isinstance(request, ReadRequest)
        await asyncio.sleep(0.001)
        batch = batch_of(partition, count)
        found = [batch] if batch is not None and request.offset < count else []
        return ReadReply(
            partition, 1, count, 0, count if found else request.offset, [one.data for one in found]
        )

    def follower(self) -> StreamFollower:
        def open(stream: StreamInfo, partition: int) -> Reader:
            return Reader(self, stream, partition, 0, 500)

        return StreamFollower(self, self.info, open, look_s=0.01)


def batch_of(partition: PartitionId, count: int) -> Batch | None:
    records = [Record(n, 1, b"s", b"", b"", None, b"%d" % n) for n in range(count)]
    return encode_records(partition, 1, records) if records else None


async def take(follower: StreamFollower, count: int, *start: Any) -> list[tuple[int, int]]:
    """(Partition, offset) of so many records."""
    found: list[tuple[int, int]] = []
    async with asyncio.timeout(5), contextlib.aclosing(follower.records(*start)) as records:
        async for partition, record in records:
            found.append((partition, record.offset))
            if len(found) == count:
                break
    return found


def test_r19_all_partitions_are_followed_and_those_that_are_added() -> None:
    async def story() -> list[tuple[int, int]]:
        server = Server(2, 1)
        following = asyncio.create_task(take(server.follower(), 6, EARLIEST))
        await asyncio.sleep(0.05)
        server.failures = [Unreachable("away"), RequestFailed("not-ready", "later", True)]
        server.counts += [0, 2]
        await asyncio.sleep(0.1)
        server.counts[2] = 1
        return await following

    found = asyncio.run(story())
    assert sorted(found) == [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0), (3, 1)]


@pytest.mark.parametrize(("start", "later"), [((NEW,), "earliest"), ((TIME, 7), "time"), ((3,), "earliest")])
def test_r19_what_is_added_is_read_from_its_front(start: tuple[Any, ...], later: str) -> None:
    """Its records came later than what was asked for; only a time can be later still."""

    async def story() -> Server:
        server = Server(3)
        following = asyncio.create_task(take(server.follower(), 2 if start[0] != TIME else 5, *start))
        await asyncio.sleep(0.05)
        server.counts += [2]
        await following
        return server

    asked = asyncio.run(story()).offsets
    assert [what for index, what, _ in asked if index == 1] == [later]


def test_a_stream_that_is_gone_ends_the_following() -> None:
    async def story(*failures: Exception) -> None:
        server = Server(1)
        follower = server.follower()
        server.failures = list(failures)
        server.id = 6
        await take(follower, 2, EARLIEST)

    with pytest.raises(LiftlogError, match="was deleted and created anew; follow it again"):
        asyncio.run(story())
    with pytest.raises(RequestFailed, match="does not exist"):
        asyncio.run(story(RequestFailed(ERR_NOT_FOUND, "does not exist")))


def test_a_mistake_of_ours_is_not_kept_from_who_follows() -> None:
    async def story() -> None:
        server = Server(1)
        server.failures = [ZeroDivisionError("ours")]
        await take(server.follower(), 2, EARLIEST)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(story())
