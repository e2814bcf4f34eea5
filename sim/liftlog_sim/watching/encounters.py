"""Counts which operation of a client came under which fault, in which state; and in which state each fault
struck.

An *encounter* is a triple (operation, fault, state). It is counted when a client sends something, once for
each fault under which that happens and each state that the partition is in, or, for what is asked of the
metadata group, that the group is in. A fault counts from when it strikes until its time is over, for at least
`LEAST_US`, since a kill has no duration; without any, the fault is "none". When a fault strikes, that is an
encounter as well, of the operation `STRIKE` with it, in the states of every partition and of the group.

Bounded: there are as many counters as there are triples, some thousands, and a run fills some hundred. It
draws nothing and changes nothing, so that a seed runs the same whether somebody counts or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from liftlog.messages import (
    AlterStreamRequest,
    CreateStreamRequest,
    DeleteStreamRequest,
    DrainNodeRequest,
    ElectLeaderRequest,
    MoveReplicasRequest,
    OffsetRequest,
    PurgeRequest,
    RaiseLevelRequest,
    ReadRequest,
    RebalanceRequest,
    RetireNodeRequest,
    SetVoterRequest,
    StreamInfoRequest,
    TransferControllerRequest,
)
from liftlog.types import PartitionId
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.faults.strikes import Strikes
from liftlog_sim.kernel import SECOND
from liftlog_sim.watching.states import group_states, newest_partitions, partition_states
from liftlog_sim.workload.targets import Target

LEAST_US = SECOND
STRIKE = "strike"
NO_FAULT = "none"
BETWEEN = " | "

GROUP_OPERATIONS: dict[type[Any], str] = {
    CreateStreamRequest: "create",
    DeleteStreamRequest: "delete",
    AlterStreamRequest: "alter",
    MoveReplicasRequest: "move",
    DrainNodeRequest: "drain",
    RetireNodeRequest: "retire",
    ElectLeaderRequest: "elect",
    RebalanceRequest: "rebalance",
    SetVoterRequest: "vote",
    RaiseLevelRequest: "raise",
    TransferControllerRequest: "transfer",
    StreamInfoRequest: "describe",
}
PARTITION_OPERATIONS = ("publish", "read", "ask earliest", "ask latest", "ask time", "purge")

Encounter = tuple[str, str, str]
"""(operation, fault, state)."""


class Encounters:
    """Of one world. Attached to its clients and its faults; knows nothing of what they mean."""

    def __init__(self, cluster: Cluster, targets: Iterable[Target], strikes: Strikes) -> None:
        self._cluster = cluster
        self._targets = targets
        self._strikes = strikes
        self._until: dict[str, int] = {}
        """For each fault that has struck: until when it counts."""
        self.counts: dict[Encounter, int] = {}

    def struck(self, fault: Fault) -> None:
        """A fault strikes now."""
        now_us = self._cluster.kernel.now_us
        until_us = now_us + max(LEAST_US, fault.duration_us)
        self._until[fault.kind] = max(until_us, self._until.get(fault.kind, 0))
        for record in newest_partitions(self._cluster).values():
            for state in partition_states(self._cluster, record):
                self._count(STRIKE, (fault.kind,), state)
        for state in group_states(self._cluster):
            self._count(STRIKE, (fault.kind,), state)

    def published(self, subject: bytes) -> None:
        """Messages are published on a subject."""
        if not self._strikes.active:
            return
        for target in self._targets:
            if target.subject == subject:
                self._at("publish", target.partition)

    def requested(self, request: object) -> None:
        """A client asks a node for something."""
        if not self._strikes.active:
            return
        operation = GROUP_OPERATIONS.get(type(request))
        if operation is not None:
            faults = self._standing()
            for state in group_states(self._cluster):
                self._count(operation, faults, state)
        elif isinstance(request, ReadRequest):
            self._at("read", request.partition)
        elif isinstance(request, OffsetRequest):
            self._at(f"ask {request.what}", request.partition)
        elif isinstance(request, PurgeRequest):
            self._at("purge", request.partition)

    def _at(self, operation: str, partition: PartitionId) -> None:
        record = newest_partitions(self._cluster).get(partition)
        if record is not None:
            faults = self._standing()
            for state in partition_states(self._cluster, record):
                self._count(operation, faults, state)

    def _standing(self) -> tuple[str, ...]:
        """The faults that count now."""
        now_us = self._cluster.kernel.now_us
        return tuple([kind for kind, until_us in self._until.items() if until_us > now_us]) or (NO_FAULT,)

    def _count(self, operation: str, faults: tuple[str, ...], state: str) -> None:
        counts = self.counts
        for fault in faults:
            encounter = (operation, fault, state)
            counts[encounter] = counts.get(encounter, 0) + 1

    def named(self) -> dict[str, int]:
        """For the run's result: by "operation | fault | state", in the order of the names."""
        return dict(sorted((BETWEEN.join(encounter), number) for encounter, number in self.counts.items()))
