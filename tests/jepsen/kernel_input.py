"""Histories as the kernel's input table, without Spark: what `liftlog_jepsen.spark.frames.log_rows` does, in
plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from liftlog_jepsen.history import FINAL_POLL, OUTCOMES, History
from liftlog_jepsen.log import ASSIGN, INPUT_COLUMNS, POLL, REBALANCE, SEND

TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_()}
SCHEMA = pa.schema([(name, TYPES[kind]) for name, kind in INPUT_COLUMNS])
KINDS = {"send": SEND, "poll": POLL, "assign": ASSIGN, "subscribe": ASSIGN, "rebalance": REBALANCE}


def kernel_input(histories: Iterable[History]) -> pa.Table:
    rows = []
    for history in histories:
        ops = sorted(history.ops(), key=lambda op: op.idx_inv)
        spoiled = {op.process for op in ops if op.f == FINAL_POLL and op.outcome != "ok"}
        polled = {(m.key, m.value) for op in ops if op.outcome == "ok" for m in op.mops if m.f == "poll"}
        assignments: dict[int, int] = {}
        for op in ops:
            if op.f in ("assign", "subscribe") and op.outcome != "fail":
                assignments[op.process] = assignments.get(op.process, 0) + 1
            seen = op.outcome == "info" and any(m.f == "send" and (m.key, m.value) in polled for m in op.mops)
            for pos, mop in enumerate(op.mops):
                rows.append(
                    {
                        "history_id": history.name,
                        "key": mop.key,
                        "kind": KINDS[mop.f],
                        "op_id": op.op_id,
                        "pos": pos,
                        "offset": mop.offset,
                        "value": mop.value if isinstance(mop.value, int) else None,
                        "value_s": mop.value if isinstance(mop.value, str) else None,
                        "process": op.process,
                        "outcome": OUTCOMES.index(op.outcome),
                        "idx_inv": op.idx_inv,
                        "idx_ret": op.idx_ret,
                        "final": op.f == FINAL_POLL and op.process not in spoiled,
                        "assignments": assignments.get(op.process, 0),
                        "seen": seen,
                        "epoch": mop.epoch,
                        "leader": mop.leader,
                    }
                )
    return pa.Table.from_pylist(rows, schema=SCHEMA)
