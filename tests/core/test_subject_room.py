"""A partition holds so many messages of a subject, and refuses more (C6): by what is there."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.metadata.alterations import altered
from liftlog.core.metadata.limits import limits_problem
from liftlog.messages import AlterStreamRequest, DoneReply, MessageDeleted, StreamChanges
from liftlog.types import Message, PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_bytes_max import bounded, there
from tests.core.test_headers import block
from tests.core.test_journal import delete, marks, others
from tests.core.test_message_ids import publish
from tests.core.test_messages_max import parcel, refused

COMPARED = "Nats-Expected-Last-Subject-Sequence-Subject"


def put(world: World, partition: PartitionId, *values: str) -> None:
    """The first character of each is its subject; each wants an answer; some time later."""
    texts = [value.encode() for value in values]
    publish(world, partition, *(Message(b"orders." + text[:1], b"_I." + text, b"", text) for text in texts))
    world.run(0.5)


def crowded(most: int = 1, mutant: str = "", **settings: Any) -> tuple[World, PartitionId]:
    return bounded(mutant=mutant, subject_messages_max=most, more_subjects=("orders.*",), **settings)


def test_C6_a_subject_that_is_full_refuses_and_others_do_not() -> None:
    world, partition = crowded(2)
    put(world, partition, "a1", "a2", "a3", "b1")
    put(world, partition, "a4", "b2", "b3")
    assert there(world, partition) == "a1a2b1b2"
    assert sorted(refused(world)) == [("full", b"_I.a3"), ("full", b"_I.a4"), ("full", b"_I.b3")]
    text = world.refusals[0].description
    assert text.startswith("maximum messages per subject exceeded: 'orders.a' holds no more than 2")
    assert "--subject-messages-max" in text
    assert marks(world, partition)["C6.full-subject"] >= 1


def test_C6_what_is_deleted_makes_room_in_its_subject() -> None:
    world, partition = crowded()
    put(world, partition, "a1", "a2")
    assert isinstance(delete(world, partition, 0), MessageDeleted)
    put(world, partition, "a3", "a4")
    assert there(world, partition) == "a3"
    assert [reply for _, reply in refused(world)] == [b"_I.a2", b"_I.a4"]


def test_C6_a_new_leader_counts_what_is_there_of_a_subject() -> None:
    world, partition = crowded(2)
    put(world, partition, "a1")
    old = world.leader(partition)
    world.kill(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old))
    assert world.run_until(lambda: world.subscriptions.get(partition, (old, 0))[0] != old)
    put(world, partition, "a2", "a3")
    assert there(world, partition) == "a1a2" and refused(world) == [("full", b"_I.a3")]


def uncommitted(world: World, partition: PartitionId) -> list[int]:
    """A message is stored at the leader and not committed; the second of its subject has come."""
    put(world, partition, "b1")
    held = others(world, partition)
    for node in held:
        world.hold_storage(node)
    put(world, partition, "a1", "a2")
    return held


def test_C6_what_is_not_committed_takes_room_and_nobody_is_refused_for_it() -> None:
    world, partition = crowded()
    held = uncommitted(world, partition)
    assert not refused(world)
    for node in held:
        world.release_storage(node)
    world.run(1.0)
    assert there(world, partition) == "b1a1" and refused(world) == [("full", b"_I.a2")]
    assert marks(world, partition)["C6.subject-waits"] == 1


def test_C6_the_planted_bug_refuses_for_what_is_not_committed() -> None:
    world, partition = crowded(mutant="C6.subject-uncommitted")
    uncommitted(world, partition)
    assert refused(world) == [("full", b"_I.a2")]


def test_C6_who_was_told_of_a_deletion_is_not_refused_for_what_it_took() -> None:
    """The index was asked before, for another message of the subject. Profile consumers, seed 11."""
    world, partition = crowded()
    put(world, partition, "a1", "b1")
    leader = world.leader(partition)
    room = world.replica(leader, partition).roles.leader.lasts.counts
    removed = world.replica(leader, partition.journal).removed
    subject, end = b"orders.a", world.replica(leader, partition).leo
    room.begin_here()
    room.asks()
    room.told([subject], [1], end)
    assert room.fits(subject, 0, 1, end) is False
    assert isinstance(delete(world, partition, 0), MessageDeleted)
    removed.folded = room._asked[0]
    room.told([subject], [1], end)
    assert room.fits(subject, 0, 1, end) is None, "committed, told, and not heeded yet"


@pytest.mark.parametrize(("mutant", "held"), [("subject_room_by_index", 2), ("C6.full-subject", 3)])
def test_C6_the_planted_bugs_hold_more_of_a_subject(mutant: str, held: int) -> None:
    world, partition = crowded(mutant=mutant)
    put(world, partition, "a1", "a2")
    put(world, partition, "a3")
    assert len(there(world, partition)) == 2 * held


@pytest.mark.parametrize("bound", [{}, {"bytes_max": 100_000}])
def test_C6_L9_what_is_counted_and_what_is_compared_are_asked_for_at_once(bound: dict[str, Any]) -> None:
    """One after the other, the answer to the one was forgotten with the answer to the other, for ever."""
    world, partition = crowded(**bound)
    put(world, partition, "b1")
    lines = block("Nats-Expected-Last-Subject-Sequence: 1", f"{COMPARED}: orders.b")
    publish(world, partition, Message(b"orders.a", b"_I.a1", lines, b"a1"))
    world.run(0.5)
    assert there(world, partition) == "b1a1" and not world.refusals
    assert marks(world, partition)["L9.waits"] <= 4


def test_C6_two_questions_in_turns_never_end() -> None:
    """A planted bug: of a message that is counted by one subject and compared by another."""
    world, partition = crowded(mutant="asks_for_ever")
    put(world, partition, "b1")
    lines = block("Nats-Expected-Last-Subject-Sequence: 1", f"{COMPARED}: orders.b")
    publish(world, partition, Message(b"orders.a", b"_I.a1", lines, b"a1"))
    world.run(0.5)
    assert there(world, partition) == "b1"
    assert marks(world, partition)["L9.waits"] > 20


def test_C6_a_parcel_counts_with_all_its_records() -> None:
    world, partition = bounded(subject_messages_max=2)
    publish(world, partition, parcel(b"1", b"2", b"3", reply=b"_I.p"))
    world.run(0.5)
    assert refused(world) == [("full", b"_I.p")]
    publish(world, partition, parcel(b"1", b"2", reply=b"_I.q"))
    world.run(0.5)
    publish(world, partition, parcel(b"4", reply=b"_I.r"))
    world.run(0.5)
    assert there(world, partition) == "12" and refused(world)[1:] == [("full", b"_I.r")]


def test_C6_a_limit_by_subject_can_be_set_and_lifted_and_nothing_goes() -> None:
    world, partition = crowded(3)
    put(world, partition, "a1", "a2", "a3", "a4")
    for most, more in ((1, ""), (4, "y"), (0, "zw")):
        leader = world.leader(partition)
        changes = StreamChanges(subject_messages_max=most)
        assert isinstance(world.answer(leader, AlterStreamRequest("orders", changes)), DoneReply)
        before = there(world, partition)
        put(world, partition, *(f"a{one}" for one in more or "x"))
        assert there(world, partition) == before + "".join(f"a{one}" for one in more)


def test_C6_a_limit_is_set_on_a_stream_that_has_messages() -> None:
    world, partition = bounded(more_subjects=("orders.*",))
    put(world, partition, "a1", "a2", "b1")
    leader = world.leader(partition)
    changes = StreamChanges(subject_messages_max=2)
    assert isinstance(world.answer(leader, AlterStreamRequest("orders", changes)), DoneReply)
    put(world, partition, "a3", "b2", "b3")
    assert there(world, partition) == "a1a2b1b2"
    assert sorted(refused(world)) == [("full", b"_I.a3"), ("full", b"_I.b3")]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"subject_messages_max": 0, "removal": True}, "must be 1 to"),
        ({"subject_messages_max": 5}, "needs removal"),
        ({"subject_messages_max": 5, "removal": True, "max_messages_per_subject": 5}, "exclude each other"),
        ({"subject_messages_max": 5, "removal": True, "allow_rollup": True}, "exclude each other"),
        ({"subject_messages_max": 5, "removal": True, "work_queue": True, "dedupe_window_ms": 5000}, ""),
    ],
)
def test_C6_what_a_limit_of_a_subject_goes_with(settings: dict[str, Any], problem: str) -> None:
    config = StreamConfig("s", "s", 1, 3, **settings)
    found = limits_problem(config)
    assert problem in found and bool(found) == bool(problem)
    assert altered(config, StreamChanges(subject_messages_max=0)).holds_of_subject == 0
