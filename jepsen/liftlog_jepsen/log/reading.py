"""Reads rows straight from mops.parquet in a worker, where the file is sorted as its format promises.

Spark would turn every row into its own form, move it, and turn it into Arrow columns for Python: ten times
the work of reading it here. Which row groups hold which logs is known from the file's footer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from liftlog_jepsen.log.columns import (
    ASSIGN,
    FAIL,
    INFO,
    INTEGER,
    NO_VALUE,
    NONE,
    OK,
    POLL,
    REBALANCE,
    ROW_COLUMNS,
    SEND,
    STRING,
    Block,
    Ints,
    take,
)
from liftlog_jepsen.log.hashing import text_number

READ_COLUMNS = (
    "history_id", "op_id", "pos", "f", "key", "offset", "value", "value_s", "process", "op_f", "outcome",
    "idx_inv", "idx_ret", "epoch",
)  # fmt: skip
LEADER = "leader"
"""A column that folders of version 2 lack."""
_KINDS = {"send": SEND, "poll": POLL, "assign": ASSIGN, "subscribe": ASSIGN, "rebalance": REBALANCE}
_OUTCOMES = {"ok": OK, "fail": FAIL, "info": INFO}
_FINAL = {"final-poll": 1}


class Aside(NamedTuple):
    """What rows depend on beyond themselves, all of it short: assigns and subscribes that happened (process
    and invocation, sorted so), and processes of whose final reads one did not succeed.
    """

    assign_process: Ints
    assign_inv: Ints
    spoiled: Ints


NOTHING_ASIDE = Aside(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


class Split(NamedTuple):
    """The rows that one task reads: those of some row groups whose key lies from `low` up to `high`."""

    path: str
    groups: tuple[int, ...]
    low: str
    high: str | None
    """None = all keys from `low` on."""
    without: tuple[str, ...] = ()
    """Keys to leave out."""


def read_split(split: Split, aside: Aside = NOTHING_ASIDE) -> Block:
    """The rows of one split, as numbers (ROW_COLUMNS). For histories without transactions of unknown outcome,
    of which more would have to be known.
    """
    file = pq.ParquetFile(split.path)
    wanted_columns = [*READ_COLUMNS, *({LEADER} & set(file.schema_arrow.names))]
    table = file.read_row_groups(list(split.groups), wanted_columns, use_threads=False)
    columns = {name: whole_column(table.column(name)) for name in wanted_columns}
    kind = _translated(columns["f"], _KINDS, -1)
    keys = dictionary(columns["key"])
    wanted = np.array([_wanted(key, split) for key in keys.dictionary.to_pylist()], np.bool_)
    code = keys.indices.to_numpy()
    which = wanted[code] & (kind >= 0)
    history, log = _log_numbers(columns["history_id"], keys)
    value, value_kind = _values(columns["value"], columns["value_s"])
    rows = {
        "history": history,
        "log": log,
        "kind": kind,
        "op": _numbers(columns["op_id"]),
        "pos": _numbers(columns["pos"]),
        "offset": _numbers(columns["offset"]),
        "value_kind": value_kind,
        "value": value,
        "process": _numbers(columns["process"]),
        "outcome": _translated(columns["outcome"], _OUTCOMES, INFO),
        "inv": _numbers(columns["idx_inv"]),
        "ret": _numbers(columns["idx_ret"]),
        "final": _translated(columns["op_f"], _FINAL, 0),
        "seen": np.zeros(len(code), np.int64),
        "epoch": _numbers(columns["epoch"]),
        "leader": _numbers(columns[LEADER]) if LEADER in columns else np.full(len(code), NONE, np.int64),
    }
    if len(aside.spoiled):
        rows["final"] = rows["final"] * ~np.isin(rows["process"], aside.spoiled)
    rows["session"] = _sessions(rows["process"], rows["inv"], aside)
    rows = {name: rows[name] for name in ROW_COLUMNS}
    return rows if which.all() else take(rows, np.flatnonzero(which))


def _sessions(process: Ints, inv: Ints, aside: Aside) -> Ints:
    """How many assigns of its process there are up to and with each row's operation."""
    session = np.zeros(len(process), np.int64)
    processes = np.unique(aside.assign_process)
    if not len(processes):
        return session
    place = np.minimum(np.searchsorted(processes, process), len(processes) - 1)
    which = np.flatnonzero(processes[place] == process)
    # Invocations as ranks among those of assigns: then process and rank fit one number.
    ranks, rank = np.unique(aside.assign_inv, return_inverse=True)
    width = len(ranks) + 1
    assigns = np.sort(np.searchsorted(processes, aside.assign_process) * width + rank)
    reached = np.searchsorted(ranks, inv[which], side="right") - 1
    mine = place[which] * width
    session[which] = np.searchsorted(assigns, mine + reached, side="right") - np.searchsorted(assigns, mine)
    return session


def _wanted(key: str, split: Split) -> bool:
    return split.low <= key and (split.high is None or key < split.high) and key not in split.without


def whole_column(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def dictionary(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _numbers(column: pa.Array) -> Ints:
    if column.null_count:
        column = column.cast(pa.int64()).fill_null(NONE)
    numbers: Ints = column.to_numpy().astype(np.int64, copy=False)
    return numbers


def _translated(column: pa.Array, numbers: dict[str, int], other: int) -> Ints:
    encoded = dictionary(column)
    table = np.array([numbers.get(name, other) for name in encoded.dictionary.to_pylist()], np.int64)
    translated: Ints = table[encoded.indices.to_numpy()]
    return translated


def _log_numbers(histories: pa.Array, keys: pa.DictionaryArray) -> tuple[Ints, Ints]:
    """The same numbers as `liftlog_jepsen.spark.frames` computes. Nearly always there is one history."""
    named = dictionary(histories)
    names, texts = named.dictionary.to_pylist(), keys.dictionary.to_pylist()
    code = named.indices.to_numpy()
    of_history = np.array([text_number(name) for name in names], np.int64)
    table = np.array(
        [[text_number(text, int(seed)) for text in texts] for seed in of_history.tolist()], np.int64
    ).reshape(len(names), len(texts))
    return of_history[code], table[code, keys.indices.to_numpy()]


def _values(integers: pa.Array, strings: pa.Array) -> tuple[Ints, Ints]:
    present = (
        np.ones(len(integers), np.bool_) if not integers.null_count else integers.is_valid().to_numpy(False)
    )
    value, kind = _numbers(integers), np.where(present, INTEGER, NO_VALUE)
    if strings.null_count < len(strings):
        encoded = strings.dictionary_encode()
        there = strings.is_valid().to_numpy(False)
        texts = np.array(encoded.dictionary.to_pylist(), object)
        numbers = pd.util.hash_array(texts, categorize=False).view(np.int64)
        codes = encoded.indices.fill_null(0).to_numpy()
        value, kind = np.where(there, numbers[codes], value), np.where(there, STRING, kind)
    return value, kind
