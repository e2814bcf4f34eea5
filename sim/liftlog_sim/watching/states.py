"""The few states of a partition, and of the metadata group, that a sweep has to have been in.

Seen from outside, by what the nodes that run have in memory; a partition may be in several at once. Each is
one in which some rule of the protocol has something to say, so that an operation or a fault that never came
in it leaves that rule untried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from liftlog.core.metadata.records import PartitionState
from liftlog.types import PartitionId
from liftlog_sim.devices.cluster import Cluster

IN_SYNC = "all in sync"

PARTITION_STATES: dict[str, str] = {
    IN_SYNC: "somebody leads and is ready, every copy is in the ISR",
    "leaderless": "the group names no leader",
    "unready": "a leader is named that has no subscription yet",
    "shrunk": "the ISR lacks copies, and has the minimum",
    "below the minimum": "the ISR has fewer than the minimum: nothing commits",
    "change pending": "the leader has asked for another ISR, and the group has not decided",
    "two leaders": "two nodes take themselves for its leader, of different epochs",
    "uncompared": "a follower has records that its leader has not yet compared with its own",
    "catching up": "a copy that is out of the ISR follows",
    "failed": "a copy has failed, and is being rebuilt",
    "damaged": "a copy has a damaged range",
    "unevenly compacted": "two copies have compacted to different ends",
    "front gone": "the log begins above 0",
}
"""Of a partition, with what it means."""

GROUP_STATES: dict[str, str] = {
    "one controller": "one node leads the metadata group",
    "electing": "nobody leads the metadata group",
    "two controllers": "two nodes take themselves for its leader, of different terms",
    "without quorum": "most of the nodes do not run",
    "joining": "a process runs that the group has not registered yet",
}
"""Of the metadata group."""

STATES = {**PARTITION_STATES, **GROUP_STATES}


def partition_states(cluster: Cluster, record: PartitionState) -> Iterator[str]:
    """Those that a partition is in, by its newest committed record and by what its copies have in memory."""
    if not record.leader:
        yield "leaderless"
    elif not record.ready:
        yield "unready"
    elif len(record.isr) == len(record.replicas):
        yield IN_SYNC
    if len(record.isr) < record.min_insync:
        yield "below the minimum"
    elif len(record.isr) < len(record.replicas):
        yield "shrunk"
    yield from _of_copies(cluster, record)


def _of_copies(cluster: Cluster, record: PartitionState) -> Iterator[str]:
    leaders = 0
    pending = uncompared = catching_up = failed = damaged = front_gone = False
    ends: set[int] = set()
    for number in record.replicas:
        node = cluster.machines[number].node
        replica = node.replicas.get(record.id) if node is not None else None
        if replica is None:
            continue
        log = replica.log
        if log.leading is not None:
            leaders += 1
            pending = pending or log.leading.pending is not None
        elif log.following is not None:
            catching_up = catching_up or number not in record.isr
            uncompared = uncompared or (not log.following.verified and log.leo > log.hw)
        failed = failed or log.state == "failed"
        damaged = damaged or bool(log.damage.ranges)
        front_gone = front_gone or log.log_start > 0
        ends.add(log.clean_point)
    if pending:
        yield "change pending"
    if leaders > 1:
        yield "two leaders"
    if uncompared:
        yield "uncompared"
    if catching_up:
        yield "catching up"
    if failed:
        yield "failed"
    if damaged:
        yield "damaged"
    if len(ends) > 1:
        yield "unevenly compacted"
    if front_gone:
        yield "front gone"


def group_states(cluster: Cluster) -> Iterator[str]:
    """Those that the metadata group is in."""
    running = leading = 0
    joining = False
    for machine in cluster.machines.values():
        node = machine.node
        if node is not None:
            running += 1
            leading += node.raft.is_leader
            joining = joining or not node.incarnation
    if leading > 1:
        yield "two controllers"
    elif leading:
        yield "one controller"
    else:
        yield "electing"
    if 2 * running <= len(cluster.machines):
        yield "without quorum"
    if joining:
        yield "joining"


def newest_partitions(cluster: Cluster) -> Mapping[PartitionId, PartitionState]:
    """The committed records, as the node that has applied most has them; none while nobody runs."""
    newest = cluster.newest_metadata()
    return newest.partitions if newest is not None else {}
