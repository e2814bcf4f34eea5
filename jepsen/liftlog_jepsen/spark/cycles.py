"""Cycles over logs on Spark: DataFrame in, anomalies DataFrame out, at any size (docs/cycles.md).

*How.* The rows of all micro-operations are brought together by log and value, once; what comes out is only
the intervals that back edges span, merged to disjoint pieces of the history (`liftlog_jepsen.graph.intervals`
says why every cycle lies within one). Then the rows are read a second time, and only those in a piece go on:
they meet by piece, and `liftlog_jepsen.graph.search` finds the smallest cycle of each kind among them. A
valid history of plain sends and polls has no piece at all.

Lazy, and nothing is collected: the pieces reach the second reading by a join. Works with any session, also a
Spark Connect one.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from liftlog_jepsen.graph.explain import CYCLE_DDL
from liftlog_jepsen.graph.kernels import (
    EDGE,
    LATE,
    MARK,
    NO_EDGE,
    OK,
    PIECE_ROW,
    POLL,
    PROCESS_SHIFT,
    ROW,
    ROWS_MAX,
    STEP_DDL,
)
from liftlog_jepsen.graph.order import OPEN
from liftlog_jepsen.graph.versions import LINKED, PLACED, RANGE_BITS
from liftlog_jepsen.history import FINAL_POLL
from liftlog_jepsen.log import OUTPUT_DDL
from liftlog_jepsen.parquet import OP_COLUMNS
from liftlog_jepsen.spark.frames import HistoryFrames, has_value
from liftlog_jepsen.spark.travel import kernel
from liftlog_jepsen.transactions.classify import G0, G1C, SUFFIXES

CYCLES_DDL = f"{OUTPUT_DDL}, {CYCLE_DDL}"
"""The columns of all anomalies, and the cycle in words and step by step."""
LOG_CYCLES = tuple(base + suffix for suffix in SUFFIXES for base in (G0, G1C))
"""What can be found in a log: there are no rw edges, as in jepsen.tests.kafka."""
ALWAYS_ALLOWED = frozenset(G0 + suffix for suffix in SUFFIXES)
"""Writes of transactions are never isolated in a log, so jepsen.tests.kafka lets these pass."""
ALLOWED_WITH_WW = ALWAYS_ALLOWED | frozenset(G1C + suffix for suffix in SUFFIXES)
"""The same if the order of offsets counts: then `t1 ww t2 wr t1` is normal."""

_KERNELS, _VERSIONS = "liftlog_jepsen.graph.kernels", "liftlog_jepsen.graph.versions"
_BUCKET_BITS = 8
"""Pieces meet rows by buckets of this many positions, as Spark joins by equality."""

_APART = 1 << 33
"""Positions between histories: more than within any, so that pieces of two are the last to be joined."""


class CycleOptions(NamedTuple):
    """What to search for."""

    ww_deps: bool = False
    """Whether neighbours in the order of offsets depend on each other (Jepsen's `:ww-deps`)."""
    kinds: tuple[str, ...] = LOG_CYCLES
    """Kinds of cycles, as in `liftlog_jepsen.transactions.classify.CYCLES`."""
    rows_max: int = ROWS_MAX
    """Rows of one dense piece that a task takes on; with more, `cycle-search-limit` is reported instead."""

    @property
    def allowed(self) -> frozenset[str]:
        """Cycles that jepsen.tests.kafka reports without calling the history invalid."""
        return ALLOWED_WITH_WW if self.ww_deps else ALWAYS_ALLOWED


def check_cycles(frames: HistoryFrames, options: CycleOptions | None = None) -> DataFrame:
    """The smallest cycle of each kind in every strong component, as rows (`CYCLES_DDL`). Lazy; in no order.

    `ops` are the ids of the operations along the cycle, `evidence` is about the first of them. A row
    `cycle-search-limit` says that a part of the history was not searched to the end: the verdict on cycles
    is then at best unknown.
    """
    chosen = options or CycleOptions()
    named = on_one_line(with_operations(frames), frames.ops)
    rows = _rows(named, ww_deps=chosen.ww_deps)
    together = (rows if chosen.ww_deps else rows.select(*ROW)).repartition("log", "value")
    marks = together.mapInArrow(kernel(_KERNELS, "marks"), _bigints(MARK))
    if not chosen.ww_deps:
        pieces, reused = gathered(marks)
        return told(named, searched(_plain(rows, pieces, reused), chosen))
    versions = _version_edges(together)
    pieces, reused = gathered(marks.unionByName(edge_marks(versions)))
    material = _plain(rows, pieces, reused).unionByName(within(versions, pieces))
    return told(named, searched(material, chosen))


def edge_marks(edges: DataFrame) -> DataFrame:
    """What edges (`liftlog_jepsen.graph.kernels.EDGE`) say about the whole: the intervals of those going
    back."""
    return edges.select(*EDGE).mapInArrow(kernel(_KERNELS, "edge_marks"), _bigints(MARK))


def with_operations(frames: HistoryFrames) -> DataFrame:
    """The micro-operations with the columns of their operations; older folders need a join for it."""
    if all(name in frames.mops.columns for name in OP_COLUMNS):
        return frames.mops
    ops = frames.ops.withColumnRenamed("f", "op_f").select("history_id", "op_id", *OP_COLUMNS)
    return frames.mops.join(ops, ["history_id", "op_id"])


def on_one_line(rows: DataFrame, ops: DataFrame, history: str = "history_id") -> DataFrame:
    """Add `base`, so that positions plus base of all histories lie one behind the other, far apart. `history`
    is the column with their names.
    """
    size = F.max(F.greatest("idx_inv", "idx_ret")) + _APART
    before = Window.orderBy(history).rowsBetween(Window.unboundedPreceding, -1)
    bases = (
        ops.groupBy(history)
        .agg(size.alias("size"))
        .select(history, F.coalesce(F.sum("size").over(before), F.lit(0)).alias("base"))
    )
    return rows.join(F.broadcast(bases), history)


def _rows(named: DataFrame, *, ww_deps: bool) -> DataFrame:
    """The rows of `liftlog_jepsen.graph.kernels`, and `offset`; only those that may lie on a cycle.

    An operation that only polls stands at its completion; one that only sends has nothing before it but
    time, so it stands at its invocation. Nothing follows an operation that only polls and did not end well,
    so it is left out. Neither holds if the order of offsets counts.
    """
    ok = (F.col("outcome") == "ok") & F.col("idx_ret").isNotNull()
    poll, only_polls = F.col("f") == "poll", F.col("op_f").isin("poll", FINAL_POLL)
    late = ok if ww_deps else ok & (F.col("op_f") != "send")
    useful = F.lit(True) if ww_deps else ok | ~only_polls
    flags = sum(
        (F.when(flag, bit).otherwise(0) for flag, bit in ((poll, POLL), (ok, OK), (late, LATE))), F.lit(0)
    )
    return named.where(F.col("f").isin("send", "poll") & has_value() & useful).select(
        F.xxhash64("history_id", "key").alias("log"),
        F.coalesce("value", F.xxhash64("value_s")).alias("value"),
        (F.col("idx_inv") + F.col("base")).alias("at"),
        F.coalesce(F.when(ok, F.col("idx_ret") + F.col("base")), F.lit(OPEN)).alias("ret"),
        F.shiftleft("process", PROCESS_SHIFT).bitwiseOR(flags).alias("who"),
        F.col("offset"),
    )


def _version_edges(together: DataFrame) -> DataFrame:
    """ww edges: by value, where each lies and who sent it; then by offset, neighbours; then over the borders
    of the ranges of offsets that tasks have.
    """
    placed = together.mapInArrow(kernel(_VERSIONS, "placed"), _bigints(PLACED)).withColumn(
        "range", F.shiftright("offset", RANGE_BITS)
    )
    linked = (
        placed.repartition("log", "range")
        .select(*PLACED)
        .mapInArrow(kernel(_VERSIONS, "neighbours"), _bigints(LINKED))
    )
    borders = linked.repartition("log").mapInArrow(kernel(_VERSIONS, "borders"), _bigints(LINKED))
    return linked.unionByName(borders).where(F.col("kind") >= 0).select(*EDGE)


def gathered(marks: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The pieces of the history (piece, start, end), and the values that several operations sent."""
    one = marks.repartition(1)
    pieces = one.mapInArrow(kernel(_KERNELS, "pieces"), "piece bigint, start bigint, end bigint")
    return pieces, one.mapInArrow(kernel(_KERNELS, "reused"), "log bigint, value bigint")


def _plain(rows: DataFrame, pieces: DataFrame, reused: DataFrame) -> DataFrame:
    """The rows within pieces whose values can be told apart."""
    blank = {name: F.lit(NO_EDGE if name == "kind" else 0).cast("bigint") for name in EDGE[len(ROW) :]}
    inside = within(rows.withColumns(blank), pieces)
    return inside.join(reused, ["log", "value"], "left_anti").select(*PIECE_ROW)


def within(rows: DataFrame, pieces: DataFrame) -> DataFrame:
    """The rows whose operation stands in a piece, with its number."""
    bucket = F.explode(
        F.sequence(F.shiftright("start", _BUCKET_BITS), F.shiftright("end", _BUCKET_BITS))
    ).alias("bucket")
    place = F.when(F.col("who").bitwiseAND(LATE) != 0, F.col("ret")).otherwise(F.col("at"))
    placed = rows.withColumn("place", place).withColumn("bucket", F.shiftright("place", _BUCKET_BITS))
    found = placed.join(F.broadcast(pieces.select("piece", "start", "end", bucket)), "bucket")
    return found.where(F.col("place").between(F.col("start"), F.col("end"))).select(*PIECE_ROW)


def searched(material: DataFrame, options: CycleOptions) -> DataFrame:
    """The steps of cycles, `liftlog_jepsen.graph.kernels.STEP_DDL`."""
    search = kernel(_KERNELS, "cycles", options.kinds, options.rows_max)
    return material.repartition("piece").select(*PIECE_ROW).mapInArrow(search, STEP_DDL)


def told(named: DataFrame, steps: DataFrame) -> DataFrame:
    """Join the few steps with what their operations did, and put it in words."""
    at = F.col("idx_inv") + F.col("base")
    acted = named.select(
        "history_id", "op_id", "process", "idx_inv", "idx_ret", "key", "pos", at.alias("source"),
        F.coalesce(F.col("value").cast("string"), "value_s").alias("text"),
        (F.col("f") == "send").alias("sends"),
        F.xxhash64("history_id", "key").alias("its_log"),
        F.coalesce("value", F.xxhash64("value_s")).alias("its_value"),
    )  # fmt: skip
    matches = F.coalesce(
        F.col("sends") & (F.col("log") == F.col("its_log")) & (F.col("value") == F.col("its_value")),
        F.lit(False),
    )
    joined = acted.join(F.broadcast(steps), "source").withColumn("matches", matches)
    chosen = joined.where(F.col("matches") | (F.col("pos") == 0)).drop("sends", "its_log", "its_value", "pos")
    schema = to_arrow_schema(cast(StructType, StructType.fromDDL(CYCLES_DDL)))
    return chosen.repartition("anomaly", "first").mapInArrow(
        kernel("liftlog_jepsen.graph.explain", "tell", schema), CYCLES_DDL
    )


def _bigints(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} bigint" for name in names)
