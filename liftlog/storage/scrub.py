"""The scrub: a log is read over and over to find bytes that have decayed (D2).

Theory. A sector that nobody reads may rot until the last good copy of it is gone. So every replica verifies
its log up to what is synced again and again, a little at a time, at a rate that does not disturb. Checked are
both checksums of every batch, that batch follows batch without a gap, and that the index agrees: its file is
whole and describes this segment, and each entry names a batch that is there. A bad index is made anew, nobody
need hear of it (D3). Bad batches are damage: noted in the log, durably, and told, so that the replica fetches
them again.

What was read a moment ago comes from the page cache and says little of the disk. Over a log larger than
memory the rounds are long enough for that not to matter.
"""

from __future__ import annotations

from liftlog.format import Header
from liftlog.ports import Disk
from liftlog.storage.index import CorruptIndex, SegmentIndex, read_index
from liftlog.storage.log import Log
from liftlog.storage.segment import BadBytes, Cursor, Segment
from liftlog.types import OffsetRange

_AHEAD_BYTES = 256 * 1024


def scrub(log: Log, disk: Disk, offset: int, max_bytes: int) -> tuple[int, OffsetRange | None]:
    """Verify about `max_bytes` from `offset` on: where to go on, and damage that was not known before.

    The log start when the end was reached. Damage ends the slice. Raises UnsupportedBatch, DiskError.
    """
    offset = max(offset, log.log_start)
    while max_bytes > 0:
        segment = next((one for one in log.sealed if one.end_offset > offset), None)
        if segment is None:
            return _verify_growing(log, offset, max_bytes)
        if offset <= segment.base_offset:
            _check_index_file(log, disk, segment)
        try:
            offset, worked = _verify(log, disk, segment, offset, max_bytes)
            max_bytes -= worked
        except _Trouble as trouble:
            found = _look_again(log, segment, max(offset, trouble.offset))
            if isinstance(found, OffsetRange):
                if not any(one.start <= found.start and found.end <= one.end for one in log.damage):
                    log.note_damage(found)
                    return found.end, found
                found = found.end
            offset = found
    return offset, None


def _verify_growing(log: Log, offset: int, max_bytes: int) -> tuple[int, OffsetRange | None]:
    """The end of a round: what is synced of the segment that grows. On a quiet log it grows for ever."""
    if offset >= log.synced_leo:
        return log.log_start, None
    try:
        found = log.read(offset, log.synced_leo, max_bytes)
    except BadBytes as error:
        if error.range is None:
            raise
        log.note_damage(error.range)
        return error.range.end, error.range
    end = found[-1].end_offset if found else log.synced_leo
    return end if end < log.synced_leo else log.log_start, None


class _Trouble(Exception):
    """The walk cannot go on from `offset`."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


def _check_index_file(log: Log, disk: Disk, segment: Segment) -> None:
    try:
        head, _ = read_index(disk, log.id, segment.index_path)
        good = head == segment.head
    except (CorruptIndex, FileNotFoundError):
        good = False
    if not good:
        _renew_index(log, segment)


def _renew_index(log: Log, segment: Segment) -> None:
    try:
        segment.renew_index(log.fresh_indexes().rebuild(segment))
    except FileNotFoundError:
        raise _Trouble(segment.base_offset) from None


def _verify(log: Log, disk: Disk, segment: Segment, offset: int, max_bytes: int) -> tuple[int, int]:
    """Walk over the batches from the one that holds `offset`: where that ended, and bytes verified."""
    index = segment.index
    number = index.find(offset)
    if not len(index):
        raise _Trouble(offset)
    # An index that was made anew from a damaged segment may begin behind the damage.
    start, at = (index.positions[number], index.offsets[number]) if number >= 0 else (0, segment.base_offset)
    number = max(0, number)
    try:
        file = disk.open(segment.path)
    except FileNotFoundError:
        raise _Trouble(offset) from None
    cursor = Cursor(file, segment, start, at, segment.size, _AHEAD_BYTES)
    try:
        while not cursor.at_end and (cursor.position - start < max_bytes or cursor.offset <= offset):
            header, _ = cursor.take()
            number = _check_entry(index, number, cursor.position, header)
            cursor.advance(header)
    except BadBytes:
        raise _Trouble(cursor.offset) from None
    finally:
        file.close()
    if cursor.at_end and cursor.offset < segment.end_offset:
        raise _Trouble(cursor.offset)
    if number < 0 or (cursor.at_end and number < len(index)):
        _renew_index(log, segment)
    return cursor.offset, cursor.position - start


def _check_entry(index: SegmentIndex, number: int, position: int, header: Header) -> int:
    """The number of the next entry; -1 once an entry has contradicted the batches."""
    if number < 0 or number == len(index) or position < index.positions[number]:
        return number
    if position > index.positions[number] or header.base_offset != index.offsets[number]:
        return -1
    return number + 1


def _look_again(log: Log, segment: Segment, offset: int) -> OffsetRange | int:
    """Read as a reader would: the range that is damaged, or where to go on if it was the index, or passed.

    Raises BadBytes if it is not known what is damaged, UnsupportedBatch, DiskError.
    """
    offset = max(offset, log.log_start)
    if offset >= segment.end_offset:
        return segment.end_offset  # The trouble lies behind the last batch.
    try:
        return log.read(offset, segment.end_offset, 1)[-1].end_offset
    except BadBytes as error:
        if error.range is None:
            raise
        return error.range
