"""The index of one segment: where in the file an offset or a time is to be looked for.

Theory. An entry is made for a batch about every four KiB, so the index is small enough to be kept for many
segments, and reading walks a few batches behind the entry that it found. Each entry says: at this position
begins the batch with this base offset, and all batches before it have no timestamp above this one. Both are
non-decreasing, also where a clock stepped back, so both can be bisected:

    offset:  the last entry at or below it
    time T:  the last entry before which nothing reaches T; the first record at or after T lies behind it

The index is derived from the batches. Its file only saves the time to do so (D3): it is written when the
segment is complete and when the log is closed cleanly, and a reader takes it only if its checksums hold and
its head describes the very file that is there. The head alone tells what a start must know of the segment,
so that a start reads one block per segment.

     0  8 bytes  "LIFTIDX1"
     8  u32      CRC-32C of stream id (u64), partition (u32), bytes 12 to 71, and the epochs
    12  u32      CRC-32C of the entries
    16  u64      base offset of the segment
    24  u64      end offset: the base offset of the segment that follows
    32  u64      bytes of the segment file
    40  i64      timestamp of the first record; -2^63 in a segment without records
    48  i64      greatest timestamp of a record; -2^63 in a segment without records
    56  u64      records
    64  u32      number of epochs
    68  u32      number of entries
    72  epochs   u64 epoch, u64 offset of its first batch in the segment: one for each epoch in the segment
        offsets    u64 per entry
        positions  u64 per entry
        times      i64 per entry
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right

import msgspec
from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c

from liftlog.ports import Disk
from liftlog.storage.layout import TEMPORARY_SUFFIX
from liftlog.types import EpochStart, PartitionId

SPACING_BYTES = 4096
NO_TIME = -(1 << 63)
"""Before every timestamp: what a segment without records has for its greatest one."""
UNKNOWN_TIME = (1 << 63) - 1
"""After every timestamp: the greatest one of batches that were damaged when the index was made."""
ENTRY_BYTES = 24

_MAGIC = b"LIFTIDX1"
_HEAD = struct.Struct("<8sIIQQQqqQII")
_CHECKED_FROM = 12
_LOG = struct.Struct("<QI")
_EPOCH = struct.Struct("<QQ")
_FIRST_READ_BYTES = 1024


class CorruptIndex(ValueError):
    """An index file that cannot be believed. It is made anew from the segment (D3)."""


class IndexHead(msgspec.Struct, frozen=True):
    """What the head of an index file says about the segment."""

    base_offset: int
    end_offset: int
    file_bytes: int
    first_ms: int
    greatest_ms: int
    records: int
    epochs: tuple[EpochStart, ...]


class SegmentIndex:
    """The entries, in three arrays. A segment with a batch has an entry at position 0."""

    __slots__ = ("offsets", "positions", "times_ms")

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.positions = array("Q")
        self.times_ms = array("q")
        """Greatest timestamp of all batches before the entry, UNKNOWN_TIME if some of them cannot be read."""

    def __len__(self) -> int:
        return len(self.offsets)

    def wants(self, position: int) -> bool:
        """Whether a batch at `position` is far enough behind the last entry to get one."""
        return not self.positions or position - self.positions[-1] >= SPACING_BYTES

    def add(self, offset: int, position: int, greatest_before_ms: int) -> None:
        """An entry for the batch at `position`; all batches before it have timestamps up to the given one.

        Or up to what an earlier entry says: behind damage it stays unknown.
        """
        if self.times_ms:
            greatest_before_ms = max(greatest_before_ms, self.times_ms[-1])
        self.offsets.append(offset)
        self.positions.append(position)
        self.times_ms.append(greatest_before_ms)

    def find(self, offset: int) -> int:
        """Number of the last entry at or below `offset`; -1 if there is none."""
        return bisect_right(self.offsets, offset) - 1

    def find_time(self, timestamp_ms: int) -> int:
        """Number of the last entry before which no record reaches the time; -1 if there is none."""
        return bisect_left(self.times_ms, timestamp_ms) - 1

    def keep_below(self, position: int) -> None:
        """Forget the entries at or behind `position`."""
        count = bisect_left(self.positions, position)
        del self.offsets[count:]
        del self.positions[count:]
        del self.times_ms[count:]


def encode_index(log: PartitionId, head: IndexHead, index: SegmentIndex) -> bytes:
    """The content of an index file."""
    count = len(index)
    entries = struct.pack(f"<{count}Q{count}Q{count}q", *index.offsets, *index.positions, *index.times_ms)
    fixed = _HEAD.pack(
        _MAGIC,
        0,
        crc32c(entries),
        head.base_offset,
        head.end_offset,
        head.file_bytes,
        head.first_ms,
        head.greatest_ms,
        head.records,
        len(head.epochs),
        count,
    )
    checked = fixed[_CHECKED_FROM:] + b"".join(_EPOCH.pack(*epoch) for epoch in head.epochs)
    crc = crc32c_extend(crc32c(_LOG.pack(log[0], log[1])), checked)
    return b"".join((_MAGIC, crc.to_bytes(4, "little"), checked, entries))


def write_index(disk: Disk, log: PartitionId, path: str, head: IndexHead, index: SegmentIndex) -> None:
    """Put the index file at `path` in place, synced; its name is durable when its folder is synced.

    Raises DiskError, SyncFailed; what was begun is then removed.
    """
    prepare_index(disk, log, path, head, index)
    disk.rename(path + TEMPORARY_SUFFIX, path)


def prepare_index(disk: Disk, log: PartitionId, path: str, head: IndexHead, index: SegmentIndex) -> None:
    """Write and sync `<path>.tmp`. Raises DiskError, SyncFailed; what was begun is then removed."""
    temporary = path + TEMPORARY_SUFFIX
    if disk.exists(temporary):
        disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        file.append([encode_index(log, head, index)])
        file.sync()
    except OSError:
        file.close()
        disk.remove(temporary)
        raise
    file.close()


def read_head(disk: Disk, log: PartitionId, path: str, trusted: bool = False) -> IndexHead:
    """The head of an index file, in one read. Raises CorruptIndex, FileNotFoundError, DiskError.

    `trusted`: the planted bug `index_trusted`, here and below.
    """
    file = disk.open(path)
    try:
        data = file.read_at(0, _FIRST_READ_BYTES)
        head_bytes = _head_bytes(path, data)
        if head_bytes > len(data):
            data += file.read_at(len(data), min(head_bytes, file.size()) - len(data))
    finally:
        file.close()
    return _decode_head(log, path, data, trusted)


def read_index(
    disk: Disk, log: PartitionId, path: str, trusted: bool = False
) -> tuple[IndexHead, SegmentIndex]:
    """A whole index file. Raises CorruptIndex, FileNotFoundError, DiskError."""
    file = disk.open(path)
    try:
        data = file.read_at(0, file.size())
    finally:
        file.close()
    head = _decode_head(log, path, data, trusted)
    entries = data[_head_bytes(path, data) :]
    fields = _HEAD.unpack_from(data)
    count = fields[-1]
    if len(entries) != count * ENTRY_BYTES:
        raise CorruptIndex(f"{path} has {len(entries)} bytes of entries, {count} entries were written")
    if crc32c(entries) != fields[2] and not trusted:
        raise CorruptIndex(f"{path}: the entries' checksum does not match")
    index = SegmentIndex()
    numbers = struct.unpack(f"<{count}Q{count}Q{count}q", entries)
    index.offsets.extend(numbers[:count])
    index.positions.extend(numbers[count : 2 * count])
    index.times_ms.extend(numbers[2 * count :])
    return head, index


def _head_bytes(path: str, data: bytes) -> int:
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        raise CorruptIndex(f"{path} is no index file")
    return _HEAD.size + int(_HEAD.unpack_from(data)[9]) * _EPOCH.size


def _decode_head(log: PartitionId, path: str, data: bytes, trusted: bool) -> IndexHead:
    end = _head_bytes(path, data)
    if end > len(data):
        raise CorruptIndex(f"{path} ends within its head")
    _, crc, _, base, last, size, first_ms, greatest_ms, records, _, _ = _HEAD.unpack_from(data)
    seed = crc32c(_LOG.pack(log[0], log[1]))
    if crc32c_extend(seed, data[_CHECKED_FROM:end]) != crc and not trusted:
        raise CorruptIndex(f"{path}: the head's checksum does not match")
    epochs = tuple(EpochStart(*_EPOCH.unpack_from(data, at)) for at in range(_HEAD.size, end, _EPOCH.size))
    return IndexHead(
        base_offset=base,
        end_offset=last,
        file_bytes=size,
        first_ms=first_ms,
        greatest_ms=greatest_ms,
        records=records,
        epochs=epochs,
    )
