"""A parcel: several records in one NATS message, to be stored together or not at all (L8).

     0  4 bytes  b"LLP1"    what this is, and its version
     4  u32      crc        CRC-32C of everything behind this field
     8  u8       codec      as in a batch: 0 none, 1 zstd, 2 lz4
     9  u8       0
    10  u16      count      records, 1 to 1,000
    12  the records, one behind the other, as they lie in a batch (`liftlog.format`); compressed as a whole
        if there is a codec (`liftlog.codec`)

A record's head counts no time and names no reply subject: both are the leader's to give, or nobody's. An
empty subject stands for that of the message. Since the records lie here as in a batch, a leader looks at
their heads and stores their bytes; it encodes nothing anew, unless a subject is to be filled in.

Nothing in a parcel is believed: see `walk` for what holds of its bytes alone. What needs to know the stream
is asked by the leader (`liftlog/core/replica/publishing/parcels.py`). All numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from google_crc32c import value as crc32c

from liftlog import codec as codecs
from liftlog.format import LENGTH_FIELD_BYTES, RECORD_HEAD, RECORD_HEAD_BYTES

MAGIC = b"LLP1"
RECORDS_MAX = 1000
"""So many records a parcel may have."""
UNLIKE_MAX = 4
"""After so many records that were not like the one before it is not asked any more whether one is."""
SUBJECT_BYTES_MAX = 0xFFFF
_HEAD = struct.Struct("<4sIBBH")
HEAD_BYTES = _HEAD.size
_CRC = struct.Struct("<I")
_CRC_POSITION, _CRC_END = 4, 8


class BadParcel(ValueError):
    """Bytes that are no parcel. The text says what is wrong, and with which record."""


class ParcelTooLarge(ValueError):
    """A parcel of more plain bytes than whoever opens it takes. The text names the limit."""


class ParcelRecord(NamedTuple):
    """One record as its publisher sends it. `value` None deletes the key. An empty subject: the message's."""

    value: bytes | None
    key: bytes | None = None
    headers: bytes = b""
    """A whole block, as in NATS: `NATS/1.0`, lines, an empty line; or nothing."""
    subject: bytes = b""


class ParcelHead(NamedTuple):
    """What a parcel says of itself."""

    codec: str
    records: int


class ParcelContents(NamedTuple):
    """What the heads of a parcel's records say. The numbers are those of the first record of a kind."""

    subjects: dict[bytes, int]
    headers: dict[bytes, int]
    largest: tuple[int, int]
    """Bytes of headers and value of the largest record, and its number."""
    end: int
    """Where the last record ends. What lies behind it is nobody's, and for the caller to refuse."""


class Parcel(NamedTuple):
    """A parcel that was opened and found good."""

    records: int
    plain: bytes
    """The records, each with its subject."""
    codec: str = "none"
    packed: bytes = b""
    """The same in the codec that they came in."""


def seal_parcel(records: Sequence[ParcelRecord], codec: str = "none") -> bytes:
    """The payload that carries these records. It is left uncompressed where that would not be smaller.

    Raises BadParcel for none or too many of them, for a record that cannot be one: no value and no key, or a
    subject above 64 KiB; MissingCodec; LiftlogError for an unknown codec.
    """
    if not 0 < len(records) <= RECORDS_MAX:
        raise BadParcel(f"a batch has 1 to {RECORDS_MAX} records, not {len(records)}")
    content = plain_of(records)
    code = codecs.number_of(codec)
    packed = codecs.compress(codec, content) if code else None
    if packed is None:
        code, packed = 0, content
    checked = _HEAD.pack(MAGIC, 0, code, 0, len(records))[_CRC_END:] + packed
    return b"".join((MAGIC, _CRC.pack(crc32c(checked)), checked))


def plain_of(records: Sequence[ParcelRecord]) -> bytes:
    """These records as they lie in a parcel, one behind the other. Raises BadParcel for one that is none."""
    parts: list[bytes] = []
    for number, (value, key, headers, subject) in enumerate(records):
        if value is None and key is None:
            raise BadParcel(f"record {number} has neither a value nor a key")
        if len(subject) > SUBJECT_BYTES_MAX:
            text = f"record {number} has a subject of {len(subject)} bytes, above {SUBJECT_BYTES_MAX}"
            raise BadParcel(text)
        strings = b"".join((subject, headers, key or b"", value or b""))
        head = RECORD_HEAD.pack(
            RECORD_HEAD_BYTES - LENGTH_FIELD_BYTES + len(strings),
            0,
            len(subject),
            0,
            len(headers),
            -1 if key is None else len(key),
            -1 if value is None else len(value),
        )
        parts.extend((head, strings))
    return b"".join(parts)


# -- opening ----------------------------------------------------------------------------------------------


def read_parcel_head(payload: bytes) -> ParcelHead:
    """What a payload says of itself. Raises BadParcel if it is no parcel; its checksum is not looked at."""
    if len(payload) < HEAD_BYTES:
        raise BadParcel(f"{len(payload)} bytes are too few; it begins with {HEAD_BYTES}")
    magic, _crc, codec, zero, count = _HEAD.unpack_from(payload)
    if magic != MAGIC:
        raise BadParcel(f"it begins with {magic!r}, not with {MAGIC!r}")
    if codec >= len(codecs.CODECS) or zero:
        raise BadParcel(f"it has codec {codec}, and {zero} behind it; known are 0 to 2, and 0")
    if not 0 < count <= RECORDS_MAX:
        raise BadParcel(f"it has {count} records; accepted are 1 to {RECORDS_MAX}")
    return ParcelHead(codecs.CODECS[codec], count)


