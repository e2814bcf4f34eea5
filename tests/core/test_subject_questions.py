"""Questions about subjects: what a replica waits for, and what it answers (S1)."""

from __future__ import annotations

from typing import Any

from liftlog.core.replica.state.indexstate import KEPT_MS
from liftlog.messages import (
    ERR_DAMAGED,
    ERR_INDEX_RENEWED,
    ERR_INVALID,
    ERR_NOT_FOUND,
    ERR_NOT_LEADER,
    ERR_NOT_READY,
    ERR_OVERLOAD,
    AskSubjects,
    ClientRequest,
    FoldSubjects,
    ReplyClient,
    SubjectReply,
    SubjectRequest,
)
from liftlog.types import NO_OFFSET, ClientRef, OffsetRange, PartitionId
from tests.core.node_harness import World


def ready(count: int = 5, **limits: Any) -> tuple[World, PartitionId, int]:
    world = World(**limits)
    partition = world.create()
    for number in range(count):
        world.publish(partition, b"%d" % number)
    assert world.run_until(lambda: world.committed(partition, count))
    return world, partition, world.leader(partition)


def last(partition: PartitionId, subject: str = "orders", **how: Any) -> SubjectRequest:
    return SubjectRequest(partition, "last", subject, **how)


def test_S1_the_leader_answers_with_all_that_was_acked_and_says_which_offsets_it_is_about() -> None:
    world, partition, leader = ready()
    reply = world.answer(leader, last(partition))
    assert reply == SubjectReply(partition, 1, 5, 0, 4, index=7, size=5 * (30 + 6 + 1))
    assert world.answer(leader, last(partition, "nobody")).offset == NO_OFFSET
    told = world.answer(leader, SubjectRequest(partition, "subjects", ">"))
    assert (told.subjects, told.messages, told.place, told.hw) == ([(b"orders", 5)], 5, NO_OFFSET, 5)
    assert world.nodes[leader].marks["S1.answered"] == 3
    world.publish(partition, b"one more")
    assert world.run_until(lambda: world.committed(partition, 6))
    assert world.answer(leader, last(partition)).offset == 5


def test_S1_a_match_is_looked_for_step_by_step() -> None:
    world, partition, leader = ready(9)
    world.answer(leader, last(partition))
    reply = world.answer(leader, SubjectRequest(partition, "next", "orders", 3))
    assert reply.offset == 3
    reply = world.answer(leader, SubjectRequest(partition, "next", "x.>", 0))
    assert (reply.offset, reply.place, reply.hw) == (NO_OFFSET, NO_OFFSET, 9)


def test_S1_any_copy_answers_with_what_it_knows_if_that_is_enough() -> None:
    world, partition, leader = ready()
    follower = next(node for node in world.nodes if node != leader)
    assert world.answer(follower, last(partition, known=True)).offset == 4
    error = world.answer(follower, last(partition))
    assert (error.code, error.leader) == (ERR_NOT_LEADER, leader)


def test_R3_a_leader_that_leads_no_more_answers_nobody_who_wants_all() -> None:
    world, partition, leader = ready()
    world.drop = lambda sender, to, message: leader in (sender, to)
    number = world.ask(leader, last(partition))
    assert world.run_until(lambda: number in world.replies)
    assert world.replies[number].code != "" and not isinstance(world.replies[number], SubjectReply)


def test_S1_what_is_not_committed_is_in_no_answer() -> None:
    world, partition, leader = ready()
    followers = [node for node in world.nodes if node != leader]
    for node in followers:
        world.hold_storage(node)
    world.publish(partition, b"not synced by the others")
    world.run(0.3)
    assert world.replica(leader, partition).leo == 6
    reply = world.answer(leader, last(partition, known=True))
    assert (reply.offset, reply.hw) == (4, 5)
    assert world.nodes[leader].marks["S1.settled"] >= 1


