"""What an order of transactions over registers has to explain, and the simplest way to one: running them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from liftlog_jepsen.events import OK
from liftlog_jepsen.transactions.reading import Transaction
from liftlog_jepsen.transactions.time_order import process_edges, realtime_edges

FREE, SESSIONS, REALTIME = "free", "sessions", "realtime"

Edge = tuple[int, int]


class Rule(NamedTuple):
    """What an order has to respect. `snapshots`: reads and writes of a transaction have a moment each."""

    snapshots: bool
    time: str


class Read(NamedTuple):
    """A transaction's outer read. `writers`: who may have written what it read; None = the initial state."""

    reader: int
    key: Any
    value: Any
    writers: tuple[int | None, ...]


class Facts(NamedTuple):
    """What an order has to explain. Transactions are numbers from 0; `numbers` are those of the history."""

    transactions: tuple[Transaction, ...]
    reads: tuple[Read, ...]
    writers: dict[Any, tuple[int, ...]]
    """By key, who writes it."""
    wrote: tuple[tuple[Any, ...], ...]
    """By transaction, the keys that it writes."""
    unclear: str = ""
    """Why nothing can be said."""

    @property
    def numbers(self) -> list[int]:
        return [each.number for each in self.transactions]


class OrderAnswer(NamedTuple):
    """`found`: there is an order, or there is none, or (None) nobody knows: `why` then says so. `blamed`:
    reads of which in every order at least one is wrong.
    """

    found: bool | None
    why: str = ""
    blamed: tuple[Read, ...] = ()


# -- what there is to explain --------------------------------------------------------------------------------


def gather(transactions: Iterable[Transaction], is_initial: Callable[[Any], bool]) -> Facts:
    """The transactions that take part, with what they read of each other."""
    happened = [each for each in transactions if each.may_have_happened]
    wrote: dict[tuple[Any, Any], list[Transaction]] = {}
    for each in happened:
        for key, value in _last_writes(each, is_initial).items():
            wrote.setdefault((key, value), []).append(each)
    told: list[tuple[Transaction, Any, Any, list[Transaction]]] = []
    needed = {each.number for each in happened if each.outcome == OK}
    for each in happened:
        for key, value in _outer_reads(each, is_initial).items():
            writers = [other for other in wrote.get((key, value), ()) if other is not each]
            unsure = [other for other in writers if other.outcome != OK]
            if unsure and len(writers) + (value is None) > 1:
                return Facts((), (), {}, (), f"several may have written what T{each.number} read")
            needed.update(other.number for other in unsure)
            if writers or value is None:
                told.append((each, key, value, writers))
    chosen = tuple(each for each in happened if each.number in needed)
    place = {each.number: at for at, each in enumerate(chosen)}
    wrote_keys = tuple(tuple(_last_writes(each, is_initial)) for each in chosen)
    by_key: dict[Any, list[int]] = {}
    for at, keys in enumerate(wrote_keys):
        for key in keys:
            by_key.setdefault(key, []).append(at)
    reads = []
    for reader, key, value, writers in told:
        known: list[int | None] = [place[other.number] for other in writers]
        reads.append(Read(place[reader.number], key, value, tuple([None] * (value is None) + known)))
    writers_of = {key: tuple(writers) for key, writers in by_key.items()}
    return Facts(chosen, tuple(reads), writers_of, wrote_keys)


def _last_writes(transaction: Transaction, is_initial: Callable[[Any], bool]) -> dict[Any, Any]:
    return {key: None if is_initial(value) else value for write, key, value in transaction.parts if write}


def _outer_reads(transaction: Transaction, is_initial: Callable[[Any], bool]) -> dict[Any, Any]:
    reads: dict[Any, Any] = {}
    written = set()
    for write, key, value in transaction.parts:
        if write:
            written.add(key)
        elif key not in written:
            reads.setdefault(key, None if is_initial(value) else value)
    return reads


def time_edges(facts: Facts, time: str) -> list[Edge]:
    """What the order of time puts in order, as places."""
    place = {number: at for at, number in enumerate(facts.numbers)}
    edges = []
    if time in (SESSIONS, REALTIME):
        edges += [(place[first], place[second]) for first, second, _ in process_edges(facts.transactions)]
    if time == REALTIME:
        edges += [(place[first], place[second]) for first, second, _ in realtime_edges(facts.transactions)]
    return edges


def moments_of(facts: Facts) -> list[float]:
    """When each transaction took place, as a guess: at its end; where that is unknown, before the first that
    read of it; or at its start.
    """
    never = float("inf")
    seen = [never] * len(facts.transactions)
    for read in facts.reads:
        end = facts.transactions[read.reader].end
        for writer in read.writers:
            if writer is not None and end is not None:
                seen[writer] = min(seen[writer], end - 0.5)
    guessed = []
    for at, each in enumerate(facts.transactions):
        guess = each.end if each.end is not None else seen[at] if seen[at] < never else each.start
        guessed.append(max(float(guess), float(each.start)))
    return guessed


# -- running them -------------------------------------------------------------------------------------------


def run_through(facts: Facts, before: Sequence[Edge]) -> list[int] | None:
    """An order in which every read sees the latest write, by running one transaction after the other, those
    that ended first first; None if that gets stuck. Of several possible writers the first is taken.
    """
    run = _Run(facts, before)
    return run.all()


class _Run:
    """Transactions as they take place. One that writes waits while others must still read the old version."""

    def __init__(self, facts: Facts, before: Sequence[Edge]) -> None:
        count = len(facts.transactions)
        self.moments = moments_of(facts)
        self.after: list[list[int]] = [[] for _ in range(count)]
        self.missing = [0] * count
        self.reads: list[dict[Any, int | None]] = [{} for _ in range(count)]
        self.writes = facts.wrote
        self.readers: dict[tuple[Any, int | None], int] = {}
        """By key and writer: how many have still to read this version."""
        self.latest: dict[Any, int | None] = {}
        self.waiting: dict[Any, list[int]] = {}
        edges = list(before)
        for read in facts.reads:
            source = read.writers[0]
            self.reads[read.reader][read.key] = source
            self.readers[read.key, source] = self.readers.get((read.key, source), 0) + 1
            if source is not None:
                edges.append((source, read.reader))
        for first, second in edges:
            self.after[first].append(second)
            self.missing[second] += 1

    def all(self) -> list[int] | None:
        ready = [self._entry(at) for at, missing in enumerate(self.missing) if not missing]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            at = heapq.heappop(ready)[-1]
            blocking = self._blocking(at)
            if blocking is not None:
                self.waiting.setdefault(blocking, []).append(at)
                continue
            order.append(at)
            for key, writer in self.reads[at].items():
                self.readers[key, writer] -= 1
                for other in self.waiting.pop(key, ()):
                    heapq.heappush(ready, self._entry(other))
            for key in self.writes[at]:
                self.latest[key] = at
            for other in self.after[at]:
                self.missing[other] -= 1
                if not self.missing[other]:
                    heapq.heappush(ready, self._entry(other))
        return order if len(order) == len(self.missing) else None

    def _entry(self, at: int) -> tuple[bool, float, int]:
        """Those that only read go first, since they hinder nobody; then those that ended first."""
        return bool(self.writes[at]), self.moments[at], at

    def _blocking(self, at: int) -> Any:
        """A key whose present version somebody else must still read before this one may write it."""
        for key in self.writes[at]:
            version = self.latest.get(key)
            mine = key in self.reads[at] and self.reads[at][key] == version
            if self.readers.get((key, version), 0) > mine:
                return key
        return None
