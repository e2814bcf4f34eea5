"""A replica whose state contradicts itself ends alone: its node goes on, its partition elsewhere (V5)."""

from __future__ import annotations

import logging

import pytest

from liftlog.core.replica.state.log import FAILED, READY
from liftlog.eventlog import Sparing
from liftlog.messages import (
    TIMER_TICK,
    AppendLog,
    ErrorReply,
    Fetch,
    Outcome,
    Published,
    ReadRequest,
    ReplyClient,
    Send,
    StorageFailed,
    TimerFired,
    Unsubscribe,
)
from liftlog.types import Entry, GroupInDoubt, InvariantViolation, Message, PartitionId, Ticket
from liftlog.watching import Watcher
from tests.core.node_harness import World


class Contained(World):
    contains = True


def led_by_one_node(world: World) -> tuple[int, PartitionId, PartitionId]:
    """Two partitions with three copies and three records each, and the one node that leads both."""
    led: dict[int, PartitionId] = {}
    for number in range(4):
        partition = world.create(f"stream{number}")
        for value in (b"a", b"b", b"c"):
            world.publish(partition, value)
        leader = world.leader(partition)
        world.run(3.0)
        assert all(node.replicas[partition].hw == 3 for node in world.nodes.values())
        if leader in led:
            return leader, led[leader], partition
        led[leader] = partition
    raise AssertionError("four partitions on three nodes")


def damage(world: World, node: int, partition: PartitionId) -> None:
    """As a bug would: what is remembered as committed is more than there is."""
    world.replica(node, partition).log.checkpointed_hw = 99


def published(world: World, node: int, partition: PartitionId) -> Published:
    epoch = world.replica(node, partition).epoch
    return Published(partition, epoch, [Message(b"stream", b"_INBOX.1", b"", b"x")], 1000)


def test_without_being_told_so_a_node_contains_nothing() -> None:
    """The simulator finds what production survives."""
    world = World()
    leader, broken, _ = led_by_one_node(world)
    damage(world, leader, broken)
    with pytest.raises(InvariantViolation, match="remembered as committed"):
        world.nodes[leader].step(published(world, leader, broken))


def test_V5_a_leader_that_breaks_a_promise_ends_and_its_partition_goes_on_elsewhere() -> None:
    world = Contained()
    leader, broken, other = led_by_one_node(world)
    epoch = world.replica(leader, broken).epoch
    damage(world, leader, broken)
    world.publish(broken, b"lost")
    assert world.run_until(lambda: world.leader(broken) not in (0, leader))
    replica = world.replica(leader, broken)
    assert replica.state == FAILED and "remembered as committed" in replica.log.broken
    assert replica.epoch == epoch and replica.role == "idle"
    second = world.replica(world.leader(broken), broken)
    assert world.run_until(lambda: leader not in second.isr and len(second.isr) == 2)
    assert world.run_until(lambda: broken in world.subscriptions)
    world.publish(broken, b"d")
    assert world.run_until(lambda: second.hw == 4)
    # The other partition of the same node noticed nothing.
    assert world.leader(other) == leader
    world.publish(other, b"d")
    assert world.run_until(lambda: world.replica(leader, other).hw == 4)
    assert world.nodes[leader].marks["V5.broken"] == 1


def test_V5_nothing_of_the_broken_step_leaves() -> None:
    world = Contained()
    leader, broken, _ = led_by_one_node(world)
    damage(world, leader, broken)
    effects = world.nodes[leader].step(published(world, leader, broken)).effects
    assert Unsubscribe(broken) in effects
    assert not any(isinstance(effect, AppendLog | ReplyClient) for effect in effects)
    assert not [each for each in effects if isinstance(each, Send) and hasattr(each.message, "partition")]


def test_V5_a_broken_copy_stays_closed_until_the_process_starts_anew() -> None:
    world = Contained()
    leader, broken, _ = led_by_one_node(world)
    follower = next(node for node in world.nodes if node != leader)
    damage(world, follower, broken)
    world.publish(broken, b"d")
    record = world.replica(leader, broken)
    assert world.run_until(lambda: follower not in record.isr and record.hw == 4)
    world.run(10.0)
    assert world.replica(follower, broken).state == FAILED and follower not in record.isr
    refused = world.answer(follower, ReadRequest(broken, 0))
    assert isinstance(refused, ErrorReply) and refused.retryable
    world.kill(follower)
    world.restart(follower)
    assert world.run_until(lambda: follower in record.isr)
    assert world.replica(follower, broken).state == READY
    assert world.values(follower, broken) == [b"a", b"b", b"c", b"d"]


def test_V5_people_are_told(caplog: pytest.LogCaptureFixture) -> None:
    world = Contained()
    leader, broken, _ = led_by_one_node(world)
    watcher = Watcher(world.nodes[leader], Sparing())
    watcher.stepped(TimerFired(TIMER_TICK, 0.0), Outcome([]))
    damage(world, leader, broken)
    world.publish(broken, b"x")
    world.run(0.1)
    caplog.clear()
    watcher.stepped(TimerFired(TIMER_TICK, 0.0), Outcome([]))
    told = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.ERROR]
    assert len(told) == 1 and "stopped for good" in told[0] and "remembered as committed" in told[0]


def test_L3_a_read_that_a_broken_replica_had_asked_for_takes_no_place() -> None:
    world = Contained()
    leader, broken, _ = led_by_one_node(world)
    node, replica = world.nodes[leader], world.replica(leader, broken)
    replica.log.cache.clear()
    follower = next(number for number in world.nodes if number != leader)
    roles, reads, begun = replica.roles, len(node.ctx.reads), len(node.ctx.effects)
    assert roles is not None
    incarnation = world.nodes[follower].incarnation
    roles.serving.park(follower, Fetch(broken, replica.epoch, incarnation, 99, 0, 0, 0, 1000))
    assert len(node.ctx.reads) == reads + 1
    replica.end(begun, "a reason")
    assert len(node.ctx.reads) == reads


def test_V5_what_is_broken_in_the_group_ends_the_process_also_while_a_replica_is_at_work() -> None:
    """The controller finds an entry of a later term in its log when one of its replicas wants a command."""
    world = Contained()
    partition = world.create("orders")
    controller = next(number for number, node in world.nodes.items() if node.raft.is_leader)
    node = world.nodes[controller]
    raft, replica = node.raft, node.replicas[partition]
    raft.raft_log.entries.append(Entry(raft.raft_log.last_index + 1, raft.term + 1, b""))
    with pytest.raises(GroupInDoubt, match="Raft entry"):
        node.step(StorageFailed(partition, Ticket(0), True, "a sync failed"))
    assert not replica.log.broken
