"""Runs of smaller worlds, for who looks for the smallest one that still fails: verdicts, kept by world.

A candidate is run no further than it can be of use: a violation that a step showed is expected to come no
later than the one that is being shrunk, and a little; only what shows when everything is healed needs a whole
run. In a world of which much was taken away messages may answer each other without end: so a run ends as well
when nodes have made several times the steps of the whole world, and when it has taken too large a part of the
time that there is.
"""

from __future__ import annotations

import math
import re
import time
from typing import Any, NamedTuple

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.chance.plan import Plan
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.explain.rules import rule_of
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.refine.clients import READER, WHO
from liftlog_sim.runs.runner import run_world
from liftlog_sim.runs.runs import RunOptions, RunResult, verdict
from liftlog_sim.study.loading import load_study
from liftlog_sim.truth.names import FINAL_INVARIANTS, SICK_INVARIANTS
from liftlog_sim.world import World

STEPS_TIMES = 3
"""A smaller world is of no use after so many times the steps of the whole one."""
RUN_PART = 3
"""One run takes no more than this part of the budget."""
LOOK_US = 10 * MILLISECOND
"""So often it is looked whether it does, in the world's time."""
LATE_US = 2 * SECOND
"""So much later than the violation of the whole world a smaller one may show it."""
_ACTION = re.compile(r"\b([A-Z][A-Za-z]+)\(|: ([A-Z][A-Za-z]+):")
_encode = msgspec.json.Encoder().encode


class Candidate(msgspec.Struct, frozen=True):
    """A world: what was stated of it, and the seed that decides the rest."""

    knobs: Knobs
    plan: Plan
    seed: int

    def options(self, options: RunOptions) -> RunOptions:
        """These, with its own seed."""
        return msgspec.structs.replace(options, seed=self.seed)


class Fingerprint(msgspec.Struct, frozen=True):
    """By what a violation is known again: its invariant and rule, and of the model which action."""

    invariant: str
    rule: str
    action: str = ""

    def __str__(self) -> str:
        return " ".join(
            part for part in (self.invariant, self.action, self.rule and f"({self.rule})") if part
        )


def fingerprint_of(result: RunResult) -> Fingerprint:
    """Of a run that failed."""
    action = ""
    if result.invariant == "Refinement":
        model = "Raft" if result.finding.startswith("Raft,") else "ISR"
        model = READER if WHO in result.finding else model
        said = result.finding.partition("): ")[2] or result.finding
        found = _ACTION.search(said)
        action = f"{model} {found.group(1) or found.group(2)}" if found else model
    return Fingerprint(result.invariant, rule_of(result.invariant)[0], action)


class Patience(NamedTuple):
    """How far a candidate is run: up to a moment of its own (0: to its end), until this process has spent so
    much processor time, and until its nodes have made so many steps (0: any number)."""

    world_us: int = 0
    process_s: float = math.inf
    steps: int = 0


ENDLESS = Patience()


class _TimeIsUp(Exception):
    """The world has come to where it is of no use any more."""


