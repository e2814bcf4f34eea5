"""What the tallies share: their options, values as keys of Python's sets, and how problems are collected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from liftlog_jepsen.events import FAIL, OK, Operation
from liftlog_jepsen.formats.edn import FrozenMap, Vector, write
from liftlog_jepsen.judgement import Judgement, Problem

SHOWN = 8
"""Values that a sentence lists before it says how many more there are."""


class TallyOptions(NamedTuple):
    """What a history does not say itself.

    total: what all balances of a bank add up to; None = the sum of the first read.
    accounts: a bank's accounts; None = those of the first read.
    negative_balances: whether a bank's balances may be negative.
    linearizable: whether a read of set-full that misses a known element for a while is a fault, or fine as
    long as the element shows up in the end.
    group_size: keys of one group of long-fork; None = as many as the first read has.
    examples: problems of each kind to describe; all are counted.
    """

    total: int | None = None
    accounts: frozenset[Any] | None = None
    negative_balances: bool = False
    linearizable: bool = False
    group_size: int | None = None
    examples: int = 16


def frozen(value: Any) -> Any:
    """`value` with a hash, equal for equal values: lists become `Vector`s, maps `FrozenMap`s."""
    if isinstance(value, list | Vector):
        return Vector(map(frozen, value))
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return FrozenMap({key: frozen(each) for key, each in value.items()})
    return value


def elements(value: Any) -> list[Any]:
    """The elements that a read returned, with hashes; those of a set, which has no order, by their text."""
    if isinstance(value, frozenset | set):
        return sorted(map(frozen, value), key=write)
    return [frozen(each) for each in value]


def is_collection(value: Any) -> bool:
    return isinstance(value, list | tuple | frozenset | set)


def listed(values: Iterable[Any]) -> str:
    """Values as EDN, numbers in their order and the rest by their text; only the first few of many."""
    ordered = sorted(values, key=_by_value)
    more = f" and {len(ordered) - SHOWN} more" if len(ordered) > SHOWN else ""
    return ", ".join(write(value) for value in ordered[:SHOWN]) + more


def _by_value(value: Any) -> tuple[bool, Any, str]:
    number = isinstance(value, int | float)
    return not number, value if number else 0, write(value)


def completed(operations: Iterable[Operation], f: str) -> list[Operation]:
    """The `ok` operations of one function, in the order of their completions."""
    found = [one for one in operations if one.f == f and one.outcome == OK]
    return sorted(found, key=_end)


def _end(operation: Operation) -> int:
    return operation.start if operation.end is None else operation.end


def added(operation: Operation) -> Any:
    """The value that an operation wrote: that of its completion if that has one, as Jepsen has it."""
    said = operation.result if operation.outcome == OK and operation.result is not None else None
    return frozen(operation.argument if said is None else said)


def may_have_happened(operation: Operation) -> bool:
    return operation.outcome != FAIL


class Collected:
    """Problems of one check: all counted, the first few of each kind kept."""

    def __init__(self, examples: int) -> None:
        self._examples = examples
        self._problems: dict[str, list[Problem]] = {}
        self.totals: dict[str, int] = {}

    def wants(self, anomaly: str) -> bool:
        """Whether a description of one more is worth the work."""
        return self.totals.get(anomaly, 0) < self._examples

    def count(self, anomaly: str, number: int = 1) -> None:
        self.totals[anomaly] = self.totals.get(anomaly, 0) + number

    def add(self, anomaly: str, operations: Sequence[int], words: str, **detail: Any) -> None:
        if self.wants(anomaly):
            self._problems.setdefault(anomaly, []).append(
                Problem(anomaly, None, tuple(operations), words, detail)
            )
        self.count(anomaly)

    def judgement(self, reasons: Sequence[str] = ()) -> Judgement:
        """Invalid with any problem, else unknown with any reason."""
        valid = False if self.totals else None if reasons else True
        reasons = reasons if valid is None else ()
        problems = tuple(problem for kind in sorted(self._problems) for problem in self._problems[kind])
        return Judgement(valid, problems, dict(sorted(self.totals.items())), tuple(reasons))


def unknown(reason: str) -> Judgement:
    return Judgement(None, reasons=(reason,))
