"""All promises over the rows of some whole shards: `check_table` here, `check_batches` in a Spark task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from liftlog_jepsen.promises.columns import (
    EVIDENCE,
    OF_GROUPS,
    OF_LOGS,
    OF_SOURCES,
    OUTPUT_DDL,
    OUTPUT_SCHEMA,
    PromiseFindings,
    rows_of,
)
from liftlog_jepsen.promises.compaction import check_compaction
from liftlog_jepsen.promises.compare_and_set import check_compare_and_set
from liftlog_jepsen.promises.consumers import check_consumers
from liftlog_jepsen.promises.exactly_once import check_exactly_once
from liftlog_jepsen.promises.groups import check_groups
from liftlog_jepsen.promises.producers import check_producers
from liftlog_jepsen.promises.reading import check_reading

CHECKS = (
    (OF_LOGS, check_reading),
    (OF_LOGS, check_producers),
    (OF_LOGS, check_compaction),
    (OF_LOGS, check_compare_and_set),
    (OF_LOGS, check_consumers),
    (OF_GROUPS, check_groups),
    (OF_SOURCES, check_exactly_once),
)
SUMMARY_SCHEMA = OUTPUT_SCHEMA.append(pa.field("count", pa.int64()))
"""Examples of anomalies; the first of each kind in a task says how many there are, the others 0."""
SUMMARY_DDL = f"{OUTPUT_DDL}, count bigint"


def check_table(table: pa.Table) -> pa.Table:
    """All broken promises of the shards whose rows `table` holds (`INPUT_COLUMNS`); each must be whole.

    Returns `OUTPUT_SCHEMA`, in no particular order.
    """
    found = PromiseFindings()
    if len(table):
        rows = rows_of(table)
        for part, check in CHECKS:
            some = rows.pick(rows.part == part)
            if len(some.op):
                check(some, found)
    return found.table()


def check_batches(batches: Iterator[pa.RecordBatch], examples: int | None) -> Iterator[pa.RecordBatch]:
    """`check_table` over one Spark task's rows; with `examples` only that many of each kind and history."""
    parts = list(batches)
    if parts:
        anomalies = check_table(pa.Table.from_batches(parts))
        yield from (anomalies if examples is None else summarize(anomalies, examples)).to_batches()


def summarize(anomalies: pa.Table, examples: int) -> pa.Table:
    """The first `examples` anomalies (at least one) of every kind and history; see SUMMARY_SCHEMA."""
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in anomalies.to_pylist():
        kinds.setdefault((row["history_id"], row["anomaly"]), []).append(row)
    summary = []
    for rows in kinds.values():
        rows.sort(key=anomaly_order)
        for place, row in enumerate(rows[: max(examples, 1)]):
            summary.append({**row, "count": 0 if place else len(rows)})
    return pa.Table.from_pylist(summary, schema=SUMMARY_SCHEMA)


def anomaly_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Puts anomalies of one kind into one order, always the same: by key, offset, and then all the rest."""
    evidence = row["evidence"]
    cells = [row["key"], evidence["offset"], *(evidence[name] for name, _ in EVIDENCE)]
    return (*((cell is not None, cell) for cell in cells), tuple(row["ops"]))
