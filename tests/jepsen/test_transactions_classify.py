"""The smallest cycle of every kind: planted, almost planted, and against every simple cycle there is."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.transactions.classify import (
    CYCLES,
    KINDS,
    Edge,
    classify,
    find_cycles,
    search_cycles,
    shorten,
    split,
)
from liftlog_jepsen.transactions.components import strong_components
from tests.jepsen.transaction_oracle import Triple, smallest_cycles

PLANTED = {
    "G0": ["ww", "ww"],
    "G1c": ["ww", "wr"],
    "G-single": ["ww", "wr", "rw"],
    "G-nonadjacent": ["rw", "ww", "rw", "wr"],
    "G2-item": ["rw", "rw"],
    "G0-process": ["ww", "process"],
    "G1c-process": ["wr", "process"],
    "G-single-process": ["rw", "process"],
    "G-nonadjacent-process": ["rw", "process", "rw", "ww"],
    "G2-item-process": ["rw", "rw", "process"],
    "G0-realtime": ["ww", "realtime"],
    "G1c-realtime": ["wr", "ww", "realtime"],
    "G-single-realtime": ["rw", "realtime"],
    "G-nonadjacent-realtime": ["rw", "realtime", "rw", "wr"],
    "G2-item-realtime": ["rw", "rw", "process", "realtime"],
}


def ring(kinds: list[str], first: int = 0) -> list[Edge]:
    size = len(kinds)
    return [Edge(first + at, first + (at + 1) % size, kind) for at, kind in enumerate(kinds)]


def found(edges: list[Edge]) -> list[tuple[str, int]]:
    return [(cycle.anomaly, len(cycle.edges)) for cycle in find_cycles(edges)]


def test_every_kind_is_planted() -> None:
    assert tuple(PLANTED) == CYCLES
    assert all(classify(kinds) == anomaly for anomaly, kinds in PLANTED.items())


@pytest.mark.parametrize("anomaly", CYCLES)
def test_a_planted_cycle_is_found_as_what_it_is(anomaly: str) -> None:
    edges = ring(PLANTED[anomaly])
    detours = [Edge(0, 50, "ww"), Edge(50, 51, "rw"), Edge(60, 0, "realtime"), Edge(51, 61, "wr")]
    (cycle,) = find_cycles([*reversed(edges), *detours])
    assert cycle.anomaly == anomaly
    assert cycle.edges == tuple(edges)


@pytest.mark.parametrize("anomaly", CYCLES)
def test_without_any_one_of_its_edges_there_is_nothing(anomaly: str) -> None:
    edges = ring(PLANTED[anomaly])
    for missing in range(len(edges)):
        turned = Edge(edges[missing].target, edges[missing].source, edges[missing].kind)
        assert found(edges[:missing] + edges[missing + 1 :]) == []
        if len(edges) > 2:
            assert found([*edges[:missing], turned, *edges[missing + 1 :]]) == []


@pytest.mark.parametrize("anomaly", CYCLES)
def test_one_other_edge_makes_it_another_kind(anomaly: str) -> None:
    """The nearest miss: with one edge of another kind, the cycle is what its edges now say."""
    for at in range(len(PLANTED[anomaly])):
        for kind in KINDS:
            kinds = PLANTED[anomaly].copy()
            kinds[at] = kind
            expected = classify(kinds)
            assert [name for name, _ in found(ring(kinds))] == ([] if expected is None else [expected])


def test_time_alone_is_no_anomaly() -> None:
    assert classify(["process", "realtime"]) is None


def test_the_smaller_of_two_cycles_is_shown() -> None:
    longer = ring(["ww", "ww", "ww", "ww", "wr"])
    shortcut = [Edge(1, 0, "wr")]
    assert found(longer) == [("G1c", 5)]
    assert found([*longer, *shortcut]) == [("G1c", 2)]


def test_each_component_has_its_own_cycles() -> None:
    edges = [*ring(["rw", "rw"], 10), *ring(["ww", "rw"], 0), Edge(0, 10, "ww")]
    assert [(cycle.anomaly, cycle.edges[0].source) for cycle in find_cycles(edges)] == [
        ("G-single", 0),
        ("G2-item", 10),
    ]


def test_what_a_kind_implies_is_not_said_again_but_the_rest_is() -> None:
    """A G0 makes a G1c superfluous, not a G-single; a G-single makes a G2-item superfluous."""
    edges = [
        *ring(["ww", "ww"]),
        Edge(1, 0, "wr"),
        Edge(1, 0, "rw"),
        Edge(0, 1, "rw"),
        Edge(0, 1, "realtime"),
    ]
    assert found(edges) == [("G0", 2), ("G-single", 2)]


def test_only_the_kinds_that_are_asked_for() -> None:
    edges = [*ring(["ww", "ww"]), *ring(["rw", "realtime"])]
    assert [cycle.anomaly for cycle in find_cycles(edges, ("G1c", "G-single-realtime"))] == [
        "G-single-realtime"
    ]


def test_a_walk_that_crosses_itself_is_no_cycle() -> None:
    """Two rw that meet at one transaction, parted only by a detour through a G1c: no G-nonadjacent."""
    edges = [
        *(Edge(0, 1, "rw"), Edge(1, 2, "ww"), Edge(2, 0, "rw")),
        *(Edge(0, 3, "wr"), Edge(3, 0, "wr")),
    ]
    assert found(edges) == [("G1c", 2), ("G2-item", 3)]


def test_out_of_steps_something_is_shown_and_said() -> None:
    size = 400
    edges = [Edge(at, (at + 1) % size, "rw" if at % 2 else "wr") for at in range(size)]
    full = search_cycles(edges)
    short = search_cycles(edges, steps=10)
    assert [cycle.anomaly for cycle in full.cycles] == ["G-nonadjacent"] and full.cut == ()
    assert [cycle.anomaly for cycle in short.cycles] == ["G-nonadjacent"] and "G-nonadjacent" in short.cut


graphs = st.integers(2, 6).flatmap(
    lambda size: st.lists(
        st.tuples(st.integers(0, size - 1), st.integers(0, size - 1), st.sampled_from(KINDS)), max_size=14
    )
)


def forward_in_time(edges: list[Triple]) -> list[Triple]:
    """Edges of time never form a circle: let them lead to the higher number, and none be a loop."""
    return [
        (min(edge[:2]), max(edge[:2]), edge[2]) if edge[2] in KINDS[3:] else edge
        for edge in edges
        if edge[0] != edge[1]
    ]


@pytest.mark.slow
@given(graphs.map(forward_in_time))
@settings(max_examples=400, deadline=None)
def test_the_search_agrees_with_all_simple_cycles(edges: list[Triple]) -> None:
    cycles = find_cycles(edges)
    assert [(cycle.anomaly, len(cycle.edges)) for cycle in cycles] == smallest_cycles(edges)
    for cycle in cycles:
        assert classify([edge.kind for edge in cycle.edges]) == cycle.anomaly
        assert set(cycle.edges) <= {Edge(*edge) for edge in edges}
        turns = [*cycle.edges, cycle.edges[0]]
        assert all(first.target == second.source for first, second in itertools.pairwise(turns))
        assert cycle.edges[0].source == min(edge.source for edge in cycle.edges)


@pytest.mark.slow
def test_many_graphs_agree_with_all_simple_cycles() -> None:
    for seed in range(20_000):
        draw = random.Random(seed)
        size = draw.randint(2, 7)
        edges = [
            (draw.randrange(size), draw.randrange(size), draw.choice(KINDS))
            for _ in range(draw.randint(2, 14))
        ]
        edges = forward_in_time(edges)
        assert found([Edge(*edge) for edge in edges]) == smallest_cycles(edges), seed


@given(graphs.map(forward_in_time), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_order_of_edges_means_nothing(edges: list[Triple], draw: random.Random) -> None:
    shuffled = [*edges, *edges[:2]]
    draw.shuffle(shuffled)
    assert find_cycles(shuffled) == find_cycles(edges)


@given(st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=8, max_size=8))
@settings(max_examples=100, deadline=None)
def test_strong_components_are_those_who_reach_each_other(successors: list[list[int]]) -> None:
    reach = [set(after) | {node} for node, after in enumerate(successors)]
    for middle, node in itertools.product(range(8), range(8)):
        if middle in reach[node]:
            reach[node] |= reach[middle]
    component, count = strong_components(successors)
    assert sorted(set(component)) == list(range(count))
    for first, second in itertools.product(range(8), range(8)):
        together = first in reach[second] and second in reach[first]
        assert (component[first] == component[second]) == together
        if second in successors[first]:
            assert component[first] >= component[second]


@pytest.mark.slow
def test_long_chains_need_no_deep_stack() -> None:
    size = 200_000
    component, count = strong_components([[(node + 1) % size] for node in range(size)])
    assert count == 1 and set(component) == {0}


def test_runs_of_time_become_one_step() -> None:
    (cycle,) = find_cycles(ring(["process", "rw", "wr", "process", "process", "realtime"]))
    assert (cycle.anomaly, len(cycle.edges)) == ("G-single-realtime", 6)
    short = shorten(cycle)
    assert short.anomaly == "G-single-realtime" == classify([edge.kind for edge in short.edges])
    assert short.edges == (Edge(1, 2, "rw"), Edge(2, 3, "wr"), Edge(3, 1, "realtime"))
    (cycle,) = find_cycles(ring(["process", "process", "rw"]))
    assert shorten(cycle).edges == (Edge(0, 2, "process"), Edge(2, 0, "rw"))


def test_names_are_split_at_their_suffix() -> None:
    assert [split(name) for name in ("G0", "G-single-realtime", "G2-item-process", "G2-item")] == [
        ("G0", ""),
        ("G-single", "-realtime"),
        ("G2-item", "-process"),
        ("G2-item", ""),
    ]
