"""The log checks: every anomaly of an offset-addressed log, computed over columns.

*Why this is cheap.* Checking linearizability is NP-hard in general, but a log names the position of every
value: the offsets *are* the linearization order, so each promise becomes one pass over columns or one pass
in offset order. Logs (keys) are independent, so any set of whole logs can be checked apart from the others:
Spark hands each of its tasks the rows of some logs, and `check_table` handles them together, without a loop
over logs.

*Terms*, per history and key, after jepsen.tests.kafka:

- A writer *committed* if its outcome is ok, or if it is info and an ok poll read one of the values it sent.
- *Known pairs* (offset, value): of committed sends that know their offset, and of all polls.
- *first* and *last* of a value: its least and greatest known offset. An offset is *known* if it is in a
  known pair.

*Anomalies* (each row of the result is one):

- `inconsistent-offsets`: one offset holds two values.
- `duplicate`: one value lies at two offsets.
- `lost-write`: a committed value was read by no ok poll, though its last offset is at most the greatest first
  offset of a value that one read. (So somebody must read each log from its start: readers that begin at the
  end prove nothing about what lies before.)
- `unseen`: a value, acknowledged before some final read of its key began, was read by no ok poll at all.
- `missing-in-final-read`: a value that some ok poll read, and that was acknowledged before a process's
  final read of the key began, is not in that final read. (A process with a final read that did not succeed
  does not count.)
- `G1a` (Adya's aborted read): an ok poll read a value whose send failed.
- `phantom`: an ok poll read a value that nobody sent to this key.
- `future-read`: an ok poll that had completed before a send was invoked read its value.
- `realtime-order`: an acknowledged send completed before another, committed one was invoked, and yet the
  other has the lower first offset. Reported once for each such acknowledged send, with the latest of the
  others.
- `nonmonotonic-poll`, `int-nonmonotonic-poll`: a process read an offset not above the one before; `int-`
  within one poll.
- `poll-skip`, `int-poll-skip`: a process went from one offset to a higher one, past a known offset.
- `reused-value`: two sends carry one value. No violation, but reads of it prove nothing: it takes no part
  in the other checks of values, and the verdict is at best unknown.

A process's position is that of its last ok poll; an assign or subscribe drops the positions of the keys
that it does not name. Skips count offsets that are known: a gap where nobody ever saw a record is not one,
unless `gaps="any"` asks that offsets have no holes at all.

Pure numpy and Arrow, no Spark: the module travels to Spark's workers by value (see
`jepsen.spark.log_checks`), so it imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Gaps = Literal["known", "any"]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SEND, POLL, ASSIGN = 0, 1, 2
OK, FAIL, INFO = 0, 1, 2
NONE = np.iinfo(np.int64).min
"""Stands for null in integer columns."""
LATE = np.iinfo(np.int64).max

INPUT_COLUMNS = (
    ("history_id", "string"),
    ("key", "string"),
    ("kind", "int"),  # SEND, POLL, ASSIGN
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
)
"""Columns of the input, one row per micro-operation joined with its operation; types as Spark names them."""

EVIDENCE = ("value", "other_value", "offset", "other_offset", "process", "position", "other_position")
OUTPUT_DDL = (
    "history_id string, anomaly string, key string, ops array<bigint>, "
    "evidence struct<value: string, other_value: string, offset: bigint, other_offset: bigint, "
    "process: bigint, position: bigint, other_position: bigint>"
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
SUMMARY_SCHEMA = OUTPUT_SCHEMA.append(pa.field("count", _number)).append(pa.field("keys", _number))
"""Examples of anomalies; the first of each kind in a task says how many there are, in how many keys, the
others 0.
"""
SUMMARY_DDL = f"{OUTPUT_DDL}, count bigint, keys bigint"


def check_table(table: pa.Table, gaps: Gaps = "known") -> pa.Table:
    """All anomalies of the logs whose rows `table` holds; every log must be whole. Columns: INPUT_COLUMNS."""
    found = _Found()
    if len(table):
        rows = _rows(table)
        values = _values(rows)
        _check_values(rows, values, found)
        _check_lost(rows, values, found)
        _check_final_reads(rows, values, found)
        pairs = _known_pairs(rows, values)
        _check_offsets(rows, values, pairs, found)
        _check_real_time(rows, values, found)
        _check_sessions(rows, pairs, gaps, found)
    return found.table()


def check_batches(
    batches: Iterator[pa.RecordBatch], gaps: Gaps, examples: int | None
) -> Iterator[pa.RecordBatch]:
    """`check_table` over one Spark task's rows; with `examples` only its `summarize`."""
    parts = list(batches)
    if parts:
        anomalies = check_table(pa.Table.from_batches(parts), gaps)
        yield from (anomalies if examples is None else summarize(anomalies, examples)).to_batches()


