"""C7: a stream's partitions begin where it says, on every copy, whatever becomes of the copies."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem
from liftlog.core.metadata.commands import UNSENT, CreateStream
from liftlog.core.metadata.limits import limits_problem
from liftlog.core.replica.state.beginning import begins_at
from liftlog.messages import (
    FETCH_DIVERGED,
    CreateStreamRequest,
    FetchReply,
    OffsetReply,
    OffsetRequest,
    PurgeRequest,
    ReadReply,
    ReadRequest,
    StreamChanges,
)
from liftlog.mutants import Mutants
from liftlog.types import FIRST_OFFSET_MOST, PartitionId, StreamConfig, TailState
from tests.core.fake_log import Log
from tests.core.node_harness import World
from tests.core.test_mirrors import a_world, caught_up, made, mirror_config, records
from tests.core.test_replication import cut, others

FIRST = 1000


def begun(values: int = 3, world: World | None = None, **settings: Any) -> tuple[World, PartitionId]:
    """A cluster with a stream that begins at 1000, and so many committed values."""
    world = world or a_world()
    partition = world.create(first_offset=FIRST, **settings)
    if values:
        world.publish(partition, *(b"%d" % number for number in range(values)))
    assert world.run_until(lambda: world.committed(partition, FIRST + values))
    return world, partition


def starts(world: World, partition: PartitionId) -> set[int]:
    return {node.replicas[partition].log_start for node in world.nodes.values()}


def test_C7_every_copy_begins_there_and_the_first_message_gets_that_offset() -> None:
    world, partition = begun(0)
    assert starts(world, partition) == {FIRST}
    leader = world.replica(world.leader(partition), partition)
    assert (leader.leo, leader.hw, leader.log.durable_leo) == (FIRST, FIRST, FIRST)
    for what in ("earliest", "latest", "new"):
        reply = world.answer(world.leader(partition), OffsetRequest(partition, what))
        assert isinstance(reply, OffsetReply) and reply.offset == FIRST
    world.publish(partition, b"a", b"b")
    assert world.run_until(lambda: world.committed(partition, FIRST + 2))
    for node in world.nodes:
        read = world.answer(node, ReadRequest(partition, FIRST))
        assert isinstance(read, ReadReply) and (read.first_offset, read.next_offset) == (FIRST, FIRST + 2)
    assert world.answer(1, ReadRequest(partition, FIRST - 1)).code == "offset-out-of-range"


def test_C7_all_partitions_begin_there_and_journals_at_0() -> None:
    world = a_world()
    config = StreamConfig("s", "s", 2, 3, first_offset=FIRST, removal=True)
    world.answer(1, CreateStreamRequest(config))
    stream = world.nodes[1].metadata.streams["s"].id
    logs = [PartitionId(stream, 0), PartitionId(stream, 1)]
    assert world.run_until(lambda: all(one in node.replicas for node in world.nodes.values() for one in logs))
    world.run(3)
    for partition in logs:
        assert starts(world, partition) == {FIRST} and starts(world, partition.journal) == {0}
    assert begins_at(config, logs[0].journal) == 0


def lose(world: World, node: int, partition: PartitionId, gone: bool = False) -> None:
    """The node comes back with an empty log, or with none at all."""
    if node in world.nodes:
        world.kill(node)
    world.disks[node].logs[partition] = Log()
    if gone:
        del world.disks[node].logs[partition]
    world.restart(node, TailState.LOST)


def back(world: World, node: int, partition: PartitionId) -> bool:
    """Whether the copy is in sync again."""
    leader = world.leader(partition)
    return world.run_until(
        lambda: leader != 0
        and partition in world.nodes[node].replicas
        and node in world.replica(leader, partition).isr
        and world.replica(node, partition).hw == world.replica(leader, partition).hw,
        60,
    )


@pytest.mark.parametrize("gone", [False, True])
def test_C7_a_copy_that_has_lost_all_begins_there_again(gone: bool) -> None:
    world, partition = begun()
    victim = others(world, partition)[0]
    leader = world.replica(world.leader(partition), partition)
    lose(world, victim, partition, gone)
    assert world.run_until(lambda: victim not in leader.isr)
    assert back(world, victim, partition)
    assert starts(world, partition) == {FIRST}
    assert world.nodes[victim].marks.get("C7.below", 0) == (not gone)
    assert "C3.reset" not in world.nodes[victim].marks
    assert world.values(victim, partition) == [b"0", b"1", b"2"]


def test_C7_who_leads_when_all_copies_are_lost_gives_the_first_offset_again() -> None:
    world, partition = begun()
    for node in list(world.nodes):
        world.kill(node)
        world.disks[node].logs[partition] = Log()
    for node in list(world.disks):
        world.restart(node, TailState.SUSPECT)
    world.run(20)
    world.publish(partition, b"again")
    assert world.run_until(lambda: world.committed(partition, FIRST + 1), 60)
    assert starts(world, partition) == {FIRST}


@pytest.mark.parametrize("switch", ["copy_begins_at_zero", "lost_copy_begins_at_zero"])
def test_C7_planted_a_copy_that_comes_late_begins_at_0(switch: str) -> None:
    world, partition = begun(world=a_world(mutants=Mutants(**{switch: True})))
    first = world.leader(partition)
    world.kill(first)
    assert world.run_until(lambda: world.leader(partition) not in (0, first))
    lose(world, first, partition, gone=switch == "copy_begins_at_zero")
    assert back(world, first, partition)
    assert world.nodes[first].marks["C3.reset"] == 1


def test_C7_what_two_leaders_wrote_from_the_beginning_on_is_reconciled() -> None:
    """The second one knows no epoch that the first one's record has: it is cut off, down to the beginning."""
    world, partition = begun(0)
    old = world.leader(partition)
    world.drop = cut(old)
    world.publish(partition, b"stored by the old leader only")
    world.run(0.2)
    assert world.replica(old, partition).leo == FIRST + 1
    assert world.run_until(
        lambda: world.leader(partition) not in (0, old) and partition in world.subscriptions
    )
    world.publish(partition, b"kept")
    assert world.run_until(lambda: world.replica(world.leader(partition), partition).hw == FIRST + 1)
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: world.committed(partition, FIRST + 1))
    assert world.values(old, partition) == [b"kept"]
    assert starts(world, partition) == {FIRST}
    assert world.nodes[old].marks["R6.truncate"] == 1 and "C3.below-start" not in world.nodes[old].marks


