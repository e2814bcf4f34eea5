"""Purges by subject, and questions about subjects that leave out what is gone (R21, S1)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.replica.removal.subjectpurge import by_epoch
from liftlog.epochs import EpochHistory
from liftlog.messages import (
    DeleteMessageRequest,
    ErrorReply,
    MessageDeleted,
    PullRequest,
    PurgeSubjectsRequest,
    SubjectReply,
    SubjectRequest,
    SubjectsPurged,
    SubjectsTold,
)
from liftlog.mutants import Mutants
from liftlog.types import NO_OFFSET, EpochStart, OffsetRange, PartitionId
from tests.core.node_harness import World
from tests.core.test_consumers import made
from tests.core.test_journal import delete, marks, others, ready, visible


def filled(count: int = 9, **kwargs: Any) -> tuple[World, PartitionId]:
    """One stream, with so many messages that are committed everywhere."""
    world, partition = ready(**kwargs)
    for number in range(3, count):
        world.publish(partition, b"%d" % number)
    assert world.run_until(lambda: world.committed(partition, count))
    return world, partition


def purge(world: World, partition: PartitionId, below: int, keep: int = 0, pattern: str = "orders") -> Any:
    return world.answer(world.leader(partition), PurgeSubjectsRequest(partition, pattern, below, keep))


def last(world: World, partition: PartitionId, node: int = 0, **how: Any) -> Any:
    return world.answer(node or world.leader(partition), SubjectRequest(partition, "last", "orders", **how))


def shown(world: World, partition: PartitionId, seen: int) -> set[int]:
    """The same by all copies, to who has heard of so much."""
    told = [set(visible(world, partition, node, seen=seen)) for node in world.nodes]
    assert told.count(told[0]) == len(told)
    return told[0]


def test_r21_what_matches_below_an_offset_is_gone_everywhere_when_that_is_answered() -> None:
    world, partition = filled()
    reply = purge(world, partition, 5)
    assert reply == SubjectsPurged(partition, 5, reply.journal)
    assert shown(world, partition, reply.journal) == {5, 6, 7, 8}
    assert marks(world, partition)["R21.purged"] == 1


def test_r21_what_does_not_match_stays() -> None:
    world, partition = filled()
    reply = purge(world, partition, 9, pattern="orders.*")
    assert (reply.messages, shown(world, partition, reply.journal)) == (0, set(range(9)))


def test_r21_the_newest_stay_and_what_is_gone_is_not_counted_among_them() -> None:
    world, partition = filled()
    assert isinstance(delete(world, partition, 6), MessageDeleted)
    reply = purge(world, partition, 8, keep=2)
    assert (reply.messages, shown(world, partition, reply.journal)) == (5, {5, 7, 8})
    assert marks(world, partition)["R21.counted"] >= 1
    again = purge(world, partition, 8, keep=2)
    assert (again.messages, shown(world, partition, again.journal)) == (0, {5, 7, 8})
    more = purge(world, partition, 9, keep=7)
    assert (more.messages, shown(world, partition, more.journal)) == (0, {5, 7, 8})


@pytest.mark.parametrize("mutant", [False, True])
def test_r21_a_mutant_counts_what_is_gone(mutant: bool) -> None:
    world, partition = filled(mutants=Mutants(purge_keeps_removed=mutant))
    assert isinstance(delete(world, partition, 8), MessageDeleted)
    reply = purge(world, partition, 9, keep=2)
    assert shown(world, partition, reply.journal) == ({7} if mutant else {6, 7})


@pytest.mark.parametrize("mutant", [False, True])
def test_r21_a_purge_ends_at_what_is_committed(mutant: bool) -> None:
    world, partition = filled(mutants=Mutants(purge_takes_uncommitted=mutant))
    leader = world.leader(partition)
    for node in others(world, partition):
        world.hold_storage(node)
    world.publish(partition, b"more")
    assert world.run_until(lambda: world.replica(leader, partition).leo == 10)
    number = world.ask(leader, PurgeSubjectsRequest(partition, ">", 10))
    world.run(0.3)
    refused = world.replies.get(number)
    assert (refused is None) == mutant
    if refused is not None:
        assert (refused.code, refused.retryable) == ("offset-out-of-range", False)
        assert world.nodes[leader].marks["R21.uncommitted"] == 1


@pytest.mark.parametrize("mutant", [False, True])
def test_r21_a_purge_is_answered_when_all_of_it_is_committed(mutant: bool) -> None:
    world, partition = filled(mutants=Mutants(purge_answered_at_append=mutant))
    assert isinstance(last(world, partition), SubjectReply)
    for node in others(world, partition):
        world.hold_storage(node)
    number = world.ask(world.leader(partition), PurgeSubjectsRequest(partition, "orders", 2))
    world.run(0.3)
    assert (number in world.replies) == mutant


def test_r21_one_purge_at_a_time_and_no_deletion_while_it_counts() -> None:
    world, partition = filled()
    leader = world.leader(partition)
    for node in world.nodes:
        world.hold_storage(node)
    first = world.ask(leader, PurgeSubjectsRequest(partition, "orders", 9, 3))
    second = world.ask(leader, PurgeSubjectsRequest(partition, "orders", 9, 3))
    third = world.ask(leader, DeleteMessageRequest(partition, 8))
    world.run(0.1)
    assert first not in world.replies
    for number, text in ((second, "another purge"), (third, "is counting which messages stay")):
        refused = world.replies[number]
        assert (refused.code, refused.retryable) == ("overload", True) and text in refused.description
    for node in world.nodes:
        world.release_storage(node)
    assert world.run_until(lambda: first in world.replies)
    assert shown(world, partition, world.replies[first].journal) == {6, 7, 8}


def test_r21_a_purge_that_takes_too_long_says_how_far_it_came_and_goes_on_when_it_is_asked_again() -> None:
    world, partition = filled()
    assert isinstance(last(world, partition), SubjectReply)
    world.drop = lambda sender, to, message: getattr(message, "partition", None) == partition.journal
    number = world.ask(world.leader(partition), PurgeSubjectsRequest(partition, "orders", 9))
    assert world.run_until(lambda: number in world.replies)
    reply = world.replies[number]
    assert isinstance(reply, ErrorReply) and reply.retryable
    assert "it has named 2 messages" in reply.description and "ask again" in reply.description
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: len(world.replica(world.leader(partition), partition).isr) == 3)
    assert isinstance(again := purge(world, partition, 9), SubjectsPurged), again
    assert shown(world, partition, again.journal) == set()


def test_r21_who_waits_for_a_purge_is_told_when_the_leader_changes() -> None:
    world, partition = filled()
    leader = world.leader(partition)
    for node in others(world, partition):
        world.hold_storage(node)
    number = world.ask(leader, PurgeSubjectsRequest(partition, "orders", 9))
    world.run(0.1)
    world.fail_sync(leader, partition)
    assert world.run_until(lambda: number in world.replies)
    assert (world.replies[number].code, world.replies[number].retryable) == ("not-leader", True)


def test_r21_who_is_gone_stops_its_purge_and_another_one_is_not_given_its_answer() -> None:
    world, partition = filled()
    leader = world.leader(partition)
    assert isinstance(last(world, partition), SubjectReply)
    journal = world.replica(leader, partition).journal
    assert journal is not None and journal.roles is not None
    purges = journal.roles.subject_purges
    assert purges is not None
    for node in others(world, partition):
        world.hold_storage(node)
    world.ask(leader, PurgeSubjectsRequest(partition, "orders", 9))
    world.run(0.05)
    assert purges.purge is not None and journal.log.leo == 1
    # Storage was asked for the first one, and answers when that is gone and another one has come.
    purges.asked, purges._asker = 77, purges.purge
    purges.forget(purges.purge.client)
    assert purges.purge is None
    number = world.ask(leader, PurgeSubjectsRequest(partition, "orders", 1))
    world.run(0.05)
    runs = (OffsetRange(2, 9),)
    assert not purges.told(SubjectsTold(partition, 77, 9, 0, NO_OFFSET, [], 0, NO_OFFSET, 7, runs=runs))
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: number in world.replies)
    assert shown(world, partition, world.replies[number].journal) == set(range(2, 9))


def test_r21_filters_that_mean_nothing_and_streams_without_removal_are_refused() -> None:
    world, partition = filled(3)
    assert purge(world, partition, 3, pattern="a..b").code == "invalid"
    plain = world.create("plain")
    assert world.run_until(lambda: world.leader(plain) != 0)
    refused = purge(world, plain, 0)
    assert refused.code == "invalid" and "stream create --removal" in refused.description


def test_r21_a_deletion_is_in_no_answer_about_subjects_that_is_asked_for_behind_it() -> None:
    world, partition = ready()
    assert last(world, partition).offset == 2
    told = delete(world, partition, 2)
    reply = last(world, partition)
    assert (reply.offset, reply.journal) == (1, told.journal)
    assert isinstance(purge(world, partition, 3), SubjectsPurged)
    assert last(world, partition).offset == NO_OFFSET
    node = others(world, partition)[0]
    assert world.run_until(lambda: world.committed(partition.journal, 2))
    assert last(world, partition, node, known=True).offset == NO_OFFSET


def test_r21_a_question_waits_until_the_copy_has_read_its_journal() -> None:
    world, partition = ready()
    delete(world, partition, 2)
    node = others(world, partition)[0]
    assert world.run_until(lambda: world.replica(node, partition.journal).log.checkpointed_hw == 1)
    world.kill(node)
    world.restart(node)
    assert world.run_until(lambda: partition.journal in world.nodes[node].replicas)
    assert world.run_until(lambda: world.replica(node, partition).state == "ready")
    assert last(world, partition, node, known=True).offset == 1


def test_runs_are_cut_where_epochs_change() -> None:
    history = EpochHistory([EpochStart(1, 0), EpochStart(4, 5), EpochStart(6, 9)])
    runs = [OffsetRange(1, 2), OffsetRange(3, 7), OffsetRange(8, 20)]
    assert by_epoch(runs, history) == [
        (1, [OffsetRange(1, 2), OffsetRange(3, 5)]),
        (4, [OffsetRange(5, 7), OffsetRange(8, 9)]),
        (6, [OffsetRange(9, 20)]),
    ]


def test_r21_a_purge_that_keeps_some_does_not_wait_for_what_consumers_write() -> None:
    world, partition = filled()
    leader, number = world.leader(partition), made(world, partition)
    assert isinstance(last(world, partition), SubjectReply)
    journal = world.replica(leader, partition.journal)
    for node in others(world, partition):
        world.pause(node)
    world.ask(leader, PullRequest(partition, number))
    assert world.run_until(lambda: journal.leo > journal.hw, 1)
    world.ask(leader, PurgeSubjectsRequest(partition, "orders", 9, 2))
    assert world.run_until(lambda: "R21.counted" in marks(world, partition), 1)
    assert journal.leo > journal.hw
