"""Recently read stretches of a queue, decoded, so that to take items one by one does not decode a batch each.

A queue is read at a few places at a time, its groups' fronts, each of which moves forward. A *stretch* is
what one read of the log returned. Those used last stay, bounded by bytes and by number, whoever reads.
"""

from __future__ import annotations

from liftlog.types import Record

STRETCHES_MAX = 64
_RECORD_OVERHEAD_BYTES = 200
"""What a record costs beside its value, generously."""


class Window:
    """The stretches used last, the latest at the end. At least one stays, however large."""

    __slots__ = ("_bytes", "_bytes_max", "_stretches")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._stretches: list[tuple[int, int, int, list[Record]]] = []
        """(first index, index after the last, bytes, records)"""

    def find(self, index: int) -> tuple[int, list[Record]] | None:
        """(first index, records) of a stretch that holds the item."""
        stretches = self._stretches
        for place in range(len(stretches) - 1, -1, -1):
            found = stretches[place]
            if found[0] <= index < found[1]:
                if place < len(stretches) - 1:
                    stretches.append(stretches.pop(place))
                return found[0], found[3]
        return None

    def ends_at(self, index: int) -> bool:
        """Whether a stretch ends right before the item: somebody reads on."""
        return any(stretch[1] == index for stretch in self._stretches)

    def add(self, records: list[Record]) -> None:
        """Records with contiguous offsets, at least one."""
        size = sum(len(record.value or b"") for record in records) + len(records) * _RECORD_OVERHEAD_BYTES
        first = records[0].offset
        self._stretches.append((first, first + len(records), size, records))
        self._bytes += size
        while len(self._stretches) > 1 and (
            self._bytes > self._bytes_max or len(self._stretches) > STRETCHES_MAX
        ):
            self._bytes -= self._stretches.pop(0)[2]

    def clear(self) -> None:
        self._stretches.clear()
        self._bytes = 0
