"""Nodes of two releases in one cluster, and what its feature level promises them (U2).

    LevelForAll   when the level rises, every registered node's present run can follow; no command that is
                  newer than the level is in the log

In some worlds each start of a process draws which release it is: an upgrade, or a step back. An operator who
has seen the level rise starts the newer one only, and so does he where the older one could not read what its
disk holds; whoever still runs the older one by then is stopped and started as the newer.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import Command, RaiseLevel, decode_command
from liftlog.core.metadata.records import CommandResult
from liftlog.core.raft.members import is_change
from liftlog.types import Recovered
from liftlog_sim.chance.chances import Chances
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.machine import Machine
from liftlog_sim.kernel import SECOND
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Violation

OLD_AT_FIRST = 0.8
OLD_LATER = 0.15
NOTICED_US = 2 * SECOND
"""After so long an operator upgrades whoever the others do not speak with any more."""


class LevelWatch:
    """Which release each run is, and the truth about the level."""

    __slots__ = ("_account", "_applied", "_can", "_cluster", "_fail", "_lanes", "level")

    def __init__(
        self, cluster: Cluster, account: Account, chances: Chances, fail: Callable[[Violation], None]
    ) -> None:
        self._cluster = cluster
        self._account = account
        self._fail = fail
        self._lanes = {
            number: chances.lane(f"node {number}", "release") for number in range(1, cluster.knobs.nodes + 1)
        }
        self._can: dict[int, int] = {}
        """By the nonce of a run: up to which level it can follow."""
        self._applied = 0
        self.level = levels.FIRST

    def recovered(self, machine: Machine, recovered: Recovered) -> None:
        """A process is about to be made."""
        if self._cluster.knobs.mixed_releases:
            machine.can_level = self._draw(machine, recovered)
            older = machine.can_level < levels.NEWEST
            self._account.count("runs of an older release" if older else "runs of the newer release")
        self._can[recovered.nonce] = machine.can_level

    def _draw(self, machine: Machine, recovered: Recovered) -> int:
        draws = self._lanes[machine.number].draws()
        older = draws.random() < (OLD_AT_FIRST if machine.restarts == 1 else OLD_LATER)
        if not older or self.level > levels.FIRST or _holds_newer(recovered):
            return levels.NEWEST
        if machine.can_level > levels.FIRST and machine.restarts > 1:
            self._account.count("steps back to an older release")
        return levels.FIRST

    def applied(self, machine: Machine, index: int, command: Command, result: CommandResult) -> None:
        """A process has applied a command; the first that does counts."""
        if index <= self._applied:
            return
        self._applied = index
        self._account.checks.counts["LevelForAll"] += 1
        if levels.is_above(command, self.level):
            text = f"index {index} holds a {type(command).__name__}, and the cluster is at level {self.level}"
            self._fail(Violation("LevelForAll", text))
        if isinstance(command, RaiseLevel) and not result.code and command.to > self.level:
            self._rises(machine, index, command)

    def _rises(self, machine: Machine, index: int, command: RaiseLevel) -> None:
        self.level = command.to
        self._account.count("feature levels raised")
        self._account.row("level", f"the feature level is {command.to}")
        for node in machine.running.metadata.nodes.values():
            can = self._can.get(node.nonce, levels.FIRST)
            if can < command.to:
                text = f"index {index} raises the level to {command.to}; node {node.node} can {can}"
                self._fail(Violation("LevelForAll", text))
        for other in self._cluster.machines.values():
            if other.can_level < self.level:
                self._cluster.kernel.after(NOTICED_US, self._upgrade, other)

    def _upgrade(self, machine: Machine, second: object) -> None:
        if machine.up and machine.can_level < self.level:
            self._account.count("nodes upgraded because the level rose")
            machine.kill()
            machine.start()


def _holds_newer(recovered: Recovered) -> bool:
    """Whether the older release could not read what the disk holds."""
    datas = [entry.data for entry in recovered.raft_entries if entry.data and not is_change(entry.data)]
    return any(levels.since(decode_command(data)) > levels.FIRST for data in datas)
