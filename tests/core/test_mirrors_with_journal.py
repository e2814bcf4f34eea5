"""R28: a mirror whose messages can be deleted says in its journal which of its offsets are empty."""

from __future__ import annotations

from typing import Any

from liftlog.messages import (
    DeleteMessageRequest,
    PurgeRequest,
    SubjectReply,
    SubjectRequest,
)
from liftlog.mutants import Mutants
from liftlog.types import PartitionId
from tests.core import test_consumers as consuming
from tests.core.node_harness import World
from tests.core.test_mirrors import SIX, a_world, caught_up, made, mirror_config, put, records


def thinned(count: int = 3, mutants: Mutants | None = None) -> tuple[World, PartitionId, PartitionId]:
    """A world with a stream that lacks offsets 0, 1 and 4 of six, and a mirror of it with a journal."""
    world = a_world(count, mutants)
    replicas = min(3, count)
    origin = world.create("s", replicas=replicas, removal=True)
    put(world, origin, *SIX)
    leader = world.leader(origin)
    world.answer(leader, PurgeRequest(origin, 2))
    world.answer(leader, DeleteMessageRequest(origin, 4))
    world.run(2)
    return world, origin, made(world, mirror_config(removal=True, replication_factor=replicas))


def gone(world: World, partition: PartitionId, node: int = 0) -> set[int]:
    removed = world.replica(node or world.leader(partition), partition.journal).removed
    assert removed is not None
    return {offset for offset, _ in removed.named()}


def told(world: World, partition: PartitionId) -> Any:
    return world.answer(world.leader(partition), SubjectRequest(partition, "subjects", ">"))


def test_r28_a_mirror_with_a_journal_says_what_is_empty_before_it_copies() -> None:
    for count in (1, 3):
        world, origin, mirror = thinned(count)
        assert world.run_until(caught_up(world, origin, mirror))
        world.run(2)
        assert records(world, mirror) == [(2, b"2"), (3, b"3"), (5, b"5")]
        assert gone(world, mirror) == {0, 1, 4}
        assert world.nodes[world.leader(mirror)].marks["R28.said"] == 2
        reply = told(world, mirror)
        assert isinstance(reply, SubjectReply) and (reply.messages, reply.hw) == (3, 6)


def test_r28_consumers_of_a_mirror_are_given_what_is_there() -> None:
    world, origin, mirror = thinned()
    assert world.run_until(caught_up(world, origin, mirror))
    world.run(2)
    consumer = consuming.made(world, mirror)
    given = consuming.given_to(consuming.pull(world, mirror, consumer))
    assert {offset: value for offset, (value, _) in given.items()} == {2: b"2", 3: b"3", 5: b"5"}
    consuming.settle(world, mirror, consumer, "ack", 2, 3, 5)
    assert consuming.info(world, mirror).num_pending == 0
    put(world, origin, b"6")
    assert world.run_until(caught_up(world, origin, mirror))
    given = consuming.given_to(consuming.pull(world, mirror, consumer))
    assert {offset: value for offset, (value, _) in given.items()} == {6: b"6"}


def test_r28_single_messages_of_a_mirror_are_deleted() -> None:
    world, origin, mirror = thinned()
    assert world.run_until(caught_up(world, origin, mirror))
    world.run(2)
    world.answer(world.leader(mirror), DeleteMessageRequest(mirror, 3))
    world.run(2)
    assert gone(world, mirror) == {0, 1, 3, 4} and gone(world, origin) == {4}
    assert told(world, mirror).messages == 2


def test_r28_leaders_are_killed_while_a_mirror_says_what_is_empty() -> None:
    world, origin, mirror = thinned()
    empty = {0, 1, 4}
    for number in range(6, 12):
        victim = world.leader(origin if number % 2 else mirror)
        world.kill(victim)
        world.run(8)
        put(world, origin, b"%d" % number)
        if number % 3 == 0:
            world.answer(world.leader(origin), DeleteMessageRequest(origin, number))
            empty.add(number)
        world.restart(victim)
        world.run(8)
        assert world.run_until(caught_up(world, origin, mirror), 60)
    world.run(4)
    there = {offset for offset, _ in records(world, mirror)}
    shown = set(range(12)) - gone(world, mirror)
    assert shown == there and set(range(12)) - there <= empty


def test_r28_nothing_is_copied_before_what_is_empty_is_committed() -> None:
    world, origin, mirror = thinned()
    assert world.run_until(caught_up(world, origin, mirror))
    leader = world.leader(mirror)
    seen = []
    world.run(2)
    put(world, origin, b"6", b"7", b"8")
    world.answer(world.leader(origin), DeleteMessageRequest(origin, 7))

    def check() -> bool:
        log, journal = world.replica(leader, mirror).log, world.replica(leader, mirror.journal)
        if log.leo > 7 and 7 not in {one for one, _ in records(world, mirror)} and journal.removed:
            seen.append(7 in gone(world, mirror, leader))
        return caught_up(world, origin, mirror)()

    assert world.run_until(check)
    assert all(seen)
