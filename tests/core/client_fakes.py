"""What readers talk to in tests: nodes that hold one stream, all of them the same, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.reader import Reader
from liftlog.client.reading import StreamReading
from liftlog.format import encode_records, parse_batch
from liftlog.messages import (
    ERR_COMPACTED,
    ERR_NOT_LEADER,
    ERR_NOT_READY,
    ERR_OFFSET_RANGE,
    FilteredReadRequest,
    OffsetReply,
    OffsetRequest,
    PartitionInfo,
    ReadReply,
    ReadRequest,
    StreamInfo,
    VisibleReadReply,
)
from liftlog.picking import RecordFilter, part_of
from liftlog.types import Batch, PartitionId, Record, StreamConfig

STREAM = 5
LOG = PartitionId(STREAM, 0)


def record(offset: int, timestamp_ms: int = 1, size: int = 0) -> Record:
    return Record(offset, timestamp_ms, b"s", b"", b"", b"k%d" % offset, b"%d" % offset + bytes(size))


def batches(index: int, *counts: int, size: int = 0) -> list[Batch]:
    """One after the other, of so many records each; a record's time is its offset."""
    found: list[Batch] = []
    for count in counts:
        first = found[-1].end_offset if found else 0
        records = [record(offset, offset, size) for offset in range(first, first + count)]
        found.append(encode_records(PartitionId(STREAM, index), 1, records))
    return found


async def settled(condition: Callable[[], bool]) -> None:
    """Wait until it holds; for ever means that it never does."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


class FakeCluster:
    """The transport of readers. Change what it holds while it is read; `asked` keeps all requests."""

    def __init__(
        self, *partitions: list[Batch], nodes: tuple[int, ...] = (1,), hw: int = 0, compact: bool = True
    ) -> None:
        self.id = STREAM
        self.nodes = nodes
        self.leader = nodes[0]
        self.logs = list(partitions)
        self.log_start = [0] * len(partitions)
        self.hw = hw
        """If not 0, what is committed of every partition."""
        self.behind: dict[int, int] = {}
        """The HW of a node that has not come so far."""
        self.down: set[int] = set()
        self.dropped_below = 0
        self.damaged: set[bool] = set()
        self.failures: list[Exception] = []
        """What is said to who asks what the stream is, before the truth."""
        self.asked: list[tuple[int, ReadRequest | OffsetRequest]] = []
        self.known = self.address = "h:1"
        """Where the nodes are, and where their client takes them to be."""
        self.config = StreamConfig("s", "s", len(partitions), compact=compact)

    @property
    def requests(self) -> list[ReadRequest]:
        return [request for _, request in self.asked if isinstance(request, ReadRequest)]

    @property
    def info(self) -> StreamInfo:
        nodes = list(self.nodes)
        leader = 0 if self.leader in self.down else self.leader
        partitions = [
            PartitionInfo(n, leader, 1, 1, nodes, nodes, [], ready=True) for n in range(len(self.logs))
        ]
        return StreamInfo(self.id, self.config, partitions)

    def add(self, log: list[Batch]) -> None:
        """One partition more."""
        self.logs.append(log)
        self.log_start.append(0)

    def end(self, index: int) -> int:
        return self.hw or (self.logs[index][-1].end_offset if self.logs[index] else 0)

    async def addresses(self, refresh: bool = False, timeout_ms: int = 0) -> dict[int, str]:
        if refresh:
            self.known = self.address
        return dict.fromkeys(self.nodes, self.known)

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        if self.failures:
            raise self.failures.pop(0)
        return self.info

    async def call(self, node: int, address: str, request: Any, timeout_s: float) -> Any:
        await asyncio.sleep(0)
        if address != self.address or node in self.down:
            raise Unreachable(f"nobody is at {address}")
        self.asked.append((node, request))
        index = request.partition.index
        end = self.end(index)
        hw = min(end, self.behind.get(node, end))
        if isinstance(request, OffsetRequest):
            return self._offset(node, request, hw)
        if isinstance(request, FilteredReadRequest):
            return self._picked(request, self._read(request, index, hw))
        return self._read(request, index, hw)

    def _picked(self, request: FilteredReadRequest, whole: ReadReply) -> VisibleReadReply:
        """S2: of the same batch what is wanted."""
        wanted = RecordFilter(request.subjects, request.keys)
        end = max(request.offset, min(whole.next_offset, whole.hw))
        parts = [
            part_of(whole.partition, parse_batch(whole.partition, frame), wanted, request.offset, end)
            for frame in whole.batches
        ]
        frames = [part.data for part in parts if part is not None]
        return VisibleReadReply(
            whole.partition, 1, whole.hw, whole.log_start, end, frames, whole.dropped_below
        )

    def _offset(self, node: int, request: OffsetRequest, hw: int) -> OffsetReply:
        index = request.partition.index
        if request.what in ("latest", "new") and node != self.leader:
            raise RequestFailed(ERR_NOT_LEADER, "ask the leader", True, self.leader)
        place = {"earliest": self.log_start[index], "latest": max(0, hw - 1), "new": hw}
        # A record's time is its offset.
        return OffsetReply(request.partition, place.get(request.what, min(request.timestamp_ms, hw)), 1)

    def _read(self, request: ReadRequest, index: int, hw: int) -> ReadReply:
        start, dropped = self.log_start[index], self.dropped_below
        if request.offset < start:
            raise RequestFailed(ERR_OFFSET_RANGE, f"below the log's start {start}")
        if request.seen_hw > hw:
            raise RequestFailed(ERR_NOT_READY, "behind", True)
        if 0 <= request.seen_dropped < dropped and request.offset < dropped:
            raise RequestFailed(ERR_COMPACTED, "compacted past your start, restart")
        found = [batch for batch in self.logs[index] if batch.end_offset > request.offset][:1]
        if request.offset >= hw:
            found = []
        frames = [batch.data for batch in found]
        if request.verify in self.damaged:
            frames = [frame[:-1] + bytes([frame[-1] ^ 1]) for frame in frames]
        end = found[-1].end_offset if found else request.offset
        return ReadReply(request.partition, 1, hw, start, end, frames, dropped)

    def reader(self, partition: int = 0, *, node: int = 0, spread: bool = False) -> Reader:
        return Reader(self, self.info, partition, node, 500, spread=spread)

    def reading(self, *bounds: Any, spread: bool = False, **options: Any) -> StreamReading:
        def open(stream: StreamInfo, partition: int) -> Reader:
            return Reader(self, stream, partition, 0, 1000, spread=spread)

        return StreamReading(self, self.info, open, *bounds, look_s=0.01, **options)
