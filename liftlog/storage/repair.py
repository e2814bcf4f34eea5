"""Repair of damaged ranges with batches from a peer (D2).

Theory. Damage is a range of offsets in sealed segments that cannot be read. A peer has them. What it sends is
written into a new file together with everything that is still good, the old bytes are copied to quarantine/,
and the new file takes the segment's place at once (`Log.replace_sealed`). Only then is the range no damage
any more; a crash anywhere before leaves it noted, and the repair begins again.

A range may reach over several segments; each is repaired by itself, in order. A segment may hold other damage
as well; it stays a hole in the new file, and noted, until it is repaired in turn. Some of it may be news: a
hole that nobody has noted would look whole after a restart, since the new file's index describes it. So it is
noted before the new file takes its place, and told. And a hole keeps the epochs known to begin in it: with
the first batch behind it an epoch would begin too late, and the log would contradict good copies (R6).

A peer's batches need not begin where the range begins, since it may have been compacted differently (C5):
they are cut to size. They must continue one another, their epochs must not fall, and they must agree with the
epoch history of this log: what comes from a peer that is on another branch of history is refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from liftlog.batchparts import slice_batch
from liftlog.format import CorruptBatch, parse_batch
from liftlog.ports import Disk
from liftlog.storage.index import SegmentIndex
from liftlog.storage.log import Log
from liftlog.storage.logstate import united, without
from liftlog.storage.quarantine import quarantine
from liftlog.storage.reading import survey
from liftlog.storage.segment import BadBytes, Segment
from liftlog.storage.writer import SegmentWriter
from liftlog.types import Batch, LiftlogError, OffsetRange

_READ_BYTES = 1024 * 1024


class RepairRefused(LiftlogError):
    """Batches that cannot be what the range held. The text says why."""


class _Part:
    """The part of the range that lies in one segment, and the file that is to replace it."""

    __slots__ = ("damage", "greatest_epoch", "index", "last_epoch", "range", "segment", "writer")

    def __init__(self, segment: Segment, part: OffsetRange, writer: SegmentWriter) -> None:
        self.segment = segment
        self.range = part
        self.writer = writer
        self.damage: list[tuple[OffsetRange, BadBytes]] = []
        """All that cannot be read in the segment now."""
        self.index = SegmentIndex()
        """Of what can be read."""
        self.last_epoch = 0
        self.greatest_epoch = 0


class Repairer:
    """Repairs one open log, one range at a time. Owned by whoever owns the log."""

    __slots__ = ("_disk", "_found", "_log", "_next", "_part", "_range")

    def __init__(self, log: Log, disk: Disk) -> None:
        self._log = log
        self._disk = disk
        self._range = OffsetRange(0, 0)
        self._next = 0
        self._part: _Part | None = None
        self._found: tuple[OffsetRange, ...] = ()

    def begins(self, damaged: OffsetRange) -> bool:
        """Whether this range is another one than that under repair."""
        return damaged != self._range

    def repair(self, damaged: OffsetRange, batches: Sequence[Batch]) -> int:
        """Take the next batches of a range; return where it still lacks some, its end when it is whole.

        Raises RepairRefused, UnsupportedBatch, BadBytes, DiskError, SyncFailed: the repair then begins anew.
        """
        try:
            if damaged != self._range:
                self.abandon()
                self._range = damaged
                self._next = damaged.start
            self._skip_good()
            for batch in batches:
                self._take(batch)
        except Exception:
            self.abandon()
            raise
        done = self._next
        if done >= damaged.end:
            self.abandon()
        return done

    def abandon(self) -> None:
        """Throw away what is half done: the damage stays noted. Raises DiskError."""
        part, self._part = self._part, None
        self._range = OffsetRange(0, 0)
        if part is not None:
            part.writer.abandon()

    def take_found(self) -> tuple[OffsetRange, ...]:
        """Damage that repairs have met and noted, and that nobody was told of."""
        found, self._found = self._found, ()
        return found

    def _skip_good(self) -> None:
        """Go on to the next offset of the range that is damaged: others may have been repaired before."""
        if self._part is not None:
            return
        for lost in self._log.damage:
            if lost.end > self._next:
                self._next = min(max(lost.start, self._next), self._range.end)
                return
        self._next = self._range.end

    def _take(self, batch: Batch) -> None:
        """Write what of the batch belongs here."""
        try:
            parse_batch(self._log.id, batch.data)
            while self._next < min(batch.end_offset, self._range.end):
                if batch.base_offset > self._next:
                    raise RepairRefused(f"a batch at offset {batch.base_offset} came, wanted is {self._next}")
                part = self._part or self._open_part()
                end = min(batch.end_offset, part.range.end)
                self._check_epoch(batch, part, self._next)
                part.writer.append([slice_batch(self._log.id, batch, self._next, end)])
                self._next = end
                if end == part.range.end:
                    self._complete(part)
                    self._skip_good()
        except CorruptBatch as error:
            raise RepairRefused(f"the batch that came for offset {self._next} is bad: {error}") from error

    def _check_epoch(self, batch: Batch, part: _Part, offset: int) -> None:
        """The history may lack what began within the damage, so it gives bounds."""
        history = self._log.epochs
        least = max(history.epoch_before(offset + 1), part.last_epoch)
        if not least <= batch.epoch <= part.greatest_epoch:
            raise RepairRefused(
                f"a batch of epoch {batch.epoch} came for offset {offset}; this log has epochs {least} to "
                f"{part.greatest_epoch} there, so the peer is on another branch of history"
            )
        part.last_epoch = batch.epoch

    def _open_part(self) -> _Part:
        """Begin the file that replaces the segment at `_next`, with what is good before the damage."""
        log, start = self._log, self._next
        segment = log.segment_of(start)
        lost = next(one for one in log.damage if one.start <= start < one.end)
        part = _Part(
            segment,
            OffsetRange(start, min(lost.end, segment.end_offset, self._range.end)),
            log.segment_writer(segment.base_offset),
        )
        self._part = part
        part.last_epoch = log.epochs.epoch_before(start)
        part.greatest_epoch = log.epochs.epoch_before(min(lost.end, log.leo - 1) + 1)
        try:
            file = self._disk.open(segment.path)
        except FileNotFoundError:
            everything = OffsetRange(segment.base_offset, segment.end_offset)
            part.damage = [(everything, BadBytes(segment.path, 0, "the file is missing"))]
        else:
            try:
                found, part.damage = survey(file, segment, log.fresh_indexes())
            finally:
                file.close()
            part.index = found.index
            segment.renew_index(found.index)
        self._note_others(part)
        self._copy(part, segment.base_offset, start)
        return part

    def _note_others(self, part: _Part) -> None:
        """What else cannot be read in the segment is damage, too. Raises DiskError, SyncFailed."""
        log = self._log
        others = united((lost for lost, _ in part.damage), log.log_start, log.leo)
        for known in log.damage:
            others = without(others, known)
        for lost in others:
            log.note_damage(lost)
        self._found += others

    def _copy(self, part: _Part, start: int, end: int) -> None:
        """Write what is good in [start, end), and leave holes where nothing is."""
        log, segment, writer, index = self._log, part.segment, part.writer, part.index
        while start < end:
            hole = next((one for one, _ in part.damage if one.end > start), OffsetRange(end, end))
            if hole.start <= start:
                start = min(hole.end, end)
                within = (entry for entry in segment.epochs if writer.end_offset <= entry.start < start)
                writer.leave_hole(start, within)
                continue
            good_end = min(hole.start, end)
            position = 0
            while start < good_end:
                # Bad bytes may lie between batches that miss no offset.
                position = max(position, index.positions[index.find(start)])
                batches, position = log.read_segment(segment, position, _READ_BYTES)
                pieces = [
                    slice_batch(log.id, one, start, good_end)
                    for one in batches
                    if one.end_offset > start and one.base_offset < good_end
                ]
                writer.append(pieces)
                start = writer.end_offset

    def _complete(self, part: _Part) -> None:
        """The damaged part is whole in the new file: put it in place, durably."""
        segment = part.segment
        self._copy(part, part.range.end, segment.end_offset)
        part.writer.finish()
        self._quarantine(part)
        self._log.replace_sealed([segment], part.writer)
        for entry in self._log.segment_of(segment.base_offset).epochs:
            self._log.epochs.learn(entry.epoch, entry.start)
        self._log.clear_damage(part.range)
        self._part = None

    def _quarantine(self, part: _Part) -> None:
        """Keep the bytes that could not be read, durably, before their file goes. Raises DiskError."""
        disk, segment, index = self._disk, part.segment, part.index
        if not disk.exists(segment.path):
            return
        for hole, bad in part.damage:
            behind = bisect_left(index.offsets, hole.end)
            end = index.positions[behind] if behind < len(index) else None
            quarantine(disk, self._log.id, segment.base_offset, bad.position, end)
