"""What is the last record of its subject where messages are deleted (L9, R21)."""

from __future__ import annotations

import pytest

from liftlog.messages import DeleteMessageRequest, MessageDeleted
from liftlog.mutants import Mutants
from liftlog.types import NO_OFFSET, PartitionId
from tests.core.node_harness import World
from tests.core.test_ack_policies import acks_for, publish
from tests.core.test_expected_lasts import behind, log_of, plain, refused
from tests.core.test_journal import delete, others, ready


def stored(world: World, partition: PartitionId) -> list[bytes | None]:
    return world.values(world.leader(partition), partition)[3:]


def deleted(world: World, partition: PartitionId, offset: int) -> None:
    assert isinstance(delete(world, partition, offset), MessageDeleted)


def acked(world: World, reply: bytes) -> bool:
    return world.run_until(lambda: bool(acks_for(world, reply)))


def leader_marks(world: World, partition: PartitionId) -> dict[str, int]:
    return dict(world.nodes[world.leader(partition)].marks)


def test_L9_a_record_that_was_deleted_is_not_the_last_one() -> None:
    world, partition = ready()
    publish(world, partition, plain(b"old"), plain(b"new"))
    assert world.run_until(lambda: world.committed(partition, 5))
    deleted(world, partition, 4)
    publish(world, partition, behind(4, b"_INBOX.a"), behind(3, b"_INBOX.b", b"b"))
    assert acked(world, b"_INBOX.b")
    assert refused(world) == [(b"_INBOX.a", 3)] and stored(world, partition) == [b"old", b"new", b"b"]


def test_L9_where_all_are_deleted_there_is_none() -> None:
    world, partition = ready()
    publish(world, partition, plain(b"old"))
    assert world.run_until(lambda: world.committed(partition, 4))
    deleted(world, partition, 3)
    publish(world, partition, behind(3, b"_INBOX.a"), behind(NO_OFFSET, b"_INBOX.b", b"b"))
    assert acked(world, b"_INBOX.b")
    assert refused(world) == [(b"_INBOX.a", NO_OFFSET)]


def test_L9_of_a_noted_record_that_is_deleted_the_index_says_what_is_left() -> None:
    """It has come to where the notes begin, and not to what they have."""
    world, partition = ready()
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a", b"a"))
    assert acked(world, b"_INBOX.a")
    log_of(world, partition).fold_slice = 0
    publish(world, partition, behind(3, b"_INBOX.b", b"b"), behind(4, b"_INBOX.c", b"c"))
    assert acked(world, b"_INBOX.c")
    deleted(world, partition, 5)
    publish(world, partition, behind(4, b"_INBOX.d", b"d"), behind(3, b"_INBOX.e", b"e"))
    world.run(0.3)
    assert refused(world) == [] and not acks_for(world, b"_INBOX.d")
    log_of(world, partition).fold_slice = 100
    assert acked(world, b"_INBOX.d") and refused(world) == [(b"_INBOX.e", 6)]
    assert leader_marks(world, partition)["L9.noted-gone"] > 0


def test_L9_with_a_planted_bug_what_was_deleted_is_the_last() -> None:
    world, partition = ready(mutants=Mutants(last_may_be_removed=True))
    publish(world, partition, plain(b"old"))
    assert world.run_until(lambda: world.committed(partition, 4))
    deleted(world, partition, 3)
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a", b"a"))
    assert world.run_until(lambda: bool(world.refusals))
    assert refused(world) == [(b"_INBOX.a", 3)]


@pytest.mark.parametrize("mutant", [False, True])
def test_L9_a_leader_compares_when_it_knows_what_was_deleted(mutant: bool) -> None:
    """Its journal is committed to where it began: what the one before was told is in it."""
    world, partition = ready(mutants=Mutants(without="L9.unheeded" if mutant else ""))
    publish(world, partition, plain(b"old"))
    assert world.run_until(lambda: world.committed(partition, 4))
    old = world.leader(partition)
    for node in others(world, partition):
        world.hold_storage(node)
    world.ask(old, DeleteMessageRequest(partition, 3))
    ends = [world.replica(node, partition.journal) for node in others(world, partition)]
    assert world.run_until(lambda: all(journal.leo == 1 for journal in ends))
    world.kill(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old))
    leader = world.leader(partition)
    world.release_storage(leader)
    assert world.run_until(lambda: partition in world.subscriptions)
    publish(world, partition, behind(3, b"_INBOX.a", b"a"))
    world.run(0.5)
    assert stored(world, partition) == ([b"old", b"a"] if mutant else [b"old"])
    for node in others(world, partition):
        world.release_storage(node)
    assert mutant or world.run_until(lambda: refused(world) == [(b"_INBOX.a", NO_OFFSET)])
    assert mutant or leader_marks(world, partition)["L9.unheeded"] > 0
