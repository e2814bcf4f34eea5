"""Scenarios of anomalies for histories of other families: operations whose answers cannot all be true.

They are told while nothing else is under way, on keys and values that nothing else uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from liftlog_jepsen.events import FAIL, OK
from liftlog_jepsen.formats.edn import Keyword
from liftlog_jepsen.generate.systems import (
    ACCOUNTS,
    BALANCE,
    GROUP,
    UNKNOWN_MAX,
    Answer,
    Choice,
    ObjectSystem,
)

HIGH = 10**12
"""Greater than any value of the rest of the history."""
OWN_KEYS = 10**6
"""From here on keys belong to stories."""


class OverlappingStep(NamedTuple):
    """Operations that overlap, in the order in which they happen. An answer of None is the system's own."""

    operations: tuple[Choice, ...]
    answers: tuple[Answer | None, ...] = ()
    first_process: int = 0


Scenario = Callable[[Any], list[OverlappingStep]]
Micro = tuple[str, int, Any]


def _one(f: str, argument: Any, answer: Answer | None = None, key: Any = None) -> OverlappingStep:
    return OverlappingStep(((f, argument, key),), (answer,))


def _stale_read(system: ObjectSystem) -> list[OverlappingStep]:
    """A read of what was overwritten before it began."""
    return [_one("write", 8), _one("write", 9), _one("read", None, (OK, 8))]


def _stale_unique_read(system: ObjectSystem) -> list[OverlappingStep]:
    old, new = system.fresh(), system.fresh()
    return [_one("write", old), _one("write", new), _one("read", None, (OK, old))]


def _stale_pair(system: ObjectSystem) -> list[OverlappingStep]:
    """Both registers are written at once, and one is read without the other."""
    x, y = Keyword("x"), Keyword("y")
    writes = [[[Keyword("write"), x, n], [Keyword("write"), y, n]] for n in (8, 9)]
    read = [[Keyword("read"), x, 9], [Keyword("read"), y, 8]]
    asked = [[f, name, None] for f, name, _ in read]
    return [_one("txn", writes[0]), _one("txn", writes[1]), _one("txn", asked, (OK, read))]


def _taken_too_often(system: Any) -> list[OverlappingStep]:
    """More is acquired than there is, also if every operation that is open for ever is a release."""
    many = system.free + UNKNOWN_MAX + 1
    return [_one("acquire", None, (OK, None)) for _ in range(many)]


def _forgotten(system: ObjectSystem) -> list[OverlappingStep]:
    return [_one("add", HIGH), _one("contains", HIGH, (OK, False))]


def _out_of_order(put: str, take: str, values: tuple[int, int], wrong: int) -> Scenario:
    """Two values are put and both taken, the wrong one first."""
    takes = (values[wrong], values[1 - wrong])
    return lambda system: [
        *(_one(put, value) for value in values),
        *(_one(take, None, (OK, value)) for value in takes),
    ]


def _too_much(system: Any) -> list[OverlappingStep]:
    return [_one("read", None, (OK, HIGH))]


def _old_text(system: ObjectSystem) -> list[OverlappingStep]:
    old, new = f"{system.fresh()};", f"{system.fresh()};"
    return [_one("put", old, key="own"), _one("put", new, key="own"), _one("get", None, (OK, old), "own")]


# -- transactions --------------------------------------------------------------------------------------------


class _Txn(NamedTuple):
    """A transaction as it ends; reads have their values in it."""

    steps: tuple[Micro, ...]
    outcome: str = OK


def _txn(*steps: Micro, outcome: str = OK) -> _Txn:
    return _Txn(steps, outcome)


def _together(*transactions: _Txn, process: int = 0) -> OverlappingStep:
    """Transactions that overlap, each by a process of its own from `process` on."""
    operations, answers = [], []
    for transaction in transactions:
        done = [[Keyword(f), OWN_KEYS + key, value] for f, key, value in transaction.steps]
        asked = [[f, key, None if f == "r" else value] for f, key, value in done]
        operations.append(("txn", asked, None))
        answers.append((transaction.outcome, asked if transaction.outcome == FAIL else done))
    return OverlappingStep(tuple(operations), tuple(answers), process)


