"""Is there an order of transactions over registers that explains what they read?

A history may show no cycle and yet have no such order: of two writers of a register that no read puts in
order, either comes first, and each choice may lead into a circle. So whoever says that a history *is*
serializable has to show an order. Deciding that is NP-complete (Papadimitriou, "The serializability of
concurrent database updates", 1979), hence three steps, each for what the one before could not decide:

1. **Run them.** Transactions take place one after the other, those that ended first first; a register is not
   overwritten while somebody still has to read it. If all take place, that is the order. Linear time: the way
   of nearly all histories that have one.
2. **What is forced.** A read of version v by R says of each other writer W2 of the register: W2 before the
   writer of v, or behind R (a polygraph: Tan et al., "Cobra", OSDI 2020). Where what is known already rules
   out one of the two, the other is known; again, until nothing follows. A circle refutes.
3. **z3**, with one number for each moment, for the choices that are left. Bounded by its own count of steps,
   which is the same on every machine.

With snapshots a transaction has two moments: reads take place at the first, writes at the second, and of two
writers of one register one ends before the other begins (Berenson et al., 1995). A transaction of unknown
outcome takes part only if somebody read what it wrote: what nobody read hinders nobody by being left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from liftlog_jepsen.transactions.order_choices import (
    BLAMED_MAX,
    Known,
    ask_z3,
    choose,
    fewest,
    force,
    no_answer,
    puzzle_of,
    why_not,
)
from liftlog_jepsen.transactions.order_facts import (
    FREE,
    REALTIME,
    SESSIONS,
    Edge,
    Facts,
    OrderAnswer,
    Read,
    Rule,
    gather,
    moments_of,
    run_through,
    time_edges,
)

__all__ = ["FREE", "REALTIME", "SESSIONS", "STEPS", "Facts", "OrderAnswer", "Rule", "find_order", "gather"]

STEPS = 1_000_000_000
"""Of z3 (its `rlimit`): up to about a minute."""
WINDOW_SHARE = 20
"""A window may use so large a part of the steps."""
WINDOW = 240
"""Transactions that are looked at together where there are too many for all at once."""


# -- the search ----------------------------------------------------------------------------------------------


def find_order(facts: Facts, rule: Rule, steps: int = STEPS) -> OrderAnswer:
    """Whether there is an order that the rule allows."""
    if facts.unclear:
        return OrderAnswer(None, facts.unclear)
    if run_through(facts, time_edges(facts, rule.time)) is not None:
        return OrderAnswer(True)
    unclear = any(len(read.writers) > 1 for read in facts.reads)
    puzzle = puzzle_of(facts, rule)
    if puzzle is None:
        return _too_many(facts) if unclear else _by_windows(facts, rule, steps)
    if unclear:
        return ask_z3(facts, rule, puzzle, steps)
    left, circle = force(puzzle)
    if circle:
        return OrderAnswer(False, "", fewest(facts, rule, *why_not(left.known, circle), steps))
    if not left.choices:
        return OrderAnswer(True)
    found = choose(facts, rule, left, steps)
    if found is None:
        return no_answer(steps)
    if found or len(facts.reads) > BLAMED_MAX:
        return OrderAnswer(bool(found))
    pairs = [Known(choice.first, -1, choice.second) for choice in left.choices if choice.read < 0]
    return OrderAnswer(False, "", fewest(facts, rule, set(range(len(facts.reads))), pairs, steps))


def _too_many(facts: Facts) -> OrderAnswer:
    return OrderAnswer(
        None, f"{len(facts.transactions):,} transactions are too many for the search for another order"
    )


# -- many transactions ---------------------------------------------------------------------------------------


def _by_windows(facts: Facts, rule: Rule, steps: int) -> OrderAnswer:
    """Look for an order piece by piece: put the transactions of a window in order, let the first half of them
    have taken place, and go on with the rest and those behind them. What this finds is an order; that it
    finds none proves nothing, unless the very first window cannot be put in order.
    """
    if rule.snapshots:
        return _too_many(facts)
    moments = moments_of(facts)
    waiting = sorted(range(len(moments)), key=lambda at: (moments[at], at))
    by_reader: dict[int, list[Read]] = {}
    for read in facts.reads:
        by_reader.setdefault(read.reader, []).append(read)
    order: list[int] = []
    latest: dict[Any, int | None] = {}
    while waiting:
        part = waiting[:WINDOW]
        small = _part(facts, part, by_reader, latest)
        puzzle = puzzle_of(small, rule)
        assert puzzle is not None
        left, circle = force(puzzle)
        if circle and not order:
            blamed = fewest(small, rule, *why_not(left.known, circle), steps)
            return OrderAnswer(False, "", tuple(_as_whole(read, part) for read in blamed))
        picked = [] if circle or not left.choices else choose(small, rule, left, steps // WINDOW_SHARE)
        if circle or not isinstance(picked, list):
            return _too_many(facts)
        arranged = _arranged(len(part), [*(each.edge for each in left.known), *picked])
        taken = arranged[: WINDOW // 2 if len(waiting) > WINDOW else WINDOW]
        for place in taken:
            order.append(part[place])
            latest.update((key, part[place]) for key in facts.wrote[part[place]])
        gone = set(taken)
        waiting = [at for place, at in enumerate(part) if place not in gone] + waiting[WINDOW:]
    return OrderAnswer(True) if _explains(order, facts, rule) else _too_many(facts)


def _part(
    facts: Facts, part: Sequence[int], by_reader: dict[int, list[Read]], latest: dict[Any, int | None]
) -> Facts:
    """Some of the transactions, with what they read of each other and of the state before them. What they
    read of others is left out.
    """
    number = {at: place for place, at in enumerate(part)}
    reads = []
    writers: dict[Any, list[int]] = {}
    for place, at in enumerate(part):
        for read in by_reader.get(at, ()):
            writer = read.writers[0]
            if writer in number or writer == latest.get(read.key):
                mapped = None if writer is None else number.get(writer)
                reads.append(Read(place, read.key, read.value, (mapped,)))
        for key in facts.wrote[at]:
            writers.setdefault(key, []).append(place)
    return Facts(
        tuple(facts.transactions[at] for at in part),
        tuple(reads),
        {key: tuple(some) for key, some in writers.items()},
        tuple(facts.wrote[at] for at in part),
    )


def _arranged(count: int, edges: Iterable[Edge]) -> list[int]:
    """The numbers up to `count` in an order that respects the edges, the smallest first where it may be."""
    after: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for first, second in edges:
        after[first].append(second)
        missing[second] += 1
    ready = [at for at in range(count) if not missing[at]]
    order = []
    while ready:
        at = heapq.heappop(ready)
        order.append(at)
        for other in after[at]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(ready, other)
    return order


def _explains(order: Sequence[int], facts: Facts, rule: Rule) -> bool:
    """Whether every read sees the latest write, if transactions ran in this order, and time allows it."""
    place = {at: number for number, at in enumerate(order)}
    if any(place[first] > place[second] for first, second in time_edges(facts, rule.time)):
        return False
    by_reader: dict[int, list[Read]] = {}
    for read in facts.reads:
        by_reader.setdefault(read.reader, []).append(read)
    latest: dict[Any, int | None] = {}
    for at in order:
        if any(latest.get(read.key) not in read.writers for read in by_reader.get(at, ())):
            return False
        latest.update((key, at) for key in facts.wrote[at])
    return len(order) == len(facts.transactions)


def _as_whole(read: Read, part: Sequence[int]) -> Read:
    """A read of a part as the whole has it."""
    writers = tuple(None if writer is None else part[writer] for writer in read.writers)
    return read._replace(reader=part[read.reader], writers=writers)
