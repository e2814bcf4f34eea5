"""One worker of a search: expands chunks of states and keeps the successors that nobody has seen."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from liftlog_spec.explore.report import DEADLOCK, Bounds
from liftlog_spec.explore.visited import (
    FIRST_BITS,
    FULL,
    Chunks,
    Dropped,
    Links,
    Settled,
    State,
    Table,
    fingerprint,
    most_bits,
    places_of,
    read_chunk,
    seen_before,
)
from liftlog_spec.lang.types import SpecError
from liftlog_spec.run.compiled import CompiledModel

CHUNK_STATES = 5000
LEAST_CHUNK_STATES = 10
TYPE_CHECKED = 20_000
"""So many of each worker's first states are checked against their variables' types."""
RECENT_STATES = 1_000_000
"""Fingerprints that a worker keeps at hand, since most successors were seen a moment ago."""
MARK_BYTES = 100
"""What a fingerprint takes in a set, about."""


Chunk = tuple[str, "Dropped | None"]
Take = Callable[[], "Chunk | None"]
"""The next chunk, with the fingerprints in it that turned out to be no new states; None = no more."""


class WorkerViolation(msgspec.Struct):
    """A violation as the worker saw it. `mark`: of the last state, which was found at this depth."""

    invariant: str
    mark: int
    depth: int


class Order(msgspec.Struct):
    """What a worker is told at the begin of a round."""

    depth: int
    round: int
    chunks: list[Any]
    chunk_states: int
    bits: int
    generation: int
    filled: int


class Tally(msgspec.Struct):
    """What a worker did in one round. `dropped`: what turned out to be no new states."""

    worker: int = 0
    new: int = 0
    generated: int = 0
    deadlocks: int = 0
    taken: list[int] = []
    found: WorkerViolation | None = None
    unseen: list[str] = []
    chunks: list[str] = []
    links: str = ""
    twice: int = 0
    dropped: Dropped | None = None

    def states(self) -> int:
        """New states."""
        return self.new - self.twice - (self.dropped.size if self.dropped is not None else 0)


def table_bits(bounds: Bounds) -> tuple[int, int]:
    """Bits of the table at first, and at most: it may take half of the memory."""
    most = most_bits(bounds.memory * 1_000_000 // 2)
    return min(FIRST_BITS, most), most


class Worker:
    """Expands chunks and keeps what is new."""

    def __init__(self, compiled: CompiledModel, number: int, bounds: Bounds, folder: Path) -> None:
        self._compiled = compiled
        self._number = number
        self._bounds = bounds
        self._folder = folder
        self.table = Table(folder, table_bits(bounds)[0], number)
        quarter = bounds.memory * 1_000_000 // 4 // bounds.jobs // MARK_BYTES
        self._recent: set[int] = set()
        self._recent_most = max(1000, min(RECENT_STATES, quarter))
        self._part_most = max(1000, quarter)
        self._unseen = list(compiled.sometimes)
        self._checked_types = 0
        self._links = Links(folder, 0, 0, number)
        self._tally = Tally()

    def _begin(self, depth: int, round_: int, chunk_states: int, filled: int) -> None:
        size = 1 << self.table.bits
        jobs = self._bounds.jobs
        self._depth = depth
        self._links.close()
        self._chunks = Chunks(self._folder, f"states-{depth}-{round_}-{self._number}", chunk_states)
        self._links = Links(self._folder, depth, round_, self._number)
        self._tally = Tally(worker=self._number, links=str(self._links.path))
        self._room = int(FULL * size - filled) // jobs
        self._most = (size - filled) // jobs - 1
        self._compiled.taken[:] = [0] * len(self._compiled.taken)

    def start(self, chunk_states: int) -> Tally:
        """The first states, which one worker takes in."""
        self._begin(1, 0, chunk_states, 0)
        for state in self._compiled.initial():
            state = self._compiled.canonical(state) if self._bounds.symmetry else state
            mark = fingerprint(state)
            self._take(state, mark, mark)
        return self._finish()

    def expand(self, take: Take, order: Order, progress: Callable[[int], None]) -> Tally:
        """Expand chunks until `take` has none left, or our share of the table is used."""
        if (order.bits, order.generation) != (self.table.bits, self.table.generation):
            self.table.close()
            self.table = Table(self._folder, order.bits, self._number, order.generation)
        self._begin(order.depth, order.round, order.chunk_states, order.filled)
        constrained = bool(self._compiled.model.constraints)
        while self._links.size < self._room and (chunk := take()) is not None:
            if self._tally.found is None:
                path, dropped = chunk
                states = read_chunk(path)
                if dropped is not None and dropped.size:
                    states = [state for state in states if fingerprint(state) not in dropped]
                if constrained:
                    states = [state for state in states if self._compiled.allowed(state)]
                self._expand(states)
                progress(self._links.size)
        return self._finish()

    def _expand(self, states: list[State]) -> None:
        next_states, recent, tally = self._compiled.next_states, self._recent, self._tally
        canonical = self._compiled.canonical if self._bounds.symmetry else None
        for state in states:
            if len(recent) >= self._recent_most:
                recent.clear()
            try:
                found = next_states(state)
            except (IndexError, KeyError, TypeError, ValueError) as error:
                raise SpecError(self._compiled.blame(error, state)) from error
            if not found:
                self._deadlock(state)
            tally.generated += len(found)
            parent = 0
            for successor in found:
                mark = hash(successor) & 0xFFFFFFFFFFFFFFFF or 1
                if mark in recent:
                    continue
                if canonical is not None:
                    successor = canonical(successor)
                    image = hash(successor) & 0xFFFFFFFFFFFFFFFF or 1
                    if image != mark:
                        recent.add(mark)
                        if image in recent:
                            continue
                    mark = image
                parent = parent or fingerprint(state)
                self._take(successor, mark, parent)
            if tally.found is not None:
                return

    def _deadlock(self, state: State) -> None:
        if self._compiled.final(state):
            return
        self._tally.deadlocks += 1
        if self._bounds.deadlock and self._tally.found is None:
            self._tally.found = WorkerViolation(DEADLOCK, fingerprint(state), self._depth - 1)

    def _take(self, state: State, mark: int, parent: int) -> None:
        self._recent.add(mark)
        if self._links.size >= self._most:
            raise SpecError(f"--memory {self._bounds.memory} is too small for this model; double it")
        place = self.table.insert(mark)
        if place < 0:
            return
        self._links.append(mark, parent, place)
        self._chunks.append(state)
        if self._checked_types < TYPE_CHECKED:
            self._checked_types += 1
            wrong = self._compiled.wrong_type(state)
            if wrong:
                raise SpecError(f"model {self._compiled.name}: {wrong}, in {self._compiled.show(state)}")
        try:
            for name, holds in self._compiled.invariants:
                if not holds(state):
                    self._tally.found = self._tally.found or WorkerViolation(name, mark, self._depth)
            if self._unseen:
                self._unseen = [(name, seen) for name, seen in self._unseen if not seen(state)]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise SpecError(self._compiled.blame(error, state)) from error

    def _finish(self) -> Tally:
        """Nobody reads our files before all are done."""
        self._chunks.flush()
        self._links.close()
        tally = self._tally
        tally.new = self._links.size
        tally.taken = list(self._compiled.taken)
        tally.chunks = self._chunks.paths
        tally.unseen = [name for name, _ in self._unseen]
        return tally

    def settle(self, earlier: list[Path]) -> tuple[Settled, list[array[int]]]:
        """When all are done: whose is what, and what stands in earlier files already."""
        path = Path(self._tally.links)
        settled = Settled(set(), set(), 0)
        if self._bounds.jobs > 1:
            settled = self.table.settle(lambda: places_of(path))
        parts = self._tally.new // self._part_most + 1
        if not earlier:
            return settled, [array("Q")]
        return settled, seen_before(path, earlier, parts)

    def reinsert(self, mark: int) -> bool:
        """True if it is ours after all."""
        return self.table.insert(mark) >= 0

    def grow(self, bits: int) -> None:
        """Enlarge the table, alone."""
        larger = self.table.grown(self._folder, bits)
        self.table.close()
        self.table = larger

    def empty(self) -> None:
        """Empty the table, alone."""
        fresh = self.table.emptied(self._folder)
        self.table.close()
        self.table = fresh

    def close(self) -> None:
        self._links.close()
        self.table.close()


def answer_of(pipe: Any) -> Any:
    """What a worker process sends back. Raises SpecError: its own, or that it has ended."""
    try:
        answer = pipe.recv()
    except EOFError:
        raise SpecError("a worker process ended without an answer; try fewer jobs") from None
    if isinstance(answer, str):
        raise SpecError(answer)
    return answer
