"""The checks of places: rows of values in the order of their offsets, with what is known of each whole log.

A tile is some whole logs, or one stretch of offsets of a log that is too large for one task. In the second
case facts from the log's other tiles come along: the latest invocation below (`prefixes`), the least known
offset above (`floors`), how far reads went and when final reads began.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from liftlog_jepsen.log.columns import (
    LATE,
    NONE,
    Block,
    Bools,
    Ints,
    codes,
    combine,
    concatenate,
    heads,
    sort_block,
    sort_order,
    take,
)
from liftlog_jepsen.log.epochs import EPOCH_COLUMNS, check_epochs, epochs
from liftlog_jepsen.log.found import ANOMALIES, LogFindings
from liftlog_jepsen.log.sessions import SKIP_COLUMNS, report_steps
from liftlog_jepsen.log.values import (
    ACKED,
    COMMITTED,
    MISSING_COLUMNS,
    PAIR_COLUMNS,
    READ,
    READER_COLUMNS,
    SEVERAL,
    SINGLE,
    VALUE_COLUMNS,
    ValueRows,
)

PAIR_ORDER = ("log", "offset", "op", "pos")
BOUND_COLUMNS = ("log", "bound")
FINAL_COLUMNS = ("log", "reader", "began")
PREFIX_COLUMNS = ("history", "log", "first", "send_inv", "op", "pos")
FLOOR_COLUMNS = ("log", "offset")


class Places(NamedTuple):
    """What one tile needs."""

    values: Block
    pairs: Block
    missing: Block
    readers: Block
    bounds: Block
    """BOUND_COLUMNS, several per log: reads came at least so far (the first offset of a value that was
    read).
    """
    finals: Block
    """FINAL_COLUMNS, several per log and reader: when a process's final reads of the log began, or later."""
    prefixes: Block
    floors: Block
    skips: Block
    epochs: Block
    """What acknowledgements say of epochs; of a log that is cut, all of it in the first stretch."""


def empty_places() -> dict[str, list[Block]]:
    """A list of blocks for each field of `Places`, to be filled and concatenated."""
    return {name: [] for name in Places._fields}


COLUMNS = {
    "values": VALUE_COLUMNS,
    "pairs": PAIR_COLUMNS,
    "missing": MISSING_COLUMNS,
    "readers": READER_COLUMNS,
    "bounds": BOUND_COLUMNS,
    "finals": FINAL_COLUMNS,
    "prefixes": PREFIX_COLUMNS,
    "floors": FLOOR_COLUMNS,
    "skips": SKIP_COLUMNS,
    "epochs": EPOCH_COLUMNS,
}


def gather(parts: dict[str, list[Block]]) -> Places:
    """The parts of a tile, put together."""
    return Places(**{name: concatenate(parts[name], COLUMNS[name]) for name in Places._fields})


def bounds(values: Block) -> Block:
    """How far reads of each log came, as these values show."""
    read = ((values["flags"] & READ) != 0) & (values["first"] != NONE)
    log, first = values["log"][read], values["first"][read]
    if not len(log):
        return concatenate([], BOUND_COLUMNS)
    order = sort_order((log,))
    starts = np.flatnonzero(heads(log[order]))
    return {"log": log[order][starts], "bound": np.maximum.reduceat(first[order], starts)}


def finals(rows: Block) -> Block:
    """When final reads began, as these rows show: the least invocation by log and reader."""
    final = take(rows, rows["final"] == 1)
    order = sort_order((final["log"], final["process"], final["inv"]))
    final = take(final, order)
    fresh = heads(final["log"], final["process"])
    return {
        "log": final["log"][fresh],
        "reader": final["process"][fresh],
        "began": final["inv"][fresh],
    }


