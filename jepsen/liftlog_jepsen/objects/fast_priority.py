"""Priority queues whose values are unique, in O(n log n).

A poll of x fits into a gap in which nothing greater is there, and it does not matter what smaller values do.
A value is certainly there from the first end of its calls to the last start (`Value`). Where greater values
hold up its poll, or hurry its insert, it is there longer, but only in gaps in which those are there, too. So
the gaps that are closed for x are those in which a greater value is certainly there, and each poll or peek
needs one that is open: values are put in as late and taken out as early as they can, within one gap if need
be.

A poll or peek that found nothing needs a gap in which nothing is there. The next gap that is free is found in
almost constant time, because gaps are only ever taken.
(Lee & Mathur 2025 give a fast algorithm for complete histories; peeks and open puts are added here.)
"""

from __future__ import annotations

import bisect
from typing import Any

from liftlog_jepsen.objects.fast_values import Value, Values, collect, fewest
from liftlog_jepsen.objects.model import OPEN, Call, Contradiction, tell


def check_priority_queue(calls: list[Call]) -> Contradiction | bool | None:
    """Whether a priority queue, greatest first, can explain calls insert, poll and peek.

    None = values are not unique or cannot be compared, or a poll that never returned may explain what the
    others do not.
    """
    found = collect(calls, "insert")
    if found is None:
        return None
    if isinstance(found, Contradiction):
        return found
    if not comparable(one.value for one in found.values):
        return None
    wrong = _check(found)
    if wrong is None:
        return True
    return None if found.unsure else _explain(found, wrong)


def comparable(values: Any) -> bool:
    """Whether all are numbers, or all are texts."""
    kinds = {
        type(value) if not isinstance(value, (int, float, str)) else isinstance(value, str)
        for value in values
    }
    return kinds <= {True} or kinds <= {False}


class _Gaps:
    """Places of which some are taken; the next that is free."""

    def __init__(self, count: int) -> None:
        self.up = list(range(count + 1))

    def take(self, begin: int, end: int) -> None:
        """Take begin … end - 1."""
        place = self.next(begin)
        while place < end:
            self.up[place] = place + 1
            place = self.next(place)

    def next(self, place: int) -> int:
        """The first free place from here on; the count if there is none."""
        up = self.up
        root = place
        while up[root] != root:
            root = up[root]
        while up[place] != root:
            up[place], place = root, up[place]
        return root


def _check(found: Values) -> tuple[Call, Any] | None:
    """A call that fits nowhere, and the value of it, None for a call that found nothing."""
    edges = {edge for one in found.values for call in one.calls for edge in (call.start, call.end)}
    edges |= {edge for call in found.empties for edge in (call.start, call.end)}
    positions = sorted(edges)
    gaps = _Gaps(len(positions))
    for one in sorted(found.values, key=lambda one: one.value, reverse=True):
        for call, begin, end in _windows(one):
            if gaps.next(bisect.bisect_left(positions, begin)) >= bisect.bisect_left(positions, end):
                return call, one.value
        gaps.take(bisect.bisect_left(positions, one.entered), bisect.bisect_left(positions, one.left))
    for call in found.empties:
        limit = bisect.bisect_left(positions, call.end)
        if gaps.next(bisect.bisect_left(positions, call.start)) >= limit:
            return call, None
    return None


def _windows(one: Value) -> list[tuple[Call, int, int]]:
    """Each poll and peek of a value with the positions between which its own calls let it be."""
    last = OPEN if one.take is None else one.take.end
    found = [(look, max(look.start, one.put.start), min(look.end, last)) for look in one.looks]
    if one.take is not None:
        found.append((one.take, one.left, one.take.end))
    return found


def _explain(found: Values, wrong: tuple[Call, Any]) -> Contradiction:
    """The fewest values that leave a call no gap."""
    call, value = wrong
    own = [one.calls for one in found.values if one.value == value] if value is not None else [(call,)]
    fixed = list(own[0])

    def is_bad(calls: list[Call]) -> bool:
        part = collect([*calls, *fixed], "insert")
        return isinstance(part, Values) and _check(part) is not None

    groups = fewest([one.calls for one in found.values if value is None or one.value > value], is_bad)
    calls = sorted([*fixed, *(each for group in groups for each in group)], key=lambda each: each.start)
    rest = ", ".join(tell(each) for each in calls if each != call)
    more = "something" if value is None else "something greater"
    words = f"{tell(call)}: at every moment of it {more} was there; {rest}"
    return Contradiction((call, *(each for each in calls if each != call)), words)
