"""Where the copies of a cluster are, as `liftlog cluster balance` sees it, and what it says of that."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from liftlog.commands.balanceplan import PlacedCopies, PlannedMove, changed, counts, spread
from liftlog.commands.clusterview import ClusterView
from liftlog.commands.common import table_lines
from liftlog.commands.retirements import wishes
from liftlog.messages import PartitionInfo, StreamInfo
from liftlog.types import LiftlogError

NAMED_MAX = 3
"""At most so many partitions are named that are left alone."""


class Placement(NamedTuple):
    """Where copies are, and what is under way. `able`: the nodes that may have copies."""

    able: list[int]
    partitions: list[PlacedCopies]
    moving: list[PlacedCopies]
    """Those that somebody moves."""
    dropping: list[PlacedCopies]
    """Those of which a node of `able` still has to drop its former copy."""
    left_alone: list[str]
    """For each other partition that stays as it is: why."""
    elsewhere: int
    """Partitions that are led by another node than the preferred one, which could."""

    @property
    def settled(self) -> bool:
        return not self.moving and not self.dropping

    @property
    def even(self) -> bool:
        return spread(counts(self.partitions, self.able).kept) <= 1


def placement(view: ClusterView) -> Placement:
    """Raises LiftlogError, with the remedy, while no plan could be made or carried out."""
    if not view.controller:
        raise LiftlogError(view.problems[0])
    heirs, drained = wishes(view.newest.counters)
    nodes = [info for info in view.newest.nodes if info.node not in heirs and info.node not in drained]
    for info in nodes:
        if not info.live:
            raise LiftlogError(
                f"node {info.node}, which is to keep copies, is not here ({view.session(info)}): start it; "
                "or, if it is not to come back, have its copies made elsewhere: liftlog cluster drain "
                f"{info.node}"
            )
    found = Placement(sorted(info.node for info in nodes), [], [], [], [], 0)
    for stream in view.streams:
        for partition in stream.partitions:
            found = _with(found, stream, partition, heirs, drained)
    return found


def _with(
    found: Placement,
    stream: StreamInfo,
    partition: PartitionInfo,
    heirs: Mapping[int, int],
    drained: Collection[int],
) -> Placement:
    """One more partition is looked at."""
    meant = partition.target or partition.replicas
    # The controller gives copies of a node that retires to its heir, unless that has one.
    nodes = tuple(heir if (heir := heirs.get(node, 0)) and heir not in meant else node for node in meant)
    drops = any(node in found.able for node in partition.dropping)
    why = _why_it_stays(stream, partition, {*heirs, *drained})
    stays = bool(partition.target or drops or why)
    copies = PlacedCopies(stream.config.name, partition.index, nodes, stays, partition.assignment)
    found.partitions.append(copies)
    if partition.target:
        found.moving.append(copies)
    elif drops:
        found.dropping.append(copies)
    elif why:
        found.left_alone.append(f"{copies} {why}")
    return found._replace(elsewhere=found.elsewhere + _first_could_lead(partition, found.able))


def _why_it_stays(stream: StreamInfo, partition: PartitionInfo, emptied: Collection[int]) -> str:
    """Why nobody should move a partition that nobody moves; empty if it may be."""
    for node in partition.replicas:
        if node in emptied:
            return f"has a copy on node {node}, which is drained or retires: the controller moves it"
    factor = stream.config.replication_factor
    if len(partition.replicas) != factor:
        return f"has {len(partition.replicas)} copies instead of {factor}"
    return "" if partition.leader else "has no leader, from whom a new copy could come"


def _first_could_lead(partition: PartitionInfo, able: Collection[int]) -> bool:
    """R16: whether a rebalance of leaders changes the leader of a partition that nobody moves. It passes over
    whoever is slow.
    """
    first = partition.replicas[0]
    if partition.target or partition.leader in (0, first):
        return False
    return first in partition.isr and first in able and all(slow.node != first for slow in partition.slow)


# -- what is said ------------------------------------------------------------------------------------------


def plain_plan(found: Placement, wanted: Sequence[PlannedMove]) -> dict[str, object]:
    now = counts(found.partitions, found.able)
    then = counts(changed(found.partitions, wanted), found.able)
    return {
        "balanced": found.even and found.settled,
        "nodes": [
            {
                "node": node,
                "copies": now.kept[node],
                "copies_then": then.kept[node],
                "preferred": now.first[node],
                "preferred_then": then.first[node],
            }
            for node in found.able
        ],
        "moves": [plain_move(move) for move in wanted],
        "under_way": [{"stream": one.stream, "partition": one.partition} for one in found.moving],
        "led_elsewhere": found.elsewhere,
        "left_alone": found.left_alone,
    }


def plain_move(move: PlannedMove) -> dict[str, object]:
    copies = move.copies
    return {
        "stream": copies.stream,
        "partition": copies.partition,
        "replicas": list(copies.nodes),
        "to": list(move.to),
    }


def node_lines(found: Placement, wanted: Sequence[PlannedMove]) -> list[str]:
    """What each node keeps, and is to lead, now and then."""
    now = counts(found.partitions, found.able)
    then = counts(changed(found.partitions, wanted), found.able)
    rows = [[n, now.kept[n], then.kept[n], now.first[n], then.first[n]] for n in found.able]
    return table_lines(rows, ["NODE", "COPIES", "THEN", "PREFERRED", "THEN"])


def move_lines(wanted: Sequence[PlannedMove]) -> list[str]:
    rows = []
    for move in wanted:
        before, after = (" ".join(map(str, nodes)) for nodes in (move.copies.nodes, move.to))
        rows.append([move.copies.stream, move.copies.partition, before, after])
    return table_lines(rows, ["STREAM", "PARTITION", "REPLICAS", "TO"])


def summary(found: Placement, wanted: Sequence[PlannedMove]) -> str:
    """What is to be done, in a line; empty if nothing is."""
    parts = []
    if wanted:
        parts.append(f"{_many(sum(move.moved for move in wanted), 'copy is', 'copies are')} to move")
    if found.moving:
        parts.append(f"{being_moved(len(found.moving))} already")
    if found.elsewhere:
        which = _many(found.elsewhere, "partition goes", "partitions go")
        parts.append(f"{which} back to the preferred leader")
    return "; ".join(parts)


def being_moved(partitions: int) -> str:
    return _many(partitions, "partition is being moved", "partitions are being moved")


def _many(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def alone_lines(found: Placement) -> list[str]:
    """Which partitions stay as they are, and why."""
    alone = found.left_alone
    lines = [f"left alone: {text}" for text in alone[:NAMED_MAX]]
    return [*lines, f"left alone: {len(alone) - NAMED_MAX} more"] if len(alone) > NAMED_MAX else lines


def verdict(found: Placement) -> str:
    """Of a cluster in which no copy is to move any more."""
    if not found.partitions:
        return "there are no streams, so there is nothing to balance"
    kept = counts(found.partitions, found.able).kept
    if not kept:
        return "every node is drained or retires, so that none may be given a copy"
    least, most = min(kept.values()), max(kept.values())
    if not found.even:
        return f"not even: {_nodes(found.able)} {least} to {most} copies, and no copy that may move helps"
    many = f"{least} or {most} copies" if least < most else _many(least, "copy", "copies")
    return f"balanced: {_nodes(found.able)} {many}"


def _nodes(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"node {numbers[0]} keeps"
    return f"nodes {', '.join(map(str, numbers))} keep"