def check_places(tile: Places, found: LogFindings, unseen: str = "final") -> dict[str, Ints]:
    """Everything that needs order or facts of the whole log. Returns the logs where sends may be out of
    order.

    `unseen`: "final" blames acknowledged values that nobody read only if a final read began later, "all"
    blames all of them, as Jepsen does.
    """
    values = sort_block(tile.values, ("log", "first"))
    log, logs = codes(values["log"])
    pairs = known_pairs(values, tile.pairs)
    _check_lost(values, log, logs, tile.bounds, found)
    _check_final_reads(values, log, logs, tile, found, unseen)
    dirty = [_check_offsets(pairs, found), _check_real_time(values, tile.prefixes, found)]
    check_skips(tile.skips, pairs, tile.floors, found)
    check_epochs(tile.epochs, found)
    odd = ((values["flags"] & SEVERAL) != 0) | (
        (values["first"] != NONE) & ((values["flags"] & (SINGLE | COMMITTED)) != (SINGLE | COMMITTED))
    )
    dirty.append(values["log"][odd])
    return {"log": np.unique(np.concatenate(dirty))}


def _per_log(logs: Ints, of: Ints, column: Ints, nothing: int, greatest: bool = True) -> Ints:
    """The greatest (or least) entry of each of `logs`, which ascend; entries of other logs do not matter."""
    result = np.full(len(logs), nothing, np.int64)
    if len(logs) and len(of):
        place = np.minimum(np.searchsorted(logs, of), len(logs) - 1)
        here = logs[place] == of
        combine = np.maximum if greatest else np.minimum
        combine.at(result, place[here], column[here])
    return result


def _check_lost(values: Block, log: Ints, logs: Ints, bounds: Block, found: LogFindings) -> None:
    bound = _per_log(logs, bounds["log"], bounds["bound"], NONE)
    flags = values["flags"]
    wanted = SINGLE | COMMITTED
    lost = ((flags & (wanted | READ)) == wanted) & (values["last"] != NONE)
    which = np.flatnonzero(lost)
    which = which[values["last"][which] <= bound[log[which]]]
    found.add(
        "lost-write",
        values["history"][which],
        values["log"][which],
        values["op"][which],
        value_op=values["op"][which],
        value_pos=values["pos"][which],
        offset=values["last"][which],
        other_offset=bound[log[which]],
    )


# -- final reads ---------------------------------------------------------------------------------------------


def _check_final_reads(
    values: Block, log: Ints, logs: Ints, tile: Places, found: LogFindings, unseen: str
) -> None:
    finals = tile.finals
    order = sort_order((finals["log"], finals["reader"], finals["began"]))
    finals = take(finals, order)
    finals = take(finals, heads(finals["log"], finals["reader"]))
    last_began = _per_log(logs, finals["log"], finals["began"], NONE)
    flags = values["flags"]
    due = SINGLE | ACKED
    nobody = np.flatnonzero((flags & (due | READ)) == due)
    if unseen == "final":
        nobody = nobody[values["send_ret"][nobody] < last_began[log[nobody]]]
    moment = last_began[log[nobody]]
    found.add(
        "unseen",
        *_value_cells(values, nobody),
        offset=values["first"][nobody],
        position=values["send_ret"][nobody],
        other_position=moment,
        **_named(values, nobody),
    )
    if not len(finals["log"]):
        return
    _report_missing(tile.missing, finals, found)
    tiles = np.unique(values["tile"])
    readers = take(tile.readers, np.isin(tile.readers["tile"], tiles))
    for reader in _incomplete(finals, readers, len(tiles)).tolist():
        _report_absent(values, tile.readers, take(finals, slice(reader, reader + 1)), found)


def _incomplete(finals: Block, readers: Block, tiles: int) -> Ints:
    """Which final readers did not return something of every tile of values."""
    both = concatenate(
        [
            {"log": finals["log"], "reader": finals["reader"]},
            {"log": readers["log"], "reader": readers["reader"]},
        ]
    )
    order = sort_order((both["log"], both["reader"]))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(heads(both["log"][order], both["reader"][order])) - 1
    count = len(finals["log"])
    times = np.bincount(number[count:], minlength=int(number.max()) + 1)
    return np.flatnonzero(times[number[:count]] < tiles)


def _value_cells(values: Block, which: Ints) -> tuple[Ints, Ints, Ints]:
    return values["history"][which], values["log"][which], values["op"][which]


def _named(values: Block, which: Ints) -> Block:
    return {"value_op": values["op"][which], "value_pos": values["pos"][which]}


