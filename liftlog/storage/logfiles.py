"""Changes of the files in a log's folder that both a running log and a start carry out."""

from __future__ import annotations

import msgspec

from liftlog.ports import Disk, DiskFile
from liftlog.storage.copying import create_empty
from liftlog.storage.indexes import Indexes
from liftlog.storage.layout import (
    COMPACTED,
    DAMAGE,
    DERIVED_SUFFIXES,
    SEGMENT_SUFFIX,
    index_path,
    log_directory,
    segment_bases,
    segment_path,
    subjects_path,
)
from liftlog.storage.logstate import LogStart, write_start
from liftlog.storage.segment import Segment
from liftlog.types import PartitionId


def remove_if_there(disk: Disk, path: str) -> bool:
    """Whether there was such a file. Its removal is durable when the folder is synced. Raises DiskError."""
    there = disk.exists(path)
    if there:
        disk.remove(path)
    return there


def remove_derived(disk: Disk, segment: str, *, subjects: bool = True) -> bool:
    """Remove what was made of a segment file: its index, and its subject file. Whether there was either.
    Raises DiskError.
    """
    removed = remove_if_there(disk, index_path(segment))
    return (subjects and remove_if_there(disk, subjects_path(segment))) or removed


def remove_segments_after(disk: Disk, last: Segment) -> None:
    """Remove what lies behind a segment, the last file first, each durably; also what a failed roll left.

    Raises DiskError, SyncFailed.
    """
    directory = log_directory(last.log)
    for base in reversed(segment_bases(disk, directory)):
        if base > last.base_offset:
            path = segment_path(last.log, base)
            remove_derived(disk, path)
            disk.remove(path)
            disk.sync_directory(directory)


def finish_reset(
    disk: Disk, log: PartitionId, start: LogStart, indexes: Indexes
) -> tuple[LogStart, Segment, DiskFile]:
    """Carry out a reset that the `start` file has announced; again, if it was cut short before.

    Nothing is appended to the new segment before the file says that the reset is over. Raises DiskError,
    SyncFailed.
    """
    directory = log_directory(log)
    # The process that announced it may have died before the announcement was durable.
    write_start(disk, log, start)
    for suffix in (SEGMENT_SUFFIX, *DERIVED_SUFFIXES):
        for base in reversed(segment_bases(disk, directory, suffix)):
            disk.remove(f"{directory}/{base:020d}{suffix}")
    for name in (DAMAGE, COMPACTED):
        remove_if_there(disk, f"{directory}/{name}")
    disk.sync_directory(directory)
    segment = Segment(log, segment_path(log, start.log_start), start.log_start, indexes)
    file = create_empty(disk, segment.path)
    disk.sync_directory(directory)
    start = msgspec.structs.replace(start, unfinished=False)
    write_start(disk, log, start)
    return start, segment, file
