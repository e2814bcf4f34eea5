"""Small files that are replaced as a whole: identity, vote, HW checkpoints, the clean-stop marker, verdicts.

A state file is never written in place. The new content goes into `<name>.tmp`, is synced, renamed over the
old one, and the folder is synced: at every instant, whatever fails, the name holds either the old content or
the new, and never an empty file. A checksum over the file's name and content tells a damaged or misplaced
file, which is an error and never taken for "nothing was there" (M4).

     0  8 bytes  magic
     8  u32      length of the content
    12  u32      CRC-32C of name and content
    16  content  msgpack
"""

from __future__ import annotations

import struct

from google_crc32c import value as crc32c

from liftlog.ports import Disk
from liftlog.storage.layout import TEMPORARY_SUFFIX, parent
from liftlog.storage.sectors import read_sturdily

_MAGIC = b"LIFTSTA1"
_HEAD = struct.Struct("<8sII")
OTHER_SUFFIX = ".other" + TEMPORARY_SUFFIX


class CorruptState(ValueError):
    """A state file that cannot be read. The text names the file and the byte."""


class PreparedState:
    """New content that lies in the temporary file, not yet synced: the write phase of a group is over."""

    __slots__ = ("_disk", "_path", "_temporary")
    _temporary: str

    def __init__(self, disk: Disk, path: str, content: bytes, earlier: PreparedState | None = None) -> None:
        """Write the temporary file, instead of an `earlier` one, which stays if that fails.

        Raises DiskError.
        """
        self._disk = disk
        self._path = path
        names = (path + TEMPORARY_SUFFIX, path + OTHER_SUFFIX)
        temporary: str = names[earlier is not None and earlier._temporary == names[0]]
        self._temporary = temporary
        if disk.exists(temporary):
            disk.remove(temporary)
        file = disk.open(temporary, create=True)
        try:
            file.append([_HEAD.pack(_MAGIC, len(content), _checksum(path, content)), content])
        finally:
            file.close()
        if earlier is not None:
            disk.remove(earlier._temporary)

    def commit(self) -> None:
        """Sync it and put it in place, durably. Raises DiskError, SyncFailed."""
        temporary = self._temporary
        file = self._disk.open(temporary)
        try:
            file.sync()
        finally:
            file.close()
        self._disk.rename(temporary, self._path)
        self._disk.sync_directory(parent(self._path))


def write_state(disk: Disk, path: str, content: bytes) -> None:
    """Replace the state file atomically and durably. Raises DiskError, SyncFailed."""
    PreparedState(disk, path, content).commit()


def write_in_place(disk: Disk, path: str, content: bytes) -> None:
    """What a state file must never suffer: the planted bug `hw_checkpoint_in_place`."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.append([_HEAD.pack(_MAGIC, len(content), _checksum(path, content)), content])
    finally:
        file.close()


def read_state(disk: Disk, path: str) -> bytes | None:
    """The content, or None if there is no such file. Raises CorruptState, DiskError."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        data = read_sturdily(file, 0, file.size())
    finally:
        file.close()
    if len(data) < _HEAD.size:
        raise CorruptState(f"{path} byte {len(data)}: the file ends within its header of {_HEAD.size} bytes")
    magic, length, crc = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptState(f"{path} byte 0: not a liftlog state file")
    content = data[_HEAD.size :]
    if length != len(content):
        raise CorruptState(f"{path} byte {_HEAD.size}: {len(content)} bytes, {length} were written")
    if _checksum(path, content) != crc:
        raise CorruptState(f"{path} byte {_HEAD.size}: the checksum does not match")
    return content


def _checksum(path: str, content: bytes) -> int:
    return int(crc32c(path.encode() + b"\0" + content))
