"""Judging a log while its history is still being written, batch by batch.

`fold` is the pure part; `jepsen.spark.streaming` runs it in a streaming query, `jepsen.spark.tail` reads
files that grow.
"""

from __future__ import annotations

from jepsen.online.fold import COLUMNS, DECIDED, FOUND, ROW, fold_batches

__all__ = ["COLUMNS", "DECIDED", "FOUND", "ROW", "fold_batches"]
