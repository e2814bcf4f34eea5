"""Breadth-first search through every reachable state, on all cores.

The states of one depth lie in chunks; each worker takes the next chunk, writes down the fingerprint of every
successor that no worker has seen (one shared table), and keeps the new states as chunks of the next depth.
All workers finish a depth before any begins the next, so that the first violation found is one of the
shortest.

    depth 1: first states       depth d + 1: what one step makes of depth d, less what was seen
"""

from __future__ import annotations

import tempfile
import time
from array import array
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from spec.explore.report import Bounds, Report, Step
from spec.explore.visited import FIRST_BITS, FULL, Chunks, State, Table, ancestry, fingerprint, read_chunk
from spec.lang.types import SpecError
from spec.run.compiled import CompiledModel, compile_model

CHUNK_STATES = 5000
TYPE_CHECKED = 20_000
"""So many of each worker's first states are checked against their variables' types."""
RECENT_STATES = 1_000_000
"""Fingerprints that a worker keeps at hand, since most successors were seen a moment ago."""

Take = Callable[[], "tuple[str, set[int]] | None"]
"""The next chunk, with the fingerprints in it that turned out to be another worker's; None = no more."""


class Found(msgspec.Struct):
    """A violation as the worker saw it."""

    invariant: str
    mark: int


class Tally(msgspec.Struct):
    """What a worker did at one depth. `dropped`: of its new states, those that another worker owns."""

    worker: int = 0
    new: int = 0
    generated: int = 0
    deadlocks: int = 0
    found: Found | None = None
    unseen: list[str] = []
    chunks: list[str] = []
    dropped: set[int] = set()


class Worker:
    """Expands chunks and keeps what is new."""

    def __init__(self, compiled: CompiledModel, number: int, bounds: Bounds, folder: Path) -> None:
        self._compiled = compiled
        self._number = number
        self._alone = bounds.jobs == 1
        self._symmetry = bounds.symmetry
        self._folder = folder
        self._table = Table(folder, FIRST_BITS, number)
        self._pairs_file = (folder / f"predecessors-{number}").open("wb")
        self._recent: set[int] = set()
        self._unseen = list(compiled.sometimes)
        self._checked_types = 0
        self._depth = 0
        self._begin_depth(CHUNK_STATES)

    def _begin_depth(self, chunk_states: int) -> None:
        self._depth += 1
        self._chunks = Chunks(self._folder, f"depth-{self._depth}-{self._number}", chunk_states)
        self._marks = array("Q")
        self._places = array("Q")
        self._parents = array("Q")
        self._tally = Tally(worker=self._number)

    def start(self) -> Tally:
        """The first states, which one worker takes in."""
        for state in self._compiled.initial():
            state = self._compiled.canonical(state) if self._symmetry else state
            mark = fingerprint(state)
            self._take(state, mark, mark)
        return self._finish(CHUNK_STATES)

    def expand(self, take: Take, chunk_states: int, bits: int) -> Tally:
        """Expand chunks until `take` has none left."""
        if bits != self._table.bits:
            self._table.close()
            self._table = Table(self._folder, bits, self._number)
        self._chunks.most = chunk_states
        constrained = bool(self._compiled.model.constraints)
        while (chunk := take()) is not None:
            if self._tally.found is None:
                path, dropped = chunk
                states = read_chunk(path)
                if dropped:
                    states = [state for state in states if fingerprint(state) not in dropped]
                if constrained:
                    states = [state for state in states if self._compiled.allowed(state)]
                self._expand(states)
        return self._finish(chunk_states)

    def _expand(self, states: list[State]) -> None:
        next_states, canonical = self._compiled.next_states, self._compiled.canonical
        symmetry, recent, tally = self._symmetry, self._recent, self._tally
        for state in states:
            found = next_states(state)
            tally.generated += len(found)
            if not found:
                tally.deadlocks += 1
            parent = 0
            for successor in found:
                if symmetry:
                    successor = canonical(successor)
                mark = hash(successor) & 0xFFFFFFFFFFFFFFFF or 1
                if mark not in recent:
                    parent = parent or fingerprint(state)
                    self._take(successor, mark, parent)
            if tally.found is not None:
                return

    def _take(self, state: State, mark: int, parent: int) -> None:
        recent = self._recent
        if len(recent) >= RECENT_STATES:
            recent.clear()
        recent.add(mark)
        place = self._table.insert(mark)
        if place < 0:
            return
        self._marks.append(mark)
        self._places.append(place)
        self._parents.append(parent)
        self._chunks.append(state)
        if self._checked_types < TYPE_CHECKED:
            self._checked_types += 1
            wrong = self._compiled.wrong_type(state)
            if wrong:
                raise SpecError(f"model {self._compiled.name}: {wrong}, in {self._compiled.show(state)}")
        for name, holds in self._compiled.invariants:
            if not holds(state):
                self._tally.found = self._tally.found or Found(name, mark)
        if self._unseen:
            self._unseen = [(name, seen) for name, seen in self._unseen if not seen(state)]

    def _finish(self, chunk_states: int) -> Tally:
        """This depth is expanded as far as we are concerned; nobody reads our files before all are done."""
        self._chunks.flush()
        pairs = array("Q", bytes(16 * len(self._marks)))
        pairs[0::2] = self._marks
        pairs[1::2] = self._parents
        pairs.tofile(self._pairs_file)
        self._pairs_file.flush()
        tally = self._tally
        tally.new = len(self._marks)
        tally.chunks = self._chunks.paths
        tally.unseen = [name for name, _ in self._unseen]
        self._last = (self._marks, self._places)
        self._begin_depth(chunk_states)
        return tally

    def settle(self) -> tuple[set[int], list[int]]:
        """When all are done: what turned out to be another's, and what must be inserted again."""
        return self._table.settle(*self._last)

    def reinsert(self, mark: int) -> bool:
        """True if it is ours after all."""
        return self._table.insert(mark) >= 0

    def grow(self) -> int:
        """Enlarge the table, alone; returns its size in bits."""
        larger = self._table.grown(self._folder)
        self._table.close()
        self._table = larger
        return larger.bits

    def close(self) -> None:
        self._pairs_file.close()
        self._table.close()


