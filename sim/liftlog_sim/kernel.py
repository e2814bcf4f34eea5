"""The simulator's heart: a heap of things to do, ordered by simulated time.

Time is an integer number of microseconds, so that nothing depends on floating point. Two things due at the
same microsecond happen in the order in which they were scheduled. Nothing else decides an order anywhere in
the simulator: no thread, no clock of the machine, no hash, no set. A seed therefore determines a run
completely, and `trace_hash` proves it: it swallows the time and the sequence number of everything that
happens. The sequence number counts all scheduling done so far, so the slightest difference between two runs
shows in it.

An entry is a plain tuple ``(time_us, sequence, action, first, second)``; the action is called with the two
arguments. That is ugly and fast: a seed runs some ten thousand of them.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

MASK = (1 << 64) - 1
PRIME = 0x100000001B3
"""Multiplier of FNV-1a; the trace hash wants speed and spread, nobody attacks it."""

MILLISECOND = 1_000
SECOND = 1_000_000

Action = Callable[[Any, Any], None]

STANDSTILL = 50_000
"""So many entries at one microsecond, each of which made the next, are a loop that never ends."""


class TimeStands(Exception):
    """Entries go on making others at one and the same moment."""


class Kernel:
    """Event heap, simulated time and the rolling hash of the trace."""

    __slots__ = ("_heap", "_moved_at", "_sequence", "events", "hash", "now_us")

    def __init__(self) -> None:
        self.now_us = 0
        self.events = 0
        self.hash = 0xCBF29CE484222325
        self._heap: list[tuple[int, int, Action, Any, Any]] = []
        self._sequence = 0
        self._moved_at = 0
        """How many entries had been run when `run_next` last moved the time."""

    def at(self, time_us: int, action: Action, first: Any = None, second: Any = None) -> None:
        """Call ``action(first, second)`` at `time_us`, or now if that has passed."""
        if time_us < self.now_us:
            time_us = self.now_us
        self._sequence += 1
        heappush(self._heap, (time_us, self._sequence, action, first, second))

    def after(self, delay_us: int, action: Action, first: Any = None, second: Any = None) -> None:
        """Call ``action(first, second)`` in `delay_us` microseconds."""
        self._sequence += 1
        heappush(self._heap, (self.now_us + delay_us, self._sequence, action, first, second))

    def note(self, number: int) -> None:
        """Mix a number into the trace hash."""
        self.hash = ((self.hash ^ number) * PRIME) & MASK

    def next_time_us(self) -> int | None:
        """When the next entry is due; None when nothing is."""
        return self._heap[0][0] if self._heap else None

    def run_next(self) -> None:
        """Run the entry that is due next, moving the time to it. Raises TimeStands."""
        time_us, sequence, action, first, second = heappop(self._heap)
        if time_us != self.now_us:
            self.now_us = time_us
            self._moved_at = self.events
        elif self.events - self._moved_at > STANDSTILL:
            raise self._stands()
        self.events += 1
        self.hash = ((self.hash ^ (time_us << 20) ^ sequence) * PRIME) & MASK
        action(first, second)

    def run_until(self, end_us: int) -> None:
        """Run everything that is due up to and including `end_us`; the time is `end_us` afterwards.

        Raises TimeStands.
        """
        heap = self._heap
        pop = heappop
        events = moved_at = 0
        try:
            while heap and heap[0][0] <= end_us:
                time_us, sequence, action, first, second = pop(heap)
                if time_us != self.now_us:
                    self.now_us = time_us
                    moved_at = events
                elif events - moved_at > STANDSTILL:
                    raise self._stands()
                events += 1
                self.hash = ((self.hash ^ (time_us << 20) ^ sequence) * PRIME) & MASK
                action(first, second)
        finally:
            # Also when an action raises, as one that finds a violation does.
            self.events += events
        self.now_us = end_us

    def _stands(self) -> TimeStands:
        return TimeStands(f"{STANDSTILL} things in a row were done at {self.now_us / SECOND:.6f} s")

    @property
    def trace_hash(self) -> str:
        """The rolling hash as 16 hexadecimal digits."""
        return f"{self.hash:016x}"
