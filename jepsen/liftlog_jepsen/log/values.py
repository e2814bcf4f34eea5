"""The checks of single values: all rows of one value of one log come together here, and nothing else is
needed.

The result has one row per value, which the checks of places (`liftlog_jepsen.log.places`) go on with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from liftlog_jepsen.log.columns import (
    FAIL,
    INFO,
    LATE,
    NO_VALUE,
    NONE,
    OK,
    POLL,
    SEND,
    Block,
    Bools,
    Ints,
    codes,
    concatenate,
    heads,
    mix,
    sort_order,
    take,
)
from liftlog_jepsen.log.found import LogFindings

VALUE_COLUMNS = (
    "history",
    "log",
    "flags",
    "first",
    "last",
    "op",
    "pos",
    "process",
    "send_inv",
    "send_ret",
    "tile",
)
"""`first` and `last`: the least and the greatest known offset. `op` and `pos`: a micro-operation that has the
value, its send if there is one. `process`, `send_inv`, `send_ret`: of that send; `send_ret` only if it was
acknowledged. `tile`: who made the row.
"""
SINGLE, ACKED, COMMITTED, READ, SEVERAL = 1, 2, 4, 8, 16
"""Bits of `flags`: sent once; acknowledged; must have committed; read by an ok poll; at several offsets."""
PAIR_COLUMNS = ("history", "log", "offset", "op", "pos")
MISSING_COLUMNS = ("history", "log", "reader", "first", "op", "pos", "send_ret")
READER_COLUMNS = ("log", "reader", "tile")


class ValueRows(NamedTuple):
    """What the rows of some values say."""

    values: Block
    """VALUE_COLUMNS."""
    pairs: Block
    """PAIR_COLUMNS: the known pairs of values that lie at several offsets; of the others `first` says it."""
    missing: Block
    """MISSING_COLUMNS: acknowledged, read values that a final reader, which is in `readers`, does not
    have.
    """
    readers: Block
    """READER_COLUMNS: processes whose final reads returned some value of this tile."""
    poll_last: Ints
    """Per row of `rows`, for sends: the greatest offset at which a poll saw the value; NONE if none did."""
    rows: Block
    """The sends and polls with values, in the order of `poll_last`."""


class _Grouped(NamedTuple):
    rows: Block
    group: Ints
    """Per row its value's number, ascending."""
    starts: Ints


def check_values(rows: Block, found: LogFindings, tile: int = 0) -> ValueRows:
    """Everything that one value's rows show. `rows` has every row of each value that it has at all.

    Rows sorted by log and offset cost least: then no row has to move.
    """
    with_value = (rows["value_kind"] != NO_VALUE) & (rows["kind"] <= POLL)
    grouped = _group(take(rows, with_value))
    rows, group, starts = grouped
    sent = rows["kind"] == SEND
    polled = ~sent
    ok = rows["outcome"] == OK
    ok_polled = polled & ok
    count = len(starts)
    sends = np.bincount(group[sent], minlength=count)
    read = _any(ok_polled, starts)
    info_sent = sent & (rows["outcome"] == INFO)
    committed_row = ok | (rows["seen"] == 1) | (info_sent & read[group])
    known = (rows["offset"] != NONE) & (polled | committed_row)
    first = _least(rows["offset"], known, starts)
    last = _greatest(rows["offset"], known, starts)
    several = first < last
    shown = _scattered(rows, sent, grouped, count)
    acked = _any(sent & ok, starts)
    single = sends == 1
    flags = (
        single * SINGLE
        + acked * ACKED
        + _any(sent & committed_row, starts) * COMMITTED
        + read * READ
        + several * SEVERAL
    )
    values: Block = {
        "history": rows["history"][starts],
        "log": rows["log"][starts],
        "flags": flags.astype(np.int64),
        "first": first,
        "last": last,
        **shown,
        "tile": np.full(count, tile, np.int64),
    }
    _report(grouped, values, sends, ok_polled, found)
    missing, readers = _final_reads(grouped, values, tile)
    poll_last = np.full(len(group), NONE, np.int64)
    unplaced = np.flatnonzero(sent & ~known)
    if len(unplaced):
        poll_last[unplaced] = _greatest(rows["offset"], polled, starts)[group[unplaced]]
    extra = known & several[group]
    pairs = {
        "history": rows["history"][extra],
        "log": rows["log"][extra],
        "offset": rows["offset"][extra],
        "op": values["op"][group[extra]],
        "pos": values["pos"][group[extra]],
    }
    placed = sent & known
    poll_last[placed] = rows["offset"][placed]
    return ValueRows(values, pairs, missing, readers, poll_last, rows)


