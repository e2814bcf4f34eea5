"""A reader that names subjects or keys gets what matches, of any copy, and where to go on (S2)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.api.spans import filtered_batches_of
from liftlog.core.metadata import levels
from liftlog.format import decode_records, parse_batch
from liftlog.messages import (
    ERR_INVALID,
    ERR_OFFSET_RANGE,
    DeleteMessageRequest,
    ErrorReply,
    FilteredReadRequest,
    PurgeRequest,
    ReadRequest,
    VisibleReadReply,
)
from liftlog.types import PartitionId
from tests.core.node_harness import World
from tests.core.test_scrape import slices


def ready(**settings: Any) -> tuple[World, PartitionId]:
    world = World()
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(**settings)
    assert world.run_until(lambda: partition in world.subscriptions)
    world.publish(partition, b"a", b"b", b"c")
    assert world.run_until(lambda: world.committed(partition, 3))
    return world, partition


def asked(world: World, partition: PartitionId, node: int, offset: int = 0, **how: Any) -> Any:
    return world.answer(node, FilteredReadRequest(partition, offset, **how))


def values(reply: Any) -> list[bytes | None]:
    assert isinstance(reply, VisibleReadReply), reply
    return [record.value for batch in filtered_batches_of(reply) for record in decode_records(batch)]


def test_S2_every_copy_sends_what_matches_and_says_up_to_where_it_looked() -> None:
    world, partition = ready()
    for node in world.nodes:
        told = asked(world, partition, node, subjects=["orders"])
        assert values(told) == [b"a", b"b", b"c"] and told.next_offset == 3
        nothing = asked(world, partition, node, subjects=["none.>"])
        assert values(nothing) == [] and nothing.next_offset == 3 and nothing.hw == 3
        by_key = asked(world, partition, node, keys=[b"k"])
        assert values(by_key) == [] and by_key.next_offset == 3


def test_S2_what_was_looked_at_and_what_of_it_was_sent_is_counted() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    looked = world.nodes[leader].ctx.looked
    asked(world, partition, leader, subjects=["orders"])
    asked(world, partition, leader, subjects=["none.>"])
    assert (looked.offsets, looked.records) == (6, 3)
    world.replica(leader, partition).log.cache.clear()
    asked(world, partition, leader, subjects=["none.>"])
    assert (looked.offsets, looked.records) == (9, 3)
    world.answer(leader, ReadRequest(partition, 0))
    assert (looked.offsets, looked.records) == (9, 3)
    told = {family.name: samples for family, samples in slices(world, leader) if samples}
    assert told["liftlog_filtered_offsets_looked_at_total"] == [((), 9)]
    assert told["liftlog_filtered_records_sent_total"] == [((), 3)]


def test_S2_storage_looks_at_what_is_not_in_memory() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    world.replica(leader, partition).log.cache.clear()
    told = asked(world, partition, leader, 1, subjects=["orders"])
    assert values(told)[-2:] == [b"b", b"c"] and told.next_offset == 3
    assert values(asked(world, partition, leader, subjects=["none"])) == []
    marks = world.nodes[leader].marks
    assert marks["S2.storage"] == 1 and marks["S2.nothing"] == 1 and "S2.memory" not in marks


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ({}, "neither subjects nor keys"),
        ({"subjects": ["a..b"]}, "empty token"),
        ({"subjects": ["a.>.b"]}, "last token"),
        ({"subjects": ["\udc80"]}, "no text"),
    ],
)
def test_S2_what_means_nothing_is_refused(how: dict[str, Any], word: str) -> None:
    world, partition = ready()
    reply = asked(world, partition, world.leader(partition), **how)
    assert isinstance(reply, ErrorReply) and reply.code == ERR_INVALID and word in reply.description


def test_S2_a_reader_at_the_end_waits_as_others_do() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    number = world.ask(leader, FilteredReadRequest(partition, 3, wait_ms=3000, subjects=["orders"]))
    world.publish(partition, b"d")
    assert world.run_until(lambda: number in world.replies)
    assert values(world.replies[number]) == [b"d"]


def test_S2_and_R21_what_is_deleted_is_not_sent_and_is_looked_past() -> None:
    world, partition = ready(removal=True)
    deleted = world.answer(world.leader(partition), DeleteMessageRequest(partition, 1))
    for node in world.nodes:
        told = asked(world, partition, node, seen_journal=deleted.journal, subjects=["orders"], wait_ms=3000)
        assert values(told) == [b"a", b"c"]
        assert told.journal >= deleted.journal and told.next_offset == 3
    world.answer(world.leader(partition), DeleteMessageRequest(partition, 2))
    told = asked(world, partition, world.leader(partition), 2, subjects=["orders"])
    assert told.batches == [] and told.next_offset == 3


def test_S2_below_the_log_start_is_an_error_as_for_others() -> None:
    world, partition = ready()
    world.answer(world.leader(partition), PurgeRequest(partition, 2))
    reply = asked(world, partition, world.leader(partition), 1, subjects=["orders"])
    assert isinstance(reply, ErrorReply) and reply.code == ERR_OFFSET_RANGE


def test_S2_nothing_at_or_above_the_hw_is_looked_at() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    for node in world.nodes:
        if node != leader:
            world.hold_storage(node)
    world.publish(partition, b"d")
    assert world.run_until(lambda: world.replica(leader, partition).leo == 4)
    told = asked(world, partition, leader, subjects=["orders"])
    assert values(told) == [b"a", b"b", b"c"] and told.next_offset == 3
    for frame in told.batches:
        assert parse_batch(partition, frame).end_offset <= 3
