"""What Spark's workers run for cycles over logs: Arrow batches in, Arrow batches out.

All columns are 64-bit integers. A row is one micro-operation with its operation:

| column | contents |
|---|---|
| log | hash of the history and the key |
| value | the value if it is an integer, else its hash |
| at | position of the operation's invocation, which names the operation |
| ret | position of its completion; OPEN unless the outcome is ok |
| who | process * 8, + POLL if this is a poll, + OK, + LATE if the operation stands at its completion |

Positions of several histories lie one behind the other on one line, so that they never mix.

`wr` edges lead from the sender of a value to each operation that polled it, whatever their outcomes, as in
jepsen.tests.kafka. A value that several operations sent, or that nobody sent, gives no edge. `ww` edges lead
from the sender of a value to that of the next known offset (`liftlog_jepsen.graph.versions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from liftlog_jepsen.graph.intervals import Ints, coarsen, merge
from liftlog_jepsen.graph.search import WR, CycleSearch, Graph, search

POLL, OK, LATE = 1, 2, 4
PROCESS_SHIFT = 3

ROW = ("log", "value", "at", "ret", "who")
EDGE = (*ROW, "kind", "to_at", "to_ret", "to_who")
"""An edge is a row about its source, with its kind and its target. Kind -1: no edge, but a row to match."""
NO_EDGE = -1
MARK = ("mark", "first", "second")
"""An INTERVAL from the first to the second position, or a REUSED value: its log, and itself."""
INTERVAL, REUSED = 0, 1
STEP_SCHEMA = pa.schema(
    [
        ("anomaly", pa.string()),
        ("first", pa.int64()),
        ("step", pa.int64()),
        ("source", pa.int64()),
        ("target", pa.int64()),
        ("edge", pa.string()),
        ("log", pa.int64()),
        ("value", pa.int64()),
    ]
)
STEP_DDL = (
    "anomaly string, first bigint, step bigint, source bigint, target bigint, edge string, log bigint, "
    "value bigint"
)
LIMIT = "cycle-search-limit"
"""Stands for a piece of the history that was not searched to its end; `edge` names the kind of cycle."""
ROWS_MAX = 20_000_000
"""Rows of one piece that a task takes on; at about 200 bytes each, 4 GB."""
PIECE_ROW = ("piece", *EDGE)

Batches = Iterator[pa.RecordBatch]
Columns = dict[str, Ints]
Bools = npt.NDArray[np.bool_]


def marks(batches: Batches) -> Batches:
    """What rows that came together by log and value say about the whole history: the intervals of their back
    edges, and the values that several operations sent.
    """
    rows = gather(batches, ROW)
    order = by_value(rows)
    groups = groups_of(rows, order)
    sender, reader = _edges_of(rows, order, groups)
    place = _place(rows)
    yield from _back(place[sender], place[reader])
    doubtful = np.flatnonzero(groups.doubtful)
    reused = order[groups.begin[doubtful]]
    yield from _marks(REUSED, rows["log"][reused], rows["value"][reused])


def edge_marks(batches: Batches) -> Batches:
    """The intervals of the back edges among edges."""
    edges = gather(batches, EDGE)
    target = {"at": edges["to_at"], "ret": edges["to_ret"], "who": edges["to_who"]}
    yield from _back(_place(edges), _place(target))


def _back(begin: Ints, end: Ints) -> Batches:
    back = begin >= end
    yield from _marks(INTERVAL, *coarsen(*merge(end[back], begin[back])))


def _marks(mark: int, first: Ints, second: Ints) -> Batches:
    yield from emit({"mark": np.full(len(first), mark, np.int64), "first": first, "second": second})


def pieces(batches: Batches) -> Batches:
    """The pieces that the intervals of all tasks make up, few enough for a table that every task gets."""
    found = gather(batches, MARK)
    chosen = found["mark"] == INTERVAL
    starts, ends = coarsen(*merge(found["first"][chosen], found["second"][chosen]))
    yield from emit({"piece": np.arange(len(starts)), "start": starts, "end": ends})


def reused(batches: Batches) -> Batches:
    """The values that several operations sent."""
    for batch in batches:
        chosen = batch.filter(pa.array(batch["mark"].to_numpy() == REUSED))
        yield pa.RecordBatch.from_arrays([chosen["first"], chosen["second"]], ["log", "value"])


def _place(rows: Columns) -> Ints:
    return np.where(rows["who"] & LATE != 0, rows["ret"], rows["at"])


def match(rows: Columns) -> tuple[Ints, Ints]:
    """The wr edges among rows, as pairs of row numbers: the sender of a value and each other operation that
    polled it.
    """
    order = by_value(rows)
    return _edges_of(rows, order, groups_of(rows, order))


class RowGroups(NamedTuple):
    """The rows of one log and value each, as places in an order of rows."""

    begin: Ints
    number: Ints
    """Of each row's group."""
    sender: Ints
    """One send of each group; -1 if nobody sent the value, or nobody knows which of several was read."""
    doubtful: Bools
    """Several operations sent the value."""


def groups_of(rows: Columns, order: Ints) -> RowGroups:
    """The groups in an order of rows that `by_value` made."""
    log, value, at = rows["log"][order], rows["value"][order], rows["at"][order]
    starts = np.ones(len(order), np.bool_)
    starts[1:] = (log[1:] != log[:-1]) | (value[1:] != value[:-1])
    number, begin = np.cumsum(starts) - 1, np.flatnonzero(starts)
    sends = np.flatnonzero(rows["who"][order] & POLL == 0)
    sender = np.full(len(begin), -1, np.int64)
    sender[number[sends]] = sends
    other = at[sends] != at[sender[number[sends]]]
    doubtful = np.zeros(len(begin), np.bool_)
    doubtful[number[sends[other]]] = True
    sender[doubtful] = -1
    return RowGroups(begin, number, sender, doubtful)


