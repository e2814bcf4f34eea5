"""Which subjects of a table a filter matches: all of them at once, token by token.

A *mask* has a flag for each subject. It is made when a filter is asked for the first time, and afterwards
only for those that have come since. A few are kept; the one that was not asked for longest is forgotten.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from liftlog.subjects.grammar import ANY, REST
from liftlog.subjects.index.interface import filter_tokens
from liftlog.subjects.index.table import Offsets, SubjectTable

Mask = NDArray[np.bool_]

MASKS_MAX = 8
SLICE = 1 << 16
"""Subjects that are looked at together, which bounds the memory that it takes."""
_DOT = ord(".")


class Masks:
    """The masks of the filters that were asked for last."""

    __slots__ = ("_known", "_table")

    def __init__(self, table: SubjectTable) -> None:
        self._table = table
        self._known: dict[str, Mask] = {}

    @property
    def memory(self) -> int:
        return sum(mask.nbytes for mask in self._known.values())

    def of(self, pattern: str) -> Mask:
        """A flag for each subject of the table."""
        known = self._known.pop(pattern, None)
        if known is None:
            known = np.zeros(0, np.bool_)
            while len(self._known) >= MASKS_MAX:
                del self._known[next(iter(self._known))]
        if len(known) < len(self._table):
            tokens = filter_tokens(pattern)
            parts = [known]
            for first in range(len(known), len(self._table), SLICE):
                parts.append(matching(self._table, tokens, first, min(first + SLICE, len(self._table))))
            known = np.concatenate(parts)
        self._known[pattern] = known
        return known

    def cut(self, count: int) -> None:
        """The table has only so many subjects left."""
        self._known = {pattern: mask[:count].copy() for pattern, mask in self._known.items()}


def matching(table: SubjectTable, tokens: list[str], first: int, end: int) -> Mask:
    """Whether a pattern of these tokens matches each of the subjects with numbers [first, end)."""
    data, starts, ends = table.spans(first, end)
    found = np.zeros(end - first, np.bool_)
    dots = _Dots(data, int(starts[0]), int(ends[-1]))
    left = np.arange(end - first)
    at = starts
    for position, token in enumerate(tokens):
        # Each that is left has a token that begins at `at`, be it an empty one.
        if token == REST:
            found[left] = True
            return found
        if token == ANY:
            stops = dots.behind(at, ends)
        else:
            text = token.encode()
            kept = _beginning_with(data, at, ends, text)
            left, ends = left[kept], ends[kept]
            stops = at[kept] + len(text)
        if position == len(tokens) - 1:
            found[left[stops == ends]] = True
            return found
        kept = np.flatnonzero((stops < ends) & (data.take(stops, mode="clip") == _DOT))
        left, ends, at = left[kept], ends[kept], stops[kept] + 1
    return found


def _beginning_with(data: NDArray[np.uint8], at: Offsets, ends: Offsets, token: bytes) -> Offsets:
    """Of which the bytes at `at` are those of a token, and all within the subject."""
    kept = np.flatnonzero(at + len(token) <= ends)
    for position, byte in enumerate(token):
        kept = kept[data[at[kept] + position] == byte]
    return kept


class _Dots:
    """Where the next dot is."""

    __slots__ = ("_dots",)

    def __init__(self, data: NDArray[np.uint8], first: int, end: int) -> None:
        beyond = np.array([len(data)])
        self._dots = np.concatenate((np.flatnonzero(data[first:end] == _DOT) + first, beyond))

    def behind(self, at: Offsets, ends: Offsets) -> Offsets:
        """The end of the token that begins at `at`: the next dot, or the end of the subject."""
        stops: Offsets = np.minimum(self._dots[np.searchsorted(self._dots, at)], ends)
        return stops
