"""Logs that are too large for one task: how they are cut, and what the pieces need of each other.

The same three checks run over three partitions of a log's rows, in two rounds:

    route         rows -> by value  -> VALUES ---+-> PLACES -> anomalies
                       -> by time   -> SESSIONS -+

- VALUES: all rows of a value are in one tile, told by a hash of the value.
- SESSIONS: a tile is a stretch of time (of invocations). The last poll of each process in an earlier stretch
  is carried into every later one, and so are assigns; then a tile knows where each process stood.
- PLACES: a tile is a stretch of offsets. Every tile of values sends each stretch its values, and facts of the
  others: the latest invocation below, the least known offset above, how far reads came, when final reads
  began.

Functions here take and return parcels, `(tile, kind, block)`; whoever calls them moves a tile's parcels to
one place (`jepsen.spark.log_checks`, or `run_here` for tests). Sends are only looked at session by session if
the first pass finds that a log's offsets contradict something (`DIRTY`), or if operations send several
values: see `Cut.lanes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from jepsen.log.columns import (
    ASSIGN,
    FAIL,
    NO_VALUE,
    NONE,
    OK,
    POLL,
    ROW_COLUMNS,
    SEND,
    Block,
    Ints,
    concatenate,
    heads,
    mix,
    sort_block,
    sort_order,
    take,
)
from jepsen.log.found import ANOMALIES, FOUND_COLUMNS, Found
from jepsen.log.places import (
    PREFIX_COLUMNS,
    bounds,
    check_places,
    empty_places,
    finals,
    gather,
    known_pairs,
)
from jepsen.log.sessions import SESSION_COLUMNS, check_sessions, in_session, session_rows
from jepsen.log.values import COMMITTED, SINGLE, Values, check_values
from jepsen.log.whole import Rules

WHOLE_ROWS_MAX = 2_000_000
"""Rows of a log up to which one task checks it whole: some 600 MB of memory."""
DIRTY = -1
"""Stands for an anomaly: in this log, sends may be out of order."""
ROWS, SESSION, FOUND = "rows", "session", "found"
POLLS_ONLY, SENDS_ONLY = "polls", "sends"
OF_SENDS = frozenset(number for number, name in enumerate(ANOMALIES) if "-send" in name)

Parcel = tuple[int, str, Block]


class LargeLog(NamedTuple):
    """One log that is cut into tiles. The numbers are what its rows have; None = no row has any."""

    history: int
    log: int
    rows: int
    offset_low: int | None
    offset_high: int | None
    inv_low: int | None
    inv_high: int | None


class Pieces(NamedTuple):
    """The tiles of one log: so many of each kind, and the first one's number."""

    history: int
    log: int
    number: int
    values: int
    sessions: int
    places: int
    offset_low: int
    offset_width: int
    inv_low: int
    inv_width: int


class Cut(NamedTuple):
    """How all large logs are cut. Tiles of VALUES and SESSIONS share one numbering, tiles of PLACES have
    another.
    """

    pieces: tuple[Pieces, ...]
    first_tiles: int
    second_tiles: int
    rules: Rules
    lanes: str = POLLS_ONLY
    """Whose sessions are checked: those of polls, and everything else; or only those of sends."""


