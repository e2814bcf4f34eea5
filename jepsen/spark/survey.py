"""One look over whole histories before they are checked: counts for the report, and how to check them.

A handful of rows per history comes home, and one row for each log that is too large for a single task.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from jepsen.history import FINAL_POLL
from jepsen.log.tiles import WHOLE_ROWS_MAX, LargeLog
from jepsen.result import Count
from jepsen.spark.frames import ASSIGNING, Frames, Traits, has_value, history_number, log_number

WHOLE_ROWS_LIMIT = WHOLE_ROWS_MAX
"""Logs with more rows are cut into tiles."""


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
    several: tuple[int, ...] = ()
    """Those of them to which some operation sent several records."""


def survey(frames: Frames) -> Survey:
    """Count everything. One Spark job that reads both tables once."""
    collected = _of_ops(frames).unionByName(_of_mops(frames), allowMissingColumns=True).collect()
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
        ),
        sum(row.rows for row in records.values()),
        tuple(
            LargeLog(
                row.history, row.log, row.rows, row.offset_low, row.offset_high, row.inv_low, row.inv_high
            )
            for row in large
        ),
        tuple(row.key for row in large),
        tuple(row.log for row in large if row.several),
    )


def _of_ops(frames: Frames) -> DataFrame:
    return frames.ops.groupBy("history_id", "f", "outcome").agg(
        F.count("*").alias("ops"),
        F.min("t_inv").alias("t_first"),
        F.max(F.greatest("t_inv", "t_ret")).alias("t_last"),
        F.min(history_number()).alias("history"),
    )


def _of_mops(frames: Frames) -> DataFrame:
    """A row for each history, and one for each large log."""
    sends = (F.col("f") == "send") & has_value()
    polls = (F.col("f") == "poll") & has_value()
    unknown = F.col("outcome") == "info" if "outcome" in frames.mops.columns else F.lit(True)
    known_inv = F.col("idx_inv") if "idx_inv" in frames.mops.columns else F.lit(None).cast("bigint")
    logs = frames.mops.groupBy("history_id", "key").agg(
        F.count("*").alias("rows"),
        F.count_if(sends).alias("sent"),
        F.count_if(polls).alias("read"),
        F.max(sends & unknown & (F.col("pos") > 0)).alias("unknown_several"),
        F.max(sends & (F.col("pos") > 0)).alias("several"),
        F.min("offset").alias("offset_low"),
        F.max("offset").alias("offset_high"),
        F.min(known_inv).alias("inv_low"),
        F.max(known_inv).alias("inv_high"),
    )
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
