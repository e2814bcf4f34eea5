"""ww edges of logs: who sent the value before whose, in the order of offsets. Kernels for Spark's workers.

After jepsen.tests.kafka, the version order of a log has the offsets that are known from polls, whatever their
outcome, and from sends that certainly took effect: those that ended in ok, and others if an ok operation
polled the value. Gaps between offsets do not count. Where doubt remains, there is no edge: an offset with two
values, a value at two offsets, a value that nobody or several operations sent.

Offsets are compared within ranges, one task each; the first and the last offset of a range are its border,
from which one more kernel makes the edges between ranges.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from liftlog_jepsen.graph.intervals import Ints
from liftlog_jepsen.graph.kernels import (
    EDGE,
    OK,
    POLL,
    ROW,
    Batches,
    Columns,
    by_value,
    emit,
    gather,
    groups_of,
)
from liftlog_jepsen.graph.search import WW

NULL = np.iinfo(np.int64).min
PLACED = (*ROW, "offset", "known")
"""A value at an offset with its sender's row; `known` is 0 if nobody knows which send it was."""
BORDER = -2
"""In place of the kind of an edge: a border of a range, with the same columns."""
LINKED = (*EDGE, "offset", "known")
RANGE_BITS = 20
"""A task has ranges of 2**20 offsets of a log, so that a hot log is many tasks."""


def placed(batches: Batches) -> Batches:
    """The known offsets of values, from rows that came together by log and value."""
    rows = _with_offsets(batches)
    order = by_value(rows)
    groups = groups_of(rows, order)
    who, offset, number = rows["who"][order], rows["offset"][order], groups.number
    poll = who & POLL != 0
    polled = np.zeros(len(groups.begin), np.bool_)
    polled[number[poll & (who & OK != 0)]] = True
    counts = np.flatnonzero((offset != NULL) & (poll | (who & OK != 0) | polled[number]))
    # One row for each offset of a value, however many saw it there.
    counts = counts[np.lexsort((offset[counts], number[counts]))]
    fresh = np.ones(len(counts), np.bool_)
    fresh[1:] = (number[counts][1:] != number[counts][:-1]) | (offset[counts][1:] != offset[counts][:-1])
    counts = counts[fresh]
    several = np.bincount(number[counts], minlength=len(groups.begin)) > 1
    sender = groups.sender[number[counts]]
    known = (sender >= 0) & ~several[number[counts]]
    source = order[np.where(known, sender, counts)]
    columns = {name: rows[name][source] for name in ROW}
    yield from emit(columns | {"offset": offset[counts], "known": known.astype(np.int64)})


def _with_offsets(batches: Batches) -> Columns:
    """Rows with offsets; null becomes NULL."""
    filled = [
        batch.set_column(
            batch.schema.get_field_index("offset"), "offset", batch["offset"].fill_null(int(NULL))
        )
        for batch in batches
    ]
    return gather(iter(filled), (*ROW, "offset"))


def neighbours(batches: Batches) -> Batches:
    """The ww edges within ranges, and the ranges' borders, from rows that came together by log and range."""
    rows = gather(batches, PLACED)
    order = np.lexsort((rows["value"], rows["offset"], rows["log"]))
    rows = {name: column[order] for name, column in rows.items()}
    log, offset = rows["log"], rows["offset"]
    again = (log[1:] == log[:-1]) & (offset[1:] == offset[:-1])
    # An offset with two values: all of its rows become one of which nothing is known.
    rows["known"][1:][again] = 0
    rows["known"][:-1][again] = 0
    first = np.append(True, ~again) if len(log) else np.zeros(0, np.bool_)
    rows = {name: column[first] for name, column in rows.items()}
    yield from _linked(rows, borders=True)


def borders(batches: Batches) -> Batches:
    """The ww edges between ranges, from all borders of whole logs."""
    linked = gather(batches, LINKED)
    chosen = linked["kind"] == BORDER
    rows = {name: linked[name][chosen] for name in PLACED}
    order = np.lexsort((rows["offset"], rows["log"]))
    yield from _linked({name: column[order] for name, column in rows.items()}, borders=False)


def _linked(rows: Columns, *, borders: bool) -> Batches:
    """Edges between neighbours in rows that are sorted by log and offset: with `borders`, within ranges, and
    the borders of each; without, between ranges.
    """
    log, spot = rows["log"], rows["offset"] >> RANGE_BITS
    same = log[1:] == log[:-1]
    inner = same & (spot[1:] == spot[:-1])
    pairs = np.flatnonzero((inner if borders else same & ~inner) & _joinable(rows))
    yield from emit(_edge_columns(rows, pairs, pairs + 1, WW))
    if borders and len(log):
        ends = np.flatnonzero(np.append(True, ~inner) | np.append(~inner, True))
        yield from emit(_edge_columns(rows, ends, ends, BORDER))


def _joinable(rows: Columns) -> npt.NDArray[np.bool_]:
    known = rows["known"] != 0
    joinable: npt.NDArray[np.bool_] = known[1:] & known[:-1] & (rows["at"][1:] != rows["at"][:-1])
    return joinable


def _edge_columns(rows: Columns, source: Ints, target: Ints, kind: int) -> Columns:
    columns = {name: rows[name][source] for name in ROW}
    columns["kind"] = np.full(len(source), kind, np.int64)
    columns |= {f"to_{name}": rows[name][target] for name in ("at", "ret", "who")}
    return columns | {"offset": rows["offset"][source], "known": rows["known"][source]}
