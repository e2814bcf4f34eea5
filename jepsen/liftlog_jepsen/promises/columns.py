"""The rows that the promises are checked on, as arrays, and what all of them need.

Three kinds of shards keep everything together that one promise is about: a log (what its readers, replicas
and producers said), a consumer group, and the input log of a transformation. A task has whole shards, any
number of them, and no check loops over rows in Python: only over what it has found, and over readers.

Pure numpy and Arrow, no Spark: the package travels to Spark's workers by value, so it imports nothing of the
project but itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FUNCTIONS = (
    "send", "poll", "hw", "truncate", "producer", "record-key", "tombstone",
    "join", "own", "commit", "fetch-commit", "source",
    "expected", "refused",
    "consumer", "pull", "deliver", "settle", "unknown-delivery", "floor",
)  # fmt: skip
"""Micro-operations that the promises look at, see docs/promises.md; their places here are their codes."""
SEND, POLL, HW, TRUNCATE, PRODUCER, RECORD_KEY, TOMBSTONE = range(7)
JOIN, OWN, COMMIT, FETCH_COMMIT, SOURCE = range(7, 12)
EXPECTED, REFUSED = range(12, 14)
CONSUMER, PULL, DELIVER, SETTLE, UNKNOWN_DELIVERY, FLOOR = range(14, 20)
OF_LOGS, OF_GROUPS, OF_SOURCES = 0, 1, 2
"""What a shard is: a log; a consumer group; the input log of a transformation."""
OK, FAIL, INFO = 0, 1, 2
NO_ROLE, FINAL, REPLICA = 0, 1, 2
"""Who did the operation: anybody; a final read of a process whose final reads all succeeded; a replica."""
REPLICA_OP = "replica"
"""`f` of an operation by which one run of a replica tells of itself; its process is that run."""
NONE = int(np.iinfo(np.int64).min)
"""Stands for null in integer columns."""

INPUT_COLUMNS = (
    ("history_id", "string"),
    ("part", "int"),  # OF_LOGS, OF_GROUPS, OF_SOURCES
    ("shard", "string"),
    ("kind", "int"),  # place in FUNCTIONS
    ("op_id", "bigint"),
    ("pos", "int"),
    ("key", "string"),
    ("offset", "bigint"),
    ("value", "bigint"),
    ("value_s", "string"),
    ("epoch", "bigint"),
    ("process", "bigint"),
    ("outcome", "int"),  # OK, FAIL, INFO
    ("idx_inv", "bigint"),
    ("idx_ret", "bigint"),
    ("role", "int"),  # NO_ROLE, FINAL, REPLICA
    ("seen", "boolean"),  # an info transaction with sources, one of whose values an ok poll read
)
"""Columns of the input, one row per micro-operation joined with its operation; types as Spark names them."""

EVIDENCE = (
    ("value", "string"),
    ("other_value", "string"),
    ("offset", "bigint"),
    ("other_offset", "bigint"),
    ("process", "bigint"),
    ("other_process", "bigint"),
    ("epoch", "bigint"),
    ("other_epoch", "bigint"),
    ("sequence", "bigint"),
    ("other_sequence", "bigint"),
    ("subject", "string"),  # the producer, the record's key, the group, or the consumer
    ("expected", "bigint"),  # the offset at which a send was to lie
)
_TYPES = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "boolean": pa.bool_()}
OUTPUT_DDL = "history_id string, anomaly string, key string, ops array<bigint>, evidence struct<{}>".format(
    ", ".join(f"{name}: {kind}" for name, kind in EVIDENCE)
)
OUTPUT_SCHEMA = pa.schema(
    [
        ("history_id", pa.string()),
        ("anomaly", pa.string()),
        ("key", pa.string()),
        ("ops", pa.list_(pa.int64())),
        ("evidence", pa.struct([(name, _TYPES[kind]) for name, kind in EVIDENCE])),
    ]
)


class PromiseFindings:
    """Collects anomalies as columns."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def add(self, log: tuple[str, str], anomaly: str, ops: list[int], **evidence: object) -> None:
        history, key = log
        self._rows.append(
            {"history_id": history, "anomaly": anomaly, "key": key, "ops": ops, "evidence": evidence}
        )

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self._rows, schema=OUTPUT_SCHEMA)


class Rows(NamedTuple):
    """The input as arrays, ordered by history, part, shard, operation and position."""

    part: Ints
    shard: Ints
    """Number of the history, part and shard."""
    log: Ints
    """Number of the history and key."""
    kind: Ints
    op: Ints
    pos: Ints
    offset: Ints
    text: Ints
    """Number of the value, the same in all logs; -1 for none."""
    epoch: Ints
    process: Ints
    outcome: Ints
    inv: Ints
    ret: Ints
    role: Ints
    seen: Bools
    log_names: list[tuple[str, str]]
    strings: pa.Array
    integers: pa.Array
    """The distinct values: `text` counts through the strings first."""

    def pick(self, which: Bools | Ints) -> Rows:
        """Some of the rows, in their order."""
        picked: dict[str, Any] = {
            name: column[which] for name, column in self._asdict().items() if isinstance(column, np.ndarray)
        }
        return self._replace(**picked)

    def where(self, kind: int, *more: int) -> Rows:
        return self.pick(np.isin(self.kind, (kind, *more)))

    def value(self, place: int) -> str | None:
        """The value of one row, as text."""
        code = int(self.text[place])
        if code < 0:
            return None
        beyond = code - len(self.strings)
        return str(self.integers[beyond]) if beyond >= 0 else _quoted(self.strings[code].as_py())

    def name(self, place: int) -> tuple[str, str]:
        return self.log_names[int(self.log[place])]


