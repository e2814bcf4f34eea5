"""Locks, semaphores and counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from liftlog_jepsen.events import BadHistory
from liftlog_jepsen.formats.options import Options
from liftlog_jepsen.objects.fast_order import check_counter
from liftlog_jepsen.objects.model import FALSE, Call, Contradiction, Model, State, freeze, show


class Mutex(Model):
    """A lock that starts free. An acquire or release that answers false found it held, or free."""

    name = "mutex"
    words = "a lock: acquire, release"
    functions = frozenset({"acquire", "release"})
    aliases: ClassVar[Mapping[str, str]] = {"lock": "acquire", "unlock": "release", "try-lock": "acquire"}

    def initial(self, options: Options) -> State:
        return False

    def step(self, state: bool, f: str, argument: Any, result: Any, outcome: str) -> State | None:
        wanted = f == "release"
        if freeze(result) == FALSE:
            return state if state is not wanted else None
        return (not state) if state is wanted else None

    def describe(self, state: bool) -> str:
        return "the lock is held" if state else "the lock is free"


class Semaphore(Model):
    """Permits: release (incr, up, v) gives some back, acquire (decr, down, p) takes some. The value is how
    many, one if there is none. An operation that answers false found no permit. It starts with none, or with
    --initial.
    """

    name = "semaphore"
    words = "permits: acquire (decr), release (incr)"
    functions = frozenset({"acquire", "release"})
    aliases: ClassVar[Mapping[str, str]] = {
        "incr": "release",
        "up": "release",
        "v": "release",
        "signal": "release",
        "decr": "acquire",
        "down": "acquire",
        "p": "acquire",
        "wait": "acquire",
    }

    def initial(self, options: Options) -> State:
        return _start(options)

    def step(self, state: int, f: str, argument: Any, result: Any, outcome: str) -> State | None:
        amount = _amount(f, argument)
        if freeze(result) == FALSE:
            # An acquire that failed found too few; of a release that failed, only "none" is known.
            return state if state < (amount if f == "acquire" else 1) else None
        after = state + amount if f == "release" else state - amount
        return after if after >= 0 else None

    def describe(self, state: int) -> str:
        return "no permit is left" if state == 0 else f"there are {state} permits"


class Counter(Model):
    """A number with add N (also negative), incr and decr (by the value, or one) and read."""

    name = "counter"
    words = "a number: add, incr, decr, read"
    functions = frozenset({"add", "decr", "read"})
    observers = frozenset({"read"})
    aliases: ClassVar[Mapping[str, str]] = {
        "incr": "add",
        "inc": "add",
        "increment": "add",
        "dec": "decr",
        "decrement": "decr",
        "get": "read",
        "r": "read",
    }

    def initial(self, options: Options) -> State:
        return _start(options)

    def step(self, state: int, f: str, argument: Any, result: Any, outcome: str) -> State | None:
        if f == "read":
            return state if result is None or result == state else None
        amount = _amount(f, argument)
        return state + amount if f == "add" else state - amount

    def describe(self, state: int) -> str:
        return f"the counter is {state}"

    def fast(self, calls: list[Call], options: Options) -> Contradiction | bool | None:
        return check_counter(calls, _start(options))


def _start(options: Options) -> int:
    """Formats say how registers start; only a number that somebody chose is meant for a counter, too."""
    return options.initial if type(options.initial) is int else 0


def _amount(f: str, argument: Any) -> int:
    if argument is None:
        return 1
    if isinstance(argument, bool) or not isinstance(argument, int):
        raise BadHistory(f"expected a number as the value of {f}, found {show(argument)}")
    return argument