def summarize(anomalies: pa.Table, examples: int) -> pa.Table:
    """The first `examples` anomalies (at least one) of every kind and history; see SUMMARY_SCHEMA.

    Since a task has whole logs, counts and numbers of keys of several tasks may be added up.
    """
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in anomalies.to_pylist():
        kinds.setdefault((row["history_id"], row["anomaly"]), []).append(row)
    summary = []
    for rows in kinds.values():
        rows.sort(key=anomaly_order)
        keys = len({row["key"] for row in rows})
        for place, row in enumerate(rows[: max(examples, 1)]):
            first = place == 0
            summary.append({**row, "count": len(rows) if first else 0, "keys": keys if first else 0})
    return pa.Table.from_pylist(summary, schema=SUMMARY_SCHEMA)


def anomaly_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Puts anomalies of one kind into one order, always the same: by key, offset, and then all the rest."""
    evidence = row["evidence"]
    numbers = [evidence[name] for name in EVIDENCE]
    offset = evidence["offset"]
    cells = [(cell is not None, cell) for cell in (row["key"], offset, *numbers)]
    return (*cells, tuple(row["ops"]))


class _Found:
    """Collects anomalies as columns."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in OUTPUT_SCHEMA.names}

    def add(self, log: tuple[str, str], name: str, ops: list[int], **evidence: object) -> None:
        history, key = log
        row = {"history_id": history, "anomaly": name, "key": key, "ops": ops, "evidence": evidence}
        for column, cell in row.items():
            self._columns[column].append(cell)

    def table(self) -> pa.Table:
        return pa.table(self._columns, schema=OUTPUT_SCHEMA)


