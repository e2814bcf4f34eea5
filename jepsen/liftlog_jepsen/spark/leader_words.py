"""How many sends had their leader's word alone (R4, policy `leader`), and how many of those nobody read.

Such a send is `info`: it may be lost with its leader, and that is no anomaly. It is a figure all the same.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from liftlog_jepsen.history import BY_LEADER
from liftlog_jepsen.spark.frames import HistoryFrames, whole_mops


def leader_words(frames: HistoryFrames) -> dict[str, tuple[int, int]]:
    """By history: values sent with the leader's word alone, and those of them that no `ok` poll read."""
    alone = frames.ops.where((F.col("f") == "send") & (F.col("error") == BY_LEADER))
    ids = alone.select("history_id", "op_id")
    if not ids.take(1):
        return {}
    mops = whole_mops(frames)
    place = ("history_id", "key", "told")
    sent = mops.where(F.col("f") == "send").join(ids, ["history_id", "op_id"]).withColumn("told", _value())
    read = mops.where((F.col("f") == "poll") & (F.col("outcome") == "ok")).withColumn("told", _value())
    seen = read.select(*place).distinct().withColumn("seen", F.lit(1))
    rows = (
        sent.select(*place)
        .join(seen, list(place), "left")
        .groupBy("history_id")
        .agg(F.count("*").alias("sent"), F.count("seen").alias("read"))
        .collect()
    )
    return {row["history_id"]: (row["sent"], row["sent"] - row["read"]) for row in rows}


def _value() -> Column:
    """A value, integer or text, as one text."""
    return F.coalesce(F.concat(F.lit("i"), F.col("value").cast("string")), F.concat(F.lit("s"), "value_s"))