# -- grouping ------------------------------------------------------------------------------------------------


def _group(rows: Block) -> _Grouped:
    """Rows with the copies of each value side by side.

    Where rows are sorted by offset, copies are neighbours already; that these runs have different values is
    then seen from one sort of hashes, and rows move only for values that have several runs.
    """
    key = mix(rows["log"]) + mix(rows["value"] * 4 + rows["value_kind"])
    fresh = heads(key)
    if not _exact(rows, fresh):
        return _group_exactly(rows)
    runs = np.flatnonzero(fresh)
    run_key = key[runs]
    ordered = np.sort(run_key)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(again):
        return _Grouped(rows, np.cumsum(fresh) - 1, runs)
    again = again[heads(again)]
    place = np.minimum(np.searchsorted(again, run_key), len(again) - 1)
    torn = np.flatnonzero(again[place] == run_key)
    owner = np.arange(len(runs))
    firsts = np.full(len(again), len(runs))
    np.minimum.at(firsts, place[torn], torn)
    owner[torn] = firsts[place[torn]]
    lengths = np.diff(np.append(runs, len(key)))
    group = np.repeat(owner, lengths)
    order = np.argsort(group, kind="stable")
    rows = take(rows, order)
    fresh = heads(group[order])
    if not _exact(rows, fresh):
        return _group_exactly(rows)
    return _Grouped(rows, np.cumsum(fresh) - 1, np.flatnonzero(fresh))


def _exact(rows: Block, fresh: Bools) -> bool:
    """Whether no two values share a group because their hashes are equal."""
    same = ~heads(rows["log"], rows["value"], rows["value_kind"])
    return bool((same[1:] | fresh[1:]).all())


def _group_exactly(rows: Block) -> _Grouped:
    order = sort_order((rows["log"], rows["value_kind"], rows["value"]))
    rows = take(rows, order)
    fresh = heads(rows["log"], rows["value_kind"], rows["value"])
    return _Grouped(rows, np.cumsum(fresh) - 1, np.flatnonzero(fresh))


def _any(which: Bools, starts: Ints) -> Bools:
    return np.logical_or.reduceat(which, starts) if len(starts) else np.zeros(0, np.bool_)


def _least(column: Ints, which: Bools, starts: Ints) -> Ints:
    if not len(starts):
        return np.zeros(0, np.int64)
    least = np.minimum.reduceat(np.where(which, column, LATE), starts)
    return np.where(least == LATE, NONE, least)


def _greatest(column: Ints, which: Bools, starts: Ints) -> Ints:
    if not len(starts):
        return np.zeros(0, np.int64)
    return np.maximum.reduceat(np.where(which, column, NONE), starts)


def _scattered(rows: Block, sent: Bools, grouped: _Grouped, count: int) -> Block:
    """The columns of each value's send; of several sends the last by operation. Without one, the first poll's
    place.
    """
    place = np.flatnonzero(sent)
    owner = grouped.group[place]
    if len(place) and not heads(owner).all():
        order = sort_order((owner, rows["op"][place], rows["pos"][place]))
        place, owner = place[order], owner[order]
    of_send = np.full(count, -1, np.int64)
    of_send[owner] = place
    there = of_send >= 0
    row = np.where(there, of_send, 0)
    orphans = np.flatnonzero(~there)
    if len(orphans):
        row[orphans] = _first_rows(grouped, orphans)
    acked = there & (rows["outcome"][row] == OK)
    shown = {
        "op": rows["op"][row],
        "pos": rows["pos"][row],
        "process": rows["process"][row],
        "send_inv": np.where(there, rows["inv"][row], NONE),
        "send_ret": np.where(acked, rows["ret"][row], NONE),
    }
    return shown


