"""Cursors: a position in a partition that the cluster keeps under a name (G6).

    await client.set_cursor("billing", "orders", 0, 17)
    offset = await client.fetch_cursor("billing", "orders", 0)     # 17, whoever asks, from now on

    async with await client.resume("billing", "orders") as reading:
        async for partition, record in reading:
            ...

A cursor is a register of the internal stream `__cursors`, which is made with the first one. It belongs to the
stream that bore the name when it was set: one that was made anew has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Literal, NamedTuple, Protocol

import msgspec

from liftlog.client.bounds import FOREVER, Until
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.progress import OnProgress, ProgressTeller, ReadingProgress
from liftlog.client.reader import EARLIEST
from liftlog.client.reading import Gap, PartitionRecord, ReadingOwner, StreamReading
from liftlog.client.registers import Register, RegisterOwner, Registers, checked_name
from liftlog.groups.streams import CURSORS
from liftlog.messages import StreamInfo
from liftlog.types import NO_OFFSET, NUMBER_MAX, LiftlogError

CHECKPOINT_MS = 1000
FORMAT = 1


class CursorValue(msgspec.Struct, frozen=True):
    """What a register holds."""

    stream: int
    """The id of the stream."""
    offset: int
    by: str
    """Whose write it is, and no other one's."""
    format: int = FORMAT


class KeptCursor(NamedTuple):
    """A cursor that is there. `offset`: the first record that is not done."""

    name: str
    stream: str
    partition: int
    offset: int
    stream_id: int


class CursorSet(LiftlogError):
    """Somebody else has set a cursor that a reading keeps."""


_decoder = msgspec.json.Decoder(CursorValue)


def decode_cursor(data: bytes | None, key: str) -> CursorValue | None:
    """Raises LiftlogError for what is no cursor."""
    if data is None:
        return None
    try:
        value = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise LiftlogError(f"cursor {key} cannot be read: {error}; did something else write it?") from None
    if value.format != FORMAT:
        raise LiftlogError(f"cursor {key} has format {value.format}, of a later release; use that release")
    return value


def cursor_key(name: str, stream: str, partition: int) -> str:
    """Raises LiftlogError for what cannot be in one."""
    if partition < 0:
        raise LiftlogError(f"there is no partition {partition}; the first one is 0")
    return f"{checked_name('cursor', name)}.{checked_name('stream', stream)}.{partition}"


class CursorOwner(RegisterOwner, ReadingOwner, Protocol):
    """What cursors are kept with: the client."""

    async def fetch_cursor(self, name: str, stream: str, partition: int = 0) -> int | None: ...


class UsesCursors:
    """A client's cursors. All raise LiftlogError, RequestFailed, Unreachable."""

    async def set_cursor(self: CursorOwner, name: str, stream: str, partition: int, offset: int) -> None:
        """Set a cursor, wherever it was. When this returns, it is on every replica in sync, and whoever asks
        gets it, or what was set meanwhile: of two that set it at once either is the first.
        """
        info = await self.stream(stream)
        _check_partition(info, partition)
        if not 0 <= offset <= NUMBER_MAX:
            raise LiftlogError(f"offset {offset} of cursor '{name}' is none; use 0 to {NUMBER_MAX}")
        registers, key = Registers(self, CURSORS), cursor_key(name, stream, partition)
        value = msgspec.json.encode(CursorValue(info.id, offset, secrets.token_hex(8)))
        # Who is refused has been overtaken while it asked: it is as if it had come just before the other one.
        await registers.put(key, value, (await registers.get(key)).version)

    async def fetch_cursor(self: CursorOwner, name: str, stream: str, partition: int = 0) -> int | None:
        """Where a cursor stands; None: it was never set, or for an earlier stream of the name."""
        key = cursor_key(name, stream, partition)
        value = decode_cursor((await Registers(self, CURSORS).get(key)).value, key)
        if value is None:
            return None
        return value.offset if value.stream == (await self.stream(stream)).id else None

    async def cursors(self: CursorOwner, name: str = "") -> list[KeptCursor]:
        """All cursors, or those of one name, of streams that were made anew too."""
        registers = Registers(self, CURSORS)
        found: list[KeptCursor] = []
        for key in await registers.keys(f"{checked_name('cursor', name)}.>" if name else ">"):
            value = decode_cursor((await registers.get(key)).value, key)
            if value is not None:
                called, stream, partition = key.split(".")
                found.append(KeptCursor(called, stream, int(partition), value.offset, value.stream))
        return found

    async def delete_cursor(self: CursorOwner, name: str, stream: str, partition: int = 0) -> None:
        """Remove a cursor; one that is not there is no error."""
        registers, key = Registers(self, CURSORS), cursor_key(name, stream, partition)
        there = await registers.get(key)
        if there.value is not None:
            await registers.put(key, None, there.version)

    async def resume(
        self: CursorOwner,
        name: str,
        stream: str | StreamInfo,
        partition: int | None = None,
        *,
        until: Until = FOREVER,
        replica: Literal["leader", "any"] | int = "leader",
        on_gap: Callable[[Gap], object] | None = None,
        on_progress: OnProgress | None = None,
        checkpoint_ms: int = CHECKPOINT_MS,
    ) -> CursorReading:
        """Read on from where a cursor stands, and keep it: a record is done when the next one is asked for.

        The cursor is set every `checkpoint_ms`, and when the block is left. What was done since then is read
        again after a crash; nothing is left out. One program at a time: if another one sets the cursor,
        the reading raises CursorSet. Several that share the work are a group (`Client.group`).
        `on_progress` is called with a `ReadingProgress` of each partition whose cursor was set.
        """
        info = stream if isinstance(stream, StreamInfo) else await self.stream(stream)
        if partition is not None:
            _check_partition(info, partition)
        chosen = range(len(info.partitions)) if partition is None else [partition]
        keeper = CursorKeeper(Registers(self, CURSORS), name, info)
        start: dict[int, int] = {}
        for index in chosen:
            offset = await keeper.load(index)
            if offset is not None:
                start[index] = offset
        reading = await self.read(
            info, partition, start=start or EARLIEST, until=until, replica=replica, on_gap=on_gap
        )
        return CursorReading(reading, keeper, checkpoint_ms, ProgressTeller(on_progress))


