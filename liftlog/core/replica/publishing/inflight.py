"""Publishes that a leader has stored and not answered yet (R4, N6)."""

from __future__ import annotations

from liftlog.core.replica.publishing.answers import WantedAnswers


class Inflight:
    """Publishes of one batch that wait for their commit, or for the leader's own sync."""

    __slots__ = ("asked", "base", "end", "records", "size")

    def __init__(
        self, base: int, end: int, asked: WantedAnswers | None, size: int, records: int = 0
    ) -> None:
        self.base = base
        self.end = end
        self.asked = asked
        self.size = size
        self.records = records
        """Of a parcel: how many its one message has (L8)."""

    @property
    def awaited(self) -> bool:
        """Whether anybody waits for an answer."""
        return self.asked is not None and any(self.asked.replies)

    def silence(self) -> None:
        """Nobody is to be answered."""
        self.asked = None