def _edges_of(rows: Columns, order: Ints, groups: RowGroups) -> tuple[Ints, Ints]:
    known = groups.sender[groups.number] >= 0
    polls = np.flatnonzero((rows["who"][order] & POLL != 0) & known)
    sender, reader = order[groups.sender[groups.number[polls]]], order[polls]
    apart = rows["at"][sender] != rows["at"][reader]
    return sender[apart], reader[apart]


def by_value(rows: Columns) -> Ints:
    """An order of rows in which those of one log and value are neighbours."""
    with np.errstate(over="ignore"):
        mixed = rows["log"].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ rows["value"].astype(np.uint64)) * np.uint64(0xD6E8FEB86659FD93)
    order: Ints = np.argsort(mixed)
    log, value, mixed = rows["log"][order], rows["value"][order], mixed[order]
    clash = (mixed[1:] == mixed[:-1]) & ((log[1:] != log[:-1]) | (value[1:] != value[:-1]))
    return np.lexsort((rows["value"], rows["log"])) if clash.any() else order


def cycles(batches: Batches, kinds: Sequence[str], rows_max: int = ROWS_MAX) -> Batches:
    """The steps of the smallest cycles among rows and edges of whole pieces, as `STEP_SCHEMA` has them."""
    held = HeldRows(rows_max)
    for batch in batches:
        held.add(batch)
    edges = _edges(gather(iter(held.batches), EDGE))
    outcome = search(
        Graph(
            edges["at"],
            edges["ret"],
            edges["who"] >> PROCESS_SHIFT,
            edges["to_at"],
            edges["to_ret"],
            edges["to_who"] >> PROCESS_SHIFT,
            edges["kind"],
        ),
        kinds,
    )
    excess = [
        (LIMIT, place.least, 0, place.least, place.greatest, kind, place.log, None)
        for place in held.excess()
        for kind in kinds
    ]
    yield _steps([*_told(outcome, edges), *excess])


class PiecePlace(NamedTuple):
    """Where a piece lies: the least and the greatest position of an invocation, and a log of the first."""

    least: int
    greatest: int
    log: int


class HeldRows:
    """The rows of a task's pieces; of pieces with more than `most` rows, only where they lie."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.batches: list[pa.RecordBatch] = []
        self._rows: dict[int, int] = {}
        self._places: dict[int, PiecePlace] = {}
        self._given_up: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one more batch, of `PIECE_ROW`."""
        piece, at, log = (batch[name].to_numpy() for name in ("piece", "at", "log"))
        order = np.lexsort((log, at, piece))
        numbers, begin = np.unique(piece[order], return_index=True)
        full = len(self._given_up)
        for number, part in zip(numbers.tolist(), np.split(order, begin[1:]), strict=False):
            before = self._rows.get(number, 0)
            self._rows[number] = before + len(part)
            place = PiecePlace(int(at[part[0]]), int(at[part[-1]]), int(log[part[0]]))
            known = self._places.setdefault(number, place)
            first = min(known, place, key=lambda each: (each.least, each.log))
            self._places[number] = first._replace(greatest=max(known.greatest, place.greatest))
            if before <= self.most < self._rows[number]:
                self._given_up.append(number)
        self.batches.append(self._without(batch) if self._given_up else batch)
        if len(self._given_up) > full:
            self.batches = [self._without(each) for each in self.batches]

    def _without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pa.array(~np.isin(batch["piece"].to_numpy(), self._given_up)))

    def excess(self) -> list[PiecePlace]:
        """Where the pieces that were given up lie."""
        return sorted(self._places[piece] for piece in self._given_up)


def _edges(rows: Columns) -> Columns:
    """The edges among the rows and those that the rows make, in an order that only their contents decide."""
    ready = rows["kind"] != NO_EDGE
    plain = {name: rows[name][~ready] for name in ROW}
    sender, reader = match(plain)
    made = {name: plain[name][sender] for name in ROW}
    made["kind"] = np.full(len(sender), WR, np.int64)
    made |= {f"to_{name}": plain[name][reader] for name in ("at", "ret", "who")}
    edges = {name: np.concatenate([rows[name][ready], made[name]]) for name in EDGE}
    order = np.lexsort(tuple(edges[name] for name in ("value", "log", "kind", "to_at", "at")))
    return {name: column[order] for name, column in edges.items()}


def _told(outcome: CycleSearch, edges: Columns) -> Iterator[tuple[object, ...]]:
    for circle in outcome.circles:
        for number, step in enumerate(circle.steps):
            told = (
                (int(edges["log"][step.edge]), int(edges["value"][step.edge]))
                if step.edge >= 0
                else (None, None)
            )
            yield (
                circle.anomaly,
                circle.steps[0].source,
                number,
                step.source,
                step.target,
                step.kind,
                *told,
            )
    for kind, least, greatest in outcome.cut:
        log = int(edges["log"][np.searchsorted(edges["at"], least)])
        yield (LIMIT, least, 0, least, greatest, kind, log, None)


def _steps(rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in STEP_SCHEMA)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, STEP_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=STEP_SCHEMA)


def gather(batches: Batches, names: Sequence[str]) -> Columns:
    """The columns of all of a task's batches."""
    listed = list(batches)
    if not listed:
        return {name: np.zeros(0, np.int64) for name in names}
    table = pa.Table.from_batches(listed)
    return {name: table[name].to_numpy() for name in names}


def emit(columns: Columns, rows: int = 200_000) -> Batches:
    """Columns as batches of a bounded size."""
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    yield from table.to_batches(max_chunksize=rows)
