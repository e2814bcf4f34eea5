"""One batch over the logs of one Spark task: state and new records in, new state and anomalies out.

Every row of both has the same columns. `what` says which it is: `row` is a new record (a micro-operation with
its operation), `found` an anomaly, anything else a row of `liftlog_jepsen.online.state.Log.dump`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from liftlog_jepsen.online.state import OK, POLL, REBALANCE, SEND, Assignments, OnlineLog

ROW, FOUND = "row", "found"
DECIDED = (
    "inconsistent-offsets", "duplicate", "G1a", "phantom", "future-read", "realtime-order",
    "nonmonotonic-poll", "int-nonmonotonic-poll", "poll-skip", "int-poll-skip",
)  # fmt: skip
"""The anomalies that are reported while a history grows; for the others one must know that it has ended."""

RECORD = ("kind", "op_id", "pos", "offset", "process", "outcome", "idx_inv", "idx_ret")
"""What the numbers of a `row` are."""
ANOMALY = ("op_id", "other_op", "offset", "other_offset", "process")
"""What the numbers of a `found` are; its text is the value."""
COLUMNS = "history_id string, key string, what string, name string, text string, numbers array<bigint>"
SCHEMA = pa.schema(
    [
        ("history_id", pa.string()),
        ("key", pa.string()),
        ("what", pa.string()),
        ("name", pa.string()),
        ("text", pa.string()),
        ("numbers", pa.list_(pa.int64())),
    ]
)
BATCH_ROWS = 10_000


def fold_batches(
    batches: Iterator[pa.RecordBatch],
    late: int,
    gaps: str,
    assignments: Mapping[str, Mapping[int, Sequence[tuple[int, Sequence[str]]]]],
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over whole logs. `assignments`: by history and process, see `state.Assignments`."""
    logs: dict[tuple[str, str], OnlineLog] = {}
    fresh: dict[tuple[str, str], list[list[Any]]] = {}
    for batch in batches:
        names = ("history_id", "key", "what", "text", "numbers")
        columns = (batch.column(name).to_pylist() for name in names)
        for history, key, what, text, numbers in zip(*columns, strict=True):
            log = logs.get((history, key))
            if log is None:
                log = logs[history, key] = OnlineLog(key, gaps)
            if what == ROW:
                fresh.setdefault((history, key), []).append([*numbers, text])
            else:
                log.load(what, text, numbers)
    known = {
        history: {p: [(at, frozenset(keys)) for at, keys in told] for p, told in by_process.items()}
        for history, by_process in assignments.items()
    }
    rows: list[dict[str, Any]] = []
    for (history, key), log in logs.items():
        records = fresh.get((history, key))
        if records:
            _fold(log, records, known.get(history, {}))
            log.close_batch(late)
        rows.extend(_rows(history, key, log))
        if len(rows) >= BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _fold(log: OnlineLog, records: list[list[Any]], assignments: Assignments) -> None:
    """The new records of one log, in the order of invocations; those of one operation together."""
    records.sort(key=itemgetter(6, 1, 2))
    place = 0
    while place < len(records):
        _, op, _, _, process, outcome, inv, ret, _ = records[place]
        end = place
        while end < len(records) and records[end][1] == op:
            end += 1
        polled: list[tuple[int, str]] = []
        rebalanced = False
        for kind, _, _, offset, _, _, _, _, value in records[place:end]:
            if kind == SEND and value is not None:
                log.send(op, offset, value, outcome, inv, ret)
            elif kind == POLL and value is not None and offset is not None:
                polled.append((offset, value))
            rebalanced |= kind == REBALANCE
        if polled:
            returned = ret if outcome == OK else None
            log.poll(process, op, outcome, inv, returned, polled, rebalanced, assignments)
        place = end


def _rows(history: str, key: str, log: OnlineLog) -> Iterator[dict[str, Any]]:
    shared = {"history_id": history, "key": key}
    for what, text, numbers in log.dump():
        yield {**shared, "what": what, "name": None, "text": text, "numbers": numbers}
    for name, ops, facts in log.found:
        second = ops[1] if len(ops) > 1 else None
        numbers = [ops[0], second, facts.get("offset"), facts.get("other_offset"), facts.get("process")]
        yield {**shared, "what": FOUND, "name": name, "text": facts.get("value"), "numbers": numbers}
