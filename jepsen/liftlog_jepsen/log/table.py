"""The log checks over an Arrow table with texts: for tests, for small histories without Spark, and as the
place where the columns of input and output are written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from liftlog_jepsen.log.columns import INTEGER, NO_VALUE, NONE, STRING, Block, Ints
from liftlog_jepsen.log.found import ANOMALIES, FACTS
from liftlog_jepsen.log.whole import Rules, check_whole

INPUT_COLUMNS = (
    ("history_id", "string"),
    ("key", "string"),
    ("kind", "int"),  # SEND, POLL, ASSIGN, REBALANCE
    ("op_id", "bigint"),
    ("pos", "int"),
    ("offset", "bigint"),
    ("value", "bigint"),
    ("value_s", "string"),
    ("process", "bigint"),
    ("outcome", "int"),  # OK, FAIL, INFO
    ("idx_inv", "bigint"),
    ("idx_ret", "bigint"),
    ("final", "boolean"),  # part of a process's final reads, all of which succeeded
    ("assignments", "bigint"),  # assigns and subscribes of this process so far, this one included
    ("seen", "boolean"),  # an info operation with several values, of which an ok poll read some
    ("epoch", "bigint"),  # the leader epoch that an acknowledgement named
    ("leader", "bigint"),  # the incarnation of the leader that gave it
)
"""Columns of the input, one row per micro-operation joined with its operation; types as Spark names them."""

EVIDENCE = ("value", "other_value", *FACTS)
OUTPUT_DDL = (
    "history_id string, anomaly string, key string, ops array<bigint>, "
    "evidence struct<value: string, other_value: string, offset: bigint, other_offset: bigint, "
    "process: bigint, position: bigint, other_position: bigint, epoch: bigint, other_epoch: bigint, "
    "leader: bigint, other_leader: bigint>"
)
_text, _number = pa.string(), pa.int64()
EVIDENCE_TYPE = pa.struct([(name, _text if "value" in name else _number) for name in EVIDENCE])
OUTPUT_SCHEMA = pa.schema(
    [
        ("history_id", _text),
        ("anomaly", _text),
        ("key", _text),
        ("ops", pa.list_(_number)),
        ("evidence", EVIDENCE_TYPE),
    ]
)
_AMBIGUOUS = frozenset('"-0123456789')


def check_table(table: pa.Table, rules: Rules | None = None) -> pa.Table:
    """All anomalies of the logs whose rows `table` holds; every log must be whole. Columns: INPUT_COLUMNS."""
    chosen = rules or Rules()
    if not len(table):
        return OUTPUT_SCHEMA.empty_table()
    rows, names = as_rows(table)
    return _with_texts(check_whole(rows, chosen), table, rows, names)


def as_rows(table: pa.Table) -> tuple[Block, list[tuple[str, str]]]:
    """The table as numbers, and the names (history, key) of the logs."""
    history, histories = _codes(table["history_id"])
    key, keys = _codes(table["key"])
    string, _ = _codes(table["value_s"])
    integer = _ints(table["value"])
    width = max(len(keys), 1)
    pairs, log = np.unique(history * width + key, return_inverse=True)
    rows = {
        "history": history,
        "log": log.astype(np.int64),
        "kind": _ints(table["kind"]),
        "op": _ints(table["op_id"]),
        "pos": _ints(table["pos"]),
        "offset": _ints(table["offset"]),
        "value_kind": np.where(string >= 0, STRING, np.where(_present(table["value"]), INTEGER, NO_VALUE)),
        "value": np.where(string >= 0, string, integer),
        "process": _ints(table["process"]),
        "outcome": _ints(table["outcome"]),
        "inv": _ints(table["idx_inv"]),
        "ret": _ints(table["idx_ret"]),
        "final": _flags(table["final"]),
        "session": _ints(table["assignments"]),
        "seen": _flags(table["seen"]),
        "epoch": _ints(table["epoch"]),
        "leader": _ints(table["leader"]),
    }
    return rows, [(histories[pair // width], keys[pair % width]) for pair in pairs.tolist()]


def _ints(column: pa.ChunkedArray) -> Ints:
    filled: Ints = column.cast(pa.int64()).fill_null(NONE).to_numpy()
    return filled


def _present(column: pa.ChunkedArray) -> Any:
    return column.is_valid().to_numpy()


def _flags(column: pa.ChunkedArray) -> Ints:
    filled: Ints = column.fill_null(False).to_numpy().astype(np.int64)
    return filled


def _codes(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """Numbers in order of appearance, -1 for null, and the distinct contents."""
    encoded = pa.chunked_array(column.dictionary_encode()).unify_dictionaries()
    numbers = [chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy() for chunk in encoded.chunks]
    return np.concatenate(numbers), encoded.chunk(0).dictionary.to_pylist()


def _with_texts(found: Block, table: pa.Table, rows: Block, names: list[tuple[str, str]]) -> pa.Table:
    """Anomalies as rows of OUTPUT_SCHEMA."""
    wanted = set(found["value_op"].tolist()) | set(found["other_op"].tolist())
    texts: dict[tuple[int, int, int], str] = {}
    for row in np.flatnonzero(np.isin(rows["op"], sorted(wanted))).tolist():
        value, string = table["value"][row].as_py(), table["value_s"][row].as_py()
        if value is not None or string is not None:
            where = (int(rows["log"][row]), int(rows["op"][row]), int(rows["pos"][row]))
            texts[where] = as_text(value, string)
    listed = []
    for one in as_dicts(found):
        history, key = names[one["log"]]
        value = texts.get((one["log"], one["value_op"], one["value_pos"]))
        other = texts.get((one["log"], one["other_op"], one["other_pos"]))
        listed.append(with_names(one, history, key, value, other))
    return pa.Table.from_pylist(listed, schema=OUTPUT_SCHEMA)


def as_dicts(found: Block) -> list[dict[str, Any]]:
    """Anomalies one by one, in plain numbers; None where a column does not apply."""
    columns = {name: column.tolist() for name, column in found.items()}
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, (None if cell == NONE else cell for cell in row), strict=True)) for row in rows]


def with_names(
    row: Mapping[str, Any], history: str, key: str, value: str | None, other: str | None
) -> dict[str, Any]:
    """One anomaly as OUTPUT_SCHEMA has it."""
    return {
        "history_id": history,
        "anomaly": ANOMALIES[row["anomaly"]],
        "key": key,
        "ops": [op for op in (row["op_1"], row["op_2"]) if op is not None],
        "evidence": {"value": value, "other_value": other, **{name: row[name] for name in FACTS}},
    }


def as_text(value: int | None, string: str | None) -> str:
    """A value as text, one to one: strings that begin like an integer or a quote get quotes."""
    if string is None:
        return str(value)
    return f'"{string}"' if string[:1] in _AMBIGUOUS else string


def anomaly_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Puts anomalies of one kind into one order, always the same: by key, offset, and then all the rest."""
    evidence = row["evidence"]
    numbers = [evidence[name] for name in EVIDENCE]
    cells = [(cell is not None, cell) for cell in (row["key"], evidence["offset"], *numbers)]
    return (*cells, tuple(row["ops"]))
