"""What compaction keeps of a batch, and how what is kept becomes batches again (C1, C2).

Theory. Let `last` map each key to the offset of its last record in a range that ends at `end`. A record below
`end` with a key goes if `last` knows a later offset for its key. A tombstone (a key without a value) that is
the last of its key goes too when it lies below `droppable`. Everything else stays as it is: offset, epoch,
timestamp, every byte string. Records without a key, control batches and what lies at or above `end` always
stay.

Spans stay as well: what is written covers every offset that was read, so that a batch that is lost is always
noticed as a gap. A batch that loses nothing is passed on as its own bytes. What is left of others is
gathered, batch by batch, into sparse ones of bounded size; without records a batch still has its span, and
the next one joins it, so that long emptiness costs one header. Small neighbours join too, or a log of one-
record batches would never lose their headers. Only batches of one epoch and one codec are joined.

Nothing here decodes a record: the walk reads the fixed heads and copies the bytes between them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from liftlog.format import (
    HEADER_BYTES,
    LENGTH_FIELD_BYTES,
    RECORD_HEAD_BYTES,
    SPARSE,
    SPARSE_RECORD_HEAD_BYTES,
    CorruptBatch,
    Header,
    build_batch,
    compress,
    plain_payload,
)
from liftlog.storage.keymap import DICTS, SHORT_KEY_BYTES, KeyMap, digest
from liftlog.types import Batch, PartitionId

JOINED_BYTES = 64 * 1024
"""Records that are gathered into one batch, uncompressed; a single input may be larger."""
SMALL_BYTES = 4 * 1024
"""A batch below this joins its neighbours even if it loses nothing."""
_SPAN_LIMIT = 1 << 32

_DENSE = struct.Struct("<IiHHIii")
_SPARSE = struct.Struct("<IIiHHIii")
_SPARSE_START = struct.Struct("<IIi")
_DENSE_COPIED_FROM = 8
_SPARSE_COPIED_FROM = 12
"""Behind length, place and time: from here on a record's bytes are copied."""
_LENGTH_COVERS = _SPARSE_COPIED_FROM - LENGTH_FIELD_BYTES


Kept = tuple[int, int, int, int]
"""A record that stays: offset less base offset, time less the batch's first, and from where to where the rest
of it lies in the payload."""


class Judged(NamedTuple):
    """What stays of a batch. `dropped_end`: behind the last tombstone dropped for its age, 0 = none;
    `tombstones_end`: behind the last one below the run's end that stays.
    """

    payload: bytes
    kept: list[Kept]
    dropped_end: int
    tombstones_end: int


def note_keys(keys: KeyMap, header: Header, data: bytes, start_offset: int) -> int:
    """Note the keys of an open batch from `start_offset` on.

    Returns the offset whose key did not fit, else the batch's end.

    Raises CorruptBatch if the records do not fill the batch.
    """
    payload, position = _payload(header, data)
    dicts, mask = keys.dicts, DICTS - 1
    room = keys.capacity - len(keys)
    base_offset = header.base_offset
    sparse = header.sparse
    unpack = _SPARSE.unpack_from if sparse else _DENSE.unpack_from
    key_from = SPARSE_RECORD_HEAD_BYTES if sparse else RECORD_HEAD_BYTES
    place = -1
    try:
        for _ in range(header.records):
            if sparse:
                length, place, _, subject, reply, headers, key_bytes, _ = unpack(payload, position)
            else:
                length, _, subject, reply, headers, key_bytes, _ = unpack(payload, position)
                place += 1
            if key_bytes >= 0 and base_offset + place >= start_offset:
                start = position + key_from + subject + reply + headers
                key = payload[start : start + key_bytes]
                if key_bytes > SHORT_KEY_BYTES:
                    key = digest(key)
                last = dicts[crc32c(key) & mask]
                if key not in last:
                    if not room:
                        return base_offset + place
                    room -= 1
                last[key] = base_offset + place
            position += LENGTH_FIELD_BYTES + length
    except struct.error:
        position = -1
    _check_filled(header, payload, position)
    return header.end_offset


def judge(keys: KeyMap, header: Header, data: bytes, end: int, droppable: int) -> Judged:
    """Walk an open batch. Raises CorruptBatch if the records do not fill it."""
    payload, position = _payload(header, data)
    dicts, mask = keys.dicts, DICTS - 1
    base_offset = offset = header.base_offset
    sparse = header.sparse
    unpack = _SPARSE.unpack_from if sparse else _DENSE.unpack_from
    key_from = SPARSE_RECORD_HEAD_BYTES if sparse else RECORD_HEAD_BYTES
    copied_from = _SPARSE_COPIED_FROM if sparse else _DENSE_COPIED_FROM
    kept: list[Kept] = []
    keep = kept.append
    dropped_end = tombstones_end = place = 0
    try:
        for number in range(header.records):
            if sparse:
                length, place, delta, subject, reply, headers, key_bytes, value = unpack(payload, position)
            else:
                length, delta, subject, reply, headers, key_bytes, value = unpack(payload, position)
                place = number
            after = position + LENGTH_FIELD_BYTES + length
            offset = base_offset + place
            if key_bytes >= 0 and offset < end:
                start = position + key_from + subject + reply + headers
                key = payload[start : start + key_bytes]
                if key_bytes > SHORT_KEY_BYTES:
                    key = digest(key)
                if dicts[crc32c(key) & mask].get(key, 0) > offset:
                    position = after
                    continue
                if value < 0:
                    if offset < droppable:
                        dropped_end = offset + 1
                        position = after
                        continue
                    tombstones_end = offset + 1
            keep((place, delta, position + copied_from, after))
            position = after
    except struct.error:
        position = -1
    _check_filled(header, payload, position)
    return Judged(payload, kept, dropped_end, tombstones_end)


