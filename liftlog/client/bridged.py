"""What a program in another thread uses of processors, groups and cursors: each call is run where the
client's loop is, and costs two hand-overs between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from liftlog.client.batches import BatchRecord
from liftlog.client.cursors import CursorReading
from liftlog.client.grouping import GroupMessage, GroupReading
from liftlog.client.processing import ProcessedBatch, StreamProcessor
from liftlog.client.reading import PartitionRecord

T = TypeVar("T")


class Bridge(Protocol):
    """Runs coroutines of the client where its loop is."""

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...


class BridgedBatch:
    """As `ProcessedBatch`, of a client in another thread."""

    __slots__ = ("_batch", "_bridge", "next", "records")

    def __init__(self, bridge: Bridge, batch: ProcessedBatch) -> None:
        self._bridge = bridge
        self._batch = batch
        self.records = batch.records
        self.next = batch.next

    async def commit(self, outputs: Sequence[BatchRecord | bytes]) -> int:
        """As `ProcessedBatch.commit`."""
        return await self._bridge.run(lambda: self._batch.commit(outputs))


class BridgedProcessor:
    """As `StreamProcessor`, of a client in another thread."""

    def __init__(self, bridge: Bridge, processor: StreamProcessor) -> None:
        self._bridge = bridge
        self.processor = processor

    @property
    def position(self) -> int:
        """The offset of the input that is next, as it is stored."""
        return self.processor.position

    def __aiter__(self) -> BridgedProcessor:
        return self

    async def __anext__(self) -> BridgedBatch:
        return BridgedBatch(self._bridge, await self._bridge.run(self.processor.__anext__))


class BridgedGroup:
    """As `GroupReading`, of a client in another thread. A message is done when the next one is asked for."""

    def __init__(self, bridge: Bridge, member: GroupReading) -> None:
        self._bridge = bridge
        self.member = member

    @property
    def id(self) -> str:
        """Under which the group knows this process."""
        return self.member.id

    @property
    def generation(self) -> int:
        """As `GroupReading.generation`."""
        return self.member.generation

    @property
    def assigned(self) -> list[tuple[str, int]]:
        """As `GroupReading.assigned`."""
        return self.member.assigned

    def __aiter__(self) -> BridgedGroup:
        return self

    async def __anext__(self) -> GroupMessage:
        return await self._bridge.run(self.member.__anext__)

    async def commit(self) -> None:
        """As `GroupReading.commit`."""
        await self._bridge.run(self.member.commit)


class BridgedCursorReading:
    """As `CursorReading`, of a client in another thread. A record is done when the next one is asked for."""

    def __init__(self, bridge: Bridge, reading: CursorReading) -> None:
        self._bridge = bridge
        self.reading = reading

    def __aiter__(self) -> BridgedCursorReading:
        return self

    async def __anext__(self) -> PartitionRecord:
        return await self._bridge.run(self.reading.__anext__)

    async def checkpoint(self) -> None:
        """As `CursorReading.checkpoint`."""
        await self._bridge.run(self.reading.checkpoint)
