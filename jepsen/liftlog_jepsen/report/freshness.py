"""How far readers were behind: acknowledged values that nobody had read yet, and the age of what they missed.

After jepsen.tests.kafka's `unseen` and `realtime-lag`. A value is unseen from the acknowledgement of its send
to the first completion of a poll that returned its offset. A poll that returned offset o lags by the time
that has passed since a higher offset of that log became known, by an acknowledgement or a poll; by nothing if
none had. Neither is an anomaly.

Positions order everything, as in the checks. Times come from `FreshnessClock`, which knows them within a part
of a step. Of a history that is too large to hold, only every n-th offset is looked at; counts are then
estimates.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from liftlog_jepsen.history import FINAL_POLL

ROWS_MAX = 4_000_000
"""Sent and polled records that are held at a time, some 40 bytes each."""
PARTS = 32
"""Parts of a step of the plots that times are known to."""
NEVER = np.iinfo(np.int64).max
COLUMNS = ("key", "offset", "f", "op_f", "op_id", "idx_ret")

Ints = npt.NDArray[np.int64]


class Freshness(NamedTuple):
    """One element per step. `unseen`: values at its end. Lags of the polls that completed in it, in
    nanoseconds: the middle one and the worst; -1 = there was no poll.
    """

    unseen: Ints
    lag_p50: Ints
    lag_worst: Ints


class FreshnessClock:
    """Which positions belong to which time, learned from operations in any order."""

    def __init__(self, t_first_ns: int, width_ns: int, steps: int) -> None:
        self._first, self._part = t_first_ns, max(width_ns / PARTS, 1e-9)
        self._begin = np.full(steps * PARTS, NEVER, np.int64)
        self._ready: Ints | None = None

    def learn(self, positions: Ints, times_ns: Ints) -> None:
        part = np.clip((times_ns - self._first) / self._part, 0, len(self._begin) - 1).astype(np.int64)
        np.minimum.at(self._begin, part, positions)

    def parts(self, positions: Ints) -> Ints:
        """The part of the run, from 0, in which each position lies. Call it when all is learned."""
        if self._ready is None:
            self._ready = np.minimum.accumulate(self._begin[::-1])[::-1]
        found: Ints = np.searchsorted(self._ready, positions, "right") - 1
        return np.clip(found, 0, len(self._begin) - 1)

    def nanoseconds(self, parts: Ints) -> Ints:
        """How long so many parts last."""
        lasting: Ints = (parts * self._part).astype(np.int64)
        return lasting


def every_nth(records: int) -> int:
    """Which offsets to look at in a history with so many sent and polled records: a power of two."""
    return 1 << max(0, -(-records // ROWS_MAX) - 1).bit_length()


def wanted_rows(every: int) -> Any:
    """What to read of the micro-operations: records with an offset that were acknowledged or polled."""
    chosen = pc.field("f").isin(["send", "poll"]) & (pc.field("outcome") == "ok")
    chosen = chosen & pc.field("offset").is_valid() & pc.field("idx_ret").is_valid()
    chosen = chosen & (pc.field("value").is_valid() | pc.field("value_s").is_valid())
    return chosen if every == 1 else chosen & (pc.bit_wise_and(pc.field("offset"), every - 1) == 0)


def freshness(
    batches: Iterable[pa.RecordBatch], clock: FreshnessClock, steps: int, every: int = 1
) -> Freshness:
    """From batches with `COLUMNS`, in any order, of the rows that `wanted_rows` chooses."""
    rows = _Rows(batches)
    order = np.lexsort((rows.offset, rows.key))
    key, offset, position = rows.key[order], rows.offset[order], rows.position[order]
    sent = rows.sent[order]
    if not len(key):
        nothing = np.full(steps, -1, np.int64)
        return Freshness(np.zeros(steps, np.int64), nothing, nothing)
    first = np.flatnonzero(np.r_[True, (key[1:] != key[:-1]) | (offset[1:] != offset[:-1])])
    acked: Ints = np.minimum.reduceat(np.where(sent, position, NEVER), first)
    seen: Ints = np.minimum.reduceat(np.where(sent, NEVER, position), first)
    unseen = _unseen(acked, seen, clock, steps) * every
    superseded = _superseded(key[first], np.minimum(acked, seen))
    group = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(key)]))
    polled = ~sent & ~rows.final[order]
    return Freshness(unseen, *_lags(key, rows.op[order], position, superseded[group], polled, clock, steps))


class _Rows:
    """The columns of all batches; keys and functions as numbers."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        keys: dict[str, int] = {}
        parts: dict[str, list[Any]] = {
            name: [] for name in ("key", "offset", "op", "position", "sent", "final")
        }
        for batch in batches:
            encoded = batch.column("key").cast(pa.string()).dictionary_encode()
            codes = [keys.setdefault(name, len(keys)) for name in encoded.dictionary.to_pylist()]
            numbers = np.array(codes or [0], np.int64)
            parts["key"].append(numbers[encoded.indices.to_numpy(zero_copy_only=False)])
            for name, column in (("offset", "offset"), ("op", "op_id"), ("position", "idx_ret")):
                parts[name].append(batch.column(column).to_numpy(zero_copy_only=False))
            for name, column, word in (("sent", "f", "send"), ("final", "op_f", FINAL_POLL)):
                same = pc.equal(batch.column(column).cast(pa.string()), word)
                parts[name].append(same.to_numpy(zero_copy_only=False))
        self.key: Ints = _joined(parts["key"], np.int64)
        self.offset: Ints = _joined(parts["offset"], np.int64)
        self.op: Ints = _joined(parts["op"], np.int64)
        self.position: Ints = _joined(parts["position"], np.int64)
        self.sent: npt.NDArray[np.bool_] = _joined(parts["sent"], np.bool_)
        self.final: npt.NDArray[np.bool_] = _joined(parts["final"], np.bool_)


