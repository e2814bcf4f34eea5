"""Checks each step of each replica against the model while a world runs (spec/refine). Refinement.

Attached after the invariants of the observer: what breaks a state invariant keeps that one's name. It draws
nothing and changes nothing, so that a seed runs the same with it and without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from liftlog.core.steps import GroupStep, Recorder
from liftlog.messages import Effect, Event
from sim.invariants import Violation
from sim.refining_raft import BASIC_RAFT_ACTIONS, RaftRefining, required_raft_actions
from spec.refine.checker import Mismatch, Refinement

if TYPE_CHECKING:
    from sim.machine import Machine

SAMPLED_ONE_IN = 16
"""Of the seeds of a sweep that does not ask for more, one in so many is refined."""
NAME = "Refinement"
STEPS, ACTIONS, STUTTERS, COMMANDS = "steps", "actions", "stutters", "commands"
OUTSIDE, RAFT = "outside: ", "Raft "

BASIC_ACTIONS = (
    *BASIC_RAFT_ACTIONS,
    "Write",
    "Sync",
    "Ask",
    "Tell",
    "ReportArrives",
    "Answer",
    "RecordsArrive",
    "AnswerWithCut",
    "CutArrives",
    "Commit",
    "ProposeAddition",
    "ApplyAddition",
    "ApplyInEpoch",
    "ApplyNewEpoch",
    "Open",
    "Crash",
    "Register",
    "RegisterAfterDamage",
    "Confirm",
    "ElectFromIsr",
    "ElectAnother",
)
"""Without these a refined sweep says nothing."""


def required_actions() -> list[str]:
    """What a complete refinement of a full sweep must have taken: every action of the model, but for what
    follows from an operator's consent to lose something, which no fault makes him give.
    """
    from spec.models.isr_steps import IsrSteps

    return [action.name for action in IsrSteps().actions] + required_raft_actions()


def is_sampled(seed: int) -> bool:
    """Whether a sweep refines this seed unasked."""
    return seed % SAMPLED_ONE_IN == 0


class Refining:
    """The protocol trace of all nodes, checked line by line."""

    def __init__(self, checks: dict[str, int]) -> None:
        self.refinement = Refinement()
        self._checks = checks
        self.raft = RaftRefining(checks)
        self._recorders: dict[int, Recorder] = {}
        self._groups = 0
        self._looked_at = 0

    def created(self, machine: Machine) -> None:
        """A process has its node, which is not started yet."""
        self.raft.created(machine)
        assert machine.node is not None
        self._recorders[machine.number] = Recorder(machine.node, self._groups)

    def stepped(self, machine: Machine, event: Event | None, effects: list[Effect]) -> None:
        """After each `Node.step`. Raises Violation."""
        self.raft.stepped(machine, event, effects)
        recorder = self._recorders[machine.number]
        before = recorder.looked_at
        lines = recorder.stepped(event, effects)
        self._looked_at += recorder.looked_at - before
        for line in lines:
            if isinstance(line, GroupStep):
                self._groups = max(self._groups, line.index)
            self._checks[NAME] += 1
            try:
                self.refinement.take(line)
            except Mismatch as mismatch:
                raise Violation(NAME, str(mismatch)) from None
        # All nodes apply the same commands: what one has told, no other needs to tell.
        for other in self._recorders.values():
            other.groups_after = self._groups

    def counters(self) -> dict[str, int]:
        """For the run's result: replicas looked at, actions by name, and what the model does not contain."""
        refinement = self.refinement
        found = {
            STEPS: self._looked_at,
            ACTIONS: refinement.actions,
            STUTTERS: self._looked_at - refinement.lines + refinement.stutters,
            COMMANDS: refinement.commands,
        }
        found.update({f"{OUTSIDE}{name}": number for name, number in refinement.outside.items()})
        found.update(sorted(refinement.counts.items()))
        return found | self.raft.counters()


def summary(refined: dict[str, int]) -> list[str]:
    """What refined runs did, for people; empty if none was refined."""
    if not refined.get(STEPS):
        return []
    steps, actions, stutters = (refined.get(RAFT + name, 0) for name in (STEPS, ACTIONS, STUTTERS))
    raft = RAFT.strip()
    isr_outside = _listed("; outside it: ", refined, lambda n: n.startswith(OUTSIDE) and raft not in n)
    raft_outside = _listed("; outside it: ", refined, lambda n: n.startswith(OUTSIDE + raft))
    return [
        f"refined: {refined[STEPS]:,} steps of replicas ({refined[STUTTERS]:,} change nothing) and "
        f"{refined[COMMANDS]:,} commands of the group are {refined[ACTIONS]:,} actions of the ISR model"
        + isr_outside,
        f"refined: {steps:,} steps of the group's nodes ({stutters:,} change nothing) are {actions:,} "
        f"actions of the Raft model{raft_outside}",
        _listed("actions: ", refined, lambda n: n[0].isupper() and n.split()[-1][0].isupper()),
    ]


def _listed(title: str, refined: dict[str, int], wanted: Callable[[str], bool]) -> str:
    found = [f"{name.removeprefix(OUTSIDE)} {number:,}" for name, number in refined.items() if wanted(name)]
    return title + ", ".join(found) if found else ""
