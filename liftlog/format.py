"""The layout of a batch: the same bytes on disk, between nodes and to readers (D1).

A *batch* is a run of offsets with one leader epoch, and the records that are there. It is encoded once, by
the leader, and its bytes are passed on as they are by followers, readers and restarts. Only compaction, and a
cut inside a batch, encode one anew. What differs from replica to replica is the *prefix*, which each replica
stamps when it appends:

     0  u64  synced_below   this replica's durable LEO when it wrote the batch (R14)
     8  u32  local_crc      CRC-32C of synced_below and of crc: binds the prefix to its batch
    12  u32  length         bytes that follow this field
    ------------------------------------------------------------------------------------------
    16  u32  crc            CRC-32C of stream id, partition index, length and bytes 20 to the end
    20  u16  magic
    22  u8   version
    23  u8   attributes     bits 0-1 codec | bit 2 SPARSE | bit 3 CONTROL | bit 7 SEALED
    24  u64  base_offset
    32  u64  epoch
    40  u32  count          offsets that the batch spans, at least 1
    44  i64  first_timestamp_ms  what the records' times count from
    52  i64  last_timestamp_ms   the greatest timestamp of the batch
    60  u32  records        SPARSE: records that are there, fewer than count; otherwise 0
    64  payload             the records; compressed (`liftlog.codec`); sealed (`liftlog.storage.sealing`)

Stream id and partition index are in the checksum but not in the bytes, so a batch that was written to the
wrong log, or moved there, does not verify. `synced_below` is what tells damage from a torn write: if a later
good batch was written when everything below S was durable, then bad bytes below S cannot be a torn write.

A record is a fixed head and its byte strings, one after the other; the offset is in SPARSE batches only:

    u32 length of what follows | (u32 offset less base_offset) | i32 timestamp less first_timestamp_ms
    | u16 subject | u16 reply | u32 headers | i32 key, -1 = none | i32 value, -1 = none
    | subject, reply, headers, key, value

**Forward compatibility** (U3). The prefix, the place and coverage of both checksums, magic, the place of the
version and the least length of 64 bytes are the same in every version. So any program can tell a *damaged*
batch, whose checksums do not match, from a *newer* one, whose checksums match while its version or an
attribute is unknown. The former is CorruptBatch. The latter is UnsupportedBatch: it asks for an upgrade and
is never cut, quarantined or repaired. Version 1 had neither attributes nor sparse batches and stays readable.

All numbers are little-endian. Encoding is the leader's hot path: one `struct.pack` per record, one join and
one checksum per batch.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Sequence
from typing import NamedTuple

from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c

from liftlog import codec as codecs
from liftlog.types import Batch, LiftlogError, Message, PartitionId, Record

PREFIX_BYTES = 16
HEADER_BYTES = 64
"""Prefix included."""
CRC_START = PREFIX_BYTES
BODY_START = 20
"""Where the bytes begin that the batch's own checksum covers."""
RECORD_HEAD_BYTES = 24
SPARSE_RECORD_HEAD_BYTES = 28
LENGTH_FIELD_BYTES = 4

LENGTH_POSITION = 12
LAST_TIMESTAMP_POSITION = 52

MAGIC = 0x4CF5
"""On disk the bytes F5 4C: F5 is never part of UTF-8 text, so a scan for batches rarely stops in vain."""
MAGIC_BYTES = MAGIC.to_bytes(2, "little")
MAGIC_POSITION = 20
VERSION_POSITION = 22
ATTRIBUTES_POSITION = 23
VERSION = 2

CODEC_MASK = 0x03
SPARSE = 0x04
"""Not every offset of the span has a record: what compaction leaves. Possibly none has."""
CONTROL = 0x08
"""Records for liftlog itself, not for readers; nothing writes them yet."""
SEALED = 0x80
"""The payload is encrypted. On disk only: what travels is always open."""
SEAL_BYTES = 12 + 16
"""Nonce in front of a sealed payload, tag behind it."""

KNOWN_ATTRIBUTES = {1: SEALED, 2: CODEC_MASK | SPARSE | CONTROL | SEALED}
"""By version: the attribute bits that it defines."""

_PREFIX = struct.Struct("<QII")
_BODY = struct.Struct("<HBBQQIqqI")
_HEADER = struct.Struct("<QIIIHBBQQIqqI")
_LOG_AND_LENGTH = struct.Struct("<QII")
"""What a batch's checksum begins with: its log, which is not in its bytes, and its length."""
RECORD_HEAD = struct.Struct("<IiHHIii")
_SPARSE_RECORD = struct.Struct("<IIiHHIii")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")

