"""Checks each step of each replica against the model while a world runs (liftlog_spec/refine). Refinement.

Attached after the invariants of the observer: what breaks a state invariant keeps that one's name. It draws
nothing and changes nothing, so that a seed runs the same with it and without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from liftlog.core.metadata.commands import Command
from liftlog.core.metadata.records import CommandResult
from liftlog.messages import Durable, Outcome, Received
from liftlog.trace.parting import OF_REPLICAS, OF_THE_GROUP, Parts, parted
from liftlog.trace.replica_recorder import Seen, Told
from liftlog_sim.kernel import Kernel
from liftlog_sim.refine.clients import READER, READER_ACTIONS
from liftlog_sim.refine.raft import (
    BASIC_RAFT_ACTIONS,
    NAME,
    RaftNote,
    RaftRefining,
    RefinedProcess,
    required_raft_actions,
)
from liftlog_sim.truth.invariants import Violation
from liftlog_spec.refine.checker import Mismatch, Refinement

if TYPE_CHECKING:
    from liftlog_sim.devices.machine import Machine

NO_EFFECTS: Parts = ((), ())
AT_ONCE = 1_000
"""Steps that are checked together: the more, the less each costs, since what a check needs stays at hand."""
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


RARE_ACTIONS = ("ConfessOfBefore", "CutIsUndone")
"""A log fails between a cut and its sync: once in thousands of seeds; see `tests/spec/test_refine_isr.py`."""


def required_actions() -> list[str]:
    """What a complete refinement of a full sweep must have taken: every action of the model, but for rare
    ones, and for what follows from an operator's consent to lose something, which no fault makes him give.
    """
    from liftlog_spec.models.isr_steps import IsrSteps

    actions = IsrSteps(moves="right", alters="right").actions
    wanted = [action.name for action in actions if action.name not in RARE_ACTIONS]
    return wanted + required_raft_actions() + [f"{READER} {name}" for name in READER_ACTIONS]


ReplicaNote = tuple[int, int, RefinedProcess, Seen]
"""A step: its place among those that were noted since the last check, when, by whom, and what it did."""


class Disagreeing(NamedTuple):
    """A step that a model does not explain. `place`: among those that were noted since the last check."""

    place: int
    at_us: int
    node: int
    model: str
    action: str
    """Empty if the checker names none apart from its finding."""
    finding: str
    text: str

    def violation(self) -> Violation:
        return Violation(NAME, self.text, self.at_us)


def _raised(found: Disagreeing | None) -> None:
    if found is not None:
        raise found.violation()


class Refining:
    """The protocol trace of all nodes, checked step by step, many steps at a time.

    A step costs least when it is only noted while the world runs, and checked together with others; so a
    violation is found up to `AT_ONCE` steps after it happened, and says when that was. Whoever ends a run
    asks for what is left (`check`): what was noted happened before whatever else was found.
    """

    def __init__(
        self,
        checks: dict[str, int],
        kernel: Kernel,
        judge: Callable[[Disagreeing | None], None] | None = None,
    ) -> None:
        """`judge`: told with each check what it found, in place of raising that."""
        self.refinement = Refinement()
        self._judge = judge if judge is not None else _raised
        self._checks = checks
        self._kernel = kernel
        self.raft = RaftRefining(checks)
        self._processes: dict[int, RefinedProcess] = {}
        self._told = Told()
        self._replica_steps = 0
        self._noted = 0
        """Steps since the last check, and those of them that a model has to explain."""
        self._replica_steps_noted: list[ReplicaNote] = []
        self._raft_steps_noted: list[RaftNote] = []

    def created(self, machine: Machine) -> None:
        """A process has its node, which is not started yet. Raises Violation."""
        struck = self.raft.struck(machine)
        if struck:
            # What the disk held counts for the process that starts now, not for the one before.
            self.check()
        assert machine.node is not None
        self.raft.created(machine, machine.node.config, struck)
        former = self._processes.get(machine.number)
        if former is not None:
            self._replica_steps += former.replica_steps
        self._processes[machine.number] = RefinedProcess(machine, self._told)

    def applied(self, machine: Machine, index: int, command: Command, result: CommandResult) -> None:
        """A node has applied a command, in the middle of a step."""
        process = self._processes[machine.number]
        process.applied = True
        process.replicas.applied(index, command, result)

    def installed(self, machine: Machine, index: int) -> None:
        """A node goes on from a leader's snapshot."""
        self._processes[machine.number].replicas.jumped(index)

    def stepped(self, machine: Machine, event: Any, outcome: Outcome) -> None:
        """After each `Node.step`. Raises Violation."""
        process = self._processes[machine.number]
        place = self._noted
        self._noted = place + 1
        process.replica_steps += len(process.node.replicas)
        kind = type(event)
        message = type(event.message) if kind is Received else None
        group, effects = parted(outcome.effects) if outcome.effects else NO_EFFECTS
        if outcome.touched or effects or process.applied or message in OF_REPLICAS:
            process.applied = False
            seen = process.replicas.seen(event, outcome, effects)
            if seen is not None:
                self._replica_steps_noted.append((place, self._kernel.now_us, process, seen))
        remembers = process.raft.seen(outcome.group_log_from)
        speaks = group or message in OF_THE_GROUP or kind is Durable or event is None
        if speaks or remembers is not process.remembered:
            process.remembered = remembers
            self._raft_steps_noted.append((place, self._kernel.now_us, process, event, group, remembers))
        if place >= AT_ONCE - 1:
            self.check()

    def check(self) -> None:
        """Explain every step that was noted. Raises Violation."""
        self._judge(self.first_disagreement())

    def first_disagreement(self) -> Disagreeing | None:
        """The first step that was noted and that a model does not explain; all are forgotten."""
        noted, self._noted = self._noted, 0
        replica_steps, self._replica_steps_noted = self._replica_steps_noted, []
        raft_steps, self._raft_steps_noted = self._raft_steps_noted, []
        if not noted:
            return None
        # One model after the other, since a loop over much of the same is fast.
        raft = self.raft.explain(raft_steps, noted)
        replicas = self._explain(replica_steps, raft[0][0] if raft is not None else noted)
        if raft is not None and (replicas is None or raft[0][0] <= replicas[0][0]):
            (place, at_us, *_), refused = raft
            text = f"Raft, {refused}"
            return Disagreeing(place, at_us, refused.node, "raft", "", refused.finding, text)
        if replicas is not None:
            (place, at_us, *_), mismatch = replicas
            text, node = str(mismatch), mismatch.node
            return Disagreeing(place, at_us, node, "isr-steps", mismatch.action, mismatch.finding, text)
        return None

    def _explain(self, noted: list[ReplicaNote], last: int) -> tuple[ReplicaNote, Mismatch] | None:
        """The first step up to place `last` that the ISR model does not explain, and why."""
        take, told = self.refinement.take, 0
        try:
            for note in noted:
                place, _, process, seen = note
                if place > last:
                    break
                for line in process.replicas.lines(seen):
                    told += 1
                    take(line)
        except Mismatch as mismatch:
            return note, mismatch
        finally:
            self._checks[NAME] += told
        return None

    def counters(self) -> dict[str, int]:
        """For the run's result: steps of replicas, actions by name, and what the model does not contain."""
        refinement = self.refinement
        running = self._processes.values()
        replica_steps = self._replica_steps + sum(each.replica_steps for each in running)
        found = {
            STEPS: replica_steps,
            ACTIONS: refinement.actions,
            STUTTERS: replica_steps - refinement.lines + refinement.stutters,
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
