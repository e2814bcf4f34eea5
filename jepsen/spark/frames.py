"""Histories as DataFrames, and the joined rows that the checks work on.

`Frames` holds the three tables of docs/history-format.md. A value is an integer or a string there; checks
need one column that can be grouped by, so `value_text` maps both to text, one to one: an integer to its
digits, a string to itself, except that a string which begins like an integer or with a quote gets quotes
around it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from jepsen.history import FINAL_POLL

MASKED_READERS = 62
"""Final readers are numbered from 0; those below this number are one bit each of a 64-bit mask."""
ASSIGNING = ("assign", "subscribe")


class Frames(NamedTuple):
    """The tables of one or many histories."""

    ops: DataFrame
    mops: DataFrame
    faults: DataFrame


def read_frames(spark: SparkSession, folder: Path) -> Frames:
    """The tables of a Parquet folder. `jepsen.parquet.read_info` validates it first."""
    return Frames(
        *(spark.read.parquet(str(folder / f"{name}.parquet")) for name in ("ops", "mops", "faults"))
    )


def value_text() -> Column:
    string = F.col("value_s")
    ambiguous = F.substring(string, 1, 1).isin(*'"-0123456789')
    quoted = F.when(ambiguous, F.concat(F.lit('"'), string, F.lit('"'))).otherwise(string)
    return F.coalesce(quoted, F.col("value").cast("string"))


def has_value() -> Column:
    return F.col("value").isNotNull() | F.col("value_s").isNotNull()


def sends(frames: Frames) -> DataFrame:
    """One row per sent value: where it was acknowledged, by which operation, with which outcome.

    A send without a value cannot be found again, so it has no row.
    """
    ops = frames.ops.select("history_id", "op_id", "process", "outcome", "idx_inv", "idx_ret")
    mops = frames.mops.where((F.col("f") == "send") & has_value()).select(
        "history_id", "op_id", "pos", "key", "offset", value_text().alias("value")
    )
    return mops.join(ops, ["history_id", "op_id"])


def reads(frames: Frames) -> DataFrame:
    """One row per polled record and per assigned key, with what its operation says.

    `assignments`: how many assign and subscribe operations its process had invoked up to this one, itself
    included. `final_reader`: number of the process among those with a final read of this history, null if
    this is not part of one. A poll that found nothing has one row where `found` is false.
    """
    by_process = Window.partitionBy("history_id", "process").orderBy("idx_inv")
    assigning = F.col("f").isin(*ASSIGNING) & F.col("outcome").isin("ok", "info")
    ops = frames.ops.where(F.col("f") != "send").select(
        "history_id",
        "op_id",
        "process",
        "outcome",
        "idx_inv",
        "idx_ret",
        F.col("f").alias("op_f"),
        F.sum(F.when(assigning, 1).otherwise(0)).over(by_process).alias("assignments"),
    )
    readers = final_readers(frames)
    joined = ops.join(F.broadcast(readers), ["history_id", "process"], "left").withColumn(
        "final_reader", F.when(F.col("op_f") == FINAL_POLL, F.col("final_reader"))
    )
    mops = frames.mops.where(F.col("f").isin("poll", *ASSIGNING)).select(
        "history_id",
        "op_id",
        "pos",
        "f",
        "key",
        "offset",
        value_text().alias("value"),
        has_value().alias("found"),
    )
    return mops.join(joined, ["history_id", "op_id"])


def further_final_values(frames: Frames) -> DataFrame:
    """What the final readers that have no bit in the mask read: history_id, key, value, process.

    The few operations are broadcast, so that without such readers the polls are not even scanned.
    """
    further = final_readers(frames).where(F.col("final_reader") >= MASKED_READERS)
    ops = frames.ops.where(F.col("f") == FINAL_POLL).join(F.broadcast(further), ["history_id", "process"])
    mops = frames.mops.where((F.col("f") == "poll") & has_value()).select(
        "history_id", "op_id", "key", value_text().alias("value")
    )
    small = ops.select("history_id", "op_id", "process")
    return mops.join(F.broadcast(small), ["history_id", "op_id"]).drop("op_id").distinct()


def final_readers(frames: Frames) -> DataFrame:
    """The processes whose final reads all succeeded, numbered from 0 within each history.

    A process with a final read that failed or is unknown did not read everything and is left out; the
    verdict says so.
    """
    final = frames.ops.where(F.col("f") == FINAL_POLL).groupBy("history_id", "process")
    succeeded = final.agg(F.min(F.col("outcome") == "ok").alias("succeeded")).where("succeeded")
    number = F.row_number().over(Window.partitionBy("history_id").orderBy("process")) - 1
    return succeeded.select("history_id", "process", number.alias("final_reader"))
