"""The timers of one node: at most one per kind, each fires once.

The core asks for a timer with a range; the driver draws the duration (the core has no randomness) and keeps
the deadline here. There are a handful of kinds, so a plain dict with a minimum over its values is the fastest
structure there is.

`now_ms` is the reading at which the driver began the present step, so that a process that is stopped within
a step finds its timers due as soon as it runs on.
"""

from __future__ import annotations

from liftlog.messages import SetTimer
from liftlog.ports import Random

TOLERANCE_MS = 0.01
"""A deadline this near counts as reached: seconds and milliseconds in floating point differ in the last
digit, and a virtual clock that stops one digit short of the deadline would otherwise never get there."""

NEVER_MS = float("inf")


class Timers:
    """Deadlines in milliseconds of the node's monotonic clock."""

    __slots__ = ("_deadlines", "_random", "next_ms")

    def __init__(self, random: Random) -> None:
        self._random = random
        self._deadlines: dict[str, float] = {}
        self.next_ms = NEVER_MS

    def set(self, effect: SetTimer, now_ms: float) -> None:
        """Start a timer; one of the same kind that still runs is replaced."""
        duration_ms = float(effect.min_ms)
        if effect.max_ms > effect.min_ms:
            duration_ms = self._random.uniform(effect.min_ms, effect.max_ms)
        self._deadlines[effect.kind] = now_ms + duration_ms
        self.next_ms = min(self._deadlines.values())

    def __contains__(self, kind: str) -> bool:
        """Whether this timer runs."""
        return kind in self._deadlines

    def clear(self) -> None:
        """No timer runs any more."""
        self._deadlines.clear()
        self.next_ms = NEVER_MS

    def take(self, kind: str, now_ms: float) -> bool:
        """Whether this timer is due; then it is gone."""
        if now_ms + TOLERANCE_MS < self._deadlines.get(kind, NEVER_MS):
            return False
        del self._deadlines[kind]
        self.next_ms = min(self._deadlines.values(), default=NEVER_MS)
        return True

    def due(self, now_ms: float) -> list[str]:
        """Remove and return the kinds whose deadline is reached, the earliest first."""
        limit_ms, deadlines = now_ms + TOLERANCE_MS, self._deadlines
        if limit_ms < self.next_ms:
            return []
        reached = [(deadline, kind) for kind, deadline in deadlines.items() if deadline <= limit_ms]
        if len(reached) > 1:
            reached.sort()
        for _, kind in reached:
            del deadlines[kind]
        self.next_ms = min(deadlines.values(), default=NEVER_MS)
        return [kind for _, kind in reached]
