"""Two small files beside a log's segments: where it starts, and what of it cannot be read.

`start` is there as long as the log: the log start (C3), the epochs before it, which no segment may tell any
longer (R6), and the durability that was promised (R5). It is written before what it makes obsolete goes away,
so that whatever lies below the log start is a left-over. `unfinished` marks a reset under way: every segment
goes.

`damage` is there while ranges of offsets are known to be damaged (D2): they are to be copied again before
this replica counts, even if the node restarts meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from liftlog.epochs import EpochHistory
from liftlog.ports import Disk
from liftlog.storage.layout import DAMAGE, START, log_directory
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.types import EpochStart, OffsetRange, PartitionId

SYNC = "sync"
OS = "os"
"""LogOptions.durability: a write counts as durable once the kernel has it."""


class LogStart(msgspec.Struct, frozen=True):
    """The content of `start`."""

    log_start: int = 0
    epochs: tuple[EpochStart, ...] = ()
    """Every epoch that began below the log start."""
    durability: str = SYNC
    unfinished: bool = False


class DamageNote(msgspec.Struct, frozen=True):
    """The content of `damage`. Before version 0.1 was out it was the ranges alone; their ends then all count
    as late.
    """

    ranges: tuple[OffsetRange, ...] = ()
    """Ascending; they do not touch."""
    late: tuple[int, ...] = ()
    """Ends of ranges that were read past without an index: an epoch that seems to begin there may have begun
    inside the range (R6)."""
    epochs: tuple[EpochStart, ...] | None = None
    """Every epoch that begins inside a range, but for what `late` leaves open, so that nothing of it is lost
    with an index. None: a release wrote it that did not note them.
    """

    def covers(self, lost: OffsetRange) -> bool:
        """Whether the epochs that begin in these offsets are known from this note."""
        if self.epochs is None:
            return False
        return any(
            one.start <= lost.start and lost.end <= one.end and lost.end not in self.late
            for one in self.ranges
        )

    def within(self, ranges: tuple[OffsetRange, ...]) -> DamageNote:
        """These ranges instead, and what is known of them."""
        late = (offset for offset in self.late if any(one.start < offset <= one.end for one in ranges))
        epochs = None if self.epochs is None else _beginning_in(ranges, self.epochs)
        return DamageNote(ranges, tuple(late), epochs)

    def tell(self, history: EpochHistory) -> None:
        """Add to the history that the segments tell what was noted beside them, unless they contradict it."""
        for epoch, start in self.epochs or ():
            if history.admits(epoch, start):
                history.learn(epoch, start)

    def told_by(self, history: EpochHistory) -> DamageNote:
        """With the epochs that this history, which is the whole log's, has in the ranges."""
        return msgspec.structs.replace(self, epochs=_beginning_in(self.ranges, history.entries))


def _beginning_in(ranges: Iterable[OffsetRange], epochs: Iterable[EpochStart]) -> tuple[EpochStart, ...]:
    ranges = tuple(ranges)
    return tuple(epoch for epoch in epochs if any(one.start <= epoch.start < one.end for one in ranges))


NO_DAMAGE = DamageNote()


class CleanLog(msgspec.Struct, frozen=True, array_like=True):
    """What the clean-stop marker says about one log. `segments` = how many reach above the log start."""

    log: PartitionId
    leo: int
    epochs: tuple[EpochStart, ...]
    segments: int


def read_start(disk: Disk, log: PartitionId) -> LogStart | None:
    """None if there is none. Raises CorruptState, DiskError."""
    path = start_path(log)
    content = read_state(disk, path)
    if content is None:
        return None
    try:
        return msgspec.msgpack.decode(content, type=LogStart)
    except msgspec.MsgspecError as error:
        raise CorruptState(f"{path} byte 16: {error}") from error


def write_start(disk: Disk, log: PartitionId, start: LogStart) -> None:
    """Durably. Raises DiskError, SyncFailed."""
    write_state(disk, start_path(log), msgspec.msgpack.encode(start))


def read_damage(disk: Disk, log: PartitionId) -> DamageNote:
    """What is known to be damaged. Raises CorruptState, DiskError."""
    path = f"{log_directory(log)}/{DAMAGE}"
    content = read_state(disk, path)
    if content is None:
        return DamageNote()
    try:
        found = msgspec.msgpack.decode(content, type=DamageNote | tuple[OffsetRange, ...])
    except msgspec.MsgspecError as error:
        raise CorruptState(f"{path} byte 16: {error}") from error
    return found if isinstance(found, DamageNote) else DamageNote(found, tuple(one.end for one in found))


def write_damage(disk: Disk, log: PartitionId, damage: DamageNote) -> None:
    """Durably; without any range the file goes. Raises DiskError, SyncFailed."""
    path = f"{log_directory(log)}/{DAMAGE}"
    if damage.ranges:
        write_state(disk, path, msgspec.msgpack.encode(damage))
    elif disk.exists(path):
        disk.remove(path)
        disk.sync_directory(log_directory(log))


def start_path(log: PartitionId) -> str:
    return f"{log_directory(log)}/{START}"


def united(ranges: Iterable[OffsetRange], start: int, end: int) -> tuple[OffsetRange, ...]:
    """The parts of the ranges within [start, end), ascending, with those joined that touch."""
    found: list[OffsetRange] = []
    for one in sorted(ranges):
        low, high = max(one.start, start), min(one.end, end)
        if low >= high:
            continue
        if found and low <= found[-1].end:
            found[-1] = OffsetRange(found[-1].start, max(found[-1].end, high))
        else:
            found.append(OffsetRange(low, high))
    return tuple(found)


def without(ranges: Iterable[OffsetRange], gone: OffsetRange) -> tuple[OffsetRange, ...]:
    """The ranges less `gone`, ascending."""
    found: list[OffsetRange] = []
    for one in sorted(ranges):
        for low, high in ((one.start, min(one.end, gone.start)), (max(one.start, gone.end), one.end)):
            if low < high:
                found.append(OffsetRange(low, high))
    return tuple(found)
