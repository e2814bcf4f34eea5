"""Intervals of positions: the pieces of a history that cycles can lie in.

*Why this is exact.* Put the operations in any order. An edge that goes backwards in it (a back edge)
spans an interval, from its target to its source. Cut the order anywhere: a cycle with operations on both
sides must come back over the cut, by a back edge. So if no back edge spans a cut, no cycle does, and every
strong component lies within one connected piece of the union of these intervals. Merging intervals needs
no iteration, and can be done in parts: merge some, then merge what came out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

PIECES_MAX = 200_000
"""Of this many pieces a table is still small enough to be sent to every task."""


def merge(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The union of closed intervals as disjoint ones, ascending. Those that share a position are joined."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    fresh = np.ones(len(starts), np.bool_)
    fresh[1:] = starts[1:] > ends[:-1]
    last = np.append(np.flatnonzero(fresh)[1:] - 1, len(starts) - 1)
    return starts[fresh], ends[last]


def coarsen(starts: Ints, ends: Ints, most: int = PIECES_MAX) -> tuple[Ints, Ints]:
    """Disjoint ascending intervals, joined over their narrowest gaps until at most `most` are left.

    Larger pieces hold whatever the smaller ones held, so a search in them is as exact.
    """
    surplus = len(starts) - most
    if surplus <= 0:
        return starts, ends
    gaps = starts[1:] - ends[:-1]
    closed = np.argsort(gaps, kind="stable")[:surplus]
    kept = np.ones(len(starts), np.bool_)
    kept[closed + 1] = False
    last = np.append(np.flatnonzero(kept)[1:] - 1, len(starts) - 1)
    return starts[kept], ends[last]


def locate(points: Ints, starts: Ints, ends: Ints) -> Ints:
    """For each point the number of the disjoint ascending interval that holds it, -1 if there is none."""
    if not len(starts):
        return np.full(len(points), -1, np.int64)
    number = np.searchsorted(starts, points, side="right") - 1
    return np.where((number >= 0) & (points <= ends[np.maximum(number, 0)]), number, -1)
