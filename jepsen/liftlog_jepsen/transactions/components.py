"""Strongly connected components (Tarjan, "Depth-First Search and Linear Graph Algorithms", 1972)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def strong_components(successors: Sequence[Iterable[int]]) -> tuple[list[int], int]:
    """For each node 0, 1, … its component, and how many components there are.

    `successors[n]` are the nodes that n points to; repeats and loops do no harm. Components are numbered
    against the direction of the edges: an edge between two components leads from the higher number to the
    lower one. O(nodes + edges).
    """
    nodes = len(successors)
    component = [-1] * nodes
    index = [-1] * nodes
    low = [0] * nodes
    stack: list[int] = []
    count = visited = 0
    for root in range(nodes):
        if index[root] >= 0:
            continue
        index[root] = low[root] = visited
        visited += 1
        stack.append(root)
        path = [(root, iter(successors[root]))]
        while path:
            node, rest = path[-1]
            for after in rest:
                if index[after] < 0:
                    index[after] = low[after] = visited
                    visited += 1
                    stack.append(after)
                    path.append((after, iter(successors[after])))
                    break
                if component[after] < 0 and index[after] < low[node]:
                    low[node] = index[after]
            else:
                path.pop()
                if path and low[node] < low[path[-1][0]]:
                    low[path[-1][0]] = low[node]
                if low[node] == index[node]:
                    while True:
                        member = stack.pop()
                        component[member] = count
                        if member == node:
                            break
                    count += 1
    return component, count
