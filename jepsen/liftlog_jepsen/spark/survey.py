"""One look over whole histories before they are checked: counts for the report, and how to check them.

A handful of rows per history comes home, and one row for each log that is too large for a single task.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from liftlog_jepsen.history import FINAL_POLL
from liftlog_jepsen.log.counting import LOG_COUNTS_DDL, OP_COUNTS_DDL, Share, count_logs, count_ops, shares
from liftlog_jepsen.log.tiles import WHOLE_ROWS_MAX, LargeLog
from liftlog_jepsen.parquet import OP_COLUMNS
from liftlog_jepsen.result import Count
from liftlog_jepsen.spark.frames import (
    ASSIGNING,
    HistoryFrames,
    Traits,
    has_value,
    history_number,
    log_number,
)
from liftlog_jepsen.spark.splits import ItemKernel, direct_file, mops_in_folder, over

WHOLE_ROWS_LIMIT = WHOLE_ROWS_MAX
"""Logs with more rows are cut into tiles."""
SHARE_ROWS = 4_000_000
"""Rows that one task counts."""


class Totals(NamedTuple):
    """What one history holds."""

    counts: tuple[Count, ...]
    reasons: tuple[str, ...]
    """Why the history cannot prove everything, as its operations already show."""
    acknowledged: int
    """Sends and transactions that ended in ok."""
    records_sent: int
    records_read: int
    t_first_ns: int
    t_last_ns: int


class Survey(NamedTuple):
    """What all histories of some frames hold together."""

    histories: dict[str, Totals]
    names: dict[int, str]
    """The histories' names by `history_number`."""
    traits: Traits
    mops: int
    """Micro-operations in all."""
    large: tuple[LargeLog, ...]
    """Logs with more than WHOLE_ROWS_MAX rows."""
    large_keys: tuple[str, ...] = ()


def survey(frames: HistoryFrames) -> Survey:
    """Count everything. One Spark job that reads both tables once."""
    mops = mops_in_folder(frames)
    logs = _counted(frames, "mops", mops, count_logs, LOG_COUNTS_DDL)
    ops = _counted(frames, "ops", mops, count_ops, OP_COUNTS_DDL)
    by_log = _sum_logs(_of_mops(frames) if logs is None else logs)
    by_f = _sum_ops(_of_ops(frames) if ops is None else ops)
    collected = by_f.unionByName(_histories_and_large(by_log), allowMissingColumns=True).collect()
    by_history: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(
        (row for row in collected if row.f is not None), key=lambda row: (row.history_id, row.f, row.outcome)
    ):
        by_history[row.history_id].append(row)
    records = {row.history_id: row for row in collected if row.f is None and row.log is None}
    large = sorted((row for row in collected if row.log is not None), key=lambda row: row.log)
    rows = [row for some in by_history.values() for row in some]
    finals = [row for row in rows if row.f == FINAL_POLL]
    return Survey(
        {history: _totals(some, records.get(history)) for history, some in by_history.items()},
        {row.history: row.history_id for row in collected},
        Traits(
            transactions=any(row.unknown_several for row in records.values()),
            assigns=any(row.f in ASSIGNING for row in rows),
            finals=bool(finals),
            failed_finals=any(row.outcome != "ok" for row in finals),
            asides=sum(row.ops for row in rows if row.f in ASSIGNING)
            + sum(row.ops for row in finals if row.outcome != "ok"),
        ),
        sum(row.rows for row in records.values()),
        tuple(
            LargeLog(
                row.history,
                row.log,
                row.rows,
                row.offset_low,
                row.offset_high,
                row.inv_low,
                row.inv_high,
                row.several,
            )
            for row in large
        ),
        tuple(row.key for row in large),
    )


