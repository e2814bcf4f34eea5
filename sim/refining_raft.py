"""Checks each step of the metadata group against the Raft model while a world runs (spec/refine/raft.py).

A disk that the simulator has replaced comes back with another id, which the model knows as a lost disk. One
that it has set back, or whose metadata it has damaged, may be found as no crash can leave it: the checker is
told of these disks, and of no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog.core.raft_steps import RaftRecorder
from liftlog.messages import Effect, Event
from sim.invariants import Violation
from spec.refine.raft import Disagreement, RaftChecker

if TYPE_CHECKING:
    from sim.machine import Machine

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
    from spec.models.raft import Raft

    return [f"Raft {action.name}" for action in Raft().actions]


class RaftRefining:
    """The Raft lines of all nodes, checked one by one."""

    def __init__(self, checks: dict[str, int]) -> None:
        self.checker: RaftChecker | None = None
        self._checks = checks
        self._recorders: dict[int, RaftRecorder] = {}
        self._disks: dict[int, int] = {}
        self._steps = 0

    def created(self, machine: Machine) -> None:
        """A process has its node, which is not started yet."""
        node, recovered = machine.node, machine.recovered
        assert node is not None and recovered is not None
        if self.checker is None:
            self.checker = RaftChecker(node.config.voters)
        self._recorders[machine.number] = RaftRecorder(node.raft, node.ctx.nonce, recovered.identity.disk_id)
        struck = machine.world.faults.atlas.disks.get(machine.number, 0)
        if struck != self._disks.get(machine.number, 0):
            self._disks[machine.number] = struck
            self.checker.struck(machine.number, "set back or damaged")

    def stepped(self, machine: Machine, event: Event | None, effects: list[Effect]) -> None:
        """After each step of a node. Raises Violation."""
        assert self.checker is not None
        self._steps += 1
        line = self._recorders[machine.number].stepped(event, effects)
        if line is None:
            return
        self._checks[NAME] += 1
        try:
            self.checker.step(line)
        except Disagreement as found:
            raise Violation(NAME, f"Raft, {found}") from None

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
        found.update({f"Raft {name}": number for name, number in checker.actions.items() if number})
        found.update({f"outside: Raft, {name}": number for name, number in checker.outside.items()})
        return found
