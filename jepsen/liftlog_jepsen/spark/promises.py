"""The promises on Spark: DataFrame in, broken promises DataFrame out. See docs/promises.md.

One shuffle brings the rows of each shard together (a log, a group, or the input log of a transformation),
then `liftlog_jepsen.promises` judges whole shards in Python workers over Arrow columns. Logs that carry no
facts are left out before the shuffle. Nothing but the DataFrame API, so it runs on Spark Connect too; the
project travels along.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from liftlog_jepsen.history import FINAL_POLL
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.parquet import OP_COLUMNS
from liftlog_jepsen.promises import FUNCTIONS, INPUT_COLUMNS, judge
from liftlog_jepsen.promises.columns import (
    COMMIT,
    CONSUMER,
    DELIVER,
    EXPECTED,
    FAIL,
    FETCH_COMMIT,
    FINAL,
    FLOOR,
    HW,
    INFO,
    JOIN,
    NO_ROLE,
    OF_GROUPS,
    OF_LOGS,
    OF_SOURCES,
    OK,
    OUTPUT_DDL,
    OWN,
    POLL,
    PRODUCER,
    PULL,
    RECORD_KEY,
    REFUSED,
    REPLICA,
    REPLICA_OP,
    SEND,
    SETTLE,
    SOURCE,
    TOMBSTONE,
    TRUNCATE,
    UNKNOWN_DELIVERY,
)
from liftlog_jepsen.promises.kernel import SUMMARY_DDL, anomaly_order
from liftlog_jepsen.spark.frames import HistoryFrames, has_value
from liftlog_jepsen.spark.travel import kernel

LOG_FACTS = (
    *(HW, TRUNCATE, PRODUCER, RECORD_KEY, TOMBSTONE, EXPECTED, REFUSED),
    *(CONSUMER, PULL, DELIVER, SETTLE, UNKNOWN_DELIVERY, FLOOR),
)
GROUP_FACTS = (JOIN, OWN, COMMIT, FETCH_COMMIT)
SHARD = ("history_id", "part", "shard")
EXAMPLES_DEFAULT = 5


def check_promises(frames: HistoryFrames) -> DataFrame:
    """All broken promises, as rows (history_id, anomaly, key, ops, evidence). Lazy; in no order.

    `ops` are the ids of the operations involved; `evidence` is a struct, see
    `liftlog_jepsen.promises.columns.EVIDENCE`.
    """
    rows = promise_rows(frames).repartition(*SHARD)
    return rows.mapInArrow(kernel("liftlog_jepsen.promises.kernel", "check_batches", None), OUTPUT_DDL)


def judge_promises(frames: HistoryFrames, examples: int = EXAMPLES_DEFAULT) -> dict[str, Judgement]:
    """Every history's judgement, all of them in one Spark job; what is collected is bounded by `examples`."""
    histories = frames.ops.select("history_id").distinct()
    rows = promise_rows(frames).repartition(*SHARD)
    found = rows.mapInArrow(kernel("liftlog_jepsen.promises.kernel", "check_batches", examples), SUMMARY_DDL)
    kept: dict[str, list[dict[str, Any]]] = {}
    totals: dict[str, dict[str, int]] = defaultdict(dict)
    for row in found.unionByName(histories, allowMissingColumns=True).collect():
        some = kept.setdefault(row.history_id, [])
        if row.anomaly is not None:
            counted = totals[row.history_id]
            counted[row.anomaly] = counted.get(row.anomaly, 0) + row["count"]
            some.append(row.asDict(recursive=True))
    judgements = {}
    for history in sorted(kept):
        by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for one in kept[history]:
            by_name[one["anomaly"]].append(one)
        few = [one for rows_ in by_name.values() for one in sorted(rows_, key=anomaly_order)[:examples]]
        judgements[history] = judge(few, totals[history])
    return judgements


