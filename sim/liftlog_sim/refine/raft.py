"""Checks each step of the metadata group against the Raft model while a world runs
(liftlog_spec/refine/raft.py).

A disk that the simulator has replaced comes back with another id, which the model knows as another server.
One that it has set back, or whose metadata it has damaged, may be found as no crash can leave it: the checker
is told of these disks, and of no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from liftlog.messages import Effect, Event
from liftlog.nodeconfig import NodeConfig
from liftlog.trace.raft_lines import RaftState
from liftlog.trace.raft_recorder import RaftRecorder, echo_of
from liftlog.trace.replica_recorder import Recorder, Told
from liftlog_spec.refine.raft import RaftChecker, RaftDisagreement

if TYPE_CHECKING:
    from liftlog_sim.devices.machine import Machine

NAME = "Refinement"
BASIC_RAFT_ACTIONS = tuple(
    f"Raft {name}"
    for name in (
        "Campaign",
        "GrantVote",
        "BecomeLeader",
        "StepDown",
        "Propose",
        "Replicate",
        "Accept",
        "Commit",
        "Sync",
        "Restart",
    )
)
"""What a few refined seeds have taken already."""


def required_raft_actions() -> list[str]:
    """Every action of the model: a complete refinement of a full sweep must have taken them all."""
    from liftlog_spec.models.raft_steps import RaftSteps

    return [f"Raft {action.name}" for action in RaftSteps().actions]


class RefinedProcess:
    """The recorders of one process, and whose it is."""

    __slots__ = ("applied", "node", "number", "raft", "remembered", "replica_steps", "replicas")

    def __init__(self, machine: Machine, told: Told) -> None:
        node, recovered = machine.node, machine.recovered
        assert node is not None and recovered is not None
        self.number = machine.number
        self.node = node
        self.applied = False
        """Whether commands of the group were applied since a step was noted for the model of replicas."""
        self.replica_steps = 0
        """Steps of replicas: each of the node's is one of every replica, whether or not it did anything."""
        self.replicas = Recorder(node, told)
        self.raft = RaftRecorder(node.raft, node.ctx.nonce, recovered.identity.votes_as)
        self.remembered: RaftState | None = None
        """What it remembered of the group after the last step that was noted for the Raft model."""


RaftNote = tuple[int, int, RefinedProcess, Event | None, Sequence[Effect], RaftState]
"""A step: its place among those that were noted since the last check, when, by whom, over what, with which
effects of the group's, and what the process remembered afterwards. If nothing of the group came, left, was
stored or is remembered that was not before, there is no line of it, and nothing is noted."""


class RaftRefining:
    """The Raft lines of all nodes, checked one by one."""

    def __init__(self, checks: dict[str, int]) -> None:
        self.checker: RaftChecker | None = None
        self._checks = checks
        self._disks: dict[int, int] = {}
        self._steps = 0

    def struck(self, machine: Machine) -> bool:
        """Whether the machine's disk was set back or damaged since its last process began."""
        struck = machine.disk_losses
        before = self._disks.get(machine.number, 0)
        self._disks[machine.number] = struck
        return struck != before

    def created(self, machine: Machine, config: NodeConfig, struck: bool) -> None:
        """A process has its node, which is not started yet."""
        number, knobs = machine.number, machine.knobs
        if self.checker is None:
            later = tuple(range(knobs.nodes - knobs.joiners + 1, knobs.nodes + 1))
            self.checker = RaftChecker(config.voters, (*config.learners, *later))
        if struck:
            self.checker.struck(number, "set back or damaged")

    def explain(self, noted: Sequence[RaftNote], steps: int) -> tuple[RaftNote, RaftDisagreement] | None:
        """The first step that the Raft model does not explain, and why. `steps`: all that there were."""
        checker, told = self.checker, 0
        self._steps += steps
        if checker is None:
            return None
        try:
            for note in noted:
                _, _, process, event, effects, state = note
                echo = echo_of(event, effects)
                if echo is not None and checker.again(process.number, state, echo):
                    told += 1
                    process.raft.passed()
                    continue
                line = process.raft.line(event, effects, state)
                if line is not None:
                    told += 1
                    checker.step(line, echo)
        except RaftDisagreement as found:
            return note, found
        finally:
            self._checks[NAME] += told
        return None

    def counters(self) -> dict[str, int]:
        """For the run's result: actions by name, and what the model does not contain."""
        checker = self.checker
        if checker is None:
            return {}
        found = {
            "Raft steps": self._steps,
            "Raft actions": sum(checker.actions.values()),
            "Raft stutters": self._steps - checker.steps + checker.stutters,
        }
        if checker.replaced:
            found["Raft disks replaced"] = checker.replaced
        found.update({f"Raft {name}": number for name, number in checker.actions.items() if number})
        found.update({f"outside: Raft, {name}": number for name, number in checker.outside.items()})
        return found
