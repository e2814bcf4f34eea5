"""Looks at what compaction leaves: a copy is read from its disk and judged record by record (C1, C2, C4).

What a copy may lack is told in `truth/contents.py`.
"""

from __future__ import annotations

import msgspec

from liftlog.messages import Compacted
from liftlog.types import CompactionPolicy, PartitionId
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.copies import copy_of
from liftlog_sim.devices.machine import Machine
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.truth.account import Account


class CompactedCopies:
    """How far each copy is compacted, and whether it has what it must have."""

    def __init__(self, cluster: Cluster, account: Account) -> None:
        self._cluster = cluster
        self._count, self._truth = account.count, account.truth
        self._dropped: dict[tuple[int, PartitionId], int] = {}

    def compacted(self, machine: Machine, event: Compacted) -> None:
        """Storage has compacted a slice. Raises Violation."""
        self._count("compaction slices")
        key = (machine.number, event.log)
        dropped = self._dropped.get(key, 0)
        if event.dropped_below > dropped:
            self._count("tombstones dropped")
        before = self.clean_point(machine, event.log, event.clean_point)
        if event.clean_point != before or event.dropped_below != dropped:
            self._count("compactions")
            self._dropped[key] = event.dropped_below
            self.judge(machine, event.log)

    def judge(self, machine: Machine, log: PartitionId) -> None:
        """Read a compacted replica from its disk and compare it with the truth. Raises Violation."""
        node = machine.node
        policy = self.policy_of(log)
        if node is None or policy is None or machine.damaged_run >= 0:
            return
        replica = node.replicas.get(log)
        if replica is None or replica.state != "ready":
            return
        truth = self._truth(log)
        copy = copy_of(machine.disk, log, self._cluster.sealer)
        clean_point = truth.contents.clean_points.get(machine.number, 0)
        now_ms = self._cluster.kernel.now_us // MILLISECOND
        drift = self._cluster.knobs.clock_drift
        # A clock that runs fast lets a tombstone go early by so much, in true time.
        patience_ms = int(policy.tombstone_retention_ms / (1 + drift)) - 1
        policy = msgspec.structs.replace(policy, tombstone_retention_ms=patience_ms)
        offsets = (replica.log_start, replica.hw)
        truth.copy_seen(machine.number, copy, offsets, clean_point, now_ms, policy)

    def policy_of(self, log: PartitionId) -> CompactionPolicy | None:
        """How a partition's stream is compacted, if it is."""
        newest = self._cluster.newest_metadata()
        stream = newest.by_id.get(log[0]) if newest is not None else None
        return stream.config.compaction if stream is not None and stream.config.compact else None

    def clean_point(self, machine: Machine, log: PartitionId, clean_point: int) -> int:
        """A replica's durable clean point; returns what it was."""
        contents = self._truth(log).contents
        before = contents.clean_points.get(machine.number, 0)
        newest = self._cluster.newest_metadata()
        state = newest.partitions.get(log) if newest is not None else None
        replicas = state.replicas if state is not None else tuple(self._cluster.machines)
        contents.compacted(machine.number, clean_point, replicas, self._cluster.kernel.now_us // MILLISECOND)
        return before

    def lowered(self, machine: Machine, log: PartitionId, offset: int) -> None:
        """What lies at or above `offset` comes from another replica, which may be less compacted (C2)."""
        clean_point = self._truth(log).contents.clean_points.get(machine.number, 0)
        self.clean_point(machine, log, min(clean_point, offset))
