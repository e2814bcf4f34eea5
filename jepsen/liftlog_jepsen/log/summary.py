"""What a task reports: the first few anomalies of every kind, and how many there are."""

from __future__ import annotations

import numpy as np

from liftlog_jepsen.log.columns import Block, concatenate, heads, take
from liftlog_jepsen.log.found import FOUND_COLUMNS

SUMMARY_COLUMNS = (*FOUND_COLUMNS, "count", "keys")
_ORDER = ("op_1", "op_2", "value_op", "value_pos", "offset", "other_offset", "process", "other_op", "log")


def summarize(found: Block, examples: int, *, parts: bool = False) -> Block:
    """The first `examples` anomalies (at least one) of every kind and history, the earliest operations first.

    The first of each kind has the number of all of them and of their logs in `count` and `keys`, the others
    0. Tasks that had whole logs may add these up. `parts`: the task had parts of logs; then every log
    is summed up on its own, and `keys` is 0, since other parts may report the same log.
    """
    kind = ("history", "anomaly", "log") if parts else ("history", "anomaly")
    order = np.lexsort(tuple(found[name] for name in reversed((*kind, *_ORDER))))
    found = take(found, order)
    fresh = heads(*(found[name] for name in kind))
    starts = np.flatnonzero(fresh)
    sizes = np.diff(np.append(starts, len(fresh)))
    rank = np.arange(len(fresh)) - np.repeat(starts, sizes)
    count, keys = np.zeros(len(fresh), np.int64), np.zeros(len(fresh), np.int64)
    count[starts] = sizes
    if not parts:
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            keys[start] = len(np.unique(found["log"][start : start + size]))
    return take({**found, "count": count, "keys": keys}, rank < max(examples, 1))


def no_summary() -> Block:
    return concatenate([], SUMMARY_COLUMNS)