_RECORD_FIXED_BYTES = RECORD_HEAD_BYTES - LENGTH_FIELD_BYTES
_OFFSET_LIMIT = 1 << 63
_COUNT_LIMIT = 1 << 32
_DELTA_LIMIT = 1 << 31
_PACKED = CODEC_MASK | SEALED
_OFFSET_OF, _TIMESTAMP_OF = operator.itemgetter(0), operator.itemgetter(1)
"""Of a `Record`."""
_new = tuple.__new__
"""Makes headers and records without a call of Python, which costs as much as everything else about them."""


class CorruptBatch(ValueError):
    """Bytes that are not a good batch of this log. The text names what is wrong."""


class UnsupportedBatch(LiftlogError):
    """A batch of a newer version of liftlog: good, but not for this program to read. Never damage."""


class SealedBatch(LiftlogError):
    """An encrypted batch where an open one is needed: the node has no key."""


class Header(NamedTuple):
    """The fixed part of a batch. `frame_bytes` is the length of the whole frame, prefix included.

    `count` is the number of offsets, `records` the number of records that are there.
    """

    synced_below: int
    frame_bytes: int
    base_offset: int
    epoch: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    first_timestamp_ms: int
    last_timestamp_ms: int
    attributes: int
    records: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.count

    @property
    def codec(self) -> str:
        """Name of the payload's codec, "none" if it has none."""
        return codecs.CODECS[self.attributes & CODEC_MASK]

    @property
    def sparse(self) -> bool:
        return self.attributes & SPARSE != 0

    @property
    def control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def sealed(self) -> bool:
        return self.attributes & SEALED != 0


# ---------------------------------------------------------------------------------------------------------
# Encoding
# ---------------------------------------------------------------------------------------------------------


def encode_messages(
    log: PartitionId, base_offset: int, epoch: int, timestamp_ms: int, messages: Sequence[Message]
) -> Batch:
    """Encode messages from NATS, all stamped with one time, into a batch of `log` from `base_offset` on.

    Raises ValueError if there is no message, or one does not fit the record head (a subject above 64 KiB).
    """
    pack = RECORD_HEAD.pack
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
    return build_batch(
        log, base_offset, epoch, parts, count=len(messages), first_ms=timestamp_ms, last_ms=timestamp_ms
    )


def encode_values(
    log: PartitionId, base_offset: int, epoch: int, timestamp_ms: int, values: Sequence[bytes]
) -> Batch:
    """Encode bare values, such as Raft entries, one record each. Raises ValueError if there is none."""
    pack = RECORD_HEAD.pack
    parts: list[bytes] = []
    for value in values:
        parts.append(pack(_RECORD_FIXED_BYTES + len(value), 0, 0, 0, 0, -1, len(value)))
        parts.append(value)
    return build_batch(
        log, base_offset, epoch, parts, count=len(values), first_ms=timestamp_ms, last_ms=timestamp_ms
    )


