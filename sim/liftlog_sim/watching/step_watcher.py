"""What the observer tells whoever holds each step against a model while a world runs (`refine/`)."""

from __future__ import annotations

from typing import Protocol

from liftlog.core.metadata.commands import Command
from liftlog.core.metadata.records import CommandResult
from liftlog.messages import Event, Outcome
from liftlog_sim.devices.machine import Machine


class StepWatcher(Protocol):
    """See the module."""

    def created(self, machine: Machine) -> None:
        """A process has its node, which is not started yet. Raises Violation."""
        ...

    def applied(self, machine: Machine, index: int, command: Command, result: CommandResult) -> None:
        """The node has applied a command, in the middle of a step."""
        ...

    def installed(self, machine: Machine, index: int) -> None:
        """A leader's snapshot has taken the place of what the node had applied, in the middle of a step."""
        ...

    def stepped(self, machine: Machine, event: Event | None, outcome: Outcome) -> None:
        """After each step. Raises Violation."""
        ...

    def check(self) -> None:
        """Explain what was only noted so far. Raises Violation."""
        ...

    def counters(self) -> dict[str, int]:
        """What was done, for the run's result."""
        ...
