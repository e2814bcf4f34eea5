"""A consumer that is reset: another one takes its place in one entry (K1)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.consumers.entries import ConsumerDeleted, Created, decode_entry, is_consumers
from liftlog.format import decode_records
from liftlog.messages import (
    DELIVER_LASTS,
    DELIVER_NEW,
    TO_FLOOR,
    AlterConsumerRequest,
    ConsumerConfig,
    ConsumersReply,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DeleteMessageRequest,
    PullRequest,
    ResetConsumerRequest,
    SettleRequest,
)
from liftlog.mutants import Mutants
from liftlog.types import PartitionId
from tests.core.node_harness import World
from tests.core.test_consumers import (
    NO_LOSS,
    asks,
    changed_leader,
    folded,
    given_to,
    info,
    journal_of,
    made,
    pull,
    ready,
    settle,
)
from tests.core.test_interest import interest
from tests.core.test_journal import visible
from tests.core.test_work_queue import queue


def reset(world: World, partition: PartitionId, offset: int) -> Any:
    reply = asks(world, partition, ResetConsumerRequest(partition, "c", offset))
    return reply.consumers[0] if isinstance(reply, ConsumersReply) else reply


def entries(world: World, partition: PartitionId) -> list[object]:
    """What the leader's journal says of consumers."""
    log = journal_of(world, partition).log
    values = [r.value or b"" for b in log.cached(0, log.leo, 1 << 20) for r in decode_records(b)]
    return [decode_entry(value) for value in values if is_consumers(value)]


@pytest.mark.parametrize(("offset", "start"), [(0, 0), (2, 2), (4, 4), (TO_FLOOR, 1)])
def test_k1_another_consumer_of_its_name_begins_there(offset: int, start: int) -> None:
    world, partition = ready(4)
    number = made(world, partition)
    pull(world, partition, number, 3)
    settle(world, partition, number, "ack", 0, 2)
    told = reset(world, partition, offset)
    assert told.number > number and told.name == "c" and told.config == NO_LOSS
    assert (told.position, told.ack_pending, told.num_pending, told.sequence) == (start, 0, 4 - start, 0)
    reply = pull(world, partition, told.number)
    assert given_to(reply) == {place: (b"%d" % place, 1) for place in range(start, 4)}
    assert reply.sequence == (1 if start < 4 else 0)
    (created,) = [each for each in entries(world, partition) if isinstance(each, Created) and each.instead]
    assert created.instead == number and created.start == told.position
    world.run(2)
    states = [journal_of(world, partition, node).removed.consumers.snapshot() for node in world.nodes]
    assert states[0] == states[1] == states[2] and [one[0] for one in states[0]] == [told.number]


def test_k1_what_the_former_one_is_told_counts_for_nothing() -> None:
    world, partition = ready()
    number = made(world, partition)
    pull(world, partition, number)
    leader = world.leader(partition)
    waits = world.ask(leader, PullRequest(partition, number, wait_ms=30_000))
    told = reset(world, partition, 0)
    assert world.replies[waits].code == "not-found" and "or reset" in world.replies[waits].description
    assert settle(world, partition, number, "ack", 0, 1, 2).code == "not-found"
    assert len(given_to(pull(world, partition, told.number))) == 3


def test_k1_a_new_leader_knows_the_one_that_took_its_place() -> None:
    world, partition = ready()
    number = made(world, partition)
    pull(world, partition, number)
    told = reset(world, partition, 1)
    changed_leader(world, partition)
    assert info(world, partition).number == told.number
    assert set(given_to(pull(world, partition, told.number))) == {1, 2}
    assert pull(world, partition, number).code == "not-found"


@pytest.mark.parametrize("mutant", ["", "consumer_reset_answered_at_append"])
def test_k1_nobody_is_told_of_a_reset_that_is_not_committed(mutant: str) -> None:
    world, partition = ready(mutants=Mutants(**{mutant: True}) if mutant else Mutants())
    number = made(world, partition)
    leader = world.leader(partition)
    others = [node for node in world.nodes if node != leader]
    for node in others:
        world.hold_storage(node)
    asked = world.ask(leader, ResetConsumerRequest(partition, "c", 0))
    world.run(0.2)
    assert (asked in world.replies) == bool(mutant)
    if mutant:
        assert world.replies[asked].consumers[0].number == number, "of the former one"
        return
    for request in (
        *(PullRequest(partition, number), SettleRequest(partition, number, "ack", [(0, 1)])),
        *(CreateConsumerRequest(partition, "c", NO_LOSS), DeleteConsumerRequest(partition, "c")),
        ResetConsumerRequest(partition, "c", 1),
        AlterConsumerRequest(partition, number, NO_LOSS, ConsumerConfig(ack_wait_ms=50_000)),
    ):
        reply = world.answer(leader, request)
        assert (reply.code, reply.retryable) == ("not-ready", True), request
    for node in others:
        world.release_storage(node)
    assert world.run_until(lambda: asked in world.replies)
    assert world.replies[asked].consumers[0].number > number