def encode_records(
    log: PartitionId, epoch: int, records: Sequence[Record], *, control: bool = False
) -> Batch:
    """Encode whole records, with keys and headers; their offsets must be contiguous.

    Raises ValueError if there is none, their offsets have a gap, one does not fit the record head, or their
    timestamps lie 2^32 ms (49 days) or more apart.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    base_offset = records[0].offset
    return encode_sparse(log, epoch, base_offset, base_offset + len(records), records, control=control)


def encode_sparse(
    log: PartitionId,
    epoch: int,
    base_offset: int,
    end_offset: int,
    records: Sequence[Record],
    *,
    control: bool = False,
) -> Batch:
    """Encode the records that are left of offsets [base, end): any of them, all, or none.

    The batch is an ordinary one when none is missing. Without records its timestamps are 0. Raises
    ValueError if the range is empty or of 2^32 offsets, the offsets do not ascend within it, a record does
    not fit its head, or their timestamps lie 2^32 ms (49 days) or more apart.
    """
    offsets = list(map(_OFFSET_OF, records))
    ascending = all(map(operator.lt, offsets, offsets[1:]))
    if offsets and not (ascending and base_offset <= offsets[0] and offsets[-1] < end_offset):
        raise ValueError(f"{len(offsets)} offsets do not ascend within [{base_offset}, {end_offset})")
    count = end_offset - base_offset
    sparse = len(records) < count
    fixed_bytes = (SPARSE_RECORD_HEAD_BYTES if sparse else RECORD_HEAD_BYTES) - LENGTH_FIELD_BYTES
    first_ms, last_ms = _time_base(list(map(_TIMESTAMP_OF, records)))
    parts: list[bytes] = []
    try:
        for offset, timestamp_ms, subject, reply, headers, key, value in records:
            strings = b"".join((subject, reply, headers, key or b"", value or b""))
            head = RECORD_HEAD.pack(
                fixed_bytes + len(strings),
                timestamp_ms - first_ms,
                len(subject),
                len(reply),
                len(headers),
                -1 if key is None else len(key),
                -1 if value is None else len(value),
            )
            if sparse:
                place = _U32.pack(offset - base_offset)
                head = head[:LENGTH_FIELD_BYTES] + place + head[LENGTH_FIELD_BYTES:]
            parts.append(head)
            parts.append(strings)
    except struct.error as error:
        raise ValueError(f"a record does not fit its head: {error}") from error
    attributes = (CONTROL if control else 0) | (SPARSE if sparse else 0)
    return build_batch(
        log,
        base_offset,
        epoch,
        parts,
        count=count,
        first_ms=first_ms,
        last_ms=last_ms,
        attributes=attributes,
        records=len(records) if sparse else 0,
    )


def _time_base(timestamps: list[int]) -> tuple[int, int]:
    """What the records' times are counted from, and the greatest of them.

    Counted from the first one, unless another lies out of its reach. So a part of a batch can always be
    encoded again: if all fit one base, any of them do.
    """
    if not timestamps:
        return 0, 0
    first, least, greatest = timestamps[0], min(timestamps), max(timestamps)
    if greatest - first < _DELTA_LIMIT and first - least <= _DELTA_LIMIT:
        return first, greatest
    if greatest - least >= 2 * _DELTA_LIMIT:
        raise ValueError(f"timestamps from {least} to {greatest} ms do not fit into one batch")
    return least + _DELTA_LIMIT, greatest


def build_batch(
    log: PartitionId,
    base_offset: int,
    epoch: int,
    parts: list[bytes],
    *,
    count: int,
    first_ms: int,
    last_ms: int,
    attributes: int = 0,
    records: int = 0,
) -> Batch:
    """A batch of encoded records, which `parts` are; what the header says of them is for the caller to know.

    Raises ValueError if it spans no offset, or too many.
    """
    if not 0 < count < _COUNT_LIMIT:
        raise ValueError(f"a batch needs at least one record or offset, and less than 2^32; this has {count}")
    parts.insert(
        0, _BODY.pack(MAGIC, VERSION, attributes, base_offset, epoch, count, first_ms, last_ms, records)
    )
    return Batch(base_offset, count, epoch, _with_checksums(log, 0, b"".join(parts)))


def _with_checksums(log: PartitionId, synced_below: int, body: bytes) -> bytes:
    """The frame around a body, the bytes from BODY_START to the end."""
    length = len(body) + LENGTH_FIELD_BYTES
    crc = _U32.pack(crc32c_extend(crc32c(_LOG_AND_LENGTH.pack(log[0], log[1], length)), body))
    prefix = _PREFIX.pack(synced_below, crc32c(_U64.pack(synced_below) + crc), length)
    return b"".join((prefix, crc, body))


def replace_payload(log: PartitionId, data: bytes, version: int, attributes: int, payload: bytes) -> bytes:
    """The good frame `data` with another payload, and the attributes that say what it is now."""
    kind = bytes((version, attributes))
    head = data[MAGIC_POSITION:VERSION_POSITION] + kind + data[ATTRIBUTES_POSITION + 1 : HEADER_BYTES]
    return _with_checksums(log, _U64.unpack_from(data)[0], head + payload)


def moved_to(log: PartitionId, data: bytes) -> bytes:
    """The good frame `data` of any log as one of `log` with the same payload."""
    return replace_payload(log, data, data[VERSION_POSITION], data[ATTRIBUTES_POSITION], data[HEADER_BYTES:])


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


def split_frames(data: bytes) -> list[bytes]:
    """The frames that lie one behind the other in `data`, by the lengths that they claim; none is verified.

    The last is whatever cannot be cut further, so that a damaged length loses no bytes: they do not verify.
    """
    found = []
    position, size = 0, len(data)
    while size - position >= HEADER_BYTES:
        end = position + _U32.unpack_from(data, position + LENGTH_POSITION)[0] + PREFIX_BYTES
        found.append(data[position:end])
        position = end
    if position < size:
        found.append(data[position:])
    return found


def last_timestamp_ms(data: bytes) -> int:
    """The greatest timestamp of a good frame, without decoding it."""
    return int(_I64.unpack_from(data, LAST_TIMESTAMP_POSITION)[0])


def read_header(data: bytes, position: int = 0) -> Header:
    """The header of the frame that begins at `position`, of which only HEADER_BYTES need be there.

    Everything that the header alone can tell is checked, the prefix's own checksum included; the batch's
    checksum is not. Raises CorruptBatch. Raises UnsupportedBatch for an unknown version or attribute: whether
    a newer program wrote it or a bit was flipped, only `verify_frame` on the whole frame can tell.
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
        records,
    ) = _HEADER.unpack_from(data, position)
    if magic != MAGIC:
        raise CorruptBatch(f"magic is {magic:#06x}, not {MAGIC:#06x}")
    bound = data[position : position + 8] + data[position + CRC_START : position + BODY_START]
    if crc32c(bound) != local_crc:
        raise CorruptBatch("the prefix's checksum does not match")
    if version != VERSION or attributes:
        _check_kind(version, attributes)
    if attributes & SPARSE:
        if records >= count:
            raise CorruptBatch(f"a sparse batch with {records} records for {count} offsets")
        least = records * SPARSE_RECORD_HEAD_BYTES
    else:
        if records:
            raise CorruptBatch(f"{records} records given for a batch that is not sparse")
        records = count
        least = count * RECORD_HEAD_BYTES
    if count == 0:
        raise CorruptBatch("a batch without records")
    if attributes & _PACKED:
        least = (SEAL_BYTES if attributes & SEALED else 0) + (0 if attributes & CODEC_MASK else least)
    if length < HEADER_BYTES - PREFIX_BYTES + least:
        raise CorruptBatch(f"length {length} is too small for {records} records")
    if base_offset + count > _OFFSET_LIMIT:
        raise CorruptBatch(f"base offset {base_offset} is out of range")
    if synced_below > base_offset:
        raise CorruptBatch(f"synced_below {synced_below} lies above the base offset {base_offset}")
    return _new(
        Header,
        (
            synced_below,
            length + PREFIX_BYTES,
            base_offset,
            epoch,
            count,
            first_ms,
            last_ms,
            attributes,
            records,
        ),
    )


