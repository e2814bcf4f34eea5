"""Sectors that cannot be read are bad bytes, like those that read back wrong (D2)."""

from __future__ import annotations

import errno

from liftlog.ports import DiskFile

_SECTOR_BYTES = 512


def read_sturdily(file: DiskFile, position: int, length: int) -> bytes:
    """Read; where the disk cannot, even at the second attempt, there are zeros, a sector at a time.

    A sector that decayed is then what it is: bytes that do not verify (D2). Raises DiskError for no EIO.
    """
    try:
        return file.read_at(position, length)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    parts: list[bytes] = []
    end = position + min(length, file.size() - position)
    while position < end:
        after = min(end, position - position % _SECTOR_BYTES + _SECTOR_BYTES)
        try:
            parts.append(file.read_at(position, after - position))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            parts.append(bytes(after - position))
        position = after
    return b"".join(parts)
