"""Reading a stream from somewhere until somewhere: one partition, or all at once, and those that it gets
meanwhile (R19).

Order holds within each partition. One task for each partition fetches, and hands lists of records to who
reads; together they hold a bounded number of bytes, and wait when he does. A partition that appears while a
stream is read is read from its front: whatever is in it came later than what was asked for.

Nothing is skipped in silence. What retention removes before it is read is told, as an error or to
`on_gap`; only what was removed before a reading that begins at the front, or at a time, has come to its
first record is not missed by it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Literal, NamedTuple, Protocol

from liftlog.client.bounds import END, FOREVER, TIME_SLACK_MS, At, Start, Until, check_bounds, place_in
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.filtering import BEHIND_JUMP_BYTES, ReadingFilter
from liftlog.client.progress import OnProgress, ProgressTeller, ReadingProgress
from liftlog.client.reader import EARLIEST, NEW, RETRY_PAUSE_S, TIME, Reader
from liftlog.client.transport import Transport
from liftlog.messages import ERR_OFFSET_RANGE, StreamInfo
from liftlog.types import LiftlogError, Record

LOOK_S = 1.0
"""How often is looked for partitions that were added."""
CANCEL_S = 0.1
BUFFER_BYTES = 16 * 1024 * 1024
BUFFER_BYTES_MIN = 64 * 1024
FETCH_BYTES_MAX = 1024 * 1024
RECORD_BYTES = 100
"""What a record counts for beside its bytes."""

PartitionList = tuple[int, list[Record]]


class PartitionRecord(NamedTuple):
    partition: int
    record: Record


class Gap(NamedTuple):
    """Records from offset `first` on, up to but without `next`, were removed before they were read."""

    stream: str
    partition: int
    first: int
    next: int


class RecordsGone(LiftlogError):
    """Retention, or a purge, has removed what was to be read next; `gap` says what."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(
            f"partition {gap.partition} of '{gap.stream}': records {gap.first} to {gap.next - 1} were "
            f"removed before they were read; go on from {gap.next}, or give on_gap to be told and go on"
        )
        self.gap = gap


