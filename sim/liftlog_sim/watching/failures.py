"""FailureHeard: a copy whose log has failed is used again when the metadata group has heard of that (R5).

What a sync has failed for may be gone, though it was counted on. The group's record of the partition says of
which failures of a node it has heard; where a log failed that was open, it must say more than it did then
when the copy is ready again. A node that holds no copy any more by the record, or whose process has ended,
has nothing to tell: the next one tells what it has found (R14). Where a copy has stopped since a write was
refused (D5), a sync that fails then has nothing to tell either: what was durable still is, and nobody counts
on more.
"""

from __future__ import annotations

from collections.abc import Mapping

from liftlog.messages import StorageFailed
from liftlog.types import RAFT_LOG, LogSummary, PartitionId
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.machine import Machine
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Violation

Told = tuple[int, int]
"""Incarnation and number of a failure."""


class Failures:
    """Of all running processes: which logs are open and in use, and which have failed and are not used again
    yet.
    """

    __slots__ = ("_account", "_cluster", "_failed", "_open")

    def __init__(self, cluster: Cluster, account: Account) -> None:
        self._account = account
        self._cluster = cluster
        self._open: dict[int, set[PartitionId]] = {}
        self._failed: dict[int, dict[PartitionId, Told]] = {}
        """Of each node, by log: of which failure the group had heard when it failed."""

    def began(self, machine: Machine) -> None:
        """A process has read its disk."""
        self._open[machine.number] = set()
        self._failed[machine.number] = {}

    def opened(self, machine: Machine, summary: LogSummary) -> None:
        """Storage has opened a log."""
        self._open[machine.number].add(summary.log)

    def failed(self, machine: Machine, event: StorageFailed) -> None:
        """Storage could not do something for a log; if that was to sync what it holds, it has failed."""
        log, number = event.log, machine.number
        if log == RAFT_LOG or machine.node is None:
            return
        in_use, replicas = self._open[number], machine.node.replicas
        if not event.sync:
            both = [one for one in (log.partition, log.partition.journal) if one in replicas]
            in_use.difference_update([one for one in both if replicas[one].state == "failed"])
        elif log in in_use:
            in_use.remove(log)
            self._failed[number].setdefault(log, self._heard(log, number) or (0, 0))

    def _heard(self, log: PartitionId, number: int) -> Told | None:
        """Of which failure of this node's copy the group has heard last; None: it holds none."""
        newest = self._cluster.newest_metadata()
        record = newest.partitions.get(log.partition) if newest is not None else None
        if record is None or number not in record.replicas:
            return None
        return record.failures.get(number, (0, 0))

    def look(self, machine: Machine) -> None:
        """A step of the node is over. Raises Violation."""
        failed = self._failed[machine.number]
        if not failed or machine.node is None:
            return
        replicas: Mapping[PartitionId, object] = machine.node.replicas
        for log in [log for log in failed if log not in replicas]:
            del failed[log]
        for log in [log for log in failed if machine.node.replicas[log].state == "ready"]:
            before, heard = failed.pop(log), self._heard(log, machine.number)
            self._account.checks.counts["FailureHeard"] += 1
            if heard is not None and heard <= before:
                text = f"node {machine.number} uses its copy of {log} again, which has failed; the group has"
                raise Violation("FailureHeard", f"{text} heard of no failure there since {heard}")
