"""The layout of a batch: the same bytes on disk, between nodes and to readers (D1).

A *batch* is a run of records with contiguous offsets and one leader epoch. It is encoded once, by the
leader, and its bytes are never encoded again: followers, readers and restarts pass them on as they are. What
differs from replica to replica is only the *prefix*, which each replica stamps when it appends:

     0  u64  synced_below   this replica's durable LEO when it wrote the batch (R14)
     8  u32  local_crc      CRC-32C of synced_below and of crc: binds the prefix to its batch
    12  u32  length         bytes that follow this field
    ------------------------------------------------------------------------------------------
    16  u32  crc            CRC-32C of stream id, partition index, length and bytes 20 to the end
    20  u16  magic
    22  u8   version
    23  u8   attributes     none is defined yet: 0
    24  u64  base_offset
    32  u64  epoch
    40  u32  count          records in the batch, at least 1
    44  i64  first_timestamp_ms
    52  i64  last_timestamp_ms   the greatest timestamp of the batch
    60  u32  reserved       0
    64  records

Stream id and partition index are in the checksum but not in the bytes, so a batch that was written to the
wrong log, or moved there, does not verify. `synced_below` is what tells damage from a torn write: if a later
good batch was written when everything below S was durable, then bad bytes below S cannot be a torn write.

A record is a fixed head and its byte strings, one after the other:

    u32 length of what follows | i32 timestamp less first_timestamp_ms | u16 subject | u16 reply | u32 headers
    | i32 key, -1 = none | i32 value, -1 = none | subject, reply, headers, key, value

All numbers are little-endian. Encoding is the leader's hot path: one `struct.pack` per record, one join and
one checksum per batch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c

from liftlog.types import Batch, Message, PartitionId, Record

PREFIX_BYTES = 16
HEADER_BYTES = 64
"""Prefix included."""
CRC_START = PREFIX_BYTES
BODY_START = 20
"""Where the bytes begin that the batch's own checksum covers."""
RECORD_HEAD_BYTES = 24
LENGTH_FIELD_BYTES = 4

LENGTH_POSITION = 12
LAST_TIMESTAMP_POSITION = 52

MAGIC = 0x4CF5
"""On disk the bytes F5 4C: F5 is never part of UTF-8 text, so a scan for batches rarely stops in vain."""
MAGIC_BYTES = MAGIC.to_bytes(2, "little")
MAGIC_POSITION = 20
VERSION = 1

_PREFIX = struct.Struct("<QII")
_BODY = struct.Struct("<HBBQQIqqI")
_HEADER = struct.Struct("<QIIIHBBQQIqqI")
_LOG_AND_LENGTH = struct.Struct("<QII")
_RECORD = struct.Struct("<IiHHIii")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")

_RECORD_FIXED_BYTES = RECORD_HEAD_BYTES - LENGTH_FIELD_BYTES
_OFFSET_LIMIT = 1 << 63


class CorruptBatch(ValueError):
    """Bytes that are not a good batch of this log. The text names what is wrong."""


class Header(NamedTuple):
    """The fixed part of a batch. `frame_bytes` is the length of the whole frame, prefix included."""

    synced_below: int
    frame_bytes: int
    base_offset: int
    epoch: int
    record_count: int
    first_timestamp_ms: int
    last_timestamp_ms: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.record_count


# ---------------------------------------------------------------------------------------------------------
# Encoding
# ---------------------------------------------------------------------------------------------------------


def encode_messages(
    log: PartitionId, base_offset: int, epoch: int, timestamp_ms: int, messages: Sequence[Message]
) -> Batch:
    """Encode messages from NATS, all stamped with one time, into a batch of `log` from `base_offset` on.

    Raises ValueError if there is no message, or one does not fit the record head (a subject above 64 KiB).
    """
    pack = _RECORD.pack
    parts: list[bytes] = []
    add = parts.append
    try:
        for subject, reply, headers, value in messages:
            subject_bytes = len(subject)
            reply_bytes = len(reply)
            headers_bytes = len(headers)
            value_bytes = len(value)
            length = _RECORD_FIXED_BYTES + subject_bytes + reply_bytes + headers_bytes + value_bytes
            add(pack(length, 0, subject_bytes, reply_bytes, headers_bytes, -1, value_bytes))
            add(subject)
            add(reply)
            add(headers)
            add(value)
    except struct.error as error:
        raise ValueError(f"a message does not fit a record: {error}") from error
    return _frame(log, base_offset, epoch, len(messages), timestamp_ms, timestamp_ms, parts)


