"""Where operations stand in one order, so that few edges go backwards; and the edges that time itself gives.

An operation may stand anywhere between its invocation (`lower`) and its completion (`upper`; OPEN if
nobody knows that it took effect, or when). Then every real-time edge goes forwards: a completed before b
was invoked, and each stands within its own bounds. Process edges are real-time edges. So only edges of data
can go backwards, and real-time edges need be drawn only within a piece.

A good place for an operation is just before the first operation that depends on it. `relax` moves the upper
bounds there, a step along the edges at a time; each step is optional, because any order is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from liftlog_jepsen.graph.intervals import Ints, locate, merge

OPEN = np.iinfo(np.int64).max
"""The upper bound of an operation that is not known to have ended."""


class EdgePieces(NamedTuple):
    """Edges that may lie on cycles, and the number of the piece that each lies in."""

    edges: Ints
    piece: Ints


def places(lower: Ints, upper: Ints) -> Ints:
    """One place for each operation, within its bounds: at its completion, or else at its invocation."""
    return np.where(upper == OPEN, lower, np.maximum(lower, upper))


def relax(sources: Ints, targets: Ints, upper: Ints, rounds: int) -> Ints:
    """Upper bounds that are at most those of the operations that depend on each, over at most `rounds`
    edges.
    """
    upper = upper.copy()
    for _ in range(rounds):
        earlier = upper[targets] < upper[sources]
        if not earlier.any():
            break
        np.minimum.at(upper, sources[earlier], upper[targets[earlier]])
    return upper


def cut(sources: Ints, targets: Ints, place: Ints) -> EdgePieces:
    """The edges within the pieces that back edges make up. Equal places count as backwards."""
    begin, end = place[sources], place[targets]
    back = begin >= end
    starts, ends = merge(end[back], begin[back])
    piece = locate(begin, starts, ends)
    inside = np.flatnonzero((piece >= 0) & (piece == locate(end, starts, ends)))
    return EdgePieces(inside, piece[inside])


def real_time_edges(lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
    """The edges (source, target) from each operation that ended to those that began later, without those that
    others imply: if a ended before b began, and b before c began, there is no edge from a to c.
    """
    ended = np.flatnonzero(upper != OPEN)
    ended = ended[np.argsort(upper[ended], kind="stable")]
    if not len(ended):
        return ended, ended
    ends = upper[ended]
    before = np.searchsorted(ends, lower, side="left")
    # What ended before the latest begin among these is implied by whoever began there.
    latest = np.maximum.accumulate(lower[ended])[np.maximum(before - 1, 0)]
    first = np.minimum(np.searchsorted(ends, latest, side="left"), before)
    counts = before - first
    sources = (
        np.repeat(first, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    )
    return ended[sources], np.repeat(np.arange(len(lower)), counts)


def process_edges(lower: Ints, upper: Ints, process: Ints) -> tuple[Ints, Ints]:
    """Like `real_time_edges`, but only between operations of one process."""
    ended = upper != OPEN
    moments, dense = np.unique(np.concatenate([lower, upper[ended]]), return_inverse=True)
    _, number = np.unique(process, return_inverse=True)
    # Laid end to end, processes keep their own order, and what lies between two operations of one is its own.
    shift = number * (len(moments) + 1)
    ends = np.full(len(lower), OPEN, np.int64)
    ends[ended] = dense[len(lower) :] + shift[ended]
    sources, targets = real_time_edges(dense[: len(lower)] + shift, ends)
    same = number[sources] == number[targets]
    return sources[same], targets[same]
