"""The checks of sessions: what each process did with one log, in its own order.

A *lane* is the polls, or the sends, of one process in one log. The place of a poll's record is its offset;
that of a send is its own offset if it has committed, or else the offset at which polls saw its value. Records
without a place are passed over (polls), or end what is known of the lane (sends).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from liftlog_jepsen.log.columns import (
    ASSIGN,
    FAIL,
    NO_VALUE,
    NONE,
    OK,
    POLL,
    REBALANCE,
    SEND,
    Block,
    Bools,
    Ints,
    concatenate,
    heads,
    latest_place,
    sort_order,
    take,
)
from liftlog_jepsen.log.found import NUMBER, LogFindings

SESSION_COLUMNS = (
    "history",
    "log",
    "kind",
    "op",
    "pos",
    "offset",
    "process",
    "outcome",
    "inv",
    "ret",
    "session",
    "carried",
)
"""`offset` is the place. `carried`: the row stands for what lies before this tile; only later rows are
judged.
"""
OPEN_COLUMNS = ("history", "log", "process", "op_1", "pos_1", "low", "op_2", "pos_2", "high")
"""Two sends of one process, the first acknowledged before the second began, of which `low` or `high`, their
places, is not known here.
"""
PLACED_COLUMNS = ("log", "op", "pos", "place")
"""The places of such sends, from the polls of their values."""
SKIP_COLUMNS = ("history", "log", "anomaly", "op_1", "op_2", "process", "low", "high")
"""Steps from one place to a higher one that is not the next offset: skips, if some offset between them is
known.
"""


def session_rows(rows: Block, place: Ints | None = None, carried: int = 0) -> Block:
    """The columns that sessions need. `place`: of every row, if it is not the offset."""
    block = {name: rows[name] for name in SESSION_COLUMNS if name != "carried"}
    if place is not None:
        block["offset"] = place
    block["carried"] = np.full(len(rows["log"]), carried, np.int64)
    return block


def in_session(rows: Block) -> Bools:
    """Which rows matter to the lanes of polls: polls with a place, and assigns and rebalances that
    happened.
    """
    kind = rows["kind"]
    polls = (kind == POLL) & (rows["value_kind"] != NO_VALUE) & (rows["offset"] != NONE)
    assigns = (kind == ASSIGN) & (rows["outcome"] != FAIL)
    which: Bools = polls | assigns | (kind == REBALANCE)
    return which


def check_sessions(
    rows: Block, found: LogFindings, gaps: str = "known", undecided: list[Block] | None = None
) -> Block:
    """Backward steps of all lanes go to `found`; the skips that known offsets must decide are returned.

    `rows`: SESSION_COLUMNS, every row of some lanes (or of a stretch of their time with the carried ones).
    `gaps`: with "any", every step that is not to the next offset is a skip. `undecided` gets the steps of
    sends whose places are not known here (OPEN_COLUMNS), for `check_open`.
    """
    rebalanced = take(rows, rows["kind"] == REBALANCE)
    rows = take(rows, rows["kind"] != REBALANCE)
    senders = rows["kind"] == SEND
    skips = []
    for lane, which in ((POLL, ~senders), (SEND, senders | (rows["kind"] == ASSIGN))):
        if lane == SEND and not senders.any():
            continue
        part = take(rows, which)
        if len(part["log"]):
            skips.append(_check_lanes(part, lane, rebalanced, found, gaps, undecided))
    return concatenate(skips, SKIP_COLUMNS)


def check_open(steps: Block, placed: Block, found: LogFindings) -> None:
    """Steps (OPEN_COLUMNS) whose places others know (PLACED_COLUMNS): those that go backwards."""
    if not len(steps["log"]):
        return
    for op, pos, place in (("op_1", "pos_1", "low"), ("op_2", "pos_2", "high")):
        steps[place] = np.where(steps[place] == NONE, _looked_up(steps, op, pos, placed), steps[place])
    low, high = steps["low"], steps["high"]
    back = np.flatnonzero((low != NONE) & (high != NONE) & (high < low))
    if len(back):
        report_steps("nonmonotonic-send", take(steps, back), found)


def _looked_up(steps: Block, op: str, pos: str, placed: Block) -> Ints:
    """The place of each step's send, NONE if nobody knows it."""
    known = len(placed["log"])
    if not known:
        return np.full(len(steps["log"]), NONE, np.int64)
    columns = (("log", "log"), ("op", op), ("pos", pos))
    keys = [np.concatenate([placed[mine], steps[theirs]]) for mine, theirs in columns]
    order = sort_order(tuple(keys))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(heads(*(key[order] for key in keys)))
    table = np.full(int(number.max()) + 1, NONE, np.int64)
    table[number[:known]] = placed["place"]
    return table[number[known:]]


