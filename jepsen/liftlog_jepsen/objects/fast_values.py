"""What the fast algorithms of queues, stacks and priority queues share: calls by value, gaps, and witnesses.

Time is cut into gaps: gap i lies between the events at positions i and i + 1. A call that started at position
s and ended at e took effect in one of the gaps s … e - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from liftlog_jepsen.events import INFO
from liftlog_jepsen.objects.model import OPEN, Call, Contradiction, freeze, tell

WORK = 2_000_000
"""Calls that are looked at again to make a witness smaller, before it is good enough."""


class Value(NamedTuple):
    """One value of a collection: the call that put it in, at most one that took it out, and looks at it.

    `entered`: the first end of all its calls; from then on the value has certainly been put in. `left`: the
    last start of its calls, OPEN if it was never taken; until then it is certainly still there. Where
    `entered` < `left`, it was there in the gaps between.
    """

    value: Any
    put: Call
    take: Call | None
    looks: tuple[Call, ...]
    entered: int
    left: int

    @property
    def calls(self) -> tuple[Call, ...]:
        taken = () if self.take is None else (self.take,)
        return (self.put, *self.looks, *taken)

    def last_to_start(self) -> Call:
        return max(self.calls, key=lambda call: call.start)


class Values(NamedTuple):
    """The values of a history, in the order in which they were put, and the calls that found nothing.

    `unsure`: there are takes that never returned, which may have taken anything; an order without them is an
    order, but if there is none, one with them may exist.
    """

    values: list[Value]
    empties: list[Call]
    unsure: bool


def collect(calls: Iterable[Call], put: str) -> Values | Contradiction | None:
    """Calls by value; None = a value was put twice, or is nil, so that the fast algorithms do not apply.

    A put that never returned and that nobody saw is left out: it may as well not have happened.
    """
    puts: dict[Any, Call] = {}
    takes: dict[Any, Call] = {}
    looks: dict[Any, list[Call]] = {}
    empties: list[Call] = []
    maybe: dict[Any, list[Call]] = {}
    twice: tuple[Call, Call] | None = None
    unsure = False
    for call in calls:
        if call.f == put:
            value = freeze(call.argument)
            if value is None or value in puts:
                return None
            if call.outcome == INFO:
                maybe.setdefault(value, []).append(call)
            else:
                puts[value] = call
            continue
        if call.outcome == INFO:
            unsure = True
            continue
        value = freeze(call.result)
        if value is None:
            empties.append(call)
        elif call.f == "peek":
            looks.setdefault(value, []).append(call)
        elif value in takes:
            twice = twice or (takes[value], call)
        else:
            takes[value] = call
    for value, several in maybe.items():
        if value in puts or len(several) > 1:
            return None
        if value in takes or value in looks:
            puts[value] = several[0]
    if twice is not None:
        return Contradiction(twice, f"{tell(twice[0])} and {tell(twice[1])}: it was put in once")
    found = []
    for value in (*puts, *(value for value in (*takes, *looks) if value not in puts)):
        seen = tuple(looks.get(value, ()))
        take = takes.get(value)
        if value not in puts:
            call = take or seen[0]
            return Contradiction((call,), f"{tell(call)}: nobody can have put that in")
        one = _value(value, puts[value], take, seen)
        if isinstance(one, Contradiction):
            return one
        found.append(one)
    found.sort(key=lambda one: one.put.start)
    return Values(found, empties, unsure)


def _value(value: Any, put: Call, take: Call | None, looks: tuple[Call, ...]) -> Value | Contradiction:
    """The value, or why its own calls contradict each other."""
    for call in (*looks, *(() if take is None else (take,))):
        if call.end < put.start:
            words = f"{tell(call)} had ended before {tell(put)} began"
            return Contradiction((call, put), words)
        if take is not None and take.end < call.start:
            return Contradiction((take, call), f"{tell(take)} had ended before {tell(call)} began")
    everything = (put, *looks) if take is None else (put, *looks, take)
    entered = min(call.end for call in everything)
    left = OPEN if take is None else max(call.start for call in everything)
    return Value(value, put, take, looks, entered, left)


def check_empties(values: Iterable[Value], empties: Iterable[Call], noun: str) -> Contradiction | None:
    """Whether a call found nothing while something was certainly there all the time, one thing or another."""
    spans = sorted(
        (one.entered, one.left, number) for number, one in enumerate(values) if one.entered < one.left
    )
    listed = list(values)
    waiting = sorted(empties, key=lambda call: call.start)
    place = 0
    begin = until = -1
    chain: list[int] = []
    for call in waiting:
        # Spans that begin at or before this call grow the current stretch, or begin a new one.
        while place < len(spans) and (spans[place][0] <= call.start or spans[place][0] <= until):
            entered, left, number = spans[place]
            if entered > until:
                begin, until, chain = entered, left, [number]
            elif left > until:
                until = left
                chain.append(number)
            place += 1
        if begin <= call.start and call.end <= until:
            needed = [
                listed[number]
                for number in chain
                if listed[number].left > call.start and listed[number].entered < call.end
            ]
            words = (
                f"{tell(call)} found the {noun} empty, but at no moment of it was it empty: "
                + ", then ".join(
                    f"{tell(one.put)} had put a value in"
                    + ("" if one.take is None else f" until {tell(one.take)}")
                    for one in needed[:4]
                )
            )
            return Contradiction((call, *(each for one in needed for each in one.calls)), words)
    return None


def fewest(
    groups: list[tuple[Call, ...]], is_bad: Callable[[list[Call]], bool], work: int = WORK
) -> list[tuple[Call, ...]]:
    """As few groups as will do for `is_bad` to hold: halves are left out, then quarters, then single ones."""
    size = max(1, len(groups) // 2)
    kept = groups
    while True:
        place = 0
        while place < len(kept) and work > 0:
            rest = kept[:place] + kept[place + size :]
            calls = sorted((call for group in rest for call in group), key=lambda call: call.number)
            work -= len(calls)
            if rest and is_bad(calls):
                kept = rest
            else:
                place += size
        if size == 1 or work <= 0:
            return kept
        size = max(1, size // 2)