def _report_missing(missing: Block, finals: Block, found: LogFindings) -> None:
    """Values that a reader lacks who has others of the same tile."""
    if not len(missing["log"]):
        return
    keys = list(zip(finals["log"].tolist(), finals["reader"].tolist(), strict=True))
    began = dict(zip(keys, finals["began"].tolist(), strict=True))
    wanted = zip(missing["log"].tolist(), missing["reader"].tolist(), strict=True)
    moment = np.array([began.get(key, NONE) for key in wanted], np.int64)
    which = np.flatnonzero(missing["send_ret"] < moment)
    found.add(
        "missing-in-final-read",
        *_value_cells(missing, which),
        offset=missing["first"][which],
        process=missing["reader"][which],
        position=missing["send_ret"][which],
        other_position=moment[which],
        **_named(missing, which),
    )


def _report_absent(values: Block, readers: Block, final: Block, found: LogFindings) -> None:
    """What a reader lacks from the tiles of values of which it returned nothing."""
    log, reader, began = (int(final[name][0]) for name in FINAL_COLUMNS)
    low, high = np.searchsorted(values["log"], [log, log + 1])
    if low == high:
        return
    here = (readers["log"] == log) & (readers["reader"] == reader)
    had = np.unique(readers["tile"][here])
    tiles = np.unique(values["tile"][low:high])
    without = np.setdiff1d(tiles, had)
    if not len(without):
        return
    part = take(values, slice(low, high))
    due = SINGLE | ACKED | READ
    lacking = ((part["flags"] & due) == due) & (part["send_ret"] < began)
    which = np.flatnonzero(lacking & np.isin(part["tile"], without))
    found.add(
        "missing-in-final-read",
        *_value_cells(part, which),
        offset=part["first"][which],
        process=np.full(len(which), reader),
        position=part["send_ret"][which],
        other_position=np.full(len(which), began),
        **_named(part, which),
    )


# -- offsets -------------------------------------------------------------------------------------------------


def known_pairs(values: Block, extra: Block) -> Block:
    """The distinct known pairs by log and offset: of ordinary values, and of those at several offsets."""
    plain = (values["first"] != NONE) & ((values["flags"] & SEVERAL) == 0)
    pairs = {name: values["first" if name == "offset" else name] for name in PAIR_COLUMNS}
    if not plain.all():
        pairs = take(pairs, plain)
    if not len(extra["log"]):
        return pairs
    pairs = concatenate([pairs, {name: extra[name] for name in PAIR_COLUMNS}])
    pairs = take(pairs, sort_order(tuple(pairs[name] for name in PAIR_ORDER)))
    return take(pairs, heads(*(pairs[name] for name in PAIR_ORDER)))


def _check_offsets(pairs: Block, found: LogFindings) -> Ints:
    """Offsets with two values; of several, the two that the least operations show are named."""
    log, offset = pairs["log"], pairs["offset"]
    shared = np.zeros(len(log), np.bool_)
    shared[1:] = (log[1:] == log[:-1]) & (offset[1:] == offset[:-1])
    if not shared.any():
        return np.zeros(0, np.int64)
    involved = shared.copy()
    involved[:-1] |= shared[1:]
    some = take(pairs, involved)
    some = take(some, sort_order(tuple(some[name] for name in PAIR_ORDER)))
    first = np.flatnonzero(heads(some["log"], some["offset"]))
    second = first + 1
    found.add(
        "inconsistent-offsets",
        some["history"][first],
        some["log"][first],
        some["op"][first],
        op_2=some["op"][second],
        value_op=some["op"][first],
        value_pos=some["pos"][first],
        other_op=some["op"][second],
        other_pos=some["pos"][second],
        offset=some["offset"][first],
    )
    return some["log"][first]


