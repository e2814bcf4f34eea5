"""Where a partition's replicas go, and who is preferred to lead (R16: spread evenly).

The choice is part of a replicated command, so that it must be the same on every node: it looks only at the
metadata and breaks ties by node id. The first replica of the list is the preferred leader.
"""

from __future__ import annotations

from collections.abc import Sequence


class Loads:
    """How many partitions each node keeps, would lead first, and leads: kept as they come and go.

    To count them for each decision would make a stream of many partitions cost their square.
    """

    __slots__ = ("leads", "preferred", "replicas")

    def __init__(self) -> None:
        self.replicas: dict[int, int] = {}
        self.preferred: dict[int, int] = {}
        self.leads: dict[int, int] = {}

    def placed(self, replicas: Sequence[int], by: int = 1) -> None:
        """A partition is kept on these nodes, the preferred leader first; `by` = -1: no longer."""
        for node in replicas:
            self.replicas[node] = self.replicas.get(node, 0) + by
        self.preferred[replicas[0]] = self.preferred.get(replicas[0], 0) + by

    def led(self, before: int, now: int) -> None:
        """A partition changes hands; 0 = nobody's."""
        if before:
            self.leads[before] -= 1
        if now:
            self.leads[now] = self.leads.get(now, 0) + 1

    def least_leading(self, candidates: Sequence[int]) -> int:
        """R16: the one that leads least, the first of several; 0 if there is none."""
        return min(candidates, key=lambda node: self.leads.get(node, 0), default=0)


def choose_replicas(count: int, nodes: Sequence[int], live: Sequence[int], loads: Loads) -> list[int]:
    """`count` distinct nodes: live ones, then those with the fewest replicas; preferred leader first."""
    replicas, preferred = loads.replicas, loads.preferred
    ranked = sorted(nodes, key=lambda node: (node not in live, replicas.get(node, 0), node))
    chosen = ranked[:count]
    return sorted(chosen, key=lambda node: (node not in live, preferred.get(node, 0), node))
