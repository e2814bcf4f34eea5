"""As much of protobuf's wire format as the envelope needs: fields of numbers and of bytes, nothing nested.

A message is a row of fields. Each begins with a varint, number of the field times 8 plus the kind of what
follows: a varint (0), 8 bytes (1), a length and so many bytes (2), 4 bytes (5). Kinds 3 and 4, groups, are
long out of use and refused. Readers go once over the bytes, forward, and copy no more than there is.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
_FIXED = {EIGHT_BYTES: 8, FOUR_BYTES: 4}
_WORD = 1 << 64
_VARINT_BYTES_MAX = 10


class Malformed(ValueError):
    """These bytes are no protobuf message."""


def fields_of(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(Number, kind, value) of each field, in order. Raises Malformed."""
    place, end = 0, len(data)
    while place < end:
        head, place = _varint(data, place)
        number, kind = head >> 3, head & 7
        if not 0 < number < 1 << 29:
            raise Malformed(f"field {number}")
        if kind == VARINT:
            value, place = _varint(data, place)
            yield number, kind, value
            continue
        if kind == LENGTH:
            length, place = _varint(data, place)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise Malformed(f"kind {kind}")
        if length > end - place:
            raise Malformed(f"field {number} ends behind the message")
        yield number, kind, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """The number that begins at `place`, and where the next thing begins."""
    value = 0
    for count, byte in enumerate(data[place : place + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            if value >= _WORD:
                break
            return value, place + count + 1
    raise Malformed("a number without end")


def signed(word: int) -> int:
    """An int64 of what its varint says."""
    return word - _WORD if word >> 63 else word


def varint(number: int) -> bytes:
    """A number of at most 64 bits; negative ones in two's complement, as int64 and int32 are."""
    number %= _WORD
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    """A field of a number; nothing for 0, which is what a field means that is not there."""
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """A field of bytes; nothing for empty ones."""
    return varint(number << 3 | LENGTH) + varint(len(value)) + value if value else b""


def part_field(number: int, value: bytes) -> bytes:
    """A field that is there even if it is empty: an entry of a map, and what is in it."""
    return varint(number << 3 | LENGTH) + varint(len(value)) + value
