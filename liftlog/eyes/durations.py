"""A histogram that costs a search among a dozen numbers and two additions: for what happens at each step.

prometheus-client's own takes a lock and makes an object for each label; here everything belongs to one
thread, and is turned into its shape when somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Durations:
    """Counts by the upper ends of buckets, in seconds. The last count is of what is above all of them."""

    __slots__ = ("_bounds_ms", "bounds_s", "counts", "sum_ms")

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self.bounds_s = tuple(bounds_s)
        self._bounds_ms = [bound * 1000 for bound in bounds_s]
        self.counts = [0] * (len(self._bounds_ms) + 1)
        self.sum_ms = 0.0

    def add(self, duration_ms: float, times: int = 1) -> None:
        """`times` things took so long each."""
        self.counts[bisect_left(self._bounds_ms, duration_ms)] += times
        self.sum_ms += duration_ms * times

    def cumulated(self) -> list[tuple[str, int]]:
        """(upper end, how many took at most so long), as Prometheus has it."""
        found, total = [], 0
        for bound, count in zip((*map(str, self.bounds_s), "+Inf"), self.counts, strict=True):
            total += count
            found.append((bound, total))
        return found
