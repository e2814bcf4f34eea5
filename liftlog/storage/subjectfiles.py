"""What a subject index has to know of one complete segment, in a file beside it (S1, ADR 0101).

A node that begins an index reads the whole log for it. Where a segment has such a file that is read instead,
which takes a tenth of the time or less. The file is written while an index is made, and never again: what is
in a complete segment does not change.

    slabs   one behind the other (`liftlog.subjects.index.slabs`); offsets between them have no message
    foot     msgpack: where the file begins, what the segment is, and of each slab its offsets and its place
    u32      length of the foot
    u32      CRC-32C of stream id (u64), partition (u32) and the foot
    8 bytes  "LIFTSUB1"

It is derived, and treated so: it is not synced, and never trusted. A slab is taken only if its checksum holds
and the foot describes the very segment that is there, as an index file does; else the segment is read. A
subject file goes together with the index file of its segment, durably before the segment is swapped, cut or
grows again.

With encryption at rest there are none: subjects are sealed there, and what is not sealed is not believed.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from contextlib import suppress
from operator import attrgetter

import msgspec
from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c

from liftlog.ports import Disk
from liftlog.storage.index import IndexHead
from liftlog.storage.layout import TEMPORARY_SUFFIX, subjects_path
from liftlog.storage.log import Log
from liftlog.storage.logfiles import remove_if_there
from liftlog.storage.segment import Segment
from liftlog.subjects.index.columns import ColumnIndex
from liftlog.subjects.index.interface import SlabDamaged
from liftlog.subjects.index.sizes import MessageSizes
from liftlog.subjects.index.slabs import SLAB_OFFSETS, Slab, decode_slab, encode_slab
from liftlog.types import Number, PartitionId

TEXT_BYTES_MAX = 1024 * 1024
"""A slab ends when its messages' subjects take so much together."""

_MAGIC = b"LIFTSUB1"
_TAIL = struct.Struct("<II8s")
_LOG = struct.Struct("<QI")


class CorruptSubjects(ValueError):
    """A subject file that cannot be believed. The segment is read instead."""


class SlabPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where a slab lies, and which offsets it is about."""

    first: Number
    end: Number
    position: Number
    length: Number


class Foot(msgspec.Struct, frozen=True, array_like=True):
    """`first`: from here on the file has what is in the segment."""

    first: Number
    segment: IndexHead
    slabs: tuple[SlabPlace, ...]


def read_foot(disk: Disk, log: PartitionId, path: str, unchecked: bool = False) -> Foot:
    """What a subject file says of itself. Raises CorruptSubjects, FileNotFoundError, DiskError.

    `unchecked`: the planted bug `subject_file_unchecked`, here and below.
    """
    file = disk.open(path)
    try:
        size = file.size()
        if size < _TAIL.size:
            raise CorruptSubjects(f"{path} is no subject file")
        length, crc, magic = _TAIL.unpack(file.read_at(size - _TAIL.size, _TAIL.size))
        if magic != _MAGIC or length > size - _TAIL.size:
            raise CorruptSubjects(f"{path} is no subject file, or its end is missing")
        data = file.read_at(size - _TAIL.size - length, length)
    finally:
        file.close()
    if _checksum(log, data) != crc and not unchecked:
        raise CorruptSubjects(f"{path}: the foot's checksum does not match")
    try:
        return msgspec.msgpack.decode(data, type=Foot)
    except msgspec.MsgspecError as error:
        raise CorruptSubjects(f"{path}: {error}") from error


def encode_foot(log: PartitionId, foot: Foot) -> bytes:
    """What a subject file ends with."""
    data = msgspec.msgpack.encode(foot)
    return data + _TAIL.pack(len(data), _checksum(log, data), _MAGIC)


def read_slab(disk: Disk, log: PartitionId, path: str, place: SlabPlace, unchecked: bool = False) -> Slab:
    """One slab of a subject file. Raises CorruptSubjects, FileNotFoundError, DiskError."""
    file = disk.open(path)
    try:
        data = file.read_at(place.position, place.length)
    finally:
        file.close()
    try:
        return decode_slab(data, str(log).encode(), place.first, place.end, unchecked)
    except SlabDamaged as error:
        raise CorruptSubjects(f"{path} byte {place.position}: {error}") from error


def _checksum(log: PartitionId, foot: bytes) -> int:
    return int(crc32c_extend(crc32c(_LOG.pack(log[0], log[1])), foot))


class SubjectFiles:
    """Those of one log, for its index: what they have is taken, and what they lack is written."""

    __slots__ = ("_disk", "_foot", "_log", "_looked", "_stale", "_unchecked", "_writer", "taken")

    def __init__(self, disk: Disk, log: Log, stale: bool = False, unchecked: bool = False) -> None:
        """`stale`: a file is believed whatever segment it was made of. Both are planted bugs."""
        self._disk = disk
        self._log = log
        self._stale = stale
        self._unchecked = unchecked
        self._looked: Segment | None = None
        """Whose file was looked at last; `_foot` if it can be believed."""
        self._foot: Foot | None = None
        self._writer: _Writer | None = None
        self.taken = 0
        """Slabs that were entered."""

    def take(self, segment: Segment, index: ColumnIndex, sizes: MessageSizes) -> int:
        """Enter what the file of a complete segment says of the offsets from `index.next` on, a slab of it.

        Returns how many bytes were read; 0: there is nothing to believe. Raises SubjectIndexFull.
        """
        if self._looked is not segment:
            self._looked, self._foot = segment, self._find(segment)
        foot = self._foot
        if foot is None or index.next < foot.first:
            return 0
        place = bisect_right(foot.slabs, index.next, key=_end)
        if place == len(foot.slabs):
            index.append(segment.end_offset, [])
            return 1
        try:
            slab = self._read(segment, foot.slabs[place]).starting(index.next)
            index.append_slab(slab)
        except (CorruptSubjects, SlabDamaged, OSError):
            self._foot = None
            with suppress(OSError):
                self._disk.remove(subjects_path(segment.path))
            return 0
        sizes.append_slab(slab.offsets, slab.sizes)
        self.taken += 1
        return foot.slabs[place].length

    def _find(self, segment: Segment) -> Foot | None:
        try:
            foot = read_foot(self._disk, self._log.id, subjects_path(segment.path), self._unchecked)
        except (CorruptSubjects, OSError):
            return None
        return foot if foot.segment == segment.head or self._stale else None

    def _read(self, segment: Segment, place: SlabPlace) -> Slab:
        if place.end > segment.end_offset:
            raise CorruptSubjects(f"{subjects_path(segment.path)} has offsets that its segment has not")
        return read_slab(self._disk, self._log.id, subjects_path(segment.path), place, self._unchecked)

    # -- writing -----------------------------------------------------------------------------------

    def follow(self, segment: Segment, first: int) -> None:
        """What lies in a segment from `first` on is entered next."""
        writer = self._writer
        if writer is not None and writer.segment is segment and writer.due == first:
            return
        self.abandon()
        if first == max(segment.base_offset, self._log.log_start):
            with suppress(OSError):
                self._writer = _Writer(self._disk, self._log.id, segment, first)

    def entered(self, index: ColumnIndex, offset: int, subjects: list[bytes], sizes: list[int]) -> None:
        """These messages were entered, at `offset` and behind it."""
        if self._writer is not None and not self._writer.add(index, offset, subjects, sizes):
            self.abandon()

    def reached(self, index: ColumnIndex) -> None:
        """Everything below `index.next` is entered. A file that is whole with that is put in its place."""
        writer = self._writer
        if writer is None:
            return
        writer.due = index.next
        segment = writer.segment
        if segment.end_offset > index.next or segment is self._log.segment_of(self._log.leo):
            return
        if segment is self._log.segment_of(segment.base_offset) and writer.finish(index):
            self._writer = None
        self.abandon()

    def abandon(self) -> None:
        """What is half written is thrown away."""
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None


class _Writer:
    """The file of one segment, as it is made. `due`: up to where the segment is entered."""

    __slots__ = (
        *("_begin", "_disk", "_first", "_slabs", "_log", "_path", "_position", "_sizes", "_text_bytes"),
        *("due", "segment"),
    )

    def __init__(self, disk: Disk, log: PartitionId, segment: Segment, first: int) -> None:
        """Raises DiskError."""
        self.segment = segment
        self.due = first
        self._disk = disk
        self._log = log
        self._path = subjects_path(segment.path) + TEMPORARY_SUFFIX
        self._begin = self._first = first
        self._sizes = array("I")
        """Of the messages from `_first` on that are in no slab yet."""
        self._text_bytes = 0
        self._position = 0
        self._slabs: list[SlabPlace] = []
        remove_if_there(disk, self._path)
        disk.open(self._path, create=True).close()

    def add(self, index: ColumnIndex, offset: int, subjects: list[bytes], sizes: list[int]) -> bool:
        """Whether it can go on."""
        self._text_bytes += sum(map(len, subjects))
        done = 0
        while done < len(sizes):
            at = offset + done
            if not self._sizes:
                self._first = at
            end = (self._first // SLAB_OFFSETS + 1) * SLAB_OFFSETS
            if at >= end:
                if not self._write_slab(index, end):
                    return False
                continue
            self._sizes.extend(sizes[done : done + end - at])
            done = min(len(sizes), done + end - at)
        return self._text_bytes < TEXT_BYTES_MAX or self._write_slab(index, offset + len(sizes))

    def _write_slab(self, index: ColumnIndex, end: int) -> bool:
        """What has gathered, up to `end`; whether that went well."""
        slab = index.slab(self._first, end, self._sizes)
        if slab is None:
            return False
        data = encode_slab(slab, str(self._log).encode())
        self._slabs.append(SlabPlace(self._first, end, self._position, len(data)))
        self._position += len(data)
        self._sizes = array("I")
        self._text_bytes = 0
        return self._append(data)

    def _append(self, data: bytes) -> bool:
        try:
            file = self._disk.open(self._path)
            try:
                file.append([data])
            finally:
                file.close()
        except OSError:
            return False
        return True

    def finish(self, index: ColumnIndex) -> bool:
        """The segment is complete, and all of it is entered; whether its file is in place."""
        if self._sizes and not self._write_slab(index, self.segment.end_offset):
            return False
        foot = Foot(self._begin, self.segment.head, tuple(self._slabs))
        if not self._append(encode_foot(self._log, foot)):
            return False
        with suppress(OSError):
            self._disk.rename(self._path, subjects_path(self.segment.path))
            return True
        return False

    def abandon(self) -> None:
        with suppress(OSError):
            remove_if_there(self._disk, self._path)


_end = attrgetter("end")
