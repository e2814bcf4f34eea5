"""One open log: a row of segments without a gap between them, of which the last one grows.

Theory. `leo` is the next offset to write and `durable_leo` how far a sync is known to have reached; only
the latter may be reported (R5). Each append stamps what is truly synced into its batches as `synced_below`,
which later tells damage from a torn write (R14). Segments before the last are synced before the next one is
created, so only the last can hold bytes that are not durable. With durability "os" a write counts as durable
without a sync: an explicit opt-out, which a start after an unclean stop remembers.

After a sync failed nothing that follows the last good one can be trusted, and trying again would succeed
without doing anything. The log then carries a `failure` and refuses everything until it is rebuilt from a
copy (R5). A refused *write* is different: what it wrote is cut off and the log goes on (D5). Appends that
were meant to follow the refused one are recognised by their base offset and refused as well, so that no gap
can arise.

Complete segments change in three ways: the log start moves past them, a reset throws all away, or a new
file takes the place of some. Each is one durable step: before it a crash undoes the change, after it the next
start finishes it (D4).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from operator import attrgetter

import msgspec

from liftlog.batchparts import slice_batch
from liftlog.epochs import EpochHistory
from liftlog.format import PREFIX_BYTES, CorruptBatch, last_timestamp_ms, stamp
from liftlog.ports import Disk, DiskFile, SyncFailed
from liftlog.storage.copying import create_empty, replace_segment
from liftlog.storage.index import prepare_index, write_index
from liftlog.storage.indexes import CAPACITY_ENTRIES, Indexes
from liftlog.storage.layout import TEMPORARY_SUFFIX, log_directory, segment_path
from liftlog.storage.logfiles import finish_reset, remove_derived, remove_if_there, remove_segments_after
from liftlog.storage.logstate import (
    NO_DAMAGE,
    OS,
    SYNC,
    CleanLog,
    DamageNote,
    LogStart,
    united,
    without,
    write_damage,
    write_start,
)
from liftlog.storage.reading import SegmentReader
from liftlog.storage.sealing import Sealer
from liftlog.storage.segment import BadBytes, Segment, scan
from liftlog.storage.verdict import remember_verdict
from liftlog.storage.writer import SegmentWriter
from liftlog.types import (
    Batch,
    EpochStart,
    InvariantViolation,
    LogOptions,
    LogSummary,
    OffsetRange,
    PartitionId,
    TailState,
    invariant,
)

_base_offset, _end_offset = attrgetter("base_offset"), attrgetter("end_offset")


class StorageOptions(msgspec.Struct, frozen=True):
    """Limits of one node's storage."""

    log: LogOptions = LogOptions()
    """How a log is written until `OpenLog` or `ConfigureLog` says otherwise; the Raft log always is so."""
    index_entries: int = CAPACITY_ENTRIES
    """Bound on the entries of the indexes in memory, all logs together."""


class Failure(msgspec.Struct, frozen=True):
    """Why a log refuses work. `sync`: for good, until it is rebuilt (R5)."""

    sync: bool
    error: str


class AppendRefused(Exception):
    """An append that would leave a gap, because the one before it was refused."""


