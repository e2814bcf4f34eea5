"""Damaged ranges of one log: offsets whose bytes cannot be read or do not verify (D2).

What becomes of them is up to `repair.py`. Here is what is known of them, and what that makes uncertain about
the epoch history (R6): where storage had to read past a range without an index, the epoch of the first record
behind it may have begun inside it, and so may epochs of which nothing else is left. Our history says then, at
the latest possible place: "E up to here, F from here on", and storage names the place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from liftlog.epochs import EpochHistory
from liftlog.types import OffsetRange, invariant


class Damage:
    """`ranges` ascend, do not touch, and lie within the log. `late`: places at which an epoch may seem to
    begin too late. Only `LogState` calls what changes it.
    """

    __slots__ = ("generation", "late", "ranges")

    def __init__(self, ranges: Sequence[OffsetRange] = (), late: Sequence[int] = ()) -> None:
        self.ranges = list(ranges)
        self.late = tuple(late)
        self.generation = 0
        """Rises whenever work on the first range has to begin anew."""

    @property
    def first(self) -> int | None:
        """The first damaged offset, None if the log is whole."""
        return self.ranges[0].start if self.ranges else None

    def reaches_end(self, offset: int, leo: int) -> bool:
        """Whether nothing from `offset` to the end of the log can be read."""
        return bool(self.ranges) and self.ranges[-1].start <= offset and self.ranges[-1].end == leo

    # -- transitions -----------------------------------------------------------------------------------

    def begin(self, ranges: Sequence[OffsetRange], late: Sequence[int]) -> None:
        """The log is another one now, damaged in these ranges."""
        self.ranges = list(ranges)
        self.late = tuple(late)
        self.generation += 1

    def add(self, found: OffsetRange) -> bool:
        """Whether that is news."""
        if any(known.start <= found.start and found.end <= known.end for known in self.ranges):
            return False
        before = self.ranges[:1]
        merged: list[OffsetRange] = []
        for one in sorted([*self.ranges, found]):
            if merged and one.start <= merged[-1].end:
                merged[-1] = OffsetRange(merged[-1].start, max(merged[-1].end, one.end))
            else:
                merged.append(one)
        self.ranges = merged
        if merged[:1] != before:
            self.generation += 1
        return True

    def forget_below(self, log_start: int) -> bool:
        """What lies below the log start is nobody's concern any more (C3). Whether anything was there."""
        if not self.ranges or self.ranges[0].start >= log_start:
            return False
        kept = [one for one in self.ranges if one.end > log_start]
        self.ranges = [OffsetRange(max(one.start, log_start), one.end) for one in kept]
        self.generation += 1
        return True

    def cut(self, offset: int) -> None:
        """The log was cut at `offset`, and the damage behind it with it."""
        if self.ranges and self.ranges[-1].end > offset:
            kept = [OffsetRange(one.start, min(one.end, offset)) for one in self.ranges if one.start < offset]
            self.ranges = kept
            self.generation += 1

    def mended(self, whole: OffsetRange) -> None:
        """The first range can be read again."""
        invariant(self.ranges[:1] == [whole], f"{whole} was mended, the first damaged range is another")
        del self.ranges[0]
        self.generation += 1

    def check(self, log_start: int, leo: int) -> bool:
        """Whether the ranges obey what the class says."""
        end = log_start - 1
        for one in self.ranges:
            if not end < one.start < one.end <= leo:
                return False
            end = one.end
        return True

    # -- what it makes uncertain (R6) ---------------------------------------------------------------

    def _blurred(self, history: EpochHistory, offset: int) -> Iterator[tuple[int, int, int]]:
        """(place, E, F) of each place where an epoch may seem to begin too late, as far as its range begins
        below `offset`.
        """
        for one in self.ranges:
            if one.start >= offset:
                return
            for place in self.late:
                if one.start < place <= one.end and (epoch := history.epoch_at(place)):
                    yield place, history.epoch_before(one.start), epoch

    def hides(self, history: EpochHistory, offset: int, last_epoch: int) -> bool:
        """Whether a log that ends at `offset` in `last_epoch` is a prefix of ours, although the history does
        not say so: it ends inside the range in F itself, and we have what F wrote behind that.
        """
        if not self.late:
            return False
        blurred = self._blurred(history, offset)
        return any(offset <= place and last_epoch == epoch for place, _, epoch in blurred)

    def blur(self, history: EpochHistory, offset: int, last_epoch: int) -> bool:
        """Whether we cannot say if such a log is a prefix of ours, or where it ceases to be one.

        Saying where to cut would make somebody throw away what may be the last good copy, or keep what it
        would have to cut again.
        """
        if not self.late:
            return False
        return any(before <= last_epoch < epoch for _, before, epoch in self._blurred(history, offset))