def _first_rows(grouped: _Grouped, which: Ints) -> Ints:
    """The row of each of these values' first operation and position."""
    rows, group, starts = grouped
    ends = np.append(starts[1:], len(group))
    lengths = ends[which] - starts[which]
    members = np.repeat(starts[which] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    order = sort_order((group[members], rows["op"][members], rows["pos"][members]))
    members = members[order]
    return members[heads(group[members])]


# -- reports -------------------------------------------------------------------------------------------------


def _report(grouped: _Grouped, values: Block, sends: Ints, ok_polled: Bools, found: LogFindings) -> None:
    """Duplicates, reads of what failed, was never sent, or was sent later, and values sent twice."""
    rows, group, starts = grouped
    flags = values["flags"]
    single, read = (flags & SINGLE) != 0, (flags & READ) != 0
    failed = _any((rows["kind"] == SEND) & (rows["outcome"] == FAIL), starts)
    read_ret = _least(rows["ret"], ok_polled, starts)
    future = single & read & (read_ret < values["send_inv"])
    one_at_most = sends <= 1
    for name, holds in (
        ("duplicate", one_at_most & ((flags & SEVERAL) != 0)),
        ("G1a", single & read & failed),
        ("phantom", read & (sends == 0)),
        ("future-read", future),
        ("reused-value", sends > 1),
    ):
        which = np.flatnonzero(holds)
        if not len(which):
            continue
        reader = _readers(grouped, which, ok_polled)
        sender = np.where(sends[which] > 0, values["op"][which], NONE)
        columns = {"op_2": reader, "offset": values["first"][which]}
        if name == "duplicate":
            columns["other_offset"] = values["last"][which]
        if name == "future-read":
            columns |= {"position": read_ret[which], "other_position": values["send_inv"][which]}
        found.add(
            name,
            values["history"][which],
            values["log"][which],
            sender,
            value_op=values["op"][which],
            value_pos=values["pos"][which],
            **columns,
        )
    own = (rows["kind"] == POLL) & single[group] & (rows["op"] == values["op"][group])
    which = np.flatnonzero(own)
    if len(which):
        _report_precommitted(grouped, values, group[which[heads(group[which])]], found)


def _report_precommitted(grouped: _Grouped, values: Block, which: Ints, found: LogFindings) -> None:
    """Operations that polled what they sent themselves."""
    found.add(
        "precommitted-read",
        values["history"][which],
        values["log"][which],
        values["op"][which],
        value_op=values["op"][which],
        value_pos=values["pos"][which],
        offset=values["first"][which],
    )


def _readers(grouped: _Grouped, which: Ints, ok_polled: Bools) -> Ints:
    """The ok poll with the least id of each of these values, NONE if no ok poll read it."""
    wanted = np.zeros(len(grouped.starts), np.bool_)
    wanted[which] = True
    place = np.flatnonzero(wanted[grouped.group] & ok_polled)
    least = np.full(len(grouped.starts), LATE, np.int64)
    np.minimum.at(least, grouped.group[place], grouped.rows["op"][place])
    least = least[which]
    return np.where(least == LATE, NONE, least)


# -- final reads ---------------------------------------------------------------------------------------------


def _final_reads(grouped: _Grouped, values: Block, tile: int) -> tuple[Block, Block]:
    """Which final reader lacks which value, of those readers that have some value of this tile.

    What all have is the rule, so the exceptions are listed.
    """
    rows, group, _ = grouped
    final = np.flatnonzero((rows["final"] == 1) & (rows["kind"] == POLL))
    if not len(final):
        return concatenate([], MISSING_COLUMNS), concatenate([], READER_COLUMNS)
    log, logs = codes(values["log"])
    order = sort_order((log[group[final]], rows["process"][final]))
    by_reader = final[order]
    fresh = heads(log[group[by_reader]], rows["process"][by_reader])
    reader_log = log[group[by_reader]][fresh]
    reader = rows["process"][by_reader][fresh]
    number = np.empty(len(final), np.int64)
    number[order] = np.cumsum(fresh) - 1
    readers = {"log": logs[reader_log], "reader": reader, "tile": np.full(len(reader), tile, np.int64)}
    have = np.sort(group[final] * len(reader) + number)
    have = have[heads(have)]
    got = np.bincount(have // len(reader), minlength=len(log))
    wanted = np.bincount(reader_log, minlength=len(logs))
    due = SINGLE | ACKED | READ
    lacking = np.flatnonzero(((values["flags"] & due) == due) & (got < wanted[log]))
    if not len(lacking):
        return concatenate([], MISSING_COLUMNS), readers
    lengths = wanted[log[lacking]]
    begins = np.cumsum(wanted) - wanted
    value = np.repeat(lacking, lengths)
    offset_in = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    candidate = begins[log[value]] + offset_in
    pair = value * len(reader) + candidate
    place = np.minimum(np.searchsorted(have, pair), len(have) - 1)
    absent = have[place] != pair
    value, candidate = value[absent], candidate[absent]
    missing = {name: values[name][value] for name in MISSING_COLUMNS if name != "reader"}
    missing["reader"] = reader[candidate]
    return {name: missing[name] for name in MISSING_COLUMNS}, readers
