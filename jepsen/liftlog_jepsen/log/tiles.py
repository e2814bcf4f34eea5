"""Logs that are too large for one task: how they are cut, and what the pieces need of each other.

The same three checks run over three partitions of a log's rows, in two rounds:

    route         rows -> by value  -> VALUES ---+-> PLACES -> anomalies
                       -> by time   -> SESSIONS -+

- VALUES: all rows of a value are in one tile, told by a hash of the value.
- SESSIONS: a tile is a stretch of time (of invocations). The last poll and send of each process in an earlier
  stretch are carried into every later one, and so are assigns; then a tile knows where each process stood.
- PLACES: a tile is a stretch of offsets. Every tile of values sends each stretch its values, and facts of the
  others: the latest invocation below, the least known offset above, how far reads came, when final reads
  began. The first stretch also gets what acknowledgements say of epochs, what SESSIONS could not decide of
  sends, and VALUES know: at which offset polls saw those that were not told theirs.

Functions here take and return parcels, `(tile, kind, block)`; whoever calls them moves a tile's parcels to
one place (`liftlog_jepsen.spark.log_checks`, or `run_here` for tests). Where operations send several values
to a log, the lanes of its sends are looked at in a pass of their own: see `Cut.lanes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from liftlog_jepsen.log.columns import (
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
from liftlog_jepsen.log.epochs import epochs
from liftlog_jepsen.log.found import ANOMALIES, FOUND_COLUMNS, LogFindings
from liftlog_jepsen.log.places import (
    PREFIX_COLUMNS,
    bounds,
    check_places,
    empty_places,
    finals,
    gather,
    known_pairs,
)
from liftlog_jepsen.log.sessions import (
    OPEN_COLUMNS,
    PLACED_COLUMNS,
    SESSION_COLUMNS,
    check_open,
    check_sessions,
    in_session,
    session_rows,
)
from liftlog_jepsen.log.values import COMMITTED, SINGLE, ValueRows, check_values
from liftlog_jepsen.log.whole import Rules

WHOLE_ROWS_MAX = 2_000_000
"""Rows of a log up to which one task checks it whole: some 600 MB of memory."""
ROWS, SESSION, FOUND, OPEN, PLACED = "rows", "session", "found", "open", "placed"
FIRST, SENDS_ONLY = "first", "sends"
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
    several: bool = False
    """Some operation sends several values to it."""


class LogTiles(NamedTuple):
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
    several: bool


class Cut(NamedTuple):
    """How all large logs are cut. Tiles of VALUES and SESSIONS share one numbering, tiles of PLACES have
    another.
    """

    pieces: tuple[LogTiles, ...]
    first_tiles: int
    second_tiles: int
    rules: Rules
    lanes: str = FIRST
    """Which logs' sends are checked in the order of their processes: with FIRST, beside everything else, of
    logs without operations that send several values; with SENDS_ONLY of the others, and nothing else.
    """


def cut(
    large: Iterable[LargeLog], rules: Rules, rows_max: int = WHOLE_ROWS_MAX, lanes: str = FIRST
) -> Cut:
    """Tiles of about `rows_max` rows."""
    pieces = []
    first = second = 0
    for log in large:
        count = max(-(-log.rows // rows_max), 1)
        low, high = log.offset_low or 0, log.offset_high or 0
        inv_low, inv_high = log.inv_low or 0, log.inv_high or 0
        pieces.append(
            LogTiles(
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
                log.several,
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


def _to_values(rows: Block, pieces: LogTiles) -> Iterator[Parcel]:
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


def _to_sessions(rows: Block, pieces: LogTiles, lanes: str) -> Iterator[Parcel]:
    if lanes == SENDS_ONLY:
        part = _send_lanes(rows, assigns=True)
    else:
        part = take(session_rows(rows), in_session(rows))
        if not pieces.several:
            part = concatenate([part, _send_lanes(rows)])
    tile = np.clip((part["inv"] - pieces.inv_low) // pieces.inv_width, 0, pieces.number - 1)
    yield from _divided(part, tile, pieces.sessions, SESSION)
    if pieces.number == 1:
        return
    kind, outcome = part["kind"], part["outcome"]
    polls, sends = (kind == POLL) & (outcome == OK), (kind == SEND) & (outcome != FAIL)
    latest = [_last_of_each(part, tile, np.flatnonzero(lane)) for lane in (polls, sends)]
    last = np.concatenate([*latest, np.flatnonzero(kind == ASSIGN)])
    carried = take(part, last)
    carried["carried"] = np.ones(len(last), np.int64)
    for number in range(1, pieces.number):
        earlier = np.flatnonzero(tile[last] < number)
        if len(earlier):
            yield pieces.sessions + number, SESSION, take(carried, earlier)


def _send_lanes(rows: Block, *, assigns: bool = False) -> Block:
    """Sends with the places they have of themselves; others know those of the rest."""
    kind, outcome = rows["kind"], rows["outcome"]
    wanted = (kind == SEND) & (rows["value_kind"] != NO_VALUE)
    if assigns:
        wanted |= (kind == ASSIGN) & (outcome != FAIL)
    part = take(rows, np.flatnonzero(wanted))
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
    found = LogFindings()
    if tile >= pieces.sessions:
        rows = concatenate(by_kind.get(SESSION, []), SESSION_COLUMNS)
        undecided: list[Block] | None = [] if plan.lanes == FIRST and not pieces.several else None
        skips = check_sessions(rows, found, plan.rules.gaps, undecided)
        for block in undecided or ():
            if len(block["log"]):
                yield pieces.places, OPEN, block
        yield from _divided(skips, _place_tile(skips["low"], pieces), pieces.places, "skips")
    else:
        rows = concatenate(by_kind.get(ROWS, []))
        for block in by_kind.get("finals", []):
            yield from _to_all(pieces, "finals", block)
        if rows:
            made = check_values(sort_block(rows, ("offset",)), found, tile)
            yield from _to_places(made, pieces)
            placed = _placed_by_polls(made)
            if len(placed["log"]):
                yield pieces.places, PLACED, placed
    block = found.block()
    if len(block["log"]):
        yield pieces.places, FOUND, block


def _placed_by_polls(made: ValueRows) -> Block:
    """The places (PLACED_COLUMNS) of sends that do not know their own."""
    rows, place = made.rows, made.poll_last
    sure = ((rows["outcome"] == OK) | (rows["seen"] == 1)) & (rows["offset"] != NONE)
    which = (rows["kind"] == SEND) & (rows["outcome"] != FAIL) & ~sure & (place != NONE)
    columns = {"log": rows["log"], "op": rows["op"], "pos": rows["pos"], "place": place}
    return take(columns, np.flatnonzero(which))


def _place_tile(offset: Ints, pieces: LogTiles) -> Ints:
    """The tile of PLACES for each offset; the first for those that are unknown."""
    known = np.where(offset == NONE, pieces.offset_low, offset)
    tile: Ints = np.clip((known - pieces.offset_low) // pieces.offset_width, 0, pieces.number - 1)
    return tile


def _to_all(pieces: LogTiles, kind: str, block: Block) -> Iterator[Parcel]:
    if len(block["log"]):
        for number in range(pieces.number):
            yield pieces.places + number, kind, block


def _to_places(made: ValueRows, pieces: LogTiles) -> Iterator[Parcel]:
    values, pairs = made.values, made.pairs
    tile = _place_tile(values["first"], pieces)
    yield from _divided(values, tile, pieces.places, "values")
    yield from _divided(pairs, _place_tile(pairs["offset"], pieces), pieces.places, "pairs")
    if len(made.missing["log"]):
        yield pieces.places, "missing", made.missing
    yield from _to_all(pieces, "readers", made.readers)
    yield from _to_all(pieces, "bounds", bounds(values))
    told = epochs(made.rows)
    if len(told["log"]):
        yield pieces.places, "epochs", told
    yield from _prefixes(values, tile, pieces)
    yield from _floors(values, made, pieces)


def _prefixes(values: Block, tile: Ints, pieces: LogTiles) -> Iterator[Parcel]:
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


def _floors(values: Block, made: ValueRows, pieces: LogTiles) -> Iterator[Parcel]:
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


def second_round(parcels: Iterable[tuple[str, Block]], plan: Cut) -> Block:
    """One tile of PLACES: its anomalies, and those that the first round sent along."""
    parts = empty_places()
    found = LogFindings()
    lanes: dict[str, list[Block]] = {OPEN: [], PLACED: []}
    for kind, block in parcels:
        if kind == FOUND:
            found.extend(block)
        elif kind in lanes:
            lanes[kind].append(block)
        else:
            parts[kind].append(block)
    check_places(gather(parts), found, plan.rules.unseen)
    check_open(concatenate(lanes[OPEN], OPEN_COLUMNS), concatenate(lanes[PLACED], PLACED_COLUMNS), found)
    block = found.block()
    of_sends = np.isin(block["anomaly"], sorted(OF_SENDS))
    if plan.lanes == SENDS_ONLY:
        return take(block, of_sends)
    return block


# -- all of it in one place ----------------------------------------------------------------------------------


def run_here(rows: Block, large: Iterable[LargeLog], rules: Rules, rows_max: int, splits: int = 1) -> Block:
    """All anomalies of the large logs among `rows`, tile by tile in this process; for tests and as a
    definition of what Spark does. `splits`: pieces in which the rows are read.
    """
    several = sending_several(rows)
    listed = [log._replace(several=log.log in several) for log in large]
    block = _rounds(rows, cut(listed, rules, rows_max), splits)
    again = [log for log in listed if log.several]
    if again:
        sends = cut(again, rules, rows_max, SENDS_ONLY)
        block = concatenate([block, _rounds(rows, sends, splits, unsure_sends(rows))])
    return block


def sending_several(rows: Block) -> set[int]:
    """Logs to which some operation sends several micro-operations in."""
    return set(rows["log"][(rows["kind"] == SEND) & (rows["pos"] > 0)].tolist())


def unsure_sends(rows: Block) -> Block:
    """SESSION rows of sends that have no place of themselves, but that polls give one."""
    made = check_values(rows, LogFindings())
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
    return concatenate([second_round(second[tile], plan) for tile in sorted(second)], FOUND_COLUMNS)
