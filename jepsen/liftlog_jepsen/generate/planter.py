"""Where the anomalies of a large history go: in time, on which logs, and with which numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from liftlog.types import LiftlogError
from liftlog_jepsen.generate.anomalies import plant
from liftlog_jepsen.generate.answers import Planted
from liftlog_jepsen.generate.edits import Edits
from liftlog_jepsen.generate.layout import PLANTED_OPS, STRIDE, Layout
from liftlog_jepsen.generate.pieces import MOP_COLUMNS, OP_FUNCTIONS, Columns, Piece, Sends
from liftlog_jepsen.generate.positions import AMID, NOT_WITH_FINAL_READS, PROCESSES, Site, suits
from liftlog_jepsen.generate.wanted import TRAFFIC, Wanted
from liftlog_jepsen.history import MOP_FUNCTIONS, NULL, HistoryWriter

_PLACE = 5
"""What a hash decides here, beside the purposes of `liftlog_jepsen.generate.layout`."""
NEIGHBOURS = 16
"""Logs that are tried for one anomaly."""
NOTHING = "planted/nothing"
"""The log that a process is assigned when it is assigned nothing else."""


class _Place(NamedTuple):
    """One anomaly that is to be planted in one of the rounds [start, stop)."""

    number: int
    anomaly: str
    start: int
    stop: int


class Planter:
    """Plants anomalies while the pieces of a history are made."""

    def __init__(self, layout: Layout, wanted: Sequence[Wanted]) -> None:
        """Raises LiftlogError for what this history has no room for."""
        self.layout = layout
        self.answers: list[Planted] = []
        self.edits = Edits()
        self._own: list[tuple[str, dict[str, int]]] = []
        """Rows on logs of their own, each with its log's name."""
        self._waiting: list[_Place] = []
        kinds = [(each.anomaly, each.amid) for each in _mixed(wanted)]
        for number, (anomaly, amid) in enumerate(kinds):
            start = number * layout.rounds // len(kinds)
            if not amid:
                first_here = -(-start * len(kinds) // layout.rounds)
                self._plant_story(number, anomaly, start, number - first_here)
                continue
            self._require_room(anomaly, len(kinds))
            self._waiting.append(_Place(number, anomaly, start, (number + 1) * layout.rounds // len(kinds)))

    def _require_room(self, anomaly: str, planted: int) -> None:
        shape = self.layout.shape
        if shape.sends_per_op > 1:
            raise LiftlogError(
                f"{anomaly} amid transactions would be several anomalies: leave out @{TRAFFIC}"
            )
        if shape.final_readers and anomaly in NOT_WITH_FINAL_READS:
            raise LiftlogError(
                f"{anomaly} amid the traffic would be several anomalies with final reads: "
                f"leave out @{TRAFFIC}, or give --final-readers 0"
            )
        if self.layout.rounds < 2 * planted:
            raise LiftlogError(
                f"{planted} anomalies do not fit amid {shape.operations:,} operations: "
                "give more operations, or smaller batches"
            )

    def _plant_story(self, number: int, anomaly: str, round_: int, slot: int) -> None:
        """Record it as a small history, then give its rows their numbers in the large one."""
        layout = self.layout
        ticks = itertools.count()
        writer = HistoryWriter("story", clock_ns=lambda: next(ticks))
        first_op = layout.first_planted_op + PLANTED_OPS * number
        process = layout.first_planted_process + PROCESSES * number
        found = plant(writer, anomaly, f"planted/{anomaly}/{number:06}", numbers=True, process=process)
        self.answers += [
            Planted(each.anomaly, each.key, tuple(first_op + op for op in each.ops)) for each in found
        ]
        position = layout.tail_position(round_, slot)
        for op in writer.close().ops():
            cells = {
                "op_id": first_op + op.op_id,
                "process": op.process,
                "outcome": ("ok", "fail", "info").index(op.outcome),
                "idx_inv": position + STRIDE * op.idx_inv,
                "idx_ret": NULL if op.idx_ret is None else position + STRIDE * op.idx_ret,
            }
            f = OP_FUNCTIONS.index(op.f)
            self.edits.add_op(round_, f=f, **cells)
            for pos, mop in enumerate(op.mops):
                row = {
                    **cells, "op_f": f, "f": MOP_FUNCTIONS.index(mop.f), "pos": pos, "key": 0,
                    "offset": NULL if mop.offset is None else mop.offset,
                    "value": mop.value if isinstance(mop.value, int) else NULL,
                    "epoch": NULL if mop.epoch is None else mop.epoch,
                    "leader": NULL if mop.leader is None else mop.leader,
                }  # fmt: skip
                self._own.append((mop.key, row))

    def visit(self, sends: Sends) -> None:
        """Plant what belongs into the rounds of these sends, if a good place is among them."""
        for place in list(self._waiting):
            site = self._site(place, sends)
            if site is not None:
                self.answers += AMID[place.anomaly](site, self.edits)
                self._waiting.remove(place)

    def _site(self, place: _Place, sends: Sends) -> Site | None:
        """A good place; first on the log that chance has chosen, then on its neighbours in this piece."""
        groups, rounds = sends.totals.shape
        chosen = self._group(place) - sends.first_group
        if not 0 <= chosen < groups:
            return None
        first, stop = max(place.start, sends.first_round), min(place.stop, sends.first_round + rounds)
        for step in range(min(groups, NEIGHBOURS)):
            group = sends.first_group + (chosen + step) % groups
            for round_ in range(first, stop - 1):
                site = Site(self.layout, sends, group, round_, place.number)
                if suits(place.anomaly, site):
                    return site
        return None

    def _group(self, place: _Place) -> int:
        return int(self.layout.chance(_PLACE, np.array(place.number))) % self.layout.groups

    def mops(self, piece: Piece) -> Columns:
        return self.edits.mops(piece)

    def own_rows(self) -> tuple[Columns, list[str]]:
        """The rows on logs of their own, sorted, and the names of the numbers in their `key`."""
        rows = self._own + [(NOTHING, row) for row in self.edits.rows_of_no_stream()]
        names = sorted({name for name, _ in rows})
        numbers = {name: number for number, name in enumerate(names)}
        rows.sort(key=lambda named: (named[0], *_place_in_log(named[1])))
        columns = {
            column: np.array(
                [numbers[name] if column == "key" else row[column] for name, row in rows], np.int64
            )
            for column in MOP_COLUMNS
        }
        return columns, names

    def require_all_planted(self) -> None:
        """Raise LiftlogError if some anomaly found no place."""
        if self._waiting:
            names = ", ".join(sorted({place.anomaly for place in self._waiting}))
            raise LiftlogError(
                f"no place amid the traffic suits {names}: give more operations, fewer anomalies, "
                "or polls of 4 records or more"
            )


def _mixed(wanted: Sequence[Wanted]) -> list[Wanted]:
    """One entry for each anomaly; kinds take turns, so that each is spread over the whole history."""
    most = max((each.number for each in wanted), default=0)
    return [each for turn in range(most) for each in wanted if turn < each.number]


def _place_in_log(row: dict[str, int]) -> tuple[bool, int, int, int]:
    return (row["offset"] == NULL, row["offset"], row["op_id"], row["pos"])
