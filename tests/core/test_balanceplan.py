"""The plan of `liftlog cluster balance`: even, with the least moves, around what must stay."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.commands.balanceplan import PlacedCopies, PlannedMove, balanced, changed, counts, spread
from liftlog.core.metadata.placement import Loads, choose_replicas

EXAMPLES = settings(max_examples=200, deadline=None)
NODES = st.integers(1, 7)
Cluster = tuple[list[PlacedCopies], list[int]]


@st.composite
def clusters(draw: st.DrawFn, staying: bool = False, most: int = 12) -> Cluster:
    """Partitions anywhere, also on nodes that may have no copies, and the nodes that may."""
    able = sorted(draw(st.sets(NODES, min_size=1)))
    partitions = []
    for index in range(draw(st.integers(0, most))):
        nodes = draw(st.lists(NODES, min_size=1, max_size=4, unique=True))
        stays = staying and draw(st.booleans())
        partitions.append(PlacedCopies(draw(st.sampled_from(["a", "b"])), index, tuple(nodes), stays))
    return partitions, able


def after(partitions: list[PlacedCopies], able: list[int]) -> list[PlacedCopies]:
    return changed(partitions, balanced(partitions, able))


@EXAMPLES
@given(clusters())
def test_nodes_that_may_have_copies_differ_by_one_at_most(
    cluster: Cluster,
) -> None:
    partitions, able = cluster
    now, then = counts(partitions, able).kept, counts(after(partitions, able), able).kept
    assert spread(then) <= 1
    assert sum(then.values()) == sum(now.values()), "copies on other nodes are counted, and none is moved"


@EXAMPLES
@given(clusters(staying=True))
def test_whoever_stays_keeps_its_place_and_no_partition_is_twice_on_a_node(
    cluster: Cluster,
) -> None:
    partitions, able = cluster
    for move in balanced(partitions, able):
        before = move.copies.nodes
        assert not move.copies.stays
        assert len(set(move.to)) == len(move.to) == len(before) and move.moved > 0
        for old, new in zip(before, move.to, strict=True):
            assert old == new or (old in able and new in able and new not in before)


@EXAMPLES
@given(clusters(staying=True))
def test_copies_go_straight_from_nodes_above_the_mean_to_nodes_below_it(
    cluster: Cluster,
) -> None:
    partitions, able = cluster
    kept = counts(partitions, able).kept
    mean = sum(kept.values()) / len(kept)
    for move in balanced(partitions, able):
        for old, new in zip(move.copies.nodes, move.to, strict=True):
            assert old == new or (kept[old] >= mean >= kept[new] and kept[old] > kept[new])


@EXAMPLES
@given(clusters(staying=True))
def test_each_plan_is_more_even_so_that_planning_anew_comes_to_an_end(cluster: Cluster) -> None:
    partitions, able = cluster
    while balanced(partitions, able):
        kept = counts(partitions, able).kept
        partitions = after(partitions, able)
        then = counts(partitions, able).kept
        assert sum(n * n for n in then.values()) < sum(n * n for n in kept.values())
        assert spread(then) <= spread(kept)


@EXAMPLES
@given(clusters(), st.randoms(use_true_random=False))
def test_the_plan_depends_on_nothing_but_where_the_copies_are(
    cluster: Cluster, chance: random.Random
) -> None:
    partitions, able = cluster
    plan = balanced(partitions, able)
    shuffled, others = list(partitions), list(able)
    chance.shuffle(shuffled)
    chance.shuffle(others)
    assert balanced(shuffled, others) == plan == sorted(plan)


@EXAMPLES
@given(clusters(), st.data())
def test_whoever_goes_on_in_the_middle_moves_what_was_left_and_no_more(
    cluster: Cluster, data: st.DataObject
) -> None:
    partitions, able = cluster
    plan = balanced(partitions, able)
    done = [move for move in plan if data.draw(st.booleans())]
    middle = changed(partitions, done)
    under_way = [move.copies.key for move in done if data.draw(st.booleans())]
    counted = [copies._replace(stays=copies.key in under_way) for copies in middle]
    assert moves(balanced(middle, able)) == moves(plan) - moves(done)
    assert not {move.copies.key for move in balanced(counted, able)} & set(under_way)


def moves(plan: list[PlannedMove]) -> int:
    return sum(move.moved for move in plan)


@settings(max_examples=60, deadline=None)
@given(clusters(most=4))
def test_as_few_copies_move_as_can(cluster: Cluster) -> None:
    partitions, able = cluster
    able = able[:5]
    assert moves(balanced(partitions, able)) == least_moves(partitions, able)
    kept = counts(partitions, able).kept
    most = -(-sum(kept.values()) // len(able))
    assert moves(balanced(partitions, able)) >= sum(max(0, copies - most) for copies in kept.values())


def least_moves(partitions: list[PlacedCopies], able: list[int]) -> int:
    """By trying every way to place the copies that may move."""
    best = {tuple(0 for _ in able): 0}
    for copies in partitions:
        mine = {node for node in copies.nodes if node in able}
        following: dict[tuple[int, ...], int] = {}
        for kept, cost in best.items():
            for placed in itertools.combinations(able, len(mine)):
                there = tuple(n + (node in placed) for node, n in zip(able, kept, strict=True))
                price = cost + len(set(placed) - mine)
                following[there] = min(price, following.get(there, price))
        best = following
    return min(cost for kept, cost in best.items() if max(kept) - min(kept) <= 1)


def placed(streams: list[tuple[int, int]], nodes: int) -> list[PlacedCopies]:
    """(partitions, copies of each) of each stream, as a cluster of these nodes places them."""
    loads, partitions = Loads(), []
    for name, (count, factor) in enumerate(streams):
        for index in range(count):
            chosen = choose_replicas(factor, range(1, nodes + 1), range(1, nodes + 1), loads)
            loads.placed(chosen)
            partitions.append(PlacedCopies(f"s{name}", index, tuple(chosen)))
    return partitions


@pytest.mark.parametrize("new", [1, 2, 3])
@pytest.mark.parametrize("streams", [[(9, 3)], [(12, 1)], [(6, 3), (5, 2)], [(1, 3), (20, 2), (7, 1)]])
def test_R16_a_grown_cluster_leads_evenly_too(streams: list[tuple[int, int]], new: int) -> None:
    partitions, able = placed(streams, 3), list(range(1, 4 + new))
    assert spread(counts(partitions, able).first) > 1
    assert spread(counts(after(partitions, able), able).first) <= 1


def test_of_copies_that_may_move_those_stay_that_lead_where_there_is_no_need() -> None:
    partitions = [PlacedCopies("a", 0, (1, 2)), PlacedCopies("a", 1, (2, 1)), PlacedCopies("a", 2, (3, 1))]
    (move,) = balanced(partitions, [1, 2, 3])
    assert move == PlannedMove(partitions[0], (1, 3)) or move == PlannedMove(partitions[1], (2, 3))
    assert str(PlannedMove(partitions[0], (1, 3))) == "'a' partition 0: nodes 1, 2 -> 1, 3"