def encode_values(
    log: PartitionId, base_offset: int, epoch: int, timestamp_ms: int, values: Sequence[bytes]
) -> Batch:
    """Encode bare values, such as Raft entries, one record each. Raises ValueError if there is none."""
    pack = _RECORD.pack
    parts: list[bytes] = []
    for value in values:
        parts.append(pack(_RECORD_FIXED_BYTES + len(value), 0, 0, 0, 0, -1, len(value)))
        parts.append(value)
    return _frame(log, base_offset, epoch, len(values), timestamp_ms, timestamp_ms, parts)


def encode_records(log: PartitionId, epoch: int, records: Sequence[Record]) -> Batch:
    """Encode whole records, with keys and headers; their offsets must be contiguous.

    Raises ValueError if there is none, their offsets have a gap, one does not fit the record head, or its
    timestamp lies more than 2^31 ms (24 days) from the first one's.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    base_offset = records[0].offset
    first_ms = records[0].timestamp_ms
    parts: list[bytes] = []
    try:
        for i, record in enumerate(records):
            offset, timestamp_ms, subject, reply, headers, key, value = record
            if offset != base_offset + i:
                raise ValueError(f"offset {offset} does not follow {base_offset + i - 1}")
            strings = b"".join((subject, reply, headers, key or b"", value or b""))
            parts.append(
                _RECORD.pack(
                    _RECORD_FIXED_BYTES + len(strings),
                    timestamp_ms - first_ms,
                    len(subject),
                    len(reply),
                    len(headers),
                    -1 if key is None else len(key),
                    -1 if value is None else len(value),
                )
            )
            parts.append(strings)
    except struct.error as error:
        raise ValueError(f"a record does not fit its head: {error}") from error
    last_ms = max(record.timestamp_ms for record in records)
    return _frame(log, base_offset, epoch, len(records), first_ms, last_ms, parts)


def _frame(
    log: PartitionId,
    base_offset: int,
    epoch: int,
    count: int,
    first_ms: int,
    last_ms: int,
    parts: list[bytes],
) -> Batch:
    if count == 0:
        raise ValueError("a batch needs at least one record")
    parts.insert(0, _BODY.pack(MAGIC, VERSION, 0, base_offset, epoch, count, first_ms, last_ms, 0))
    body = b"".join(parts)
    length = len(body) + LENGTH_FIELD_BYTES
    crc = _U32.pack(crc32c_extend(crc32c(_LOG_AND_LENGTH.pack(log[0], log[1], length)), body))
    prefix = _PREFIX.pack(0, crc32c(_ZERO_SYNCED + crc), length)
    return Batch(base_offset, count, epoch, b"".join((prefix, crc, body)))


_ZERO_SYNCED = _U64.pack(0)


def stamp(data: bytes, synced_below: int) -> bytes:
    """The prefix that a replica writes before `data[PREFIX_BYTES:]` of a good frame (R14)."""
    synced = _U64.pack(synced_below)
    return _PREFIX.pack(synced_below, crc32c(synced + data[CRC_START:BODY_START]), len(data) - PREFIX_BYTES)


# ---------------------------------------------------------------------------------------------------------
# Verifying and decoding
# ---------------------------------------------------------------------------------------------------------


def frame_bytes(data: bytes, position: int = 0) -> int:
    """Length of the frame that begins at `position`, as its prefix claims. Raises CorruptBatch."""
    if len(data) - position < HEADER_BYTES:
        raise CorruptBatch(f"{len(data) - position} bytes are too few for a batch header of {HEADER_BYTES}")
    return int(_U32.unpack_from(data, position + LENGTH_POSITION)[0]) + PREFIX_BYTES


def last_timestamp_ms(data: bytes) -> int:
    """The greatest timestamp of a good frame, without decoding it."""
    return int(_I64.unpack_from(data, LAST_TIMESTAMP_POSITION)[0])


def read_header(data: bytes, position: int = 0) -> Header:
    """The header of the frame that begins at `position`, of which only HEADER_BYTES need be there.

    Everything that the header alone can tell is checked, the prefix's own checksum included; the batch's
    checksum is not. Raises CorruptBatch.
    """
    if len(data) - position < HEADER_BYTES:
        raise CorruptBatch(f"{len(data) - position} bytes are too few for a batch header of {HEADER_BYTES}")
    (
        synced_below,
        local_crc,
        length,
        _crc,
        magic,
        version,
        attributes,
        base_offset,
        epoch,
        count,
        first_ms,
        last_ms,
        reserved,
    ) = _HEADER.unpack_from(data, position)
    if magic != MAGIC:
        raise CorruptBatch(f"magic is {magic:#06x}, not {MAGIC:#06x}")
    if version != VERSION:
        raise CorruptBatch(f"version is {version}, this program reads {VERSION}")
    bound = data[position : position + 8] + data[position + CRC_START : position + BODY_START]
    if crc32c(bound) != local_crc:
        raise CorruptBatch("the prefix's checksum does not match")
    if attributes or reserved:
        raise CorruptBatch(f"attributes {attributes:#04x} and reserved {reserved:#010x} must be zero")
    if count == 0:
        raise CorruptBatch("a batch without records")
    if length < HEADER_BYTES - PREFIX_BYTES + count * RECORD_HEAD_BYTES:
        raise CorruptBatch(f"length {length} is too small for {count} records")
    if base_offset + count > _OFFSET_LIMIT:
        raise CorruptBatch(f"base offset {base_offset} is out of range")
    if synced_below > base_offset:
        raise CorruptBatch(f"synced_below {synced_below} lies above the base offset {base_offset}")
    return Header(synced_below, length + PREFIX_BYTES, base_offset, epoch, count, first_ms, last_ms)


def verify_frame(log: PartitionId, data: bytes) -> Header:
    """Verify one whole frame of `log`: header, length and both checksums. Raises CorruptBatch."""
    header = read_header(data)
    if header.frame_bytes != len(data):
        raise CorruptBatch(f"the batch is {header.frame_bytes} bytes long, {len(data)} are there")
    seed = crc32c(_LOG_AND_LENGTH.pack(log[0], log[1], len(data) - PREFIX_BYTES))
    if crc32c_extend(seed, data[BODY_START:]) != _U32.unpack_from(data, CRC_START)[0]:
        raise CorruptBatch(f"the checksum does not match (batch of log {log[0]}/{log[1]})")
    return header


def parse_batch(log: PartitionId, data: bytes) -> Batch:
    """Verify one frame that came from the network or the disk as a batch of `log` (D1).

    Raises CorruptBatch that names what is wrong: a flipped bit, a missing or surplus byte, the wrong log.
    """
    header = verify_frame(log, data)
    return Batch(header.base_offset, header.record_count, header.epoch, data)


def decode_records(batch: Batch | bytes) -> list[Record]:
    """The records of a batch that `parse_batch` has verified.

    Raises CorruptBatch if they do not fill the batch exactly.
    """
    data = batch if isinstance(batch, bytes) else batch.data
    header = read_header(data)
    offset = header.base_offset
    first_ms = header.first_timestamp_ms
    unpack = _RECORD.unpack_from
    position = HEADER_BYTES
    records: list[Record] = []
    try:
        for _ in range(header.record_count):
            head = unpack(data, position)
            length, delta, subject_bytes, reply_bytes, headers_bytes, key_bytes, value_bytes = head
            end = position + LENGTH_FIELD_BYTES + length
            start = position + RECORD_HEAD_BYTES
            reply_start = start + subject_bytes
            headers_start = reply_start + reply_bytes
            key_start = headers_start + headers_bytes
            value_start = key_start + (key_bytes if key_bytes > 0 else 0)
            if value_start + (value_bytes if value_bytes > 0 else 0) != end:
                raise CorruptBatch(f"record {offset} does not fill its {length} bytes")
            records.append(
                Record(
                    offset,
                    first_ms + delta,
                    data[start:reply_start],
                    data[reply_start:headers_start],
                    data[headers_start:key_start],
                    None if key_bytes < 0 else data[key_start:value_start],
                    None if value_bytes < 0 else data[value_start:end],
                )
            )
            offset += 1
            position = end
    except struct.error:
        raise CorruptBatch(f"record {offset} lies outside its batch") from None
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes follow the last record of the batch")
    return records


def decode_values(batch: Batch | bytes) -> list[bytes]:
    """The values alone, a missing one as empty: Raft entries. Raises CorruptBatch like `decode_records`."""
    return [record.value or b"" for record in decode_records(batch)]
