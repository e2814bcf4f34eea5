"""Bugs that were reported against Liftbridge, or found in its source, and that belong to the protocol.

Each test replays the situation of one of them on whole nodes. An `issue` has its number there, a `defect` was
found by reading its source. Those of its storage have a file of the same name beside the storage tests. The
rules that rule each of them out stand in the docstrings.
"""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.metadata.commands import ChangeIsr
from liftlog.format import encode_messages
from liftlog.messages import (
    FETCH_DIVERGED,
    FETCH_OK,
    Fetch,
    FetchReply,
    OffsetRequest,
    ReadReply,
    ReadRequest,
    Received,
)
from liftlog.options.reading import read
from liftlog.options.wishes import NO_WISHES
from liftlog.types import Message, PartitionId
from tests.core.metadata_harness import Cluster
from tests.core.node_harness import World


def others(world: World, partition: PartitionId) -> list[int]:
    return [node for node in world.nodes if node != world.leader(partition)]


def ready(**config: Any) -> tuple[World, PartitionId]:
    """A cluster with three values committed everywhere, one batch each."""
    world = World(**config)
    partition = world.create()
    for number in range(3):
        publish_one(world, partition, b"%d" % number)
    return world, partition


def fail_over(world: World, partition: PartitionId) -> int:
    """Cut the leader off until somebody else leads and listens; returns who led."""
    victim = world.leader(partition)
    assert world.run_until(lambda: len(world.replica(victim, partition).isr) == world.count, 20)
    world.drop = cut(victim)
    assert world.run_until(
        lambda: world.leader(partition) not in (0, victim) and partition in world.subscriptions, 20
    )
    world.drop = lambda sender, to, message: False
    return victim


def publish_one(world: World, partition: PartitionId, value: bytes) -> int:
    """Publish, wait until everybody knows it committed, return the HW."""
    end = world.replica(world.leader(partition), partition).leo + 1
    assert world.publish(partition, value)
    assert world.run_until(lambda: world.committed(partition, end), 40)
    return end


def cut(*isolated: int) -> Any:
    return lambda sender, to, message: sender in isolated or to in isolated


def replies_to(world: World, leader: int, fetch: Fetch, follower: int) -> list[FetchReply]:
    """What a leader answers to one fetch, outside the usual course of things."""
    seen: list[FetchReply] = []
    usual = world.drop

    def record(sender: int, to: int, message: Any) -> bool:
        if isinstance(message, FetchReply) and message.request == fetch.request:
            seen.append(message)
            return True
        return usual(sender, to, message)

    world.drop = record
    world.step(leader, Received(follower, fetch))
    world.run(1.0)
    world.drop = usual
    return seen


def test_issue_354_a_leader_is_always_a_member_of_its_isr() -> None:
    """R12, R16: Liftbridge restored snapshots in which the leader was missing from the ISR."""
    cluster = Cluster()
    record = cluster.create()
    for node in (*record.replicas, *record.replicas):
        others_ = [member for member in record.isr if member != record.leader]
        shrunk = cluster.change_isr(record, others_)
        assert shrunk.code, "an ISR without its leader is refused"
        assert record.leader in record.isr
        cluster.expire(node)
        assert record.leader == 0 or record.leader in record.isr
        cluster.register(node)
        cluster.confirm(node)
        assert record.leader == 0 or record.leader in record.isr


def test_issue_337_the_hw_of_a_replica_never_goes_back() -> None:
    """R3, R8: neither over restarts of followers nor over changes of the leader."""
    world, partition = ready()
    for round_number in range(4):
        seen = publish_one(world, partition, b"round %d" % round_number)
        victim = fail_over(world, partition)
        world.kill(victim)
        world.restart(victim)
        leader = world.leader(partition)
        reply = world.answer(leader, ReadRequest(partition, 0, wait_ms=9000, seen_hw=seen), 40)
        assert isinstance(reply, ReadReply)
        assert reply.hw >= seen


def test_issue_337_latest_is_not_answered_from_a_hw_that_is_still_behind() -> None:
    """R3: a new leader knows an old HW until its first commit round is over."""
    world, partition = ready()
    first = world.leader(partition)
    world.drop = lambda sender, to, message: type(message).__name__ == "FetchReply" and not message.batches
    world.publish(partition, b"last")
    assert world.run_until(lambda: world.replica(first, partition).hw == 4)
    world.kill(first)
    assert world.run_until(lambda: world.leader(partition) not in (0, first))
    leader = world.leader(partition)
    reply = world.answer(leader, OffsetRequest(partition, "new"))
    assert getattr(reply, "offset", 4) == 4, "not ready, or all of it"


def test_issue_383_a_failed_leader_is_replaced_without_an_operator() -> None:
    """R15: also when it was the controller as well, and when it comes back too late to notice."""
    world, partition = ready()
    for number in range(3):
        assert fail_over(world, partition) != world.leader(partition)
        publish_one(world, partition, b"after %d" % number)
        assert world.run_until(lambda: len(world.replica(1, partition).isr) == 3, 40)


def test_issue_243_fetches_of_other_epochs_stop_neither_side() -> None:
    """R6: an epoch that does not fit is an answer, not an error that ends the process again and again."""
    world, partition = ready()
    leader, follower = world.leader(partition), others(world, partition)[0]
    replica = world.replica(leader, partition)
    incarnation = world.nodes[follower].incarnation
    for request, (epoch, offset, last) in enumerate(
        ((0, 3, 1), (replica.epoch + 5, 3, 1), (replica.epoch, 99, 1), (replica.epoch, 3, 99), (0, 0, 0)), 900
    ):
        fetch = Fetch(partition, epoch, incarnation, request, offset, offset, last, 1000)
        (reply,) = replies_to(world, leader, fetch, follower)
        assert reply.status != FETCH_OK
        assert reply.batches == []
    world.publish(partition, b"on")
    assert world.run_until(lambda: world.committed(partition, 4))


