"""The log checks on Spark: DataFrame in, anomalies DataFrame out.

`liftlog_jepsen.log` defines the anomalies and checks rows of numbers in Python workers; what is here brings
each log's rows together. There are three ways, with the same kernels and the same result:

- One shuffle by log. (The same checks as Spark SQL take dozens of stages, whose planning and compilation
  cost more than the work: 18 to 50 CPU seconds for a history of 400 rows.)
- A folder that is sorted as its format promises is read by the workers themselves, without a shuffle.
- Logs too large for one task are cut into tiles, see `liftlog_jepsen.log.tiles`: two shuffles of packed
  columns.

Only numbers travel; texts are joined back to the few rows that are anomalies.
Works with any session, also a Spark Connect one: nothing but the DataFrame API, and the kernels travel by
value, so workers need numpy, pyarrow and pandas, but no copy of this project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import liftlog_jepsen.log
from liftlog_jepsen.log import Rules
from liftlog_jepsen.log.found import ANOMALIES, FACTS, FOUND_COLUMNS
from liftlog_jepsen.log.reading import Aside, Split, read_split
from liftlog_jepsen.log.sessions import SESSION_COLUMNS
from liftlog_jepsen.log.summary import SUMMARY_COLUMNS
from liftlog_jepsen.log.tiles import SENDS_ONLY, WHOLE_ROWS_MAX, Cut, LargeLog, cut
from liftlog_jepsen.log.whole import check_whole
from liftlog_jepsen.log.worker import (
    PARCEL_DDL,
    ROUTE_SESSIONS,
    check_rows,
    reported,
    route_block,
    route_rows,
    run_first,
    run_second,
)
from liftlog_jepsen.spark.frames import HistoryFrames, Traits, history_number, log_number, log_rows
from liftlog_jepsen.spark.splits import ItemKernel, Splits, over

if TYPE_CHECKING:
    import pyarrow as pa

FOUND_DDL = ", ".join(f"{name} bigint" for name in FOUND_COLUMNS)
SUMMARY_DDL = ", ".join(f"{'keys_' if name == 'keys' else name} bigint" for name in SUMMARY_COLUMNS)
TILE_ROWS = WHOLE_ROWS_MAX
"""Rows of one tile of a large log, about."""
Kernel = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def check_log(frames: HistoryFrames, rules: Rules | None = None, traits: Traits | None = None) -> DataFrame:
    """All anomalies of the log model, as rows (history_id, anomaly, key, ops, evidence). Lazy; in no order.

    `ops` are the ids of the operations involved; `evidence` is a struct, see
    `liftlog_jepsen.result.Evidence`. `traits` saves joins, see `liftlog_jepsen.spark.survey.survey`. The
    anomalies (not the history) are broadcast once to look up their texts.
    """
    rows = log_rows(frames, traits).repartition("log")
    found = _mapped(rows, _whole(rules or Rules(), None), FOUND_DDL)
    return with_texts(found, frames.mops)


def check_log_summary(
    frames: HistoryFrames,
    rules: Rules,
    examples: int,
    traits: Traits | None = None,
    large: Sequence[LargeLog] = (),
    splits: Splits | None = None,
) -> DataFrame:
    """Like `check_log`, but each task returns only counts and its first `examples` of every kind, as numbers.

    Columns: `liftlog_jepsen.log.summary.SUMMARY_COLUMNS`. Bounded: safe to collect. `large`: logs that are
    cut into tiles; `splits`: how to read the frames' folder directly. Of large logs to which operations send
    several values, the sends are left to `check_large_sends`.
    """
    if splits is not None:
        session = frames.mops.sparkSession
        check = _whole_split(rules, examples, splits.aside)
        parts = [over(session, splits.whole, check, SUMMARY_DDL)]
    else:
        rows = log_rows(frames, traits)
        small = rows.where(~F.col("log").isin([log.log for log in large])) if large else rows
        parts = [_mapped(small.repartition("log"), _whole(rules, examples), SUMMARY_DDL)]
    if large:
        plan = cut(large, rules, TILE_ROWS)
        if splits is not None:
            route = _route_split(plan, splits.aside)
            parcels = over(frames.mops.sparkSession, splits.large, route, PARCEL_DDL)
        else:
            parcels = _mapped(_large_rows(frames, traits, large), _route(plan), PARCEL_DDL)
        parts.append(_tiles(parcels, plan, examples))
    return reduce(DataFrame.unionAll, parts)


def check_large_sends(
    frames: HistoryFrames, rules: Rules, examples: int, traits: Traits | None, large: Sequence[LargeLog]
) -> DataFrame:
    """The anomalies of sends in order of their processes, of large logs. Columns as `check_log_summary`."""
    plan = cut(large, rules, TILE_ROWS, SENDS_ONLY)
    parcels = _mapped(_large_rows(frames, traits, large), _route(plan), PARCEL_DDL)
    placed = _mapped(_unsure_sends(frames, traits, large), _route(plan, ROUTE_SESSIONS), PARCEL_DDL)
    return _tiles(parcels.unionAll(placed), plan, examples)


def _large_rows(frames: HistoryFrames, traits: Traits | None, large: Sequence[LargeLog]) -> DataFrame:
    return log_rows(frames, traits).where(F.col("log").isin([log.log for log in large]))


def _unsure_sends(frames: HistoryFrames, traits: Traits | None, large: Sequence[LargeLog]) -> DataFrame:
    """Sends without an offset of their own that counts, with the offset at which polls saw their value."""
    rows = _large_rows(frames, traits, large).where(F.col("value_kind") != 0)
    sure = (F.col("outcome") == liftlog_jepsen.log.OK) | (F.col("seen") == 1)
    unsure = rows.where(
        (F.col("kind") == liftlog_jepsen.log.SEND) & ~(sure & F.col("offset").isNotNull())
    ).withColumnRenamed("offset", "own")
    polls = rows.where((F.col("kind") == liftlog_jepsen.log.POLL) & F.col("offset").isNotNull()).select(
        "log", "value_kind", "value", F.col("offset").alias("seen_at"), (F.col("outcome") == 0).alias("by_ok")
    )
    own = [name for name in SESSION_COLUMNS if name not in ("offset", "carried")]
    placed = (
        polls.join(F.broadcast(unsure), ["log", "value_kind", "value"])
        .groupBy(*own, "own")
        .agg(F.max("seen_at").alias("seen_at"), F.max("by_ok").alias("read"))
    )
    told = (F.col("outcome") == liftlog_jepsen.log.INFO) & F.col("read") & F.col("own").isNotNull()
    offset = F.when(told, F.col("own")).otherwise(F.col("seen_at"))
    return placed.withColumns({"offset": offset, "carried": F.lit(0).cast("bigint")}).select(*SESSION_COLUMNS)


def _tiles(parcels: DataFrame, plan: Cut, examples: int) -> DataFrame:
    """Both rounds."""
    first = _mapped(_by_tile(parcels, plan.first_tiles), _first(plan), PARCEL_DDL)
    return _mapped(_by_tile(first, plan.second_tiles), _second(plan, examples), SUMMARY_DDL)


def _by_tile(parcels: DataFrame, tiles: int) -> DataFrame:
    """Each tile's parcels in one partition, which has no other tile if Spark is new enough to be told so."""
    direct = getattr(parcels, "repartitionById", None)
    return direct(tiles, "tile") if direct else parcels.repartition(tiles, "tile")


