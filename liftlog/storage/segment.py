"""One file of a log, and the scan that finds out what is in it.

A segment holds batches one after the other and nothing else; its name is its base offset. In memory each
batch has one line of the index: base offset, position, and the greatest timestamp up to here, so that
offsets and times are found by bisection without reading anything. The index is derived from the batches by
`scan`, never stored.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from google_crc32c import extend as crc32c_extend

from liftlog.epochs import EpochHistory
from liftlog.format import (
    HEADER_BYTES,
    MAGIC_BYTES,
    MAGIC_POSITION,
    CorruptBatch,
    frame_bytes,
    read_header,
    verify_frame,
)
from liftlog.ports import DiskFile
from liftlog.types import PartitionId

_CHUNK_BYTES = 1024 * 1024


class Segment:
    """The index of one segment file. `size` is the position at which the next batch goes."""

    __slots__ = (
        "base_offset",
        "checksum",
        "end_offset",
        "greatest_ms",
        "offsets",
        "path",
        "positions",
        "size",
    )

    def __init__(self, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.checksum = 0
        """CRC-32C of all verified bytes, set by `scan`: a copy of them must have the same."""
        self.offsets = array("Q")
        self.positions = array("Q")
        self.greatest_ms = array("q")
        """Running maximum: it never falls, so it can be bisected even where a clock stepped back."""

    def add(self, base_offset: int, count: int, frame_bytes: int, last_timestamp_ms: int) -> None:
        """A batch was written at `size`."""
        greatest = self.greatest_ms
        self.offsets.append(base_offset)
        self.positions.append(self.size)
        greatest.append(max(last_timestamp_ms, greatest[-1]) if greatest else last_timestamp_ms)
        self.end_offset = base_offset + count
        self.size += frame_bytes

    def find(self, offset: int) -> int:
        """Number of the batch that holds `offset`, which must lie within the segment."""
        return bisect_right(self.offsets, offset) - 1

    def find_time(self, timestamp_ms: int) -> int | None:
        """Number of the first batch with a record at or after the time, None if there is none."""
        number = bisect_left(self.greatest_ms, timestamp_ms)
        return number if number < len(self.offsets) else None

    def end_of(self, number: int) -> int:
        """Position after batch `number`."""
        return self.positions[number + 1] if number + 1 < len(self.positions) else self.size

    def offset_after(self, number: int) -> int:
        """First offset after batch `number`."""
        return self.offsets[number + 1] if number + 1 < len(self.offsets) else self.end_offset

    def keep(self, batches: int) -> None:
        """Forget all but the first `batches` batches."""
        if batches < len(self.offsets):
            self.end_offset = self.offsets[batches]
            self.size = self.positions[batches]
            del self.offsets[batches:]
            del self.positions[batches:]
            del self.greatest_ms[batches:]


class BadBytes(Exception):
    """What follows `position` is not the continuation of the log. The text says why."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} byte {position}: {reason}")
        self.path = path
        self.position = position


def scan(
    file: DiskFile, log: PartitionId, segment: Segment, epochs: EpochHistory, *, payloads: bool
) -> BadBytes | None:
    """Fill an empty segment's index from its file; return what stopped it before the end, if anything.

    Checked of each batch: the header, that its base offset continues the log, that its epoch does not go
    backward, and with `payloads` the checksum over its records. Raises DiskError.
    """
    size = file.size()
    chunk = b""
    chunk_start = 0
    checksum = 0
    while segment.size < size:
        position = segment.size
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read_at(position, _CHUNK_BYTES)
            chunk_start, at = position, 0
        try:
            if payloads:
                end = at + frame_bytes(chunk, at)
                if end > len(chunk):
                    chunk = file.read_at(position, max(_CHUNK_BYTES, min(end - at, size - position)))
                    chunk_start, end, at = position, end - at, 0
                frame = chunk[at:end]
                header = verify_frame(log, frame)
            else:
                frame = b""
                header = read_header(chunk, at)
                if header.frame_bytes > size - position:
                    raise CorruptBatch(f"a batch of {header.frame_bytes} bytes ends after the file")
            base_offset, leo = header.base_offset, segment.end_offset
            if base_offset != leo:
                raise CorruptBatch(f"base offset {base_offset} does not continue the log at {leo}")
            if header.epoch < epochs.last():
                raise CorruptBatch(f"epoch {header.epoch} follows epoch {epochs.last()}")
        except CorruptBatch as error:
            segment.checksum = checksum
            return BadBytes(segment.path, position, str(error))
        checksum = crc32c_extend(checksum, frame)
        epochs.note(header.epoch, header.base_offset)
        segment.add(header.base_offset, header.record_count, header.frame_bytes, header.last_timestamp_ms)
    segment.checksum = checksum
    return None


def synced_evidence(file: DiskFile, position: int, leo: int) -> int:
    """How far the log is known to have been durable when something behind `position` was written (R14).

    Looks for batch headers behind bad bytes that begin at `position`, where the good part of the log ends
    at `leo`. A header above `leo` means that bytes were destroyed that a sync had made safe: no torn write.
    A header whose own records are bad still counts, because the prefix has its own checksum. Raises
    DiskError.
    """
    size = file.size()
    greatest = 0
    start = position + 1
    while start + HEADER_BYTES <= size:
        chunk = file.read_at(start, _CHUNK_BYTES + HEADER_BYTES)
        found = chunk.find(MAGIC_BYTES, MAGIC_POSITION)
        while 0 <= found < _CHUNK_BYTES + MAGIC_POSITION:
            try:
                header = read_header(chunk, found - MAGIC_POSITION)
            except CorruptBatch:
                pass
            else:
                if header.base_offset >= leo:
                    greatest = max(greatest, header.synced_below)
            found = chunk.find(MAGIC_BYTES, found + 1)
        start += _CHUNK_BYTES
    return greatest
