"""Of a partition the newest so many messages stay, and none that is too old (R25)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.metadata import levels
from liftlog.core.replica.removal import frontlimits
from liftlog.messages import (
    AlterStreamRequest,
    DeleteMessageRequest,
    LogRead,
    MessageDeleted,
    Published,
    RetainLog,
    StreamChanges,
)
from liftlog.mutants import Mutants
from liftlog.types import Message, PartitionId
from tests.core.node_harness import WALL_START_MS, World
from tests.core.test_headers import block
from tests.core.test_journal import delete, marks, others, visible
from tests.core.test_subject_limits import entries, journal, message_of_journal, shows
from tests.core.test_upkeep import jobs_of

LARGE = 10**9


def limited(most: int = 3, age_ms: int = 0, **kwargs: Any) -> tuple[World, PartitionId]:
    """A cluster with one stream that keeps so many messages, and none for longer."""
    mutants = kwargs.pop("mutants", Mutants())
    world = World(mutants=mutants)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    limits = {"retention_messages": most, "retention_ms": age_ms}
    partition = world.create(removal=True, **limits, **kwargs)
    assert world.run_until(lambda: partition in world.subscriptions)
    return world, partition


def send(world: World, partition: PartitionId, subjects: str, ago_ms: int = 0) -> int:
    """A message to each, `ago_ms` old; where they will end. A capital rolls up its subject."""
    end = world.replica(world.leader(partition), partition).leo
    node, epoch = world.subscriptions[partition]
    messages = []
    for number, subject in enumerate(subjects, end):
        headers = block("Nats-Rollup: sub") if subject.isupper() else b""
        messages.append(Message(f"orders.{subject.lower()}".encode(), b"", headers, b"%d" % number))
    came_ms = WALL_START_MS + int(world.now * 1000) - ago_ms
    world.post(node, Published(partition, epoch, messages, came_ms))
    return end + len(subjects)


def put(world: World, partition: PartitionId, subjects: str, ago_ms: int = 0) -> None:
    """Until they are committed."""
    end = send(world, partition, subjects, ago_ms)
    assert world.run_until(lambda: world.committed(partition, end))


def front_of(world: World, partition: PartitionId) -> Any:
    return journal(world, partition).roles.front


# -- how many ----------------------------------------------------------------------------------------------


def test_R25_the_newest_so_many_stay_on_all_copies() -> None:
    world, partition = limited()
    put(world, partition, "abc")
    world.run(0.5)
    assert shows(world, partition, 0, 1, 2) and entries(world, partition) == 0
    put(world, partition, "ab")
    assert shows(world, partition, 2, 3, 4)
    put(world, partition, "c")
    assert shows(world, partition, 3, 4, 5)
    assert marks(world, partition)["R25.too-many"] == 2 == entries(world, partition)


@pytest.mark.parametrize("mutant", [False, True])
def test_R25_what_is_deleted_does_not_count(mutant: bool) -> None:
    world, partition = limited(mutants=Mutants(front_counts_deleted=mutant))
    put(world, partition, "abc")
    assert isinstance(delete(world, partition, 1), MessageDeleted)
    put(world, partition, "d")
    world.run(0.5)
    assert shows(world, partition, 0, 2, 3) != mutant


def test_R25_a_limit_that_is_lowered_holds_for_what_is_there_and_nothing_comes_back() -> None:
    world, partition = limited(0)
    put(world, partition, "abcde")
    world.run(0.5)
    assert shows(world, partition, 0, 1, 2, 3, 4) and entries(world, partition) == 0
    for most, there in ((2, (3, 4)), (4, (3, 4))):
        world.answer(1, AlterStreamRequest("orders", StreamChanges(retention_messages=most)))
        world.run(0.5)
        assert shows(world, partition, *there)


def test_R25_a_new_leader_finds_what_the_one_before_has_not_written() -> None:
    world, partition = limited()
    old = world.leader(partition)
    world.drop = lambda sender, to, message: message_of_journal(message, partition)
    put(world, partition, "abcde")
    world.run(0.3)
    world.kill(old)
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: world.leader(partition) not in (0, old))
    assert shows(world, partition, 2, 3, 4)


@pytest.mark.parametrize("mutant", [False, True])
def test_R25_what_is_not_committed_pushes_nothing_out(mutant: bool) -> None:
    world, partition = limited(mutants=Mutants(front_counts_uncommitted=mutant))
    put(world, partition, "abc")
    for node in others(world, partition):
        world.hold_storage(node)
    send(world, partition, "d")
    world.run(0.4)
    assert (entries(world, partition) > 0) == mutant


@pytest.mark.parametrize("mutant", [False, True])
def test_R25_what_is_on_its_way_to_be_gone_does_not_count(mutant: bool) -> None:
    world, partition = limited(mutants=Mutants(without="R25.on-its-way" if mutant else ""))
    put(world, partition, "abc")
    world.drop = lambda sender, to, message: message_of_journal(message, partition)
    world.ask(world.leader(partition), DeleteMessageRequest(partition, 1))
    put(world, partition, "d")
    world.run(0.4)
    assert (entries(world, partition) > 1) == mutant
    world.drop = lambda sender, to, message: False
    world.run(0.5)
    assert shows(world, partition, 0, 2, 3) != mutant
    assert mutant or marks(world, partition)["R25.on-its-way"] > 0


@pytest.mark.parametrize("mutant", [False, True])
@pytest.mark.parametrize("how", ["limit", "roll-up"])
def test_R25_what_others_are_to_take_does_not_count(how: str, mutant: bool) -> None:
    """A bucket of three keys, one of which is written twice."""
    other = {"max_messages_per_subject": 1} if how == "limit" else {"allow_rollup": True}
    world, partition = limited(mutants=Mutants(without="R25.others-first" if mutant else ""), **other)
    put(world, partition, "abc")
    world.run(0.5)
    roles = journal(world, partition).roles
    taker = roles.limits if how == "limit" else roles.roll_ups
    taker._pause._until = LARGE
    put(world, partition, "B" if how == "roll-up" else "b")
    world.run(0.3)
    taker._pause._until = 0
    world.run(0.5)
    assert shows(world, partition, 0, 2, 3) != mutant
    assert mutant or marks(world, partition)["R25.others-first"] > 0
    put(world, partition, "d")
    assert mutant or shows(world, partition, 2, 3, 4)


def test_R25_a_stream_that_is_read_only_lets_nothing_go() -> None:
    world, partition = limited(0)
    put(world, partition, "abcde")
    world.answer(1, AlterStreamRequest("orders", StreamChanges(read_only=True, retention_messages=1)))
    world.run(0.5)
    assert shows(world, partition, 0, 1, 2, 3, 4)


def test_R25_more_than_an_entry_has_room_for_goes_entry_by_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontlimits, "RUNS_MAX", 1)
    world, partition = limited(0)
    put(world, partition, "abcdefg")
    for offset in (1, 3):
        delete(world, partition, offset)
    world.answer(1, AlterStreamRequest("orders", StreamChanges(retention_messages=1)))
    assert shows(world, partition, 6)
    assert marks(world, partition)["R25.too-many"] == 3


# -- how old -----------------------------------------------------------------------------------------------


def test_R25_what_is_too_old_goes_and_nothing_else() -> None:
    world, partition = limited(0, 2000)
    put(world, partition, "ab", ago_ms=1000)
    put(world, partition, "c")
    assert shows(world, partition, 0, 1, 2) and entries(world, partition) == 0
    world.run(1.1)
    assert shows(world, partition, 2)
    world.run(2.0)
    assert shows(world, partition)
    assert marks(world, partition)["R25.too-old"] == 2


@pytest.mark.parametrize("mutant", [False, True])
def test_R25_what_lies_behind_a_young_message_waits_for_it(mutant: bool) -> None:
    """The clock of the leader that took the second one was slow."""
    world, partition = limited(0, 4000, mutants=Mutants(front_takes_to_last_old=mutant))
    put(world, partition, "a")
    put(world, partition, "b", ago_ms=5000)
    put(world, partition, "c")
    world.run(0.5)
    assert shows(world, partition, 0, 1, 2) != mutant
    world.run(4.0)
    assert mutant or shows(world, partition)


def test_R25_the_front_is_read_from_the_disk_when_it_is_not_in_memory() -> None:
    world, partition = limited(0, 2000)
    put(world, partition, "abc", ago_ms=1000)
    put(world, partition, "d")
    front = front_of(world, partition)
    front._data.cache.clear()
    front._oldest = (0, 0)
    assert world.run_until(lambda: bool(front.request))
    world.run(1.5)
    assert shows(world, partition, 3)


def test_R25_a_front_that_cannot_be_read_is_tried_again_after_a_while() -> None:
    world, partition = limited(0, 500)
    put(world, partition, "ab")
    front = front_of(world, partition)
    front.on_read(LogRead(partition, 0, [], error="no such thing"))
    world.run(2.0)
    assert shows(world, partition, 0, 1)
    world.run(10.0)
    assert shows(world, partition) and marks(world, partition)["R25.paused"] == 1


def test_R25_both_limits_hold_at_once() -> None:
    world, partition = limited(2, 2000)
    put(world, partition, "a", ago_ms=1500)
    put(world, partition, "bcd")
    assert shows(world, partition, 2, 3)
    world.run(2.5)
    assert shows(world, partition)


# -- bytes -------------------------------------------------------------------------------------------------


def test_R25_retention_takes_the_segments_in_which_all_is_gone() -> None:
    world, partition = limited(2)
    for number in range(6):
        put(world, partition, "abcdef"[number])
    assert shows(world, partition, 4, 5)
    seen = jobs_of(world, RetainLog)
    assert world.run_until(lambda: any(job.gone_below == 4 for job in seen), 60)
    assert all(job.policy.unlimited for job in seen if job.log == partition)
    assert world.run_until(lambda: world.replica(world.leader(partition), partition).log_start == 4)
    assert visible(world, partition, world.leader(partition), offset=4) == {4: b"4", 5: b"5"}


def test_R25_a_stream_without_a_journal_keeps_whole_segments() -> None:
    world = World()
    partition = world.create(retention_messages=1)
    assert world.run_until(lambda: partition in world.subscriptions)
    world.publish(partition, b"a", b"b", b"c")
    assert world.run_until(lambda: world.committed(partition, 3))
    seen = jobs_of(world, RetainLog)
    assert world.run_until(lambda: bool(seen), 60)
    assert seen[0].policy.retention_messages == 1 and seen[0].gone_below == 0
    assert len(visible_plain(world, partition)) == 3


def visible_plain(world: World, partition: PartitionId) -> list[bytes]:
    return world.values(world.leader(partition), partition)