X, Y = 0, 1


def _a(key: int, value: int) -> Micro:
    return ("append", key, value)


def _w(key: int, value: int) -> Micro:
    return ("w", key, value)


def _r(key: int, value: Any) -> Micro:
    return ("r", key, value)


def _steps(*steps: OverlappingStep) -> Scenario:
    return lambda system: list(steps)


_LIST_APPEND: dict[str, Scenario] = {
    "G0": _steps(
        _together(_txn(_a(X, 1), _a(Y, 1)), _txn(_a(X, 2), _a(Y, 2))),
        _together(_txn(_r(X, [1, 2]), _r(Y, [2, 1]))),
    ),
    "G0-process": _steps(
        _together(_txn(_a(X, 1)), process=1),
        _together(_txn(_a(X, 2)), process=1),
        _together(_txn(_r(X, [2, 1]))),
    ),
    "G0-realtime": _steps(
        _together(_txn(_a(X, 1)), process=1),
        _together(_txn(_a(X, 2)), process=2),
        _together(_txn(_r(X, [2, 1]))),
    ),
    "G1a": _steps(_together(_txn(_a(X, 1), outcome=FAIL)), _together(_txn(_r(X, [1])))),
    "G1b": _steps(
        _together(_txn(_a(X, 1), _a(X, 2)), _txn(_r(X, [1]))),
        _together(_txn(_r(X, [1, 2]))),
    ),
    "G1c": _steps(_together(_txn(_a(X, 1), _r(Y, [1])), _txn(_a(Y, 1), _r(X, [1])))),
    "G-single": _steps(
        _together(_txn(_r(X, None), _r(Y, [1])), _txn(_a(X, 1), _a(Y, 1))),
        _together(_txn(_r(X, [1]))),
    ),
    "G-single-process": _steps(
        _together(_txn(_a(X, 1)), process=1),
        _together(_txn(_r(X, None)), process=1),
        _together(_txn(_r(X, [1]))),
    ),
    "G-single-realtime": _steps(
        _together(_txn(_a(X, 1)), process=1),
        _together(_txn(_r(X, None)), process=2),
        _together(_txn(_r(X, [1]))),
    ),
    "G2-item": _steps(
        _together(_txn(_r(X, None), _a(Y, 1)), _txn(_r(Y, None), _a(X, 1))),
        _together(_txn(_r(X, [1]), _r(Y, [1]))),
    ),
    "lost-update": _steps(
        _together(_txn(_r(X, None), _a(X, 1)), _txn(_r(X, None), _a(X, 2))),
        _together(_txn(_r(X, [1, 2]))),
    ),
    "internal": _steps(_together(_txn(_a(X, 1), _r(X, [])))),
    "duplicate-elements": _steps(_together(_txn(_a(X, 1))), _together(_txn(_r(X, [1, 1])))),
    "incompatible-order": _steps(
        _together(_txn(_a(X, 1)), _txn(_a(X, 2))),
        _together(_txn(_r(X, [1, 2])), _txn(_r(X, [2, 1]))),
    ),
    "dirty-update": _steps(
        _together(_txn(_a(X, 1), outcome=FAIL), _txn(_a(X, 2))),
        _together(_txn(_r(X, [1, 2]))),
    ),
}
_RW_REGISTER: dict[str, Scenario] = {
    "G1a": _steps(_together(_txn(_w(X, 1), outcome=FAIL)), _together(_txn(_r(X, 1)))),
    "G1b": _steps(_together(_txn(_w(X, 1), _w(X, 2)), _txn(_r(X, 1)))),
    "G1c": _steps(_together(_txn(_w(X, 1), _r(Y, 1)), _txn(_w(Y, 1), _r(X, 1)))),
    "internal": _steps(_together(_txn(_w(X, 1), _r(X, 2)), _txn(_w(X, 2)))),
    "lost-update": _steps(
        _together(_txn(_w(X, 1))),
        _together(_txn(_r(X, 1), _w(X, 2)), _txn(_r(X, 1), _w(X, 3))),
    ),
}


