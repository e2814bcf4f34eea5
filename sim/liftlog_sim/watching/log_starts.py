"""LogStartMonotone: where each copy begins, durably, moves up only, and not past what is committed (C3).

A reset alone may take it back (R6). Storage says where a log begins when it is opened or its start has moved.
Of a reset it says only that it is durable; until then a start may find the log as it was or as it is to be.
"""

from __future__ import annotations

from collections.abc import Iterable

from liftlog.messages import Durable, ResetLog, TrashLog
from liftlog.types import LogSummary, PartitionId, Ticket
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.machine import Machine
from liftlog_sim.truth.account import Account


class LogStarts:
    """The log start of every copy, as its storage told it last."""

    __slots__ = ("_account", "_cluster", "_resets", "_starts", "_truth")

    def __init__(self, cluster: Cluster, account: Account) -> None:
        self._cluster = cluster
        self._account = account
        self._truth = account.truth
        self._starts = account.log_starts
        self._resets: dict[int, dict[Ticket, PartitionId]] = {}
        """Of each node, the last reset of each log, until storage answers."""

    def began(self, machine: Machine, found: Iterable[LogSummary], exempt: bool) -> None:
        """A process has read its disk; what an earlier one waited for is never answered. `exempt`: what it
        has not found may have been destroyed by us.
        """
        self._resets[machine.number] = {}
        if exempt:
            there = {summary.log for summary in found}
            for number, log in self._starts:
                if number == machine.number and log not in there:
                    self.fresh(machine, log)

    def opened(self, machine: Machine, summary: LogSummary, exempt: bool) -> None:
        """Storage has opened a log; `exempt`: it may lack what we have damaged. Raises Violation."""
        if exempt:
            self._starts[machine.number, summary.log] = summary.log_start
        else:
            self._now(machine, summary.log, summary.log_start)

    def fresh(self, machine: Machine, log: PartitionId) -> None:
        """An empty log stands in place of what was there, or nothing does (I1, I2)."""
        self._starts[machine.number, log] = 0

    def trashed(self, machine: Machine, effect: TrashLog) -> None:
        """The copy goes. One that is made there later may be found before it begins where it is to (C7)."""
        self.fresh(machine, effect.log)

    def moved(self, machine: Machine, log: PartitionId, start: int) -> bool:
        """Storage has answered; whether the log begins later than before. Raises Violation."""
        before = self._starts.get((machine.number, log), 0)
        self._now(machine, log, start)
        return start > before

    def reset(self, machine: Machine, effect: ResetLog) -> None:
        key = (machine.number, effect.log)
        self._starts[key] = min(self._starts.get(key, 0), effect.start)
        resets = self._resets[machine.number]
        resets = {ticket: log for ticket, log in resets.items() if log != effect.log}
        self._resets[machine.number] = {**resets, effect.ticket: effect.log}

    def synced(self, machine: Machine, event: Durable) -> None:
        """If that was a reset, it is done. Raises Violation."""
        log = self._resets[machine.number].pop(event.ticket, None)
        replica = machine.node.replicas.get(log) if machine.node is not None and log is not None else None
        if replica is not None:
            self._now(machine, replica.id, replica.log_start, anew=True)

    def _now(self, machine: Machine, log: PartitionId, start: int, anew: bool = False) -> None:
        """`anew`: by a reset, whatever was there before."""
        key = (machine.number, log)
        truth = self._truth(log)
        newest = self._cluster.newest_metadata()
        stream = newest.by_id.get(log[0]) if newest is not None else None
        kept = stream is not None and stream.config.retention.unlimited
        most = truth.purge_asked if kept else truth.hw
        if stream is not None and not log.is_journal and start > most:
            emptied = self._account.deletions(log)
            most = max(most, emptied.front()) if emptied.frees else most  # R26, R27
        if log.is_journal:
            # Not past what a committed entry says to be said again (R21).
            deletions = self._account.deletions(log.partition)
            deletions.named()
            most = deletions.restated
        before = start if anew else self._starts.get(key, 0)
        truth.log_start_moved(machine.number, start, before, most)
        self._starts[key] = start