def test_C7_R6_nobody_talks_a_follower_below_the_beginning() -> None:
    world, partition = begun(1)
    node = others(world, partition)[0]
    replica = world.replica(node, partition)
    following = replica.following
    run = world.nodes[node].incarnation
    reply = FetchReply(
        partition, following.epoch, run, following.request, FETCH_DIVERGED, 0, 0, 0, 0, 0, []
    )
    replica.on_reply(world.leader(partition), reply)
    assert (replica.log_start, replica.leo) == (FIRST, FIRST + 1)
    assert world.nodes[node].marks["V3.FetchReply"] == 1


def test_C7_C3_a_purge_goes_on_from_there() -> None:
    world, partition = begun(5)
    world.answer(world.leader(partition), PurgeRequest(partition, FIRST + 4))
    assert starts(world, partition) == {FIRST + 4}
    victim = others(world, partition)[0]
    lose(world, victim, partition)
    world.run(5)
    assert back(world, victim, partition)
    assert starts(world, partition) == {FIRST + 4}


def test_C7_R28_a_mirror_begins_where_its_origin_does() -> None:
    world, origin = begun(name="s")
    mirror = made(world, mirror_config(first_offset=FIRST))
    assert world.run_until(caught_up(world, origin, mirror))
    assert starts(world, mirror) == {FIRST}
    assert records(world, mirror) == [(FIRST + number, b"%d" % number) for number in range(3)]
    for wrong in ({}, {"first_offset": 5}):
        reply = world.answer(1, CreateStreamRequest(mirror_config(**wrong)))
        assert reply.code == "invalid" or "exists" in reply.code


@pytest.mark.parametrize(
    ("first", "word"), [(0, "1 to"), (FIRST_OFFSET_MOST + 1, "1 to"), (1, ""), (FIRST_OFFSET_MOST, "")]
)
def test_C7_it_is_within_bounds_and_only_said_at_the_creation(first: int, word: str) -> None:
    config = StreamConfig("s", "s", 1, 3, first_offset=first)
    assert word in limits_problem(config) and bool(word) == bool(limits_problem(config))
    assert "first_offset" not in StreamChanges.__struct_fields__
    assert levels.since(CreateStream(UNSENT, config, as_of=1)) == 2
    if not word:
        assert not alteration_problem(config, StreamChanges(retention_ms=5))
