"""The cycles of a graph that fits into memory, edges of time included.

`search` takes edges of data between operations with their bounds in time, cuts the graph into pieces
(`liftlog_jepsen.graph.order`), draws real-time and process edges within the pieces, and asks
`liftlog_jepsen.transactions.classify` for the smallest cycle of each kind in each strong component.

Real-time edges are needed between operations that have an edge of data within the piece, and no others: a
cycle that passes through others does so by edges of time on both sides, which time itself bridges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from liftlog_jepsen.graph.components import strong_components
from liftlog_jepsen.graph.intervals import Ints
from liftlog_jepsen.graph.order import EdgePieces, cut, places, process_edges, real_time_edges, relax
from liftlog_jepsen.transactions.classify import CYCLES, KINDS, STEPS, classify, search_cycles, shorten

WW, WR, RW, PROCESS, REALTIME = range(5)
"""Kinds of edges, as numbers: places in `KINDS`."""
RELAX_ROUNDS = 12
SEARCH_EDGES_MAX = 1_000_000
"""A component with more edges shows some cycle instead of the smallest of every kind."""
EVERY_PAIR_MAX = 64
"""In components of up to this many operations every real-time edge is drawn, so that cycles are smallest."""


class Graph(NamedTuple):
    """Edges of data. Operations are named by `lower`, the position of their invocation.

    `upper` is the position of the completion, OPEN unless it ended and certainly took effect; `process` the
    client. One element per edge, for its source and its target. `kind` is a place in `KINDS`.
    """

    source: Ints
    source_upper: Ints
    source_process: Ints
    target: Ints
    target_upper: Ints
    target_process: Ints
    kind: Ints


class CycleStep(NamedTuple):
    """One edge of a cycle. `edge`: its number in the graph, -1 for an edge of time."""

    source: int
    target: int
    kind: str
    edge: int


class Circle(NamedTuple):
    """One cycle. It starts at its least operation."""

    anomaly: str
    steps: tuple[CycleStep, ...]


class CycleSearch(NamedTuple):
    """What a search found, by component and kind.

    `cut`: what was not searched to the end, as (kind, least operation, greatest operation) of the component.
    There, cycles may be larger than need be, or of other kinds than the worst; there is always one.
    """

    circles: list[Circle]
    cut: list[tuple[str, int, int]]


class _Nodes(NamedTuple):
    lower: Ints
    upper: Ints
    process: Ints


def search(
    graph: Graph, kinds: Sequence[str] = CYCLES, steps: int = STEPS, edges_max: int = SEARCH_EDGES_MAX
) -> CycleSearch:
    """The smallest cycle of each of `kinds` in every strong component; see `search_cycles` for `steps`."""
    found = CycleSearch([], [])
    if not len(graph.source):
        return found
    nodes, source, target = _nodes(graph)
    place = places(nodes.lower, relax(source, target, nodes.upper, RELAX_ROUNDS))
    pieces = cut(source, target, place)
    if not len(pieces.edges):
        return found
    timed = _timed(nodes, source, target, pieces, kinds)
    inside = pieces.edges
    sources = np.concatenate([source[inside], timed[0]])
    targets = np.concatenate([target[inside], timed[1]])
    codes = np.concatenate([graph.kind[inside], timed[2]])
    numbers = np.concatenate([inside, np.full(len(timed[0]), -1, np.int64)])
    for part, chosen in _by_component(sources, targets):
        edges = _Edges(sources[chosen], targets[chosen], codes[chosen], numbers[chosen])
        _search_component(nodes, part, edges, kinds, steps, edges_max, found)
    return found


def _nodes(graph: Graph) -> tuple[_Nodes, Ints, Ints]:
    """The operations in ascending order, and the edges by their numbers."""
    both = np.concatenate([graph.source, graph.target])
    lower, first, dense = np.unique(both, return_index=True, return_inverse=True)
    upper = np.concatenate([graph.source_upper, graph.target_upper])[first]
    process = np.concatenate([graph.source_process, graph.target_process])[first]
    half = len(graph.source)
    return _Nodes(lower, upper, process), dense[:half], dense[half:]


def _timed(
    nodes: _Nodes, source: Ints, target: Ints, pieces: EdgePieces, kinds: Sequence[str]
) -> tuple[Ints, Ints, Ints]:
    """Edges of time between operations of one piece: sources, targets, kinds."""
    piece = np.full(len(nodes.lower), -1, np.int64)
    piece[source[pieces.edges]] = pieces.piece
    piece[target[pieces.edges]] = pieces.piece
    inside = np.flatnonzero(piece >= 0)
    lower, upper, process = nodes.lower[inside], nodes.upper[inside], nodes.process[inside]
    found: list[tuple[Ints, Ints, Ints]] = [(inside[:0], inside[:0], inside[:0])]
    # Pieces lie one behind the other, so what implies an edge within a piece lies in it, too.
    for suffix, code in (("-process", PROCESS), ("-realtime", REALTIME)):
        if not any(kind.endswith(suffix) for kind in kinds):
            continue
        drawn = process_edges(lower, upper, process) if code == PROCESS else real_time_edges(lower, upper)
        begin, end = inside[drawn[0]], inside[drawn[1]]
        kept = piece[begin] == piece[end]
        found.append((begin[kept], end[kept], np.full(int(kept.sum()), code, np.int64)))
    return (
        np.concatenate([part[0] for part in found]),
        np.concatenate([part[1] for part in found]),
        np.concatenate([part[2] for part in found]),
    )


def _by_component(sources: Ints, targets: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Each strong component: its nodes, and its edges."""
    parts = strong_components(sources, targets)
    if not parts:
        return
    members = np.concatenate(parts)
    number = np.full(int(max(sources.max(), targets.max())) + 1, -1, np.int64)
    number[members] = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    inside = np.flatnonzero((number[sources] >= 0) & (number[sources] == number[targets]))
    inside = inside[np.argsort(number[sources[inside]], kind="stable")]
    begin = np.searchsorted(number[sources[inside]], np.arange(len(parts) + 1))
    for at, part in enumerate(parts):
        yield part, inside[begin[at] : begin[at + 1]]


