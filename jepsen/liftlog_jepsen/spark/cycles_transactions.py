"""Transactions over lists or registers on Spark, for histories that no single process should hold: operations
DataFrame in, anomalies DataFrame out. The definitions are those of `liftlog_jepsen.transactions`; cycles are
found in pieces, as those of logs are (`liftlog_jepsen.spark.cycles`). What only a search for an order of all
of them shows (`no-serial-order`, `no-snapshot-order`; `liftlog_jepsen/transactions/orders.py`) is left to one
process.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from liftlog.types import LiftlogError
from liftlog_jepsen.graph.kernels import EDGE, NO_EDGE, PIECE_ROW, ROWS_MAX
from liftlog_jepsen.graph.transactions import ANOMALY_DDL, FOUND_DDL, PART_DDL, RW_REGISTER, WRITES, findings
from liftlog_jepsen.spark.cycles import (
    CycleOptions,
    edge_marks,
    gathered,
    on_one_line,
    searched,
    within,
)
from liftlog_jepsen.spark.travel import kernel
from liftlog_jepsen.transactions.classify import CYCLES, split
from liftlog_jepsen.transactions.options import Options

_KERNELS = "liftlog_jepsen.graph.transactions"


class TransactionChecks(NamedTuple):
    """What `check_transactions` gives."""

    anomalies: DataFrame
    """file, anomaly, key, operations array<bigint>, words, detail (JSON, see
    `liftlog_jepsen.judgement.Problem`), and forbidden: whether the consistency model rules it out.
    `reused-value` and `cycle-search-limit` are no anomalies, but make a verdict at best unknown. Lazy; in no
    order.
    """
    edges: DataFrame
    """The dependencies, kept on disk from their first use; `unpersist` it when done."""


def check_transactions(
    operations: DataFrame, model: str, options: Options | None = None, *, rows_max: int = ROWS_MAX
) -> TransactionChecks:
    """Check histories of transactions, `list-append` or `rw-register`; `operations` as in
    `liftlog_jepsen.spark.source.OPERATIONS_DDL`.

    Raises LiftlogError for another model or an unknown consistency model.
    """
    if model not in WRITES:
        raise LiftlogError(f"model {model} has no cycles over transactions: choose {' or '.join(WRITES)}")
    chosen = tuple(options or Options())
    forbidden = findings(chosen).forbidden
    # A register may hold what was written before the history began: `check_rw_register`.
    spared = {"phantom"} - set(Options(*chosen).anomalies) if model == RW_REGISTER else set()
    kinds = tuple(kind for kind in CYCLES if not split(kind)[1] or kind in forbidden)
    bounds = operations.select(
        F.col("file"), F.col("start").alias("idx_inv"), F.greatest("start", "end").alias("idx_ret")
    )
    whole = operations.mapInArrow(kernel(_KERNELS, "parts", model, chosen), PART_DDL)
    parts = on_one_line(whole, bounds, "file").withColumn("log", F.xxhash64("file", "key"))
    keyed = parts.where(F.col("key").isNotNull()).repartition("file", "key")
    found = keyed.sortWithinPartitions("file", "key", "start").mapInArrow(
        kernel(_KERNELS, "depend", model, chosen), FOUND_DDL
    )
    edges = found.persist(StorageLevel.DISK_ONLY)
    dependencies = edges.where(F.col("kind") > NO_EDGE).select(*EDGE)
    pieces, _ = gathered(edge_marks(dependencies))
    material = within(dependencies, pieces).select(*PIECE_ROW)
    steps = searched(material, CycleOptions(kinds=kinds, rows_max=rows_max))
    data = F.broadcast(steps.where(F.col("log").isNotNull()).drop("value"))
    told = keyed.join(data, "log").repartition("anomaly", "first")
    cycles = told.mapInArrow(kernel(_KERNELS, "tell", model, chosen), ANOMALY_DDL)
    inside, of_keys = parts.select("file", "problem"), edges.select("file", "problem")
    others = inside.unionByName(of_keys).where(F.col("problem").isNotNull())
    single = others.mapInArrow(kernel(_KERNELS, "problems"), ANOMALY_DDL)
    anomalies = single.unionByName(cycles)
    return TransactionChecks(
        anomalies.withColumn("forbidden", F.col("anomaly").isin(*sorted(forbidden - spared))), edges
    )