def rows_of(table: pa.Table) -> Rows:
    """The columns of a table that has INPUT_COLUMNS and at least one row."""
    history, histories = _codes(table["history_id"])
    shard, shards = _codes(table["shard"])
    part = _ints(table["part"])
    shard = (history * 3 + part) * max(len(shards), 1) + shard
    key, keys = _codes(table["key"])
    log, logs = factorize(history * len(keys) + key)
    names = [(histories[code // len(keys)], keys[code % len(keys)]) for code in logs.tolist()]
    string, strings = _encoded(table["value_s"])
    integer, integers = _encoded(table["value"])
    text = np.where(string >= 0, string, np.where(integer >= 0, integer + len(strings), -1))
    rows = Rows(
        part, shard, log, _ints(table["kind"]), _ints(table["op_id"]), _ints(table["pos"]),
        _ints(table["offset"]), text, _ints(table["epoch"]), _ints(table["process"]),
        _ints(table["outcome"]), _ints(table["idx_inv"]), _ints(table["idx_ret"]), _ints(table["role"]),
        table["seen"].fill_null(False).to_numpy(), names, strings, integers,
    )  # fmt: skip
    return rows.pick(np.lexsort((rows.pos, rows.op, rows.shard)))


_AMBIGUOUS = frozenset('"-0123456789')


def _quoted(text: str) -> str:
    """One to one beside integers: what begins like an integer or a quote gets quotes, as in log checks."""
    return f'"{text}"' if text[:1] in _AMBIGUOUS else text


def _ints(column: pa.ChunkedArray) -> Ints:
    filled: Ints = column.cast(pa.int64()).fill_null(NONE).to_numpy()
    return filled


def _codes(column: pa.ChunkedArray) -> tuple[Ints, list[Any]]:
    """Numbers in order of appearance, -1 for null, and the distinct contents, of which there are few."""
    codes, distinct = _encoded(column)
    return codes, distinct.to_pylist()


def _encoded(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    encoded = pa.chunked_array(column.dictionary_encode()).unify_dictionaries()
    codes = [chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy() for chunk in encoded.chunks]
    return np.concatenate(codes), encoded.chunk(0).dictionary


def factorize(*columns: Ints) -> tuple[Ints, Ints]:
    """Rows with equal columns get equal numbers, in order of appearance; and the distinct rows of the last
    combination (of a single column: its distinct contents).
    """
    combined, distinct = _factorize(columns[0])
    for column in columns[1:]:
        codes, contents = _factorize(column)
        combined, distinct = _factorize(combined * max(len(contents), 1) + codes)
    return combined, distinct


def _factorize(column: Ints) -> tuple[Ints, Ints]:
    encoded = pa.array(column).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()


def owners(rows: Rows, facts: Bools) -> Ints:
    """For each row: the record (send or poll) that a fact tells about, -1 where there is none.

    A fact tells about the nearest record before it in the same operation and log.
    """
    places = np.arange(len(rows.op))
    record = (rows.kind == SEND) | (rows.kind == POLL)
    last = np.maximum.accumulate(np.where(record, places, -1))
    owned = facts & (last >= 0) & (rows.op[last] == rows.op) & (rows.log[last] == rows.log)
    owned &= rows.shard[last] == rows.shard
    return np.where(owned, last, -1)


def greatest_before(group: Ints, moment: Ints, amount: Ints, asked_group: Ints, asked_moment: Ints) -> Ints:
    """For each question (group, moment): which of the events (group, moment, amount) of that group before
    that moment has the greatest amount, the first of those; -1 if none is before it.
    """
    if not len(group) or not len(asked_group):
        return np.full(len(asked_group), -1, np.int64)
    moments = np.unique(np.concatenate([moment, asked_moment]))
    width = len(moments) + 1
    when = group * width + np.searchsorted(moments, moment)
    order = np.lexsort((np.arange(len(when)), when))
    _, rank = np.unique(amount, return_inverse=True)
    level = group[order] * (len(rank) + 1) + rank[order]
    highest = np.maximum.accumulate(level)
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = highest[1:] > highest[:-1]
    holder = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    asked = asked_group * width + np.searchsorted(moments, asked_moment)
    before = np.searchsorted(when[order], asked, side="left") - 1
    at = holder[np.maximum(before, 0)]
    there = (before >= 0) & (group[order][np.maximum(before, 0)] == asked_group)
    return np.where(there, order[at], -1)


def integer(number: np.int64) -> int | None:
    """For evidence: null instead of NONE."""
    return None if number == NONE else int(number)
