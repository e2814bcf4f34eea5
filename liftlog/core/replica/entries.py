"""What stands in a partition's journal (R21): entries, each a kind byte and numbers of 7 bits a byte.

    1  removed   count, then for each (offset, epoch): the record of this epoch at this offset is gone

A record is named with the epoch that wrote it. Where an operator had a leader elected that lacked it, the
offset is given again, to a record of a later epoch, and that one is not meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from liftlog.types import NUMBER_MAX, LiftlogError

REMOVED = 1
NAMED_MAX = 10_000
"""Records that one entry names at most."""

Named = tuple[int, int]
"""(offset, epoch) of a record."""


class BadEntry(LiftlogError):
    """These bytes are no entry that this liftlog knows."""


def encode_removed(named: Sequence[Named]) -> bytes:
    """An entry. Raises ValueError if it names nothing, or more than `NAMED_MAX`."""
    if not 0 < len(named) <= NAMED_MAX:
        raise ValueError(f"an entry names {len(named)} records")
    data = bytearray([REMOVED])
    _put(data, len(named))
    for offset, epoch in named:
        _put(data, offset)
        _put(data, epoch)
    return bytes(data)


def decode_removed(data: bytes) -> list[Named]:
    """What an entry names. Raises BadEntry."""
    if not data or data[0] != REMOVED:
        kind = data[0] if data else "none"
        raise BadEntry(f"a journal's entry of kind {kind}: it was written by a newer liftlog; start that")
    numbers = _numbers(data)
    count = next(numbers, 0)
    rest = list(numbers)
    if not 0 < count <= NAMED_MAX or len(rest) != 2 * count:
        raise BadEntry(f"a journal's entry is to name {count} records and has {len(rest)} numbers")
    return list(zip(rest[::2], rest[1::2], strict=True))


def _put(data: bytearray, number: int) -> None:
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data[1:]:
        number |= (byte & 0x7F) << shift
        if number > NUMBER_MAX:
            raise BadEntry("a journal's entry holds a number that is too large")
        shift += 7
        if not byte & 0x80:
            yield number
            number = shift = 0
    if shift:
        raise BadEntry("a journal's entry ends inside a number")
