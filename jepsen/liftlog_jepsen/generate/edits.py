"""Changes to a large history while it is being made: how anomalies come into the midst of its traffic.

A change names operations by number. It is decided when the piece with its round is made, touches rows of that
piece and of later ones only, and the table of operations, which is written afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from liftlog_jepsen.generate.layout import Ints
from liftlog_jepsen.generate.pieces import MOP_COLUMNS, OP_COLUMNS, Columns, Piece
from liftlog_jepsen.history import NULL

Cells = dict[str, int]


class _Added(NamedTuple):
    """A row that no formula gives."""

    round_: int
    cells: Cells


class Edits:
    """Everything that differs from the plan."""

    def __init__(self) -> None:
        self._changed: set[int] = set()
        """Operations of which some micro-operation changes."""
        self._dropped: set[tuple[int, int]] = set()
        self._shifts: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._cells: dict[int, Cells] = {}
        self._rows: dict[int, list[_Added]] = defaultdict(list)
        """By stream."""
        self._ops: list[_Added] = []

    # -- saying what changes -------------------------------------------------------------------------------

    def drop(self, op: int, pos: int) -> None:
        """Take one micro-operation out of an operation; those behind it move up."""
        self._changed.add(op)
        self._dropped.add((op, pos))
        self._shifts[op].append((pos, -1))

    def make_room(self, op: int, pos: int) -> None:
        """Move the micro-operations of an operation from `pos` on down by one."""
        self._changed.add(op)
        self._shifts[op].append((pos, 1))

    def change(self, op: int, **cells: int) -> None:
        """Outcome or positions of an operation, in both tables."""
        self._changed.add(op)
        self._cells.setdefault(op, {}).update(cells)

    def add(self, stream: int, round_: int, **cells: int) -> None:
        """One more micro-operation. Its place is that of its offset among the records of `round_`.

        Stream -1 is none of the plan's.
        """
        self._rows[stream].append(_Added(round_, {name: cells.get(name, NULL) for name in MOP_COLUMNS}))

    def add_op(self, round_: int, **cells: int) -> None:
        """One more operation."""
        self._ops.append(_Added(round_, {name: cells[name] for name in OP_COLUMNS}))

    def rows_of_no_stream(self) -> list[Cells]:
        """What was added to stream -1."""
        return [row.cells for row in self._rows.get(-1, ())]

    # -- carrying it out -------------------------------------------------------------------------------------

    def mops(self, piece: Piece) -> Columns:
        """The rows of a piece as they shall be."""
        columns = piece.columns
        touched = _rows_of(columns["op_id"], self._changed)
        added = [
            row.cells
            for stream in range(piece.first_stream, piece.stop_stream if self._rows else piece.first_stream)
            for row in self._rows.get(stream, ())
            if piece.start_round <= row.round_ < piece.stop_round
            if (piece.late if row.cells["offset"] == NULL else piece.placed)
        ]
        if not len(touched) and not added:
            return columns
        columns = {name: column.copy() for name, column in columns.items()}
        keep = np.ones(len(columns["op_id"]), np.bool_)
        for row in touched.tolist():
            op, pos = int(columns["op_id"][row]), int(columns["pos"][row])
            keep[row] = (op, pos) not in self._dropped
            columns["pos"][row] = pos + sum(by for start, by in self._shifts.get(op, ()) if pos >= start)
            for name, cell in self._cells.get(op, {}).items():
                columns[name][row] = cell
        joined = {
            name: np.concatenate([column[keep], np.array([row[name] for row in added], np.int64)])
            for name, column in columns.items()
        }
        order = np.lexsort(
            (joined["pos"], joined["op_id"], joined["offset"], joined["offset"] == NULL, joined["key"])
        )
        return {name: column[order] for name, column in joined.items()}

    def ops(self, columns: Columns, start_round: int, stop_round: int) -> Columns:
        """Operations of some rounds as they shall be."""
        touched = _rows_of(columns["op_id"], set(self._cells))
        added = [row.cells for row in self._ops if start_round <= row.round_ < stop_round]
        if not len(touched) and not added:
            return columns
        columns = {name: column.copy() for name, column in columns.items()}
        for row in touched.tolist():
            for name, cell in self._cells[int(columns["op_id"][row])].items():
                columns[name][row] = cell
        joined = {
            name: np.concatenate([column, np.array([row[name] for row in added], np.int64)])
            for name, column in columns.items()
        }
        order = np.argsort(joined["idx_inv"], kind="stable")
        return {name: column[order] for name, column in joined.items()}


def _rows_of(ops: Ints, changed: set[int]) -> Ints:
    """The rows whose operation is among these."""
    if not changed or not len(ops):
        return np.empty(0, np.int64)
    wanted = np.array(sorted(changed), np.int64)
    place = np.minimum(np.searchsorted(wanted, ops), len(wanted) - 1)
    rows: Ints = np.flatnonzero(wanted[place] == ops)
    return rows