# -- columns -------------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """The input as arrays, in order of operation and position, so that every later choice is
    deterministic.
    """

    log: Ints
    """Number of the history and key."""
    vid: Ints
    """Number of the log and value; -1 for a row without value."""
    kind: Ints
    op: Ints
    pos: Ints
    offset: Ints
    process: Ints
    outcome: Ints
    inv: Ints
    ret: Ints
    final: Bools
    assignments: Ints
    seen: Bools
    """Of an info operation: an ok poll read one of the values it sent."""
    log_names: list[tuple[str, str]]
    vid_rows: Ints
    """For each value the first row that has it, where its text can be found."""
    texts: pa.Table
    """value and value_s, row by row."""

    def text(self, vid: int) -> str:
        """A value as text, one to one: strings that begin like an integer or a quote get quotes."""
        row = int(self.vid_rows[vid])
        string = self.texts["value_s"][row].as_py()
        if string is None:
            return str(self.texts["value"][row].as_py())
        return f'"{string}"' if string[:1] in _AMBIGUOUS else string

    def log_count(self) -> int:
        return len(self.log_names)


_AMBIGUOUS = frozenset('"-0123456789')


def _rows(table: pa.Table) -> _Rows:
    history, histories = _named_codes(table["history_id"])
    order = np.lexsort((_ints(table["pos"]), _ints(table["op_id"]), history))
    table = table.take(pa.array(order))
    history = history[order]
    key, keys = _named_codes(table["key"])
    log, logs = _factorize(history * len(keys) + key)
    names = [(histories[code // len(keys)], keys[code % len(keys)]) for code in logs.tolist()]
    string, strings = _codes(table["value_s"])
    integer, _ = _codes(table["value"])
    value = np.where(string >= 0, string, np.where(integer >= 0, integer + len(strings), -1))
    vid = np.full(len(order), -1, np.int64)
    has_value = np.flatnonzero(value >= 0)
    width = int(value.max(initial=0)) + 1
    vid[has_value], distinct = _factorize(log[has_value] * width + value[has_value])
    vid_rows = np.zeros(len(distinct), np.int64)
    vid_rows[vid[has_value][::-1]] = has_value[::-1]
    kind, outcome, seen = _ints(table["kind"]), _ints(table["outcome"]), _bools(table["seen"])
    read = np.zeros(len(distinct) + 1, np.bool_)  # its last element stands for "no value" and stays false
    read[vid[(kind == POLL) & (outcome == OK) & (vid >= 0)]] = True
    seen = seen | ((kind == SEND) & (outcome == INFO) & read[vid])
    return _Rows(
        log, vid, kind, _ints(table["op_id"]), _ints(table["pos"]), _ints(table["offset"]),
        _ints(table["process"]), outcome, _ints(table["idx_inv"]), _ints(table["idx_ret"]),
        _bools(table["final"]), _ints(table["assignments"]), seen,
        names, vid_rows, table.select(["value", "value_s"]),
    )  # fmt: skip


def _ints(column: pa.ChunkedArray) -> Ints:
    filled: Ints = column.cast(pa.int64()).fill_null(int(NONE)).to_numpy()
    return filled


def _bools(column: pa.ChunkedArray) -> Bools:
    filled: Bools = column.fill_null(False).to_numpy()
    return filled


def _codes(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Numbers in order of appearance, -1 for null, and the distinct contents."""
    encoded = pa.chunked_array(column.dictionary_encode()).unify_dictionaries()
    codes = [chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy() for chunk in encoded.chunks]
    return np.concatenate(codes), encoded.chunk(0).dictionary


