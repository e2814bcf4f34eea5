"""A consumer's filters are altered (K1, K6, K8, R26, R27)."""

from __future__ import annotations

from typing import Any

import msgspec

from liftlog.messages import AlterConsumerRequest, ConsumerConfig, ConsumersRequest, Published, PullRequest
from liftlog.mutants import Mutants
from liftlog.types import Message, PartitionId
from tests.core.node_harness import World
from tests.core.test_consumers import (
    LASTS,
    asks,
    changed_leader,
    given_to,
    info,
    journal_of,
    made,
    mixed,
    pull,
    ready,
    settle,
)
from tests.core.test_interest import interest
from tests.core.test_subject_limits import shows
from tests.core.test_work_queue import queue

OF_A = ConsumerConfig(ack_wait_ms=1000, filter="a.*")
OF_B = msgspec.structs.replace(OF_A, filter="b")


def alters(world: World, partition: PartitionId, number: int, was: ConsumerConfig, to: ConsumerConfig) -> Any:
    return asks(world, partition, AlterConsumerRequest(partition, number, was, to))


def test_k6_other_filters_hold_from_the_position_on_and_what_was_delivered_comes_again() -> None:
    world, partition = ready(0)
    mixed(world, partition, "a.x", "b", "a.y", "b", "b", "a.x", "b")
    number = made(world, partition, OF_A)
    assert list(given_to(pull(world, partition, number, 2))) == [0, 2]
    settle(world, partition, number, "ack", 0)
    told = alters(world, partition, number, OF_A, OF_B).consumers[0]
    assert (told.config, told.position, told.ack_pending, told.num_pending) == (OF_B, 3, 1, 3)
    assert list(given_to(pull(world, partition, number, 2))) == [3, 4]
    changed_leader(world, partition)
    assert given_to(pull(world, partition, number)) == {6: (b"6", 1)}
    settle(world, partition, number, "ack", 3, 4, 6)
    assert given_to(pull(world, partition, number, wait_ms=5000)) == {2: (b"2", 2)}, "no filter matches it"
    settle(world, partition, number, "ack", 2)
    told = info(world, partition)
    assert (told.position, told.floor, told.ack_pending, told.num_pending) == (7, 7, 0, 0)


def test_k6_what_was_passed_over_is_not_given_by_other_filters_under_any_leader() -> None:
    """How far it was passed over is not written else."""
    world, partition = ready(0)
    mixed(world, partition, "a.x", "b", "b", "b")
    number = made(world, partition, OF_A)
    assert list(given_to(pull(world, partition, number))) == [0]
    assert pull(world, partition, number).runs == []
    known = journal_of(world, partition, world.leader(partition)).removed.consumers
    assert known.by_name["c"].position < 4
    assert alters(world, partition, number, OF_A, OF_B).consumers[0].position == 4
    assert pull(world, partition, number).runs == []
    changed_leader(world, partition)
    assert pull(world, partition, number).runs == []
    assert info(world, partition).num_pending == 0


def test_k6_all_filters_go_and_come() -> None:
    world, partition = ready(0)
    mixed(world, partition, "a.x", "b", "a.y", "c", "b", "a.x", "b")
    number = made(world, partition, OF_A)
    none = msgspec.structs.replace(OF_A, filter="")
    both = msgspec.structs.replace(OF_A, filter="c", filters=("a.x",))
    assert list(given_to(pull(world, partition, number, 1))) == [0]
    assert alters(world, partition, number, OF_A, none).consumers[0].num_pending == 6
    assert list(given_to(pull(world, partition, number, 1))) == [1]
    assert alters(world, partition, number, none, both).consumers[0].num_pending == 2
    assert list(given_to(pull(world, partition, number))) == [3, 5]


def test_k6_a_pull_that_waits_is_given_what_the_other_filters_match() -> None:
    world, partition = ready(0)
    mixed(world, partition, "b")
    config = msgspec.structs.replace(OF_A, deliver="new")
    number = made(world, partition, config)
    leader = world.leader(partition)
    waits = world.ask(leader, PullRequest(partition, number, wait_ms=30_000))
    mixed_more(world, partition, 2, "b")
    world.run(0.3)
    assert waits not in world.replies
    alters(world, partition, number, config, msgspec.structs.replace(config, filter="b"))
    mixed_more(world, partition, 3, "b")
    assert world.run_until(lambda: waits in world.replies)
    assert list(given_to(world.replies[waits])) == [2]


def mixed_more(world: World, partition: PartitionId, end: int, *subjects: str) -> None:
    target = world.subscriptions[partition]
    named = enumerate(subjects, end - len(subjects))
    messages = [Message(each.encode(), b"", b"", b"%d" % offset) for offset, each in named]
    world.post(target[0], Published(partition, target[1], messages, 1_000))
    assert world.run_until(lambda: world.committed(partition, end))