def _counted(
    frames: HistoryFrames, table: str, rows: int, count: ItemKernel[Share], ddl: str
) -> DataFrame | None:
    """Partial counts by workers that read the file themselves; None if that cannot be done, or would not
    pay.
    """
    path = direct_file(frames, table, rows)
    if path is None or (table == "mops" and not set(OP_COLUMNS) <= set(frames.mops.columns)):
        return None
    return over(frames.ops.sparkSession, shares(path, SHARE_ROWS), count, ddl)


def _of_ops(frames: HistoryFrames) -> DataFrame:
    """OP_COUNTS of each operation."""
    last = F.greatest("t_inv", "t_ret").alias("t_last")
    return frames.ops.select(
        "history_id", "f", "outcome", F.lit(1).alias("ops"), F.col("t_inv").alias("t_first"), last
    )


def _sum_ops(counts: DataFrame) -> DataFrame:
    return counts.groupBy("history_id", "f", "outcome").agg(
        F.sum("ops").alias("ops"),
        F.min("t_first").alias("t_first"),
        F.max("t_last").alias("t_last"),
        F.min(history_number()).alias("history"),
    )


def _of_mops(frames: HistoryFrames) -> DataFrame:
    """LOG_COUNTS of each micro-operation."""
    sends = (F.col("f") == "send") & has_value()
    polls = (F.col("f") == "poll") & has_value()
    unknown = F.col("outcome") == "info" if "outcome" in frames.mops.columns else F.lit(True)
    known_inv = F.col("idx_inv") if "idx_inv" in frames.mops.columns else F.lit(None).cast("bigint")
    return frames.mops.select(
        "history_id",
        "key",
        F.lit(1).alias("rows"),
        sends.cast("bigint").alias("sent"),
        polls.cast("bigint").alias("read"),
        (sends & unknown & (F.col("pos") > 0)).alias("unknown_several"),
        (sends & (F.col("pos") > 0)).alias("several"),
        F.col("offset").alias("offset_low"),
        F.col("offset").alias("offset_high"),
        known_inv.alias("inv_low"),
        known_inv.alias("inv_high"),
    )


def _sum_logs(counts: DataFrame) -> DataFrame:
    return counts.groupBy("history_id", "key").agg(
        *(F.sum(name).alias(name) for name in ("rows", "sent", "read")),
        *(F.max(name).alias(name) for name in ("unknown_several", "several", "offset_high", "inv_high")),
        *(F.min(name).alias(name) for name in ("offset_low", "inv_low")),
    )


def _histories_and_large(logs: DataFrame) -> DataFrame:
    """A row for each history, and one for each large log."""
    histories = logs.groupBy("history_id").agg(
        F.sum("rows").alias("rows"),
        F.sum("sent").alias("sent"),
        F.sum("read").alias("read"),
        F.max("unknown_several").alias("unknown_several"),
        F.min(history_number()).alias("history"),
    )
    large = logs.where(F.col("rows") > WHOLE_ROWS_LIMIT).select(
        "history_id",
        "key",
        "several",
        "rows",
        "offset_low",
        "offset_high",
        "inv_low",
        "inv_high",
        history_number().alias("history"),
        log_number().alias("log"),
    )
    nothing = F.lit(None).cast("string")
    return histories.unionByName(large, allowMissingColumns=True).withColumn("f", nothing)


def _totals(rows: list[Row], record: Row | None) -> Totals:
    counts = tuple(Count(row.f, row.outcome, row.ops) for row in rows)
    reasons = tuple(
        f"{count.ops} final reads ended in {count.outcome}: these readers' final reads prove nothing"
        for count in counts
        if count.f == FINAL_POLL and count.outcome != "ok"
    )
    return Totals(
        counts,
        reasons,
        acknowledged=sum(c.ops for c in counts if c.f in ("send", "txn") and c.outcome == "ok"),
        records_sent=record.sent if record else 0,
        records_read=record.read if record else 0,
        t_first_ns=min(row.t_first for row in rows),
        t_last_ns=max(row.t_last for row in rows),
    )
