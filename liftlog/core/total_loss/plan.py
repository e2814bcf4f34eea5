"""The new beginning: what becomes of the metadata, and of each disk, when a cluster is recovered (M5).

One disk becomes the only voter. Its metadata, with every command of its log, committed or not, go into a
snapshot, behind which its log begins anew. All that was handed out may have been handed out once more by
commands that no disk holds any more, so everything that numbers something moves on by a gap: the index, which
names streams and incarnations (I1, I2), the term, each partition's epoch and version. All sessions are over.
No partition has a leader, an in-sync replica, or an eligible one: what the lost commands have made of these
nobody knows. Each remembers its surviving copies as R14 does, with what lies on the disks, so that the
greatest (epoch, LEO) is elected once it is there; and where no copy survives that the metadata count on, one
that is lost, so that an operator alone elects.

All disks take part in the group under other ids from now on, and none but the chosen one keeps its log of
commands: they join again by M2, as a disk does that has lost its promises (M4). A node whose disk is
destroyed comes back with another one (I2).

Everything follows from the reports and from what the operator states, on whatever machine that is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from liftlog.core.guards import Guards
from liftlog.core.metadata.commands import decode_command
from liftlog.core.metadata.image import ImageReader, ImageWriter
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.placement import Loads
from liftlog.core.metadata.records import (
    EXPIRED,
    VOTES,
    LastKnown,
    NodeState,
    PartitionState,
    replaced,
)
from liftlog.core.raft.members import decode_members, is_change
from liftlog.core.total_loss.reports import CopyReport, DiskReport, Survivors
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import ClusterEpoch, Entry, GroupMember, LiftlogError, Members, PartitionId, Snapshot

INDEX_GAP = 1 << 24
"""So many commands at most can have been lost; V4 bears 255 such gaps for a node that begins at 0."""
TERM_GAP = 1 << 16
EPOCH_GAP = 1 << 20
CHUNK_RECORDS = 256


class RecoveryPlan(msgspec.Struct, frozen=True):
    """What a recovery does."""

    survivors: Survivors
    destroyed: tuple[int, ...]
    epoch: ClusterEpoch
    index: int
    term: int


def vote_id(disk: DiskReport, epoch: ClusterEpoch) -> str:
    """Under which the disk takes part in the group since this epoch of the cluster began."""
    return f"{disk.disk[:32]}-{epoch.number}-{epoch.name}"


def needed_statement(survivors: Survivors, destroyed: Sequence[int]) -> str:
    """Why no recovery may begin with what the operator has stated; empty if one may."""
    here = [disk.node for disk in survivors.disks]
    for node in destroyed:
        if node in here:
            return f"the disk of node {node} is here: leave it out, or do not state that it is destroyed"
        if survivors.chosen.knows(node) is None and all(one.node != node for one in survivors.missing):
            return f"node {node} is stated to be destroyed, and the metadata know no such node"
    if survivors.has_quorum:
        return (
            f"{len(survivors.here)} of {len(survivors.voters)} voters are here, which is a quorum: nothing "
            "has to be recovered, start their nodes"
        )
    unstated = [known.node for known in survivors.missing if known.node not in destroyed]
    if unstated:
        options = " ".join(f"--destroyed {node}" for node in unstated)
        return (
            f"not here: the disks of nodes {_listed(unstated)}; bring them, or, if they are destroyed and "
            f"will never come back, state it: {options}"
        )
    return ""


def planned(
    survivors: Survivors,
    destroyed: Sequence[int],
    mutants: Mutants = NO_MUTANTS,
    index_gap: int = INDEX_GAP,
) -> RecoveryPlan:
    """Raises LiftlogError with what is missing. `index_gap`: more commands than can have been lost."""
    problem = needed_statement(survivors, destroyed)
    if problem:
        raise LiftlogError(problem)
    chosen, disks = survivors.chosen, survivors.disks
    ends = [max(disk.last_index, disk.known_committed) for disk in disks]
    terms = [max(disk.last_term, disk.promised_term) for disk in disks]
    told = [(disk.node, disk.disk, disk.last_term, disk.last_index) for disk in disks]
    digest = sha256(msgspec.json.encode([told, sorted(destroyed), chosen.node])).hexdigest()
    next_epoch = ClusterEpoch(chosen.epoch.number + 1, digest[:8])
    return RecoveryPlan(
        survivors=survivors,
        destroyed=tuple(sorted(destroyed)),
        epoch=chosen.epoch if mutants.recovery_keeps_epoch else next_epoch,
        index=max(ends) + index_gap,
        term=max(terms) + TERM_GAP,
    )


def present_metadata(image: ImageReader | None, entries: Sequence[Entry]) -> Metadata:
    """What a disk's snapshot and all entries behind it come to. Raises InputRefused: one is no command."""
    metadata = Metadata(Guards())
    if image is not None:
        metadata.adopt(image)
    for entry in entries:
        if entry.index > metadata.applied:
            nothing = not entry.data or is_change(entry.data)
            metadata.apply(entry.index, None if nothing else decode_command(entry.data))
            if is_change(entry.data):
                metadata.grouped(decode_members(entry.data))
    return metadata


