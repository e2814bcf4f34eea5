"""Counts what a folder holds, in the workers that read it: a fraction of the work of Spark's own grouping.

The results are partial: rows with the same names are to be added up (`liftlog_jepsen.spark.survey`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from liftlog_jepsen.log.columns import Bools, Ints, heads
from liftlog_jepsen.log.reading import dictionary, whole_column

MOPS, OPS = "mops", "ops"
_text, _number, _truth = pa.string(), pa.int64(), pa.bool_()
LOG_COUNTS = pa.schema(
    [
        ("history_id", _text),
        ("key", _text),
        *((name, _number) for name in ("rows", "sent", "read")),
        ("unknown_several", _truth),
        ("several", _truth),
        *((name, _number) for name in ("offset_low", "offset_high", "inv_low", "inv_high")),
    ]
)
"""Per log: micro-operations; those of them that send and poll values; whether some operation sends several
values, and one of unknown outcome does; the least and greatest offset and invocation, null without any.
"""
OP_COUNTS = pa.schema(
    [
        *((name, _text) for name in ("history_id", "f", "outcome")),
        *((name, _number) for name in ("ops", "t_first", "t_last")),
    ]
)
"""Per function and outcome: operations, the earliest invocation and the latest time, nanoseconds."""
LOG_COUNTS_DDL = (
    "history_id string, key string, rows bigint, sent bigint, read bigint, unknown_several boolean, "
    "several boolean, offset_low bigint, offset_high bigint, inv_low bigint, inv_high bigint"
)
OP_COUNTS_DDL = "history_id string, f string, outcome string, ops bigint, t_first bigint, t_last bigint"
_LOG_COLUMNS = ("history_id", "key", "f", "pos", "offset", "value", "value_s", "outcome", "idx_inv")
_OP_COLUMNS = ("history_id", "f", "outcome", "t_inv", "t_ret")


class Share(NamedTuple):
    """The row groups of one file that one task counts."""

    path: str
    groups: tuple[int, ...]


def count_logs(share: Share) -> Iterator[pa.RecordBatch]:
    """LOG_COUNTS of some row groups of a mops.parquet."""
    file = pq.ParquetFile(share.path)
    for group in share.groups:
        table = file.read_row_group(group, list(_LOG_COLUMNS), use_threads=False)
        columns = {name: whole_column(table.column(name)) for name in _LOG_COLUMNS}
        histories, keys = dictionary(columns["history_id"]), dictionary(columns["key"])
        history, key = _indices(histories), _indices(keys)
        starts = np.flatnonzero(heads(history, key))
        has_value = _valid(columns["value"]) | _valid(columns["value_s"])
        sent = _is(columns["f"], "send") & has_value
        later = sent & (columns["pos"].to_numpy() > 0)
        yield _batch(
            LOG_COUNTS,
            _named(histories, history[starts]),
            _named(keys, key[starts]),
            np.diff(np.append(starts, len(history))),
            np.add.reduceat(sent.astype(np.int64), starts),
            np.add.reduceat((_is(columns["f"], "poll") & has_value).astype(np.int64), starts),
            np.logical_or.reduceat(later & _is(columns["outcome"], "info"), starts),
            np.logical_or.reduceat(later, starts),
            *_ends(columns["offset"], starts),
            *_ends(columns["idx_inv"], starts),
        )


def count_ops(share: Share) -> Iterator[pa.RecordBatch]:
    """OP_COUNTS of some row groups of an ops.parquet."""
    file = pq.ParquetFile(share.path)
    for group in share.groups:
        table = file.read_row_group(group, list(_OP_COLUMNS), use_threads=False)
        columns = {name: whole_column(table.column(name)) for name in _OP_COLUMNS}
        names = [dictionary(columns[name]) for name in ("history_id", "f", "outcome")]
        code = np.zeros(table.num_rows, np.int64)
        for each in names:
            code = code * len(each.dictionary) + _indices(each)
        order = np.argsort(code, kind="stable")
        starts = np.flatnonzero(heads(code[order]))
        first = columns["t_inv"].to_numpy()
        last = pc.max_element_wise(columns["t_ret"], columns["t_inv"]).to_numpy(zero_copy_only=False)
        yield _batch(
            OP_COUNTS,
            *(_named(each, _indices(each)[order[starts]]) for each in names),
            np.diff(np.append(starts, len(code))),
            np.minimum.reduceat(first[order], starts),
            np.maximum.reduceat(last[order], starts),
        )


def shares(path: str, rows: int) -> list[Share]:
    """A file's row groups, dealt out so that each share has about `rows` rows."""
    metadata = pq.ParquetFile(path).metadata
    dealt: list[Share] = []
    some: list[int] = []
    count = 0
    for number in range(metadata.num_row_groups):
        size = metadata.row_group(number).num_rows
        if size:
            some.append(number)
            count += size
        if some and (count >= rows or number == metadata.num_row_groups - 1):
            dealt.append(Share(path, tuple(some)))
            some, count = [], 0
    if some:
        dealt.append(Share(path, tuple(some)))
    return dealt


def _indices(column: pa.DictionaryArray) -> Ints:
    codes: Ints = column.indices.to_numpy().astype(np.int64)
    return codes


def _named(column: pa.DictionaryArray, codes: Ints) -> pa.Array:
    return column.dictionary.cast(_text).take(pa.array(codes))


def _valid(column: pa.Array) -> Bools:
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _is(column: pa.Array, name: str) -> Bools:
    encoded = dictionary(column)
    names = np.array([each == name for each in encoded.dictionary.to_pylist()], np.bool_)
    holds: Bools = names[_indices(encoded)]
    return holds


def _ends(column: pa.Array, starts: Ints) -> tuple[pa.Array, pa.Array]:
    """The least and the greatest number of each run; null where all are null."""
    there = _valid(column)
    known = np.logical_or.reduceat(there, starts)
    ends = []
    for reduce, missing in (
        (np.minimum, np.iinfo(np.int64).max),
        (np.maximum, np.iinfo(np.int64).min),
    ):
        numbers = column.fill_null(int(missing)).to_numpy(zero_copy_only=False)
        ends.append(pa.array(reduce.reduceat(numbers, starts), mask=~known))
    return ends[0], ends[1]


def _batch(schema: pa.Schema, *columns: Sequence[object] | pa.Array) -> pa.RecordBatch:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
