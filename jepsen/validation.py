"""Validates the contents of a Parquet history before anything is concluded from it.

A check joins micro-operations with operations; a row that finds no partner would silently vanish, and with it
perhaps an anomaly. Reads batch by batch; only the ids of operations stay in memory, 16 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jepsen.history import MOP_FUNCTIONS, OUTCOMES
from jepsen.parquet import SCHEMAS, FolderInfo, read_info
from liftlog.types import LiftlogError

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def validate_folder(folder: Path) -> FolderInfo:
    """Read the whole folder once. Raises LiftlogError naming the file, the operation and the expectation."""
    info = read_info(folder)
    names = [one.name for one in info.histories]
    known = _validate_ops(folder / "ops.parquet", names)
    _validate_mops(folder / "mops.parquet", names, known)
    for batch in _batches(folder / "faults.parquet"):
        _history_codes(folder / "faults.parquet", batch, names)
    return info


class _Ids(NamedTuple):
    """The operations of all histories."""

    op_ids: Ints
    """Distinct and sorted."""
    pairs: Ints
    """Every (history, place in `op_ids`) as one number, sorted."""

    def find(self, history: Ints, op_id: Ints) -> tuple[Ints, Bools]:
        """The place of each operation among the pairs, and whether it is there."""
        if not len(self.pairs):
            return np.zeros(len(op_id), np.int64), np.zeros(len(op_id), np.bool_)
        rank = np.minimum(np.searchsorted(self.op_ids, op_id), len(self.op_ids) - 1)
        pair = history * len(self.op_ids) + rank
        place = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        return place, (self.op_ids[rank] == op_id) & (self.pairs[place] == pair)


def _validate_ops(path: Path, names: Sequence[str]) -> _Ids:
    histories, ids = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for batch in _batches(path):
        history = _history_codes(path, batch, names)
        op_id = _integers(batch, "op_id")
        outcome, f = batch.column("outcome").cast(pa.string()), batch.column("f").cast(pa.string())
        info = pc.equal(outcome, "info")
        expectations = (
            (pc.is_in(outcome, pa.array(OUTCOMES)), f"an outcome of {', '.join(OUTCOMES)}"),
            (pc.not_equal(f, ""), "an f that is not empty"),
            (pc.greater_equal(batch.column("idx_inv"), 0), "an idx_inv of 0 or more"),
            (
                _or_null(pc.greater(batch.column("idx_ret"), batch.column("idx_inv"))),
                "an idx_ret above idx_inv",
            ),
            (
                _or_null(pc.greater_equal(batch.column("t_ret"), batch.column("t_inv"))),
                "a t_ret not before t_inv",
            ),
            (pc.or_(info, pc.is_valid(batch.column("idx_ret"))), "an idx_ret, since the outcome is not info"),
            (pc.or_(info, pc.is_valid(batch.column("t_ret"))), "a t_ret, since the outcome is not info"),
        )
        for holds, expected in expectations:
            _expect(path, holds.to_numpy(zero_copy_only=False), op_id, expected)
        histories.append(history)
        ids.append(op_id)
    op_ids, rank = np.unique(np.concatenate(ids), return_inverse=True)
    pairs = np.sort(np.concatenate(histories) * len(op_ids) + rank)
    twice = pairs[1:][pairs[1:] == pairs[:-1]]
    if len(twice):
        raise _broken(path, int(op_ids[twice[0] % len(op_ids)]), "each op_id once, but it is there twice")
    return _Ids(op_ids, pairs)


def _validate_mops(path: Path, names: Sequence[str], known: _Ids) -> None:
    counts = np.zeros(len(known.pairs), np.int64)
    last = np.full(len(known.pairs), -1, np.int64)
    for batch in _batches(path):
        history = _history_codes(path, batch, names)
        op_id = _integers(batch, "op_id")
        place, there = known.find(history, op_id)
        _expect(path, there, op_id, "this operation in ops.parquet, but it is not there")
        functions = pc.is_in(batch.column("f").cast(pa.string()), pa.array(MOP_FUNCTIONS))
        _expect(path, functions.to_numpy(zero_copy_only=False), op_id, f"f in {', '.join(MOP_FUNCTIONS)}")
        offsets = _or_null(pc.greater_equal(batch.column("offset"), 0))
        _expect(path, offsets.to_numpy(zero_copy_only=False), op_id, "an offset of 0 or more")
        single = pc.or_(pc.is_null(batch.column("value")), pc.is_null(batch.column("value_s")))
        _expect(path, single.to_numpy(zero_copy_only=False), op_id, "value or value_s, but both are there")
        counts += np.bincount(place, minlength=len(counts))
        np.maximum.at(last, place, _integers(batch, "pos"))
    gaps = np.flatnonzero(last + 1 != counts)
    if len(gaps):
        op_id_of_gap = int(known.op_ids[known.pairs[gaps[0]] % len(known.op_ids)])
        words = f"pos 0 to {last[gaps[0]]}, each once, but it has {counts[gaps[0]]} rows"
        raise _broken(path, op_id_of_gap, words)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    columns = [field.name for field in SCHEMAS[path.stem] if field.name not in ("client", "error")]
    try:
        for batch in pq.ParquetFile(path).iter_batches(columns=columns):
            for field in SCHEMAS[path.stem]:
                if field.name in columns and not field.nullable and batch.column(field.name).null_count:
                    raise LiftlogError(f"broken history {path}: expected no null in column {field.name}")
            yield batch
    except (pa.ArrowException, OSError) as error:
        words = str(error).split("\n")[0].rstrip(".")
        raise LiftlogError(f"broken history {path}: expected readable columns, but {words}") from None


def _history_codes(path: Path, batch: pa.RecordBatch, names: Sequence[str]) -> Ints:
    """The number of each row's history among the names in the metadata."""
    column = batch.column("history_id").cast(pa.string())
    codes: Ints = pc.index_in(column, pa.array(names, pa.string())).fill_null(-1).to_numpy().astype(np.int64)
    strange = np.flatnonzero(codes < 0)
    if len(strange):
        name = column[int(strange[0])].as_py()
        raise LiftlogError(f"broken history {path}: expected history_id in {', '.join(names)}, got {name}")
    return codes


def _integers(batch: pa.RecordBatch, name: str) -> Ints:
    numbers: Ints = batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def _or_null(holds: pa.Array) -> pa.Array:
    return holds.fill_null(True)


def _expect(path: Path, holds: Bools, op_id: Ints, expected: str) -> None:
    bad = np.flatnonzero(~holds)
    if len(bad):
        raise _broken(path, int(op_id[bad[0]]), expected)


def _broken(path: Path, op_id: int, expected: str) -> LiftlogError:
    return LiftlogError(f"broken history {path}: operation {op_id}: expected {expected}")
