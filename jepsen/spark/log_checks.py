"""The log checks on Spark: DataFrame in, anomalies DataFrame out.

One shuffle brings the rows of each log together; `jepsen.log_kernel`, which defines the anomalies, then
checks whole logs in Python workers over Arrow columns. (The same checks as Spark SQL take dozens of stages,
whose planning and compilation cost more than the work: 18 to 50 CPU seconds for a history of 400 rows.)
Works with any session, also a Spark Connect one: nothing but the DataFrame API, and the kernel travels by
value, so workers need numpy, pyarrow and pandas, but no copy of this project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import DataFrame

from jepsen import log_kernel
from jepsen.log_kernel import OUTPUT_DDL, SUMMARY_DDL, Gaps
from jepsen.spark.frames import LOG, Frames, log_rows

if TYPE_CHECKING:
    import pyarrow as pa


def check_log(frames: Frames, gaps: Gaps = "known", *, transactions: bool = True) -> DataFrame:
    """All anomalies of the log model, as rows (history_id, anomaly, key, ops, evidence). Lazy; in no order.

    `ops` are the ids of the operations involved; `evidence` is a struct, see `jepsen.result.Evidence`.
    `transactions=False` saves a join when no operation sends several values.
    """
    rows = log_rows(frames, transactions).repartition(*LOG)
    return rows.mapInArrow(_kernel(gaps, None), OUTPUT_DDL)


def check_log_summary(frames: Frames, gaps: Gaps, examples: int, *, transactions: bool = True) -> DataFrame:
    """Like `check_log`, but each task returns only counts and its first `examples` of every kind.

    Columns: those of `check_log`, and count and keys, to be added up by history and kind. Bounded: safe to
    collect.
    """
    rows = log_rows(frames, transactions).repartition(*LOG)
    return rows.mapInArrow(_kernel(gaps, examples), SUMMARY_DDL)


def _kernel(
    gaps: Gaps, examples: int | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    cloudpickle.register_pickle_by_value(log_kernel)  # type: ignore[no-untyped-call]
    check_batches = log_kernel.check_batches

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return check_batches(batches, gaps, examples)

    return kernel