def test_defect_1_leader_and_follower_keep_the_same_epoch_history() -> None:
    """R6: Liftbridge noted an epoch's last offset when leading, and its first offset when following."""
    world, partition = ready()
    for number in range(3):
        fail_over(world, partition)
        publish_one(world, partition, b"epoch %d" % number)
    histories = [tuple(world.replica(node, partition).epochs) for node in (1, 2, 3)]
    assert histories[0] == histories[1] == histories[2]
    assert [entry.start for entry in histories[0]] == [0, 3, 4, 5], "each begins where its first record is"


def test_defect_2_bytes_that_merely_look_like_headers_are_stored_as_they_came() -> None:
    """L1: a short message with an envelope's first bytes made Liftbridge read beyond its end."""
    envelope = b"\xb9\x0e\x43\xb4\x00\xc8\x00\x00"
    for headers in (envelope, b"NATS/1.0", b"NATS/1.0\r\n", b"\r\n\r\n", b"\x00" * 8):
        assert read([Message(b"s", b"", headers, b"x")], "s") == [NO_WISHES]
    world, partition = ready()
    world.publish(partition, envelope, headers=b"NATS/1.0\r\nLiftlog-Key")
    assert world.run_until(lambda: world.committed(partition, 4))
    assert world.values(1, partition)[-1] == envelope


def test_defect_5_a_follower_never_holds_a_hw_beyond_its_own_log() -> None:
    """R8: readers that begin at such a HW found no segment."""
    world, partition = ready()
    follower = others(world, partition)[0]
    replica = world.replica(follower, partition)
    assert replica.following is not None
    reply = FetchReply(
        partition,
        replica.epoch,
        world.nodes[follower].incarnation,
        replica.following.request,
        FETCH_OK,
        900,
        0,
        900,
        0,
        0,
        [],
    )
    world.step(follower, Received(world.leader(partition), reply))
    assert replica.hw == replica.leo == 3
    read = world.answer(follower, ReadRequest(partition, 3))
    assert isinstance(read, ReadReply), "the place of the HW can be read from: there is nothing yet"
    assert read.batches == []


def test_defect_6_a_replica_joins_by_what_it_has_not_by_the_time_that_has_passed() -> None:
    """R2, R10: and the leader counts it from the moment that it proposes the addition."""
    world, partition = ready()
    joiner = others(world, partition)[0]
    leader = world.replica(world.leader(partition), partition)
    world.hold_storage(joiner)
    world.publish(partition, b"not durable at the joiner")
    assert world.run_until(lambda: joiner not in leader.isr, 20)
    assert world.run_until(lambda: leader.hw == 4, 20)
    world.run(10.0)
    assert joiner not in leader.isr, "it fetches all the time, and has nothing on its disk"
    proposals: list[ChangeIsr] = []
    want = world.nodes[world.leader(partition)].proposals.want

    def record(command: Any) -> Any:
        if isinstance(command, ChangeIsr):
            proposals.append(command)
            assert leader.leading is not None
            assert leader.leading.followers[joiner].durable >= leader.hw
        return want(command)

    leader.ctx.propose_by(record)
    world.release_storage(joiner)
    assert world.run_until(lambda: joiner in leader.isr, 20)
    assert proposals
    assert all(command == proposals[0] and command.joiner == joiner for command in proposals)


def test_defect_7_a_follower_that_gets_no_answer_about_epochs_cuts_nothing() -> None:
    """R6: Liftbridge fell back to cutting at the HW after three failed requests."""
    world, partition = ready()
    follower = others(world, partition)[0]
    replica = world.replica(follower, partition)
    assert world.run_until(lambda: replica.hw == 3)
    replica.log.hw = 1  # What it knew at its last checkpoint.
    world.drop = lambda sender, to, message: isinstance(message, FetchReply) and to == follower
    first = world.leader(partition)
    world.kill(first)
    world.run(15.0)
    assert (replica.leo, replica.durable_leo) == (3, 3)
    assert world.values(follower, partition) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_defect_8_reconciliation_takes_as_many_rounds_as_there_are_diverged_epochs(rounds: int) -> None:
    """R6: one lookup, answered without the epoch that was found, is not enough (KIP-279)."""
    world, partition = ready()
    follower = others(world, partition)[0]
    leader = world.replica(world.leader(partition), partition)
    world.kill(follower)
    assert world.run_until(lambda: follower not in leader.isr)
    log = world.disks[follower].logs[partition]
    own = leader.epochs[-1].epoch
    for number in range(rounds):
        log.batches.append(
            encode_messages(partition, 3 + number, own + number, 1, [Message(b"orders", b"", b"", b"x")])
        )
    log.durable = len(log.batches)
    answers: list[FetchReply] = []

    def record(sender: int, to: int, message: Any) -> bool:
        if to == follower and isinstance(message, FetchReply) and message.status == FETCH_DIVERGED:
            answers.append(message)
        return False

    world.drop = record
    # The present leader has a record of a later epoch at the same offset.
    leader.history.note(own + rounds, 3)
    leader.history.truncate(3)
    world.restart(follower)
    assert world.run_until(lambda: follower in world.replica(world.leader(partition), partition).isr, 40)
    assert world.values(follower, partition) == [b"0", b"1", b"2"]
    assert answers
    assert all(answer.end_epoch <= own for answer in answers), "the answer names an epoch that the leader has"
