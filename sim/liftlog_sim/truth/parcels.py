"""Which values were sent together, in one parcel, and whether they are committed so (L8). ParcelWhole.

All records of a parcel are committed by one move of the high watermark, one behind the other and in order, or
none is; that holds for those that nobody answered, too. It is judged each time the committed part of a log
grows: what is readable is what was sent together, at every moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.types import Record
from liftlog_sim.truth.letters import is_letter


class Parcels:
    """Of one run."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[bytes, tuple[tuple[bytes, ...], int]] = {}
        """By value, what it was sent with, and its place in there."""

    def sent(self, values: tuple[bytes, ...]) -> None:
        """These values are on their way together."""
        for place, value in enumerate(values):
            self._places[value] = (values, place)

    def of(self, first: bytes) -> tuple[bytes, ...]:
        """What was sent together with this value in front; empty if it was sent alone."""
        return self._places.get(first, ((), 0))[0]

    def problem(self, committed: Sequence[Record | None], begin: int) -> str:
        """What is wrong with the records that are committed from offset `begin` on; empty if nothing is."""
        offset = begin
        while offset < len(committed) and self._places:
            values, place = self._places.get(_name(committed[offset]), ((), 0))
            found = tuple(map(_name, committed[offset : offset + max(1, len(values))]))
            if values and (place or found != values):
                these = f"{len(values)} values were sent together, from {values[0].decode()} on"
                last = min(offset + len(values), len(committed)) - 1
                return f"{these}; committed at {offset}..{last} is {b', '.join(found).decode()}"
            offset += len(found)
        return ""


def _name(record: Record | None) -> bytes:
    return b"" if record is None or is_letter(record) else (record.value or b"").rstrip(b".")