def _check_kind(version: int, attributes: int) -> None:
    known = KNOWN_ATTRIBUTES.get(version)
    if known is None:
        raise UnsupportedBatch(
            f"a batch has format version {version}, this liftlog reads up to {VERSION}; upgrade liftlog"
        )
    if attributes & ~known or attributes & CODEC_MASK >= len(codecs.CODECS):
        raise UnsupportedBatch(
            f"a batch of format version {version} has attributes {attributes:#04x}, not all of which this "
            "liftlog knows; upgrade liftlog"
        )


def verify_frame(log: PartitionId, data: bytes) -> Header:
    """Verify one whole frame of `log`, sealed or not: header, length and both checksums.

    Raises CorruptBatch for damage; UnsupportedBatch only if both checksums match.
    """
    try:
        header = read_header(data)
    except UnsupportedBatch:
        verify_bytes(log, data, frame_bytes(data))
        raise
    verify_bytes(log, data, header.frame_bytes)
    return header


def verify_bytes(log: PartitionId, data: bytes, expected_bytes: int) -> None:
    """Verify that a frame is as long as its header says, and the batch's own checksum. Raises CorruptBatch.

    For those who have read the header; all others call `verify_frame`.
    """
    if expected_bytes != len(data):
        raise CorruptBatch(f"the batch is {expected_bytes} bytes long, {len(data)} are there")
    seed = crc32c(_LOG_AND_LENGTH.pack(*log, expected_bytes - PREFIX_BYTES))
    if crc32c_extend(seed, data[BODY_START:]) != _U32.unpack_from(data, CRC_START)[0]:
        raise CorruptBatch(f"the checksum does not match (batch of log {log[0]}/{log[1]})")


def parse_batch(log: PartitionId, data: bytes) -> Batch:
    """Verify one frame that came from the network or the disk as a batch of `log` (D1).

    Raises CorruptBatch that names what is wrong: a flipped bit, a missing or surplus byte, the wrong log.
    Raises UnsupportedBatch for a good batch of a newer version, SealedBatch for one that was not opened.
    """
    header = verify_frame(log, data)
    if header.attributes & SEALED:
        raise _sealed(header)
    return Batch(header.base_offset, header.count, header.epoch, data)


