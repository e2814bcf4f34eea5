"""Reads that wait for a disk are bounded: L3, for clients and for followers."""

from __future__ import annotations

from typing import Any

from liftlog.core.diskreads import DiskReads
from liftlog.core.guards import Guards
from liftlog.messages import (
    ERR_OVERLOAD,
    FETCH_OK,
    FETCH_UNKNOWN,
    ClientRequest,
    Effect,
    Fetch,
    FetchReply,
    LookupTime,
    OffsetRequest,
    ReadLog,
    ReadRequest,
    Received,
    ReplyClient,
    Send,
)
from liftlog.nodeconfig import NodeConfig
from liftlog.types import ClientRef, PartitionId
from tests.core.node_harness import World


def ready(**limits: int) -> tuple[World, PartitionId, int]:
    """Three nodes, ten committed records that no node has in memory any more, and the leader."""
    world = World(**limits)
    partition = world.create()
    for number in range(10):
        world.publish(partition, b"%d" % number)
    assert world.run_until(lambda: world.committed(partition, 10))
    world.run(2.0)
    for node in world.nodes.values():
        node.replicas[partition].log.cache.clear()
    return world, partition, world.leader(partition)


def stepped(world: World, node: int, event: Any) -> list[Effect]:
    """The effects, not carried out: storage does not answer."""
    return world.nodes[node].step(event).effects


def test_L3_clients_reads_of_a_stalled_disk_are_refused_at_the_limit_and_go_on_after_it() -> None:
    world, partition, leader = ready(log_reads_max=16, disk_reads_max=64)
    jobs: list[ReadLog | LookupTime] = []
    refused = 0
    for number in range(20_000):
        request: Any = ReadRequest(partition, 3)
        if number % 7 == 0:
            request = OffsetRequest(partition, "time", 1)
        for effect in stepped(world, leader, ClientRequest(ClientRef(number + 1000), request)):
            if isinstance(effect, ReadLog | LookupTime):
                jobs.append(effect)
            elif isinstance(effect, ReplyClient):
                assert effect.reply.code == ERR_OVERLOAD and effect.reply.retryable  # type: ignore[union-attr]
                refused += 1
    assert len(jobs) == 16 and refused == 20_000 - 16
    assert len(world.nodes[leader].ctx.reads) == 16
    assert world.nodes[leader].marks["L3.reads"] == refused
    for job in jobs:
        world._store(leader, job)
    world.run(1.0)
    assert len(world.nodes[leader].ctx.reads) == 0
    assert world.answer(leader, ReadRequest(partition, 3)).batches


def test_L3_all_clients_of_a_node_leave_half_of_the_places_to_followers() -> None:
    world, partition, leader = ready(log_reads_max=100, disk_reads_max=8)
    jobs = [
        effect
        for number in range(50)
        for effect in stepped(
            world, leader, ClientRequest(ClientRef(number + 1000), ReadRequest(partition, 3))
        )
        if isinstance(effect, ReadLog)
    ]
    assert len(jobs) == 4
    assert len([one for one in fetched(world, partition, leader, 2) if isinstance(one, ReadLog)]) == 1


def fetched(world: World, partition: PartitionId, leader: int, number: int, offset: int = 3) -> list[Effect]:
    """What the leader does when one of its followers asks for old records."""
    follower = next(node for node in world.nodes if node != leader)
    replica = world.replica(leader, partition)
    fetch = Fetch(
        partition,
        replica.epoch,
        world.nodes[follower].incarnation,
        1_000_000 + number,
        offset,
        offset,
        replica.history.epoch_before(offset),
        1024,
    )
    return stepped(world, leader, Received(follower, fetch))


def test_L3_a_follower_has_one_read_under_way_however_often_it_asks_and_gets_the_newest_answer() -> None:
    world, partition, leader = ready()
    effects = [effect for number in range(500) for effect in fetched(world, partition, leader, number)]
    (job,) = [effect for effect in effects if isinstance(effect, ReadLog)]
    assert world.nodes[leader].marks["L3.fetch-again"] == 499
    answers: list[FetchReply] = []

    def watch(sender: int, to: int, message: Any) -> bool:
        if isinstance(message, FetchReply) and message.request >= 1_000_000:
            answers.append(message)
        return False

    world.drop = watch
    world._store(leader, job)
    world.run(0.5)
    assert [(reply.request, reply.status, bool(reply.batches)) for reply in answers] == [
        (1_000_499, FETCH_OK, True)
    ]


def test_L3_a_fetch_from_another_place_is_read_when_the_disk_has_answered_the_earlier_one() -> None:
    world, partition, leader = ready()
    (job,) = [one for one in fetched(world, partition, leader, 1) if isinstance(one, ReadLog)]
    assert not [one for one in fetched(world, partition, leader, 2, offset=5) if isinstance(one, ReadLog)]
    log = world.disks[leader].logs[partition]
    (again,) = [one for one in stepped(world, leader, log.read(job)) if isinstance(one, ReadLog)]
    assert again.offset == 5


def test_L3_without_a_place_a_follower_is_told_to_ask_again() -> None:
    world, partition, leader = ready(disk_reads_max=2)
    followers = [node for node in world.nodes if node != leader]
    world.nodes[leader].ctx.reads.begin_for((partition, followers[1], True), 99_999)
    world.nodes[leader].ctx.reads.begin_for((partition, followers[1], False), 99_998)
    (reply,) = [one for one in fetched(world, partition, leader, 1) if isinstance(one, Send)]
    assert isinstance(reply.message, FetchReply) and reply.message.status == FETCH_UNKNOWN
    assert world.nodes[leader].marks["L3.fetches"] == 1


def test_L3_followers_that_fill_every_place_leave_none_to_clients() -> None:
    log = PartitionId(7, 0)
    reads = DiskReads(NodeConfig(1, (1,), disk_reads_max=2, log_reads_max=2), Guards())
    assert reads.begin_for((log, 2, False), 1) and reads.begin_for((log, 3, False), 2)
    assert not reads.has_place(log)
    reads.done(1)
    assert reads.has_place(log)
