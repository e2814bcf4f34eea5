"""One file of a log, the cursor that walks over its batches, and the scan that finds out what is in it.

A segment holds batches one after the other and nothing else; its name is its base offset, and it ends where
the next segment begins. What is known of it without reading it, its *facts*, is kept in memory for every
segment; its sparse index (`liftlog.storage.index`) is in memory while the segment grows, and otherwise loaded
when somebody reads.

Bytes that are not the continuation of a segment are *bad*. In the last segment of a log that was not stopped
cleanly they may be a torn write, and the scan ends there (R14). Anywhere else they are damage: the scan looks
for the next good batch behind them, and the offsets in between are a damaged range (D2).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Protocol

from google_crc32c import extend as crc32c_extend

from liftlog.format import (
    HEADER_BYTES,
    MAGIC_BYTES,
    MAGIC_POSITION,
    SEALED,
    SPARSE,
    CorruptBatch,
    Header,
    UnsupportedBatch,
    frame_bytes,
    read_header,
    verify_bytes,
    verify_frame,
)
from liftlog.ports import DiskFile
from liftlog.storage.index import NO_TIME, UNKNOWN_TIME, IndexHead, SegmentIndex
from liftlog.storage.layout import index_path
from liftlog.storage.sectors import read_sturdily
from liftlog.types import Batch, EpochStart, LogOptions, OffsetRange, PartitionId

CHUNK_BYTES = 1024 * 1024
UNKNOWN = -1
"""In place of an offset that nobody knows."""
NO_LIMIT = 1 << 63

_ATTRIBUTES_POSITION = 23
_FACTS = struct.Struct("<qqI")
_FACTS_POSITION = 44


class BadBytes(Exception):
    """What follows `position` is not the continuation of the log. The text says why.

    `range`: the offsets that cannot be read because of it, as far as that is known (D2).
    """

    def __init__(self, path: str, position: int, reason: str, range: OffsetRange | None = None) -> None:
        super().__init__(f"{path} byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason
        self.range = range


class IndexSource(Protocol):
    """Where the index of a segment that is not growing comes from: see `liftlog.storage.indexes`."""

    def get(self, segment: Segment) -> SegmentIndex: ...

    def put(self, segment: Segment, index: SegmentIndex) -> None: ...

    def forget(self, segment: Segment) -> None: ...

    def open_below(self, log: PartitionId) -> int: ...


class Segment:
    """The facts of one segment. `size` is the position behind its last batch."""

    __slots__ = (
        "_index",
        "_indexes",
        "base_offset",
        "checksum",
        "end_offset",
        "epochs",
        "first_ms",
        "greatest_ms",
        "log",
        "path",
        "records",
        "size",
    )

    def __init__(self, log: PartitionId, path: str, base_offset: int, indexes: IndexSource) -> None:
        """A segment without batches, which grows by `add`."""
        self.log = log
        self.path = path
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.first_ms = NO_TIME
        self.greatest_ms = NO_TIME
        self.records = 0
        self.epochs: tuple[EpochStart, ...] = ()
        """One line for each epoch that has a batch here, with the base offset of its first one here."""
        self.checksum = 0
        """CRC-32C of all verified bytes, set by `scan`: a copy of them must have the same."""
        self._indexes = indexes
        self._index: SegmentIndex | None = SegmentIndex()

    @classmethod
    def described(cls, log: PartitionId, path: str, head: IndexHead, indexes: IndexSource) -> Segment:
        """A segment of which only the head of its index was read."""
        segment = cls(log, path, head.base_offset, indexes)
        segment.end_offset = head.end_offset
        segment.size = head.file_bytes
        segment.first_ms = head.first_ms
        segment.greatest_ms = head.greatest_ms
        segment.records = head.records
        segment.epochs = head.epochs
        segment._index = None
        return segment

    @property
    def head(self) -> IndexHead:
        """The facts, as the index file keeps them."""
        return IndexHead(
            base_offset=self.base_offset,
            end_offset=self.end_offset,
            file_bytes=self.size,
            first_ms=self.first_ms,
            greatest_ms=self.greatest_ms,
            records=self.records,
            epochs=self.epochs,
        )

    @property
    def index(self) -> SegmentIndex:
        """The sparse index; loaded, or built anew if its file is not good. Raises DiskError."""
        return self._indexes.get(self) if self._index is None else self._index

    @property
    def holds_index(self) -> bool:
        """Whether the index is only in memory: the segment grows, or was just scanned."""
        return self._index is not None

    @property
    def index_path(self) -> str:
        return index_path(self.path)

    def __contains__(self, offset: int) -> bool:
        return self.base_offset <= offset < self.end_offset

    @property
    def open_below(self) -> int:
        """Open batches at or above this offset are not believed."""
        return self._indexes.open_below(self.log)

    def refuse_open(self, header: Header) -> None:
        """V8: a good batch that lies open where all should be encrypted comes from somebody without the key.

        Raises CorruptBatch: it is believed no more than flipped bits are.
        """
        if not header.sealed and header.base_offset >= self.open_below:
            raise CorruptBatch("an open batch in an encrypted log, written by somebody without the key")

    def is_full(self, options: LogOptions, more_bytes: int, more_records: int, last_ms: int) -> bool:
        """Whether the segment ends before batches that would come now; an empty one never does."""
        return self.end_offset > self.base_offset and bool(
            (options.segment_bytes and self.size + more_bytes > options.segment_bytes)
            or (options.segment_records and self.records + more_records > options.segment_records)
            or (options.segment_ms and self.records and last_ms - self.first_ms > options.segment_ms)
        )

    def hold_index(self) -> None:
        """Keep the index in memory: the segment grows. Raises DiskError."""
        if self._index is None:
            self._index = self._indexes.get(self)
            self._indexes.forget(self)

    def release_index(self) -> None:
        """The segment is complete: its index may be forgotten when memory is short."""
        if self._index is not None:
            self._indexes.put(self, self._index)
            self._index = None

    def renew_index(self, index: SegmentIndex) -> None:
        """Another index in place of one that was wrong."""
        if self._index is not None:
            self._index = index
        else:
            self._indexes.put(self, index)

    def add_batch(self, batch: Batch, frame_bytes: int) -> None:
        """A batch was written at `size`; its frame takes `frame_bytes` on disk."""
        data = batch.data
        first_ms, last_ms, records = _FACTS.unpack_from(data, _FACTS_POSITION)
        if not data[_ATTRIBUTES_POSITION] & SPARSE:
            records = batch.count
        self.add(
            base_offset=batch.base_offset,
            count=batch.count,
            frame_bytes=frame_bytes,
            epoch=batch.epoch,
            records=records,
            first_ms=first_ms,
            last_ms=last_ms,
        )

    def add(
        self,
        base_offset: int,
        count: int,
        frame_bytes: int,
        epoch: int,
        records: int,
        first_ms: int,
        last_ms: int,
    ) -> None:
        """A batch lies at `size`. Times of a batch without records mean nothing."""
        index = self._index
        if index is not None and index.wants(self.size):
            index.add(base_offset, self.size, self.greatest_ms)
        if not self.epochs or self.epochs[-1].epoch != epoch:
            self.epochs += (EpochStart(epoch, base_offset),)
        if records:
            if not self.records:
                self.first_ms = first_ms
            self.records += records
            if last_ms > self.greatest_ms:
                self.greatest_ms = last_ms
        self.end_offset = base_offset + count
        self.size += frame_bytes

    def cut(self, position: int, offset: int, records: int, greatest_ms: int) -> None:
        """The batches from `position` on are gone; what is left ends at `offset` and holds `records`."""
        self.size = position
        self.end_offset = offset
        self.records = records
        self.greatest_ms = greatest_ms
        if not records:
            self.first_ms = NO_TIME
        self.epochs = tuple(epoch for epoch in self.epochs if epoch.start < offset)
        if self._index is not None:
            self._index.keep_below(position)

    def skip_to(self, position: int, offset: int, epochs: Iterable[EpochStart] = ()) -> None:
        """What lies before `position` cannot be read; the batch there begins at `offset`.

        `epochs`: those that are known to have batches among what cannot be read, as in `Segment.epochs`. A
        record that is lost may have had any time: no lookup may begin behind it.
        """
        greatest_ms = self.greatest_ms if offset == self.end_offset else UNKNOWN_TIME
        last = self.epochs[-1].epoch if self.epochs else -1
        self.epochs += tuple(entry for entry in epochs if entry.epoch > last)
        self.size = position
        self.end_offset = offset
        if self._index is not None:
            self._index.add(offset, position, greatest_ms)


class Cursor:
    """Walks over the batches of a segment file from a known batch on, reading `ahead` bytes at a time.

    `position` and `offset` tell where it stands; an UNKNOWN offset is taken from the batch that is there. A
    batch that does not continue at `offset`, does not fit into the segment's `size` or has a bad header
    raises BadBytes; the records are verified by `verify`.
    """

    __slots__ = (
        "_ahead",
        "_chunk",
        "_chunk_start",
        "_file",
        "_open_below",
        "_segment",
        "_size",
        "offset",
        "position",
    )

    def __init__(
        self,
        file: DiskFile,
        segment: Segment,
        position: int,
        offset: int,
        size: int,
        ahead: int = CHUNK_BYTES,
    ) -> None:
        self._file = file
        self._segment = segment
        self._size = size
        self._ahead = ahead
        self._chunk = b""
        self._chunk_start = position
        self._open_below = segment.open_below
        self.position = position
        self.offset = offset

    @property
    def path(self) -> str:
        return self._segment.path

    @property
    def at_end(self) -> bool:
        return self.position >= self._size

    def header(self) -> Header:
        """The header of the batch here. Raises BadBytes, UnsupportedBatch, DiskError."""
        at = self.position - self._chunk_start
        if at + HEADER_BYTES > len(self._chunk):
            at = self._read(self._ahead)
        try:
            try:
                header = read_header(self._chunk, at)
            except UnsupportedBatch:
                self._refuse_kind(at)
                raise
            if header.base_offset != self.offset != UNKNOWN:
                raise CorruptBatch(
                    f"base offset {header.base_offset} does not continue the log at {self.offset}"
                )
            if header.frame_bytes > self._size - self.position:
                raise CorruptBatch(f"a batch of {header.frame_bytes} bytes ends after the file")
        except CorruptBatch as error:
            raise BadBytes(self._segment.path, self.position, str(error)) from error
        return header

    def _refuse_kind(self, at: int) -> None:
        """A flipped bit can look like a newer version: only the checksum over the whole batch tells."""
        length = frame_bytes(self._chunk, at)
        if length > self._size - self.position:
            raise CorruptBatch(f"a batch of {length} bytes ends after the file")
        verify_frame(self._segment.log, read_sturdily(self._file, self.position, length))

    def frame(self, header: Header) -> bytes:
        """The bytes of the batch here. Raises DiskError."""
        at = self.position - self._chunk_start
        if at + header.frame_bytes > len(self._chunk):
            at = self._read(max(self._ahead, header.frame_bytes))
        return self._chunk[at : at + header.frame_bytes]

    def verify(self, header: Header) -> bytes:
        """The same, with both checksums good. Raises BadBytes, UnsupportedBatch, DiskError."""
        frame = self.frame(header)
        try:
            verify_frame(self._segment.log, frame)
            self._segment.refuse_open(header)
        except CorruptBatch as error:
            raise BadBytes(self._segment.path, self.position, str(error)) from error
        return frame

    def take(self) -> tuple[Header, bytes]:
        """Header and bytes of the batch here, with both checksums good; its header is looked at once.

        Raises BadBytes, UnsupportedBatch, DiskError.
        """
        at = self.position - self._chunk_start
        if at + HEADER_BYTES > len(self._chunk):
            at = self._read(self._ahead)
        segment = self._segment
        try:
            try:
                header = read_header(self._chunk, at)
            except UnsupportedBatch:
                self._refuse_kind(at)
                raise
            length = header.frame_bytes
            if length > self._size - self.position:
                raise CorruptBatch(f"a batch of {length} bytes ends after the file")
            if at + length > len(self._chunk):
                at = self._read(max(self._ahead, length))
                frame = self._chunk[at : at + length]
                # Read a second time: what the first has shown of the header is not what this checksum covers.
                header = verify_frame(segment.log, frame)
            else:
                frame = self._chunk[at : at + length]
                verify_bytes(segment.log, frame, length)
            if header.base_offset >= self._open_below and not header.attributes & SEALED:
                segment.refuse_open(header)
            if header.base_offset != self.offset != UNKNOWN:
                raise CorruptBatch(
                    f"base offset {header.base_offset} does not continue the log at {self.offset}"
                )
        except CorruptBatch as error:
            raise BadBytes(self._segment.path, self.position, str(error)) from error
        return header, frame

    def advance(self, header: Header) -> None:
        """Go past the batch here."""
        self.position += header.frame_bytes
        self.offset = header.base_offset + header.count

    def _read(self, length: int) -> int:
        length = min(max(length, HEADER_BYTES), self._size - self.position)
        self._chunk = read_sturdily(self._file, self.position, length) if length > 0 else b""
        self._chunk_start = self.position
        return 0


def scan(file: DiskFile, segment: Segment, least_epoch: int, limit: int = NO_LIMIT) -> BadBytes | None:
    """Verify every batch from `segment.size` on and add it; return what ended that before the file's end.

    Checked of each batch: both checksums, that its base offset continues the log, that no epoch goes
    backward. `least_epoch`: the epoch before this segment. A batch that passes `limit` ends the scan. Raises
    UnsupportedBatch that names the file, DiskError.
    """
    size = file.size()
    checksum = segment.checksum
    cursor = Cursor(file, segment, segment.size, segment.end_offset, size)
    epoch = segment.epochs[-1].epoch if segment.epochs else least_epoch
    bad: BadBytes | None = None
    while not cursor.at_end:
        try:
            header, frame = cursor.take()
        except BadBytes as damage:
            bad = damage
            break
        except UnsupportedBatch as unsupported:
            raise UnsupportedBatch(f"{segment.path} byte {cursor.position}: {unsupported}") from unsupported
        if header.end_offset > limit:
            break
        if header.epoch < epoch:
            bad = BadBytes(segment.path, cursor.position, f"epoch {header.epoch} follows epoch {epoch}")
            break
        epoch = header.epoch
        checksum = crc32c_extend(checksum, frame)
        segment.add(
            base_offset=header.base_offset,
            count=header.count,
            frame_bytes=header.frame_bytes,
            epoch=epoch,
            records=header.records,
            first_ms=header.first_timestamp_ms,
            last_ms=header.last_timestamp_ms,
        )
        cursor.advance(header)
    segment.checksum = checksum
    return bad


def scan_past_damage(
    file: DiskFile, segment: Segment, least_epoch: int, limit: int = NO_LIMIT
) -> list[tuple[OffsetRange, BadBytes]]:
    """Scan a whole file, going on behind bad bytes with the next good batch (D2).

    Returns the ranges of offsets that are missing between good batches, and why; bad bytes behind the last
    good batch have a range that is empty. Raises UnsupportedBatch, DiskError.
    """
    damage: list[tuple[OffsetRange, BadBytes]] = []
    while True:
        bad = scan(file, segment, least_epoch, limit)
        if bad is None:
            return damage
        end = segment.end_offset
        found = _next_good(file, segment, bad.position + 1, limit)
        if found is None:
            damage.append((OffsetRange(end, end), bad))
            return damage
        segment.skip_to(*found)
        damage.append((OffsetRange(end, segment.end_offset), bad))


def _next_good(file: DiskFile, segment: Segment, start: int, limit: int) -> tuple[int, int] | None:
    """Position and base offset of the batch at or behind `start` with which the segment goes on.

    The first one that verifies and may follow, unless it was misdirected to where it lies (D1): it is one of
    batches in a row, and other rows behind it, which continue the segment too and contradict it, hold more
    offsets. They need not be more batches: what was misdirected may have been cut off since, and its offsets
    been written anew. Simulator seeds 858 and 5413.
    """
    for position, header in _good_batches(file, segment, start, limit):
        end, behind = _run(file, segment, position, header)
        others = 0
        for place, other in _good_batches(file, segment, behind, limit):
            if other.base_offset >= end:
                break
            if place >= behind:
                its_end, behind = _run(file, segment, place, other)
                others += its_end - other.base_offset
        if others <= end - header.base_offset:
            return position, header.base_offset
    return None


def _run(file: DiskFile, segment: Segment, position: int, header: Header) -> tuple[int, int]:
    """The good batches in a row from one on: the offset and the position behind them."""
    cursor = Cursor(file, segment, position, UNKNOWN, file.size())
    cursor.advance(header)
    with suppress(BadBytes, UnsupportedBatch):
        while not cursor.at_end:
            header, _ = cursor.take()
            cursor.advance(header)
    return cursor.offset, cursor.position


def _good_batches(file: DiskFile, segment: Segment, start: int, limit: int) -> Iterator[tuple[int, Header]]:
    """All batches at or behind `start` that verify and lie between the segment's end offset and `limit`."""
    size = file.size()
    for position, chunk, at in _magics(file, start):
        if position < start:
            continue  # Within the records of the batch before.
        try:
            length = frame_bytes(chunk, at)
            if length > size - position:
                continue
            with suppress(UnsupportedBatch):
                read_header(chunk, at)
            header = verify_frame(segment.log, read_sturdily(file, position, length))
            segment.refuse_open(header)
        except CorruptBatch:
            continue
        start = position + length
        if header.base_offset >= segment.end_offset and header.end_offset <= limit:
            yield position, header


