"""What the consumer of a work queue is done with is gone (R26)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem
from liftlog.core.metadata.limits import limits_problem
from liftlog.core.replica.removal.entries import RemovedRuns, decode_entry, encode_removed
from liftlog.messages import (
    ConsumerConfig,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DeleteMessageRequest,
    DoneReply,
    ErrorReply,
    StreamChanges,
)
from liftlog.mutants import Mutants
from liftlog.types import OffsetRange, PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_consumers import (
    NO_LOSS,
    asks,
    changed_leader,
    given_to,
    info,
    journal_of,
    made,
    mixed,
    pull,
    settle,
)
from tests.core.test_journal import marks, visible
from tests.core.test_subject_limits import shows


def queue(count: int = 3, on: bool = True, **kwargs: Any) -> tuple[World, PartitionId]:
    """A cluster with one work queue, in which `count` messages are committed everywhere."""
    world = World(**kwargs)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(removal=True, work_queue=on or UNSET)
    assert world.run_until(lambda: partition in world.subscriptions)
    if count:
        world.publish(partition, *(b"%d" % number for number in range(count)))
        assert world.run_until(lambda: world.committed(partition, count))
    return world, partition


# -- what goes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["ack", "term"])
def test_R26_what_is_done_with_is_gone_on_all_copies_in_any_order(how: str) -> None:
    world, partition = queue(4)
    number = made(world, partition)
    pull(world, partition, number)
    assert shows(world, partition, 0, 1, 2, 3), "what is delivered is there"
    settle(world, partition, number, how, 2)
    assert shows(world, partition, 0, 1, 3)
    settle(world, partition, number, how, 0, 3)
    assert shows(world, partition, 1)
    assert marks(world, partition)["R26.taken"] == 2
    told = info(world, partition)
    assert (told.position, told.floor, told.ack_pending, told.num_pending) == (4, 1, 1, 0)


def test_R26_an_ack_and_what_goes_by_it_are_one_batch_and_it_is_answered_for_both() -> None:
    world, partition = queue()
    number = made(world, partition)
    pull(world, partition, number)
    before = journal_of(world, partition).leo
    reply = settle(world, partition, number, "ack", 1, 2)
    log = journal_of(world, partition).log
    assert [(batch.base_offset, batch.end_offset) for batch in log.cached(before, log.hw, 1000)] == [
        (before, before + 2)
    ]
    assert reply.journal == before + 2
    again = settle(world, partition, number, "ack", 1)
    assert again.journal >= before + 2 and journal_of(world, partition).leo == before + 2
    shown = visible(world, partition, world.leader(partition), seen=reply.journal)
    assert shown == {0: b"0"}


def test_R26_elsewhere_what_is_acked_stays() -> None:
    world, partition = queue(on=False)
    number = made(world, partition)
    pull(world, partition, number)
    settle(world, partition, number, "ack", 0, 1, 2)
    assert shows(world, partition, 0, 1, 2)
    assert "R26.taken" not in marks(world, partition)


def test_R26_who_is_not_done_takes_nothing_and_the_next_consumer_is_given_it() -> None:
    """Not acked yet, put off, and delivered as often as it may be."""
    world, partition = queue()
    number = made(world, partition, ConsumerConfig(ack_wait_ms=500, max_deliver=1))
    pull(world, partition, number)
    settle(world, partition, number, "nak", 0)
    settle(world, partition, number, "progress", 1)
    settle(world, partition, number, "ack", 2)
    assert world.run_until(lambda: info(world, partition).ack_pending == 0)
    assert marks(world, partition)["K6.limit"] >= 1
    assert shows(world, partition, 0, 1)
    assert pull(world, partition, number).runs == [], "it was delivered as often as it may be"
    assert isinstance(asks(world, partition, DeleteConsumerRequest(partition, "c")), DoneReply)
    assert shows(world, partition, 0, 1)
    assert sorted(given_to(pull(world, partition, made(world, partition)))) == [0, 1]


def test_R26_whoever_leads_next_has_all_that_is_acked_gone_also_if_its_consumer_is() -> None:
    world, partition = queue(4)
    number = made(world, partition)
    pull(world, partition, number)
    settle(world, partition, number, "ack", 0, 2)
    assert isinstance(asks(world, partition, DeleteConsumerRequest(partition, "c")), DoneReply)
    changed_leader(world, partition)
    assert shows(world, partition, 1, 3)
    assert sorted(given_to(pull(world, partition, made(world, partition)))) == [1, 3]


def test_R26_what_is_gone_is_of_the_epoch_that_wrote_it() -> None:
    world, partition = queue(2)
    changed_leader(world, partition)
    world.publish(partition, b"2", b"3")
    assert world.run_until(lambda: world.committed(partition, 4))
    number = made(world, partition)
    pull(world, partition, number)
    settle(world, partition, number, "ack", 1, 2)
    assert shows(world, partition, 0, 3)
    assert sorted(journal_of(world, partition).removed.named()) == [(1, 1), (2, 2)]


def test_R26_what_is_deleted_while_it_is_pending_is_written_off_and_named_once() -> None:
    world, partition = queue()
    number = made(world, partition)
    pull(world, partition, number)
    asks(world, partition, DeleteMessageRequest(partition, 1))
    assert world.run_until(lambda: info(world, partition).ack_pending == 2)
    settle(world, partition, number, "ack", 0, 1)
    assert shows(world, partition, 2)


def test_R26_counts_of_what_is_to_come_hold_when_something_is_acked() -> None:
    """Only what others delete may have been to come."""
    world, partition = queue(0)
    mixed(world, partition, "a.x", "b", "a.y", "b", "a.x")
    leader = world.leader(partition)
    world.replica(leader, partition).log.cache.clear()
    number = made(world, partition, ConsumerConfig(filter="a.*"))
    assert pull(world, partition, number, 1).to_come == 2
    asked = world.nodes[leader].marks["K8.asked"]
    settle(world, partition, number, "ack", 0)
    world.replica(leader, partition).log.cache.clear()
    assert pull(world, partition, number, 1).to_come == 1
    assert (info(world, partition).num_pending, world.nodes[leader].marks["K8.asked"]) == (1, asked)


# -- the front ---------------------------------------------------------------------------------------------


def test_R26_the_front_of_the_log_is_freed_up_to_the_first_message_that_is_left() -> None:
    world, partition = queue(5, retention_check_ms=500)
    number = made(world, partition, ConsumerConfig(ack_wait_ms=60_000, max_deliver=1))
    pull(world, partition, number)
    settle(world, partition, number, "ack", 1, 3)
    world.run(2)
    assert world.replica(world.leader(partition), partition).log_start == 0
    settle(world, partition, number, "ack", 0)
    starts = lambda: {world.replica(node, partition).log_start for node in world.nodes}  # noqa: E731
    assert world.run_until(lambda: starts() == {2})
    world.run(2)
    assert starts() == {2} and marks(world, partition)["R26.freed"] >= 1
    settle(world, partition, number, "ack", 2, 4)
    assert world.run_until(lambda: starts() == {5})


def test_R26_what_message_ids_still_need_is_not_freed() -> None:
    world, partition = queue(3, retention_check_ms=500)
    world.replica(world.leader(partition), partition).log.leading.needs_from(1)
    number = made(world, partition)
    pull(world, partition, number)
    settle(world, partition, number, "ack", 0, 1, 2)
    assert world.run_until(lambda: marks(world, partition).get("R26.needed", 0) > 1)
    assert world.replica(world.leader(partition), partition).log_start == 1


# -- which consumers there may be ----------------------------------------------------------------------------


def filtered(*patterns: str, **more: Any) -> ConsumerConfig:
    return ConsumerConfig(filter=patterns[0] if patterns else "", filters=patterns[1:], **more)


@pytest.mark.parametrize(
    ("there", "asked", "shared"),
    [
        (filtered(), filtered(), True),
        (filtered(), filtered("a.*"), True),
        (filtered("a.*"), filtered(), True),
        (filtered("a.x", "b"), filtered("c", "a.*"), True),
        (filtered("a.x", "b"), filtered("c", "a.y"), False),
    ],
)
def test_R26_no_two_consumers_are_given_the_same(
    there: ConsumerConfig, asked: ConsumerConfig, shared: bool
) -> None:
    world, partition = queue(0)
    number = made(world, partition, there)
    reply = asks(world, partition, CreateConsumerRequest(partition, "d", asked))
    assert isinstance(reply, ErrorReply) == shared
    if shared:
        assert reply.code == "invalid" and "consumer 'c' may be given the same messages" in reply.description
        assert marks(world, partition)["R26.shared"] == 1
    assert made(world, partition, there) == number, "it is that one again"
    assert isinstance(asks(world, partition, DeleteConsumerRequest(partition, "c")), DoneReply)
    made(world, partition, asked, "d")


def test_R26_of_two_that_are_asked_for_at_once_one_is_made() -> None:
    world, partition = queue(0)
    leader = world.leader(partition)
    asked = [world.ask(leader, CreateConsumerRequest(partition, name, NO_LOSS)) for name in "cd"]
    assert world.run_until(lambda: all(one in world.replies for one in asked))
    refused = [isinstance(world.replies[one], ErrorReply) for one in asked]
    assert refused == [False, True]


@pytest.mark.parametrize("deliver", ["new", "last", "last-per-subject"])
def test_R26_a_consumer_begins_with_the_first_message(deliver: str) -> None:
    world, partition = queue(1)
    config = ConsumerConfig(deliver=deliver)
    reply = asks(world, partition, CreateConsumerRequest(partition, "c", config))
    assert (reply.code, reply.retryable) == ("invalid", False)
    assert f"not with {deliver!r}: say deliver 'all'" in reply.description


# -- the option --------------------------------------------------------------------------------------------


def test_which_streams_can_be_work_queues() -> None:
    right = StreamConfig("s", "s", 1, 3, 2, removal=True, work_queue=True)
    assert limits_problem(right) == "" and right.is_queue
    apart = StreamConfig("s", "s", 1, 3, 2, work_queue=True)
    assert "stream create --removal --work-queue" in limits_problem(apart)
    limited = StreamConfig("s", "s", 1, 3, 2, removal=True, work_queue=True, max_messages_per_subject=3)
    assert "exclude each other" in limits_problem(limited)
    assert "work_queue and sealed" in alteration_problem(right, StreamChanges(sealed=True))
    assert "work_queue" not in StreamChanges.__struct_fields__, "it is for ever"
    assert alteration_problem(right, StreamChanges(read_only=True)) == ""


def test_an_entry_says_that_consumers_are_done_with_what_it_names() -> None:
    runs = (OffsetRange(3, 5), OffsetRange(9, 10))
    assert decode_entry(encode_removed(4, runs, done_with=True)) == RemovedRuns(4, runs, True)
    assert decode_entry(encode_removed(4, runs)) == RemovedRuns(4, runs, False)


# -- planted bugs --------------------------------------------------------------------------------------------


def test_planted_what_is_delivered_goes() -> None:
    world, partition = queue(mutants=Mutants(queue_takes_at_delivery=True))
    pull(world, partition, made(world, partition), 2)
    assert shows(world, partition, 2)


def test_planted_what_is_given_up_goes() -> None:
    world, partition = queue(mutants=Mutants(queue_takes_given_up=True))
    number = made(world, partition, ConsumerConfig(ack_wait_ms=500, max_deliver=1))
    pull(world, partition, number, 2)
    assert shows(world, partition, 2)


def test_planted_what_is_acked_goes_a_moment_later() -> None:
    world, partition = queue(mutants=Mutants(queue_takes_apart=True))
    number = made(world, partition)
    pull(world, partition, number)
    before = journal_of(world, partition).leo
    assert settle(world, partition, number, "ack", 0).journal == before + 1
    assert shows(world, partition, 1, 2)


def test_planted_the_front_is_freed_up_to_the_floor() -> None:
    world, partition = queue(retention_check_ms=500, mutants=Mutants(queue_freed_to_floor=True))
    number = made(world, partition, ConsumerConfig(ack_wait_ms=500, max_deliver=1))
    pull(world, partition, number)
    log_start = lambda: world.replica(world.leader(partition), partition).log_start  # noqa: E731
    assert world.run_until(lambda: log_start() == 3)
