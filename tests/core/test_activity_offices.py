"""N12: what a node is to give away, or to have, and copies that move, are events of their own."""

from __future__ import annotations

from liftlog.core.metadata.activity import KINDS
from liftlog.core.metadata.commands import (
    Command,
    DrainNode,
    FinishMove,
    MoveReplicas,
    PassVote,
    PromoteSpare,
    RetireNode,
    SetVoter,
)
from liftlog.types import StreamConfig
from tests.core.metadata_harness import Cluster


def with_activity(nodes: int = 5) -> Cluster:
    cluster = Cluster(nodes)
    config = StreamConfig("__activity", "__activity.>", replication_factor=3, activity=True)
    assert not cluster.apply(cluster.creation(config)).code
    return cluster


def done(cluster: Cluster, *commands: Command) -> list[tuple[str, int, str]]:
    """Kind, node and detail of the events of these commands, of which none is refused."""
    known = len(cluster.metadata.outbox.events)
    for command in commands:
        assert not cluster.apply(command).code, command
    new = list(cluster.metadata.outbox.events)[known:]
    assert {event.event for event in new} <= set(KINDS)
    return [(event.event, event.node, event.detail) for event in new]


def test_n12_a_move_is_told_when_it_begins_and_when_all_copies_are_there() -> None:
    cluster = with_activity()
    orders = cluster.create("orders")
    first, second, third = orders.replicas
    new = next(node for node in range(1, 6) if node not in orders.replicas)
    move = MoveReplicas(cluster.request(), orders.id, orders.assignment, [first, second, new])
    detail = f"partition 0 to nodes {first} {second} {new}, from {first} {second} {third}"
    assert done(cluster, move) == [("partition.move-begun", 0, detail)]
    assert cluster.metadata.outbox.events[-1].stream == "orders"
    cluster.change_isr(orders, [*orders.replicas], joiner=new)
    [told] = done(cluster, FinishMove(cluster.request(), orders.id, orders.assignment))
    assert told == ("partition.moved", 0, detail)
    [change] = cluster.metadata.outbox.events[-1].partitions
    assert change.left == (third,) and set(change.isr) == {first, second, new}


def test_n12_a_move_that_is_taken_back_has_begun_too() -> None:
    cluster = with_activity()
    orders = cluster.create("orders")
    before = list(orders.replicas)
    new = next(node for node in range(1, 6) if node not in before)
    done(cluster, MoveReplicas(cluster.request(), orders.id, orders.assignment, [*before[:2], new]))
    back = MoveReplicas(cluster.request(), orders.id, orders.assignment, before)
    listed = " ".join(map(str, before))
    assert done(cluster, back) == [
        ("partition.move-begun", 0, f"partition 0 to nodes {listed}, from {listed}")
    ]


def test_n12_a_drain_a_retirement_and_their_ends_are_told() -> None:
    cluster = with_activity()
    nodes = cluster.metadata.nodes
    assert done(cluster, DrainNode(cluster.request(), 4, True, nodes[4].drains_at)) == [
        ("node.drain-begun", 4, "")
    ]
    assert done(cluster, DrainNode(cluster.request(), 4, False, nodes[4].drains_at)) == [
        ("node.drain-ended", 4, "")
    ]
    assert done(cluster, RetireNode(cluster.request(), 4, True, 5, nodes[4].retires_at)) == [
        ("node.retirement-begun", 4, "node 5 takes its place")
    ]
    assert done(cluster, RetireNode(cluster.request(), 4, False, 0, nodes[4].retires_at)) == [
        ("node.retirement-ended", 4, "")
    ]
    stale = DrainNode(cluster.request(), 4, True, 0)
    known = len(cluster.metadata.outbox.events)
    assert cluster.apply(stale).code == "stale" and len(cluster.metadata.outbox.events) == known


def test_n12_votes_are_told() -> None:
    cluster = with_activity()
    metadata = cluster.metadata
    given = [
        *done(cluster, SetVoter(cluster.request(), 4, True, metadata.voters_at)),
        *done(cluster, SetVoter(cluster.request(), 4, False, metadata.voters_at)),
        *done(cluster, RetireNode(cluster.request(), 3, True, 5, 0)),
        *done(
            cluster,
            PassVote(cluster.request(), 3, 5, metadata.nodes[3].retires_at, metadata.voters_at),
        ),
    ]
    cluster.expire(2)
    since = metadata.nodes[2].since
    given += done(cluster, PromoteSpare(cluster.request(), 2, since, 4, metadata.voters_at))
    assert given == [
        ("node.vote-given", 4, ""),
        ("node.vote-taken", 4, ""),
        ("node.retirement-begun", 3, "node 5 takes its place"),
        ("node.vote-passed", 3, "node 5 votes in its place"),
        ("node.vote-passed", 2, "node 4 votes in its place"),
    ]
