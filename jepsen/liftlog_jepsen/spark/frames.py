"""Histories as DataFrames, and the rows of numbers that the log checks work on: see docs/history-format.md
for the tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from liftlog_jepsen.history import FINAL_POLL
from liftlog_jepsen.log import ASSIGN, FAIL, INFO, OK, POLL, REBALANCE, SEND
from liftlog_jepsen.log.columns import INTEGER, NO_VALUE, ROW_COLUMNS, STRING
from liftlog_jepsen.parquet import OP_COLUMNS

LOG = ("history_id", "key")
ASSIGNING = ("assign", "subscribe")


class HistoryFrames(NamedTuple):
    """The tables of one or many histories. `mops` may lack the columns that repeat the operation's."""

    ops: DataFrame
    mops: DataFrame
    faults: DataFrame
    folder: str | None = None
    """Where the tables lie, if that is a folder that this process and all workers can read. They then read it
    themselves: whoever changes a table (`_replace(mops=…)`) sets this to None.
    """


class Traits(NamedTuple):
    """What the rows of numbers depend on; whatever is absent need not be computed."""

    transactions: bool = True
    """Some operation of unknown outcome sends several values."""
    assigns: bool = True
    finals: bool = True
    failed_finals: bool = True
    """Some final read did not succeed."""
    asides: int = 0
    """Assigns, subscribes and failed final reads."""


def read_frames(spark: SparkSession, folder: Path) -> HistoryFrames:
    """The tables of a Parquet folder. `liftlog_jepsen.parquet.read_info` validates it first."""
    ops, mops, faults = (
        spark.read.parquet(str(folder / f"{name}.parquet")) for name in ("ops", "mops", "faults")
    )
    return HistoryFrames(ops, mops, faults, str(folder))


def has_value() -> Column:
    """A micro-operation without value polled nothing, or sent what cannot be found again."""
    return F.col("value").isNotNull() | F.col("value_s").isNotNull()


def whole_mops(frames: HistoryFrames) -> DataFrame:
    """The micro-operations with their operation's columns; an older history needs a join for that."""
    if set(OP_COLUMNS) <= set(frames.mops.columns):
        return frames.mops
    ops = frames.ops.withColumnRenamed("f", "op_f").select("history_id", "op_id", *OP_COLUMNS)
    return frames.mops.join(ops, ["history_id", "op_id"])


def history_number() -> Column:
    return F.xxhash64("history_id")


def log_number() -> Column:
    return F.xxhash64(*LOG)


def log_rows(frames: HistoryFrames, traits: Traits | None = None) -> DataFrame:
    """The input of the log checks: `liftlog_jepsen.log.columns.ROW_COLUMNS`, all bigint, null where nothing
    is known.
    """
    known = traits or Traits()
    f, outcome = F.col("f"), F.col("outcome")
    kind = (
        F.when(f == "send", SEND)
        .when(f == "poll", POLL)
        .when(f.isin(*ASSIGNING), ASSIGN)
        .when(f == "rebalance", REBALANCE)
    )
    rows = whole_mops(frames).where(f.isin("send", "poll", "rebalance", *ASSIGNING))
    rows = _with_seen(rows) if known.transactions else rows.withColumn("seen", F.lit(0))
    rows = _with_sessions(rows, frames.ops) if known.assigns else rows.withColumn("session", F.lit(0))
    rows = _with_finals(rows, frames.ops, known)
    nobody = F.lit(None) if "leader" not in rows.columns else F.col("leader")
    columns = {
        "leader": nobody,
        "history": history_number(),
        "log": log_number(),
        "kind": kind,
        "op": F.col("op_id"),
        "value_kind": F.when(F.col("value_s").isNotNull(), STRING)
        .when(F.col("value").isNotNull(), INTEGER)
        .otherwise(NO_VALUE),
        "value": F.coalesce("value", F.when(F.col("value_s").isNotNull(), F.xxhash64("value_s"))),
        "outcome": F.when(outcome == "ok", OK).when(outcome == "fail", FAIL).otherwise(INFO),
        "inv": F.col("idx_inv"),
        "ret": F.col("idx_ret"),
    }
    return rows.select(*(columns.get(name, F.col(name)).cast("bigint").alias(name) for name in ROW_COLUMNS))


def _with_seen(rows: DataFrame) -> DataFrame:
    """Add `seen`: an info operation of which an ok poll read some value, in whatever log.

    This is the one thing that crosses logs, and it matters only for info operations with several values:
    of a single value, its own log's rows say it all.
    """
    value = [*LOG, "value", "value_s"]
    telling = rows.where((F.col("f") == "send") & (F.col("outcome") == "info") & has_value())
    polled = rows.where((F.col("f") == "poll") & (F.col("outcome") == "ok") & has_value())
    sent_side, poll_side = (
        telling.select(*value, "op_id").alias("s"),
        polled.select(*value).distinct().alias("p"),
    )
    same = [F.col(f"s.{name}").eqNullSafe(F.col(f"p.{name}")) for name in value]
    seen = sent_side.join(poll_side, same, "left_semi").select("history_id", "op_id").distinct()
    joined = rows.join(seen.withColumn("seen", F.lit(1)), ["history_id", "op_id"], "left")
    return joined.withColumn("seen", F.coalesce("seen", F.lit(0)))


def _with_sessions(rows: DataFrame, ops: DataFrame) -> DataFrame:
    """Add `session`: assigns and subscribes of the operation's process up to and with this operation."""
    by_process = Window.partitionBy("history_id", "process").orderBy("idx_inv")
    assigning = F.col("f").isin(*ASSIGNING) & F.col("outcome").isin("ok", "info")
    sessions = ops.select(
        "history_id", "op_id", F.sum(assigning.cast("bigint")).over(by_process).alias("session")
    )
    return rows.join(sessions, ["history_id", "op_id"])


def _with_finals(rows: DataFrame, ops: DataFrame, known: Traits) -> DataFrame:
    """Add `final`: part of a process's final reads, none of which failed."""
    if not known.finals:
        return rows.withColumn("final", F.lit(0))
    rows = rows.withColumn("final", (F.col("op_f") == FINAL_POLL).cast("bigint"))
    if not known.failed_finals:
        return rows
    spoiled = (
        ops.where((F.col("f") == FINAL_POLL) & (F.col("outcome") != "ok"))
        .select("history_id", "process", F.lit(1).alias("spoiled"))
        .distinct()
    )
    joined = rows.join(spoiled, ["history_id", "process"], "left")
    return joined.withColumn("final", F.when(F.col("spoiled").isNull(), F.col("final")).otherwise(0))
