"""Stacks whose values are unique, in O(n log n), and with peeks somewhat more.

A value is certainly on the stack from the first end of its calls to the last start. Two facts decide:

1. **Cut.** If in some gap no value is certainly there, the history falls into two that can be ordered on
   their own: the values that may have left by then, and the others. For leaving out whole values keeps a
   stack's order a stack's order, and no call of the others had ended when one of the first began.
2. **Bottom.** If there is no such gap, then the stack is never empty in between, so that one value lies at
   the bottom: pushed before every other call, and popped behind. Any value may lie there whose push began
   before every other call ended, and whose pop ended behind every other start: put beneath all others, it
   disturbs nobody. Its peeks need gaps in which none of the others is certainly there.

So cut where it is possible, else take away a bottom, until nothing is left; no bottom means no order. What
may be a bottom once may be one for good, because fewer others are left. Values that belong together stay
neighbours by the start of their pops, so that trees over that order answer everything.

A pop or peek that found nothing needs a gap in which no value at all is certainly there.
(Emmi & Enea 2018; Lee & Mathur 2025; the cover of gaps is from Abdulla et al. 2025.)
"""

from __future__ import annotations

import bisect

from liftlog_jepsen.objects.fast_values import Value, check_empties, collect, fewest
from liftlog_jepsen.objects.model import OPEN, Call, Contradiction, tell
from liftlog_jepsen.objects.trees import FAR, Cover, Minimum


def check_stack(calls: list[Call]) -> Contradiction | bool | None:
    """Whether a stack can explain calls push, pop and peek; None = values are not unique, or a pop that never
    returned may explain what the others do not.
    """
    found = collect(calls, "push")
    if found is None:
        return None
    if isinstance(found, Contradiction):
        return found
    wrong = check_empties(found.values, found.empties, "stack")
    if wrong is not None:
        return None if found.unsure else wrong
    stuck = _Stack(found.values).stuck()
    if stuck is None:
        return True
    return None if found.unsure else _explain(stuck)


def _explain(stuck: list[Value]) -> Contradiction:
    def is_bad(calls: list[Call]) -> bool:
        return isinstance(check_stack(calls), Contradiction)

    groups = fewest([one.calls for one in stuck], is_bad)
    calls = tuple(sorted((call for group in groups for call in group), key=lambda call: call.start))
    shown = ", ".join(tell(call) for call in calls[:8]) + (", …" if len(calls) > 8 else "")
    words = f"no order of these {len(calls)} calls takes the last value in out first: {shown}"
    return Contradiction(calls, words)


class _Part:
    """Values begin … end - 1 of the row, which are to be ordered on their own."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.blocked: list[int] = []
        """Bottoms but for their peeks, to be tried again when fewer values are left."""


class _Stack:
    def __init__(self, values: list[Value]) -> None:
        row = sorted(values, key=lambda one: (one.left, one.put.start))
        self.row = row
        self.push_start = [one.put.start for one in row]
        self.pop_end = [OPEN + 1 if one.take is None else one.take.end for one in row]
        positions = {one.entered for one in row} | {one.left for one in row} | set(self.push_start)
        positions |= {edge for one in row for look in one.looks for edge in (look.start, look.end)}
        self.positions = sorted(positions)
        self.place = {position: place for place, position in enumerate(self.positions)}
        self.entered = [self.place[one.entered] for one in row]
        self.left = [self.place[one.left] for one in row]
        self.cover = Cover(len(self.positions))
        for value in range(len(row)):
            self.cover.add(self.entered[value], self.left[value], 1)
        self.gone = [False] * len(row)
        self.first_end = Minimum([one.entered for one in row])
        self.not_low = Minimum(self.push_start)
        self.not_high = Minimum([-end for end in self.pop_end])
        self.bottoms = Minimum([1] * len(row))
        """0 where a value may be a bottom."""
        self.half = [False] * len(row)

    def stuck(self) -> list[Value] | None:
        """Values that have no order, None = all have one."""
        parts = [_Part(0, len(self.row))]
        while parts:
            part = parts.pop()
            self._trim(part)
            if part.begin == part.end:
                continue
            cut = self.cover.uncovered(self.left[part.begin], self.left[part.end - 1])
            if cut >= 0:
                parts += self._cut(part, cut)
                continue
            if not self._take_bottom(part):
                return [self.row[value] for value in range(part.begin, part.end) if not self.gone[value]]
            parts.append(part)
        return None

    def _trim(self, part: _Part) -> None:
        while part.begin < part.end and self.gone[part.begin]:
            part.begin += 1
        while part.begin < part.end and self.gone[part.end - 1]:
            part.end -= 1

    def _cut(self, part: _Part, gap: int) -> list[_Part]:
        """What may have left by the gap, and what comes later."""
        middle = bisect.bisect_right(self.left, gap, part.begin, part.end)
        for value in part.blocked:
            self.bottoms.set(value, 0)
        return [_Part(middle, part.end), _Part(part.begin, middle)]

    def _take_bottom(self, part: _Part) -> bool:
        self._mark(part)
        while True:
            value = self.bottoms.first_below(part.begin, part.end, 1)
            if value < 0:
                return False
            self.bottoms.set(value, 1)
            self.cover.add(self.entered[value], self.left[value], -1)
            if self._peeks_fit(value):
                self.gone[value] = True
                self.first_end.set(value, FAR)
                for other in part.blocked:
                    self.bottoms.set(other, 0)
                part.blocked = []
                return True
            self.cover.add(self.entered[value], self.left[value], 1)
            part.blocked.append(value)

    def _mark(self, part: _Part) -> None:
        """The values that may lie beneath all others of the part, as far as their push and pop go."""
        first_end = self.first_end.smallest(part.begin, part.end)
        while True:
            value = self.not_low.first_below(part.begin, part.end, first_end)
            if value < 0:
                break
            self.not_low.set(value, FAR)
            self._mark_half(value)
        last_start = self.row[part.end - 1].left
        while True:
            value = self.not_high.first_below(part.begin, part.end, -last_start)
            if value < 0:
                break
            self.not_high.set(value, FAR)
            self._mark_half(value)

    def _mark_half(self, value: int) -> None:
        if self.half[value]:
            self.bottoms.set(value, 0)
        self.half[value] = True

    def _peeks_fit(self, value: int) -> bool:
        """Whether each peek of a bottom has a gap in which no other value of its part is certainly there.

        Values of other parts do no harm: where the time of a peek reaches beyond the gap that parts them, it
        contains that gap, and there nothing is.
        """
        one = self.row[value]
        for look in one.looks:
            begin = self.place[max(look.start, one.put.start)]
            end = self.place[look.end]
            if one.take is not None:
                end = min(end, bisect.bisect_left(self.positions, one.take.end))
            if self.cover.uncovered(begin, end) < 0:
                return False
        return True
