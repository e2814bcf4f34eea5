"""A message is gone when every consumer that is to be given it is done with it (R27)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem
from liftlog.core.metadata.limits import limits_problem
from liftlog.messages import (
    DELIVER_FROM,
    DELIVER_LASTS,
    DELIVER_NEW,
    AlterStreamRequest,
    ConsumerConfig,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DoneReply,
    StreamChanges,
    SubjectsFolded,
    SubjectsTold,
)
from liftlog.mutants import Mutants
from liftlog.types import PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_consumers import (
    NO_LOSS,
    asks,
    changed_leader,
    info,
    journal_of,
    made,
    mixed,
    pull,
    settle,
)
from tests.core.test_journal import marks
from tests.core.test_subject_limits import shows


def interest(count: int = 3, on: bool = True, **kwargs: Any) -> tuple[World, PartitionId]:
    """A cluster with one stream of that kind, in which `count` messages are committed everywhere."""
    world = World(**kwargs)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(removal=True, interest=on or UNSET)
    assert world.run_until(lambda: partition in world.subscriptions)
    if count:
        more(world, partition, count)
    return world, partition


def more(world: World, partition: PartitionId, count: int) -> None:
    end = world.replica(world.leader(partition), partition).log.hw + count
    world.publish(partition, *(b"%d" % number for number in range(end - count, end)))
    assert world.run_until(lambda: world.committed(partition, end))


def consumers(world: World, partition: PartitionId, *names: str, **more: Any) -> list[int]:
    return [made(world, partition, ConsumerConfig(**more), name) for name in names]


def deleted(world: World, partition: PartitionId, name: str) -> None:
    assert isinstance(asks(world, partition, DeleteConsumerRequest(partition, name)), DoneReply)


def switched(world: World, on: bool) -> None:
    reply = world.answer(1, AlterStreamRequest("orders", StreamChanges(interest=on)))
    assert isinstance(reply, DoneReply)


def stays(world: World, partition: PartitionId, *offsets: int) -> None:
    """These are there, and go on to be."""
    world.run(2)
    assert shows(world, partition, *offsets)


# -- what goes ---------------------------------------------------------------------------------------------


def test_R27_what_nobody_wants_goes_at_once() -> None:
    world, partition = interest()
    assert shows(world, partition)
    assert marks(world, partition)["R27.unwanted"] >= 1
    more(world, partition, 2)
    assert shows(world, partition)


@pytest.mark.parametrize("how", ["ack", "term"])
def test_R27_a_message_goes_when_all_consumers_are_done(how: str) -> None:
    world, partition = interest(0)
    one, other = consumers(world, partition, "c", "d")
    more(world, partition, 3)
    pull(world, partition, one)
    stays(world, partition, 0, 1, 2)
    settle(world, partition, one, how, 0, 2)
    stays(world, partition, 0, 1, 2)
    pull(world, partition, other)
    stays(world, partition, 0, 1, 2)
    settle(world, partition, other, "ack", 2, 1)
    assert shows(world, partition, 0, 1)
    settle(world, partition, one, "ack", 1)
    assert shows(world, partition, 0)
    settle(world, partition, other, how, 0)
    assert shows(world, partition)


def test_R27_elsewhere_what_nobody_wants_stays() -> None:
    world, partition = interest(on=False)
    stays(world, partition, 0, 1, 2)
    assert "R27.unwanted" not in marks(world, partition)


def test_R27_what_is_put_off_or_in_work_stays_and_what_was_given_up_goes() -> None:
    world, partition = interest(0)
    [number] = consumers(world, partition, "c", ack_wait_ms=4000, max_deliver=1)
    more(world, partition, 3)
    pull(world, partition, number)
    settle(world, partition, number, "progress", 1)
    settle(world, partition, number, "ack", 2)
    assert shows(world, partition, 0, 1)
    assert world.run_until(lambda: info(world, partition).ack_pending == 0)
    assert shows(world, partition)


def test_R27_a_dead_letter_holds_its_message_until_it_is_stored() -> None:
    world, partition = interest(0)
    [number] = consumers(world, partition, "c", ack_wait_ms=500, max_deliver=1, dead_letter="dead.x")
    more(world, partition, 1)
    pull(world, partition, number)
    assert world.run_until(lambda: info(world, partition).dead == 1)
    stays(world, partition, 0)


def test_R27_the_deletion_of_a_consumer_lets_go_what_it_alone_wanted() -> None:
    world, partition = interest(0)
    one, _ = consumers(world, partition, "c", "d")
    more(world, partition, 3)
    pull(world, partition, one)
    settle(world, partition, one, "ack", 0, 1)
    deleted(world, partition, "d")
    assert shows(world, partition, 2)
    deleted(world, partition, "c")
    assert shows(world, partition)


def test_R27_an_inactive_consumer_holds_nothing_any_more() -> None:
    world, partition = interest(0)
    consumers(world, partition, "c", inactive_ms=1500)
    more(world, partition, 2)
    assert shows(world, partition, 0, 1)
    assert shows(world, partition)


# -- filters and beginnings ----------------------------------------------------------------------------------


def test_R27_what_no_filter_matches_goes_at_once_and_the_rest_stays() -> None:
    world, partition = interest(0)
    first = made(world, partition, ConsumerConfig(filter="a.*"), "c")
    made(world, partition, ConsumerConfig(filter="b", filters=("a.y",)), "d")
    mixed(world, partition, "a.x", "b", "c", "a.y", "c")
    assert shows(world, partition, 0, 1, 3)
    assert marks(world, partition)["R27.asked"] >= 1
    pull(world, partition, first)
    settle(world, partition, first, "ack", 0, 3)
    assert shows(world, partition, 1, 3)
    deleted(world, partition, "d")
    assert shows(world, partition)


def test_R27_who_has_come_far_does_not_wait_for_one_whose_filter_matches_nothing() -> None:
    world, partition = interest(0)
    made(world, partition, ConsumerConfig(filter="a.*"), "c")
    fast = made(world, partition, ConsumerConfig(filter="b"), "d")
    mixed(world, partition, "b", "b", "b")
    pull(world, partition, fast)
    settle(world, partition, fast, "ack", 0, 1, 2)
    assert shows(world, partition)
    assert (info(world, partition, "c").position, info(world, partition, "d").position) == (0, 3)


@pytest.mark.parametrize(
    ("config", "left"),
    [
        (ConsumerConfig(deliver=DELIVER_NEW), []),
        (ConsumerConfig(deliver=DELIVER_FROM, offset=2), [2, 3]),
        (ConsumerConfig(deliver=DELIVER_LASTS), [1, 3]),
        (ConsumerConfig(deliver=DELIVER_LASTS, filter="a"), [1]),
    ],
)
def test_R27_what_lies_before_its_beginning_a_consumer_does_not_want(
    config: ConsumerConfig, left: list[int]
) -> None:
    world, partition = interest(0)
    made(world, partition, name="holds")
    mixed(world, partition, "a", "a", "b", "b")
    made(world, partition, config)
    deleted(world, partition, "holds")
    assert shows(world, partition, *left)


def test_R27_where_the_index_cannot_be_made_nothing_goes_that_may_be_wanted() -> None:
    world, partition = interest(0)
    made(world, partition, ConsumerConfig(filter="a"))
    log = world.disks[world.leader(partition)].logs[partition]
    log.fold_slice = 0
    mixed(world, partition, "b", "c")
    world.run(0.3)
    leads = journal_of(world, partition).roles.consumers.interest
    leads.folded(SubjectsFolded(partition, 0, False, error="no room", full=True))
    log.fold_slice = 100
    world.run(9)
    assert shows(world, partition, 0, 1) and marks(world, partition)["R27.paused"] == 1
    assert shows(world, partition)


# -- consumers that are made meanwhile -----------------------------------------------------------------------


def test_R27_what_a_consumer_wants_that_is_just_being_made_stays() -> None:
    world, partition = interest(0)
    made(world, partition, name="holds")
    more(world, partition, 2)
    leads = journal_of(world, partition).roles.consumers
    world.ask(world.leader(partition), CreateConsumerRequest(partition, "c", NO_LOSS))
    assert world.run_until(lambda: leads._making.is_making)
    assert not leads.interest.tick(), "nothing is due"
    assert "R27.making" not in marks(world, partition)
    leads.interest.look_again()
    assert not leads.interest.tick()
    assert marks(world, partition)["R27.making"] == 1
    deleted(world, partition, "holds")
    stays(world, partition, 0, 1)


def test_R27_what_storage_said_before_a_consumer_was_made_is_asked_again() -> None:
    world, partition = interest(0)
    made(world, partition, ConsumerConfig(filter="a"), "holds")
    mixed(world, partition, "b", "b")
    leads = journal_of(world, partition).roles.consumers.interest
    leads.look_again()
    assert world.run_until(lambda: leads.asked > 0)
    number, leads.asked = leads.asked, -1
    made(world, partition)
    leads.asked = number
    answer = SubjectsTold(
        partition, number, folded=2, first=0, offset=-1, subjects=[], messages=0, place=-1, index=7
    )
    assert not leads.told(answer), "nobody wanted them then"
    assert marks(world, partition)["R27.meanwhile"] == 1
    stays(world, partition, 0, 1)


# -- leaders -----------------------------------------------------------------------------------------------


def test_R27_a_new_leader_finds_what_the_one_before_had_not_said() -> None:
    world, partition = interest(0)
    one, other = consumers(world, partition, "c", "d")
    more(world, partition, 3)
    pull(world, partition, one)
    settle(world, partition, one, "ack", 0, 1)
    pull(world, partition, other)
    settle(world, partition, other, "ack", 1, 2)
    changed_leader(world, partition)
    assert shows(world, partition, 0, 2)
    deleted(world, partition, "d")
    assert shows(world, partition, 2)


def test_R27_the_front_of_the_log_is_freed() -> None:
    world, partition = interest(0, retention_check_ms=500)
    [number] = consumers(world, partition, "c")
    more(world, partition, 4)
    pull(world, partition, number)
    settle(world, partition, number, "ack", 0, 1, 3)
    starts = lambda: {world.replica(node, partition).log_start for node in world.nodes}  # noqa: E731
    assert world.run_until(lambda: starts() == {2})
    settle(world, partition, number, "ack", 2)
    assert world.run_until(lambda: starts() == {4})


def test_R27_it_is_switched_on_and_off() -> None:
    world, partition = interest(on=False)
    [number] = consumers(world, partition, "c")
    pull(world, partition, number)
    settle(world, partition, number, "ack", 1)
    switched(world, True)
    assert shows(world, partition, 0, 2)
    switched(world, False)
    settle(world, partition, number, "ack", 0)
    stays(world, partition, 0, 2)


# -- the option --------------------------------------------------------------------------------------------


def test_which_streams_can_go_by_interest() -> None:
    right = StreamConfig("s", "s", 1, 3, 2, removal=True, interest=True)
    assert limits_problem(right) == "" and right.goes_when_done and not right.is_queue
    apart = StreamConfig("s", "s", 1, 3, 2, interest=True)
    assert "stream create --removal --interest" in limits_problem(apart)
    both = StreamConfig("s", "s", 1, 3, 2, removal=True, interest=True, work_queue=True)
    assert "interest and work_queue exclude each other" in limits_problem(both)
    limited = StreamConfig("s", "s", 1, 3, 2, removal=True, interest=True, max_messages_per_subject=3)
    assert "interest and max_messages_per_subject exclude" in limits_problem(limited)
    assert "interest and sealed" in alteration_problem(right, StreamChanges(sealed=True))
    assert alteration_problem(right, StreamChanges(interest=False)) == ""
    queue = StreamConfig("s", "s", 1, 3, 2, removal=True, work_queue=True)
    assert "exclude each other" in alteration_problem(queue, StreamChanges(interest=True))


# -- planted bugs --------------------------------------------------------------------------------------------


def test_planted_what_is_delivered_goes() -> None:
    world, partition = interest(0, mutants=Mutants(interest_takes_pending=True))
    [number] = consumers(world, partition, "c")
    more(world, partition, 3)
    pull(world, partition, number, 2)
    stays(world, partition, 0, 1, 2)
    settle(world, partition, number, "ack", 0)
    consumers(world, partition, "d")
    deleted(world, partition, "d")
    assert shows(world, partition, 2)


def test_planted_what_one_is_done_with_goes() -> None:
    world, partition = interest(0, mutants=Mutants(interest_of_one=True))
    one, _ = consumers(world, partition, "c", "d")
    more(world, partition, 2)
    pull(world, partition, one)
    settle(world, partition, one, "ack", 0)
    assert shows(world, partition, 1)


def test_planted_what_a_filter_matches_goes_before_it_is_given() -> None:
    world, partition = interest(0, mutants=Mutants(interest_forgets_filters=True))
    made(world, partition, ConsumerConfig(filter="a"))
    mixed(world, partition, "a", "b")
    assert shows(world, partition)


def test_planted_a_new_leader_looks_at_what_comes() -> None:
    world, partition = interest(on=False, mutants=Mutants(interest_not_inherited=True))
    switched(world, True)
    stays(world, partition, 0, 1, 2)
