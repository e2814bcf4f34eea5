"""Bad bytes are kept for people to look at: a copy in quarantine/ comes before anything is cut off (D2)."""

from __future__ import annotations

from liftlog.ports import Disk
from liftlog.storage.copying import create_empty
from liftlog.storage.layout import (
    QUARANTINE,
    TEMPORARY_SUFFIX,
    is_folder,
    make_directory_durable,
    next_number,
    segment_path,
)
from liftlog.storage.sectors import read_sturdily
from liftlog.storage.segment import CHUNK_BYTES
from liftlog.types import PartitionId


def quarantine(disk: Disk, log: PartitionId, base: int, start: int, end: int | None = None) -> None:
    """Copy bytes [start, end) of a segment, durably; to the end of the file if `end` is None.

    Sectors that cannot be read are zeros in the copy. Raises DiskError, SyncFailed.
    """
    source = disk.open(segment_path(log, base))
    try:
        size = source.size() if end is None else end
        if start >= size:
            return
        make_directory_durable(disk, QUARANTINE)
        for name in disk.list(QUARANTINE):
            left_over = f"{QUARANTINE}/{name}"
            if name.endswith(TEMPORARY_SUFFIX) and not is_folder(disk, left_over):
                disk.remove(left_over)
        number = next_number(disk, QUARANTINE)
        path = f"{QUARANTINE}/{number:06d}-{log[0]}-{log[1]}-{base:020d}-{start}.bad"
        target = create_empty(disk, path + TEMPORARY_SUFFIX)
        try:
            for position in range(start, size, CHUNK_BYTES):
                target.append([read_sturdily(source, position, min(CHUNK_BYTES, size - position))])
            target.sync()
        finally:
            target.close()
    finally:
        source.close()
    disk.rename(path + TEMPORARY_SUFFIX, path)
    disk.sync_directory(QUARANTINE)