def _named_codes(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    codes, names = _codes(column)
    return codes, names.to_pylist()


def _factorize(numbers: Ints) -> tuple[Ints, Ints]:
    """Numbers in order of appearance, and the distinct ones."""
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()


class _Values(NamedTuple):
    """One element per value of a log."""

    log: Ints
    sends: Ints
    failed: Bools
    committed: Bools
    acked: Bools
    read: Bools
    """By an ok poll."""
    first: Ints
    """NONE without a known offset; likewise `last`."""
    last: Ints
    send_op: Ints
    send_inv: Ints
    send_ret: Ints
    """Completion of the acknowledgement; NONE unless acked."""
    read_op: Ints
    """The ok poll with the least id; NONE if there is none."""
    read_ret: Ints
    """The earliest completion of an ok poll."""
    op: Ints
    """Some operation that shows this value: its send, or else the first poll."""


def _values(rows: _Rows) -> _Values:
    count = len(rows.vid_rows)
    send = (rows.kind == SEND) & (rows.vid >= 0)
    poll = (rows.kind == POLL) & (rows.vid >= 0)
    ok_poll = poll & (rows.outcome == OK)
    ok_send = send & (rows.outcome == OK)
    known = _known(rows)

    def marked(which: Bools) -> Bools:
        marks = np.zeros(count, np.bool_)
        marks[rows.vid[which]] = True
        return marks

    def least(which: Bools, column: Ints) -> Ints:
        result = np.full(count, LATE, np.int64)
        np.minimum.at(result, rows.vid[which], column[which])
        result[result == LATE] = NONE
        return result

    def greatest(which: Bools, column: Ints) -> Ints:
        result = np.full(count, NONE, np.int64)
        np.maximum.at(result, rows.vid[which], column[which])
        return result

    read = marked(ok_poll)
    acked = marked(ok_send)
    send_op = greatest(send, rows.op)
    return _Values(
        log=rows.log[rows.vid_rows],
        sends=np.bincount(rows.vid[send], minlength=count),
        failed=marked(send & (rows.outcome == FAIL)),
        committed=acked | marked(send & rows.seen),
        acked=acked,
        read=read,
        first=least(known, rows.offset),
        last=greatest(known, rows.offset),
        send_op=send_op,
        send_inv=greatest(send, rows.inv),
        send_ret=greatest(ok_send, rows.ret),
        read_op=least(ok_poll, rows.op),
        read_ret=least(ok_poll, rows.ret),
        op=np.where(send_op != NONE, send_op, least(poll, rows.op)),
    )


def _known(rows: _Rows) -> Bools:
    """Rows that are known pairs."""
    places = (rows.vid >= 0) & (rows.offset != NONE)
    committed = (rows.outcome == OK) | rows.seen
    known: Bools = places & ((rows.kind == POLL) | ((rows.kind == SEND) & committed))
    return known


# -- checks of values ----------------------------------------------------------------------------------------


def _check_values(rows: _Rows, values: _Values, found: _Found) -> None:
    """What one value's columns show."""
    unique = values.sends <= 1
    duplicate = unique & (values.first < values.last)
    aborted = unique & values.read & values.failed
    phantom = values.read & (values.sends == 0)
    future = unique & values.read & (values.sends == 1) & (values.read_ret < values.send_inv)
    for name, holds in (
        ("duplicate", duplicate),
        ("G1a", aborted),
        ("phantom", phantom),
        ("future-read", future),
        ("reused-value", values.sends > 1),
    ):
        for vid in np.flatnonzero(holds).tolist():
            evidence: dict[str, object] = {"value": rows.text(vid), "offset": _or_none(values.first[vid])}
            if name == "duplicate":
                evidence["other_offset"] = int(values.last[vid])
            if name == "future-read":
                evidence["position"] = int(values.read_ret[vid])
                evidence["other_position"] = int(values.send_inv[vid])
            ops = [int(op) for op in (values.send_op[vid], values.read_op[vid]) if op != NONE]
            found.add(rows.log_names[values.log[vid]], name, ops, **evidence)


def _check_lost(rows: _Rows, values: _Values, found: _Found) -> None:
    bound = np.full(rows.log_count(), NONE, np.int64)
    np.maximum.at(bound, values.log[values.read], values.first[values.read])
    placed = values.committed & ~values.read & (values.sends == 1) & (values.last != NONE)
    for vid in np.flatnonzero(placed & (values.last <= bound[values.log])).tolist():
        log = values.log[vid]
        found.add(
            rows.log_names[log],
            "lost-write",
            [int(values.send_op[vid])],
            value=rows.text(vid),
            offset=int(values.last[vid]),
            other_offset=int(bound[log]),
        )


def _check_final_reads(rows: _Rows, values: _Values, found: _Found) -> None:
    """Acknowledged values against the final reads of their logs: every final reader must have each of
    them.
    """
    final = np.flatnonzero(rows.final & (rows.kind == POLL))
    process, processes = _factorize(rows.process[final])
    reader, readers = _factorize(rows.log[final] * max(len(processes), 1) + process)
    if not len(readers):
        return
    reader_log = readers // len(processes)
    began = np.full(len(readers), LATE, np.int64)
    np.minimum.at(began, reader, rows.inv[final])
    last_began = np.full(rows.log_count(), NONE, np.int64)
    np.maximum.at(last_began, reader_log, began)
    has_value = rows.vid[final] >= 0
    pairs = np.unique(rows.vid[final][has_value] * len(readers) + reader[has_value])
    got = np.bincount(pairs // len(readers), minlength=len(values.log))
    wanted = np.bincount(reader_log, minlength=rows.log_count())[values.log]
    due = values.acked & (values.sends == 1) & (got < wanted) & (values.send_ret < last_began[values.log])
    by_log: dict[int, list[int]] = {}
    for number in np.argsort(processes[readers % len(processes)], kind="stable").tolist():
        by_log.setdefault(int(reader_log[number]), []).append(number)
    have = set(pairs[np.isin(pairs // len(readers), np.flatnonzero(due))].tolist())
    for vid in np.flatnonzero(due).tolist():
        log, returned = int(values.log[vid]), int(values.send_ret[vid])
        shared: dict[str, object] = {
            "value": rows.text(vid),
            "offset": _or_none(values.first[vid]),
            "position": returned,
        }
        ops = [int(values.send_op[vid])]
        if not values.read[vid]:
            found.add(rows.log_names[log], "unseen", ops, **shared, other_position=int(last_began[log]))
            continue
        for number in by_log[log]:
            if returned < began[number] and vid * len(readers) + number not in have:
                where = int(processes[readers[number] % len(processes)])
                found.add(
                    rows.log_names[log],
                    "missing-in-final-read",
                    ops,
                    **shared,
                    process=where,
                    other_position=int(began[number]),
                )


# -- checks in offset order ----------------------------------------------------------------------------------


class _Pairs(NamedTuple):
    """The distinct known pairs, by log and offset."""

    log: Ints
    offset: Ints
    vid: Ints


def _known_pairs(rows: _Rows, values: _Values) -> _Pairs:
    single = np.flatnonzero((values.first != NONE) & (values.first == values.last))
    several = values.first < values.last
    extra = np.flatnonzero(_known(rows) & (rows.vid >= 0) & several[rows.vid])
    vid = np.concatenate([single, rows.vid[extra]])
    offset = np.concatenate([values.first[single], rows.offset[extra]])
    order = np.lexsort((vid, offset, values.log[vid]))
    vid, offset = vid[order], offset[order]
    fresh = np.ones(len(vid), np.bool_)
    fresh[1:] = (vid[1:] != vid[:-1]) | (offset[1:] != offset[:-1])
    return _Pairs(values.log[vid][fresh], offset[fresh], vid[fresh])


def _check_offsets(rows: _Rows, values: _Values, pairs: _Pairs, found: _Found) -> None:
    shared = (pairs.log[1:] == pairs.log[:-1]) & (pairs.offset[1:] == pairs.offset[:-1])
    holders: dict[tuple[int, int], set[int]] = {}
    for second in (np.flatnonzero(shared) + 1).tolist():
        place = (int(pairs.log[second]), int(pairs.offset[second]))
        holders.setdefault(place, set()).update((int(pairs.vid[second - 1]), int(pairs.vid[second])))
    for (log, offset), vids in sorted(holders.items()):
        (low, low_vid), (high, high_vid) = sorted((rows.text(vid), vid) for vid in sorted(vids))[:2]
        ops = [int(values.op[low_vid]), int(values.op[high_vid])]
        found.add(
            rows.log_names[log], "inconsistent-offsets", ops, value=low, other_value=high, offset=offset
        )


def _check_real_time(rows: _Rows, values: _Values, found: _Found) -> None:
    """In offset order, the latest invocation so far must not come after the completion of a send."""
    placed = np.flatnonzero((values.sends == 1) & values.committed & (values.first != NONE))
    if not len(placed):
        return
    order = placed[np.lexsort((values.first[placed], values.log[placed]))]
    log, offset, inv = values.log[order], values.first[order], values.send_inv[order]
    # Within a log the running maximum of the invocations; between logs the greater log number dominates.
    _, rank = np.unique(inv, return_inverse=True)
    level = log * len(order) + rank
    highest = np.maximum.accumulate(level)
    places = np.arange(len(order))
    holder = np.maximum.accumulate(np.where(level == highest, places, 0))
    starts = np.ones(len(order), np.bool_)
    starts[1:] = (log[1:] != log[:-1]) | (offset[1:] != offset[:-1])
    below = np.maximum.accumulate(np.where(starts, places, 0)) - 1
    latest = holder[np.maximum(below, 0)]
    same_log = (below >= 0) & (log[np.maximum(below, 0)] == log)
    late = same_log & values.acked[order] & (inv[latest] > values.send_ret[order])
    for place in np.flatnonzero(late).tolist():
        vid, other = int(order[place]), int(order[latest[place]])
        found.add(
            rows.log_names[log[place]],
            "realtime-order",
            [int(values.send_op[vid]), int(values.send_op[other])],
            value=rows.text(vid),
            other_value=rows.text(other),
            offset=int(values.first[vid]),
            other_offset=int(values.first[other]),
            position=int(values.send_ret[vid]),
            other_position=int(values.send_inv[other]),
        )


# -- checks of sessions --------------------------------------------------------------------------------------


def _check_sessions(rows: _Rows, pairs: _Pairs, gaps: Gaps, found: _Found) -> None:
    """What each process saw, in its own order: no step back, and no step over an offset that exists."""
    assign = (rows.kind == ASSIGN) & (rows.outcome != FAIL)
    steps = np.flatnonzero(assign | ((rows.kind == POLL) & (rows.vid >= 0) & (rows.offset != NONE)))
    if not len(steps):
        return
    order = steps[np.lexsort((rows.pos[steps], rows.inv[steps], rows.process[steps], rows.log[steps]))]
    log, op, offset, assigns = rows.log[order], rows.op[order], rows.offset[order], assign[order]
    places = np.arange(len(order))
    starts = np.ones(len(order), np.bool_)
    starts[1:] = (log[1:] != log[:-1]) | (rows.process[order][1:] != rows.process[order][:-1])
    start = np.maximum.accumulate(np.where(starts, places, 0))
    # A position survives an assignment that names its key: the session counts only those that did not.
    named = np.cumsum(assigns)
    session = rows.assignments[order] - (named - named[start] + assigns[start])
    advances = ~assigns & (rows.outcome[order] == OK)
    holder = np.concatenate([[-1], np.maximum.accumulate(np.where(advances, places, -1))[:-1]])
    internal = ~starts & ~assigns
    internal[1:] &= op[1:] == op[:-1]
    external = ~internal & ~assigns & (holder >= start)
    external &= session[np.maximum(holder, 0)] == session
    before = np.where(internal, places - 1, np.maximum(holder, 0))
    compared = internal | external
    previous = offset[before]
    back = compared & (offset <= previous)
    jump = np.flatnonzero(compared & (offset > previous) & (offset - 1 != previous))
    if gaps == "known":
        jump = jump[_passes_known(pairs, log[jump], previous[jump], offset[jump])]
    for name, where in (("nonmonotonic-poll", np.flatnonzero(back)), ("poll-skip", jump)):
        for place in where.tolist():
            inside = bool(internal[place])
            ops = [int(op[place])] if inside else [int(op[before[place]]), int(op[place])]
            found.add(
                rows.log_names[log[place]],
                f"int-{name}" if inside else name,
                ops,
                offset=int(offset[place]),
                other_offset=int(previous[place]),
                process=int(rows.process[order[place]]),
            )


def _passes_known(pairs: _Pairs, log: Ints, low: Ints, high: Ints) -> Bools:
    """For each (low, high) of a log, both known: is there a known offset strictly between them?"""
    offsets, rank = np.unique(pairs.offset, return_inverse=True)
    known = pairs.log * len(offsets) + rank  # ascending, as the pairs are sorted
    after_low = np.searchsorted(known, log * len(offsets) + np.searchsorted(offsets, low), side="right")
    at_high = np.searchsorted(known, log * len(offsets) + np.searchsorted(offsets, high), side="left")
    between: Bools = after_low < at_high
    return between


def _or_none(number: np.int64) -> int | None:
    return None if number == NONE else int(number)
