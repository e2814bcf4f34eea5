"""Objects whose answers already say the order: counters of equal steps, sets that only grow.

Both put calls into groups that must follow each other, and `order_groups` says whether time allows it.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from typing import Any

from liftlog_jepsen.events import FAIL, OK
from liftlog_jepsen.objects.fast_blocks import Groups, order_groups
from liftlog_jepsen.objects.model import FALSE, TRUE, Call, Contradiction, freeze, tell


def check_counter(calls: list[Call], initial: int) -> Contradiction | bool | None:
    """A counter whose changes are all by the same amount, in O(n log n); None = they are not.

    Reads follow each other by what they saw: k steps, then more. That many changes must lie before each, and
    changes are all alike, so only their times count: a change lies between the last read that ended before it
    began and the first that began after it ended. Filling the spaces between reads from the front, each with
    those changes that must come soonest, succeeds if anything does: two changes may always swap places where
    both are allowed, and one that ended before another began must come sooner, or as soon and is taken first.
    Changes that never returned come last, and may be left out.
    """
    reads: dict[int, list[Call]] = {}
    changes: list[Call] = []
    step = 0
    for call in calls:
        if call.f == "read":
            if call.result is not None:
                reads.setdefault(call.result, []).append(call)
            continue
        amount = (1 if call.argument is None else call.argument) * (1 if call.f == "add" else -1)
        if amount == 0:
            continue
        if step and amount != step:
            return None
        step = amount
        changes.append(call)
    steps: dict[int, list[Call]] = {}
    for value, several in reads.items():
        if isinstance(value, bool) or not isinstance(value, int):
            return Contradiction((several[0],), f"{tell(several[0])}: that is no number")
        count, rest = divmod(value - initial, step) if step else (0, value - initial)
        if rest or count < 0:
            words = f"{tell(several[0])}: no number of steps of {step} leads there from {initial}"
            return Contradiction((several[0],), words)
        steps[count] = several
    if not steps:
        return True
    groups = [steps[count] for count in sorted(steps)]
    found = order_groups(groups)
    if isinstance(found, Contradiction):
        return found
    return _fill(changes, groups, sorted(steps)) or True


def _fill(changes: list[Call], groups: Groups, counts: list[int]) -> Contradiction | None:
    """Whether counts[i] changes can come before the reads of groups[i], for all of them."""
    begins = list(itertools.accumulate((max(call.start for call in group) for group in groups), max))
    ends = [min(call.end for call in group) for group in groups]
    for place in range(len(ends) - 2, -1, -1):
        ends[place] = min(ends[place], ends[place + 1])
    spaces: list[list[tuple[int, int, Call]]] = [[] for _ in range(len(groups) + 1)]
    for call in changes:
        low, high = bisect.bisect_left(ends, call.start), bisect.bisect_right(begins, call.end)
        if low > high:
            # It came after a read of as much as another saw that it came before, or more.
            later = min((read for group in groups[low - 1 :] for read in group), key=_end)
            sooner = max((read for group in groups[: high + 1] for read in group), key=_start)
            words = f"{tell(call)} came after {tell(later)} had ended, and before {tell(sooner)} began"
            return Contradiction((later, call, sooner), words)
        spaces[low].append((high, call.end, call))
    waiting: list[tuple[int, int, Call]] = []
    taken: list[tuple[int, int]] = []
    """The last space that a change was good for, and the one that it was taken for."""
    for space, count in enumerate(counts):
        for change in spaces[space]:
            heapq.heappush(waiting, change)
        while waiting and len(taken) < count:
            taken.append((heapq.heappop(waiting)[0], space))
        if len(taken) < count:
            read = min((read for group in groups[space:] for read in group), key=_end)
            before = [call for call in changes if call.start < read.end]
            words = f"{tell(read)}: only {len(before)} changes can have come before it"
            return Contradiction((read, *before), words)
        if waiting and waiting[0][0] <= space:
            return _too_many(
                changes, groups, space, max((at for high, at in taken if high > space), default=-1)
            )
    return None


def _too_many(changes: list[Call], groups: Groups, space: int, since: int) -> Contradiction:
    """More changes must come before the reads of a space than they saw: since an earlier one, if `since` ≥ 0,
    at which what could have waited was taken, because there was nothing else.
    """
    late = max((read for group in groups[: space + 1] for read in group), key=_start)
    forced = [call for call in changes if call.end < late.start]
    if since < 0:
        return Contradiction(
            (late, *forced), f"{tell(late)}: {len(forced)} changes had ended before it began"
        )
    early = min((read for group in groups[since:] for read in group), key=_end)
    between = [call for call in forced if call.start > early.end]
    words = f"{len(between)} changes began after {tell(early)} had ended, and ended before {tell(late)} began"
    return Contradiction((early, late, *between), words)


def _start(call: Call) -> int:
    return call.start


def _end(call: Call) -> int:
    return call.end


def check_grown_set(calls: list[Call]) -> Contradiction | bool | None:
    """A set that is only added to, each element once, and read as a whole; None = something else happens.

    Reads follow each other by size; what one saw first was added just before it.
    """
    adds: dict[Any, Call] = {}
    reads: list[tuple[frozenset[Any], Call]] = []
    for call in calls:
        if call.f == "read":
            reads.append((frozenset(map(freeze, call.result)), call))
            continue
        element = freeze(call.argument)
        said = freeze(call.result) in (TRUE, FALSE, "true", "false") and freeze(call.result) != element
        if call.f != "add" or call.outcome == FAIL or said or element in adds:
            return None
        adds[element] = call
    if not reads:
        return None
    reads.sort(key=lambda read: len(read[0]))
    groups: Groups = []
    before: frozenset[Any] = frozenset()
    last: Call | None = None
    placed: set[Any] = set()
    for elements, read in reads:
        if not before <= elements:
            assert last is not None
            return Contradiction(
                (last, read), f"{tell(last)} and {tell(read)}: neither set contains the other"
            )
        unknown = [element for element in elements if element not in adds]
        if unknown:
            return Contradiction((read,), f"{tell(read)}: nobody can have added all of that")
        if len(elements) > len(before) or not groups:
            new = [call for element, call in adds.items() if element in elements and element not in placed]
            placed |= elements
            groups += [new, []]
        groups[-1].append(read)
        before, last = elements, read
    groups.append([call for element, call in adds.items() if element not in placed and call.outcome == OK])
    found = order_groups(groups)
    if not isinstance(found, Contradiction):
        return True
    first, second = found.calls
    for elements, read in reads:
        # Of two adds, the read between them says which came later.
        if "read" not in (first.f, second.f) and freeze(second.argument) in elements:
            words = f"{found.words}; {tell(read)} saw the one and not the other"
            return Contradiction((first, second, read), words)
    return found
