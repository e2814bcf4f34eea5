"""Replicas that are moved to other nodes: what a partition is to have, and how it comes to that (R20).

A move adds first and takes away last. From its beginning on the new nodes are replicas like all others: they
fetch, and join the ISR when they have everything (R10). Once *all* that are to have a copy are in the ISR,
one command makes them the replicas, the ISR and all there is. What was committed is on each of them, since it
is on the whole ISR. That command ends the epoch: what a copy that is dropped had reported counts for nobody
any more, also when its node gets another copy of the partition later, in the same run.

Whoever is left out drops its copy and says so. Until then it gets no other one: so a copy always begins
empty, and nobody goes on with an old one whose tombstones the others have dropped meanwhile (C2).

A move that is cancelled, or changed, is another move: to where the copies were before. There is nothing to be
taken back, and it waits for the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.core.guards import Guards
from liftlog.core.metadata.commands import CopyDropped, DrainNode, FinishMove, MoveReplicas
from liftlog.core.metadata.partitions import PartitionCommands
from liftlog.core.metadata.placement import choose_replicas
from liftlog.core.metadata.records import OK, STALE, CommandResult, PartitionState, Records, replaced
from liftlog.messages import ERR_INVALID, ERR_NOT_FOUND
from liftlog.types import PartitionId


def assignment_problem(records: Records, partition: PartitionState, replicas: Sequence[int]) -> str:
    """Why a partition cannot get these replicas; empty if it can."""
    unknown = [node for node in replicas if node not in records.nodes]
    if unknown:
        return f"there is no node {unknown[0]}: none with that number has ever registered"
    if len(set(replicas)) != len(replicas):
        return f"replicas {_listed(replicas)} name a node twice"
    if len(replicas) < partition.min_insync:
        return (
            f"replicas {_listed(replicas)} are fewer than the {partition.min_insync} that must be in sync; "
            "lower min_insync_replicas first"
        )
    for node in replicas:
        if node in partition.dropping:
            return (
                f"node {node} has not dropped the copy of this partition that it had before; ask again when "
                "it has, or choose another node"
            )
    return ""


def is_heir(node: int, before: int) -> str:
    """Why a node cannot be drained that is to take the place of another one (I3)."""
    return (
        f"node {node} is to take the place of node {before}, and gets its copies: take that back with "
        f"'liftlog cluster remove {before} --cancel', or name another node with 'liftlog cluster replace "
        f"{before} NEW'"
    )


def _listed(replicas: Sequence[int]) -> str:
    return ", ".join(map(str, replicas))


class MoveCommands:
    """Holds no state of its own. `partitions`: who knows who leads next (R16)."""

    __slots__ = ("_decides", "_mark", "_mutants", "_partitions", "_records")

    def __init__(self, records: Records, guards: Guards, partitions: PartitionCommands) -> None:
        self._records = records
        self._partitions = partitions
        self._mutants = guards.mutants
        self._decides = guards.decides
        self._mark = guards.mark

    def move(self, index: int, command: MoveReplicas) -> CommandResult:
        records = self._records
        partition = records.partitions.get(command.partition)
        if partition is None:
            return CommandResult(ERR_NOT_FOUND, "the partition does not exist")
        if not self._decides(("R20.stale-move", partition.assignment == command.assignment)):
            return STALE
        judged = replaced(partition, dropping=()) if self._mutants.moved_back_too_soon else partition
        problem = assignment_problem(records, judged, command.replicas)
        if problem:
            self._mark("R20.refused")
            return CommandResult(ERR_INVALID, problem)
        self.begin(index, partition, command.replicas)
        return OK

    def begin(self, index: int, partition: PartitionState, replicas: Sequence[int]) -> None:
        """From now on the partition is on its way to these replicas."""
        if partition.target:
            self._mark("R20.move-changed")
        self._mark("R20.move")
        self._records.put_partition(partition.assigned(replicas, index))

    def resized(self, id: PartitionId, factor: int) -> list[int]:
        """R19: who is to have a copy if so many are to be; fewer, if so many nodes cannot. Of those that have
        one the in-sync ones stay before the others, in their order; others get one who keep least.
        """
        records, partition = self._records, self._records.partitions[id]
        present = partition.target or partition.replicas
        kept = sorted(present, key=lambda node: (node not in partition.isr, present.index(node)))[:factor]
        taken = (*present, *partition.dropping)
        able = [
            node.node
            for node in records.nodes.values()
            if not node.is_emptied and node.node not in taken
        ]
        live = [node for node in able if records.is_live(node)]
        more = choose_replicas(factor - len(kept), able, live, records.loads) if factor > len(kept) else []
        return [node for node in present if node in kept] + more

    def finish(self, command: FinishMove) -> CommandResult:
        records = self._records
        partition = records.partitions.get(command.partition)
        if partition is None or not partition.target or partition.assignment != command.assignment:
            return STALE
        in_sync = all(node in partition.isr for node in partition.target)
        if not self._decides(("R20.in-sync", in_sync)) and not self._mutants.moved_before_in_sync:
            return STALE
        gone = partition.leaving
        settled = partition.settled()
        if gone and not self._mutants.moved_within_epoch:
            self._mark("R20.left")
            settled = self._partitions.lead_on(settled)
        elif settled.leader not in settled.isr:
            settled = self._partitions.lead_on(settled)
        records.put_partition(settled)
        return OK

    def dropped(self, command: CopyDropped) -> CommandResult:
        records = self._records
        partition, node = records.partitions.get(command.partition), records.nodes.get(command.node)
        if partition is None or node is None or node.incarnation != command.incarnation:
            return STALE
        if command.node not in partition.dropping:
            return STALE
        self._mark("R20.dropped")
        records.put_partition(partition.without_dropping(command.node))
        return OK

    def drain(self, index: int, command: DrainNode) -> CommandResult:
        """Offices go at once, where another one in sync can have them; the controller moves the copies."""
        records, number = self._records, command.node
        node = records.nodes.get(number)
        if node is None:
            return CommandResult(ERR_NOT_FOUND, f"there is no node {number}")
        if not self._decides(("R20.stale-drain", node.drains_at == command.version)):
            return STALE
        before = records.replaced_by(number)
        if command.drains and before:
            self._mark("R20.refused")
            return CommandResult(ERR_INVALID, is_heir(number, before))
        records.put_node(replaced(node, drains=command.drains, drains_at=index))
        self._mark("R20.drain" if command.drains else "R20.drain-ends")
        if command.drains:
            self.give_offices_away(number)
        return OK

    def give_offices_away(self, number: int) -> None:
        """A node that is to keep nothing leads nothing that another one in sync can lead."""
        records = self._records
        for partition in records.replicas_on(number):
            others = [other for other in partition.isr if other != number and records.is_live(other)]
            if partition.leader == number and others:
                records.put_partition(self._partitions.elect(partition, avoid=number))