def checksum_matches(payload: bytes) -> bool:
    """Whether this payload, whose head was read, is as it was sent."""
    (crc,) = _CRC.unpack_from(payload, _CRC_POSITION)
    return bool(crc32c(payload[_CRC_END:]) == crc)


def plain_records(head: ParcelHead, payload: bytes, bytes_max: int) -> bytes:
    """The records' bytes, uncompressed. Raises ParcelTooLarge if they are more than `bytes_max`, of which no
    more are made; BadParcel; MissingCodec.
    """
    packed = payload[HEAD_BYTES:]
    if head.codec == "none":
        claimed = len(packed)
    elif len(packed) < _CRC.size:
        raise BadParcel(f"{len(packed)} bytes are too few for compressed records")
    else:
        claimed = _CRC.unpack_from(packed)[0]
    if claimed > bytes_max:
        raise ParcelTooLarge(f"its records are {claimed} bytes; accepted are {bytes_max}")
    if head.codec == "none":
        return packed
    try:
        return codecs.decompress(head.codec, packed)
    except codecs.BadPayload as error:
        raise BadParcel(f"its compressed records are bad: {error}") from None


def walk(plain: bytes, count: int) -> ParcelContents:
    """Look at the heads of `count` records. Raises BadParcel if one lies outside, does not fill its length,
    has a time or a reply subject, or has neither a value nor a key.

    Of records that are alike up to their headers, as those of one program mostly are, the first is looked at.
    """
    unpack, is_like = RECORD_HEAD.unpack_from, plain.startswith
    like, stride, unlike = b"", 0, 0
    subjects: dict[bytes, int] = {}
    blocks: dict[bytes, int] = {}
    largest, of_largest = -1, 0
    position = number = 0
    subject: bytes | None = None
    try:
        for number in range(count):
            if like and is_like(like, position):
                position += stride
                continue
            begin = position
            head = unpack(plain, position)
            length, delta, subject_bytes, reply_bytes, headers_bytes, key_bytes, value_bytes = head
            start = position + RECORD_HEAD_BYTES
            headers_start = start + subject_bytes
            position += LENGTH_FIELD_BYTES + length
            size = headers_bytes + value_bytes
            if key_bytes == -1 and value_bytes >= 0:
                end = headers_start + size
            else:
                size += value_bytes == -1
                end = headers_start + size + key_bytes
            if end != position or delta or reply_bytes or key_bytes < -1 or value_bytes < -(key_bytes >= 0):
                raise BadParcel(f"record {number} {_why(head)}")
            if plain[start:headers_start] != subject:
                subject = plain[start:headers_start]
                subjects.setdefault(subject, number)
            if headers_bytes:
                blocks.setdefault(plain[headers_start : headers_start + headers_bytes], number)
            if size > largest:
                largest, of_largest = size, number
            unlike += 1
            like = plain[begin : headers_start + headers_bytes] if unlike <= UNLIKE_MAX else b""
            stride = position - begin
    except struct.error:
        raise BadParcel(f"record {number} of {count} lies outside") from None
    if position > len(plain):
        raise BadParcel(f"record {number} of {count} lies outside")
    return ParcelContents(subjects, blocks, (largest, of_largest), position)


def _why(head: tuple[int, ...]) -> str:
    """What is wrong with a record of this head."""
    length, delta, _, reply_bytes, _, key_bytes, value_bytes = head
    if delta or reply_bytes:
        return "has a time or a reply subject; leave both 0"
    if key_bytes < -1 or value_bytes < -1:
        return "has a length below -1"
    if key_bytes == value_bytes == -1:
        return "has neither a value nor a key"
    return f"does not fill its {length} bytes"


def record_subjects(plain: bytes, count: int) -> list[bytes]:
    """The subject of each record of a parcel that `walk` found good."""
    subjects: list[bytes] = []
    position = 0
    for _ in range(count):
        length, _delta, subject_bytes, *_ = RECORD_HEAD.unpack_from(plain, position)
        start = position + RECORD_HEAD_BYTES
        subjects.append(plain[start : start + subject_bytes])
        position += LENGTH_FIELD_BYTES + length
    return subjects


def addressed(plain: bytes, count: int, subject: bytes) -> bytes:
    """The records of a parcel that `walk` found good, with this subject where they name none."""
    parts: list[bytes] = []
    position = 0
    for _ in range(count):
        length, delta, subject_bytes, *lengths = RECORD_HEAD.unpack_from(plain, position)
        end = position + LENGTH_FIELD_BYTES + length
        if subject_bytes:
            parts.append(plain[position:end])
        else:
            parts.append(RECORD_HEAD.pack(length + len(subject), delta, len(subject), *lengths))
            parts.extend((subject, plain[position + RECORD_HEAD_BYTES : end]))
        position = end
    return b"".join(parts)


def with_lines(plain: bytes, lines: bytes) -> bytes:
    """The records of such a parcel, the first of which has these lines, each with its end, in its headers."""
    length, delta, subject_bytes, reply_bytes, headers_bytes, *rest = RECORD_HEAD.unpack_from(plain)
    start = RECORD_HEAD_BYTES + subject_bytes + reply_bytes
    block = plain[start : start + headers_bytes] or b"NATS/1.0\r\n\r\n"
    block = block[: -len(b"\r\n")] + lines + b"\r\n"
    more = len(block) - headers_bytes
    head = RECORD_HEAD.pack(length + more, delta, subject_bytes, reply_bytes, len(block), *rest)
    return b"".join((head, plain[RECORD_HEAD_BYTES:start], block, plain[start + headers_bytes :]))