def check(model: Any, bounds: Bounds, progress: Callable[[str], None] | None = None) -> Report:
    """Explore a model. Raises SpecError if it makes no sense."""
    compiled = compile_model(model)
    started = time.monotonic()
    report = Report(
        model=model.name,
        settings=model.settings,
        constants=dict(model.bindings),
        verdict="holds",
        symmetry=bounds.symmetry,
        jobs=bounds.jobs,
    )
    with tempfile.TemporaryDirectory(prefix="liftlog-spec-") as name:
        folder = Path(name)
        crew = Crew(model, compiled, bounds, folder)
        try:
            found = _depths(crew, bounds, report, progress or (lambda text: None), started)
        finally:
            crew.close()
        if found is not None:
            report.verdict, report.invariant = "violated", found.invariant
            marks = ancestry(sorted(folder.glob("predecessors-*")), found.mark)
            report.trace = _retrace(compiled, marks, bounds.symmetry)
    if report.verdict == "holds" and report.unreached:
        report.verdict = "vacuous"
    report.seconds = round(time.monotonic() - started, 3)
    report.states_per_second = int(report.distinct_states / max(report.seconds, 0.001))
    report.collision_probability = report.distinct_states**2 / 2.0**65
    return report


def _depths(
    crew: Crew, bounds: Bounds, report: Report, progress: Callable[[str], None], started: float
) -> Found | None:
    unseen: dict[str, None] = dict.fromkeys(found.name for found in crew.model.sometimes)
    tallies = crew.start()
    while True:
        new = sum(tally.new - len(tally.dropped) for tally in tallies)
        report.distinct_states += new
        report.generated_states += sum(tally.generated for tally in tallies)
        report.deadlocks += sum(tally.deadlocks for tally in tallies)
        for name in list(unseen):
            if any(name not in tally.unseen for tally in tallies):
                del unseen[name]
        report.unreached = list(unseen)
        report.depth += 1 if new else 0
        found = [tally.found for tally in tallies if tally.found is not None]
        if found:
            return found[0]
        seconds = max(0.001, time.monotonic() - started)
        rate = report.distinct_states / seconds
        progress(f"depth {report.depth}: {report.distinct_states:,} states, {new:,} to expand, {rate:,.0f}/s")
        if not new:
            return None
        if (bounds.states and report.distinct_states >= bounds.states) or report.depth == bounds.depth:
            report.verdict = "bounded"
            return None
        tallies = crew.advance(tallies, new, report.distinct_states)


