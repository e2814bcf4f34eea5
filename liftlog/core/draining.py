"""What the controller does about nodes that are to be drained: their copies go to others (R20).

A node that is drained, or that retires (I3), is given no copy and no office that another one could have. The
copies that it keeps are moved, a few partitions at a time: each gets, in the place of the drained node, the
live node that keeps least. If an heir is named it is the heir and nobody else, however long that is away, but
for partitions of which the heir has a copy anyway. What is to be moved follows from the records, so that
whoever is controller goes on where they stand. A partition for which there is no other node stays where it is
until there is one.
"""

from __future__ import annotations

from collections.abc import Collection

from liftlog.core.context import Context
from liftlog.core.metadata.commands import UNSENT, MoveReplicas
from liftlog.core.metadata.records import PartitionState

MOVES_MAX = 8
"""Partitions that are moved at one time for the sake of draining."""


class Draining:
    """To be told of each tick of a controller. Holds no state."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def tick(self) -> None:
        metadata = self._ctx.metadata
        drained = {node.node: node.heir for node in metadata.nodes.values() if node.is_emptied}
        if self._ctx.mutants.replaced_by_another:
            drained = dict.fromkeys(drained, 0)
        if not drained:
            return
        under_way = [metadata.partitions[partition] for partition in metadata.unsettled]
        room = MOVES_MAX - sum(bool(partition.target) for partition in under_way)
        given: dict[int, int] = {}
        """Copies that these moves give to a node, beside those that it keeps."""
        for partition in metadata.partitions.values():
            if room <= 0:
                break
            wanted = self._instead(partition, drained, given)
            if wanted is not None:
                room -= 1
                self._ctx.want(MoveReplicas(UNSENT, partition.id, partition.assignment, wanted))

    def _instead(
        self, partition: PartitionState, drained: dict[int, int], given: dict[int, int]
    ) -> list[int] | None:
        """Who is to have copies of a partition; None if that is so, or cannot be any better."""
        present = partition.target or partition.replicas
        wanted: list[int] = []
        for node in present:
            other = self._other(node, partition, wanted, drained, given) if node in drained else 0
            if not other:
                wanted.append(node)
            else:
                given[other] = given.get(other, 0) + 1
                wanted.append(other)
        return wanted if wanted != list(present) else None

    def _other(
        self,
        node: int,
        partition: PartitionState,
        wanted: list[int],
        drained: dict[int, int],
        given: dict[int, int],
    ) -> int:
        """Who is to have a copy in the place of this node; 0: nobody can now."""
        present = partition.target or partition.replicas
        heir = drained[node]
        if heir and heir not in present:
            able = self._ctx.metadata.is_live(heir) and heir not in partition.dropping
            return heir if able else 0
        heirs = [drained[other] for other in present if other in drained]
        return self._least_loaded((*present, *wanted, *heirs, *partition.dropping), drained, given)

    def _least_loaded(self, taken: tuple[int, ...], drained: Collection[int], given: dict[int, int]) -> int:
        metadata = self._ctx.metadata
        kept = metadata.loads.replicas
        free = [
            node
            for node in sorted(metadata.nodes)
            if metadata.is_live(node) and node not in drained and node not in taken
        ]
        return min(free, key=lambda node: kept.get(node, 0) + given.get(node, 0), default=0)
