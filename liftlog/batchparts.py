"""A part of a batch: as a batch of its own, or seen without decoding the rest."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from liftlog.format import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_FIELD_BYTES,
    PREFIX_BYTES,
    RECORD_HEAD_BYTES,
    SEALED,
    SPARSE,
    CorruptBatch,
    Header,
    build_batch,
    compress,
    decode_records,
    encode_sparse,
    read_header,
)
from liftlog.types import Batch, PartitionId

_HEAD = struct.Struct("<IiH")
"""What a record of a batch begins with that is not sparse: its length, its time after the batch's first, and
the length of its subject, which follows the whole head."""
_MOVED = CODEC_MASK | SPARSE | SEALED
"""Batches of these kinds do not hold the bytes of record after record."""


def slice_batch(log: PartitionId, batch: Batch, start: int, end: int) -> Batch:
    """The part of a batch that lies within [start, end): the same epoch, records and codec, encoded anew.

    The batch itself if it lies within. Raises ValueError if no offset is left, else like `compress`.
    """
    if start <= batch.base_offset and batch.end_offset <= end:
        return batch
    start, end = max(start, batch.base_offset), min(end, batch.end_offset)
    if start >= end:
        raise ValueError(f"nothing of the batch at {batch.base_offset} is left: [{start}, {end}) is empty")
    if (part := copied_part(log, batch, start, end)) is not None:
        return part
    header = read_header(batch.data)
    records = [record for record in decode_records(batch) if start <= record.offset < end]
    part = encode_sparse(log, batch.epoch, start, end, records, control=header.control)
    return compress(log, part, header.codec)


def copied_part(
    log: PartitionId, batch: Batch, start: int, end: int, finder: RecordFinder | None = None
) -> Batch | None:
    """What `slice_batch` gives of [start, end), which lies within the batch, if bytes need only be copied, as
    of most batches that a leader has written: neither packed nor sparse, and all of one time. Else None.

    `finder`: of whoever is given the parts of a batch one after the other.
    """
    header = read_header(batch.data)
    if header.attributes & _MOVED or header.first_timestamp_ms != header.last_timestamp_ms:
        return None
    first, stop = start - batch.base_offset, end - batch.base_offset
    begin, finish = (finder or RecordFinder()).bounds(batch.data, first, stop)
    if not finish:
        return None
    return build_batch(
        log,
        start,
        batch.epoch,
        [batch.data[begin:finish]],
        count=stop - first,
        first_ms=header.first_timestamp_ms,
        last_ms=header.last_timestamp_ms,
        attributes=header.attributes,
    )


class RecordFinder:
    """Finds where records of batches lie, and goes on in a batch where it was: who is given part after part
    of it looks at each record once. What it finds does not depend on what it was asked before.
    """

    __slots__ = ("_head", "_number", "_position")

    def __init__(self) -> None:
        self._head = b""
        """Of the batch: all that says which one it is, its checksum too."""
        self._number = 0
        self._position = HEADER_BYTES
        """Where this record begins, in front of which all have the batch's time."""

    def bounds(self, data: bytes, first: int, end: int) -> tuple[int, int]:
        """Where the bytes of the records numbered [first, end) lie; (0, 0) if one up to there has another
        time than the batch, or they lie outside of it.
        """
        head = data[PREFIX_BYTES:HEADER_BYTES]
        if head != self._head or first < self._number:
            self._head, self._number, self._position = head, 0, HEADER_BYTES
        begin = self._walk(data, first)
        finish = self._walk(data, end) if begin else 0
        return (begin, finish) if finish else (0, 0)

    def _walk(self, data: bytes, number: int) -> int:
        """Go on to this record; 0 if there is no way."""
        unpack, position = _HEAD.unpack_from, self._position
        try:
            for _ in range(self._number, number):
                length, delta, _ = unpack(data, position)
                if delta:
                    return 0
                position += LENGTH_FIELD_BYTES + length
        except struct.error:
            return 0
        if position > len(data):
            return 0
        self._number, self._position = number, position
        return position


def subjects_from(batch: Batch, start: int) -> Iterator[tuple[int, bytes]]:
    """(offset, subject) of each record from `start` on. Raises like `decode_records`."""
    data = batch.data
    if read_header(data).attributes & _MOVED:
        for record in decode_records(batch):
            if record.offset >= start:
                yield record.offset, record.subject
        return
    unpack, position = _HEAD.unpack_from, HEADER_BYTES
    try:
        for offset in range(batch.base_offset, batch.end_offset):
            length, _, subject_bytes = unpack(data, position)
            if offset >= start:
                begin = position + RECORD_HEAD_BYTES
                yield offset, data[begin : begin + subject_bytes]
            position += LENGTH_FIELD_BYTES + length
    except struct.error:
        raise CorruptBatch(f"record {offset} lies outside its batch") from None


class Alike(NamedTuple):
    """What the records of a batch have in common that are alike, as those of one program mostly are: each
    takes so many bytes, and has this subject. Their keys, values and headers may differ.
    """

    size: int
    subject: bytes

    def part(self, log: PartitionId, header: Header, data: bytes, first: int, count: int) -> bytes:
        """So many of them, from the one numbered `first` on, as a batch."""
        begin = HEADER_BYTES + first * self.size
        return build_batch(
            log,
            header.base_offset + first,
            header.epoch,
            [data[begin : begin + count * self.size]],
            count=count,
            first_ms=header.first_timestamp_ms,
            last_ms=header.last_timestamp_ms,
        ).data


def alike(header: Header, data: bytes) -> Alike | None:
    """Whether the records of a batch are alike, and of one time: seen without a look at each, by columns of
    their bytes. None if they are not, or do not lie there one after the other.
    """
    if header.attributes or header.first_timestamp_ms != header.last_timestamp_ms:
        return None
    count = header.records
    size, left = divmod(len(data) - HEADER_BYTES, count)
    if left or size < RECORD_HEAD_BYTES:
        return None
    length, delta, subject_bytes = _HEAD.unpack_from(data, HEADER_BYTES)
    begin = HEADER_BYTES + RECORD_HEAD_BYTES
    end = begin + subject_bytes
    if length != size - LENGTH_FIELD_BYTES or delta or RECORD_HEAD_BYTES + subject_bytes > size:
        return None
    for place in range(HEADER_BYTES, end):
        column = data[place::size]
        if column.count(column[0]) != count:
            return None
    return Alike(size, data[begin:end])
