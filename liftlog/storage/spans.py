"""Where the batches of a read lie in the files: the index's answer, without reading the data itself.

A reader of cold data need not pass through storage: its answer names *spans*, stretches of whole batches in a
file, which a reader thread sends to the socket. The storage thread then costs a reader a bisection and an
`open`, and readers never hold up the writer. Nothing is verified on the way: the reader checks the checksums
anyway, and asks for a verified read when they are bad (D2).

The sparse index knows the boundaries of some batches, about one in four KiB. So a span begins at the last
known boundary at or below the asked offset, whence the reader skips, and ends at a known boundary at or below
the limit. Between the last known one and the limit there is no span: that little is read and verified.
"""

from __future__ import annotations

from bisect import bisect_right

from liftlog.messages.filespan import FileSpan
from liftlog.ports import Disk
from liftlog.storage.log import Log
from liftlog.storage.segment import Segment


def find_spans(disk: Disk, log: Log, offset: int, limit: int, max_bytes: int) -> list[FileSpan]:
    """Spans from a little before `offset` up to `limit` at most, of about `max_bytes`, in a row.

    Empty if there is no boundary between `offset` and `limit` to end at, if damage is in the way or the file
    cannot be opened: a read then tells more. The log must not be sealed. Each span's file is a handle of its
    own. Raises UnsupportedBatch.
    """
    if offset < log.log_start:
        return []
    limit = min([limit, log.leo, *(lost.start for lost in log.damage if lost.end > offset)])
    spans: list[FileSpan] = []
    while offset < limit and max_bytes > 0:
        segment = log.segment_of(offset)
        try:
            found = _stretch(segment, offset, limit, max_bytes, must=not spans)
            if found is None:
                break
            start, end, base_offset, offset = found
            if any(base_offset < lost.end and lost.start < offset for lost in log.damage):
                break
            spans.append(FileSpan(disk.open(segment.path), start, end - start, base_offset, offset))
        except OSError:
            break
        max_bytes -= end - start
        if offset < segment.end_offset:
            break
    return spans


def _stretch(
    segment: Segment, offset: int, limit: int, max_bytes: int, must: bool
) -> tuple[int, int, int, int] | None:
    """Positions and offsets between which the batches lie: start, end, base offset, end offset.

    `must`: more than `max_bytes` is better than nothing.
    """
    index = segment.index
    first = index.find(offset)
    if first < 0:
        return None
    start = index.positions[first]
    whole = segment.end_offset <= limit
    if whole and segment.size - start <= max_bytes:
        return start, segment.size, index.offsets[first], segment.end_offset
    last = len(index) - 1 if whole else index.find(limit)
    after = min(last, bisect_right(index.positions, start + max_bytes) - 1)
    if after <= first:
        if not must:
            return None
        after = first + 1
        if after > last:
            return (start, segment.size, index.offsets[first], segment.end_offset) if whole else None
    return start, index.positions[after], index.offsets[first], index.offsets[after]