class ByteBudget:
    """So many bytes may be held; who wants more waits, in the order of asking. What is larger than all of it
    may be held alone.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        if not self._waiting and self._has_place(size):
            self.used += size
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give(size)
            raise

    def give(self, size: int) -> None:
        self.used -= size
        while self._waiting and (self._waiting[0][1].done() or self._has_place(self._waiting[0][0])):
            wanted, future = self._waiting.popleft()
            if not future.done():
                self.used += wanted
                future.set_result(None)

    def _has_place(self, size: int) -> bool:
        return not self.used or self.used + size <= self.limit


class StreamReading:
    """The records of a stream, as an async iterator; close it (`async with`) if it is left before its end.

    Made by `Client.read`. Iterating raises RecordsGone; RequestFailed with code ERR_COMPACTED if a reading
    from the front missed deletions (C4); LiftlogError if the stream is gone, or cannot be read.
    """

    def __init__(
        self,
        transport: Transport,
        stream: StreamInfo,
        open: Callable[[StreamInfo, int], Reader],
        start: Start = EARLIEST,
        until: Until = END,
        *,
        partition: int | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        on_gap: Callable[[Gap], object] | None = None,
        on_progress: OnProgress | None = None,
        filter: str | None = None,
        keys: Sequence[str] = (),
        look_s: float = LOOK_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises LiftlogError for bounds that the stream does not have."""
        name = stream.config.name
        check_bounds(start, until, len(stream.partitions), name)
        if partition is not None and not 0 <= partition < len(stream.partitions):
            there = len(stream.partitions) - 1
            raise LiftlogError(f"stream '{name}' has partitions 0 to {there}, not {partition}")
        if buffer_bytes < BUFFER_BYTES_MIN:
            raise LiftlogError(f"buffer_bytes={buffer_bytes} is too little; give at least {BUFFER_BYTES_MIN}")
        self._transport = transport
        self._stream = stream
        self._open = open
        self._start = start
        self._until = until
        self._on_gap = on_gap
        self._progress = ProgressTeller(on_progress)
        self._filter = filter
        self._keys = tuple(keys)
        self.filter_of()
        self._look_s = look_s
        self._clock = clock
        self._known = len(stream.partitions)
        chosen = range(self._known) if partition is None else [partition]
        if isinstance(until, Mapping):
            chosen = [index for index in chosen if index in until]
        self._chosen = list(chosen)
        self._grows = partition is None and (until == FOREVER or isinstance(until, At))
        self._buffer_bytes = buffer_bytes
        self._budget = ByteBudget(buffer_bytes // 2)
        self._lists: deque[tuple[int, list[Record], int, int]] = deque()
        """(Partition, records, where it goes on behind them, bytes)."""
        self._more = asyncio.Event()
        self._over: Exception | None = None
        """Why there will be no more: StopAsyncIteration, or what went wrong."""
        self._tasks: list[asyncio.Task[None]] = []
        self._runner: asyncio.Task[None] | None = None
        self._held = 0
        """The bytes of the list that was handed out last."""
        self._rest: Iterator[Record] = iter(())
        self._index = 0
        self._behind = 0
        self.positions: dict[int, int] = {}
        """By partition: the offset behind the last record that was handed out, or where it begins; a later
        reading starts from there."""
        self.ends: dict[int, int] = {}
        """By partition: where what is committed ended when a server last answered."""

    # -- for who reads -------------------------------------------------------------------------------------

    async def __aenter__(self) -> StreamReading:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> StreamReading:
        return self

    async def __anext__(self) -> PartitionRecord:
        while True:
            for record in self._rest:
                self.positions[self._index] = record.offset + 1
                return PartitionRecord(self._index, record)
            self._settle()
            self._index, records, self._behind, self._held = await self._take()
            self._rest = iter(records)

    async def next_list(self) -> PartitionList:
        """The same, in lists of records of one partition: less work for each record. Raises
        StopAsyncIteration at the end.
        """
        records = list(self._rest)
        if not records:
            self._settle()
            self._index, records, self._behind, self._held = await self._take()
        self.positions[self._index] = records[-1].offset + 1
        return self._index, records

    async def lists(self) -> AsyncGenerator[PartitionList]:
        """All lists until the end. Over when a wait in it is cancelled; `next_list` can be asked again."""
        try:
            while True:
                yield await self.next_list()
        except StopAsyncIteration:
            return

    async def aclose(self) -> None:
        """No task goes on, and nothing is held. More than once is harmless."""
        self._over = self._over or StopAsyncIteration()
        self._more.set()
        left = {task for task in (self._runner, *self._tasks) if task is not None and not task.done()}
        # `wait_for` may keep a cancellation to itself.
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_S)
        self._lists.clear()
        self._rest = iter(())

    @property
    def held_bytes(self) -> int:
        """How much waits to be read."""
        return self._budget.used

    def _settle(self) -> None:
        """The list that was handed out last has been read."""
        if self._held:
            self.positions[self._index] = self._behind
            self._budget.give(self._held)
            self._held = 0
            place = (self._stream.config.name, self._index)
            end = self.ends.get(self._index, self._behind)
            self._progress.tell([ReadingProgress(*place, self._behind, end)])

    async def _take(self) -> tuple[int, list[Record], int, int]:
        """The next list. Raises what ends the reading."""
        if self._runner is None and self._over is None:
            self._runner = asyncio.create_task(self._telling(self._run()))
        while not self._lists:
            if self._over is not None:
                over = self._over
                await self.aclose()
                raise over
            self._more.clear()
            await self._more.wait()
        return self._lists.popleft()

    # -- reading -------------------------------------------------------------------------------------------

    async def _telling(self, work: Coroutine[None, None, None]) -> None:
        """Who reads is told what goes wrong for good, our own mistakes too."""
        try:
            await work
        except Exception as error:
            self._end(error)

    def _end(self, why: Exception) -> None:
        self._over = self._over or why
        self._more.set()

    async def _run(self) -> None:
        readers = [self._open(self._stream, index) for index in self._chosen]
        bounds = await asyncio.gather(*(self._bounds(reader) for reader in readers))
        for reader, (offset, end) in zip(readers, bounds, strict=True):
            self._begin(reader, self._start, offset, end)
        while True:
            running = [task for task in self._tasks if not task.done()]
            if running:
                await asyncio.wait(running, timeout=self._look_s if self._grows else None)
            done = all(task.done() for task in self._tasks)
            if self._grows and await self._look(done):
                continue
            if done:
                self._end(StopAsyncIteration())
                return

    def _begin(self, reader: Reader, start: Start, offset: int, end: int | None) -> None:
        self.positions[reader.partition.index] = offset
        work = PartitionReading(self, reader, start, offset, end).run()
        self._tasks.append(asyncio.create_task(self._telling(work)))

    async def _bounds(self, reader: Reader) -> tuple[int, int | None]:
        """Where a partition is to be read from, and until where if that is known."""
        index, until = reader.partition.index, self._until
        end: int | None = None
        if isinstance(until, Mapping):
            end = until[index]
        elif isinstance(until, int):
            end = until
        elif until == END:
            end = await reader.offset(NEW)
        return await self._first(reader, self._start), end

    async def _first(self, reader: Reader, start: Start) -> int:
        """The offset to begin with."""
        index = reader.partition.index
        place = place_in(start, index)
        if place in (EARLIEST, 0):
            reader.mind_deletions()
        if isinstance(place, At):
            return await reader.offset(TIME, place.timestamp_ms)
        if isinstance(place, str):
            return await reader.offset(place)
        if place == 0:
            return 0
        end = await reader.offset(NEW)
        if place > end and (isinstance(self._start, Mapping) or len(self._chosen) == 1):
            raise LiftlogError(
                f"partition {index} of '{self._stream.config.name}' ends at offset {end}, and is to be read "
                f"from {place}: was the stream made anew, or a leader elected uncleanly? Read from {end} or "
                "'earliest'"
            )
        return min(place, end)

    async def _look(self, done: bool) -> bool:
        """Begin to read what is new of the stream. Whether there may be more to come of it."""
        try:
            stream = await self._transport.stream(self._stream.config.name)
        except Unreachable:
            if done:
                raise
            return True
        except RequestFailed as error:
            if not error.retryable or done:
                raise
            return True
        if stream.id != self._stream.id:
            raise LiftlogError(
                f"stream '{stream.config.name}' was deleted and created anew; read it again from its front"
            )
        known, self._known, self._stream = self._known, len(stream.partitions), stream
        start: Start = self._start if isinstance(self._start, At) else EARLIEST
        for index in range(known, self._known):
            reader = self._open(stream, index)
            self._chosen.append(index)
            self._begin(reader, start, await self._first(reader, start), None)
        return self._known > known

    # -- for each partition --------------------------------------------------------------------------------

    @property
    def fetch_bytes(self) -> int:
        """How much a partition may ask for at once: all together half of what may be held."""
        return max(4096, min(FETCH_BYTES_MAX, self._buffer_bytes // 2 // max(1, len(self._chosen))))

    def filter_of(self) -> ReadingFilter | None:
        """A new one, for a partition; None: all records are wanted. Raises PatternRefused."""
        if self._filter is None and not self._keys:
            return None
        return ReadingFilter(self._filter, self._keys, may_skip=not self._stream.config.compact)

    @property
    def until_ms(self) -> int | None:
        return self._until.timestamp_ms if isinstance(self._until, At) else None

    def is_past(self, timestamp_ms: int) -> bool:
        """Whether no leader will give a record an earlier time any more."""
        return self._clock() * 1000 >= timestamp_ms + TIME_SLACK_MS

    async def hand_over(self, index: int, records: list[Record], behind: int) -> None:
        """Wait for room, then have `records` read."""
        size = sum(map(_size, records))
        await self._budget.take(size)
        self._lists.append((index, records, behind, size))
        self._more.set()

    def tell_gap(self, index: int, first: int, next: int) -> None:
        """Raises RecordsGone if nobody wants to be told otherwise."""
        gap = Gap(self._stream.config.name, index, first, next)
        if self._on_gap is None:
            raise RecordsGone(gap)
        self._on_gap(gap)


class PartitionReading:
    """One partition of a reading."""

    def __init__(
        self, owner: StreamReading, reader: Reader, start: Start, offset: int, end: int | None
    ) -> None:
        self._owner = owner
        self._reader = reader
        self._index = reader.partition.index
        self._offset = offset
        self._end = end
        self._start = place_in(start, self._index)
        self._not_before_ms = start.timestamp_ms if isinstance(start, At) else None
        """A replica that is behind may place a time too early; what lies before it is passed over."""
        self._filter = owner.filter_of()
        self._has_come = False
        """A server has answered: from here on nothing may be missed."""

    async def run(self) -> None:
        while self._end is None or self._offset < self._end:
            if await self._read():
                return

    async def _read(self) -> bool:
        """Whether the end is reached."""
        owner, reader, chosen = self._owner, self._reader, self._filter
        size = owner.fetch_bytes
        if chosen is not None:
            self._offset = await chosen.place_behind(reader, self._offset)
            size = min(size, BEHIND_JUMP_BYTES) if chosen.jumped else size
            if self._end is not None and self._offset >= self._end:
                return True
        # Where a reading begins or ends by time, all records are looked at for theirs.
        asks = chosen is not None and self._not_before_ms is None and owner.until_ms is None
        subjects, keys = (chosen.subjects, chosen.keys) if chosen is not None and asks else ([], [])
        try:
            records = await reader.fetch(self._offset, max_bytes=size, subjects=subjects, keys=keys)
        except RequestFailed as error:
            if error.code != ERR_OFFSET_RANGE:
                raise
            await self._pass_gap()
            return False
        self._has_come = True
        owner.ends[self._index] = reader.seen_hw
        found, over = self._within(records)
        last = found[-1].offset + 1 if over and found else reader.position
        looked, self._offset = reader.position - self._offset, reader.position
        found = found if chosen is None else chosen.pick(found, looked)
        if found:
            await owner.hand_over(self._index, found, last)
        until_ms = owner.until_ms
        if not over and self._end is None and until_ms is not None and owner.is_past(until_ms):
            self._end = await reader.offset(NEW)
        return over

    def _within(self, records: list[Record]) -> tuple[list[Record], bool]:
        """Those that lie within the bounds, and whether one lies beyond."""
        first_ms, until_ms, end = self._not_before_ms, self._owner.until_ms, self._end
        if first_ms is not None:
            at = next((n for n, record in enumerate(records) if record.timestamp_ms >= first_ms), None)
            if at is None:
                return [], False
            records = records[at:]
            self._not_before_ms = None
        if end is not None and records and records[-1].offset >= end:
            return [record for record in records if record.offset < end], True
        if until_ms is not None:
            for number, record in enumerate(records):
                if record.timestamp_ms >= until_ms:
                    return records[:number], True
        return records, False

    async def _pass_gap(self) -> None:
        """What was to come next is gone: tell it, if it was promised, and go on behind it."""
        promised = self._has_come or not (self._start == EARLIEST or isinstance(self._start, At))
        start = await self._reader.offset(EARLIEST)
        if start <= self._offset:
            # Another replica still has it.
            await asyncio.sleep(RETRY_PAUSE_S)
            return
        if promised:
            behind = start if self._end is None else min(start, self._end)
            self._owner.tell_gap(self._index, self._offset, behind)
        elif not isinstance(self._start, At):
            self._reader.mind_deletions()
        self._offset = start


def _size(record: Record) -> int:
    return (
        RECORD_BYTES
        + len(record.subject)
        + len(record.headers)
        + len(record.key or b"")
        + len(record.value or b"")
    )


class ReadingOwner(Protocol):
    """What streams and partitions are read with: the client."""

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo: ...

    def reader(
        self,
        stream: StreamInfo,
        partition: int = 0,
        *,
        node: int = 0,
        spread: bool = False,
        timeout_ms: int = 0,
    ) -> Reader: ...

    async def read(
        self,
        stream: str | StreamInfo,
        partition: int | None = None,
        *,
        start: Start = EARLIEST,
        until: Until = END,
        replica: Literal["leader", "any"] | int = "leader",
        on_gap: Callable[[Gap], object] | None = None,
    ) -> StreamReading: ...
