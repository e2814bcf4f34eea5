"""What this system promises beyond the log checks: committed reads, dedupe, compaction, groups, exactly once,
compare and set, durable consumers.

Each promise is a pure function over columns; docs/promises.md says which facts of a history feed it. On
Spark: `liftlog_jepsen.spark.promises`. That no acknowledged value is lost is what the log checks look after.
"""

from __future__ import annotations

from liftlog_jepsen.promises.anomaly_texts import explain, judge
from liftlog_jepsen.promises.columns import FUNCTIONS, INPUT_COLUMNS
from liftlog_jepsen.promises.kernel import check_batches, check_table
from liftlog_jepsen.result import PROMISE_MEANINGS as PROMISES

__all__ = [
    "FUNCTIONS",
    "INPUT_COLUMNS",
    "PROMISES",
    "check_batches",
    "check_table",
    "explain",
    "judge",
]
