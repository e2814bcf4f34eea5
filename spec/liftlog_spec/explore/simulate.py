"""Random walks through a model that is too large to be explored whole.

Each walk begins in one of the first states and takes at each step one of the possible action instances, all
equally likely. Walk i is drawn from the seed and i alone, so that a simulation finds the same whatever the
number of processes. A walk ends after `depth` steps, where nothing is possible, outside a constraint, or with
a violation. All walks are made, and the shortest violation found is shown (of several, the earliest walk's);
nothing says that there is none shorter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing import get_context
from random import Random
from typing import Any

import msgspec

from liftlog_spec.explore.report import DEADLOCK, Bounds, ExplorationReport, TraceStep, Walks
from liftlog_spec.explore.worker import TYPE_CHECKED, answer_of
from liftlog_spec.lang.types import SpecError
from liftlog_spec.run.compiled import CompiledModel, State, compile_model

SHOWN_EVERY = 100
"""Walks between two progress lines of a worker."""


class Walked(msgspec.Struct):
    """What some of the walks found. `violation`: (steps, number of the walk, invariant)."""

    states: int = 0
    longest: int = 0
    deadlocks: int = 0
    violation: tuple[int, int, str] | None = None
    unseen: list[str] = []
    taken: list[int] = []


class Walker:
    """Makes walks of one model."""

    def __init__(self, compiled: CompiledModel, bounds: Bounds, walks: Walks) -> None:
        self._compiled = compiled
        self._bounds = bounds
        self._walks = walks
        self._first = compiled.initial()
        if not self._first:
            raise SpecError(f"model {compiled.name} has no first state: a guard of @initial is never true")
        self._constrained = bool(compiled.model.constraints)
        self._unseen = list(compiled.sometimes)
        self.walked = Walked(taken=[0] * len(compiled.actions))

    def walk(self, number: int) -> None:
        """One walk, which ends with the first violation."""
        walked = self.walked
        chance = Random(f"{self._walks.seed} {number}")
        state = self._first[chance.randrange(len(self._first))]
        length = 1
        while not (broken := self._look(state)):
            if length > self._walks.depth or (self._constrained and not self._compiled.allowed(state)):
                break
            taken, _, successor = self._choose(chance, state)
            if successor is None:
                if not self._compiled.final(state):
                    walked.deadlocks += 1
                    broken = DEADLOCK if self._bounds.deadlock else ""
                break
            walked.taken[taken] += 1
            state = successor
            length += 1
        walked.longest = max(walked.longest, length)
        if broken and (walked.violation is None or length < walked.violation[0]):
            walked.violation = (length, number, broken)

    def _choose(self, chance: Random, state: State) -> tuple[int, tuple[Any, ...], State | None]:
        try:
            possible = self._compiled.successors(state)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise SpecError(self._compiled.blame(error, state)) from error
        return possible[chance.randrange(len(possible))] if possible else (0, (), None)

    def _look(self, state: State) -> str:
        """The invariant that this state violates, or nothing."""
        self.walked.states += 1
        if self.walked.states <= TYPE_CHECKED:
            wrong = self._compiled.wrong_type(state)
            if wrong:
                raise SpecError(f"model {self._compiled.name}: {wrong}, in {self._compiled.show(state)}")
        try:
            for name, holds in self._compiled.invariants:
                if not holds(state):
                    return name
            if self._unseen:
                self._unseen = [(name, seen) for name, seen in self._unseen if not seen(state)]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise SpecError(self._compiled.blame(error, state)) from error
        return ""

    def run(self, worker: int, jobs: int, progress: Callable[[int, int], None]) -> Walked:
        """Every `jobs`-th walk."""
        for made, number in enumerate(range(worker, self._walks.number, jobs), 1):
            self.walk(number)
            if made % SHOWN_EVERY == 0:
                progress(made, self.walked.states)
        self.walked.unseen = [name for name, _ in self._unseen]
        return self.walked

    def trace(self, number: int, length: int) -> list[TraceStep]:
        """The first states of a walk, walked once more."""
        chance = Random(f"{self._walks.seed} {number}")
        state = self._first[chance.randrange(len(self._first))]
        steps = [TraceStep("", self._compiled.show(state))]
        while len(steps) < length:
            taken, parameters, successor = self._choose(chance, state)
            assert successor is not None
            state = successor
            steps.append(TraceStep(self._compiled.show_step(taken, parameters), self._compiled.show(state)))
        return steps


def simulate(
    model: Any, bounds: Bounds, walks: Walks, progress: Callable[[str], None] | None = None
) -> ExplorationReport:
    """Walk at random. The verdict is "violated" or "bounded". Raises SpecError."""
    compiled = compile_model(model)
    started = time.monotonic()
    context = get_context("fork")
    pipes, processes = [], []
    for number in range(1, bounds.jobs):
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(model, bounds, walks, number, theirs), daemon=True)
        process.start()
        pipes.append(ours)
        processes.append(process)

    def show(made: int, states: int) -> None:
        seconds = max(0.001, time.monotonic() - started)
        walked, seen = made * bounds.jobs, states * bounds.jobs
        if progress is not None:
            progress(f"about {walked:,} walks, {seen:,} states, {seen / seconds:,.0f}/s")

    walker = Walker(compiled, bounds, walks)
    try:
        found = [walker.run(0, bounds.jobs, show), *(answer_of(pipe) for pipe in pipes)]
    finally:
        for process in processes:
            process.terminate()
            process.join()
    report = _report(compiled, bounds, walks, found)
    violations = [each.violation for each in found if each.violation is not None]
    if violations:
        length, number, invariant = min(violations)
        report.verdict, report.invariant = "violated", invariant
        report.trace = walker.trace(number, length)
    report.seconds = round(time.monotonic() - started, 3)
    report.states_per_second = int(report.generated_states / max(report.seconds, 0.001))
    return report


def _report(compiled: CompiledModel, bounds: Bounds, walks: Walks, found: list[Walked]) -> ExplorationReport:
    model = compiled.model
    actions = {name: sum(each.taken[place] for each in found) for place, name in enumerate(compiled.actions)}
    return ExplorationReport(
        model=model.name,
        settings=model.settings,
        constants=dict(model.bindings),
        verdict="bounded",
        depth=max(each.longest for each in found),
        generated_states=sum(each.states for each in found),
        deadlocks=sum(each.deadlocks for each in found),
        unreached=[p.name for p in model.sometimes if all(p.name in each.unseen for each in found)],
        actions=actions,
        never=[name for name, steps in actions.items() if not steps],
        jobs=bounds.jobs,
        walks=walks.number,
        seed=walks.seed,
    )


def _serve(model: Any, bounds: Bounds, walks: Walks, number: int, pipe: Any) -> None:
    """A worker process."""
    try:
        walker = Walker(compile_model(model), bounds, walks)
        pipe.send(walker.run(number, bounds.jobs, lambda made, states: None))
    except SpecError as error:
        pipe.send(str(error))
