"""Breadth-first search through every reachable state, on all cores.

The states of one depth lie in chunks; each worker takes the next chunk, writes down the fingerprint of every
successor that no worker has seen (one shared table), and keeps the new states as chunks of the next depth.
All workers finish a depth before any begins the next, so that the first violation found is one of the
shortest. Where the table is too small for a depth, it is expanded in several rounds (see visited.py).

    depth 1: first states       depth d + 1: what one step makes of depth d, less what was seen
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from liftlog_spec.explore.report import Bounds, ExplorationReport, TraceStep
from liftlog_spec.explore.visited import FULL, GROWTH_BITS, Dropped, ancestry, fingerprint
from liftlog_spec.explore.worker import (
    CHUNK_STATES,
    LEAST_CHUNK_STATES,
    Chunk,
    Order,
    Take,
    Tally,
    Worker,
    WorkerViolation,
    answer_of,
    table_bits,
)
from liftlog_spec.lang.types import SpecError
from liftlog_spec.run.compiled import CompiledModel, compile_model

SLACK = 64
"""A chunk has at most one state for so many slots of the table, so that what it leads to finds room."""
Progress = Callable[[str], None]


def check(model: Any, bounds: Bounds, progress: Progress | None = None) -> ExplorationReport:
    """Explore a model. Raises SpecError if it makes no sense."""
    compiled = compile_model(model)
    started = time.monotonic()
    report = ExplorationReport(
        model=model.name,
        settings=model.settings,
        constants=dict(model.bindings),
        verdict="holds",
        symmetry=bounds.symmetry,
        jobs=bounds.jobs,
        memory=bounds.memory,
        actions=dict.fromkeys(compiled.actions, 0),
    )
    with tempfile.TemporaryDirectory(prefix="liftlog-spec-") as name:
        pool = WorkerPool(model, compiled, bounds, Path(name), Ticker(report, progress or _silent, started))
        try:
            found = _depths(pool, bounds, report)
            if found is not None:
                report.verdict, report.invariant = "violated", found.invariant
                marks = ancestry(pool.links[: found.depth], found.mark)
                report.trace = _retrace(compiled, marks, bounds.symmetry)
        finally:
            pool.close()
    if report.verdict == "holds" and report.unreached:
        report.verdict = "vacuous"
    report.never = [action for action, steps in report.actions.items() if not steps]
    report.seconds = round(time.monotonic() - started, 3)
    report.states_per_second = int(report.distinct_states / max(report.seconds, 0.001))
    report.collision_probability = report.distinct_states**2 / 2.0**65
    return report


def _silent(text: str) -> None:
    """Nobody looks."""


class Ticker:
    """Tells how far a search is: after each depth, and after each chunk of worker 0."""

    def __init__(self, report: ExplorationReport, progress: Progress, started: float) -> None:
        self._report = report
        self._progress = progress
        self._started = started

    def show(self, frontier: int, done: float, more: int) -> None:
        """`frontier`: states of this depth; `done`: what share is expanded; `more`: found meanwhile."""
        states = self._report.distinct_states + more
        rate = states / max(0.001, time.monotonic() - self._started)
        self._progress(
            f"depth {self._report.depth}: {states:,} distinct states, "
            f"{frontier:,} to expand ({done:.0%} done), {rate:,.0f}/s"
        )


def _depths(pool: WorkerPool, bounds: Bounds, report: ExplorationReport) -> WorkerViolation | None:
    unseen: dict[str, None] = dict.fromkeys(found.name for found in pool.model.sometimes)
    names = list(report.actions)
    tallies = pool.start()
    while True:
        new = sum(tally.states() for tally in tallies)
        report.distinct_states += new
        report.generated_states += sum(tally.generated for tally in tallies)
        report.deadlocks += sum(tally.deadlocks for tally in tallies)
        report.spills = pool.spills
        for tally in tallies:
            for name, steps in zip(names, tally.taken, strict=True):
                report.actions[name] += steps
        for name in list(unseen):
            if any(name not in tally.unseen for tally in tallies):
                del unseen[name]
        report.unreached = list(unseen)
        report.depth += 1 if new else 0
        found = [tally.found for tally in tallies if tally.found is not None]
        if found:
            return min(found, key=lambda violation: violation.depth)
        pool.ticker.show(new, 0.0, 0)
        if not report.distinct_states:
            raise SpecError(f"model {report.model} has no first state: a guard of @initial is never true")
        if not new:
            return None
        if (bounds.states and report.distinct_states >= bounds.states) or report.depth == bounds.depth:
            report.verdict = "bounded"
            return None
        tallies = pool.advance(tallies, new)


class WorkerPool:
    """One worker in this process and `jobs - 1` in processes of their own.

    `links`: for each depth the files of links. `spills`: how often the table was emptied.
    """

    def __init__(
        self, model: Any, compiled: CompiledModel, bounds: Bounds, folder: Path, ticker: Ticker
    ) -> None:
        self.model = model
        self.ticker = ticker
        self.links: list[list[Path]] = []
        self.spills = 0
        self._worker = Worker(compiled, 0, bounds, folder)
        self._jobs = bounds.jobs
        self._bits, self._most_bits = table_bits(bounds)
        self._filled = 0
        self._emptied: list[Path] = []
        context = get_context("fork")
        self._next_chunk = context.Value("q", 0)
        self._progress = context.Array("q", bounds.jobs, lock=False)
        self._pipes = []
        self._processes = []
        for number in range(1, bounds.jobs):
            ours, theirs = context.Pipe()
            arguments = (model, number, bounds, folder, theirs, self._next_chunk, self._progress)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def start(self) -> list[Tally]:
        """Depth 1."""
        self.links.append([])
        tally = self._worker.start(self._chunk_states(0))
        self._record([tally])
        return [tally]

    def advance(self, tallies: list[Tally], new: int) -> list[Tally]:
        """Expand one depth, in as many rounds as it takes."""
        chunks: list[Chunk] = [(path, tally.dropped) for tally in tallies for path in tally.chunks]
        self.links.append([])
        found: list[Tally] = []
        while chunks:
            self._make_room(new)
            order = Order(
                depth=len(self.links),
                round=len(found) // self._jobs,
                chunks=chunks,
                chunk_states=self._chunk_states(new),
                bits=self._bits,
                generation=self.spills,
                filled=self._filled,
            )
            of_round = self._round(order, new)
            found += of_round
            chunks = chunks[self._next_chunk.value :]
            if any(tally.found is not None for tally in of_round):
                break
        return found

    def _chunk_states(self, new: int) -> int:
        least = LEAST_CHUNK_STATES if new else CHUNK_STATES
        wanted = max(least, min(CHUNK_STATES, new // (4 * self._jobs)))
        return max(LEAST_CHUNK_STATES, min(wanted, (1 << self._bits) // SLACK // self._jobs))

    def _make_room(self, new: int) -> None:
        """Enlarge the table for what a depth of this size may lead to, or empty it."""
        while self._filled + 8 * new > FULL * (1 << self._bits) and self._bits < self._most_bits:
            self._bits = min(self._most_bits, self._bits + GROWTH_BITS)
            self._worker.grow(self._bits)
        if self._filled > FULL / 2 * (1 << self._bits) and self._filled + 2 * new > FULL * (1 << self._bits):
            self._worker.empty()
            self._filled = 0
            self.spills += 1
            self._emptied = [path for paths in self.links for path in paths]

    def _round(self, order: Order, new: int) -> list[Tally]:
        self._next_chunk.value = 0
        for number in range(self._jobs):
            self._progress[number] = 0
        for pipe in self._pipes:
            pipe.send(("expand", order))

        def progress(found: int) -> None:
            self._progress[0] = found
            done = min(1.0, self._next_chunk.value / len(order.chunks))
            self.ticker.show(new, done, sum(self._progress))

        found = [self._worker.expand(_taker(order.chunks, self._next_chunk), order, progress)]
        found += [answer_of(pipe) for pipe in self._pipes]
        self._settle(found)
        self._record(found)
        return found

    def _record(self, tallies: list[Tally]) -> None:
        self._filled += sum(tally.new for tally in tallies)
        self.links[-1] += [Path(tally.links) for tally in tallies if tally.new]

    def _settle(self, tallies: list[Tally]) -> None:
        """Nobody writes now: find who owns what two have found, and put back what was overwritten."""
        if self._jobs == 1 and not self._emptied:
            return
        for pipe in self._pipes:
            pipe.send(("settle", self._emptied))
        outcomes = [self._worker.settle(self._emptied), *(answer_of(pipe) for pipe in self._pipes)]
        for tally, (settled, again) in zip(tallies, outcomes, strict=True):
            not_ours = {mark for mark in settled.lost if not self._worker.reinsert(mark)}
            tally.twice = settled.twice
            tally.dropped = Dropped(again, settled.others | not_ours)

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
            process.join()
        for pipe in self._pipes:
            pipe.close()
        self._worker.close()


def _taker(chunks: list[Chunk], counter: Any) -> Take:
    def take() -> Chunk | None:
        with counter.get_lock():
            number = counter.value
            if number < len(chunks):
                counter.value += 1
        return chunks[number] if number < len(chunks) else None

    return take


def _serve(
    model: Any, number: int, bounds: Bounds, folder: Path, pipe: Any, counter: Any, found: Any
) -> None:
    """A worker process."""

    def progress(states: int) -> None:
        found[number] = states

    try:
        worker = Worker(compile_model(model), number, bounds, folder)
        while True:
            word, order = pipe.recv()
            if word == "expand":
                pipe.send(worker.expand(_taker(order.chunks, counter), order, progress))
            else:
                pipe.send(worker.settle(order))
    except SpecError as error:
        pipe.send(str(error))
    except EOFError:
        return


def _retrace(compiled: CompiledModel, marks: list[int], symmetry: bool) -> list[TraceStep]:
    """The states behind the fingerprints, found again by walking from a first state."""

    def mark_of(state: tuple[Any, ...]) -> int:
        return fingerprint(compiled.canonical(state) if symmetry else state)

    state = next(state for state in compiled.initial() if mark_of(state) == marks[0])
    steps = [TraceStep("", compiled.show(state))]
    for mark in marks[1:]:
        taken, parameters, state = next(
            step for step in compiled.successors(state) if mark_of(step[2]) == mark
        )
        steps.append(TraceStep(compiled.show_step(taken, parameters), compiled.show(state)))
    return steps