def _joined(parts: list[Any], kind: Any) -> Any:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, kind)


def _unseen(acked: Ints, seen: Ints, clock: FreshnessClock, steps: int) -> Ints:
    """How many values are acknowledged and unread at the end of each step."""
    waiting = (acked != NEVER) & (seen > acked)
    begins = clock.parts(acked[waiting]) // PARTS
    ends = seen[waiting]
    ends = clock.parts(ends[ends != NEVER]) // PARTS
    change = np.bincount(begins, minlength=steps) - np.bincount(ends, minlength=steps)
    total: Ints = np.cumsum(change)
    return total


def _superseded(key: Ints, known: Ints) -> Ints:
    """For each offset of each log, ascending: the position at which a higher offset of it became known."""
    result = np.full(len(key), NEVER, np.int64)
    ends = np.flatnonzero(np.r_[key[1:] != key[:-1], True]) + 1
    begin = 0
    for end in map(int, ends):
        later = np.minimum.accumulate(known[begin:end][::-1])[::-1]
        result[begin : end - 1] = later[1:]
        begin = end
    return result


def _lags(
    key: Ints,
    op: Ints,
    position: Ints,
    superseded: Ints,
    polled: npt.NDArray[np.bool_],
    clock: FreshnessClock,
    steps: int,
) -> tuple[Ints, Ints]:
    """(middle, worst) lag of each step's polls. A poll counts by the highest offset that it has of a log."""
    rows = np.flatnonzero(polled)
    # Rows ascend by log and offset: the last one of an operation in a log is its highest.
    rows = rows[np.lexsort((rows, op[rows], key[rows]))]
    mine, whose = key[rows], op[rows]
    last = np.r_[(mine[1:] != mine[:-1]) | (whose[1:] != whose[:-1]), True] if len(rows) else polled[:0]
    rows = rows[last]
    parts = clock.parts(position[rows])
    since = superseded[rows]
    known = since < position[rows]
    lag = np.zeros(len(rows), np.int64)
    lag[known] = clock.nanoseconds(np.maximum(parts[known] - clock.parts(since[known]), 0))
    step = parts // PARTS
    order = np.lexsort((lag, step))
    step, lag = step[order], lag[order]
    middle, worst = np.full(steps, -1, np.int64), np.full(steps, -1, np.int64)
    begins = np.searchsorted(step, np.arange(steps), "left")
    ends = np.searchsorted(step, np.arange(steps), "right")
    some = ends > begins
    middle[some] = lag[(begins[some] + ends[some] - 1) // 2]
    worst[some] = lag[ends[some] - 1]
    return middle, worst
