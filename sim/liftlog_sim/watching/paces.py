"""Who is slow is not everybody's latency, and does not come and go (R17, R18).

    SlowKeepsMinimum   nobody is removed for being slow without whom the ISR is below its minimum
    ProbationServed    who was removed for being slow is not back before the probation of so many removals has
                       passed, unless the ISR is below its minimum

Both are judged from the commands of the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog.core.metadata.commands import ChangeIsr, Command, ForgetSlow, RegisterNode, RequestId
from liftlog.core.metadata.records import CommandResult
from liftlog.types import PartitionId
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Violation

if TYPE_CHECKING:
    from liftlog_sim.devices.machine import Machine


class Paces:
    """When each replica was removed for being slow, and how often."""

    __slots__ = ("_account", "_applied", "_changes", "_removed", "violation")

    def __init__(self, account: Account) -> None:
        self._account = account
        self._applied = 0
        self._changes: set[RequestId] = set()
        """Of the ISR, that were applied: once more, one has no effect and the same result (M3)."""
        self._removed: dict[tuple[PartitionId, int], tuple[int, int]] = {}
        """Times removed, and in simulated microseconds when last."""
        self.violation: Violation | None = None
        """The first one; a node is in the middle of its step then."""

    def applied(self, machine: Machine, index: int, command: Command, result: CommandResult) -> None:
        """A process has applied a command; the first that does counts."""
        if index <= self._applied:
            return
        self._applied = index
        if self._removed:
            self._forget_dropped(machine)
        if isinstance(command, RegisterNode):
            for key in [key for key in self._removed if key[1] == command.node]:
                del self._removed[key]
        elif isinstance(command, ForgetSlow) and not result.code:
            self._removed.pop((command.partition, command.node), None)
        elif isinstance(command, ChangeIsr) and not result.code and command.request not in self._changes:
            self._changes.add(command.request)
            if command.slow:
                self._removal(machine, command)
            elif command.joiner:
                self._return(machine, command)

    def _forget_dropped(self, machine: Machine) -> None:
        """A copy that was dropped (R20) is gone with what was known of it; the next one is another."""
        records = machine.running.metadata.partitions
        for partition, node in list(self._removed):
            if partition not in records or node not in records[partition].replicas:
                del self._removed[partition, node]

    def _removal(self, machine: Machine, command: ChangeIsr) -> None:
        record = machine.running.metadata.partitions[command.partition]
        self._account.checks.counts["SlowKeepsMinimum"] += 1
        if len(record.isr) < record.min_insync:
            self._found(
                "SlowKeepsMinimum",
                f"{command.partition} has {list(record.isr)} in sync and needs {record.min_insync}, since "
                "somebody was slow",
            )
        for node, removals in record.slow.items():
            before, at_us = self._removed.get((command.partition, node), (0, 0))
            at_us = machine.kernel.now_us if removals > before else at_us
            self._removed[command.partition, node] = (removals, at_us)

    def _return(self, machine: Machine, command: ChangeIsr) -> None:
        removals, at_us = self._removed.get((command.partition, command.joiner), (0, 0))
        minimum = machine.running.metadata.partitions[command.partition].min_insync
        if not removals or len(command.isr) - 1 < minimum:
            return
        self._account.checks.counts["ProbationServed"] += 1
        config = machine.running.config
        wanted_ms = min(config.replica_probation_ms << (removals - 1), config.replica_probation_max_ms)
        # It is counted in ticks, by the leader's clock.
        least_ms = wanted_ms * (1 - 2 * machine.knobs.clock_drift) - 2 * config.tick_ms
        passed_ms = (machine.kernel.now_us - at_us) / MILLISECOND
        if passed_ms < least_ms:
            self._found(
                "ProbationServed",
                f"node {command.joiner} is back in the ISR of {command.partition} {passed_ms:.0f} ms after "
                f"it was removed for being slow, time {removals}; its probation is {wanted_ms} ms",
            )

    def _found(self, invariant: str, finding: str) -> None:
        if self.violation is None:
            self.violation = Violation(invariant, finding)
