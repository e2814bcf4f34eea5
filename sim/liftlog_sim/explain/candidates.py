"""Runs of smaller worlds, for who looks for the smallest one that still fails: verdicts, kept by world.

A candidate is run no further than it can be of use: a violation that a step showed is expected to come no
later than the one that is being shrunk, and a little; only what shows when everything is healed needs a whole
run.
"""

from __future__ import annotations

import re
import time
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.chance.plan import Plan
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.explain.rules import rule_of
from liftlog_sim.kernel import SECOND
from liftlog_sim.runs.runner import run_world
from liftlog_sim.runs.runs import RunOptions, RunResult
from liftlog_sim.study.loading import load_study
from liftlog_sim.truth.names import FINAL_INVARIANTS, SICK_INVARIANTS
from liftlog_sim.world import World

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
        said = result.finding.partition("): ")[2] or result.finding
        found = _ACTION.search(said)
        action = f"{model} {found.group(1) or found.group(2)}" if found else model
    return Fingerprint(result.invariant, rule_of(result.invariant)[0], action)


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

    def expect_by(self, at_us: int) -> None:
        """The violation came at this time; a smaller world shows it about then, or is of no use."""
        final = (*FINAL_INVARIANTS, *SICK_INVARIANTS, *load_study(self.options.studies).final)
        if self.wanted.invariant not in final and self.options.gear == "step":
            self.limit_us = at_us + LATE_US

    def fails(self, candidate: Candidate) -> int:
        """When it shows the wanted violation, in microseconds; -1 = it does not. Nothing fails once the
        budget is spent.
        """
        key = _encode(candidate)
        known = self._verdicts.get(key)
        if known is not None:
            self.cached += 1
            return known
        if self.over:
            return -1
        found = self._verdicts[key] = self._judge(candidate)
        return found

    def draw(self, candidate: Candidate) -> Candidate | None:
        """The same world, with all that chance decides in it stated; None if it violates nothing in time."""
        self.runs += 1
        options = candidate.options(self.options)
        most_us = candidate.knobs.duration_us if self.limit_us else 0
        drawn, result = drawn_candidate(options, candidate.knobs, candidate.plan, most_us)
        return drawn if result is not None and not result.good else None

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

    def _judge(self, candidate: Candidate) -> int:
        self.runs += 1
        try:
            result = run_candidate(self.options, candidate, self.limit_us)
        except LiftlogError:
            return -1  # The plan names a node that is no more.
        if result is None or result.good:
            return -1
        fingerprint = fingerprint_of(result)
        if fingerprint == self.wanted:
            return round(result.at_s * SECOND)
        self.finds.setdefault(fingerprint, (candidate, result))
        return -1


def run_candidate(options: RunOptions, candidate: Candidate, limit_us: int = 0) -> RunResult | None:
    """Run a candidate; None if `limit_us` came before anything was violated. Raises LiftlogError."""
    return _run(candidate.options(options), candidate.knobs, candidate.plan, limit_us, [], noting=False)


def drawn_candidate(
    options: RunOptions, knobs: Knobs, plan: Plan, limit_us: int = 0
) -> tuple[Candidate, RunResult | None]:
    """The whole world, with all that chance decided in it stated; what it violates, None if `limit_us` came
    before that. Raises LiftlogError.
    """
    seen: list[World] = []
    result = _run(options, knobs, plan, limit_us, seen, noting=True)
    return Candidate(knobs, seen[0].drawn(), options.seed), result


def _run(
    options: RunOptions, knobs: Knobs, plan: Plan, limit_us: int, seen: list[World], *, noting: bool
) -> RunResult | None:
    def watch(world: World) -> None:
        seen.append(world)
        if limit_us:
            world.kernel.at(limit_us, _stop)

    try:
        return run_world(options, knobs, plan, watch, noting=noting)
    except _TimeIsUp:
        return None


def _stop(first: Any, second: Any) -> None:
    raise _TimeIsUp
