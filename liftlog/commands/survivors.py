"""What `liftlog cluster recover` does with disks, be they files or simulated (M5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from liftlog.core.metadata.image import ImageReader
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.raft.birth import birth_name
from liftlog.core.raft.members import Configurations
from liftlog.core.total_loss.plan import (
    INDEX_GAP,
    RecoveryPlan,
    begun_anew,
    planned,
    present_metadata,
    vote_id,
)
from liftlog.core.total_loss.reports import CopyReport, DiskReport, KnownNode, Survivors, surveyed
from liftlog.messages import intake
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.ports import Disk
from liftlog.storage.renewal import finish_renewal
from liftlog.storage.sealing import Sealer
from liftlog.storage.totalloss import GroupMemory, begin_anew, read_group_memory, read_identity, read_logs
from liftlog.types import (
    FIRST_CLUSTER,
    NO_CLUSTER,
    ClusterEpoch,
    GroupMember,
    Identity,
    InvariantViolation,
    LiftlogError,
    Members,
)


class SurvivingDisk(msgspec.Struct):
    """A disk that was looked at, and is still locked."""

    disk: Disk
    sealer: Sealer | None
    identity: Identity
    report: DiskReport
    metadata: Metadata | None
    """What its log of commands comes to; None if that cannot be used."""


def examined(
    disk: Disk,
    sealer: Sealer | None,
    *,
    name: str = "the disk",
    finish: bool = False,
    progress: Callable[[int], None] = lambda read: None,
) -> SurvivingDisk:
    """Look at a disk that nobody uses. `finish`: end a change that was cut short, if it was. Raises
    LiftlogError, DiskError.
    """
    identity = read_identity(disk)
    if identity is None:
        raise LiftlogError(f"{name} is no node's: it has no identity; leave it out")
    if identity.renewing:
        if not finish:
            raise LiftlogError(
                f"{name}: a change of it was cut short; say the same with --yes, which ends that first"
            )
        identity = finish_renewal(disk, identity)
    memory = read_group_memory(disk, sealer)
    metadata: Metadata | None = None
    members: Members | None = None
    if not memory.problem:
        try:
            metadata, members = _understood(memory)
        except (intake.InputRefused, InvariantViolation) as error:
            memory.problem = str(error)
    logs = read_logs(disk, progress)
    copies = tuple(
        CopyReport(
            log=one.report.log,
            start=one.report.log_start,
            end=one.report.end,
            epoch=one.report.epochs[-1].epoch if one.report.epochs else 0,
            hw=one.hw,
            state=one.state.value,
        )
        for one in logs
    )
    report = _report(identity, memory, metadata, members, copies)
    return SurvivingDisk(disk, sealer, identity, report, metadata)


def _understood(memory: GroupMemory) -> tuple[Metadata, Members | None]:
    """The metadata and the configuration at the log's end. Raises InputRefused, InvariantViolation."""
    image: ImageReader | None = None
    snapshot, entries = memory.snapshot, memory.entries
    if snapshot is not None:
        image = ImageReader()
        for chunk in snapshot.chunks:
            image.take(chunk)
        problem = image.problem(snapshot.index, snapshot.term, ())
        if problem:
            raise intake.InputRefused(f"raft/snapshot: {problem}")
        entries = [entry for entry in entries if entry.index > snapshot.index]
    metadata = present_metadata(image, entries)
    members = image.members if image is not None else None
    if members is None:
        certificate = memory.hard_state.peer_disks
        named = tuple(sorted(GroupMember(node, disk) for node, disk in certificate))
        members = Members(named) if named else None
    return metadata, Configurations(members or Members(()), entries).now


def _report(
    identity: Identity,
    memory: GroupMemory,
    metadata: Metadata | None,
    members: Members | None,
    copies: tuple[CopyReport, ...],
) -> DiskReport:
    known = identity.belongs_to
    if metadata is not None and memory.snapshot is not None:
        known = max(known, metadata.epoch)
    certificate = memory.hard_state.peer_disks
    born = memory.hard_state.born and (identity.node, identity.votes_as) in certificate
    if known.number <= FIRST_CLUSTER.number and not known.name and born:
        known = ClusterEpoch(FIRST_CLUSTER.number, birth_name(certificate))
    if known == NO_CLUSTER and (memory.entries or memory.hard_state.peer_disks):
        known = FIRST_CLUSTER
    snapshot, entries = memory.snapshot, memory.entries
    terms: list[tuple[int, int]] = []
    for entry in entries:
        if not terms or terms[-1][1] != entry.term:
            terms.append((entry.index, entry.term))
    index, term = (snapshot.index, snapshot.term) if snapshot is not None else (0, 0)
    last = (entries[-1].index, entries[-1].term) if entries else (0, 0)
    nodes = metadata.nodes.values() if metadata is not None else ()
    streams = metadata.streams.values() if metadata is not None else ()
    return DiskReport(
        node=identity.node,
        disk=identity.disk_id,
        votes_as=identity.votes_as,
        incarnation=identity.incarnation,
        epoch=known,
        problem=memory.problem,
        promised_term=memory.hard_state.term,
        last_index=max(index, last[0]),
        last_term=max(term, last[1]),
        snapshot_index=index,
        snapshot_term=term,
        terms=tuple(terms),
        members=members,
        nodes=tuple(KnownNode(node.node, node.disk_id, node.incarnation) for node in nodes),
        copies=copies,
        partitions=tuple((stream.id, len(stream.partitions)) for stream in streams),
    )


def joined(disks: Sequence[SurvivingDisk], survivors: Survivors) -> list[int]:
    """End a recovery that was cut short between two disks: those that it counted on, and had not come to,
    follow. Whose they are.
    """
    behind = [disk.node for disk in survivors.behind]
    epoch = survivors.chosen.epoch
    for one in disks:
        if one.report.node in behind:
            begin_anew(one.disk, one.sealer, one.identity, epoch, vote_id(one.report, epoch), None)
    return behind


def recovered(
    disks: Sequence[SurvivingDisk],
    survivors: Survivors,
    destroyed: Sequence[int],
    mutants: Mutants = NO_MUTANTS,
    index_gap: int = INDEX_GAP,
) -> RecoveryPlan:
    """Form the new quorum. The chosen disk is changed first: the others follow what it says (`joined`).
    Raises LiftlogError if the operator has not stated enough, and then nothing is changed; DiskError.
    """
    plan = planned(survivors, destroyed, mutants, index_gap)
    chosen = plan.survivors.chosen.node
    order = sorted(disks, key=lambda one: (one.report.node != chosen, one.report.node))
    for one in reversed(order) if mutants.recovery_begins_elsewhere else order:
        snapshot = None
        if one.report.node == chosen:
            assert one.metadata is not None, "a disk whose metadata cannot be used is not chosen"
            snapshot = begun_anew(one.metadata, plan)
        begin_anew(one.disk, one.sealer, one.identity, plan.epoch, vote_id(one.report, plan.epoch), snapshot)
    return plan


__all__ = ["SurvivingDisk", "examined", "joined", "recovered", "surveyed"]
