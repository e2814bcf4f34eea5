"""Columns of numbers: what the log checks compute with, how they sort, and how they travel.

A `Block` is a set of int64 columns of one length. Texts never travel: a log is a number (a hash of its
history and key), a value is its integer or the hash of its string, and whoever reports anomalies looks the
texts up by operation. `pack` makes a block small: every column is stored in as few bytes as its range needs.

Pure numpy: the package travels to Spark's workers by value (see `liftlog_jepsen.spark.log_checks`), so it
imports nothing of the project but itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Block = dict[str, Ints]

SEND, POLL, ASSIGN, REBALANCE = 0, 1, 2, 3
"""Kinds of rows. An assign or subscribe has one row for each log that it names, a rebalance likewise."""
OK, FAIL, INFO = 0, 1, 2
NO_VALUE, INTEGER, STRING = 0, 1, 2
"""What the column `value` holds."""
NONE = int(np.iinfo(np.int64).min)
"""Stands for null."""
LATE = int(np.iinfo(np.int64).max)

ROW_COLUMNS = (
    "history",
    "log",
    "kind",
    "op",
    "pos",
    "offset",
    "value_kind",
    "value",
    "process",
    "outcome",
    "inv",
    "ret",
    "final",
    "session",
    "seen",
    "epoch",
    "leader",
)
"""One row per micro-operation, with its operation's columns. `final`: part of a process's final reads, all of
which succeeded. `session`: assigns and subscribes of this process so far, this one included. `seen`: an info
operation with several values, of which an ok poll read some. `epoch`, `leader`: as an acknowledgement named
them.
"""


def take(block: Block, which: npt.NDArray[np.generic] | slice) -> Block:
    """Some rows of every column: a mask, row numbers, or a slice."""
    if isinstance(which, np.ndarray) and which.dtype == np.bool_:
        if which.all():
            return block
        which = np.flatnonzero(which)
    return {name: column[which] for name, column in block.items()}


def concatenate(blocks: Sequence[Block], columns: Iterable[str] = ()) -> Block:
    """Blocks with the same columns, one after the other; `columns` are those of no blocks at all."""
    if not blocks:
        return {name: np.zeros(0, np.int64) for name in columns}
    if len(blocks) == 1:
        return blocks[0]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def length(block: Block) -> int:
    return len(next(iter(block.values())))


# -- order ---------------------------------------------------------------------------------------------------


def sort_order(keys: Sequence[Ints]) -> Ints:
    """The stable order by several columns, the most important first. Nearly sorted columns cost little."""
    combined = combine(keys)
    if combined is None:
        return np.lexsort(tuple(reversed(keys)))
    return np.argsort(combined, kind="stable")


def sort_block(block: Block, names: Sequence[str]) -> Block:
    """A block sorted by some of its columns; the same one if it is sorted already."""
    keys = [block[name] for name in names]
    combined = combine(keys)
    if combined is None:
        return take(block, np.lexsort(tuple(reversed(keys))))
    if bool((combined[1:] >= combined[:-1]).all()):
        return block
    return take(block, np.argsort(combined, kind="stable"))


def combine(keys: Sequence[Ints]) -> Ints | None:
    """Columns as one, which has the same order, NONE last; None if 63 bits are too few for their ranges."""
    combined: Ints | None = None
    product = 1
    for key in keys:
        if not len(key):
            return key
        low, high = int(key.min()), int(key.max())
        if low == NONE:
            missing = key == NONE
            low = int(np.where(missing, LATE, key).min())
            low, high = (0, 0) if low == LATE else (low, high)
            key = np.where(missing, high + 1, key)
            high += 1
        span = high - low + 1
        product *= span
        if product >= 2**63:
            return None
        distance = key - low
        combined = distance if combined is None else combined * span + distance
    return combined


def heads(*columns: Ints) -> Bools:
    """Where a run of rows begins that are equal in all columns."""
    fresh = np.zeros(len(columns[0]), np.bool_)
    fresh[:1] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh


def codes(numbers: Ints, *, by_appearance: bool = False) -> tuple[Ints, Ints]:
    """Each number's place among the distinct ones, and these, ascending or in the order in which they appear
    first. Cheap where runs are long.
    """
    starts = np.flatnonzero(heads(numbers))
    distinct, first, inverse = np.unique(numbers[starts], return_index=True, return_inverse=True)
    inverse = inverse.astype(np.int64)
    if by_appearance:
        order = np.argsort(first, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        distinct, inverse = distinct[order], rank[inverse]
    lengths = np.diff(np.append(starts, len(numbers)))
    return np.repeat(inverse, lengths), distinct


def latest_place(marked: Bools) -> Ints:
    """For every row the last marked row up to it, -1 if there is none."""
    return np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))


_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(numbers: Ints) -> Ints:
    """A bijection that scatters numbers evenly (the finalizer of splitmix64)."""
    x = numbers.astype(np.uint64)
    x ^= x >> np.uint64(30)
    x *= _MIX_1
    x ^= x >> np.uint64(27)
    x *= _MIX_2
    x ^= x >> np.uint64(31)
    return x.view(np.int64)


# -- packing -------------------------------------------------------------------------------------------------


def pack(block: Mapping[str, Ints]) -> bytes:
    """A block as bytes: for every column its least number and the distances from it, in 0 to 8 bytes each.

    `NONE` would make every range huge, so that a column with some of it gets a bitmap.
    """
    header: list[tuple[str, int, int, int]] = []
    parts: list[bytes] = []
    for name, column in block.items():
        missing = column == NONE
        flagged = bool(missing.any())
        present = column[~missing] if flagged else column
        low = int(present.min()) if len(present) else 0
        span = int(present.max()) - low + 1 if len(present) else 1
        width = 0 if span == 1 else next((bits for bits in (1, 2, 4) if span <= 2 ** (8 * bits)), 8)
        header.append((name, low, width, int(flagged)))
        if flagged:
            parts.append(np.packbits(missing).tobytes())
            column = np.where(missing, low, column)
        if width:
            parts.append((column - low).astype(f"<u{width}").tobytes() if width < 8 else column.tobytes())
    head = json.dumps([length(dict(block)), header], separators=(",", ":")).encode()
    return b"".join((len(head).to_bytes(4, "little"), head, *parts))


def unpack(data: bytes | memoryview) -> Block:
    """The block that `pack` made bytes of."""
    view = memoryview(data)
    begin = 4 + int.from_bytes(view[:4], "little")
    rows, header = json.loads(bytes(view[4:begin]))
    block: Block = {}
    for name, low, width, flagged in header:
        missing = None
        if flagged:
            size = (rows + 7) // 8
            bits = np.frombuffer(view[begin : begin + size], np.uint8)
            missing = np.unpackbits(bits, count=rows).astype(np.bool_)
            begin += size
        if not width:
            column = np.full(rows, low, np.int64)
        elif width == 8:
            column = np.frombuffer(view[begin : begin + 8 * rows], np.int64).copy()
        else:
            column = np.frombuffer(view[begin : begin + width * rows], f"<u{width}").astype(np.int64)
            column += low
        begin += width * rows
        if missing is not None:
            column[missing] = NONE
        block[name] = column
    return block
