"""Judging a log while its history is still being written, batch by batch.

`fold` is the pure part; `liftlog_jepsen.spark.streaming` runs it in a streaming query,
`liftlog_jepsen.spark.tail` reads files that grow.
"""

from __future__ import annotations

from liftlog_jepsen.online.fold import COLUMNS, DECIDED, FOUND, ROW, fold_batches

__all__ = ["COLUMNS", "DECIDED", "FOUND", "ROW", "fold_batches"]
