"""What connections may occupy in memory (V7): all of a listener so much, and all listeners together so much.

Counted is what lies with us for as long as the other side likes: messages half received, requests in work,
frames that wait to be sent. What does not fit is not taken: the caller drops it or hangs up on somebody.
"""

from __future__ import annotations

from liftlog.types import invariant


class Budget:
    """Bytes out of a limit, which is part of a greater one if `whole` is given."""

    __slots__ = ("_limit", "_whole", "held", "peak")

    def __init__(self, limit_bytes: int, whole: Budget | None = None) -> None:
        self._limit = limit_bytes
        self._whole = whole
        self.held = 0
        self.peak = 0

    def take(self, count: int) -> bool:
        """Occupy so many bytes; False, and nothing is occupied, if that would be too many."""
        if not self.room(count):
            return False
        if self._whole is not None:
            self._whole.take(count)
        self.held += count
        if self.held > self.peak:
            self.peak = self.held
        return True

    @property
    def limit(self) -> int:
        """No more can be taken at once."""
        return self._limit if self._whole is None else min(self._limit, self._whole.limit)

    def room(self, count: int) -> bool:
        """Whether `take` would succeed."""
        return self.held + count <= self._limit and (self._whole is None or self._whole.room(count))

    def give(self, count: int) -> None:
        """So many bytes are free again."""
        self.held -= count
        invariant(self.held >= 0, f"a budget of {self._limit} bytes got back more than it gave")
        if self._whole is not None:
            self._whole.give(count)