def _payload(header: Header, data: bytes) -> tuple[bytes, int]:
    """The plain records and where they begin in these bytes."""
    return (plain_payload(header, data), 0) if header.codec != "none" else (data, HEADER_BYTES)


def _check_filled(header: Header, payload: bytes, position: int) -> None:
    if position != len(payload):
        raise CorruptBatch(f"the records of the batch at offset {header.base_offset} do not fill it")


class Gatherer:
    """Makes batches of what is left, in the order of the log. `ready` holds those that are complete."""

    __slots__ = (
        "_base",
        "_bytes",
        "_codec",
        "_end",
        "_epoch",
        "_first_ms",
        "_last_ms",
        "_log",
        "_parts",
        "_records",
        "ready",
    )

    def __init__(self, log: PartitionId) -> None:
        self._log = log
        self.ready: list[Batch] = []
        self._begin(0, 0, "none")

    def _begin(self, base: int, epoch: int, codec: str) -> None:
        self._base = self._end = base
        self._epoch = epoch
        self._codec = codec
        self._parts: list[bytes] = []
        self._bytes = 0
        self._records = 0
        self._first_ms = self._last_ms = 0

    @property
    def gathered_bytes(self) -> int:
        """About what the batch takes that is being gathered."""
        return HEADER_BYTES + self._bytes if self._end > self._base else 0

    def pass_on(self, batch: Batch) -> None:
        """The batch as it is."""
        self.flush()
        self.ready.append(batch)

    def add(self, batch: Batch, header: Header, judged: Judged) -> None:
        """What was kept of the batch, which follows the one before."""
        payload, kept = judged.payload, judged.kept
        whole = header.records > 0 and len(kept) == header.records
        if whole and len(batch.data) >= SMALL_BYTES:
            self.pass_on(batch)
            return
        if not (self._takes(header, kept) and self._join(header, payload, kept)):
            if whole and not header.sparse:
                # Alone it would be a sparse batch that lacks nothing.
                self.pass_on(batch)
                return
            self.flush()
            self._begin(header.base_offset, header.epoch, header.codec)
            self._join(header, payload, kept)
        self._end = header.end_offset

    def _takes(self, header: Header, kept: list[Kept]) -> bool:
        """Whether this may become part of the batch that is being gathered."""
        if self._end == self._base or header.epoch != self._epoch:
            return False
        if header.end_offset - self._base >= _SPAN_LIMIT:
            return False
        if not (kept and self._records):
            return True
        return header.codec == self._codec and self._bytes + kept[-1][3] - kept[0][2] <= JOINED_BYTES

    def _join(self, header: Header, payload: bytes, kept: list[Kept]) -> bool:
        """Whether it was possible: a time may lie too far from where those before it are counted from."""
        if not kept:
            return True
        if not self._records:
            self._codec = header.codec
            self._first_ms = header.first_timestamp_ms
            self._last_ms = header.first_timestamp_ms + kept[0][1]
        places = header.base_offset - self._base
        later_ms = header.first_timestamp_ms - self._first_ms
        pack = _SPARSE_START.pack
        before = len(self._parts)
        add = self._parts.append
        greatest = kept[0][1]
        copied = 0
        try:
            for place, delta, start, end in kept:
                add(pack(end - start + _LENGTH_COVERS, places + place, later_ms + delta))
                add(payload[start:end])
                copied += end - start
                if delta > greatest:
                    greatest = delta
        except struct.error:
            del self._parts[before:]
            return False
        self._bytes += copied + len(kept) * _SPARSE_COPIED_FROM
        self._records += len(kept)
        self._last_ms = max(self._last_ms, header.first_timestamp_ms + greatest)
        return True

    def flush(self) -> None:
        """Complete the batch that is being gathered."""
        if self._end > self._base:
            count = self._end - self._base
            sparse = build_batch(
                self._log,
                self._base,
                self._epoch,
                self._parts,
                count=count,
                first_ms=self._first_ms,
                last_ms=self._last_ms,
                attributes=SPARSE,
                records=self._records,
            )
            self.ready.append(compress(self._log, sparse, self._codec))
            self._begin(self._end, self._epoch, self._codec)
