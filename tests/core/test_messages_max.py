"""A partition that holds as many messages as it may refuses more, and lets none go for them (C6)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem, altered
from liftlog.core.metadata.subjects import config_problem
from liftlog.messages import AlterStreamRequest, DoneReply, PurgeRequest, StreamChanges
from liftlog.mutants import Mutants
from liftlog.parcel import ParcelRecord, seal_parcel
from liftlog.types import Message, PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_headers import block
from tests.core.test_message_ids import publish, stored


def bounded(most: int, mutants: str = "", **settings: Any) -> tuple[World, PartitionId]:
    named: dict[str, Any] = {"without": mutants} if "." in mutants else {mutants: True} if mutants else {}
    world = World(mutants=Mutants(**named))
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    return world, world.create(messages_max=most, **settings)


def plain(value: bytes, reply: bytes = b"") -> Message:
    return Message(b"orders", reply, b"", value)


def parcel(*values: bytes, reply: bytes = b"") -> Message:
    payload = seal_parcel([ParcelRecord(value) for value in values])
    return Message(b"orders", reply, block("Liftlog-Batch: 1"), payload)


def held(world: World, partition: PartitionId) -> list[bytes | None]:
    return [value for value, _ in stored(world, partition)]


def refused(world: World) -> list[tuple[str, bytes]]:
    return [(one.code, reply) for one in world.refusals for reply in one.replies]


def test_C6_what_comes_when_it_is_full_is_refused_and_nothing_goes() -> None:
    world, partition = bounded(3)
    publish(world, partition, *(plain(value, b"_INBOX." + value) for value in (b"a", b"b", b"c", b"d", b"e")))
    assert held(world, partition) == [b"a", b"b", b"c"]
    assert refused(world) == [("full", b"_INBOX.d"), ("full", b"_INBOX.e")]
    told = world.refusals[0].description
    assert "holds 3 of 3" in told and "--messages-max" in told
    publish(world, partition, plain(b"f"))
    counted = world.nodes[world.leader(partition)].marks
    assert counted["C6.full"] == 3 and counted["C6.dropped"] == 1
    assert world.run_until(lambda: world.committed(partition, 3))
    assert len(held(world, partition)) == 3


def test_C6_room_is_what_a_purge_or_an_alteration_makes() -> None:
    world, partition = bounded(2)
    publish(world, partition, plain(b"a"), plain(b"b"), plain(b"c"))
    assert world.run_until(lambda: world.committed(partition, 2))
    leader = world.leader(partition)
    assert isinstance(world.answer(leader, PurgeRequest(partition, 1)), DoneReply)
    publish(world, partition, plain(b"d"), plain(b"e"))
    assert held(world, partition)[-2:] == [b"b", b"d"]
    changes = StreamChanges(messages_max=3)
    assert isinstance(world.answer(leader, AlterStreamRequest("orders", changes)), DoneReply)
    publish(world, partition, plain(b"f"), plain(b"g"))
    assert held(world, partition)[-3:] == [b"b", b"d", b"f"]
    changes = StreamChanges(messages_max=0)
    assert isinstance(world.answer(leader, AlterStreamRequest("orders", changes)), DoneReply)
    publish(world, partition, plain(b"h"), plain(b"i"))
    assert held(world, partition)[-2:] == [b"h", b"i"]


def test_C6_a_parcel_counts_with_all_its_records_and_smaller_ones_still_fit() -> None:
    world, partition = bounded(4)
    publish(world, partition, plain(b"a"), parcel(b"b", b"c", b"d", b"e", reply=b"_INBOX.p"), plain(b"f"))
    assert held(world, partition) == [b"a", b"f"] and refused(world) == [("full", b"_INBOX.p")]
    publish(world, partition, parcel(b"g", b"h"))
    assert held(world, partition) == [b"a", b"f", b"g", b"h"]


def test_C6_who_expects_another_offset_is_told_so() -> None:
    world, partition = bounded(2)
    publish(world, partition, plain(b"a"), plain(b"b"))
    assert world.run_until(lambda: world.committed(partition, 2))
    expecting = Message(b"orders", b"_INBOX.e", block("Liftlog-Expected-Offset: 9"), b"x")
    publish(world, partition, expecting, plain(b"c", b"_INBOX.f"))
    assert refused(world) == [("expected-offset", b"_INBOX.e"), ("full", b"_INBOX.f")]


@pytest.mark.parametrize(
    ("mutant", "there"), [("C6.full", 6), ("full_by_committed", 4), ("full_counts_parcel_once", 5)]
)
def test_C6_the_planted_bugs_hold_more(mutant: str, there: int) -> None:
    world, partition = bounded(3, mutant)
    publish(world, partition, plain(b"a"), plain(b"b"))
    publish(world, partition, parcel(b"c", b"d", b"e") if mutant != "full_by_committed" else plain(b"c"))
    publish(world, partition, plain(b"f"))
    assert len(held(world, partition)) == there


def test_C6_what_a_configuration_may_say() -> None:
    for settings, words in (
        ({"messages_max": 0}, "must be 1 to"),
        ({"messages_max": 5, "compact": True}, "exclude each other"),
        ({"messages_max": 5, "retention_messages": 5}, "exclude each other"),
        ({"messages_max": 5, "dedupe_window_ms": 5000}, "exclude each other"),
    ):
        assert words in config_problem(StreamConfig("s", "s", 1, 3, **settings))
    config = StreamConfig("s", "s", 1, 3, messages_max=5, retention_ms=1000, retention_bytes=10)
    assert not config_problem(config)
    assert "exclude" in alteration_problem(config, StreamChanges(compact=True))
    assert "exclude" in alteration_problem(config, StreamChanges(retention_messages=3))
    assert altered(config, StreamChanges(messages_max=0)).holds_most == 0
