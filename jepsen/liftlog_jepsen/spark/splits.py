"""Which row groups of a sorted mops.parquet each task reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import liftlog_jepsen.log
from liftlog_jepsen.history import FINAL_POLL
from liftlog_jepsen.log.reading import NOTHING_ASIDE, READ_COLUMNS, Aside, Split
from liftlog_jepsen.spark.frames import ASSIGNING, HistoryFrames, Traits

if TYPE_CHECKING:
    import pyarrow as pa

Item = TypeVar("Item")
ItemKernel = Callable[[Item], Iterator["pa.RecordBatch"]]
SPLIT_ROWS = 1_500_000
DIRECT_ROWS_MIN = 4_000_000
"""Below, Spark's own reading costs less than it takes to plan."""
ASIDES_MAX = 200_000
"""Assigns and failed final reads that are told to every task: 3 MB."""


class _Group(NamedTuple):
    low: str
    high: str
    rows: int


class Splits(NamedTuple):
    """`whole`: whole logs, for one task each. `large`: parts of the large logs. `aside`: what all of them
    need to know of the operations.
    """

    whole: tuple[Split, ...]
    large: tuple[Split, ...]
    aside: Aside = NOTHING_ASIDE


def plan_splits(frames: HistoryFrames, traits: Traits, mops: int, large_keys: Sequence[str]) -> Splits | None:
    """How to read the frames' folder directly; None if that cannot be done, or would not pay."""
    path = direct_file(frames, "mops", mops)
    if path is None or traits.transactions or traits.asides > ASIDES_MAX:
        return None
    groups = _groups(Path(path))
    if groups is None:
        return None
    aside = _aside(frames.ops) if traits.asides else NOTHING_ASIDE
    return _split(path, groups, large_keys)._replace(aside=aside)


def mops_in_folder(frames: HistoryFrames) -> int:
    """How many rows the file of micro-operations has, by its footer; 0 if there is no file to ask."""
    path = direct_file(frames, "mops", DIRECT_ROWS_MIN)
    return 0 if path is None else int(pq.ParquetFile(path).metadata.num_rows)


def direct_file(frames: HistoryFrames, table: str, mops: int) -> str | None:
    """The file of a table that workers can read themselves; None if there is none, or it would not pay."""
    if frames.folder is None or mops < DIRECT_ROWS_MIN:
        return None
    path = Path(frames.folder) / f"{table}.parquet"
    return str(path.resolve()) if path.is_file() else None


def over(session: SparkSession, items: Sequence[Item], kernel: ItemKernel[Item], ddl: str) -> DataFrame:
    """A task for each item, plain data, that a worker turns into rows."""
    chosen = list(items)
    cloudpickle.register_pickle_by_value(liftlog_jepsen.log)  # type: ignore[no-untyped-call]

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from kernel(chosen[number])

    return session.range(0, len(chosen), 1, max(len(chosen), 1)).mapInArrow(made, ddl)


def _aside(ops: DataFrame) -> Aside:
    """The assigns and spoiled readers of one history; no more rows than ASIDES_MAX come home."""
    assigning = F.col("f").isin(*ASSIGNING) & F.col("outcome").isin("ok", "info")
    spoiling = (F.col("f") == FINAL_POLL) & (F.col("outcome") != "ok")
    chosen = ops.where(assigning | spoiling).select("process", "idx_inv", assigning.alias("assigning"))
    rows = chosen.collect()
    assigns = sorted((row.process, row.idx_inv) for row in rows if row.assigning)
    spoiled = sorted({row.process for row in rows if not row.assigning})
    return Aside(
        np.array([process for process, _ in assigns], np.int64),
        np.array([inv for _, inv in assigns], np.int64),
        np.array(spoiled, np.int64),
    )


def _groups(path: Path) -> list[_Group] | None:
    """The key ranges of all row groups; None unless they ascend and there is one history."""
    file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    if not set(READ_COLUMNS) <= set(names):
        return None
    key, history = names.index("key"), names.index("history_id")
    groups: list[_Group] = []
    seen = set()
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        if not group.num_rows:
            return None
        keys, histories = group.column(key).statistics, group.column(history).statistics
        if keys is None or histories is None or not keys.has_min_max or not histories.has_min_max:
            return None
        seen |= {histories.min, histories.max}
        if len(seen) > 1 or (groups and keys.min < groups[-1].high):
            return None
        groups.append(_Group(str(keys.min), str(keys.max), group.num_rows))
    return groups


def _split(path: str, groups: list[_Group], large_keys: Sequence[str]) -> Splits:
    excluded = tuple(sorted(large_keys))
    cuts = [groups[0].low]
    rows = 0
    for group in groups:
        if rows and rows + group.rows > SPLIT_ROWS and group.low > cuts[-1]:
            cuts.append(group.low)
            rows = 0
        rows += 0 if group.low == group.high and group.low in excluded else group.rows
    whole = []
    for low, high in zip(cuts, [*cuts[1:], None], strict=True):
        mine = tuple(
            number
            for number, group in enumerate(groups)
            if group.high >= low
            and (high is None or group.low < high)
            and not (group.low == group.high and group.low in excluded)
        )
        if mine:
            whole.append(Split(path, mine, low, high, excluded))
    large = []
    for key in excluded:
        mine = tuple(number for number, group in enumerate(groups) if group.low <= key <= group.high)
        some: list[int] = []
        rows = 0
        for number in mine:
            some.append(number)
            rows += groups[number].rows
            if rows >= SPLIT_ROWS or number == mine[-1]:
                large.append(Split(path, tuple(some), key, key + "\0"))
                some, rows = [], 0
    return Splits(tuple(whole), tuple(large))