class Log:
    """An open log. Only the storage thread may touch it."""

    def __init__(
        self,
        disk: Disk,
        log: PartitionId,
        options: LogOptions,
        sealer: Sealer | None,
        indexes: Indexes,
        start: LogStart,
        segments: list[Segment],
        file: DiskFile,
        tail: TailState,
        damage: DamageNote = NO_DAMAGE,
    ) -> None:
        """Take over segments that are durable and follow one another; `file` is the last one's."""
        self.id = log
        self.tail = tail
        self.failure: Failure | None = None
        self.dirty = False
        self._damage = damage
        self.options = options
        self._disk = disk
        self._directory = log_directory(log)
        self._sealer = sealer
        self._indexes = indexes
        self._start = start
        self._segments = segments
        self._file = file
        self._reader = SegmentReader(disk, log, indexes, sealer, segments[-1], file)
        self._refused = ""
        self._greatest_ms: list[int] = []
        """Of each complete segment and all before it; empty = to be computed."""
        self.epochs = EpochHistory()
        self.refresh()
        self.leo = self.synced_leo = segments[-1].end_offset

    @property
    def log_start(self) -> int:
        return self._start.log_start

    @property
    def damage(self) -> tuple[OffsetRange, ...]:
        """Ranges that cannot be read, ascending (D2). Complete segments only."""
        return self._damage.ranges

    @property
    def durable_leo(self) -> int:
        """What may be reported as durable (R5)."""
        return self.leo if self.options.durability == OS else self.synced_leo

    @property
    def must_sync(self) -> bool:
        """Whether a sync has to come before what was appended is reported."""
        return self.dirty and self.options.durability != OS

    @property
    def growing_file(self) -> DiskFile:
        """The last segment's."""
        return self._file

    @property
    def sealed(self) -> tuple[Segment, ...]:
        """The complete segments, ascending: all but the one that grows."""
        return tuple(self._segments[:-1])

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in tuple(self._segments))

    def summary(self, hw: int) -> LogSummary:
        """What the core is told when the log was opened."""
        place = (self.id, self.log_start, self.durable_leo, hw, self.epochs.as_tuple())
        return LogSummary(*place, tail=self.tail, damage=self.damage, late_epochs=self._damage.late)

    def refresh(self) -> None:
        """The row of complete segments has changed: derive anew what follows from it."""
        first = self._segments[0].base_offset
        self.epochs = EpochHistory(epoch for epoch in self._start.epochs if epoch.start < first)
        for segment in self._segments:
            for epoch, start in segment.epochs:
                self.epochs.note(epoch, start)
        self._damage.tell(self.epochs)
        self._greatest_ms = []

    # ----- writing -----

    def configure(self, options: LogOptions) -> None:
        """Write in this way from now on. Raises SyncFailed if what was written cannot be made durable.

        A start must know of durability "os" before anything counts as durable without a sync: if that
        cannot be written, the log goes on syncing.
        """
        if options.durability != OS:
            self.sync()
        if options.durability != self._start.durability:
            try:
                self._set_start(msgspec.structs.replace(self._start, durability=options.durability))
            except OSError:
                options = msgspec.structs.replace(options, durability=SYNC)
        self.options = options

    def append(self, batches: Sequence[Batch]) -> None:
        """Write batches at the LEO, in one vectored write; they are durable after `sync`.

        Raises AppendRefused after an earlier append was refused, DiskError if the write was refused and cut
        off again, SyncFailed if the log cannot go on, InvariantViolation if the batches do not continue the
        log.
        """
        if not batches:
            return
        leo = self.leo
        last_epoch = self.epochs.last()
        synced_below = self.synced_leo
        sealer = self._sealer
        parts: list[bytes | memoryview] = []
        frames: list[bytes] = []
        total = 0
        for batch in batches:
            if batch.base_offset != leo:
                if self._refused and batch.base_offset > leo:
                    raise AppendRefused(f"an earlier append was refused: {self._refused}")
                raise InvariantViolation(f"log {self.id}: batch at {batch.base_offset} appended at LEO {leo}")
            if batch.epoch < last_epoch:
                raise InvariantViolation(f"log {self.id}: epoch {batch.epoch} appended after {last_epoch}")
            frame = batch.data if sealer is None else sealer.seal(self.id, batch.data)
            parts.append(stamp(frame, synced_below))
            parts.append(memoryview(frame)[PREFIX_BYTES:])
            frames.append(frame)
            total += len(frame)
            leo += batch.count
            last_epoch = batch.epoch
        active = self._segments[-1]
        if active.is_full(self.options, total, leo - self.leo, last_timestamp_ms(batches[-1].data)):
            active = self.roll()
        self._write(active, parts)
        for batch, frame in zip(batches, frames, strict=True):
            active.add_batch(batch, len(frame))
            self.epochs.note(batch.epoch, batch.base_offset)
        self.leo = leo
        self.dirty = True
        self._refused = ""

    def rolls(self, batches: Sequence[Batch]) -> bool:
        """Whether these batches will begin a new segment, unless they grow when they are sealed."""
        if not batches:
            return False
        size, count = sum(len(batch.data) for batch in batches), batches[-1].end_offset - self.leo
        return self._segments[-1].is_full(self.options, size, count, last_timestamp_ms(batches[-1].data))

    def _write(self, active: Segment, parts: list[bytes | memoryview]) -> None:
        active.hold_index()
        try:
            position = self._file.append(parts)
        except OSError as error:
            self._refused = str(error)
            try:
                self._file.truncate(active.size)
            except OSError as second:
                text = f"{error}; what it had written could not be cut off: {second}"
                raise SyncFailed(second.errno, text) from second
            raise
        if position != active.size:
            raise InvariantViolation(f"{active.path}: written at {position}, not {active.size}")

    def roll(self) -> Segment:
        """Complete the last segment, durably, and begin a new one. Raises DiskError, SyncFailed.

        The index is durable before the new segment holds anything; one that could not be written is built
        anew when it is needed.
        """
        active = self._segments[-1]
        if active.end_offset == active.base_offset:
            return active
        self.sync()
        segment = Segment(self.id, segment_path(self.id, self.leo), self.leo, self._indexes)
        with suppress(OSError):
            write_index(self._disk, self.id, active.index_path, active.head, active.index)
        try:
            remove_derived(self._disk, segment.path)
            file = create_empty(self._disk, segment.path)
        except OSError as error:
            self._refused = str(error)
            raise
        try:
            self._disk.sync_directory(self._directory)
        except OSError:
            file.close()
            raise
        self._file.close()
        active.release_index()
        self._segments.append(segment)
        self._greatest_ms = []
        self._grow(segment, file)
        if active.end_offset <= self.log_start:
            # It had been hidden by the log start while it was the last one.
            with suppress(OSError):
                self._drop_hidden()
        return segment

    def _grow(self, segment: Segment, file: DiskFile) -> None:
        self._file = file
        self._reader.grows(segment, file)

    def sync(self) -> None:
        """Make everything appended so far durable. Raises SyncFailed."""
        if self.dirty:
            self._file.sync()
            self.dirty = False
            self.synced_leo = self.leo

    def fail(self, failure: Failure) -> None:
        """Refuse everything from now on."""
        self.failure = failure
        self.dirty = False

    def close(self) -> None:
        self._file.close()

    def write_last_index(self) -> None:
        """Before a clean stop: the index of the segment that grew, so that the next start scans nothing.

        Raises DiskError, SyncFailed.
        """
        active = self._segments[-1]
        if active.size:
            write_index(self._disk, self.id, active.index_path, active.head, active.index)
            self._disk.sync_directory(self._directory)

    # ----- truncation -----

    def truncate(self, offset: int) -> None:
        """Remove everything at or above `offset`, durably. Raises DiskError, SyncFailed, BadBytes.

        Crash-safe: segments go from the last to the first, each removal durable before the next; a batch that
        `offset` divides is encoded anew in a copy of its segment. A crash in between leaves a longer prefix.
        """
        if offset >= self.leo:
            return
        offset = max(offset, self.log_start)
        self._set_damage(united(self.damage, 0, offset))
        while self._segments[-1].base_offset > offset:
            self._drop_last_segment()
        segment = self._segments[-1]
        self._reopen(segment)
        if offset < segment.end_offset:
            self._cut(segment, offset)
        self.leo = self.synced_leo = segment.end_offset
        self.dirty = False
        self._refused = ""
        self.refresh()
        if self.damage and self.damage[-1].end > segment.base_offset:
            self.roll()

    def _drop_last_segment(self) -> None:
        last = self._segments.pop()
        self._file.close()
        self._remove_segment(last)
        self._disk.sync_directory(self._directory)
        self._grow(self._segments[-1], self._disk.open(self._segments[-1].path))

    def _remove_segment(self, segment: Segment) -> None:
        """Durable when the folder is synced. Raises DiskError."""
        self._indexes.forget(segment)
        remove_derived(self._disk, segment.path)
        remove_if_there(self._disk, segment.path)

    def _reopen(self, segment: Segment) -> None:
        """A segment grows again, or is about to be cut: its derived files must not outlive that."""
        segment.hold_index()
        if remove_derived(self._disk, segment.path, subjects=not self._indexes.mutants.subject_file_stale):
            self._disk.sync_directory(self._directory)

    def _cut(self, segment: Segment, offset: int) -> None:
        position, header = self._reader.find(segment, offset)
        records, greatest_ms = self._reader.cut_facts(segment, position, header.base_offset)
        if header.base_offset == offset:
            self._file.truncate(position)
            self._file.sync()
            segment.cut(position, offset, records, greatest_ms)
            return
        # Followers and voters may cut inside a batch.
        (batch,), _ = self._reader.read_on(segment, position, 1)
        try:
            kept = slice_batch(self.id, batch, batch.base_offset, offset)
        except CorruptBatch as error:
            raise BadBytes(segment.path, position, str(error)) from error
        frame = kept.data if self._sealer is None else self._sealer.seal(self.id, kept.data)
        prefix = stamp(frame, min(self.synced_leo, kept.base_offset))
        tail: list[bytes | memoryview] = [prefix, memoryview(frame)[PREFIX_BYTES:]]
        file = replace_segment(self._disk, segment.path, position, tail=tail)
        self._file.close()
        self._grow(segment, file)
        segment.cut(position, batch.base_offset, records, greatest_ms)
        segment.add_batch(kept, len(frame))

    # ----- complete segments -----

    def move_start(self, offset: int) -> None:
        """C3: forget what lies below `offset`, durably; never back. Raises DiskError, SyncFailed.

        The new start is durable before the first file goes. A full disk must not keep us from making space:
        the indexes of the segments that go make room for it.
        """
        if offset <= self.log_start:
            return
        invariant(offset <= self.leo, f"log {self.id}: start moved to {offset} above the LEO {self.leo}")
        self.sync()
        if offset == self.leo:
            # The last segment may go as well. If no new one can be created it stays, hidden.
            self._roll_if_possible()
        gone = bisect_right(self._segments[:-1], offset, key=_end_offset)
        for segment in self._segments[:gone]:
            self._indexes.forget(segment)
            remove_derived(self._disk, segment.path)
        epochs = tuple(epoch for epoch in self.epochs.entries if epoch.start < offset)
        self._set_start(msgspec.structs.replace(self._start, log_start=offset, epochs=epochs))
        self._set_damage(united(self.damage, offset, self.leo))
        self._drop_hidden()

    def _drop_hidden(self) -> None:
        """Remove complete segments below the log start. What is left of them a start removes."""
        hidden = bisect_right(self._segments[:-1], self.log_start, key=_end_offset)
        going, self._segments = self._segments[:hidden], self._segments[hidden:]
        self.refresh()
        for segment in going:
            self._remove_segment(segment)
        if going:
            self._disk.sync_directory(self._directory)

    def _roll_if_possible(self) -> None:
        refused = self._refused
        try:
            self.roll()
        except SyncFailed:
            raise
        except OSError:
            self._refused = refused

    def reset(self, start: int, epochs: Sequence[EpochStart]) -> None:
        """Forget every record and begin again at `start`, durably. Raises DiskError, SyncFailed.

        `epochs`: the history before `start`. Once the `start` file says that a reset is under way there is no
        way back: whoever comes next, a rebuild or the next process, finishes it.
        """
        self._start = LogStart(start, tuple(epochs), self._start.durability, unfinished=True)
        write_start(self._disk, self.id, self._start)
        self._finish_reset()

    def _finish_reset(self) -> None:
        self._file.close()
        for segment in self._segments:
            self._indexes.forget(segment)
        self._start, segment, file = finish_reset(self._disk, self.id, self._start, self._indexes)
        self._segments = [segment]
        self._grow(segment, file)
        self.leo = self.synced_leo = segment.end_offset
        self._damage = NO_DAMAGE
        self.dirty = False
        self._refused = ""
        self.refresh()

    def fresh_indexes(self) -> Indexes:
        """For who looks at segments without what is known of them."""
        return self._indexes.anew()

    def segment_writer(self, base_offset: int) -> SegmentWriter:
        """For a file that is to replace complete segments from this one on. Raises DiskError."""
        path = segment_path(self.id, base_offset)
        return SegmentWriter(self._disk, self.id, path, base_offset, self._sealer, self._indexes)

    def replace_sealed(self, old: Sequence[Segment], writer: SegmentWriter) -> bool:
        """Put the writer's file in place of complete segments that follow one another, durably.

        It spans the same offsets. False, and nothing is changed, if the log has lost one of them meanwhile.
        Raises DiskError, SyncFailed: the log is then as before, or has the new file, and goes on.

        The new file takes the first one's name in one rename. The old derived files are gone before that, so
        that they are never taken for the new one's. The other old files then lie wholly inside the first one:
        whoever finds them removes them.
        """
        at = bisect_left(self._segments[:-1], old[0].base_offset, key=_base_offset)
        there = self._segments[at : min(at + len(old), len(self._segments) - 1)]
        if len(there) != len(old) or any(one is not other for one, other in zip(there, old, strict=True)):
            writer.abandon()
            return False
        new, index = writer.finish()
        spans = new.base_offset == old[0].base_offset and new.end_offset == old[-1].end_offset
        invariant(spans, f"log {self.id}: {new.path} up to {new.end_offset} replaces other offsets")
        with suppress(OSError):
            prepare_index(self._disk, self.id, new.index_path, new.head, index)
        if remove_derived(self._disk, new.path, subjects=not self._indexes.mutants.subject_file_stale):
            self._disk.sync_directory(self._directory)
        self._disk.rename(writer.temporary_path, new.path)
        self._segments[at : at + len(old)] = [new]
        for segment in old:
            self._indexes.forget(segment)
        new.release_index()
        self.refresh()
        self._disk.sync_directory(self._directory)
        if self._disk.exists(new.index_path + TEMPORARY_SUFFIX):
            self._disk.rename(new.index_path + TEMPORARY_SUFFIX, new.index_path)
        for segment in old[1:]:
            self._remove_segment(segment)
        self._disk.sync_directory(self._directory)
        return True

    # ----- reading -----

    def read(self, offset: int, limit: int, max_bytes: int) -> list[Batch]:
        """Whole, verified batches from the one that holds `offset`, all below `limit`.

        At least one if one is there, else about `max_bytes`; they end before damage. Raises BadBytes if
        `offset` is damaged, with the range, or lies below the log start; UnsupportedBatch, WrongKey,
        DiskError.
        """
        if offset < self.log_start:
            raise BadBytes(self._directory, 0, f"offset {offset} lies below the log start {self.log_start}")
        found: list[Batch] = []
        limit = min(limit, self.leo)
        while offset < limit and max_bytes > 0:
            segment = self.segment_of(offset)
            try:
                self._refuse_damaged(segment, offset)
                batches = self._reader.read(segment, offset, limit, max_bytes, bool(found))
            except BadBytes:
                if not found:
                    raise
                break
            if not batches:
                break
            found += batches
            max_bytes -= sum(len(batch.data) for batch in batches)
            if found[-1].end_offset < segment.end_offset:
                break
            offset = segment.end_offset
        return found

    def read_segment(self, segment: Segment, position: int, max_bytes: int) -> tuple[list[Batch], int]:
        """Whole batches of a segment from a position at which one begins, and the position behind them.

        About `max_bytes`, at least one; none at the end. They end before damage. Raises BadBytes with the
        damaged range if nothing can be read at `position`; UnsupportedBatch, WrongKey, DiskError.
        """
        if position >= segment.size and segment.end_offset > segment.base_offset:
            self._refuse_damaged(segment, segment.end_offset - 1)
        return self._reader.read_on(segment, position, max_bytes)

    def find_time(self, timestamp_ms: int) -> int:
        """First offset from the log start on whose timestamp is at or after the time, else the LEO.

        Raises BadBytes if the first such record might lie in a damaged range; DiskError.
        """
        if len(self._greatest_ms) != len(self._segments) - 1:
            sealed = self._segments[:-1]
            self._greatest_ms = list(accumulate((segment.greatest_ms for segment in sealed), max))
        first = bisect_left(self._greatest_ms, timestamp_ms)
        if self.damage:
            first = min(first, self._segments.index(self.segment_of(self.damage[0].start)))
        for segment in self._segments[first:]:
            late = segment.greatest_ms >= timestamp_ms or self._is_damaged(segment)
            if late and segment.end_offset > self.log_start:
                found = self._reader.find_time(segment, timestamp_ms, self.log_start)
                if found is not None:
                    return found
        return self.leo

    def segment_of(self, offset: int) -> Segment:
        """The segment that holds an offset from the log start to the LEO."""
        return self._segments[bisect_right(self._segments, offset, key=_base_offset) - 1]

    def _is_damaged(self, segment: Segment) -> bool:
        return any(lost.start < segment.end_offset and segment.base_offset < lost.end for lost in self.damage)

    def _refuse_damaged(self, segment: Segment, offset: int) -> None:
        for lost in self.damage:
            if lost.start <= offset < lost.end:
                raise BadBytes(segment.path, 0, f"offsets {lost} are damaged", lost)

    # ----- damage (D2) -----

    def note_damage(self, lost: OffsetRange) -> None:
        """Remember that these offsets cannot be read, durably. Raises DiskError, SyncFailed.

        Damage is repaired in complete segments only: one that still grows is completed.
        """
        lost = OffsetRange(max(lost.start, self.log_start), min(lost.end, self.leo))
        damage = united((*self.damage, lost), self.log_start, self.leo)
        if damage != self.damage and lost.end > self._segments[-1].base_offset:
            self.roll()
        self._set_damage(damage)

    def clear_damage(self, repaired: OffsetRange) -> None:
        """These offsets can be read again, durably. Raises DiskError, SyncFailed."""
        self._set_damage(without(self.damage, repaired))

    def _set_damage(self, ranges: tuple[OffsetRange, ...]) -> None:
        if ranges != self.damage:
            damage = self._damage.within(ranges).told_by(self.epochs)
            write_damage(self._disk, self.id, damage)
            self._damage = damage

    def _set_start(self, start: LogStart) -> None:
        write_start(self._disk, self.id, start)
        self._start = start

    # ----- rebuilding (R5) -----

    def rebuild(self, keep_below: int) -> Log:
        """A new log over a durable copy of what is good below `keep_below`; this one is to be forgotten.

        Complete segments were synced and stay as they are. The tail is DAMAGED if anything was cut; that is
        remembered if it was to be kept (R14). Raises DiskError, SyncFailed, BadBytes, LiftlogError.
        """
        if self._start.unfinished:
            self._finish_reset()
            self.failure = None
            return self
        had, keep_below = self.leo, max(keep_below, self.log_start)
        count = max(1, bisect_right(self._segments, keep_below, key=_base_offset))
        kept, old = self._segments[: count - 1], self._segments[count - 1]
        last = Segment(self.id, old.path, old.base_offset, self._indexes)
        file = self._disk.open(last.path, create=True)
        scan(file, last, self.epochs.epoch_before(last.base_offset))
        file.close()
        if last.end_offset < min(keep_below, had):
            # The next start would find a shorter log without a bad byte: it must know better.
            remember_verdict(self._disk, self.id, TailState.DAMAGED, rewrite=True)
        if last.end_offset < self.log_start:
            # As at a start: the file's damage begins below the log's.
            self.reset(self.log_start, self._start.epochs)
            self.failure, self.tail = None, TailState.DAMAGED
            return self
        self._file.close()
        remove_segments_after(self._disk, last)
        remove_derived(self._disk, last.path)
        self._indexes.forget(old)
        file = replace_segment(self._disk, last.path, last.size, checksum=last.checksum)
        damage = self._damage.within(united(self.damage, self.log_start, last.end_offset))
        write_damage(self._disk, self.id, damage)
        rebuilt = Log(
            self._disk, self.id, self.options, self._sealer, self._indexes, self._start,
            segments=[*kept, last], file=file, tail=TailState.INTACT, damage=damage,
        )  # fmt: skip
        rebuilt.truncate(keep_below)
        if rebuilt.leo < had:
            rebuilt.tail = TailState.DAMAGED
        return rebuilt

    @property
    def marker(self) -> CleanLog:
        """What the clean-stop marker says of this log: a clean open must find exactly this."""
        hidden = bisect_right(self._segments[:-1], self.log_start, key=_end_offset)
        return CleanLog(self.id, self.leo, self.epochs.as_tuple(), len(self._segments) - hidden)

    @property
    def bytes(self) -> int:
        """Bytes of all segment files."""
        return sum(segment.size for segment in self._segments)
