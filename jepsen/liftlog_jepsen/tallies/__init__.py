"""Checks that count: Jepsen's bank, set, set-full, counter, long-fork and comments, by their definitions.

    from liftlog_jepsen.tallies import TallyOptions, check_tally

    judgement = check_tally("bank", operations, TallyOptions(total=100))

Operations come from `liftlog_jepsen.events.pair`; the judgement is what objects and transactions give, too.
All are linear in the history, or nearly. Where they differ from Jepsen's code, the module that does says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from liftlog.types import LiftlogError
from liftlog_jepsen.events import Operation
from liftlog_jepsen.formats.edn import write
from liftlog_jepsen.judgement import Judgement, merge
from liftlog_jepsen.tallies.bank import check_bank
from liftlog_jepsen.tallies.comments import check_comments
from liftlog_jepsen.tallies.common import TallyOptions, frozen
from liftlog_jepsen.tallies.counter import check_counter
from liftlog_jepsen.tallies.long_fork import check_long_fork
from liftlog_jepsen.tallies.sets import check_set, check_set_full

__all__ = ["ALIASES", "ANOMALIES", "TALLIES", "TallyOptions", "check_tally"]

Tally = Callable[[Iterable[Operation], TallyOptions | None], Judgement]

TALLIES: dict[str, Tally] = {
    "bank": check_bank,
    "jepsen-set": check_set,
    "set-full": check_set_full,
    "jepsen-counter": check_counter,
    "long-fork": check_long_fork,
    "comments": check_comments,
}
ALIASES = {"set": "jepsen-set", "counter": "jepsen-counter"}
"""These names are also linearizable objects: whoever has a choice asks for the full name."""

ANOMALIES = {
    "unexpected-key": "bank: a read shows an account that there is not",
    "nil-balance": "bank: a read shows an account without balance",
    "wrong-total": "bank: the balances of a read do not add up to the total",
    "negative-value": "bank: a read shows a balance below zero",
    "lost": "set, set-full: an element that was there is not in the last read",
    "unexpected": "set: a read element that nobody tried to add",
    "stale": "set-full, if linearizable: a read missed an element that was known, and that came back later",
    "duplicated": "set-full: one read returned an element twice",
    "out-of-bounds": "counter: a read below what was acknowledged, or above what was ever asked for",
    "long-fork": "long-fork: two reads saw two writes in opposite orders",
    "missing-comment": "comments: a read saw a write, but not one that had ended before it began",
}
"""Every anomaly, with its meaning in one line."""


def check_tally(name: str, operations: Iterable[Operation], options: TallyOptions | None = None) -> Judgement:
    """Judge one history. Operations that name a key are judged key by key.

    Raises LiftlogError for a name that does not exist.
    """
    tally = TALLIES.get(ALIASES.get(name, name))
    if tally is None:
        raise LiftlogError(f"there is no tally {name}; there are {', '.join(TALLIES)}")
    by_key: dict[Any, list[Operation]] = {}
    for operation in operations:
        by_key.setdefault(frozen(operation.key), []).append(operation)
    if set(by_key) <= {None}:
        return tally(by_key.get(None, []), options)
    parts = []
    for key, some in by_key.items():
        part = tally(some, options)
        text = None if key is None else write(key)
        problems = tuple(problem._replace(key=text) for problem in part.problems)
        parts.append(part._replace(problems=problems))
    return merge(parts)