def _check_lanes(
    rows: Block, kind: int, rebalanced: Block, found: LogFindings, gaps: str, undecided: list[Block] | None
) -> Block:
    rows = take(rows, _by_lane(rows))
    if kind == SEND:
        rows = _placed_once(rows)
    lane_heads = heads(rows["log"], rows["process"])
    places = np.arange(len(lane_heads))
    start = np.maximum.accumulate(np.where(lane_heads, places, 0))
    op, offset, outcome = rows["op"], rows["offset"], rows["outcome"]
    assigns = rows["kind"] == ASSIGN
    same_op = ~lane_heads
    same_op[1:] &= op[1:] == op[:-1]
    # A position survives an assignment that names its log: the session counts only those that did not.
    naming = assigns & ~same_op
    named = np.cumsum(naming)
    session = rows["session"] - (named - named[start] + naming[start])
    advances = ~assigns & (outcome == OK if kind == POLL else outcome != FAIL)
    holder = np.concatenate([[-1], latest_place(advances)[:-1]])
    internal = same_op & ~assigns
    external = ~internal & ~assigns & (holder >= start)
    before = np.where(internal, places - 1, np.maximum(holder, 0))
    external &= session[before] == session
    if kind == SEND:
        # Sends of one process may overlap; of two that did, neither is the first.
        external &= (outcome != FAIL) & (outcome[before] == OK)
        external &= rows["ret"][before] < rows["inv"]
    previous = offset[before]
    if undecided is not None and kind == SEND:
        unknown = external & (rows["carried"] == 0) & ((offset == NONE) | (previous == NONE))
        undecided.append(_open_steps(rows, before, np.flatnonzero(unknown)))
    compared = (internal | external) & (offset != NONE) & (previous != NONE) & (rows["carried"] == 0)
    # Two polls of one offset repeat; two sends to one offset are an inconsistency, not a step.
    back = compared & (offset <= previous if kind == POLL else offset < previous)
    jump = compared & (offset > previous + 1)
    if kind == SEND:
        jump &= internal
    back_places, jump_places = np.flatnonzero(back), np.flatnonzero(jump)
    if kind == POLL and len(rebalanced["log"]):
        back_places = _not_rebalanced(rows, internal, back_places, rebalanced)
        jump_places = _not_rebalanced(rows, internal, jump_places, rebalanced)
    names = ("nonmonotonic-poll", "poll-skip") if kind == POLL else ("nonmonotonic-send", "send-skip")
    _add(rows, internal, before, back_places, names[0], found)
    if gaps == "any":
        _add(rows, internal, before, jump_places, names[1], found)
        return concatenate([], SKIP_COLUMNS)
    steps = _steps(rows, internal, before, jump_places)
    inside = NUMBER[f"int-{names[1]}"]
    steps["anomaly"] = np.where(internal[jump_places], inside, NUMBER.get(names[1], inside))
    return {name: steps[name] for name in SKIP_COLUMNS}


def _open_steps(rows: Block, before: Ints, which: Ints) -> Block:
    first = before[which]
    steps = {name: rows[name][which] for name in ("history", "log", "process")}
    steps |= {"op_1": rows["op"][first], "pos_1": rows["pos"][first], "low": rows["offset"][first]}
    return steps | {"op_2": rows["op"][which], "pos_2": rows["pos"][which], "high": rows["offset"][which]}


def _by_lane(rows: Block) -> Ints:
    """The order by log, process, invocation and position. A reader's offsets ascend with time, so that rows
    sorted by offset are nearly in this order already, lane by lane.
    """
    log, process = rows["log"], rows["process"]
    if len(log) and (log == log[0]).all() and (process == process[0]).all():
        return sort_order((rows["inv"], rows["pos"]))
    return _sorted_within(sort_order((log, process)), rows)


def _sorted_within(order: Ints, rows: Block) -> Ints:
    log, process = rows["log"][order], rows["process"][order]
    lane: Ints = np.cumsum(heads(log, process), dtype=np.int64)
    return order[sort_order((lane, rows["inv"][order], rows["pos"][order]))]


def _placed_once(rows: Block) -> Block:
    """Where a send comes twice, without its place and with it, the second."""
    same = ~heads(rows["log"], rows["op"], rows["pos"], rows["kind"])
    if not same.any():
        return rows
    starts = np.flatnonzero(~same)
    place = np.maximum.reduceat(rows["offset"], starts)
    carried = np.minimum.reduceat(rows["carried"], starts)
    return {**take(rows, starts), "offset": place, "carried": carried}


def _not_rebalanced(rows: Block, internal: Bools, which: Ints, rebalanced: Block) -> Ints:
    """Without the steps inside an operation during which the log was taken away or given."""
    exempt = set(zip(rebalanced["log"].tolist(), rebalanced["op"].tolist(), strict=True))
    pairs = zip(rows["log"][which].tolist(), rows["op"][which].tolist(), strict=True)
    kept = np.array([pair not in exempt for pair in pairs], np.bool_)
    return which[kept | ~internal[which]]


def _steps(rows: Block, internal: Bools, before: Ints, which: Ints) -> dict[str, Any]:
    inside = internal[which]
    op = rows["op"][which]
    return {
        "history": rows["history"][which],
        "log": rows["log"][which],
        "op_1": np.where(inside, op, rows["op"][before[which]]),
        "op_2": np.where(inside, NONE, op),
        "process": rows["process"][which],
        "low": rows["offset"][before[which]],
        "high": rows["offset"][which],
    }


def _add(rows: Block, internal: Bools, before: Ints, which: Ints, name: str, found: LogFindings) -> None:
    inside = internal[which]
    for prefix, some in (("int-", which[inside]), ("", which[~inside])):
        if len(some):
            report_steps(f"{prefix}{name}", _steps(rows, internal, before, some), found)


def report_steps(name: str, steps: Block, found: LogFindings) -> None:
    """Steps of one kind as anomalies."""
    found.add(
        name,
        steps["history"],
        steps["log"],
        steps["op_1"],
        op_2=steps["op_2"],
        process=steps["process"],
        offset=steps["high"],
        other_offset=steps["low"],
    )