def test_S1_a_question_waits_for_the_index_slice_by_slice_or_is_told_how_far_it_is() -> None:
    world, partition, leader = ready(20)
    log = world.disks[leader].logs[partition]
    log.fold_slice = 3
    assert world.answer(leader, last(partition)).offset == 19
    log.folded, log.fold_slice = 5, 0
    error = world.answer(leader, last(partition, wait_ms=500))
    assert error.code == ERR_NOT_READY and error.retryable
    assert "has come to offset 5 of 20" in error.description
    assert world.nodes[leader].marks["S1.behind"] and world.nodes[leader].marks["S1.late"]
    log.fold_slice = 100
    assert world.answer(leader, last(partition)).offset == 19, "it is begun anew"


def test_S1_an_index_follows_its_log_for_a_while_and_no_longer() -> None:
    world, partition, leader = ready()
    log = world.disks[leader].logs[partition]
    world.answer(leader, last(partition))
    world.publish(partition, b"more")
    assert world.run_until(lambda: log.folded == 6, 1.0)
    world.run(KEPT_MS / 1000 + 1)
    world.publish(partition, b"much later")
    assert world.run_until(lambda: world.committed(partition, 7))
    world.run(1.0)
    assert log.folded == 6
    assert world.answer(leader, last(partition)).offset == 6


def test_S1_an_index_that_made_room_for_another_is_not_begun_anew_until_somebody_asks() -> None:
    world, partition, leader = ready()
    log = world.disks[leader].logs[partition]
    world.answer(leader, last(partition))
    log.folded = -1
    world.publish(partition, b"more")
    assert world.run_until(lambda: world.committed(partition, 6))
    world.run(1.0)
    assert log.folded == -1 and world.nodes[leader].marks["S1.given-up"] == 1
    assert world.answer(leader, last(partition)).offset == 5


def test_S1_damage_is_told_and_noted() -> None:
    world, partition, leader = ready()
    world.disks[leader].logs[partition].bad.append(OffsetRange(1, 2))
    error = world.answer(leader, last(partition))
    assert error.code == ERR_DAMAGED and error.retryable
    assert world.nodes[leader].marks["S1.failed"]
    assert world.nodes[leader].marks["D2.found"]


def test_S1_pages_of_two_indexes_are_not_mixed() -> None:
    world, partition, leader = ready()
    error = world.answer(leader, SubjectRequest(partition, "subjects", ">", 1, index=6))
    assert error.code == ERR_INDEX_RENEWED and not error.retryable
    assert world.answer(leader, SubjectRequest(partition, "subjects", ">", 1, index=7)).subjects == []


def test_S1_what_means_nothing_is_refused() -> None:
    world, partition, leader = ready()
    for request, word in (
        (SubjectRequest(partition, "first", "orders"), "is not one of"),
        (SubjectRequest(partition, "subjects", "a..b"), "empty token"),
        (SubjectRequest(partition, "next", ">.a"), "last token"),
        (last(partition, "orders.*"), "is a filter"),
    ):
        error = world.answer(leader, request)
        assert error.code == ERR_INVALID and word in error.description and not error.retryable
    assert world.answer(leader, last(PartitionId(99, 0))).code == ERR_NOT_FOUND


def test_S1_questions_that_wait_are_bounded() -> None:
    world, partition, leader = ready(parked_reads_max=3, log_reads_max=1)
    jobs: list[Any] = []
    refused = 0
    for number in range(10):
        request = ClientRequest(ClientRef(1000 + number), last(partition, known=True))
        for effect in world.nodes[leader].step(request).effects:
            if isinstance(effect, FoldSubjects | AskSubjects):
                jobs.append(effect)
            elif isinstance(effect, ReplyClient):
                assert effect.reply.code == ERR_OVERLOAD  # type: ignore[union-attr]
                refused += 1
    assert (len(jobs), refused) == (1, 7), "one slice at a time"
    world._store(leader, jobs[0])
    assert world.run_until(lambda: sum(number >= 1000 for number in world.replies) == 3)
    assert len(world.nodes[leader].ctx.reads) == 0


def test_S1_a_stopped_copy_lets_nobody_wait() -> None:
    world, partition, leader = ready()
    world.disks[leader].logs[partition].fold_slice = 0
    number = world.ask(leader, last(partition))
    world.run(0.5)
    assert number not in world.replies
    world.fail_sync(leader, partition)
    assert world.run_until(lambda: number in world.replies, 1.0)
    assert world.replies[number].code == ERR_NOT_READY
