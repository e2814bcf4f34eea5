"""A log of the model as runs of equal entries, so that a step on a long log costs little.

Stands in the place of a tuple in a model's state (liftlog_spec/run/stepwise.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, overload


class Runs:
    """An immutable sequence. `values[i]` stands from the end of run i-1 to `ends[i]`; neighbours differ."""

    __slots__ = ("_hash", "ends", "size", "values")

    def __init__(self, values: tuple[Any, ...] = (), ends: tuple[int, ...] = ()) -> None:
        self.values = values
        self.ends = ends
        self.size = ends[-1] if ends else 0
        self._hash = 0

    @staticmethod
    def of(items: Iterable[Any]) -> Runs:
        """The same sequence as runs."""
        return Runs() + tuple(items)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Runs: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            start, stop, step = place.indices(self.size)
            if step != 1:
                raise ValueError("only whole stretches of a log are taken")
            return self._stretch(start, stop)
        if not 0 <= place < self.size:
            raise IndexError(f"{place} is not in a sequence of {self.size}")
        ends = self.ends
        if len(ends) == 1 or place >= ends[-2]:
            return self.values[-1]
        return self.values[bisect_right(ends, place)]

    def _stretch(self, start: int, stop: int) -> Runs:
        if start >= stop:
            return Runs()
        if start == 0 and stop == self.size:
            return self
        first = bisect_right(self.ends, start)
        last = bisect_right(self.ends, stop - 1)
        ends = (*(end - start for end in self.ends[first:last]), stop - start)
        return Runs(self.values[first : last + 1], ends)

    def __add__(self, other: Runs | tuple[Any, ...]) -> Runs:
        if isinstance(other, tuple):
            values, ends, size = self.values, self.ends, self.size
            for item in other:
                size += 1
                if values and values[-1] == item:
                    ends = (*ends[:-1], size)
                else:
                    values, ends = (*values, item), (*ends, size)
            return Runs(values, ends)
        if not other.values:
            return self
        size = self.size
        if self.values and self.values[-1] == other.values[0]:
            values, ends = self.values + other.values[1:], self.ends[:-1]
        else:
            values, ends = self.values + other.values, self.ends
        return Runs(values, ends + tuple(size + end for end in other.ends))

    def __iter__(self) -> Iterator[Any]:
        start = 0
        for value, end in zip(self.values, self.ends, strict=True):
            for _ in range(start, end):
                yield value
            start = end

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return len(self) == len(other) and tuple(self) == other
        return isinstance(other, Runs) and self.ends == other.ends and self.values == other.values

    def __lt__(self, other: Runs) -> bool:
        """Any total order: sets of the model are held sorted."""
        return (self.ends, self.values) < (other.ends, other.values)

    def __hash__(self) -> int:
        if not self._hash:
            self._hash = hash((self.values, self.ends))
        return self._hash

    def __repr__(self) -> str:
        return f"Runs({self.values!r}, {self.ends!r})"


def epoch_before(log: Runs, end: int) -> int | None:
    """The epoch of the entry before `end`, 0 at the beginning; None if the log does not reach that far."""
    if not 0 <= end <= len(log):
        return None
    return int(log[end - 1][0]) if end else 0