def _sealed(header: Header) -> SealedBatch:
    return SealedBatch(
        f"the batch at offset {header.base_offset} is encrypted and this node has no key; "
        "set [storage] encryption_key_file, or LIFTLOG_ENCRYPTION_KEY in the environment"
    )


def decode_records(batch: Batch | bytes) -> list[Record]:
    """The records of a batch that `parse_batch` has verified; of a sparse one those that are there.

    Raises CorruptBatch if they do not fill the batch exactly; MissingCodec; SealedBatch.
    """
    data = batch if isinstance(batch, bytes) else batch.data
    header = read_header(data)
    position = HEADER_BYTES
    if header.attributes & _PACKED:
        data, position = plain_payload(header, data), 0
    if header.attributes & SPARSE:
        return _decode_sparse(header, data, position)
    offset = header.base_offset
    first_ms = header.first_timestamp_ms
    unpack = RECORD_HEAD.unpack_from
    records: list[Record] = []
    try:
        for _ in range(header.count):
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
            fields = (
                offset,
                first_ms + delta,
                data[start:reply_start],
                data[reply_start:headers_start],
                data[headers_start:key_start],
                None if key_bytes < 0 else data[key_start:value_start],
                None if value_bytes < 0 else data[value_start:end],
            )
            records.append(_new(Record, fields))
            offset += 1
            position = end
    except struct.error:
        raise CorruptBatch(f"record {offset} lies outside its batch") from None
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes follow the last record of the batch")
    return records


def _decode_sparse(header: Header, data: bytes, position: int) -> list[Record]:
    """Like the dense records, each with its own offset. Kept apart because that one is the fast path."""
    base_offset = header.base_offset
    last = -1
    records: list[Record] = []
    try:
        for _ in range(header.records):
            length, place, delta, *lengths = _SPARSE_RECORD.unpack_from(data, position)
            if not last < place < header.count:
                raise CorruptBatch(f"record {base_offset + place} lies outside the order of its batch")
            end = position + LENGTH_FIELD_BYTES + length
            position += SPARSE_RECORD_HEAD_BYTES
            strings: list[bytes | None] = []
            for string_bytes in lengths:
                stop = position + max(string_bytes, 0)
                strings.append(None if string_bytes < 0 else data[position:stop])
                position = stop
            if position != end:
                raise CorruptBatch(f"record {base_offset + place} does not fill its {length} bytes")
            subject, reply, headers = (string or b"" for string in strings[:3])
            key, value = strings[3:]
            timestamp_ms = header.first_timestamp_ms + delta
            records.append(Record(base_offset + place, timestamp_ms, subject, reply, headers, key, value))
            last = place
    except struct.error:
        raise CorruptBatch(f"a record behind {base_offset + last} lies outside its batch") from None
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes follow the last record of the batch")
    return records


def decode_values(batch: Batch | bytes) -> list[bytes]:
    """The values alone, a missing one as empty: Raft entries. Raises CorruptBatch like `decode_records`."""
    return [record.value or b"" for record in decode_records(batch)]


def plain_payload(header: Header, data: bytes) -> bytes:
    """The uncompressed payload of an open frame. Raises CorruptBatch, MissingCodec, SealedBatch."""
    if header.attributes & SEALED:
        raise _sealed(header)
    payload = data[HEADER_BYTES:]
    if not header.attributes & CODEC_MASK:
        return payload
    try:
        return codecs.decompress(header.codec, payload)
    except codecs.BadPayload as error:
        raise CorruptBatch(f"the {header.codec} payload is bad: {error}") from None


# ---------------------------------------------------------------------------------------------------------
# Encoding anew
# ---------------------------------------------------------------------------------------------------------


def compress(log: PartitionId, batch: Batch, codec: str) -> Batch:
    """The batch with its payload in `codec`; unchanged if it is, or if that would not make it smaller.

    With "none" the plain batch. Raises LiftlogError for an unknown codec, MissingCodec, SealedBatch; like
    `decode_records` CorruptBatch.
    """
    header = read_header(batch.data)
    number = codecs.number_of(codec)
    if header.attributes & _PACKED == number:
        return batch
    plain = plain_payload(header, batch.data)
    payload = codecs.compress(codec, plain) if number else None
    if payload is None:
        if not header.attributes & CODEC_MASK:
            return batch
        number, payload = 0, plain
    attributes = header.attributes & ~CODEC_MASK | number
    data = replace_payload(log, batch.data, VERSION, attributes, payload)
    return Batch(batch.base_offset, batch.count, batch.epoch, data)