def _check_real_time(values: Block, prefixes: Block, found: LogFindings) -> Ints:
    """In offset order, the latest invocation so far must not come after the completion of a send."""
    wanted = SINGLE | COMMITTED
    placed = ((values["flags"] & wanted) == wanted) & (values["first"] != NONE)
    sends = {name: values[name] for name in (*PREFIX_COLUMNS, "send_ret")}
    if not placed.all():
        sends = take(sends, placed)
    if len(prefixes["log"]):
        below = {name: prefixes[name] for name in PREFIX_COLUMNS}
        below["send_ret"] = np.full(len(below["log"]), NONE, np.int64)
        sends = concatenate([below, sends])
        sends = take(sends, sort_order((sends["log"], sends["first"])))
    if not len(sends["log"]):
        return sends["log"]
    starts = heads(sends["log"], sends["first"])
    if not starts.all():
        order = sort_order(tuple(sends[name] for name in ("log", "first", "send_inv", "pos")))
        sends = take(sends, order)
    log, first, inv, ret = (sends[name] for name in ("log", "first", "send_inv", "send_ret"))
    latest = _latest_below(log, starts, inv)
    late = np.flatnonzero((latest >= 0) & (ret != NONE) & (inv[np.maximum(latest, 0)] > ret))
    other = latest[late]
    found.add(
        "realtime-order",
        sends["history"][late],
        log[late],
        sends["op"][late],
        op_2=sends["op"][other],
        value_op=sends["op"][late],
        value_pos=sends["pos"][late],
        other_op=sends["op"][other],
        other_pos=sends["pos"][other],
        offset=first[late],
        other_offset=first[other],
        position=ret[late],
        other_position=inv[other],
    )
    return log[late]


def _latest_below(log: Ints, starts: Bools, inv: Ints) -> Ints:
    """For each row the one with the latest invocation among those of lower offset in its log; -1: none."""
    number = np.cumsum(heads(log)) - 1
    low, span = int(inv.min()), int(inv.max()) - int(inv.min()) + 1
    if (int(number[-1]) + 1) * span >= 2**63:
        inv, low = np.unique(inv, return_inverse=True)[1].astype(np.int64), 0
        span = len(inv)
    # Within a log the running maximum of the invocations; between logs the greater number dominates.
    level = number * span + (inv - low)
    highest = np.maximum.accumulate(level)
    holder = latest_place_of(level == highest)
    places = np.arange(len(log))
    below = np.maximum.accumulate(np.where(starts, places, 0)) - 1
    usable = (below >= 0) & (log[np.maximum(below, 0)] == log)
    return np.where(usable, holder[np.maximum(below, 0)], -1)


def latest_place_of(marked: Bools) -> Ints:
    return np.maximum.accumulate(np.where(marked, np.arange(len(marked)), 0))


# -- skips ---------------------------------------------------------------------------------------------------


def check_skips(skips: Block, pairs: Block, floors: Block, found: LogFindings) -> None:
    """Which steps pass over an offset that is known."""
    if not len(skips["log"]):
        return
    passed = _next_known(skips["log"], skips["low"], pairs, floors) < skips["high"]
    for number in np.unique(skips["anomaly"][passed]).tolist():
        report_steps(ANOMALIES[number], take(skips, passed & (skips["anomaly"] == number)), found)


def _next_known(log: Ints, low: Ints, pairs: Block, floors: Block) -> Ints:
    """The least known offset above `low` in each log; LATE if there is none."""
    logs = np.unique(log)
    above = _per_log(logs, floors["log"], floors["offset"], LATE, greatest=False)
    result = above[np.searchsorted(logs, log)]
    known = len(pairs["log"])
    if not known:
        return result
    both_logs = np.concatenate([pairs["log"], log])
    both = np.concatenate([pairs["offset"], low])
    combined = combine((both_logs, both))
    if combined is None:
        ranks = np.unique(both, return_inverse=True)[1].astype(np.int64)
        combined = codes(both_logs)[0] * (int(ranks.max()) + 1) + ranks
    place = np.searchsorted(combined[:known], combined[known:], side="right")
    inside = (place < known) & (pairs["log"][np.minimum(place, known - 1)] == log)
    return np.where(inside, pairs["offset"][np.minimum(place, known - 1)], result)


# -- from values to places -----------------------------------------------------------------------------------


def of_values(made: ValueRows, rows: Block, skips: Block) -> Places:
    """The tile of some whole logs: all facts are at hand."""
    parts = empty_places()
    parts["values"].append(made.values)
    parts["pairs"].append(made.pairs)
    parts["missing"].append(made.missing)
    parts["readers"].append(made.readers)
    parts["bounds"].append(bounds(made.values))
    parts["finals"].append(finals(rows))
    parts["skips"].append(skips)
    parts["epochs"].append(epochs(made.rows))
    return gather(parts)
