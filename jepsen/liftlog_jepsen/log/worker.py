"""What runs in Spark's Python workers: Arrow batches in, the checks, Arrow batches out.

Parcels of tiles travel as rows (tile, kind, data) with a packed block in `data`: Spark then moves thousands
of rows instead of a hundred million.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from liftlog_jepsen.log.columns import NONE, ROW_COLUMNS, Block, Ints, concatenate, length, pack, unpack
from liftlog_jepsen.log.summary import summarize
from liftlog_jepsen.log.tiles import Cut, Parcel, first_round, route, route_sessions, second_round
from liftlog_jepsen.log.whole import Rules, check_whole

ROUTED_ROWS = 1 << 20
"""Rows that are divided among tiles together: the more, the larger the parcels."""
PARCEL_SCHEMA = pa.schema([("tile", pa.int32()), ("kind", pa.string()), ("data", pa.binary())])
PARCEL_DDL = "tile int, kind string, data binary"
ROUTE, ROUTE_SESSIONS = "route", "route-sessions"


def as_block(batch: pa.RecordBatch) -> Block:
    """Columns of int64 with null as NONE. Shares memory with the batch where it can."""
    return {name: as_numbers(batch.column(place)) for place, name in enumerate(batch.schema.names)}


def as_numbers(column: pa.Array) -> Ints:
    if column.null_count:
        column = column.fill_null(NONE)
    numbers: Ints = column.to_numpy()
    return numbers


def as_batch(block: Block) -> pa.RecordBatch:
    """The other way round: NONE becomes null."""
    arrays = []
    for each in block.values():
        column = np.ascontiguousarray(each, np.int64)
        missing = column == NONE
        arrays.append(pa.array(column, mask=missing) if missing.any() else pa.array(column))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(name, pa.int64()) for name in block]))


def check_rows(
    batches: Iterator[pa.RecordBatch], rules: Rules, examples: int | None
) -> Iterator[pa.RecordBatch]:
    """Checks one task's rows (ROW_COLUMNS), which are whole logs. With `examples` only its `summarize`."""
    blocks = [as_block(batch) for batch in batches if batch.num_rows]
    if blocks:
        yield from reported(check_whole(concatenate(blocks, ROW_COLUMNS), rules), examples)


def reported(found: Block, examples: int | None, *, parts: bool = False) -> Iterator[pa.RecordBatch]:
    """Anomalies, or with `examples` their summary."""
    if len(found["log"]):
        yield as_batch(found if examples is None else summarize(found, examples, parts=parts))


def route_rows(batches: Iterable[pa.RecordBatch], plan: Cut, how: str = ROUTE) -> Iterator[pa.RecordBatch]:
    """Rows of large logs as parcels for the first round."""
    send = route if how == ROUTE else route_sessions
    waiting: list[Block] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(as_block(batch))
            rows += batch.num_rows
        if rows >= ROUTED_ROWS:
            yield from _as_rows(send(concatenate(waiting), plan))
            waiting, rows = [], 0
    if waiting:
        yield from _as_rows(send(concatenate(waiting), plan))


def route_block(rows: Block, plan: Cut) -> Iterator[pa.RecordBatch]:
    """Like `route_rows`, of rows that were read here."""
    yield from _as_rows(route(rows, plan))


def _as_rows(parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
    for tile, kind, block in parcels:
        if length(block):
            columns = [
                pa.array([tile], pa.int32()),
                pa.array([kind]),
                pa.array([pack(block)], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=PARCEL_SCHEMA)


def run_first(batches: Iterator[pa.RecordBatch], plan: Cut) -> Iterator[pa.RecordBatch]:
    """The first round over all tiles of one task."""
    for tile, parcels in _by_tile(batches):
        yield from _as_rows(first_round(tile, parcels, plan))


def run_second(
    batches: Iterator[pa.RecordBatch], plan: Cut, examples: int | None
) -> Iterator[pa.RecordBatch]:
    """The second round over all tiles of one task: anomalies, or their summary."""
    for _, parcels in _by_tile(batches):
        yield from reported(second_round(parcels, plan), examples, parts=True)


def _by_tile(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Sequence[tuple[str, Block]]]]:
    """One tile after the other. Only the bytes of the others are in memory meanwhile."""
    tiles: dict[int, list[tuple[str, bytes]]] = {}
    for batch in batches:
        columns = (batch.column(place).to_pylist() for place in range(3))
        for tile, kind, data in zip(*columns, strict=True):
            tiles.setdefault(tile, []).append((kind, data))
    for tile in sorted(tiles):
        # In one order, whatever the shuffle did: what is equal must come out equal.
        parcels = sorted(tiles.pop(tile))
        yield tile, [(kind, unpack(data)) for kind, data in parcels]
