"""Whether a subject file says what its segment does, message by message (S1): for `liftlog log verify`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from liftlog.format import Header
from liftlog.ports import Disk
from liftlog.storage.layout import subjects_path
from liftlog.storage.segment import Segment
from liftlog.storage.subjectfiles import CorruptSubjects, read_foot, read_slab
from liftlog.storage.subjectruns import subject_runs
from liftlog.types import Batch

_Message = tuple[int, bytes, int]
"""Offset, subject, and what it counts for."""


class _Sealed(Exception):
    pass


def problem_of(disk: Disk, segment: Segment, frames: Iterable[tuple[Header, bytes]]) -> str:
    """Why the subject file of a good segment is not believed; empty if it says what the segment does.

    `frames`: the segment's batches, in order. Raises UnsupportedBatch, MissingCodec, DiskError.
    """
    path = subjects_path(segment.path)
    try:
        foot = read_foot(disk, segment.log, path)
        if foot.segment != segment.head:
            return "it does not describe the segment that is there"
        due = _messages(frames, foot.first)
        for place in foot.slabs:
            for told in read_slab(disk, segment.log, path, place).messages():
                found = next(due, None)
                if told != found:
                    return f"the message at {told[0]} is another one"
    except CorruptSubjects as error:
        return str(error).removeprefix(path).lstrip(": ")
    except _Sealed:
        return "its segment is encrypted"
    left = next(due, None)
    return "" if left is None else f"the message at {left[0]} is missing"


def _messages(frames: Iterable[tuple[Header, bytes]], first: int) -> Iterator[_Message]:
    for header, frame in frames:
        if header.sealed:
            raise _Sealed
        batch = Batch(header.base_offset, header.count, header.epoch, frame)
        for offset, subjects, sizes in subject_runs(batch, first, batch.end_offset):
            yield from zip(range(offset, offset + len(subjects)), subjects, sizes, strict=True)
