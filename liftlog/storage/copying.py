"""Copies of segments: the only way to be sure of bytes that a sync may have failed for.

After a failed sync the kernel may mark pages clean without having written them: they read back well from
the page cache, and syncing again does nothing (R5, R7). A process cannot know whether the one before it
died of that. So what is to be kept is written once more, into a new file, which is synced and renamed over
the old one.
"""

from __future__ import annotations

from collections.abc import Sequence

from google_crc32c import extend as crc32c_extend

from liftlog.ports import Disk, DiskFile
from liftlog.storage.layout import TEMPORARY_SUFFIX, parent
from liftlog.types import LiftlogError

_CHUNK_BYTES = 1024 * 1024


def create_empty(disk: Disk, path: str) -> DiskFile:
    """Open a new file, in place of one that may lie there. Raises DiskError."""
    if disk.exists(path):
        disk.remove(path)
    return disk.open(path, create=True)


def copy_bytes(source: DiskFile, target: DiskFile, start: int, end: int) -> int:
    """Append bytes [start, end) of `source` to `target`; return their CRC-32C. Raises DiskError."""
    checksum = 0
    while start < end:
        chunk = source.read_at(start, min(_CHUNK_BYTES, end - start))
        target.append([chunk])
        checksum = crc32c_extend(checksum, chunk)
        start += len(chunk)
    return checksum


def replace_segment(
    disk: Disk,
    path: str,
    size: int,
    *,
    checksum: int | None = None,
    tail: Sequence[bytes | memoryview] = (),
) -> DiskFile:
    """Put a durable copy of the first `size` bytes, followed by `tail`, in place of the file; return it,
    open.

    With `checksum`, the copy must have it: what was verified is what is kept. Raises DiskError, SyncFailed;
    LiftlogError if the disk returned other bytes than it did when they were verified.
    """
    temporary = path + TEMPORARY_SUFFIX
    target = create_empty(disk, temporary)
    try:
        source = disk.open(path)
        copied = copy_bytes(source, target, 0, size)
        source.close()
        if checksum is not None and copied != checksum:
            raise LiftlogError(f"{path}: two reads of the same bytes differ; replace this disk, start empty")
        if tail:
            target.append(tail)
        target.sync()
        disk.rename(temporary, path)
    except OSError:
        # A disk that is full must not stay full because of a copy that did not fit.
        target.close()
        disk.remove(temporary)
        raise
    disk.sync_directory(parent(path))
    return target