class Court:
    """Judges candidates, each once. The budget is time of this process, not of what else the machine does."""

    def __init__(self, options: RunOptions, wanted: Fingerprint, seconds: float) -> None:
        self.options = options
        self.wanted = wanted
        self.runs = 0
        self.cached = 0
        self.finds: dict[Fingerprint, tuple[Candidate, RunResult]] = {}
        """Other violations that were met, each with the first world that showed it."""
        self.limit_us = 0
        """0 = a candidate is run to its end."""
        self.steps_max = 0
        """0 = its nodes may make any number of steps."""
        self.at_end = wanted.invariant in SICK_INVARIANTS
        """It is judged once, when the fault phase ends: what comes after that is of no use."""
        self._verdicts: dict[bytes, int] = {}
        self._started = time.process_time()
        self._seconds = seconds

    @property
    def spent_s(self) -> float:
        return time.process_time() - self._started

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return self.spent_s >= self._seconds

    def _patience(self, world_us: int) -> Patience:
        spent_s = time.process_time()
        left_s = min(self._started + self._seconds, spent_s + self._seconds / RUN_PART)
        return Patience(world_us, left_s, self.steps_max)

    def expect_by(self, at_us: int) -> None:
        """The violation came at this time; a smaller world shows it about then, or is of no use."""
        final = (*FINAL_INVARIANTS, *SICK_INVARIANTS, *load_study(self.options.studies).final)
        if self.wanted.invariant not in final and self.options.gear == "step":
            self.limit_us = at_us + LATE_US

    def fails(self, candidate: Candidate, by_us: int = 0) -> int:
        """When it shows the wanted violation, in microseconds; -1 = it does not, or not by the moment that is
        named. Nothing fails once the budget is spent.
        """
        key = _encode(candidate)
        known = self._verdicts.get(key)
        if known is not None:
            self.cached += 1
            return known
        if self.over:
            return -1
        found = self._verdicts[key] = self._judge(candidate, by_us)
        return found

    def draw(self, candidate: Candidate) -> tuple[Candidate, int] | None:
        """The same world, with all that chance decides in it stated, and when it shows the wanted violation;
        None if it does not in time.
        """
        self.runs += 1
        options = candidate.options(self.options)
        most_us = candidate.knobs.duration_us if self.limit_us else 0
        drawn, result = drawn_candidate(options, candidate.knobs, candidate.plan, self._patience(most_us))
        at_us = self._at(drawn, result)
        return None if at_us < 0 else (drawn, at_us)

    def is_clean(self, candidate: Candidate) -> bool:
        """Whether nothing is violated without the mutant, so that a test of this world can pass."""
        if not self.options.mutant:
            return True
        self.runs += 1
        honest = msgspec.structs.replace(self.options, mutant="")
        try:
            result = run_candidate(honest, candidate)
        except LiftlogError:
            return False
        return result is not None and result.good

    def _judge(self, candidate: Candidate, by_us: int) -> int:
        self.runs += 1
        try:
            limit_us = candidate.knobs.duration_us + LOOK_US if self.at_end else by_us or self.limit_us
            result = run_candidate(self.options, candidate, self._patience(limit_us))
        except LiftlogError:
            return -1  # The plan names a node that is no more.
        return self._at(candidate, result)

    def _at(self, candidate: Candidate, result: RunResult | None) -> int:
        """When a run showed the wanted violation; -1 = it did not. Another one is a find."""
        if result is None or result.good:
            return -1
        fingerprint = fingerprint_of(result)
        if fingerprint == self.wanted:
            return round(result.at_s * SECOND)
        self.finds.setdefault(fingerprint, (candidate, result))
        return -1


def run_candidate(
    options: RunOptions, candidate: Candidate, patience: Patience = ENDLESS
) -> RunResult | None:
    """Run a candidate; None if patience was over before anything was violated. Raises LiftlogError."""
    return _run(candidate.options(options), candidate.knobs, candidate.plan, patience, [], noting=False)


def drawn_candidate(
    options: RunOptions, knobs: Knobs, plan: Plan, patience: Patience = ENDLESS
) -> tuple[Candidate, RunResult | None]:
    """The whole world, with all that chance decided in it stated; what it violates, None if patience was over
    before that. Raises LiftlogError.
    """
    seen: list[World] = []
    result = _run(options, knobs, plan, patience, seen, noting=True)
    return Candidate(knobs, seen[0].drawn(), options.seed), result


def _run(
    options: RunOptions, knobs: Knobs, plan: Plan, patience: Patience, seen: list[World], *, noting: bool
) -> RunResult | None:
    def watch(world: World) -> None:
        seen.append(world)
        if patience.world_us:
            world.kernel.at(patience.world_us, _stop)
        if patience.process_s < math.inf or patience.steps:
            world.kernel.after(LOOK_US, look, world)

    def look(first: World, second: Any) -> None:
        if patience.steps and first.observer.busy.steps > patience.steps:
            raise _TimeIsUp
        if time.process_time() >= patience.process_s:
            raise _TimeIsUp
        first.kernel.after(LOOK_US, look, first)

    try:
        return run_world(options, knobs, plan, watch, noting=noting)
    except _TimeIsUp:
        if seen[0].observer.refining is None:
            return None
        # Steps were noted that nobody has held against the model yet.
        result = verdict(options, seen[0], None, 0.0)
        return None if result.good else result


def _stop(first: Any, second: Any) -> None:
    raise _TimeIsUp