def synced_evidence(file: DiskFile, position: int, leo: int) -> int:
    """How far the log is known to have been durable when something behind `position` was written (R14).

    Looks for batch headers behind bad bytes that begin at `position`, where the good part of the log ends
    at `leo`. A header above `leo` means that bytes were destroyed that a sync had made safe: no torn write.
    A header whose own records are bad still counts, because the prefix has its own checksum. Raises
    DiskError.
    """
    greatest = 0
    for _, chunk, at in _magics(file, position + 1):
        try:
            header = read_header(chunk, at)
        except (CorruptBatch, UnsupportedBatch):
            continue
        if header.base_offset >= leo:
            greatest = max(greatest, header.synced_below)
    return greatest


def _magics(file: DiskFile, start: int) -> Iterator[tuple[int, bytes, int]]:
    """Every place from `start` on where a batch might begin: position, a chunk, and where it is in there."""
    size = file.size()
    while start + HEADER_BYTES <= size:
        chunk = read_sturdily(file, start, CHUNK_BYTES + HEADER_BYTES)
        found = chunk.find(MAGIC_BYTES, MAGIC_POSITION)
        while 0 <= found < CHUNK_BYTES + MAGIC_POSITION:
            at = found - MAGIC_POSITION
            if at + HEADER_BYTES <= len(chunk):
                yield start + at, chunk, at
            found = chunk.find(MAGIC_BYTES, found + 1)
        start += CHUNK_BYTES
