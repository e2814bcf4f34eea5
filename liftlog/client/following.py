"""Following a stream: all of its partitions at once, and those that it gets later (R19).

Order holds within each partition. A partition that appears while a stream is followed is read from its front:
whatever is in it came later than what was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine

from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.reader import EARLIEST, NEW, TIME, Reader
from liftlog.client.transport import Transport
from liftlog.messages import StreamInfo
from liftlog.types import LiftlogError, Record

LOOK_S = 1.0
"""How often is looked for partitions that were added."""
CANCEL_S = 0.1
LISTS_MAX = 16
"""So many lists of records at most wait for who follows, beside one of each partition."""

Found = tuple[int, list[Record]]


class StreamFollower:
    """Reads a stream until it is closed, or something goes wrong for good. Made by `Client.follow`."""

    def __init__(
        self,
        transport: Transport,
        stream: StreamInfo,
        open: Callable[[StreamInfo, int], Reader],
        look_s: float = LOOK_S,
    ) -> None:
        self._transport = transport
        self._stream = stream
        self._open = open
        self._look_s = look_s
        self._found: asyncio.Queue[Found | Exception] = asyncio.Queue(LISTS_MAX)
        self._tasks: list[asyncio.Task[None]] = []

    async def records(self, start: str | int, timestamp_ms: int = 0) -> AsyncGenerator[tuple[int, Record]]:
        """(Partition, record) from `start` on, as of `Reader.records`, or from TIME on; for ever.

        Raises LiftlogError: the stream is gone, or a partition cannot be read.
        """
        readers = [self._open(self._stream, index) for index in range(len(self._stream.partitions))]
        offsets = [await _first(reader, start, timestamp_ms) for reader in readers]
        for reader, offset in zip(readers, offsets, strict=True):
            self._begin(reader, offset)
        later = (start, timestamp_ms) if start == TIME else (EARLIEST, 0)
        self._tasks.append(asyncio.create_task(self._telling(self._look(*later))))
        try:
            while True:
                found = await self._found.get()
                if isinstance(found, Exception):
                    raise found
                for record in found[1]:
                    yield found[0], record
        finally:
            await self._end()

    async def _end(self) -> None:
        """No task goes on. More than once if need be: `wait_for` may keep a cancellation to itself."""
        left = set(self._tasks)
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_S)

    def _begin(self, reader: Reader, offset: int) -> None:
        self._tasks.append(asyncio.create_task(self._telling(self._read(reader, offset))))

    async def _telling(self, work: Coroutine[None, None, None]) -> None:
        """Who follows is told what goes wrong for good, our own mistakes too."""
        try:
            await work
        except Exception as error:
            await self._found.put(error)

    async def _read(self, reader: Reader, offset: int) -> None:
        while True:
            records = await reader.fetch(offset)
            offset = reader.position
            if records:
                await self._found.put((reader.partition.index, records))

    async def _look(self, start: str, timestamp_ms: int) -> None:
        """Begin to read what is new of the stream, again and again."""
        while True:
            await asyncio.sleep(self._look_s)
            try:
                stream = await self._transport.stream(self._stream.config.name)
            except Unreachable:
                continue
            except RequestFailed as error:
                if error.retryable:
                    continue
                raise
            if stream.id != self._stream.id:
                name = stream.config.name
                raise LiftlogError(f"stream '{name}' was deleted and created anew; follow it again")
            known, self._stream = len(self._stream.partitions), stream
            for index in range(known, len(stream.partitions)):
                reader = self._open(stream, index)
                self._begin(reader, await _first(reader, start, timestamp_ms))


async def _first(reader: Reader, start: str | int, timestamp_ms: int) -> int:
    """The offset to begin with: of a partition that does not reach so far, its end."""
    if start in (EARLIEST, 0):
        reader.mind_deletions()
    if isinstance(start, int):
        return min(start, await reader.offset(NEW)) if start else 0
    return await reader.offset(start, timestamp_ms)
