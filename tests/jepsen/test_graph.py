"""Strong components by intervals: the same as on the whole graph, with every edge of time drawn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.graph.components import strong_components
from liftlog_jepsen.graph.intervals import Ints, coarsen, locate, merge
from liftlog_jepsen.graph.order import OPEN, cut, places, process_edges, real_time_edges, relax
from liftlog_jepsen.graph.search import PROCESS, REALTIME, RW, WR, WW, Circle, Graph, search
from liftlog_jepsen.transactions.classify import CYCLES, KINDS, classify, find_cycles

pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda pair: (pair[0], sum(pair))))


def columns(listed: list[tuple[int, ...]], width: int) -> list[Ints]:
    return list(np.array(listed, np.int64).reshape(-1, width).T)


# --- intervals --------------------------------------------------------------------------------------------


@given(pairs)
def test_merged_intervals_cover_the_same_positions_and_do_not_touch(listed: list[tuple[int, int]]) -> None:
    starts, ends = merge(*columns(listed, 2))
    covered = [place for start, end in zip(starts, ends, strict=True) for place in range(start, end + 1)]
    assert covered == sorted({place for start, end in listed for place in range(start, end + 1)})
    assert (starts[1:] > ends[:-1]).all()


@given(pairs, pairs)
def test_merging_in_parts_is_merging(some: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    parts = [merge(*columns(part, 2)) for part in (some, more)]
    again = merge(np.concatenate([parts[0][0], parts[1][0]]), np.concatenate([parts[0][1], parts[1][1]]))
    for left, right in zip(again, merge(*columns(some + more, 2)), strict=True):
        assert left.tolist() == right.tolist()


@given(pairs, st.integers(1, 4))
def test_coarser_intervals_hold_the_finer_ones(listed: list[tuple[int, int]], most: int) -> None:
    fine = merge(*columns(listed, 2))
    starts, ends = coarsen(*fine, most)
    assert len(starts) == min(len(fine[0]), most)
    assert (locate(fine[0], starts, ends) == locate(fine[1], starts, ends)).all()
    assert (locate(fine[0], starts, ends) >= 0).all()
    assert (starts[1:] > ends[:-1]).all()


def test_coarsening_joins_over_the_narrowest_gaps() -> None:
    starts, ends = coarsen(np.array([0, 10, 12, 30]), np.array([5, 11, 20, 31]), 2)
    assert (starts.tolist(), ends.tolist()) == ([0, 30], [20, 31])


# --- components -------------------------------------------------------------------------------------------


def naive_components(edges: list[tuple[int, int]]) -> list[list[int]]:
    """By asking, for each pair, whether each reaches the other."""
    nodes = sorted({node for edge in edges for node in edge})
    reach = {node: {node} for node in nodes}
    for _ in nodes:
        for source, target in edges:
            reach[source] |= reach[target]
    found = {tuple(b for b in nodes if b in reach[a] and a in reach[b]) for a in nodes}
    return sorted(list(members) for members in found if len(members) > 1)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40))
def test_components_are_those_of_mutual_reach(edges: list[tuple[int, int]]) -> None:
    found = strong_components(*columns(edges, 2))
    assert [part.tolist() for part in found] == naive_components(edges)


def test_a_long_ring_is_one_component() -> None:
    ring = np.arange(200_000, dtype=np.int64)
    found = strong_components(ring, np.roll(ring, -1))
    assert len(found) == 1 and len(found[0]) == len(ring)


# --- edges of time ----------------------------------------------------------------------------------------


class Made:
    """Operations of a random history: bounds that are all different, and processes."""

    def __init__(self, lower: list[int], upper: list[int | None], process: list[int]) -> None:
        self.lower = np.array(lower, np.int64)
        self.upper = np.array([OPEN if end is None else end for end in upper], np.int64)
        self.process = np.array(process, np.int64)

    def before(self, kind: int) -> Iterator[tuple[int, int]]:
        """Every pair that time orders, implied or not."""
        for a, end in enumerate(self.upper):
            for b, begin in enumerate(self.lower):
                if end < begin and (kind == REALTIME or self.process[a] == self.process[b]):
                    yield a, b


@st.composite
def operations(draw: st.DrawFn, most: int = 9) -> Made:
    count = draw(st.integers(1, most))
    order = draw(st.permutations([n // 2 for n in range(2 * count)]))
    spots: list[list[int]] = [[] for _ in range(count)]
    for place, owner in enumerate(order):
        spots[owner].append(place)
    ended = draw(st.lists(st.sampled_from([True, True, True, False]), min_size=count, max_size=count))
    processes = draw(st.lists(st.integers(-1, 2), min_size=count, max_size=count))
    bounds = sorted(spots)
    return Made(
        [low for low, _ in bounds],
        [high if known else None for (_, high), known in zip(bounds, ended, strict=True)],
        processes,
    )


def closure(count: int, edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    for middle in range(count):
        into = [a for a, b in edges if b == middle]
        out = [b for a, b in edges if a == middle]
        edges = edges | {(a, b) for a in into for b in out}
    return edges


@given(operations())
def test_edges_of_time_imply_all_others_and_none_is_implied(made: Made) -> None:
    for kind, drawn in (
        (REALTIME, real_time_edges(made.lower, made.upper)),
        (PROCESS, process_edges(made.lower, made.upper, made.process)),
    ):
        edges = set(zip(drawn[0].tolist(), drawn[1].tolist(), strict=True))
        assert len(edges) == len(drawn[0])
        assert closure(len(made.lower), edges) == set(made.before(kind))
        for edge in edges:
            assert edge not in closure(len(made.lower), edges - {edge})


# --- order and pieces -------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn, kinds: tuple[int, ...] = (WW, WR, RW)) -> tuple[Made, list[tuple[int, int, int]]]:
    made = draw(operations())
    node = st.integers(0, len(made.lower) - 1)
    edges = draw(st.lists(st.tuples(node, node, st.sampled_from(kinds)), max_size=14))
    return made, [edge for edge in edges if edge[0] != edge[1]]


@given(graphs(), st.integers(0, 5))
def test_any_amount_of_relaxing_keeps_places_within_bounds_and_components_within_pieces(
    drawn: tuple[Made, list[tuple[int, int, int]]], rounds: int
) -> None:
    made, edges = drawn
    sources, targets, _ = columns(edges, 3)
    place = places(made.lower, relax(sources, targets, made.upper, rounds))
    assert ((made.lower <= place) & (place <= made.upper)).all()
    for kind in (PROCESS, REALTIME):
        assert all(place[a] < place[b] for a, b in made.before(kind))
    pieces = cut(sources, targets, place)
    within = {(edges[edge][0], edges[edge][1]): piece for edge, piece in zip(*pieces, strict=True)}
    for members in naive_components([(a, b) for a, b, _ in edges] + list(made.before(REALTIME))):
        parts = {piece for (a, b), piece in within.items() if a in members and b in members}
        assert len(parts) == 1
        assert all((a, b) in within for a, b, _ in edges if a in members and b in members)


# --- the search -------------------------------------------------------------------------------------------


def as_graph(made: Made, edges: list[tuple[int, int, int]]) -> Graph:
    source, target, kind = columns(edges, 3)
    return Graph(
        made.lower[source],
        made.upper[source],
        made.process[source],
        made.lower[target],
        made.upper[target],
        made.process[target],
        kind,
    )


def check_circle(made: Made, edges: list[tuple[int, int, int]], circle: Circle) -> None:
    """Each step exists, and the whole is what its name says."""
    node = {low: number for number, low in enumerate(made.lower.tolist())}
    for step, following in zip(circle.steps, (*circle.steps[1:], circle.steps[0]), strict=True):
        assert step.target == following.source
        pair = node[step.source], node[step.target]
        if step.edge >= 0:
            assert edges[step.edge] == (*pair, KINDS.index(step.kind))
        else:
            assert pair in set(made.before(KINDS.index(step.kind)))
    assert classify([step.kind for step in circle.steps]) == circle.anomaly
    assert circle.steps[0].source == min(step.source for step in circle.steps)


@pytest.mark.slow
@given(graphs())
@settings(max_examples=300)
def test_cycles_are_those_of_the_whole_graph_with_all_edges_of_time(
    drawn: tuple[Made, list[tuple[int, int, int]]],
) -> None:
    made, edges = drawn
    every = [(a, b, KINDS[kind]) for a, b, kind in edges]
    every += [(a, b, KINDS[kind]) for kind in (PROCESS, REALTIME) for a, b in made.before(kind)]
    wanted = sorted((cycle.anomaly, len(cycle.edges)) for cycle in find_cycles(every))
    found = search(as_graph(made, edges))
    assert sorted((circle.anomaly, len(circle.steps)) for circle in found.circles) == wanted
    assert found.cut == []
    for circle in found.circles:
        check_circle(made, edges, circle)


@given(graphs())
def test_kinds_without_time_draw_no_edges_of_time(drawn: tuple[Made, list[tuple[int, int, int]]]) -> None:
    made, edges = drawn
    plain = tuple(kind for kind in CYCLES if "-process" not in kind and "-realtime" not in kind)
    found = search(as_graph(made, edges), plain)
    wanted = find_cycles([(a, b, KINDS[kind]) for a, b, kind in edges], plain)
    assert sorted((circle.anomaly, len(circle.steps)) for circle in found.circles) == sorted(
        (cycle.anomaly, len(cycle.edges)) for cycle in wanted
    )


@given(graphs())
def test_a_component_that_is_too_large_still_shows_a_cycle_and_says_so(
    drawn: tuple[Made, list[tuple[int, int, int]]],
) -> None:
    made, edges = drawn
    whole, hasty = search(as_graph(made, edges)), search(as_graph(made, edges), edges_max=0)
    parts = naive_components([(a, b) for a, b, _ in edges] + list(made.before(REALTIME)))
    bounds = [(int(made.lower[part[0]]), int(made.lower[part[-1]])) for part in map(sorted, parts)]
    assert bool(whole.circles) == bool(hasty.circles)
    assert len(hasty.circles) == len(parts)
    assert sorted(set(hasty.cut)) == sorted((kind, *bound) for kind in CYCLES for bound in bounds)
    for circle in hasty.circles:
        check_circle(made, edges, circle)


@pytest.mark.parametrize("width", [3, 500])
def test_a_wide_ring_of_reads_is_found_whole(width: int) -> None:
    """All at the same time, each read the next: one G1c as long as the ring, however relaxed the order."""
    at = np.arange(width, dtype=np.int64)
    following = np.roll(at, -1)
    end, who = at + width, at
    graph = Graph(at, end, who, following, end[following], who[following], np.full(width, WR))
    found = search(graph)
    assert [(circle.anomaly, len(circle.steps)) for circle in found.circles] == [("G1c", width)]
