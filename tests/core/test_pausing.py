"""Streams that are paused: their leaders have no subscription, and all else goes on (N1, R19)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import AlterStream, CreateStream, LeaderReady, ReadyAgain
from liftlog.messages import (
    AlterStreamRequest,
    CreateStreamRequest,
    DoneReply,
    ErrorReply,
    ReadReply,
    ReadRequest,
    StopRequested,
    StreamChanges,
)
from liftlog.mutants import Mutants
from liftlog.types import PartitionId, StreamConfig
from tests.core.metadata_harness import Cluster
from tests.core.node_harness import World

PAUSE, RESUME = StreamChanges(paused=True), StreamChanges(paused=False)


class Paused:
    """A stream of one partition in the metadata."""

    def __init__(self, level: int = levels.NEWEST) -> None:
        self.cluster = Cluster(level=level)
        self.partition = self.cluster.create("orders")
        self.ready()

    def alter(self, changes: StreamChanges) -> Any:
        stream = self.cluster.metadata.streams["orders"]
        new = self.cluster.request()
        return self.cluster.apply(AlterStream(new, stream.id, "orders", stream.revision, changes))

    def ready(self, paused_at: int | None = None) -> str:
        new, partition = self.cluster.request(), self.partition
        if paused_at is None:
            return self.cluster.apply(LeaderReady(new, partition.id, partition.epoch)).code
        return self.cluster.apply(ReadyAgain(new, partition.id, partition.epoch, paused_at)).code


def test_n1_a_paused_stream_has_no_ready_leader_until_one_has_subscribed_again() -> None:
    paused = Paused()
    assert paused.partition.ready
    assert paused.alter(PAUSE).detail == "paused false -> true"
    assert not paused.partition.ready
    assert paused.ready(paused.partition.paused_at) == "stale", "nobody has a subscription"
    assert paused.cluster.metadata.counts["N1.paused"] == 1
    assert paused.alter(RESUME).detail == "paused true -> false"
    assert not paused.partition.ready
    assert paused.ready() == "stale", "said before the pause"
    assert paused.cluster.metadata.counts["N1.before-pause"] == 1
    assert paused.ready(paused.partition.paused_at) == ""
    assert paused.partition.ready


def test_n1_what_was_said_before_the_second_pause_does_not_count_after_it() -> None:
    paused = Paused()
    paused.alter(PAUSE)
    first = paused.partition.paused_at
    for changes in (RESUME, PAUSE, RESUME):
        paused.alter(changes)
    assert paused.ready(first) == "stale"
    assert paused.ready(paused.partition.paused_at) == ""


def test_n1_an_epoch_that_begins_after_the_pause_knows_none() -> None:
    paused = Paused()
    paused.alter(PAUSE)
    paused.cluster.expire(paused.partition.leader)
    paused.alter(RESUME)
    assert paused.ready() == ""


def test_r19_a_stream_that_was_resumed_has_the_configuration_of_before() -> None:
    """Which release 0.1.0 reads; and it is the stream that a creation asks for again."""
    paused = Paused()
    before = paused.cluster.metadata.streams["orders"].config
    paused.alter(PAUSE)
    assert paused.cluster.metadata.streams["orders"].config.paused
    assert "already" in paused.alter(PAUSE).detail
    paused.alter(RESUME)
    assert paused.cluster.metadata.streams["orders"].config == before
    assert "already" in paused.alter(RESUME).detail


def test_u2_a_pause_needs_the_second_level() -> None:
    paused = Paused(levels.FIRST)
    assert "'liftlog cluster level --raise'" in paused.alter(PAUSE).detail
    config = StreamConfig("b", "b", 1, 1, 1, paused=True)
    refused = paused.cluster.apply(CreateStream(paused.cluster.request(), config, 10))
    assert "'liftlog cluster level --raise'" in refused.detail


def started() -> tuple[World, PartitionId]:
    world = World()
    partition = world.create()
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    return world, partition


def record(world: World, partition: PartitionId) -> Any:
    return next(iter(world.nodes.values())).ctx.metadata.partitions[partition]


def test_n1_a_pause_takes_nothing_and_answers_what_was_taken_before() -> None:
    world, partition = started()
    assert world.run_until(lambda: record(world, partition).ready)
    leader = world.leader(partition)
    for other in world.nodes:
        if other != leader:
            world.hold_storage(other)
    world.publish(partition, b"before")
    world.run(0.2)
    number = world.ask(leader, AlterStreamRequest("orders", PAUSE))
    assert world.run_until(lambda: number in world.replies or partition not in world.subscriptions)
    for other in world.nodes:
        if other != leader:
            world.release_storage(other)
    assert world.run_until(lambda: number in world.replies and partition not in world.subscriptions)
    assert world.replies[number] == DoneReply("paused false -> true")
    assert world.run_until(lambda: len(world.acks) == 1), "it was taken before the pause"
    assert not world.publish(partition, b"meanwhile"), "NATS has nobody to give it to"
    assert world.run_until(lambda: world.committed(partition, 1))
    assert not record(world, partition).ready
    got = world.answer(leader, ReadRequest(partition, 0, 1 << 20, 0))
    assert isinstance(got, ReadReply)
    assert world.answer(2, AlterStreamRequest("orders", RESUME)) == DoneReply("paused true -> false")
    assert world.run_until(lambda: partition in world.subscriptions and record(world, partition).ready)
    assert world.leader(partition) == leader, "no other epoch"
    world.publish(partition, b"after")
    assert world.run_until(lambda: world.committed(partition, 2))
    assert world.values(leader, partition) == [b"before", b"after"]


def test_n1_a_stream_stays_paused_under_another_leader_and_after_a_restart() -> None:
    world, partition = started()
    world.answer(1, AlterStreamRequest("orders", PAUSE))
    for _ in range(2):
        before = world.leader(partition)
        world.kill(before)
        assert world.run_until(lambda gone=before: world.leader(partition) not in (0, gone))
        world.run(2.0)
        assert partition not in world.subscriptions
        assert not record(world, partition).ready
        world.restart(before)
        assert world.run_until(lambda: len(record(world, partition).isr) == 3)
    world.answer(2, AlterStreamRequest("orders", RESUME))
    assert world.run_until(lambda: partition in world.subscriptions and record(world, partition).ready)


def test_n1_a_pause_that_is_over_before_it_has_begun_leaves_a_ready_leader() -> None:
    world, partition = started()
    for changes in (PAUSE, RESUME, PAUSE, RESUME):
        world.ask(1, AlterStreamRequest("orders", changes))
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.streams["orders"].revision > 0)
    world.run(5.0)
    config = world.nodes[1].ctx.metadata.streams["orders"].config
    assert (partition in world.subscriptions) == (not config.paused)
    assert record(world, partition).ready == (not config.paused)


@pytest.mark.parametrize("mutant", [False, True])
def test_n1_a_planted_leader_that_forgets_the_pause_subscribes(mutant: bool) -> None:
    world = World(3, Mutants(paused_until_restart=mutant))
    partition = world.create()
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    world.answer(1, AlterStreamRequest("orders", PAUSE))
    before = world.leader(partition)
    world.kill(before)
    assert world.run_until(lambda: world.leader(partition) not in (0, before))
    world.run(2.0)
    assert (partition in world.subscriptions) == mutant


def test_n1_a_pause_that_ends_while_the_leader_leaves_does_not_make_it_ready() -> None:
    """It has no subscription any more (seed 1352 of 341a961)."""
    world = World()
    partition = world.create()
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    assert world.run_until(lambda: record(world, partition).ready)
    leader = world.leader(partition)
    others = [node for node in world.nodes if node != leader]
    for other in others:
        world.hold_storage(other)
    world.publish(partition, b"under way", reply=b"_INBOX.a")
    world.run(0.01)
    world.post(leader, StopRequested())
    world.run(0.05)
    assert partition not in world.subscriptions
    for changes in (PAUSE, RESUME):
        world.ask(others[0], AlterStreamRequest("orders", changes))
        world.run(0.2)
    stream = world.nodes[leader].ctx.metadata.streams["orders"]
    assert stream.revision > 0 and not stream.config.paused and not world.nodes[leader].handed_over
    assert not record(world, partition).ready


def test_a_stream_is_not_created_paused() -> None:
    world, _ = started()
    reply = world.answer(1, CreateStreamRequest(StreamConfig("b", "b", 1, 1, 1, paused=True)))
    assert isinstance(reply, ErrorReply)
    assert "stream pause" in reply.description
