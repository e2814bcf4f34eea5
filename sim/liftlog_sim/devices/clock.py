"""Clocks and randomness of a simulated node; mirrors `liftlog/real/clock.py`.

A node's monotonic clock runs faster or slower than simulated time by a constant rate, and its wall clock is
off by a constant: no rule of the protocol may need more. While a process is paused (SIGSTOP, a stalled
virtual machine) it executes nothing, so its clock is not asked; afterwards it finds that time has passed.
"""

from __future__ import annotations

from liftlog_sim.chance.chances import ChanceLane
from liftlog_sim.kernel import Kernel

WALL_START_MS = 1_800_000_000_000
"""Where the wall clocks of a simulated world begin, in milliseconds of the Unix epoch."""

STANDSTILL_MS = -1e12
"""What a paused node's monotonic clock says: far from every deadline, so that no timer is due."""


class SimClock:
    """`Clock` port. `rate`: seconds of this clock in a simulated second; `skew_ms`: error of the wall
    clock.
    """

    __slots__ = ("_kernel", "paused", "rate", "skew_ms")

    def __init__(self, kernel: Kernel, rate: float = 1.0, skew_ms: int = 0) -> None:
        self._kernel = kernel
        self.rate = rate
        self.skew_ms = skew_ms
        self.paused = False

    def monotonic_ms(self) -> float:
        return STANDSTILL_MS if self.paused else self._kernel.now_us * self.rate / 1000.0

    def true_ms(self) -> float:
        """What it shows when somebody looks, and what a paused node will see."""
        return self._kernel.now_us * self.rate / 1000.0

    def wall_ms(self) -> int:
        return WALL_START_MS + self._kernel.now_us // 1000 + self.skew_ms

    def simulated_us(self, monotonic_ms: float) -> int:
        """The simulated time at which this clock shows `monotonic_ms`, to the nearest microsecond."""
        return round(monotonic_ms * 1000.0 / self.rate)


class SimRandom:
    """`Random` port: a lane of its own for each node."""

    __slots__ = ("_lane",)

    def __init__(self, lane: ChanceLane) -> None:
        self._lane = lane

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self._lane.draws().random()

    def bits(self, count: int) -> int:
        return self._lane.draws().getrandbits(count)