class Crew:
    """One worker in this process and `jobs - 1` in processes of their own."""

    def __init__(self, model: Any, compiled: CompiledModel, bounds: Bounds, folder: Path) -> None:
        self.model = model
        self._worker = Worker(compiled, 0, bounds, folder)
        self._jobs = bounds.jobs
        self._bits = FIRST_BITS
        context = get_context("fork")
        self._next_chunk = context.Value("q", 0)
        self._pipes = []
        self._processes = []
        for number in range(1, bounds.jobs):
            ours, theirs = context.Pipe()
            arguments = (model, number, bounds, folder, theirs, self._next_chunk)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def start(self) -> list[Tally]:
        return [self._worker.start()]

    def advance(self, tallies: list[Tally], new: int, distinct: int) -> list[Tally]:
        """Expand one depth."""
        if distinct + 8 * new > FULL * (1 << self._bits):
            self._bits = self._worker.grow()
        chunks = [(path, tally.dropped) for tally in tallies for path in tally.chunks]
        chunk_states = max(50, min(CHUNK_STATES, new // (4 * self._jobs)))
        self._next_chunk.value = 0
        order = (chunks, chunk_states, self._bits)
        for pipe in self._pipes:
            pipe.send(("expand", order))
        found = [self._worker.expand(_taker(chunks, self._next_chunk), chunk_states, self._bits)]
        found += [self._answer(pipe) for pipe in self._pipes]
        if self._jobs > 1:
            self._settle(found)
        return found

    def _answer(self, pipe: Any) -> Any:
        answer = pipe.recv()
        if isinstance(answer, str):
            raise SpecError(answer)
        return answer

    def _settle(self, tallies: list[Tally]) -> None:
        """Nobody writes now: find who owns what two have found, and put back what was overwritten."""
        for pipe in self._pipes:
            pipe.send(("settle", None))
        outcomes = [self._worker.settle(), *(self._answer(pipe) for pipe in self._pipes)]
        for tally, (others, lost) in zip(tallies, outcomes, strict=True):
            tally.dropped = others | {mark for mark in lost if not self._worker.reinsert(mark)}

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
            process.join()
        for pipe in self._pipes:
            pipe.close()
        self._worker.close()


def _taker(chunks: list[tuple[str, set[int]]], counter: Any) -> Take:
    def take() -> tuple[str, set[int]] | None:
        with counter.get_lock():
            number = counter.value
            counter.value += 1
        return chunks[number] if number < len(chunks) else None

    return take


def _serve(model: Any, number: int, bounds: Bounds, folder: Path, pipe: Any, counter: Any) -> None:
    """A worker process."""
    try:
        worker = Worker(compile_model(model), number, bounds, folder)
        while True:
            word, order = pipe.recv()
            if word == "expand":
                chunks, chunk_states, bits = order
                pipe.send(worker.expand(_taker(chunks, counter), chunk_states, bits))
            else:
                pipe.send(worker.settle())
    except SpecError as error:
        pipe.send(str(error))
    except EOFError:
        return


def _retrace(compiled: CompiledModel, marks: list[int], symmetry: bool) -> list[Step]:
    """The states behind the fingerprints, found again by walking from a first state."""

    def mark_of(state: State) -> int:
        return fingerprint(compiled.canonical(state) if symmetry else state)

    state = next(state for state in compiled.initial() if mark_of(state) == marks[0])
    steps = [Step("", compiled.show(state))]
    for mark in marks[1:]:
        taken, parameters, state = next(
            step for step in compiled.successors(state) if mark_of(step[2]) == mark
        )
        steps.append(Step(compiled.show_step(taken, parameters), compiled.show(state)))
    return steps
