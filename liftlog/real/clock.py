"""Clock and randomness of the real world.

Timers run on trio's own clock, so that a deadline and the wait for it can never disagree. The wall clock only
stamps records: no decision of the protocol reads it.
"""

from __future__ import annotations

import random
import time

import trio


class RealClock:
    """`Clock` port over trio's monotonic clock and the system's wall clock."""

    def monotonic_ms(self) -> float:
        return trio.current_time() * 1000.0

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class RealRandom:
    """`Random` port, seeded by the operating system."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)
