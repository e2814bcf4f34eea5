"""A partition that holds as much as it may refuses more, by what is there without what is gone (C6)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.metadata import levels
from liftlog.core.metadata.limits import limits_problem
from liftlog.core.replica.publishing import holding
from liftlog.messages import AlterStreamRequest, DoneReply, MessageDeleted, StreamChanges
from liftlog.mutants import Mutants
from liftlog.types import Message, PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_journal import delete, marks, others, visible
from tests.core.test_message_ids import publish
from tests.core.test_messages_max import parcel, refused

ONE = 30 + len("orders") + 1


def bounded(size: int = 0, mutant: str = "", **settings: Any) -> tuple[World, PartitionId]:
    named: dict[str, Any] = {"without": mutant} if "." in mutant else {mutant: True} if mutant else {}
    world = World(mutants=Mutants(**named))
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    if size:
        settings["bytes_max"] = size
    partition = world.create(removal=True, **settings)
    assert world.run_until(lambda: partition in world.subscriptions)
    return world, partition


def put(world: World, partition: PartitionId, *values: str) -> None:
    """Each wants an answer; some time later."""
    texts = [value.encode() for value in values]
    publish(world, partition, *(Message(b"orders", b"_I." + text, b"", text) for text in texts))
    world.run(0.5)


def there(world: World, partition: PartitionId) -> str:
    shown = visible(world, partition, world.leader(partition))
    return b"".join(value or b"" for value in shown.values()).decode()


def test_C6_what_has_no_room_is_refused_and_nothing_goes() -> None:
    world, partition = bounded(3 * ONE + 1)
    put(world, partition, *"abcde")
    assert there(world, partition) == "abc"
    assert refused(world) == [("full", b"_I.d"), ("full", b"_I.e")]
    assert "--bytes-max" in world.refusals[0].description
    assert marks(world, partition)["C6.full-bytes"] == 2


def test_C6_what_is_deleted_makes_room_by_bytes_and_by_number() -> None:
    for world, partition in (bounded(3 * ONE), bounded(messages_max=3)):
        put(world, partition, *"abcd")
        assert refused(world) == [("full", b"_I.d")]
        assert isinstance(delete(world, partition, 1), MessageDeleted)
        put(world, partition, *"ef")
        assert there(world, partition) == "ace"
        assert refused(world)[1:] == [("full", b"_I.f")]


def test_C6_a_new_leader_counts_what_is_there() -> None:
    world, partition = bounded(3 * ONE)
    put(world, partition, *"ab")
    old = world.leader(partition)
    world.kill(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old))
    assert world.run_until(lambda: world.subscriptions.get(partition, (old, 0))[0] != old)
    put(world, partition, *"cd")
    assert there(world, partition) == "abc" and refused(world) == [("full", b"_I.d")]


def test_C6_what_is_not_committed_takes_room_and_who_has_none_waits_for_it() -> None:
    world, partition = bounded(3 * ONE)
    put(world, partition, "a")
    held = others(world, partition)
    for node in held:
        world.hold_storage(node)
    put(world, partition, *"bcd")
    assert not refused(world)
    for node in held:
        world.release_storage(node)
    world.run(1.0)
    assert there(world, partition) == "abc" and len(refused(world)) == 1


@pytest.mark.parametrize(("mutant", "held"), [("full_by_counted", "abcdef"), ("C6.full-bytes", "abcdef")])
def test_C6_the_planted_bugs_hold_more_bytes(mutant: str, held: str) -> None:
    world, partition = bounded(4 * ONE, mutant)
    put(world, partition, "a")
    put(world, partition, *"bcdef")
    assert there(world, partition) == held


def test_C6_a_message_that_is_larger_than_all_the_room_is_refused_at_once() -> None:
    world, partition = bounded(ONE)
    put(world, partition, "too large")
    assert refused(world) == [("full", b"_I.too large")]
    put(world, partition, "a")
    assert there(world, partition) == "a"


def test_C6_a_parcel_counts_with_the_bytes_of_all_its_records() -> None:
    world, partition = bounded(4 * ONE + 40)
    publish(world, partition, parcel(*(b"%d" % number for number in range(6)), reply=b"_I.p"))
    world.run(0.5)
    assert refused(world) == [("full", b"_I.p")]
    publish(world, partition, parcel(b"1", b"2"))
    world.run(0.5)
    assert there(world, partition) == "12"


def test_C6_a_limit_by_bytes_can_be_set_and_lifted() -> None:
    world, partition = bounded(messages_max=100)
    put(world, partition, *"abc")
    for size, more in ((3 * ONE, ""), (4 * ONE, "y"), (0, "zw")):
        leader = world.leader(partition)
        changes = StreamChanges(bytes_max=size)
        assert isinstance(world.answer(leader, AlterStreamRequest("orders", changes)), DoneReply)
        before = there(world, partition)
        put(world, partition, *(more or "x"))
        assert there(world, partition) == before + more


def test_C6_notes_of_what_was_appended_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "NOTES_MAX", 4)
    world, partition = bounded(30 * ONE)
    for number in range(20):
        put(world, partition, chr(ord("a") + number))
    room = world.replica(world.leader(partition), partition).roles.leader.room
    assert len(room._notes) <= 4
    put(world, partition, *"0123456789!")
    assert len(there(world, partition)) == 30 and refused(world) == [("full", b"_I.!")]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"bytes_max": 0, "removal": True}, "must be 1 to"),
        ({"bytes_max": 5}, "needs removal"),
        ({"bytes_max": 5, "removal": True, "retention_bytes": 5}, "exclude each other"),
        ({"messages_max": 5, "removal": True, "dedupe_window_ms": 5000}, ""),
    ],
)
def test_C6_what_a_limit_by_bytes_goes_with(settings: dict[str, Any], problem: str) -> None:
    found = limits_problem(StreamConfig("s", "s", 1, 3, **settings))
    assert problem in found and bool(found) == bool(problem)
