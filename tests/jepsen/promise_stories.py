"""Histories with the facts of docs/promises.md, told in a few words, and their rows without Spark: what
`liftlog_jepsen.spark.promises.promise_rows` does, in plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from liftlog_jepsen.history import FINAL_POLL, OUTCOMES, History, HistoryWriter, Mop
from liftlog_jepsen.promises import FUNCTIONS, INPUT_COLUMNS, check_table
from liftlog_jepsen.promises.columns import (
    FINAL,
    NO_ROLE,
    OF_GROUPS,
    OF_LOGS,
    OF_SOURCES,
    REPLICA,
    REPLICA_OP,
)

TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_()}
SCHEMA = pa.schema([(name, TYPES[kind]) for name, kind in INPUT_COLUMNS])
LOG_FACTS = {
    *("hw", "truncate", "producer", "record-key", "tombstone", "expected", "refused"),
    *("consumer", "pull", "deliver", "settle", "unknown-delivery", "floor"),
}
GROUP_FACTS = {"join", "own", "commit", "fetch-commit"}


class Story:
    """Every operation ends before the next begins, unless told otherwise. All is about log "k"."""

    def __init__(self, key: str = "k", writer: HistoryWriter | None = None) -> None:
        self.key = key
        self.writer = writer or HistoryWriter("story", clock_ns=iter(range(10**6)).__next__)

    def do(self, process: int, f: str, *mops: Mop, outcome: str = "ok") -> None:
        self.end(self.writer.invoke(process, f), *mops, outcome=outcome)

    def end(self, op_id: int, *mops: Mop, outcome: str = "ok") -> None:
        self.writer.mops(op_id, list(mops))
        if outcome == "ok":
            self.writer.ok(op_id)
        elif outcome == "fail":
            self.writer.fail(op_id)
        else:
            self.writer.info(op_id)

    def sent(self, offset: int | None, value: str | None, *facts: Mop, outcome: str = "ok") -> None:
        self.do(1, "send", Mop("send", self.key, offset, value), *facts, outcome=outcome)

    def read(
        self, process: int, *records: tuple[int, str | None], hw: int | None = None, f: str = "poll"
    ) -> None:
        mops = [Mop("poll", self.key, offset, value) for offset, value in records]
        told = [] if hw is None else [self.fact("hw", hw)]
        self.do(process, f, *mops, *told)

    def refused(self, expected: int, told: int, value: str, process: int = 1) -> None:
        """A send that was to lie at one offset was told of another."""
        self.writer.refused(self.writer.invoke(process, "send", self.key, value, expected=expected), told)

    def set(self, offset: int, value: str) -> None:
        """A send that lies where it expected."""
        self.writer.ok(self.writer.invoke(1, "send", self.key, value, expected=offset), offset=offset)

    def final(self, process: int, *records: tuple[int, str | None]) -> None:
        self.read(process, *records, f=FINAL_POLL)

    def fact(
        self, f: str, offset: int | None = None, value: str | None = None, epoch: int | None = None
    ) -> Mop:
        return Mop(f, self.key, offset, value, epoch)

    def history(self) -> History:
        return self.writer.close()


def promise_input(histories: Iterable[History]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for history in histories:
        ops = list(history.ops())
        spoiled = {op.process for op in ops if op.f == FINAL_POLL and op.outcome != "ok"}
        polled = {(m.key, m.value) for op in ops if op.outcome == "ok" for m in op.mops if m.f == "poll"}
        facts = {m.key for op in ops for m in op.mops if m.f in LOG_FACTS}
        inputs = {m.key for op in ops for m in op.mops if m.f == "source"}
        for op in ops:
            final = op.f == FINAL_POLL and op.process not in spoiled
            shared = {
                "history_id": history.name,
                "op_id": op.op_id,
                "process": op.process,
                "outcome": OUTCOMES.index(op.outcome),
                "idx_inv": op.idx_inv,
                "idx_ret": op.idx_ret,
                "role": FINAL if final else REPLICA if op.f == REPLICA_OP else NO_ROLE,
                "seen": op.outcome == "info"
                and any(m.f == "send" and (m.key, m.value) in polled for m in op.mops),
            }
            for pos, mop in enumerate(op.mops):
                row = {
                    **shared,
                    "pos": pos,
                    "kind": FUNCTIONS.index(mop.f),
                    "key": mop.key,
                    "offset": mop.offset,
                    "value": mop.value if isinstance(mop.value, int) else None,
                    "value_s": mop.value if isinstance(mop.value, str) else None,
                    "epoch": mop.epoch,
                }
                record = mop.f in ("send", "poll")
                if mop.f in LOG_FACTS or (record and mop.key in facts):
                    rows.append({**row, "part": OF_LOGS, "shard": mop.key})
                if mop.f in GROUP_FACTS:
                    group = mop.key if mop.f == "join" else str(mop.value)
                    rows.append({**row, "part": OF_GROUPS, "shard": group})
                if mop.f == "source" or ((record or mop.f == "commit") and mop.key in inputs):
                    rows.append({**row, "part": OF_SOURCES, "shard": mop.key})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def broken(history: History) -> list[dict[str, Any]]:
    """Rows of the result, in one order."""
    rows: list[dict[str, Any]] = check_table(promise_input([history])).to_pylist()
    return sorted(rows, key=lambda row: (row["anomaly"], row["key"], row["ops"]))
