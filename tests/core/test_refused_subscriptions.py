"""N1: a subscription that NATS refuses is no subscription: it is told, tried again, and handed over (N5)."""

from __future__ import annotations

from typing import Any

from liftlog.messages import (
    CreateStreamRequest,
    ErrorReply,
    Event,
    StreamInfoReply,
    StreamInfoRequest,
    Subscribed,
    SubscriptionRefused,
)
from liftlog.types import PartitionId, StreamConfig
from tests.core.node_harness import World

REASON = 'Permissions Violation for Subscription to "orders"'
REQUEST = CreateStreamRequest(StreamConfig("orders", "orders", 1, 3))


class Denying(World):
    """NATS lets the nodes in `denied` subscribe to nothing."""

    def __init__(self, *denied: int) -> None:
        self.denied = set(denied)
        self.asked: list[int] = []
        super().__init__()

    def post(self, node: int, event: Event, delay_s: float = 0.0) -> None:
        if isinstance(event, Subscribed):
            self.asked.append(node)
            if node in self.denied:
                self.subscriptions.pop(event.partition, None)
                event = SubscriptionRefused(event.partition, event.epoch, REASON, event.number)
        super().post(node, event, delay_s)

    def partition(self) -> PartitionId:
        """The partition, as soon as it is there."""
        assert self.run_until(lambda: any("orders" in node.metadata.streams for node in self.nodes.values()))
        (node,) = [node for node in self.nodes.values() if "orders" in node.metadata.streams][:1]
        return node.metadata.streams["orders"].partitions[0]

    def take_away(self, partition: PartitionId) -> None:
        """The server's permissions change: the leader's subscription is gone."""
        node, epoch = self.subscriptions.pop(partition)
        self.denied.add(node)
        self.step(node, SubscriptionRefused(partition, epoch, REASON))


def shown(world: World) -> Any:
    reply = world.answer(1, StreamInfoRequest("orders"))
    assert isinstance(reply, StreamInfoReply)
    return reply.streams[0].partitions[0]


def test_N1_a_stream_that_nobody_may_subscribe_to_is_not_ready_and_its_creator_is_told() -> None:
    world = Denying(1, 2, 3)
    reply = world.answer(1, REQUEST)
    assert isinstance(reply, ErrorReply)
    assert (reply.code, reply.retryable) == ("nats-refuses", False)
    assert "'orders' was created" in reply.description and REASON in reply.description
    info = shown(world)
    assert not info.ready and info.refusal == REASON
    assert sorted(set(world.asked)) == [1, 2, 3], "each of them was tried (N5)"
    assert world.publish(world.partition(), b"x") is False


def test_N1_the_leader_tries_again_less_and_less_often_until_it_may() -> None:
    world = Denying(1, 2, 3)
    world.answer(1, REQUEST)
    before, applied = len(world.asked), world.nodes[1].metadata.applied
    world.run(40.0)
    assert 4 <= len(world.asked) - before <= 10
    assert world.nodes[1].metadata.applied - applied <= 2, "the group is not told the same over and over"
    world.denied.clear()
    assert world.run_until(lambda: shown(world).ready, 15.0)
    assert shown(world).refusal == ""
    assert world.publish(world.partition(), b"x")


def test_N5_a_leader_that_nats_refuses_hands_over_to_one_that_may_subscribe() -> None:
    for allowed in (1, 2, 3):
        world = Denying(*{1, 2, 3} - {allowed})
        reply = world.answer(1, REQUEST)
        assert isinstance(reply, StreamInfoReply), "created, once somebody listens"
        partition = world.partition()
        assert world.leader(partition) == allowed and shown(world).ready
        handovers = world.nodes[1].metadata.counts.get("N5.handover", 0)
        world.run(30.0)
        assert world.nodes[1].metadata.counts.get("N5.handover", 0) == handovers
        assert world.leader(partition) == allowed


def test_N1_a_subscription_that_is_taken_away_makes_the_partition_unready_and_moves_it() -> None:
    world = Denying()
    world.answer(1, REQUEST)
    partition = world.partition()
    first = world.leader(partition)
    world.take_away(partition)
    assert world.run_until(lambda: world.leader(partition) not in (0, first) and shown(world).ready)
    assert world.publish(partition, b"x")


def test_N1_who_was_refused_is_elected_last_until_it_starts_anew() -> None:
    world = Denying()
    world.answer(1, REQUEST)
    partition = world.partition()
    first = world.leader(partition)
    world.take_away(partition)
    assert world.run_until(lambda: world.leader(partition) not in (0, first) and shown(world).ready)
    second = world.leader(partition)
    assert first in world.nodes[second].metadata.partitions[partition].refused
    world.kill(second)
    (third,) = {1, 2, 3} - {first, second}
    assert world.run_until(lambda: world.leader(partition) == third)
    world.kill(first)
    world.denied.clear()
    world.restart(first)
    assert world.run_until(lambda: world.nodes[first].incarnation > 0)
    assert world.run_until(lambda: first not in world.nodes[third].metadata.partitions[partition].refused)


def test_a_refusal_of_an_earlier_epoch_or_after_unsubscribing_means_nothing() -> None:
    world = Denying()
    world.answer(1, REQUEST)
    partition = world.partition()
    leader, epoch = world.subscriptions[partition]
    world.step(leader, SubscriptionRefused(partition, epoch - 1, REASON))
    world.run(3.0)
    assert shown(world).ready and world.leader(partition) == leader