def test_k1_one_that_is_being_altered_is_not_reset() -> None:
    world, partition = ready()
    number = made(world, partition)
    leader = world.leader(partition)
    for node in [node for node in world.nodes if node != leader]:
        world.hold_storage(node)
    world.ask(leader, AlterConsumerRequest(partition, number, NO_LOSS, ConsumerConfig(ack_wait_ms=50_000)))
    world.run(0.1)
    reply = world.answer(leader, ResetConsumerRequest(partition, "c", 0))
    assert (reply.code, reply.retryable) == ("not-ready", True)


@pytest.mark.parametrize("apart", [False, True])
def test_k1_that_it_ends_and_that_another_one_begins_is_one_entry(apart: bool) -> None:
    world, partition = ready(mutants=Mutants(consumer_reset_in_two_entries=apart))
    made(world, partition)
    reset(world, partition, 0)
    ended = [one for one in entries(world, partition) if isinstance(one, ConsumerDeleted)]
    assert len(ended) == apart


@pytest.mark.parametrize("past", [False, True])
def test_k1_to_the_floor_is_with_the_first_that_is_not_done(past: bool) -> None:
    world, partition = ready(mutants=Mutants(consumer_reset_to_position=past))
    number = made(world, partition)
    pull(world, partition, number)
    settle(world, partition, number, "ack", 0, 2)
    assert reset(world, partition, TO_FLOOR).position == (3 if past else 1)


def test_k1_what_is_gone_is_not_begun_with() -> None:
    world, partition = ready()
    number = made(world, partition)
    pull(world, partition, number)
    asks(world, partition, DeleteMessageRequest(partition, 1))
    told = reset(world, partition, 0)
    assert told.num_pending == 2
    assert set(given_to(pull(world, partition, told.number))) == {0, 2}


def test_k1_it_is_not_reset_beyond_what_is_committed_and_others_are_not_there() -> None:
    world, partition = ready()
    number = made(world, partition)
    reply = reset(world, partition, 4)
    assert (reply.code, reply.retryable) == ("offset-out-of-range", False) and "below 3" in reply.description
    assert info(world, partition).number == number
    reply = asks(world, partition, ResetConsumerRequest(partition, "d", 0))
    assert reply.code == "not-found" and "liftlog consumer ls" in reply.description


def test_k1_one_that_begins_with_what_is_new_is_reset_to_what_is_old() -> None:
    world, partition = ready()
    number = made(world, partition, ConsumerConfig(deliver=DELIVER_NEW))
    assert pull(world, partition, number).runs == []
    told = reset(world, partition, 1)
    assert told.config.deliver == DELIVER_NEW
    assert set(given_to(pull(world, partition, told.number))) == {1, 2}


def test_k1_one_that_is_still_given_last_messages_is_reset_to_an_offset_alone() -> None:
    world, partition = ready()
    number = made(world, partition, ConsumerConfig(deliver=DELIVER_LASTS))
    reply = reset(world, partition, TO_FLOOR)
    assert reply.code == "invalid" and "name an offset" in reply.description
    told = reset(world, partition, 0)
    assert len(given_to(pull(world, partition, told.number))) == 3
    assert told.number > number
    assert reset(world, partition, TO_FLOOR).position == 0


def test_r26_of_a_work_queue_nothing_is_passed_by() -> None:
    world, partition = queue(4)
    number = made(world, partition)
    pull(world, partition, number)
    settle(world, partition, number, "ack", 0, 2)
    reply = reset(world, partition, 3)
    assert reply.code == "invalid" and "offset 1" in reply.description and "to its floor" in reply.description
    told = reset(world, partition, TO_FLOOR)
    assert set(given_to(pull(world, partition, told.number))) == {1, 3}
    settle(world, partition, told.number, "ack", 1, 3)
    assert world.run_until(lambda: not visible(world, partition, world.leader(partition)))


def test_r27_who_is_reset_forward_wants_no_more_what_it_passes() -> None:
    world, partition = interest(0)
    made(world, partition)
    world.publish(partition, b"a", b"b", b"c")
    assert world.run_until(lambda: world.committed(partition, 3))
    world.run(1)
    assert set(visible(world, partition, world.leader(partition))) == {0, 1, 2}
    told = reset(world, partition, 2)
    assert world.run_until(lambda: set(visible(world, partition, world.leader(partition))) == {2})
    assert set(given_to(pull(world, partition, told.number))) == {2}


def test_k2_who_begins_behind_the_creation_learns_of_it_by_the_reset() -> None:
    """The entry says all of the new one: what a journal begins with may say nothing of the former."""
    begun = folded([Created("a", NO_LOSS, 7, [], instead=3)], begin=9)
    (one,) = begun.by_number.values()
    assert (one.number, one.position, one.name) == (10, 7, "a")
