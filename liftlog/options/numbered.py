"""Messages that a producer numbers, and how that is told by their headers and in the log (L2).

    Liftlog-Producer: pump-7      who sends: 1 to 256 bytes
    Liftlog-Run: 17              which run of it: a later one has a greater number, and nobody else has it
    Liftlog-Sequence: 0          which message of the run, from 0 on, without a gap

All three or none. They lie in the log as they came. Those of a parcel have no record of their own: its leader
writes them into the headers of its first record, and beside them how many there are:

    Liftlog-Records: 3

Beside them a processor's messages have its cursor (`cursors`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from liftlog.bounds import PRODUCER_BYTES_MAX
from liftlog.options.cursors import InputCursor, cursor_in

PRODUCER, RUN, SEQUENCE = b"liftlog-producer", b"liftlog-run", b"liftlog-sequence"
RECORDS = b"liftlog-records"
NAMES = frozenset((PRODUCER, RUN, SEQUENCE))
NUMBER_DIGITS_MAX = 18
"""Of a run and of a sequence."""
RECORDS_DIGITS_MAX = 4


class Numbered(NamedTuple):
    """One message of a run of a producer."""

    producer: bytes
    run: int
    sequence: int


class StoredNumber(NamedTuple):
    """The same of what lies in a log, and how many offsets it takes: a parcel takes several. `cursor`: of a
    processor's (L10).
    """

    numbered: Numbered
    span: int
    cursor: InputCursor | None = None


def numbered_in(found: Mapping[bytes, bytes]) -> Numbered | None:
    """What these headers say, names in small letters; None: nothing, or it is wrong (`numbers_problem`)."""
    if NAMES.isdisjoint(found) or numbers_problem(found):
        return None
    return Numbered(found[PRODUCER], int(found[RUN]), int(found[SEQUENCE]))


def numbers_problem(found: Mapping[bytes, bytes]) -> str:
    """What is wrong with these headers, if one of the three is there; else empty."""
    if found.keys() & NAMES != NAMES:
        return "Liftlog-Producer, Liftlog-Run and Liftlog-Sequence go together: set all three"
    if not 0 < len(found[PRODUCER]) <= PRODUCER_BYTES_MAX:
        return f"Liftlog-Producer has {len(found[PRODUCER])} bytes; it may have 1 to {PRODUCER_BYTES_MAX}"
    for name, shown in ((RUN, "Liftlog-Run"), (SEQUENCE, "Liftlog-Sequence")):
        if not found[name].isdigit() or len(found[name]) > NUMBER_DIGITS_MAX:
            return f"{shown} is a number of at most {NUMBER_DIGITS_MAX} digits"
    return ""


def may_have_numbers(payload: bytes) -> bool:
    """Whether any record in these bytes may be a numbered one."""
    return SEQUENCE in payload.lower()


def stored_number(headers: bytes) -> StoredNumber | None:
    """What the headers of a record in a log say of it; None if it is not numbered."""
    if SEQUENCE not in headers.lower():
        return None
    found: dict[bytes, bytes] = {}
    for line in headers.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found.setdefault(name.lower(), value.strip())
    numbered = numbered_in(found)
    if numbered is None:
        return None
    records = found.get(RECORDS, b"1")
    counted = records.isdigit() and len(records) <= RECORDS_DIGITS_MAX
    return StoredNumber(numbered, int(records) if counted else 1, cursor_in(found))


def lines_of(numbered: Numbered, records: int, cursor: InputCursor | None = None) -> bytes:
    """What the first record of a parcel of so many says of it, as lines of a header block."""
    lines = b"Liftlog-Producer: %b\r\nLiftlog-Run: %d\r\nLiftlog-Sequence: %d\r\nLiftlog-Records: %d\r\n"
    return lines % (*numbered, records) + (b"" if cursor is None else cursor.line)