def _check_partition(info: StreamInfo, partition: int) -> None:
    there = len(info.partitions)
    if not 0 <= partition < there:
        raise LiftlogError(f"stream '{info.config.name}' has partitions 0 to {there - 1}, not {partition}")


class CursorKeeper:
    """The cursors of one name and stream, as this program has set them."""

    def __init__(self, registers: Registers, name: str, stream: StreamInfo) -> None:
        self._registers = registers
        self._name = name
        self._stream = stream
        self._kept: dict[int, Register] = {}
        self._offsets: dict[int, int] = {}
        self._me = secrets.token_hex(8)
        self._count = 0

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._stream.config.name

    async def load(self, partition: int) -> int | None:
        """Where a cursor stands."""
        key = cursor_key(self._name, self._stream.config.name, partition)
        register = self._kept[partition] = await self._registers.get(key)
        value = decode_cursor(register.value, key)
        if value is None or value.stream != self._stream.id:
            return None
        self._offsets[partition] = value.offset
        return value.offset

    async def keep(self, partition: int, offset: int) -> None:
        """Set it, behind what was set or loaded here last. Raises CursorSet."""
        key = cursor_key(self._name, self._stream.config.name, partition)
        while self._offsets.get(partition) != offset:
            self._count += 1
            value = msgspec.json.encode(CursorValue(self._stream.id, offset, f"{self._me}/{self._count}"))
            known = self._kept.get(partition) or Register(None, NO_OFFSET)
            done = await self._registers.put(key, value, known.version)
            there = decode_cursor(done.register.value, key)
            if there is None or not there.by.startswith(self._me):
                raise CursorSet(
                    f"cursor {key} was set by another program; let one read at a time, or use a group "
                    "(client.group), whose members share the partitions"
                )
            # It may be what an earlier attempt has set, of which nobody said what became of it.
            self._kept[partition] = done.register
            self._offsets[partition] = there.offset


class CursorReading:
    """See `Client.resume`: an async context and iterator of (partition, record)."""

    def __init__(
        self, reading: StreamReading, keeper: CursorKeeper, checkpoint_ms: int, progress: ProgressTeller
    ) -> None:
        self._reading = reading
        self._progress = progress
        self._keeper = keeper
        self._checkpoint_s = checkpoint_ms / 1000
        self._done: dict[int, int] = {}
        """By partition: what was asked for the next one after."""
        self._in_hand: PartitionRecord | None = None
        self._problem: LiftlogError | None = None
        self._lock = asyncio.Lock()
        self._leaving = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> CursorReading:
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        if self._task is not None:
            await self._task
        await self._reading.aclose()
        if self._problem is None:
            await self.checkpoint()

    def __aiter__(self) -> CursorReading:
        return self

    async def __anext__(self) -> PartitionRecord:
        self.done()
        if self._problem is not None:
            raise self._problem
        try:
            self._in_hand = await self._reading.__anext__()
        except StopAsyncIteration:
            if self._problem is not None:
                raise self._problem from None
            raise
        return self._in_hand

    def done(self) -> None:
        """The record that was handed out last is done."""
        if self._in_hand is not None:
            self._done[self._in_hand.partition] = self._in_hand.record.offset + 1
            self._in_hand = None

    async def checkpoint(self) -> None:
        """Set the cursors now, behind what is done. Raises CursorSet, Unreachable."""
        async with self._lock:
            for partition, offset in sorted(self._done.items()):
                await self._keeper.keep(partition, offset)
                end = self._reading.ends.get(partition, offset)
                self._progress.tell([ReadingProgress(self._keeper.stream, partition, offset, end)])

    async def _keep(self) -> None:
        while self._problem is None and not self._leaving.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._checkpoint_s):
                    await self._leaving.wait()
                return
            try:
                await self.checkpoint()
            except LiftlogError as problem:
                if isinstance(problem, Unreachable) or (
                    isinstance(problem, RequestFailed) and problem.retryable
                ):
                    continue
                self._problem = problem
                await self._reading.aclose()
