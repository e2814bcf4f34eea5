"""What the batches take up that leaders of one node keep in memory until they end (L11, L3)."""

from __future__ import annotations

BATCHES_MAX = 1000
"""So many batches at most, as in nats-server."""


class BatchRoom:
    """Of one node. `size`: in bytes."""

    __slots__ = ("batches", "size")

    def __init__(self) -> None:
        self.batches = 0
        self.size = 0
