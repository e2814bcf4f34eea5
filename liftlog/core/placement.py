"""Where a partition's replicas go, who is preferred to lead (R16: spread evenly), whom NATS keeps out (N1).

The choice is part of a replicated command, so that it must be the same on every node: it looks only at the
metadata and breaks ties by node id. The first replica of the list is the preferred leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from liftlog.core.metadata import Metadata, PartitionState


class Placed(Protocol):
    """What placement looks at of an existing partition."""

    @property
    def replicas(self) -> tuple[int, ...]: ...


def choose_replicas(
    count: int, nodes: Sequence[int], live: Sequence[int], partitions: Sequence[Placed]
) -> list[int]:
    """`count` distinct nodes: live ones, then those with the fewest replicas; preferred leader first."""
    replicas = {node: 0 for node in nodes}
    preferred = {node: 0 for node in nodes}
    for partition in partitions:
        for node in partition.replicas:
            replicas[node] = replicas.get(node, 0) + 1
        first = partition.replicas[0]
        preferred[first] = preferred.get(first, 0) + 1
    ranked = sorted(nodes, key=lambda node: (node not in live, replicas[node], node))
    chosen = ranked[:count]
    return sorted(chosen, key=lambda node: (node not in live, preferred[node], node))


def refused_by_nats(metadata: Metadata, partition: PartitionState) -> str:
    """N1: why nothing that is published reaches this partition, whoever of its ISR leads; else empty."""
    if any(metadata.is_live(node) and node not in partition.refused for node in partition.isr):
        return ""
    return partition.refused.get(partition.leader, "")
