"""Validates the contents of a Parquet history before anything is concluded from it.

A check joins micro-operations with operations; a row that finds no partner would silently vanish, and with it
perhaps an anomaly. Reads batch by batch; only the ids of operations stay in memory, 16 to 32 bytes each.
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

from liftlog.types import LiftlogError
from liftlog_jepsen.history import MOP_FUNCTIONS, OUTCOMES
from liftlog_jepsen.parquet import FolderInfo, fields, read_info

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
BATCH_ROWS = 1 << 19


def validate_folder(folder: Path) -> FolderInfo:
    """Read the whole folder once. Raises LiftlogError naming the file, the operation and the expectation."""
    info = read_info(folder)
    names = [one.name for one in info.histories]
    known = _validate_ops(folder / "ops.parquet", names)
    _validate_mops(folder / "mops.parquet", names, known, info.version)
    for batch in _batches(folder / "faults.parquet", info.version):
        _codes(folder / "faults.parquet", batch, "history_id", names)
    return info


class _Ids(NamedTuple):
    """The operations of all histories."""

    op_ids: Ints
    """Distinct and sorted; empty if `pairs` are the numbers themselves."""
    pairs: Ints
    """Every (history, place in `op_ids`) as one number, sorted."""
    inv: Ints
    """`idx_inv` of each of the pairs."""
    dense: bool
    """There is one history, and its operations are numbered from 0 without gaps."""

    def find(self, history: Ints, op_id: Ints) -> tuple[Ints, Bools]:
        """The place of each operation among the pairs, and whether it is there."""
        if not len(self.pairs):
            return np.zeros(len(op_id), np.int64), np.zeros(len(op_id), np.bool_)
        if self.dense:
            there = (op_id >= 0) & (op_id < len(self.pairs))
            return np.where(there, op_id, 0), there
        rank = np.minimum(np.searchsorted(self.op_ids, op_id), len(self.op_ids) - 1)
        pair = history * len(self.op_ids) + rank
        place = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        return place, (self.op_ids[rank] == op_id) & (self.pairs[place] == pair)

    def op_id(self, place: int) -> int:
        return place if self.dense else int(self.op_ids[self.pairs[place] % len(self.op_ids)])


def _validate_ops(path: Path, names: Sequence[str]) -> _Ids:
    histories, ids, invs = ([np.zeros(0, np.int64)] for _ in range(3))
    for batch in _batches(path, 1):
        history = _codes(path, batch, "history_id", names)
        op_id = _integers(batch, "op_id")
        outcome = _known(batch.column("outcome"), OUTCOMES)
        not_empty = _known(batch.column("f"), ("",)) < 0
        info = pa.array(outcome == OUTCOMES.index("info"))
        expectations = (
            (pa.array(outcome >= 0), f"an outcome of {', '.join(OUTCOMES)}"),
            (pa.array(not_empty), "an f that is not empty"),
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
        invs.append(_integers(batch, "idx_inv"))
    return _ids(path, names, np.concatenate(histories), np.concatenate(ids), np.concatenate(invs))


def _ids(path: Path, names: Sequence[str], history: Ints, op_id: Ints, inv: Ints) -> _Ids:
    count = len(op_id)
    if len(names) == 1 and count and op_id.min() == 0 and op_id.max() == count - 1:
        by_number = np.full(count, -1, np.int64)
        by_number[op_id] = inv
        if (by_number >= 0).all():
            return _Ids(op_id[:0], by_number, by_number, True)
    op_ids, rank = np.unique(op_id, return_inverse=True)
    pairs = history * len(op_ids) + rank
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    twice = pairs[1:][pairs[1:] == pairs[:-1]]
    if len(twice):
        raise _broken(path, int(op_ids[twice[0] % len(op_ids)]), "each op_id once, but it is there twice")
    return _Ids(op_ids, pairs, inv[order], False)


def _validate_mops(path: Path, names: Sequence[str], known: _Ids, version: int) -> None:
    counts = np.zeros(len(known.pairs), np.int32)
    last = np.full(len(known.pairs), -1, np.int32)
    for batch in _batches(path, version):
        history = _codes(path, batch, "history_id", names)
        op_id = _integers(batch, "op_id")
        place, there = known.find(history, op_id)
        _expect(path, there, op_id, "this operation in ops.parquet, but it is not there")
        functions = _known(batch.column("f"), MOP_FUNCTIONS) >= 0
        _expect(path, functions, op_id, f"f in {', '.join(MOP_FUNCTIONS)}")
        offsets = _or_null(pc.greater_equal(batch.column("offset"), 0))
        _expect(path, offsets.to_numpy(zero_copy_only=False), op_id, "an offset of 0 or more")
        single = pc.or_(pc.is_null(batch.column("value")), pc.is_null(batch.column("value_s")))
        _expect(path, single.to_numpy(zero_copy_only=False), op_id, "value or value_s, but both are there")
        if version >= 2:
            same = known.inv[place] == _integers(batch, "idx_inv")
            _expect(path, same, op_id, "the idx_inv that ops.parquet has")
        np.add.at(counts, place, 1)
        np.maximum.at(last, place, _integers(batch, "pos").astype(np.int32))
    gaps = np.flatnonzero(last + 1 != counts)
    if len(gaps):
        words = f"pos 0 to {last[gaps[0]]}, each once, but it has {counts[gaps[0]]} rows"
        raise _broken(path, known.op_id(int(gaps[0])), words)


def _batches(path: Path, version: int) -> Iterator[pa.RecordBatch]:
    wanted = [field for field in fields(path.stem, version) if field.name not in ("client", "error")]
    try:
        for batch in pq.ParquetFile(path).iter_batches(BATCH_ROWS, columns=[field.name for field in wanted]):
            for field in wanted:
                if not field.nullable and batch.column(field.name).null_count:
                    raise LiftlogError(f"broken history {path}: expected no null in column {field.name}")
            yield batch
    except (pa.ArrowException, OSError) as error:
        words = str(error).split("\n")[0].rstrip(".")
        raise LiftlogError(f"broken history {path}: expected readable columns, but {words}") from None


def _codes(path: Path, batch: pa.RecordBatch, name: str, names: Sequence[str]) -> Ints:
    """The number of each row's history among the names in the metadata."""
    codes = _known(batch.column(name), names)
    strange = np.flatnonzero(codes < 0)
    if len(strange):
        got = batch.column(name)[int(strange[0])].as_py()
        raise LiftlogError(f"broken history {path}: expected {name} in {', '.join(names)}, got {got}")
    return codes


def _known(column: pa.Array, names: Sequence[str]) -> Ints:
    """The place of each text among `names`, -1 for any other. Looks at each distinct text once."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    places = {name: place for place, name in enumerate(names)}
    table = np.array([places.get(text, -1) for text in encoded.dictionary.to_pylist()], np.int64)
    codes: Ints = table[encoded.indices.to_numpy(zero_copy_only=False)]
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
