"""Which row groups of a sorted mops.parquet each task reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from jepsen.log.reading import READ_COLUMNS, Split
from jepsen.spark.frames import Traits

SPLIT_ROWS = 1_500_000
DIRECT_ROWS_MIN = 4_000_000
"""Below, Spark's own reading costs less than it takes to plan."""


class _Group(NamedTuple):
    low: str
    high: str
    rows: int


class Splits(NamedTuple):
    """`whole`: whole logs, for one task each. `large`: parts of the large logs."""

    whole: tuple[Split, ...]
    large: tuple[Split, ...]


def plan_splits(folder: str | None, traits: Traits, mops: int, large_keys: Sequence[str]) -> Splits | None:
    """How to read the folder directly; None if that cannot be done, or would not pay."""
    if folder is None or mops < DIRECT_ROWS_MIN:
        return None
    if traits.transactions or traits.assigns or traits.failed_finals:
        return None
    path = Path(folder) / "mops.parquet"
    if not path.is_file():
        return None
    groups = _groups(path)
    return None if groups is None else _split(str(path.resolve()), groups, large_keys)


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
