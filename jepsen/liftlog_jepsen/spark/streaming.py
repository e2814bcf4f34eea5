"""Judging histories while they are written: a streaming query that folds batch after batch into small states.

    query = watch(spark, "store/run", "state")
    ...
    so_far(spark, "state")            # {(history, anomaly): how many}
    found(spark, "state")             # DataFrame: history_id, anomaly, key, ops, evidence

Each batch is one job: the records that have come and the states of the logs, brought together by log, go
through `liftlog_jepsen.online.fold`, and the new states and the anomalies go to `state/<batch>`. A batch that
is repeated after a crash writes the same again, so the query may be stopped and started with the same folder.

While a history grows, these are decided: `liftlog_jepsen.online.DECIDED`. What an online verdict says is that
these were found so far, or not; the verdict is that of the check of the whole history when it has ended.
docs/watching.md has the late bound.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from liftlog_jepsen.online.files import ASSIGN
from liftlog_jepsen.online.fold import COLUMNS, FOUND
from liftlog_jepsen.online.state import ASSIGNMENTS_MAX
from liftlog_jepsen.spark import tail
from liftlog_jepsen.spark.travel import kernel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LATE_DEFAULT = 100_000
"""Records of one log after which what was not touched is forgotten."""
STATE, ASSIGNED, ANOMALIES, CHECKPOINT = "state", "assigned", "found", "checkpoint"


def watch(
    spark: SparkSession,
    folder: Path | str,
    state: Path | str,
    *,
    late: int = LATE_DEFAULT,
    gaps: str = "known",
    every_s: float = 1.0,
    available_now: bool = False,
) -> StreamingQuery:
    """Follow the histories below `folder`; `state` is a folder of this query alone.

    `available_now` reads what is there in one go, then stops. Otherwise a batch begins every `every_s`
    seconds if something has come.
    """
    tail.register(spark)
    place = str(state)
    records = spark.readStream.format(tail.FORMAT).load(str(folder))
    writer = records.writeStream.foreachBatch(
        lambda batch, number: fold_batch(batch, number, place, late, gaps)
    ).option("checkpointLocation", f"{place}/{CHECKPOINT}")
    if available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_s} seconds").start()


def fold_batch(batch: DataFrame, number: int, state: str, late: int, gaps: str) -> None:
    """One batch: state `number - 1` and the new records become state `number`."""
    spark = batch.sparkSession
    batch = batch.persist()
    try:
        assignments = _assignments(batch, number, state)
        rows = batch.where(F.col("what") != ASSIGN)
        before = Path(state, STATE, str(number - 1))
        if before.exists():
            rows = rows.unionByName(
                spark.read.schema(COLUMNS).parquet(str(before)).where(F.col("what") != FOUND)
            )
        folded = rows.repartition("history_id", "key").mapInArrow(
            kernel("liftlog_jepsen.online.fold", "fold_batches", late, gaps, assignments), COLUMNS
        )
        after = str(Path(state, STATE, str(number)))
        folded.write.mode("overwrite").parquet(after)
    finally:
        batch.unpersist()
    anomalies = spark.read.schema(COLUMNS).parquet(after).where(F.col("what") == FOUND)
    anomalies.coalesce(1).write.mode("overwrite").parquet(str(Path(state, ANOMALIES, f"batch={number}")))
    shutil.rmtree(Path(state, STATE, str(number - 2)), ignore_errors=True)


Assignments = dict[str, dict[int, list[tuple[int, list[str]]]]]


def _assignments(batch: DataFrame, number: int, state: str) -> Assignments:
    """Who was assigned what, by history and process, the latest few: a small file beside the state."""
    before = Path(state, ASSIGNED, f"{number - 1}.json")
    known: Assignments = defaultdict(lambda: defaultdict(list))
    if before.exists():
        for history, process, told in json.loads(before.read_text()):
            known[history][process] = [(position, keys) for position, keys in told]
    latest = batch.where(F.col("what") == ASSIGN).select("history_id", "text", "numbers").collect()
    for row in sorted(latest, key=lambda row: (row.history_id, row.numbers[1])):
        process, position = row.numbers
        known[row.history_id][process].append((position, json.loads(row.text)))
    plain = {
        history: {process: told[-ASSIGNMENTS_MAX:] for process, told in sorted(by_process.items())}
        for history, by_process in sorted(known.items())
    }
    after = Path(state, ASSIGNED, f"{number}.json")
    after.parent.mkdir(parents=True, exist_ok=True)
    listed = [[h, process, told] for h, by_process in plain.items() for process, told in by_process.items()]
    after.write_text(json.dumps(listed))
    Path(state, ASSIGNED, f"{number - 2}.json").unlink(missing_ok=True)
    return plain


def found(spark: SparkSession, state: Path | str) -> DataFrame | None:
    """All anomalies so far: history_id, anomaly, key, ops, value, offset, other_offset, process, batch.

    None before the first batch.
    """
    folder = Path(state, ANOMALIES)
    if not folder.exists():
        return None
    rows = spark.read.option("basePath", str(folder)).schema(f"{COLUMNS}, batch bigint").parquet(str(folder))
    number = F.col("numbers")
    return rows.select(
        "history_id",
        F.col("name").alias("anomaly"),
        "key",
        F.array_compact(F.array(number[0], number[1])).alias("ops"),
        F.col("text").alias("value"),
        number[2].alias("offset"),
        number[3].alias("other_offset"),
        number[4].alias("process"),
        "batch",
    )


def so_far(spark: SparkSession, state: Path | str) -> dict[str, dict[str, int]]:
    """How many anomalies of each kind have been found, by history; bounded."""
    rows = found(spark, state)
    counted: dict[str, dict[str, int]] = {}
    if rows is not None:
        for row in rows.groupBy("history_id", "anomaly").count().orderBy("history_id", "anomaly").collect():
            counted.setdefault(row.history_id, {})[row.anomaly] = row["count"]
    return counted


def progress(query: StreamingQuery) -> tuple[int, int]:
    """Batches that have been judged, and records in the last one."""
    last: Any = query.lastProgress
    return (0, 0) if last is None else (int(last["batchId"]) + 1, int(last["numInputRows"]))
