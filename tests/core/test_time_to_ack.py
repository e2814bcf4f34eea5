"""K4: the time to ack begins when a delivery leaves, not when it is decided."""

from __future__ import annotations

from typing import Any

from liftlog.messages import ConsumerConfig, PullReply, PullRequest, SettledReply, SettleRequest
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import PartitionId
from tests.core.node_harness import World
from tests.core.test_consumers import given_to, info, made, pull, ready, settle

TWICE = ConsumerConfig(ack_wait_ms=300, max_deliver=2)


def waiting(mutants: Mutants = NO_MUTANTS) -> tuple[World, PartitionId, int, Any]:
    """The last delivery of a message is being recorded, longer than an ack may take; and who waits for it."""
    world, partition = ready(1, mutants=mutants)
    number = made(world, partition, TWICE)
    assert list(given_to(pull(world, partition, number))) == [0]
    leader = world.leader(partition)
    for node in world.nodes:
        if node != leader:
            world.hold_storage(node)
    world.run(0.5)
    question = world.ask(leader, PullRequest(partition, number, wait_ms=5000))
    world.run(0.1)
    world.ask(leader, PullRequest(partition, number, wait_ms=5000))
    world.run(1.0)
    assert question not in world.replies
    return world, partition, number, question


def go_on(world: World) -> None:
    for node in sorted(world.held):
        world.release_storage(node)


def test_k4_what_is_being_recorded_is_neither_due_again_nor_given_up() -> None:
    world, partition, number, question = waiting()
    go_on(world)
    assert world.run_until(lambda: question in world.replies)
    reply = world.replies[question]
    assert isinstance(reply, PullReply)
    assert {one: times for one, (_, times) in given_to(reply).items()} == {0: 2}
    told = info(world, partition)
    assert (told.sequence, told.floor) == (2, 0), "it was decided once, and is waited for"
    acked = settle(world, partition, number, "ack", 0)
    assert isinstance(acked, SettledReply) and acked.unknown == []
    assert info(world, partition).floor == 1


def test_k4_when_it_has_left_its_time_begins() -> None:
    world, partition, _, question = waiting()
    go_on(world)
    assert world.run_until(lambda: question in world.replies)
    left = world.now
    assert world.run_until(lambda: info(world, partition).ack_pending == 0, 5)
    assert world.now - left > 0.2, "it was given up when its time was over"


def test_k4_what_is_done_meanwhile_has_no_time() -> None:
    world, partition, number, _ = waiting()
    leader = world.leader(partition)


    world.ask(leader, SettleRequest(partition, number, "ack", [(0, 1)]))
    world.run(0.1)
    go_on(world)
    world.run(2.0)
    told = info(world, partition)
    assert (told.floor, told.ack_pending, told.sequence) == (1, 0, 2)


def test_k4_who_says_not_acked_meanwhile_gets_what_is_leaving_once() -> None:
    world, partition, number, question = waiting()


    world.ask(world.leader(partition), SettleRequest(partition, number, "nak", [(0, 1)]))
    world.run(0.2)
    go_on(world)
    assert world.run_until(lambda: question in world.replies)
    assert info(world, partition).sequence == 2


def test_k4_time_from_record_is_a_bug() -> None:
    world, partition, _, question = waiting(Mutants(time_from_record=True))
    go_on(world)
    assert world.run_until(lambda: question in world.replies)
    assert info(world, partition).floor == 1, "given up before anybody could ack it"
