"""Where a new partition's replicas go, and who is preferred to lead it (R16: leaders are spread evenly).

The choice is part of a replicated command, so that it must be the same on every node: it looks only at the
metadata and breaks ties by node id. The first replica of the list is the preferred leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


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