# -- tallies -------------------------------------------------------------------------------------------------


def _balances(*changes: int) -> Scenario:
    """A read of all accounts in which the first ones differ by this from what they started with."""
    seen = {account: BALANCE for account in range(ACCOUNTS)}
    for account, change in enumerate(changes):
        seen[account] += change
    return lambda system: [_one("read", None, (OK, seen))]


def _lost_element(system: Any) -> list[OverlappingStep]:
    """An element is acknowledged, but the system forgets it at once."""
    element = system.fresh()
    return [_one("add", element, (OK, element))]


def _seen_then_lost(system: Any) -> list[OverlappingStep]:
    element = system.fresh()
    seen = [*system.elements, element]
    return [_one("add", element, (OK, element)), _one("read", None, (OK, seen))]


def _unasked(system: Any) -> list[OverlappingStep]:
    """Something shows up that nobody adds."""
    system.elements.append(HIGH)
    return []


def _twice(system: Any) -> list[OverlappingStep]:
    element = system.fresh()
    seen = [*system.elements, element, element]
    return [_one("add", element), _one("read", None, (OK, seen))]


def _fork(system: Any) -> list[OverlappingStep]:
    """Two reads of a group see two writes in opposite orders."""
    first = GROUP * (OWN_KEYS // GROUP)
    keys = [first + n for n in range(GROUP)]
    asked = [[Keyword("r"), key, None] for key in keys]
    writes = tuple(("write", [[Keyword("w"), key, 1]], None) for key in keys[:2])
    seen = [
        (OK, [[Keyword("r"), key, 1 if key == keys[which] else None] for key in keys]) for which in (0, 1)
    ]
    return [OverlappingStep((*writes, ("read", asked, None), ("read", asked, None)), (None, None, *seen))]


def _without_earlier(system: Any) -> list[OverlappingStep]:
    """A read shows the second of two writes, but not the first."""
    one, two = system.fresh(), system.fresh()
    seen = [*system.elements, two]
    return [_one("write", one), _one("write", two), _one("read", None, (OK, seen))]


_OBJECT = "nonlinearizable"
SCENARIOS: dict[str, dict[str, Scenario]] = {
    "register": {_OBJECT: _stale_unique_read},
    "cas-register": {_OBJECT: _stale_read},
    "multi-register": {_OBJECT: _stale_pair},
    "mutex": {_OBJECT: _taken_too_often},
    "semaphore": {_OBJECT: _taken_too_often},
    "linearizable-set": {_OBJECT: _forgotten},
    "queue": {_OBJECT: _out_of_order("enqueue", "dequeue", (HIGH, HIGH + 1), 1)},
    "stack": {_OBJECT: _out_of_order("push", "pop", (HIGH, HIGH + 1), 0)},
    "priority-queue": {_OBJECT: _out_of_order("insert", "poll", (HIGH, HIGH + 1), 0)},
    "linearizable-counter": {_OBJECT: _too_much},
    "kv": {_OBJECT: _old_text},
    "list-append": _LIST_APPEND,
    "rw-register": _RW_REGISTER,
    "bank": {"wrong-total": _balances(1), "negative-value": _balances(-BALANCE - 1, BALANCE + 1)},
    "jepsen-set": {"lost": _lost_element, "unexpected": _unasked},
    "set-full": {"lost": _seen_then_lost, "duplicated": _twice},
    "jepsen-counter": {"out-of-bounds": _too_much},
    "long-fork": {"long-fork": _fork},
    "comments": {"missing-comment": _without_earlier},
}
"""By family and anomaly: what to tell, given the system that it happens to."""