def promise_rows(frames: HistoryFrames) -> DataFrame:
    """The input of the promises, `INPUT_COLUMNS`: facts, and the records of those logs that have any."""
    mops = _with_operations(frames)
    is_fact = F.col("kind").isin(*LOG_FACTS)
    is_record = F.col("kind").isin(SEND, POLL)
    is_source, is_commit = F.col("kind") == SOURCE, F.col("kind") == COMMIT
    marks = (
        mops.where(is_fact | is_source)
        .groupBy("history_id", "key")
        .agg(F.max(is_fact).alias("has_facts"), F.max(is_source).alias("is_input"))
    )
    parts = F.array(
        F.when(is_fact | (is_record & F.col("has_facts")), OF_LOGS),
        F.when(F.col("kind").isin(*GROUP_FACTS), OF_GROUPS),
        F.when(is_source | ((is_record | is_commit) & F.col("is_input")), OF_SOURCES),
    )
    # Behind this filter the rows of logs without facts are gone.
    rows = mops.join(marks, ["history_id", "key"], "left").withColumn(
        "part", F.explode(F.array_compact(parts))
    )
    group = F.when(F.col("kind") == JOIN, F.col("key")).otherwise(
        F.coalesce(F.col("value_s"), F.col("value").cast("string"), F.lit(""))
    )
    shard = F.when(F.col("part") == OF_GROUPS, group).otherwise(F.col("key"))
    rows = _with_seen(_with_roles(rows.withColumn("shard", shard), frames), mops)
    return rows.select(*(F.col(name).cast(kind).alias(name) for name, kind in INPUT_COLUMNS))


def _with_operations(frames: HistoryFrames) -> DataFrame:
    """The micro-operations that the promises look at, with what they need of their operations."""
    kind = F.lit(None).cast("int")
    for code, name in enumerate(FUNCTIONS):
        kind = F.when(F.col("f") == name, code).otherwise(kind)
    mops = frames.mops.withColumn("kind", kind).where(F.col("kind").isNotNull()).drop("f")
    if not set(OP_COLUMNS) <= set(mops.columns):
        ops = frames.ops.withColumnRenamed("f", "op_f").select("history_id", "op_id", *OP_COLUMNS)
        mops = mops.drop(*OP_COLUMNS).join(ops, ["history_id", "op_id"])
    said = F.col("outcome")
    return mops.withColumn("outcome", F.when(said == "ok", OK).when(said == "fail", FAIL).otherwise(INFO))


def _with_roles(rows: DataFrame, frames: HistoryFrames) -> DataFrame:
    spoiled = (
        frames.ops.where((F.col("f") == FINAL_POLL) & (F.col("outcome") != "ok"))
        .select("history_id", "process", F.lit(True).alias("spoiled"))
        .distinct()
    )
    final = (F.col("op_f") == FINAL_POLL) & F.col("spoiled").isNull()
    role = F.when(final, FINAL).when(F.col("op_f") == REPLICA_OP, REPLICA).otherwise(NO_ROLE)
    return rows.join(spoiled, ["history_id", "process"], "left").withColumn("role", role)


def _with_seen(rows: DataFrame, mops: DataFrame) -> DataFrame:
    """Add `seen`: an info transaction with sources, one of whose values an ok poll read, in any log."""
    unsure = mops.where((F.col("kind") == SOURCE) & (F.col("outcome") == INFO))
    unsure = unsure.select("history_id", "op_id").distinct()
    sent = mops.where((F.col("kind") == SEND) & has_value()).join(
        unsure, ["history_id", "op_id"], "left_semi"
    )
    polled = mops.where((F.col("kind") == POLL) & (F.col("outcome") == OK) & has_value())
    value = ("history_id", "key", "value", "value_s")
    same = [F.col(f"s.{name}").eqNullSafe(F.col(f"p.{name}")) for name in value]
    # An inner join: Spark may send the few unsure ones around rather than shuffle all that was polled.
    read = sent.select(*value, "op_id").alias("s").join(polled.select(*value).alias("p"), same)
    seen = read.select("s.history_id", "s.op_id").distinct().withColumn("seen", F.lit(True))
    return rows.join(seen, ["history_id", "op_id"], "left")
