"""How many messages are to come for one consumer that has filters (K8), as its leader has counted them."""

from __future__ import annotations

from collections.abc import Iterable

Moment = tuple[int, int]
"""What is gone: where the log starts, and how many entries deleted messages that may be to come."""


class FlightTally:
    """So many `matches` lie in [the consumer's position, `upto`), by what was gone at `moment`; None: nothing
    is counted yet. `question`: the index was asked for the last of them with this number; 0 = never.
    """

    __slots__ = ("matches", "moment", "question", "upto")

    def __init__(self) -> None:
        self.matches = 0
        self.upto = 0
        self.moment: Moment | None = None
        self.question = 0

    def stands(self, matches: int, upto: int, moment: Moment, question: int = 0) -> None:
        """That is counted now."""
        self.matches, self.upto, self.moment = matches, upto, moment
        self.question = max(self.question, question)

    def took(self, offsets: Iterable[int]) -> None:
        """These are delivered: they are not to come any more."""
        if self.matches:
            self.matches = max(0, self.matches - sum([offset < self.upto for offset in offsets]))

    def passed(self, end: int) -> None:
        """The position moves to `end`."""
        if end >= self.upto:
            self.matches, self.upto = 0, end