def test_k6_the_last_messages_of_subjects_are_given_as_they_were_named() -> None:
    world, partition = ready(0)
    mixed(world, partition, "a.x", "b", "a.x", "b", "c")
    of_both = msgspec.structs.replace(LASTS, filter="a.*", filters=("b",))
    number = made(world, partition, of_both)
    of_c = msgspec.structs.replace(LASTS, filter="c")
    assert alters(world, partition, number, of_both, of_c).consumers[0].num_pending == 2
    mixed_more(world, partition, 7, "c", "b")
    assert list(given_to(pull(world, partition, number))) == [2, 3, 5]


def test_k8_what_is_to_come_is_counted_by_the_filters_that_hold() -> None:
    """A question that was asked by the others, and is answered later, says nothing."""
    world, partition = ready(0)
    mixed(world, partition, "a.x", "b", "a.y", "b", "b")
    leader = world.leader(partition)
    number = made(world, partition, OF_A)
    world.replica(leader, partition).log.cache.clear()
    assert info(world, partition).num_pending == 2
    assert alters(world, partition, number, OF_A, OF_B).consumers[0].config == OF_B
    assert info(world, partition).num_pending == 3


def test_counted_by_old_filters_is_a_bug() -> None:
    world, partition = ready(0, mutants=Mutants(counted_by_old_filters=True))
    mixed(world, partition, "a.x", "b", "a.y", "b", "b")
    number = made(world, partition, OF_A)
    assert info(world, partition).num_pending == 2
    alters(world, partition, number, OF_A, OF_B)
    assert info(world, partition).num_pending == 2


def _told_when_read_from_disk(mutants: Mutants) -> int:
    """How many messages are said to be to come as soon as other filters hold, of which the disk has told."""
    world, partition = ready(0, mutants=mutants)
    mixed(world, partition, "a.x", "b", "a.y", "b", "b")
    number, leader = made(world, partition, OF_A), world.leader(partition)
    assert info(world, partition).num_pending == 2
    journal = journal_of(world, partition)
    consumer = journal.removed.consumers.by_number[number]
    world.ask(leader, AlterConsumerRequest(partition, number, OF_A, OF_B))
    assert world.run_until(lambda: journal.log.leo > journal.log.hw)
    journal.log.cache.clear()
    assert world.run_until(lambda: consumer.config == OF_B), "the group has it, and the leader has read it"
    told = world.answer(leader, ConsumersRequest(partition, "c")).consumers[0]
    return int(told.num_pending)


def test_k8_who_asks_when_other_filters_were_read_from_disk_is_told_by_them() -> None:
    """Seed 1828: until its next tick a leader counted by those that it had before."""
    assert _told_when_read_from_disk(Mutants()) == 3


def test_folded_unheeded_is_a_bug() -> None:
    assert _told_when_read_from_disk(Mutants(folded_unheeded=True)) == 2


def test_filters_that_no_consumer_can_have_are_refused() -> None:
    world, partition = ready(0)
    number = made(world, partition, OF_A)
    leo = journal_of(world, partition).leo
    for more, text in (
        ({"filter": "a..b"}, "empty token"),
        ({"filters": ("a.x",)}, "match the same subjects"),
    ):
        refused = alters(world, partition, number, OF_A, msgspec.structs.replace(OF_A, **more))
        assert text in refused.description
    assert journal_of(world, partition).leo == leo


def test_r26_in_a_work_queue_no_two_consumers_come_to_be_given_the_same() -> None:
    world, partition = queue(0)
    made(world, partition, OF_A, "one")
    other = msgspec.structs.replace(OF_A, filter="b")
    number = made(world, partition, other, "two")
    refused = alters(world, partition, number, other, msgspec.structs.replace(other, filter=">"))
    assert "consumer 'one' may be given the same messages" in refused.description
    of_c = msgspec.structs.replace(other, filter="c")
    mixed(world, partition, "b")
    assert list(given_to(pull(world, partition, number))) == [0]
    assert "1 messages of consumer 'two' wait" in alters(world, partition, number, other, of_c).description
    settle(world, partition, number, "ack", 0)
    assert alters(world, partition, number, other, of_c).consumers[0].config == of_c


def test_r27_what_a_consumer_wants_no_more_goes_and_what_it_has_stays() -> None:
    world, partition = interest(0)
    number = made(world, partition, OF_A)
    mixed(world, partition, "a.x", "b", "a.y", "a.x")
    assert shows(world, partition, 0, 2, 3)
    assert list(given_to(pull(world, partition, number, 1))) == [0]
    alters(world, partition, number, OF_A, OF_B)
    assert shows(world, partition, 0)
    mixed_more(world, partition, 6, "a.x", "b")
    assert shows(world, partition, 0, 5)
    settle(world, partition, number, "ack", 0)
    assert shows(world, partition, 5)
