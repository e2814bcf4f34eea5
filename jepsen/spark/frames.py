"""Histories as DataFrames, and the joined rows that the checks work on: see docs/history-format.md for the
tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from jepsen.history import FINAL_POLL
from jepsen.log_kernel import ASSIGN, FAIL, INFO, INPUT_COLUMNS, OK, POLL, SEND

LOG = ("history_id", "key")
ASSIGNING = ("assign", "subscribe")


class Frames(NamedTuple):
    """The tables of one or many histories."""

    ops: DataFrame
    mops: DataFrame
    faults: DataFrame


def read_frames(spark: SparkSession, folder: Path) -> Frames:
    """The tables of a Parquet folder. `jepsen.parquet.read_info` validates it first."""
    tables = [spark.read.parquet(str(folder / f"{name}.parquet")) for name in ("ops", "mops", "faults")]
    return Frames(*tables)


def has_value() -> Column:
    """A micro-operation without value polled nothing, or sent what cannot be found again."""
    return F.col("value").isNotNull() | F.col("value_s").isNotNull()


def log_rows(frames: Frames, transactions: bool) -> DataFrame:
    """The input of the log checks, `jepsen.log_kernel.INPUT_COLUMNS`: micro-operations joined with
    operations.
    """
    by_process = Window.partitionBy("history_id", "process")
    f, outcome = F.col("f"), F.col("outcome")
    is_final = f == FINAL_POLL
    assigning = f.isin(*ASSIGNING) & outcome.isin("ok", "info")
    unsent = frames.ops.where(f != "send").withColumns(
        {
            "assignments": F.sum(assigning.cast("bigint")).over(by_process.orderBy("idx_inv")),
            "final": is_final & F.min(F.when(is_final, outcome == "ok")).over(by_process),
        }
    )
    sent = frames.ops.where(f == "send").withColumns(
        {"assignments": F.lit(0).cast("bigint"), "final": F.lit(False)}
    )
    ops = sent.unionByName(unsent).select(
        "history_id", "op_id", "process", "idx_inv", "idx_ret", "assignments", "final",
        F.when(outcome == "ok", OK).when(outcome == "fail", FAIL).otherwise(INFO).alias("outcome"),
    )  # fmt: skip
    kind = F.when(f == "send", SEND).when(f == "poll", POLL).when(f.isin(*ASSIGNING), ASSIGN)
    mops = frames.mops.withColumn("kind", kind).where(F.col("kind").isNotNull()).drop("f")
    rows = mops.join(ops, ["history_id", "op_id"])
    rows = _with_seen(rows) if transactions else rows.withColumn("seen", F.lit(False))
    return rows.select(*(F.col(name).cast(kind).alias(name) for name, kind in INPUT_COLUMNS))


def _with_seen(rows: DataFrame) -> DataFrame:
    """Add `seen`: an info operation of which an ok poll read some value, in whatever log.

    This is the one thing that crosses logs, and it matters only for info operations with several values:
    of a single value, its own log's rows say it all.
    """
    value = [*LOG, "value", "value_s"]
    telling = rows.where((F.col("kind") == SEND) & (F.col("outcome") == INFO) & has_value())
    polled = rows.where((F.col("kind") == POLL) & (F.col("outcome") == OK) & has_value())
    sent_side, poll_side = (
        telling.select(*value, "op_id").alias("s"),
        polled.select(*value).distinct().alias("p"),
    )
    same = [F.col(f"s.{name}").eqNullSafe(F.col(f"p.{name}")) for name in value]
    seen = sent_side.join(poll_side, same, "left_semi").select("history_id", "op_id").distinct()
    joined = rows.join(seen.withColumn("seen", F.lit(True)), ["history_id", "op_id"], "left")
    return joined.withColumn("seen", F.coalesce("seen", F.lit(False)))