def cut(
    large: Iterable[LargeLog], rules: Rules, rows_max: int = WHOLE_ROWS_MAX, lanes: str = POLLS_ONLY
) -> Cut:
    """Tiles of about `rows_max` rows."""
    pieces = []
    first = second = 0
    for log in large:
        count = max(-(-log.rows // rows_max), 1)
        low, high = log.offset_low or 0, log.offset_high or 0
        inv_low, inv_high = log.inv_low or 0, log.inv_high or 0
        pieces.append(
            Pieces(
                log.history,
                log.log,
                count,
                first,
                first + count,
                second,
                low,
                max(-(-(high - low + 1) // count), 1),
                inv_low,
                max(-(-(inv_high - inv_low + 1) // count), 1),
            )
        )
        first += 2 * count
        second += count
    return Cut(tuple(pieces), first, second, rules, lanes)


# -- routing -------------------------------------------------------------------------------------------------


def route(rows: Block, plan: Cut) -> Iterator[Parcel]:
    """Rows of large logs on their way to the tiles of VALUES and SESSIONS. Rows of other logs are left
    out.
    """
    for pieces in plan.pieces:
        here = rows["log"] == pieces.log
        if not here.any():
            continue
        part = rows if here.all() else take(rows, np.flatnonzero(here))
        yield from _to_values(part, pieces)
        yield from _to_sessions(part, pieces, plan.lanes)


def _to_values(rows: Block, pieces: Pieces) -> Iterator[Parcel]:
    began = finals(rows)
    if len(began["log"]):
        yield pieces.values, "finals", began
    wanted = np.flatnonzero((rows["kind"] <= POLL) & (rows["value_kind"] != NO_VALUE))
    columns = {name: rows[name] for name in ROW_COLUMNS if name != "session"}
    if len(wanted) < len(rows["log"]):
        columns = take(columns, wanted)
    tile = (mix(columns["value"]).view(np.uint64) % np.uint64(pieces.number)).astype(np.int64)
    yield from _divided(columns, tile, pieces.values, ROWS)


def _divided(block: Block, tile: Ints, first: int, kind: str) -> Iterator[Parcel]:
    """A parcel for each tile; rows keep their order."""
    if not len(tile):
        return
    low = int(tile.min())
    if int(tile.max()) == low:
        yield first + low, kind, block
        return
    order = np.argsort(tile.astype(np.uint16 if tile.max() < 2**16 else np.int64), kind="stable")
    sizes = np.bincount(tile)
    end = 0
    for number, size in enumerate(sizes.tolist()):
        if size:
            yield first + number, kind, take(block, order[end : end + size])
            end += size


def _to_sessions(rows: Block, pieces: Pieces, lanes: str) -> Iterator[Parcel]:
    if lanes == POLLS_ONLY:
        part = take(session_rows(rows), in_session(rows))
        forward = (part["kind"] == POLL) & (part["outcome"] == OK)
    else:
        part = _send_lanes(rows)
        forward = (part["kind"] == SEND) & (part["outcome"] != FAIL)
    tile = np.clip((part["inv"] - pieces.inv_low) // pieces.inv_width, 0, pieces.number - 1)
    yield from _divided(part, tile, pieces.sessions, SESSION)
    if pieces.number == 1:
        return
    assigns = np.flatnonzero(part["kind"] == ASSIGN)
    last = np.concatenate([_last_of_each(part, tile, np.flatnonzero(forward)), assigns])
    carried = take(part, last)
    carried["carried"] = np.ones(len(last), np.int64)
    for number in range(1, pieces.number):
        earlier = np.flatnonzero(tile[last] < number)
        if len(earlier):
            yield pieces.sessions + number, SESSION, take(carried, earlier)


def _send_lanes(rows: Block) -> Block:
    """Sends with the places they have of themselves; `unsure_sends` gives the others theirs."""
    kind, outcome = rows["kind"], rows["outcome"]
    sends = (kind == SEND) & (rows["value_kind"] != NO_VALUE)
    which = np.flatnonzero(sends | ((kind == ASSIGN) & (outcome != FAIL)))
    part = take(rows, which)
    sure = (part["outcome"] == OK) | (part["seen"] == 1)
    return session_rows(part, np.where(sure, part["offset"], NONE))


def _last_of_each(part: Block, tile: Ints, which: Ints) -> Ints:
    """The last of these rows, by invocation and position, of each process in each tile."""
    if not len(which):
        return which
    process = part["process"][which]
    order = which[sort_order((process, tile[which], part["inv"][which], part["pos"][which]))]
    fresh = heads(part["process"][order], tile[order])
    last: Ints = order[np.append(np.flatnonzero(fresh)[1:] - 1, len(order) - 1)]
    return last


# -- first round ---------------------------------------------------------------------------------------------


def first_round(tile: int, parcels: Iterable[tuple[str, Block]], plan: Cut) -> Iterator[Parcel]:
    """One tile of VALUES or SESSIONS; its parcels go to tiles of PLACES."""
    pieces = next(each for each in reversed(plan.pieces) if each.values <= tile)
    by_kind: dict[str, list[Block]] = {}
    for kind, block in parcels:
        by_kind.setdefault(kind, []).append(block)
    found = Found()
    if tile >= pieces.sessions:
        rows = concatenate(by_kind.get(SESSION, []), SESSION_COLUMNS)
        skips = check_sessions(rows, found, plan.rules.gaps)
        yield from _divided(skips, _place_tile(skips["low"], pieces), pieces.places, "skips")
    else:
        rows = concatenate(by_kind.get(ROWS, []))
        for block in by_kind.get("finals", []):
            yield from _to_all(pieces, "finals", block)
        if rows:
            made = check_values(sort_block(rows, ("offset",)), found, tile)
            yield from _to_places(made, pieces)
    block = found.block()
    if len(block["log"]):
        yield pieces.places, FOUND, block


def _place_tile(offset: Ints, pieces: Pieces) -> Ints:
    """The tile of PLACES for each offset; the first for those that are unknown."""
    known = np.where(offset == NONE, pieces.offset_low, offset)
    tile: Ints = np.clip((known - pieces.offset_low) // pieces.offset_width, 0, pieces.number - 1)
    return tile


def _to_all(pieces: Pieces, kind: str, block: Block) -> Iterator[Parcel]:
    if len(block["log"]):
        for number in range(pieces.number):
            yield pieces.places + number, kind, block


def _to_places(made: Values, pieces: Pieces) -> Iterator[Parcel]:
    values, pairs = made.values, made.pairs
    tile = _place_tile(values["first"], pieces)
    yield from _divided(values, tile, pieces.places, "values")
    yield from _divided(pairs, _place_tile(pairs["offset"], pieces), pieces.places, "pairs")
    if len(made.missing["log"]):
        yield pieces.places, "missing", made.missing
    yield from _to_all(pieces, "readers", made.readers)
    yield from _to_all(pieces, "bounds", bounds(values))
    yield from _prefixes(values, tile, pieces)
    yield from _floors(values, made, pieces)


def _prefixes(values: Block, tile: Ints, pieces: Pieces) -> Iterator[Parcel]:
    """The latest invocation of each stretch of offsets, for all higher ones."""
    wanted = SINGLE | COMMITTED
    which = np.flatnonzero(((values["flags"] & wanted) == wanted) & (values["first"] != NONE))
    columns = tuple(values[name][which] for name in ("send_inv", "first", "pos"))
    order = which[sort_order((tile[which], *columns))]
    fresh = heads(tile[order])
    last = order[np.append(np.flatnonzero(fresh)[1:] - 1, len(order) - 1)] if len(order) else order
    latest = {name: values[name][last] for name in PREFIX_COLUMNS}
    for number in range(1, pieces.number):
        below = np.flatnonzero(tile[last] < number)
        if len(below):
            yield pieces.places + number, "prefixes", take(latest, below)


def _floors(values: Block, made: Values, pieces: Pieces) -> Iterator[Parcel]:
    """The least known offset of each stretch, for all lower ones."""
    offset = np.sort(known_pairs(values, made.pairs)["offset"])
    tile = _place_tile(offset, pieces)
    least = offset[heads(tile)]
    own = tile[heads(tile)]
    for number in range(pieces.number - 1):
        above = least[own > number]
        if len(above):
            block = {"log": np.full(1, pieces.log), "offset": above[:1]}
            yield pieces.places + number, "floors", block


# -- second round --------------------------------------------------------------------------------------------


def second_round(tile: int, parcels: Iterable[tuple[str, Block]], plan: Cut) -> Block:
    """One tile of PLACES: its anomalies, those that the first round sent along, and DIRTY."""
    pieces = next(each for each in reversed(plan.pieces) if each.places <= tile)
    parts = empty_places()
    found = Found()
    for kind, block in parcels:
        if kind == FOUND:
            found.extend(block)
        else:
            parts[kind].append(block)
    places = gather(parts)
    dirty = check_places(places, found, plan.rules.unseen)["log"]
    block = found.block()
    of_sends = np.isin(block["anomaly"], sorted(OF_SENDS))
    if plan.lanes == SENDS_ONLY:
        return take(block, of_sends)
    if len(dirty):
        marker = {name: np.full(1, NONE, np.int64) for name in FOUND_COLUMNS}
        marker |= {"history": np.full(1, pieces.history), "log": np.full(1, pieces.log)}
        marker["anomaly"] = np.full(1, DIRTY)
        block = concatenate([block, marker])
    return block


# -- all of it in one place ----------------------------------------------------------------------------------


def run_here(rows: Block, large: Iterable[LargeLog], rules: Rules, rows_max: int, splits: int = 1) -> Block:
    """All anomalies of the large logs among `rows`, tile by tile in this process; for tests and as a
    definition of what Spark does. `splits`: pieces in which the rows are read.
    """
    listed = list(large)
    block = _rounds(rows, cut(listed, rules, rows_max), splits)
    dirty = set(block["log"][block["anomaly"] == DIRTY].tolist()) | sending_several(rows)
    again = [log for log in listed if log.log in dirty]
    block = take(block, block["anomaly"] != DIRTY)
    if again:
        sends = cut(again, rules, rows_max, SENDS_ONLY)
        block = concatenate([block, _rounds(rows, sends, splits, unsure_sends(rows))])
    return block


def sending_several(rows: Block) -> set[int]:
    """Logs to which some operation sends several micro-operations in."""
    return set(rows["log"][(rows["kind"] == SEND) & (rows["pos"] > 0)].tolist())


def unsure_sends(rows: Block) -> Block:
    """SESSION rows of sends that have no place of themselves, but that polls give one."""
    made = check_values(rows, Found())
    sends = made.rows
    sure = (sends["outcome"] == OK) | (sends["seen"] == 1)
    unsure = (sends["kind"] == SEND) & ~(sure & (sends["offset"] != NONE)) & (made.poll_last != NONE)
    which = np.flatnonzero(unsure)
    return session_rows(take(sends, which), made.poll_last[which])


def route_sessions(rows: Block, plan: Cut) -> Iterator[Parcel]:
    """SESSION rows with their places, as `unsure_sends` makes them, to the tiles of SESSIONS."""
    for pieces in plan.pieces:
        part = take(rows, np.flatnonzero(rows["log"] == pieces.log))
        tile = np.clip((part["inv"] - pieces.inv_low) // pieces.inv_width, 0, pieces.number - 1)
        yield from _divided(part, tile, pieces.sessions, SESSION)
        carried = {**part, "carried": np.ones(len(part["log"]), np.int64)}
        for number in range(1, pieces.number):
            earlier = np.flatnonzero(tile < number)
            if len(earlier):
                yield pieces.sessions + number, SESSION, take(carried, earlier)


def _rounds(rows: Block, plan: Cut, splits: int, placed: Block | None = None) -> Block:
    first: dict[int, list[tuple[str, Block]]] = {}
    for part in np.array_split(np.arange(len(rows["log"])), splits):
        for tile, kind, block in route(take(rows, part), plan):
            first.setdefault(tile, []).append((kind, block))
    for tile, kind, block in route_sessions(placed, plan) if placed is not None else ():
        first.setdefault(tile, []).append((kind, block))
    second: dict[int, list[tuple[str, Block]]] = {}
    for tile in sorted(first):
        for target, kind, block in first_round(tile, first[tile], plan):
            second.setdefault(target, []).append((kind, block))
    return concatenate([second_round(tile, second[tile], plan) for tile in sorted(second)], FOUND_COLUMNS)
