"""What each surviving disk says of itself, and what follows from all of them together (M5).

The disk that goes on is the one that an election would choose: the greatest (term, index) at the end of its
log of commands. An election has a quorum's votes, though, and here a quorum is gone: a log with a greater
term at its end may lack what another disk knows to be committed. So whatever any of the disks knows to be
committed must be in the log that is chosen: the end of its snapshot, the incarnation that it was given, the
streams of which it holds folders, and their partitions. Commits come in one order, so that some disk has all
of these, unless a log is damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from liftlog.types import (
    FIRST_CLUSTER,
    ClusterEpoch,
    GroupMember,
    LiftlogError,
    Members,
    PartitionId,
)


class CopyReport(msgspec.Struct, frozen=True):
    """What lies on a disk of one partition. `state`: a `TailState` value, as a look at the bytes finds it."""

    log: PartitionId
    start: int
    end: int
    epoch: int
    hw: int
    state: str


class KnownNode(msgspec.Struct, frozen=True):
    """A node by a disk's metadata. `disk` empty: destroyed, as an operator said in an earlier recovery."""

    node: int
    disk: str
    incarnation: int


class DiskReport(msgspec.Struct, frozen=True):
    """One surviving disk. With a `problem` its log of commands cannot be used, and nothing is said of it."""

    node: int
    disk: str
    votes_as: str
    incarnation: int
    epoch: ClusterEpoch
    problem: str = ""
    promised_term: int = 0
    last_index: int = 0
    last_term: int = 0
    snapshot_index: int = 0
    snapshot_term: int = 0
    terms: tuple[tuple[int, int], ...] = ()
    """(index, term) of the first entry of each term in the log, ascending."""
    members: Members | None = None
    """The last configuration of the metadata group."""
    nodes: tuple[KnownNode, ...] = ()
    copies: tuple[CopyReport, ...] = ()
    partitions: tuple[tuple[int, int], ...] = ()
    """Of each stream in its metadata: id, and how many partitions it has."""

    @property
    def name(self) -> str:
        return f"node {self.node} (disk {self.disk})"

    @property
    def known_committed(self) -> int:
        """The last index that this disk knows for sure to be committed."""
        streams = [copy.log.stream for copy in self.copies]
        return max([self.snapshot_index, self.incarnation, *streams])

    def term_at(self, index: int) -> int:
        """Of the entry at an index behind the snapshot's end; 0 if it is not there."""
        if index == self.snapshot_index:
            return self.snapshot_term
        begun = [term for first, term in self.terms if first <= index]
        return begun[-1] if begun and index <= self.last_index else 0

    def holds(self, other: DiskReport) -> bool:
        """Whether this log has all that the other disk knows to be committed."""
        index, term = other.snapshot_index, other.snapshot_term
        ends = index <= self.snapshot_index or self.term_at(index) == term
        return ends and self.last_index >= other.known_committed

    def lacks_partition_of(self, other: DiskReport) -> bool:
        """R19: whether the other disk holds a partition that a lost alteration has added, by this log. A
        partition of a stream that this log does not know was deleted by it, if it reaches so far.
        """
        counts = dict(self.partitions)
        return any(copy.log.partition.index >= counts.get(copy.log.stream, 1 << 32) for copy in other.copies)

    def knows(self, node: int) -> KnownNode | None:
        return next((known for known in self.nodes if known.node == node), None)


class Survivors(msgspec.Struct, frozen=True):
    """What all disks that survive say together."""

    disks: tuple[DiskReport, ...]
    """By node."""
    chosen: DiskReport
    voters: tuple[GroupMember, ...]
    """By the chosen log's last configuration."""
    missing: tuple[KnownNode, ...]
    """Nodes whose disks are not here, but for those that an earlier recovery took for destroyed."""
    behind: tuple[DiskReport, ...]
    """Disks of before the epoch of the chosen one, which a recovery had counted on: one was cut short."""
    lacks: int
    """Up to here something is known to have been committed that no disk holds; 0: nothing."""

    @property
    def here(self) -> tuple[GroupMember, ...]:
        """The voters whose disks are here, with a log that can be used."""
        return tuple(
            voter
            for voter in self.voters
            if any(GroupMember(disk.node, disk.votes_as) == voter and not disk.problem for disk in self.disks)
        )

    @property
    def has_quorum(self) -> bool:
        return len(self.here) > len(self.voters) // 2

    @property
    def decided_elsewhere(self) -> bool:
        """Whether the voters that are missing can have committed what no disk here was told."""
        return len(self.voters) - len(self.here) > len(self.voters) // 2


