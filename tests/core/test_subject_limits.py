"""Of each subject the newest so many messages stay (R22)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem, altered
from liftlog.core.metadata.limits import limits_problem
from liftlog.messages import (
    AlterStreamRequest,
    DeleteMessageRequest,
    MessageDeleted,
    StreamChanges,
    SubjectsFolded,
)
from liftlog.mutants import Mutants
from liftlog.types import Message, PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_ack_policies import publish
from tests.core.test_expected_lasts import log_of
from tests.core.test_journal import delete, marks, others, visible


def limited(keeps: int = 2, **kwargs: Any) -> tuple[World, PartitionId]:
    """A cluster with one stream that keeps so many messages of a subject."""
    world = World(**kwargs)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(removal=True, max_messages_per_subject=keeps or UNSET)
    assert world.run_until(lambda: partition in world.subscriptions)
    return world, partition


def put(world: World, partition: PartitionId, *subjects: str) -> None:
    """A message to each, with a number as its value; until they are committed."""
    end = world.replica(world.leader(partition), partition).leo
    messages = [
        Message(f"orders.{subject}".encode(), b"", b"", b"%d" % number)
        for number, subject in enumerate(subjects, end)
    ]
    publish(world, partition, *messages)
    assert world.run_until(lambda: world.committed(partition, end + len(subjects)))


def shows(world: World, partition: PartitionId, *offsets: int) -> bool:
    """Whether in the end every copy shows these, and no others."""
    wanted = {offset: b"%d" % offset for offset in offsets}
    nodes = [node for node in world.nodes if world.replica(node, partition) is not None]
    return world.run_until(lambda: all(visible(world, partition, node) == wanted for node in nodes))


def journal(world: World, partition: PartitionId) -> Any:
    return world.replica(world.leader(partition), partition.journal)


def busy(world: World, partition: PartitionId) -> None:
    """This leader looks at something that never comes to an end."""
    limits = journal(world, partition).roles.limits
    limits.tick()
    limits._until = 10**9


def entries(world: World, partition: PartitionId) -> int:
    end: int = journal(world, partition).leo
    return end


def test_R22_the_newest_of_each_subject_stay_on_all_copies() -> None:
    world, partition = limited()
    put(world, partition, "a", "b", "a", "a", "b", "c", "a")
    assert shows(world, partition, 1, 3, 4, 5, 6)
    assert marks(world, partition)["R22.limited"] > 0
    before = entries(world, partition)
    put(world, partition, "c", "d")
    assert shows(world, partition, 1, 3, 4, 5, 6, 7, 8)
    assert entries(world, partition) == before, "where nothing goes nothing is written"


@pytest.mark.parametrize("mutant", [False, True])
def test_R22_what_is_deleted_does_not_count(mutant: bool) -> None:
    world, partition = limited(mutants=Mutants(limit_counts_deleted=mutant))
    put(world, partition, "a", "a")
    assert shows(world, partition, 0, 1)
    assert isinstance(delete(world, partition, 1), MessageDeleted)
    put(world, partition, "a")
    world.run(0.5)
    if mutant:
        assert 0 not in visible(world, partition, world.leader(partition))
        return
    assert shows(world, partition, 0, 2)
    put(world, partition, "a")
    assert shows(world, partition, 2, 3)


def test_R22_a_limit_that_is_lowered_holds_for_what_is_there_and_nothing_comes_back() -> None:
    world, partition = limited(0)
    put(world, partition, "a", "a", "a", "a", "b")
    assert shows(world, partition, 0, 1, 2, 3, 4) and entries(world, partition) == 0

    def alter(keeps: int) -> None:
        changes = StreamChanges(max_messages_per_subject=keeps)
        world.answer(1, AlterStreamRequest("orders", changes))

    alter(3)
    assert shows(world, partition, 1, 2, 3, 4)
    alter(1)
    assert shows(world, partition, 3, 4)
    alter(2)
    put(world, partition, "a")
    assert shows(world, partition, 3, 4, 5)
    alter(0)
    put(world, partition, "a", "a")
    assert shows(world, partition, 3, 4, 5, 6, 7)


def test_R22_a_new_leader_finds_what_the_one_before_has_not_written() -> None:
    world, partition = limited(1)
    old = world.leader(partition)
    busy(world, partition)
    put(world, partition, "a", "a", "a")
    world.run(0.5)
    assert visible(world, partition, old) == {0: b"0", 1: b"1", 2: b"2"}, "it waits for what never comes"
    world.kill(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old))
    assert shows(world, partition, 2)


@pytest.mark.parametrize("mutant", [False, True])
def test_R22_what_is_on_its_way_to_be_gone_does_not_count(mutant: bool) -> None:
    """The deletion of the newest is written and not committed when another message comes."""
    world, partition = limited(mutants=Mutants(without="R22.on-its-way" if mutant else ""))
    put(world, partition, "a", "a")
    assert shows(world, partition, 0, 1)
    world.drop = lambda sender, to, message: message_of_journal(message, partition)
    world.ask(world.leader(partition), DeleteMessageRequest(partition, 1))
    put(world, partition, "a")
    world.run(0.4)
    assert (entries(world, partition) > 1) == mutant
    world.drop = lambda sender, to, message: False
    assert shows(world, partition, *([] if mutant else [0, 2]))
    assert mutant or marks(world, partition)["R22.on-its-way"] > 0


@pytest.mark.parametrize("mutant", [False, True])
def test_R22_what_was_counted_before_something_else_is_deleted_is_not_used(mutant: bool) -> None:
    """Storage has been asked, and answers after a deletion was written."""
    world, partition = limited(mutants=Mutants(without="R22.meanwhile" if mutant else ""))
    put(world, partition, "a", "a")
    assert shows(world, partition, 0, 1)
    put(world, partition, "a")
    limits = journal(world, partition).roles.limits
    assert world.run_until(lambda: bool(limits.asked))
    world.ask(world.leader(partition), DeleteMessageRequest(partition, 1))
    assert shows(world, partition, *([2] if mutant else [0, 2]))
    assert mutant or marks(world, partition)["R22.meanwhile"] == 1


@pytest.mark.parametrize("mutant", [False, True])
def test_R22_what_is_pushed_out_is_looked_for_from_the_start_on(mutant: bool) -> None:
    world, partition = limited(1, mutants=Mutants(limit_looks_from_last=mutant))
    put(world, partition, "a")
    world.run(0.5)
    put(world, partition, "a")
    assert shows(world, partition, 0 if mutant else 1)


def test_R22_a_new_leader_limits_when_it_knows_what_was_deleted() -> None:
    """What the one before has written is in its journal, and not known to be committed."""
    world, partition = limited()
    old = world.leader(partition)
    busy(world, partition)
    put(world, partition, "a", "a", "a")
    for node in others(world, partition):
        world.hold_storage(node)
    world.ask(old, DeleteMessageRequest(partition, 2))
    ends = [world.replica(node, partition.journal) for node in others(world, partition)]
    assert world.run_until(lambda: all(one.leo == 1 for one in ends))
    world.kill(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old))
    world.release_storage(world.leader(partition))
    world.run(0.5)
    assert entries(world, partition) == 1
    for node in list(world.held):
        world.release_storage(node)
    assert shows(world, partition, 0, 1)


def message_of_journal(message: Any, partition: PartitionId) -> bool:
    return getattr(message, "partition", None) == partition.journal


def test_R22_a_long_look_goes_part_by_part_and_what_comes_meanwhile_is_the_next_ones() -> None:
    """The storage of these tests answers two offsets at a time."""
    world, partition = limited(1)
    put(world, partition, *("ab" * 10))
    publish(world, partition, *(Message(b"orders.a", b"", b"", b"%d" % offset) for offset in (20, 21)))
    assert shows(world, partition, 19, 21)


def test_R22_where_the_index_cannot_be_made_it_is_tried_again_after_a_while() -> None:
    world, partition = limited(1)
    put(world, partition, "a")
    log = log_of(world, partition)
    log.fold_slice = 0
    put(world, partition, "a")
    world.run(0.3)
    limits = journal(world, partition).roles.limits
    limits.folded(SubjectsFolded(partition, 0, False, error="no room", full=True))
    log.fold_slice = 100
    world.run(9.0)
    assert marks(world, partition)["R22.paused"] == 1 and entries(world, partition) == 0
    world.run(2.0)
    assert shows(world, partition, 1)


def test_R22_a_stream_that_is_read_only_lets_nothing_go() -> None:
    world, partition = limited(0)
    put(world, partition, "a", "a")
    changes = StreamChanges(read_only=True, max_messages_per_subject=1)
    world.answer(1, AlterStreamRequest("orders", changes))
    world.run(0.5)
    assert entries(world, partition) == 0
    world.answer(1, AlterStreamRequest("orders", StreamChanges(read_only=False)))
    assert shows(world, partition, 1)


def test_R22_which_limits_there_may_be() -> None:
    config = StreamConfig("s", "s", 1, 3, removal=True, max_messages_per_subject=5)
    assert limits_problem(config) == "" and config.keeps_of_subject == 5
    assert altered(config, StreamChanges(max_messages_per_subject=0)).max_messages_per_subject is UNSET
    assert "must be 1 to" in limits_problem(StreamConfig("s", "s", removal=True, max_messages_per_subject=0))
    plain = StreamConfig("s", "s", 1, 3)
    assert "--removal" in alteration_problem(plain, StreamChanges(max_messages_per_subject=1))
