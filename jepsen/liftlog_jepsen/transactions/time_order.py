"""The order that processes and time give to transactions, and where cycles can be at all.

Both orders are given by few edges whose paths say the rest, instead of all n² pairs.

**Where cycles can be.** Sort the transactions by a guess at when they took effect. A cycle must somewhere
lead back, so it lies within the stretch that overlapping backward edges of data span; edges of time never
lead back. Outside of such stretches nothing is looked at again. The guess may be wrong without harm: every
order gives the same cycles, and a bad one only makes the stretches longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from liftlog_jepsen.events import FAIL, OK
from liftlog_jepsen.transactions.classify import PROCESS, REALTIME
from liftlog_jepsen.transactions.reading import Transaction

Triple = tuple[int, int, str]


def stretches(transactions: Sequence[Transaction], edges: Sequence[Triple]) -> list[list[Transaction]]:
    """The transactions that may lie on cycles of `edges` and time, in groups that share no cycle.

    Node numbers of `edges` are places in `transactions`. O(transactions · log + edges).
    """
    order = _guess(transactions, edges)
    place = [0] * len(transactions)
    for at, node in enumerate(order):
        place[node] = at
    reach = list(range(len(order)))
    for source, target, _ in edges:
        first, last = place[target], place[source]
        if reach[first] < last:
            reach[first] = last
    found: list[list[Transaction]] = []
    at = 0
    while at < len(order):
        start, end = at, reach[at]
        while at < end:
            at += 1
            end = max(end, reach[at])
        if end > start:
            found.append([transactions[order[each]] for each in range(start, end + 1)])
        at += 1
    return found


def _guess(transactions: Sequence[Transaction], edges: Sequence[Triple]) -> list[int]:
    """The places in `transactions` by when each took effect: at its end; just before the first that depends
    on it, if it is unknown when it ended; after all others, if nothing does.
    """
    never = float("inf")
    moments = [never if each.end is None else float(each.end) for each in transactions]
    seen = [never] * len(transactions)
    for source, target, _ in edges:
        if transactions[source].end is None and moments[target] < seen[source]:
            seen[source] = moments[target]
    for at, transaction in enumerate(transactions):
        if transaction.end is None and seen[at] < moments[at]:
            moments[at] = max(seen[at] - 0.5, float(transaction.start))
    return sorted(range(len(transactions)), key=lambda at: (moments[at], at))


def process_edges(transactions: Iterable[Transaction]) -> Iterator[Triple]:
    """Each process's transactions, each to the next. One that is unknown may take effect later than those
    behind it, so nothing follows it. Edges join numbers of operations.
    """
    latest: dict[int | str, int] = {}
    for each in sorted(transactions, key=lambda each: each.start):
        if each.outcome == FAIL:
            continue
        if each.process in latest:
            yield latest[each.process], each.number, PROCESS
        if each.outcome == OK:
            latest[each.process] = each.number


def realtime_edges(transactions: Iterable[Transaction]) -> Iterator[Triple]:
    """The transitive reduction of "ended before the other began", over numbers of operations.

    A beginning is linked with every end before it that no later beginning and end separate from it: as many
    edges as there are transactions, times those that run at once. An unknown end links to nothing.
    """
    moments: list[tuple[int, int, Transaction]] = []
    for each in transactions:
        if each.outcome == FAIL:
            continue
        moments.append((each.start, 1, each))
        if each.end is not None:
            moments.append((each.end, 0, each))
    moments.sort(key=lambda moment: moment[:2])
    frontier: dict[int, int] = {}
    """Ended transactions by number, with their end: those that are before no other ended one."""
    for _, begins, each in moments:
        if begins:
            for number in frontier:
                yield number, each.number, REALTIME
        else:
            for number in [number for number, end in frontier.items() if end < each.start]:
                del frontier[number]
            assert each.end is not None
            frontier[each.number] = each.end


def every_pair(transactions: Sequence[Transaction]) -> Iterator[Triple]:
    """Both orders in full: of few transactions, so that no cycle is longer than it needs to be."""
    for first in transactions:
        if first.outcome != OK or first.end is None:
            continue
        for second in transactions:
            if second.outcome != FAIL and first.end < second.start:
                yield first.number, second.number, REALTIME
                if first.process == second.process:
                    yield first.number, second.number, PROCESS
