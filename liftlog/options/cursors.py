"""How far a processor is with its input, as headers tell it and as it lies in the log of its outputs (L10).

    Liftlog-Cursor: 17/0/120     of stream 17, by its id, partition 0: offset 120 is next
    Liftlog-Open: 1              with the number 0: begin a run, and tell where it begins

Both beside the numbers of a producer (`numbered`). Where a run is opened, the cursor says which input that
is, and where to begin if the log knows no cursor yet; `17/0` says no such place. In the log each message of
such a run has a whole cursor; into the one that opens it, and into a parcel's first record, its leader
writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from liftlog.types import NO_OFFSET

CURSOR, OPEN = b"liftlog-cursor", b"liftlog-open"
NAMES = frozenset((CURSOR, OPEN))
DIGITS_MAX = 18


class InputCursor(NamedTuple):
    """`position`: the offset of the input that is next; NO_OFFSET: not said."""

    stream: int
    partition: int
    position: int

    def is_of_input_of(self, other: InputCursor) -> bool:
        """Whether both are about one partition of one stream."""
        return self[:2] == other[:2]

    @property
    def line(self) -> bytes:
        """As a line of a header block, with its end."""
        return b"Liftlog-Cursor: %d/%d/%d\r\n" % self


def cursor_in(found: Mapping[bytes, bytes]) -> InputCursor | None:
    """What these headers say, names in small letters; None: nothing, or it is not formed so."""
    value = found.get(CURSOR)
    parts = [] if value is None else value.split(b"/")
    if not 2 <= len(parts) <= 3 or not all(part.isdigit() and len(part) <= DIGITS_MAX for part in parts):
        return None
    return InputCursor(int(parts[0]), int(parts[1]), int(parts[2]) if len(parts) == 3 else NO_OFFSET)


def without_cursor(block: bytes) -> bytes:
    """A header block that was found well formed, without its lines of this name."""
    lines = block.split(b"\r\n")
    return b"\r\n".join(line for line in lines if line.partition(b":")[0].lower() != CURSOR)


def with_cursor(block: bytes, cursor: InputCursor) -> bytes:
    """The block with this line as its last one."""
    return b"".join((block[: -len(b"\r\n")], cursor.line, b"\r\n"))
