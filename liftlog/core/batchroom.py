"""What the batches take up that leaders of one node keep in memory until they end (L11, L3)."""

from __future__ import annotations

BATCHES_MAX = 1000
"""So many batches at most, as in nats-server."""
FAST_BATCHES_MAX = 50_000
"""L12: so many fast ones, of which nothing but their state is kept."""


class BatchRoom:
    """Of one node. `size`: in bytes. `fast`: so many fast batches there are (L12)."""

    __slots__ = ("batches", "fast", "size")

    def __init__(self) -> None:
        self.batches = 0
        self.size = 0
        self.fast = 0

    @property
    def full(self) -> bool:
        """Whether there are as many as may be."""
        return self.batches >= BATCHES_MAX

    @property
    def full_of_fast(self) -> bool:
        """The same of fast ones."""
        return self.fast >= FAST_BATCHES_MAX

    def begin(self) -> None:
        """One more."""
        self.batches += 1

    def begin_fast(self) -> None:
        """One more fast one."""
        self.fast += 1

    def end_fast(self) -> None:
        """One less."""
        self.fast -= 1

    def add(self, size: int) -> None:
        """A message of one is kept."""
        self.size += size

    def end(self, size: int) -> None:
        """One less, which took up so much."""
        self.batches -= 1
        self.size -= size