def begun_anew(metadata: Metadata, plan: RecoveryPlan) -> Snapshot:
    """The snapshot that the chosen disk goes on from. `metadata`: as its log leaves them."""
    chosen, records = plan.survivors.chosen, Metadata(Guards())
    partitions = {one.id: leaderless(one, plan) for one in metadata.partitions.values()}
    loads = Loads()
    for partition in partitions.values():
        loads.placed(partition.replicas)
    records.take_over(
        plan.index,
        plan.index,
        nodes={number: _gone(node, plan) for number, node in metadata.nodes.items()},
        streams=dict(metadata.streams),
        partitions=partitions,
        loads=loads,
        level=metadata.level,
        epoch=plan.epoch,
        founders=metadata.founders,
        admissions=metadata.admissions.values(),
        outbox=metadata.outbox.head if metadata.outbox.on else None,
        events=metadata.outbox.events,
    )
    writer = ImageWriter(
        records,
        {},
        term=plan.term,
        members=Members((GroupMember(chosen.node, vote_id(chosen, plan.epoch)),)),
        cluster=(),
        chunk_records=CHUNK_RECORDS,
    )
    while not writer.go_on():
        pass
    return Snapshot(writer.index, writer.term, tuple(writer.chunks))


def _gone(node: NodeState, plan: RecoveryPlan) -> NodeState:
    """All sessions are over. A destroyed disk is nobody's: whatever comes back is another one (I2)."""
    disk = next((one for one in plan.survivors.disks if one.node == node.node), None)
    voter = node.voter
    voters = [one.node for one in plan.survivors.voters]
    if node.node == plan.survivors.chosen.node and node.node not in voters:
        voter = VOTES
    return replaced(
        node,
        state=EXPIRED,
        since=plan.index,
        disk_id="" if disk is None else disk.disk,
        vote_id="" if disk is None else vote_id(disk, plan.epoch),
        voter=voter,
        voter_at=plan.index if voter != node.voter else node.voter_at,
    )


def leaderless(partition: PartitionState, plan: RecoveryPlan) -> PartitionState:
    """R14: it waits for the greatest of its copies that are left."""
    found = surviving(partition.id, partition.replicas, plan.survivors.disks)
    journals = surviving(partition.id.journal, partition.replicas, plan.survivors.disks)
    paired = any(copy is not None for copy in journals.values())
    known: dict[int, LastKnown] = {}
    wanted = counted_on(partition) if partition.epoch else ()
    dropped = [node for node in wanted if node in found and found[node] is None]
    for node, copy in found.items():
        lost = node in partition.last_known and partition.last_known[node].lost
        # Who should have a log and has none may have given it up by a move that is not known here (R20).
        lost = lost or node in dropped
        known[node] = _left(copy, journals[node], lost, paired=paired)
    if not any(node in found for node in counted_on(partition)):
        known |= {node: LastKnown(0, 0, lost=True) for node in partition.replicas if node not in found}
    both = (*found.values(), *journals.values())
    epochs = [copy.epoch for copy in both if copy is not None]
    return replaced(
        partition,
        leader=0,
        leader_incarnation=0,
        epoch=max([partition.epoch, *epochs]) + EPOCH_GAP,
        led_since=plan.index,
        version=partition.version + EPOCH_GAP,
        isr=(),
        eligible=(),
        last_known=known,
        ready=False,
        refused={},
        slow={},
        reports={},
        report_round=0,
    )


def _left(data: CopyReport | None, journal: CopyReport | None, lost: bool, *, paired: bool) -> LastKnown:
    """What one disk has of a partition; of one with a journal both logs, or it has none (R14)."""
    if data is None or (paired and journal is None):
        return LastKnown(0, 0, lost or data is not None)
    if journal is None:
        return LastKnown(data.epoch, data.end, lost)
    return LastKnown(
        data.epoch, data.end, lost, journal_epoch=journal.epoch, journal_leo=journal.end
    )


def surviving(
    partition: PartitionId, replicas: Sequence[int], disks: Sequence[DiskReport]
) -> dict[int, CopyReport | None]:
    """The copies that are left, by node; None: the disk is here and holds no such log."""
    return {
        disk.node: next((copy for copy in disk.copies if copy.log == partition), None)
        for disk in disks
        if disk.node in replicas
    }


def counted_on(partition: PartitionState) -> tuple[int, ...]:
    """The replicas of which the metadata say that they have, or may have, all that was acknowledged."""
    remembered = [node for node, known in partition.last_known.items() if not known.lost]
    return (*partition.isr, *partition.eligible, *remembered)


def _listed(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))