class _Edges(NamedTuple):
    source: Ints
    target: Ints
    code: Ints
    number: Ints


def _search_component(
    nodes: _Nodes,
    part: Ints,
    edges: _Edges,
    kinds: Sequence[str],
    steps: int,
    edges_max: int,
    found: CycleSearch,
) -> None:
    least, greatest = int(nodes.lower[part[0]]), int(nodes.lower[part[-1]])
    if len(edges.source) > edges_max:
        found.circles.append(_some_cycle(nodes, edges))
        found.cut.extend((kind, least, greatest) for kind in kinds)
        return
    if len(part) <= EVERY_PAIR_MAX:
        edges = _with_every_pair(nodes, part, edges, kinds)
    named = dict(
        zip(
            zip(edges.source.tolist(), edges.target.tolist(), edges.code.tolist(), strict=True),
            edges.number.tolist(),
            strict=True,
        )
    )
    result = search_cycles([(source, target, KINDS[code]) for source, target, code in named], kinds, steps)
    for cycle in map(shorten, result.cycles):
        taken = tuple(
            CycleStep(
                int(nodes.lower[edge.source]),
                int(nodes.lower[edge.target]),
                edge.kind,
                named.get((edge.source, edge.target, KINDS.index(edge.kind)), -1),
            )
            for edge in cycle.edges
        )
        found.circles.append(Circle(cycle.anomaly, taken))
    found.cut.extend((kind, least, greatest) for kind in result.cut)


def _with_every_pair(nodes: _Nodes, part: Ints, edges: _Edges, kinds: Sequence[str]) -> _Edges:
    """The same component with the edges of time that others imply, which shorten cycles."""
    lower, upper, process = nodes.lower[part], nodes.upper[part], nodes.process[part]
    before = upper[:, None] < lower[None, :]
    drawn = [(edges.source, edges.target, edges.code, edges.number)]
    if any(kind.endswith("-process") for kind in kinds):
        same = before & (process[:, None] == process[None, :])
        drawn.append(_drawn(part, same, PROCESS))
    if any(kind.endswith("-realtime") for kind in kinds):
        drawn.append(_drawn(part, before, REALTIME))
    return _Edges(*(np.concatenate([each[column] for each in drawn]) for column in range(4)))


def _drawn(part: Ints, pairs: npt.NDArray[np.bool_], code: int) -> tuple[Ints, Ints, Ints, Ints]:
    begin, end = np.nonzero(pairs)
    return part[begin], part[end], np.full(len(begin), code, np.int64), np.full(len(begin), -1, np.int64)


def _some_cycle(nodes: _Nodes, edges: _Edges) -> Circle:
    """A cycle through the first edge of data of a component that is too large for a thorough search: the
    shortest way back, breadth first.
    """
    order = np.lexsort((edges.code, edges.target, edges.source))
    source, target = edges.source[order], edges.target[order]
    code, number = edges.code[order].tolist(), edges.number[order].tolist()
    begins = np.searchsorted(source, np.arange(int(source.max()) + 2)).tolist()
    follow, origin = target.tolist(), source.tolist()
    first = int(np.flatnonzero(edges.number[order] >= 0)[0])
    goal, came = origin[first], {follow[first]: first}
    waiting = deque([follow[first]])
    while goal not in came:
        node = waiting.popleft()
        for at in range(begins[node], begins[node + 1]):
            if follow[at] not in came:
                came[follow[at]] = at
                waiting.append(follow[at])
    way = [came[goal]]
    while origin[way[-1]] != goal:
        way.append(came[origin[way[-1]]])
    way.reverse()
    turn = min(range(len(way)), key=lambda at: origin[way[at]])
    way = way[turn:] + way[:turn]
    anomaly = classify([KINDS[code[at]] for at in way])
    if anomaly is None:
        raise AssertionError("edges of time alone form a cycle")
    return Circle(
        anomaly,
        tuple(
            CycleStep(int(nodes.lower[origin[at]]), int(nodes.lower[follow[at]]), KINDS[code[at]], number[at])
            for at in way
        ),
    )
