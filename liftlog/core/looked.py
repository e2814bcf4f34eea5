"""What readers with a filter had a node look at, and what of that they were sent (S2)."""

from __future__ import annotations


class Looked:
    """Of one node, since it began: offsets that were looked at, and records that were sent."""

    __slots__ = ("offsets", "records")

    def __init__(self) -> None:
        self.offsets = 0
        self.records = 0

    def add(self, offsets: int, records: int) -> None:
        """One more answer."""
        self.offsets += offsets
        self.records += records
