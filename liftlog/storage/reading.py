"""Reading of one segment: from an offset, from a position, from a time.

The index names a batch at or before what is wanted; from there a cursor walks, and what is handed out was
verified. A reader never believes the index alone: each batch must begin at the offset that is due. When a
walk fails, the whole segment is scanned to learn which offsets are damaged, or that the index was wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager

from liftlog.format import SEALED, Header, decode_records, parse_batch
from liftlog.ports import Disk, DiskFile
from liftlog.storage.index import NO_TIME, SPACING_BYTES
from liftlog.storage.indexes import Indexes
from liftlog.storage.sealing import Sealer
from liftlog.storage.segment import (
    CHUNK_BYTES,
    UNKNOWN,
    BadBytes,
    Cursor,
    Segment,
    scan_past_damage,
)
from liftlog.types import Batch, OffsetRange, PartitionId


class SegmentReader:
    """Reads the segments of one log, the one that grows through the file that its log keeps open."""

    __slots__ = ("_active", "_disk", "_file", "_indexes", "_log", "_sealer")

    def __init__(
        self,
        disk: Disk,
        log: PartitionId,
        indexes: Indexes,
        sealer: Sealer | None,
        active: Segment,
        file: DiskFile,
    ) -> None:
        self._disk = disk
        self._log = log
        self._indexes = indexes
        self._sealer = sealer
        self._active = active
        self._file = file

    def grows(self, segment: Segment, file: DiskFile) -> None:
        """From now on this is the segment that grows."""
        self._active = segment
        self._file = file

    @contextmanager
    def opened(self, segment: Segment) -> Iterator[DiskFile]:
        """The segment's file. Raises BadBytes if it is missing, DiskError."""
        if segment is self._active:
            yield self._file
            return
        try:
            file = self._disk.open(segment.path)
        except FileNotFoundError:
            lost = OffsetRange(segment.base_offset, segment.end_offset)
            raise BadBytes(segment.path, 0, "the file is missing", lost) from None
        try:
            yield file
        finally:
            file.close()

    def read(self, segment: Segment, offset: int, limit: int, max_bytes: int, strict: bool) -> list[Batch]:
        """Whole batches of one segment from the one that holds `offset`, all below `limit`.

        About `max_bytes` of them; at least one unless `strict`. Stops before damage; raises BadBytes with the
        damaged range if there is damage at `offset`; UnsupportedBatch, WrongKey, DiskError.
        """
        with self.opened(segment) as file:
            try:
                return self._read(file, segment, offset, limit, max_bytes, strict)
            except BadBytes as error:
                self._explain(file, segment, offset, error)
                return self._read(file, segment, offset, limit, max_bytes, strict)

    def _read(
        self, file: DiskFile, segment: Segment, offset: int, limit: int, max_bytes: int, strict: bool
    ) -> list[Batch]:
        batches: list[Batch] = []
        cursor = self._cursor(file, segment, segment.index.find(offset), SPACING_BYTES + max_bytes)
        try:
            self._skip_to(cursor, offset)
            while max_bytes > 0 and not cursor.at_end:
                header, frame = cursor.take()
                frame_bytes = header.frame_bytes
                too_much = frame_bytes > max_bytes and (batches or strict)
                if too_much or header.base_offset + header.count > limit:
                    return batches
                batches.append(self._opened(header, frame))
                max_bytes -= frame_bytes
                cursor.advance(header)
        except BadBytes:
            if not batches:
                raise
        if not batches:
            raise BadBytes(segment.path, cursor.position, f"the segment ends before offset {offset}")
        return batches

    def _skip_to(self, cursor: Cursor, offset: int) -> None:
        """Go past the batches that end at or below `offset`, by their headers."""
        while not cursor.at_end:
            header = cursor.header()
            if header.end_offset > offset:
                break
            cursor.advance(header)

    def read_on(self, segment: Segment, position: int, max_bytes: int) -> tuple[list[Batch], int]:
        """Whole batches from a position at which one begins, and the position behind them.

        About `max_bytes` of them and at least one; none at the end. Stops before damage; raises BadBytes with
        the damaged range if there is damage at `position`; UnsupportedBatch, WrongKey, DiskError.
        """
        batches: list[Batch] = []
        with self.opened(segment) as file:
            due = self._offset_at(file, segment, position)
            cursor = Cursor(file, segment, position, due, segment.size, max_bytes)
            try:
                while not cursor.at_end:
                    header, frame = cursor.take()
                    if header.frame_bytes > max_bytes and batches:
                        break
                    batches.append(self._opened(header, frame))
                    max_bytes -= header.frame_bytes
                    cursor.advance(header)
            except BadBytes as error:
                if not batches:
                    self._explain(file, segment, UNKNOWN, error)
                    raise
        return batches, cursor.position

    def _offset_at(self, file: DiskFile, segment: Segment, position: int) -> int:
        """Which offset is due at a position: another batch of this log may lie there, misdirected (D1).

        UNKNOWN if what lies before is damaged. Raises DiskError.
        """
        number = bisect_right(segment.index.positions, position) - 1
        cursor = self._cursor(file, segment, number, 2 * SPACING_BYTES)
        try:
            while cursor.position < position and not cursor.at_end:
                cursor.advance(cursor.header())
        except BadBytes:
            return UNKNOWN
        return cursor.offset if cursor.position == position else UNKNOWN

    def find(self, segment: Segment, offset: int) -> tuple[int, Header]:
        """Position and header of the batch that holds `offset`. Raises BadBytes, DiskError."""
        with self.opened(segment) as file:
            cursor = self._cursor(file, segment, segment.index.find(offset), 2 * SPACING_BYTES)
            while not cursor.at_end:
                header = cursor.header()
                if header.end_offset > offset:
                    return cursor.position, header
                cursor.advance(header)
        raise BadBytes(segment.path, cursor.position, f"the segment ends before offset {offset}")

    def find_time(self, segment: Segment, timestamp_ms: int, least_offset: int) -> int | None:
        """Offset of the first record from `least_offset` on at or after the time; None if there is none.

        Raises BadBytes with the damaged range if that record might have been there; DiskError.
        """
        with self.opened(segment) as file:
            for attempt in (1, 2):
                number = max(segment.index.find_time(timestamp_ms), segment.index.find(least_offset))
                cursor = self._cursor(file, segment, number, 2 * SPACING_BYTES)
                try:
                    return self._find_time(cursor, segment, timestamp_ms, least_offset)
                except BadBytes as error:
                    self._explain(file, segment, max(cursor.offset, least_offset), error)
                    if attempt == 2:
                        raise
        return None

    def _find_time(
        self, cursor: Cursor, segment: Segment, timestamp_ms: int, least_offset: int
    ) -> int | None:
        while not cursor.at_end:
            header = cursor.header()
            late = header.records and header.last_timestamp_ms >= timestamp_ms
            if late and header.end_offset > least_offset:
                for record in decode_records(self._opened(*cursor.take())):
                    if record.timestamp_ms >= timestamp_ms and record.offset >= least_offset:
                        return record.offset
            cursor.advance(header)
        if cursor.offset < segment.end_offset:
            raise BadBytes(segment.path, cursor.position, f"the segment ends before {segment.end_offset}")
        return None

    def cut_facts(self, segment: Segment, position: int, offset: int) -> tuple[int, int]:
        """Records before the batch of `offset` at `position`, and their greatest timestamp, or a later one.

        Only what verifies is counted: the head of a damaged batch may say anything. Raises UnsupportedBatch,
        DiskError.
        """
        index = segment.index
        number = bisect_right(index.positions, position) - 1
        if number < 0 or position == 0:
            return 0, NO_TIME
        greatest_ms = min(index.times_ms[number], segment.greatest_ms)
        records = segment.records
        with self.opened(segment) as file:
            cursor = self._cursor(file, segment, number)
            try:
                while not cursor.at_end:
                    header, _ = cursor.take()
                    if cursor.position >= position:
                        records -= header.records
                    elif header.records:
                        greatest_ms = max(greatest_ms, header.last_timestamp_ms)
                    cursor.advance(header)
            except BadBytes:
                kept = Segment(segment.log, segment.path, segment.base_offset, self._indexes)
                lost = any(_offsets(one) for one, _ in scan_past_damage(file, kept, 0, offset))
                return kept.records, segment.greatest_ms if lost else kept.greatest_ms
        return records, greatest_ms

    def _opened(self, header: Header, frame: bytes) -> Batch:
        """The batch of a frame that was verified as it lies on disk. Raises SealedBatch, WrongKey."""
        if header.attributes & SEALED:
            if self._sealer is None:
                parse_batch(self._log, frame)
            else:
                frame = self._sealer.open(self._log, frame)
        return Batch(header.base_offset, header.count, header.epoch, frame)

    def _cursor(self, file: DiskFile, segment: Segment, number: int, ahead: int = CHUNK_BYTES) -> Cursor:
        """At the entry with this number; at the beginning if there is no such entry."""
        index = segment.index
        if number < 0:
            return Cursor(file, segment, 0, segment.base_offset, segment.size, ahead)
        position, offset = index.positions[number], index.offsets[number]
        return Cursor(file, segment, position, offset, segment.size, ahead)

    def _explain(self, file: DiskFile, segment: Segment, offset: int, error: BadBytes) -> None:
        """A walk failed: scan the segment, make its index anew, and raise BadBytes if it is damaged there.

        `offset` = the offset that was wanted, or UNKNOWN for the one at the position in `error`.
        """
        found, damage = survey(file, segment, self._indexes)
        for lost, bad in damage:
            here = lost.start <= offset < lost.end if offset != UNKNOWN else bad.position == error.position
            if here:
                raise BadBytes(bad.path, bad.position, bad.reason, lost) from error
        segment.renew_index(found.index)


Damage = list[tuple[OffsetRange, BadBytes]]
"""Ranges of offsets that cannot be read, each with what is there instead."""


def survey(file: DiskFile, segment: Segment, indexes: Indexes) -> tuple[Segment, Damage]:
    """What a scan finds in a segment. Raises UnsupportedBatch, DiskError."""
    found = Segment(segment.log, segment.path, segment.base_offset, indexes)
    damage = scan_past_damage(file, found, 0, segment.end_offset)
    return found, up_to(segment.end_offset, found, damage)


def up_to(end_offset: int, found: Segment, damage: Damage) -> Damage:
    """The damage in a segment that was scanned and should end at `end_offset`: what is missing there, too."""
    last = damage[-1][1] if damage and not _offsets(damage[-1][0]) else None
    ranges = [one for one in damage if _offsets(one[0])]
    if found.end_offset < end_offset:
        last = last or BadBytes(found.path, found.size, f"the file ends before offset {end_offset}")
        ranges.append((OffsetRange(found.end_offset, end_offset), last))
    return ranges


def _offsets(lost: OffsetRange) -> int:
    return lost.end - lost.start