# -- kernels, which travel -----------------------------------------------------------------------------------


def _mapped(rows: DataFrame, kernel: Kernel, ddl: str) -> DataFrame:
    cloudpickle.register_pickle_by_value(liftlog_jepsen.log)  # type: ignore[no-untyped-call]
    return rows.mapInArrow(kernel, ddl)


SplitKernel = ItemKernel[Split]


def _whole(rules: Rules, examples: int | None) -> Kernel:
    return lambda batches: check_rows(batches, rules, examples)


def _whole_split(rules: Rules, examples: int, aside: Aside) -> SplitKernel:
    return lambda split: reported(check_whole(read_split(split, aside), rules), examples)


def _route(plan: Cut, how: str = "route") -> Kernel:
    return lambda batches: route_rows(batches, plan, how)


def _route_split(plan: Cut, aside: Aside) -> SplitKernel:
    return lambda split: route_block(read_split(split, aside), plan)


def _first(plan: Cut) -> Kernel:
    return lambda batches: run_first(batches, plan)


def _second(plan: Cut, examples: int) -> Kernel:
    return lambda batches: run_second(batches, plan, examples)


# -- texts ---------------------------------------------------------------------------------------------------


def with_texts(found: DataFrame, mops: DataFrame) -> DataFrame:
    """Anomalies as numbers (`FOUND_COLUMNS`) joined with the names and values that they refer to."""

    def reference(kind: str, op: str, pos: Column) -> Column:
        return F.struct(F.lit(kind).alias("kind"), F.col(op).alias("op"), pos.alias("pos"))

    anywhere = F.lit(None).cast("bigint")
    references = F.array(
        reference("key", "op_1", anywhere),
        reference("value", "value_op", F.col("value_pos")),
        reference("other", "other_op", F.col("other_pos")),
    )
    wanted = found.withColumn("ref", F.explode(references)).where(F.col("ref.op").isNotNull())
    texts = mops.select(
        "history_id",
        "key",
        history_number().alias("mop_history"),
        log_number().alias("mop_log"),
        F.col("op_id").alias("mop_op"),
        F.col("pos").cast("bigint").alias("mop_pos"),
        value_text().alias("text"),
    )
    same = (
        (F.col("mop_op") == F.col("ref.op"))
        & (F.col("mop_log") == F.col("log"))
        & (F.col("mop_history") == F.col("history"))
        & (F.col("ref.pos").isNull() | (F.col("ref.pos") == F.col("mop_pos")))
    )
    joined = texts.join(F.broadcast(wanted), same)
    kind = F.col("ref.kind")
    named = joined.groupBy(*FOUND_COLUMNS).agg(
        F.min("history_id").alias("history_id"),
        F.min("key").alias("key"),
        F.min(F.when(kind == "value", F.col("text"))).alias("value_text"),
        F.min(F.when(kind == "other", F.col("text"))).alias("other_text"),
    )
    names = F.array(*(F.lit(name) for name in ANOMALIES))
    evidence = F.struct(
        F.col("value_text").alias("value"),
        F.col("other_text").alias("other_value"),
        *(F.col(name) for name in FACTS),
    )
    return named.select(
        "history_id",
        F.element_at(names, (F.col("anomaly") + 1).cast("int")).alias("anomaly"),
        "key",
        F.array_compact(F.array("op_1", "op_2")).alias("ops"),
        evidence.alias("evidence"),
    )


def value_text() -> Column:
    """A value as text, one to one, as `liftlog_jepsen.log.table.as_text` has it."""
    quoted = F.concat(F.lit('"'), F.col("value_s"), F.lit('"'))
    ambiguous = F.col("value_s").rlike('^["\\-0-9]')
    return F.coalesce(F.when(ambiguous, quoted), F.col("value_s"), F.col("value").cast("string"))
