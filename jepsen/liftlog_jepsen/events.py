"""Histories as other tools write them: events, and the operations that they make up.

Readers of foreign formats (`liftlog_jepsen/formats/`) bring every history into this form; checkers of objects
(`liftlog_jepsen/objects/`), of transactions (`liftlog_jepsen/transactions/`) and of counters and sets start
from it.

An `Event` is one line of a Jepsen history: an invocation or a completion. `pair` joins them to `Operation`s.
Positions, not times, decide what overlaps: an operation ended before another began if its `end` is smaller
than the other's `start`. Formats that give intervals instead of lines turn them into positions by their own
rule for equal times (`order_intervals`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from liftlog.types import LiftlogError

INVOKE, OK, FAIL, INFO = "invoke", "ok", "fail", "info"
CLOSED, HALF_OPEN = "closed", "half-open"
INTERVALS = (CLOSED, HALF_OPEN)
"""At equal times, an invocation comes before a completion (closed: they overlap) or behind it (half-open)."""


class BadHistory(LiftlogError):
    """A history that cannot be read: which file, which line, and what was expected there."""


class Event(NamedTuple):
    """One line of a history. `type`: invoke, ok, fail or info. `time`: nanoseconds, -1 = not said.

    `value`: numbers, texts, None, lists (also for EDN's vectors), tuples (EDN's lists), dicts, frozensets.
    `number`: Jepsen's `:index`,
    -1 = not said. `extra`: whatever else the line says, by name, for an export without loss.
    """

    process: int | str
    type: str
    f: str
    value: Any = None
    key: Any = None
    time: int = -1
    number: int = -1
    error: Any = None
    extra: tuple[tuple[str, Any], ...] = ()


class Operation(NamedTuple):
    """An invocation with its completion. `number`: from 0 in the order of invocations, within its history.

    `outcome`: ok, fail or info (nobody knows; also if nothing ever came back). `argument` is the value of the
    invocation, `result` that of the completion (None without one). `start` and `end` are positions; `end`
    None = open for ever. An `info` is always open: it may take effect at any later time.
    """

    number: int
    process: int | str
    f: str
    argument: Any
    result: Any
    outcome: str
    start: int
    end: int | None
    key: Any = None
    time: int = -1
    end_time: int = -1
    error: Any = None


def pair(events: Iterable[Event], source: str) -> list[Operation]:
    """Operations in the order of their invocations. Events of processes that are no number (a nemesis) are
    left out.

    Raises BadHistory for a process that invokes twice at a time, or completes what it did not invoke.
    """
    events = list(events)
    listed = [event for event in events if isinstance(event.process, int)]
    if events and not listed:
        return []  # nothing but a nemesis: there is nothing to hold against any model
    if not any(event.type == INVOKE for event in listed):
        raise BadHistory(f"{source}: no operation is ever invoked; is it of another format?")
    waiting: dict[int | str, tuple[int, Event]] = {}
    found: dict[int, Operation] = {}
    count = 0
    numbers: dict[int | str, int] = {}
    for position, event in enumerate(listed):
        if event.type == INVOKE:
            if event.process in waiting:
                raise BadHistory(
                    f"{source}: process {event.process} invokes {event.f} (event {position}) before its "
                    f"operation of event {waiting[event.process][0]} has ended"
                )
            waiting[event.process] = (position, event)
            numbers[event.process] = count
            count += 1
            continue
        if event.process not in waiting:
            raise BadHistory(
                f"{source}: process {event.process} completes {event.f} (event {position}), "
                "which it never invoked"
            )
        start, asked = waiting.pop(event.process)
        number = numbers.pop(event.process)
        found[number] = join(number, start, asked, position, event)
    for process, (start, asked) in waiting.items():
        found[numbers[process]] = join(numbers[process], start, asked, None, None)
    return [found[number] for number in range(count)]


def join(number: int, start: int, asked: Event, position: int | None, answer: Event | None) -> Operation:
    """An invocation at `start` and its completion at `position`; None = it never came."""
    outcome = answer.type if answer is not None else INFO
    return Operation(
        number,
        asked.process,
        asked.f,
        asked.value,
        answer.value if answer is not None else None,
        outcome,
        start,
        position if outcome != INFO else None,
        asked.key if asked.key is not None else (answer.key if answer is not None else None),
        asked.time,
        answer.time if answer is not None else -1,
        answer.error if answer is not None else None,
    )


def order_intervals(intervals: Iterable[tuple[Event, int, Event, int]], rule: str) -> list[Event]:
    """Events of operations that are given as (invocation, begin, completion, end), in one order.

    `rule`: closed or half-open, see `INTERVALS`. Equal times of one kind keep the order in which they came.
    If half-open, an operation without length lies between what ends and what begins at its time.
    """
    begins, ends, instant = {CLOSED: (0, 2, (0, 2)), HALF_OPEN: (2, 0, (1, 1))}[rule]
    listed: list[tuple[int, int, int, int, Event]] = []
    for place, (asked, begin, answer, end) in enumerate(intervals):
        first, last = (begins, ends) if begin < end else instant
        listed.append((begin, first, place, 0, asked))
        listed.append((end, last, place, 1, answer))
    return [each[-1] for each in sorted(listed, key=lambda each: each[:-1])]
