"""What lies on a simulated disk, read from outside: no node, no engine and no Disk call takes part.

The checks of compaction and repair compare a replica's files with the truth, and the atlas has to know which
offsets a damaged byte belongs to. Both read the segments' bytes directly, so that no bug of the code under
test can hide from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from google_crc32c import value as crc32c

from liftlog.format import (
    HEADER_BYTES,
    LENGTH_POSITION,
    MAGIC_BYTES,
    MAGIC_POSITION,
    PREFIX_BYTES,
    CorruptBatch,
    decode_records,
    parse_batch,
    read_header,
    verify_frame,
)
from liftlog.storage.layout import log_directory
from liftlog.types import Batch, LiftlogError, PartitionId, Record

if TYPE_CHECKING:
    from liftlog.storage.sealing import Sealer
    from liftlog_sim.devices.disk import SimDisk

SEGMENT_SUFFIX = ".log"
STATE_MAGIC = b"LIFTSTA1"
STATE_HEAD_BYTES = 16
NODE_STATES = ("clean", "encryption", "hw", "identity", "logs", "vote")
LOG_STATES = ("clean", "damage", "start", "tail")
"""State files of a node and of a log."""
BASE_POSITION = 24
COUNT_POSITION = 40


class Place(NamedTuple):
    """One batch where it lies: bytes [position, end) of a file, offsets [base, base + span)."""

    path: str
    position: int
    end: int
    base: int
    span: int


class DiskCopy(msgspec.Struct):
    """What a replica's segments hold: records by offset, and the offsets that its batches span."""

    records: dict[int, Record]
    epochs: dict[int, int]
    """Epoch of each record."""
    spans: list[tuple[int, int]]
    """Runs of offsets that good batches cover, ascending and merged."""

    def spanned(self, batch: Batch) -> None:
        """Behind all others there is this batch."""
        if self.spans and self.spans[-1][1] == batch.base_offset:
            self.spans[-1] = (self.spans[-1][0], batch.end_offset)
        else:
            self.spans.append((batch.base_offset, batch.end_offset))

    def in_order(self) -> list[Record]:
        return [self.records[offset] for offset in sorted(self.records)]

    def covers(self, start: int, end: int) -> bool:
        """Whether every offset of [start, end) lies in a good batch."""
        return start >= end or any(first <= start and end <= last for first, last in self.spans)


def segment_paths(disk: SimDisk, log: PartitionId) -> list[str]:
    """Paths of a log's segments, ascending."""
    prefix = log_directory(log) + "/"
    return [path for path in disk.files_below(prefix) if path.endswith(SEGMENT_SUFFIX)]


def places(path: str, content: bytes) -> Iterator[Place]:
    """The batches of a segment by their headers; where there is none, from the next one on."""
    position = 0
    while position + HEADER_BYTES <= len(content):
        place = _place(path, content, position)
        if place is None:
            position = _next_header(content, position + 1)
            continue
        yield place
        position = place.end


def _place(path: str, content: bytes, position: int) -> Place | None:
    if content[position + MAGIC_POSITION : position + MAGIC_POSITION + 2] != MAGIC_BYTES:
        return None
    end = position + PREFIX_BYTES + _number(content, position + LENGTH_POSITION, 4)
    if end < position + HEADER_BYTES or end > len(content):
        return None
    base = _number(content, position + BASE_POSITION, 8)
    return Place(path, position, end, base, _number(content, position + COUNT_POSITION, 4))


def _next_header(content: bytes, position: int) -> int:
    """Where the next header begins whose own checksum is right; the end if there is none."""
    while (found := content.find(MAGIC_BYTES, position + MAGIC_POSITION)) >= 0:
        position = found - MAGIC_POSITION
        try:
            read_header(content, position)
        except (CorruptBatch, LiftlogError):
            position += 1
        else:
            return position
    return len(content)


def state_problem(path: str, content: bytes) -> str:
    """What is wrong with the bytes of a state file (`docs/log-format.md`); empty if nothing is."""
    if content[:8] != STATE_MAGIC or len(content) < STATE_HEAD_BYTES:
        return f"{len(content)} bytes that do not begin like a state file"
    body = content[STATE_HEAD_BYTES:]
    if _number(content, 8, 4) != len(body):
        return f"{len(body)} bytes of content where {_number(content, 8, 4)} were written"
    if _number(content, 12, 4) != crc32c(path.encode() + b"\0" + body):
        return "content that does not go with its checksum"
    return ""


def _number(content: bytes, position: int, size: int) -> int:
    return int.from_bytes(content[position : position + size], "little")


def copy_of(disk: SimDisk, log: PartitionId, sealer: Sealer | None = None) -> DiskCopy:
    """All good batches of a replica; what is damaged is left out."""
    found = DiskCopy({}, {}, [])
    for batch in _batches(disk, log, sealer):
        for record in decode_records(batch):
            found.records[record.offset] = record
            found.epochs[record.offset] = batch.epoch
        found.spanned(batch)
    return found


def spans_of(disk: SimDisk, log: PartitionId, sealer: Sealer | None = None) -> DiskCopy:
    """What the good batches of a replica span, without their records."""
    found = DiskCopy({}, {}, [])
    for batch in _batches(disk, log, sealer):
        found.spanned(batch)
    return found


def _batches(disk: SimDisk, log: PartitionId, sealer: Sealer | None) -> Iterator[Batch]:
    for path in segment_paths(disk, log):
        content = disk.content(path)
        for place in places(path, content):
            frame = content[place.position : place.end]
            try:
                if sealer is not None:
                    verify_frame(log, frame)
                    frame = sealer.open(log, frame)
                batch = parse_batch(log, frame)
            except CorruptBatch:
                continue
            yield batch
