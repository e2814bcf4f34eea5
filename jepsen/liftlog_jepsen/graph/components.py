"""Strong components of a graph that lies in numpy columns."""

from __future__ import annotations

import numpy as np

from liftlog_jepsen.graph.intervals import Ints
from liftlog_jepsen.transactions.components import strong_components as tarjan

TRIM_ROUNDS = 8


def strong_components(sources: Ints, targets: Ints) -> list[Ints]:
    """The nodes of each component of two or more, ascending; the components by their least node.

    Nodes are any numbers. Edges may repeat; loops are ignored. Few of a graph's edges lie on cycles, so most
    are dropped by whole columns before Tarjan's algorithm walks what is left.
    """
    nodes, dense = np.unique(np.concatenate([sources, targets]), return_inverse=True)
    left = _trim(len(nodes), dense[: len(sources)], dense[len(sources) :])
    if not len(left[0]):
        return []
    kept, dense = np.unique(np.concatenate(left), return_inverse=True)
    half = len(left[0])
    order = np.argsort(dense[:half], kind="stable")
    after = dense[half:][order].tolist()
    begin = np.searchsorted(dense[:half][order], np.arange(len(kept) + 1)).tolist()
    numbers, count = tarjan([after[begin[node] : begin[node + 1]] for node in range(len(kept))])
    component = np.array(numbers, np.int64)
    by_component = np.argsort(component, kind="stable")
    parts = np.split(nodes[kept[by_component]], np.cumsum(np.bincount(component, minlength=count))[:-1])
    return sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0]))


def _trim(count: int, sources: Ints, targets: Ints) -> tuple[Ints, Ints]:
    """Drop, in rounds, the edges at nodes that nothing enters or nothing leaves: no cycle passes those."""
    keep = sources != targets
    for _ in range(TRIM_ROUNDS):
        sources, targets = sources[keep], targets[keep]
        entered, left = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        entered[targets] = True
        left[sources] = True
        keep = left[targets] & entered[sources]
        if keep.all():
            break
    return sources[keep], targets[keep]