def surveyed(reports: Sequence[DiskReport]) -> Survivors:
    """Raises LiftlogError where no recovery can begin with these disks, naming the disk and what to do."""
    disks = tuple(sorted(reports, key=lambda disk: disk.node))
    for one, other in pairwise(disks):
        if one.node == other.node:
            raise LiftlogError(
                f"two of the disks are of node {one.node}, {one.disk} and {other.disk}: name the one that "
                "the node ran with last, and leave the other out"
            )
    for disk in disks:
        if not disk.epoch.number:
            raise LiftlogError(f"{disk.name} has belonged to no cluster yet: leave it out")
    newest = max(disk.epoch.number for disk in disks)
    names = sorted({disk.epoch.name for disk in disks if disk.epoch.number == newest} - {""})
    if len(names) > 1 and newest == FIRST_CLUSTER.number:
        raise LiftlogError(
            f"the disks are of two clusters of one name, born as {names[0]} and {names[1]}: name the disks "
            "of one only ('liftlog log dump' shows what a data folder holds)"
        )
    if len(names) > 1:
        raise LiftlogError(
            f"two recoveries have begun epoch {newest}, {names[0]} and {names[1]}: name the disks of one only"
        )
    current = [disk for disk in disks if disk.epoch.number == newest]
    usable = [disk for disk in current if not disk.problem]
    if not usable:
        first = next(disk for disk in current if disk.problem)
        raise LiftlogError(
            f"no disk holds metadata that can be used; of {first.name}: {first.problem}; what was set aside "
            "of a log of commands lies in quarantine/"
        )
    whole = [disk for disk in usable if all(disk.holds(other) for other in current)]
    grown = [disk for disk in whole if not any(disk.lacks_partition_of(other) for other in current)]
    chosen = max(grown or whole or usable, key=lambda disk: (disk.last_term, disk.last_index, -disk.node))
    known = max(disk.known_committed for disk in current)
    if any(chosen.lacks_partition_of(disk) for disk in current):
        known = max(known, chosen.last_index + 1)
    behind = tuple(disk for disk in disks if disk.epoch.number < newest)
    for disk in behind:
        _check_counted_on(disk, chosen)
    for disk in current:
        known_as = chosen.knows(disk.node)
        if known_as is not None and known_as.disk != disk.disk and known_as.incarnation >= disk.incarnation:
            raise LiftlogError(
                f"{disk.name} was replaced by another one ({known_as.disk or 'destroyed'}) before the loss: "
                "leave it out"
            )
    here = {disk.node for disk in disks}
    members = chosen.members
    voters = members.voters if members is not None else ()
    strangers = [KnownNode(voter.node, voter.disk, 0) for voter in voters if not chosen.knows(voter.node)]
    missing = [node for node in (*chosen.nodes, *strangers) if node.node not in here and node.disk]
    return Survivors(
        disks=disks,
        chosen=chosen,
        voters=voters,
        missing=tuple(sorted(missing, key=lambda node: node.node)),
        behind=behind,
        lacks=known if known > chosen.last_index else 0,
    )


def _check_counted_on(disk: DiskReport, chosen: DiskReport) -> None:
    """A disk of an earlier epoch may follow only if the recovery in between has counted on what it holds."""
    known = chosen.knows(disk.node)
    if disk.epoch.number < chosen.epoch.number - 1 or known is None or known.disk != disk.disk:
        raise LiftlogError(
            f"{disk.name} is of epoch {disk.epoch.number}, and was left out when the cluster was recovered "
            f"(epoch {chosen.epoch.number}): leave it out; read what it holds with 'liftlog log dump'"
        )
