"""R28: a mirror has what its origin has committed, offset by offset, whoever leads either of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from liftlog.core.metadata import levels
from liftlog.core.metadata.origins import origin_of
from liftlog.format import decode_records
from liftlog.messages import (
    AlterStreamRequest,
    CreateStreamRequest,
    DeleteMessageRequest,
    DeleteStreamRequest,
    ErrorReply,
    MirrorReply,
    PeerMessage,
    PurgeRequest,
    StreamChanges,
    intake,
)
from liftlog.mutants import Mutants
from liftlog.types import PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_upkeep import put as put_one

SIX = [b"%d" % number for number in range(6)]


def put(world: World, partition: PartitionId, *values: bytes) -> None:
    for value in values:
        put_one(world, partition, value)


def a_world(count: int = 3, mutants: Mutants | None = None) -> World:
    """At the newest feature level."""
    world = World(count, mutants or Mutants())
    assert world.run_until(lambda: world.nodes[1].metadata.level == levels.NEWEST)
    return world


def mirror_config(**settings: Any) -> StreamConfig:
    return StreamConfig("copy", "copy.of.s", **{"replication_factor": 3, **settings}, mirror="s")


def made(world: World, config: StreamConfig) -> PartitionId:
    node = next(iter(world.nodes))
    world.answer(node, CreateStreamRequest(config))
    assert world.run_until(lambda: config.name in world.nodes[node].metadata.streams)
    return PartitionId(world.nodes[node].metadata.streams[config.name].id, 0)


def both(
    count: int = 3, mutants: Mutants | None = None, **settings: Any
) -> tuple[World, PartitionId, PartitionId]:
    """A world with a stream that has six messages, and a mirror of it."""
    world = a_world(count, mutants)
    settings.setdefault("replicas", min(3, count))
    origin = world.create("s", **settings)
    put(world, origin, *SIX)
    return world, origin, made(world, mirror_config(replication_factor=settings["replicas"]))


def records(world: World, partition: PartitionId) -> list[tuple[int, bytes | None]]:
    log = world.disks[world.leader(partition)].logs[partition]
    return [(one.offset, one.value) for batch in log.batches for one in decode_records(batch)]


def caught_up(world: World, origin: PartitionId, mirror: PartitionId) -> Callable[[], bool]:
    def check() -> bool:
        leaders = world.leader(origin), world.leader(mirror)
        if not all(leaders) or not all(node in world.nodes for node in leaders):
            return False
        ends = [
            world.replica(node, one).hw for node, one in zip(leaders, (origin, mirror), strict=True)
        ]
        return ends[0] == ends[1] and ends[0] > 0

    return check


def test_r28_a_mirror_gets_what_is_there_and_what_comes_at_the_same_offsets() -> None:
    world, origin, mirror = both()
    assert world.run_until(caught_up(world, origin, mirror))
    assert records(world, mirror) == list(enumerate(SIX))
    put(world, origin, b"new")
    assert world.run_until(caught_up(world, origin, mirror))
    assert world.run_until(lambda: len(records(world, mirror)) == 7)
    assert records(world, mirror) == records(world, origin)
    times = [
        [one.timestamp_ms for batch in world.disks[1].logs[log].batches for one in decode_records(batch)]
        for log in (origin, mirror)
    ]
    assert times[0] == times[1]


def test_r28_a_mirror_knows_how_far_it_is_behind() -> None:
    world, origin, mirror = both()
    assert world.run_until(caught_up(world, origin, mirror))
    world.drop = lambda sender, to, message: isinstance(message, MirrorReply) and bool(message.batches)
    put(world, origin, b"6", b"7")
    roles = world.replica(world.leader(mirror), mirror).roles
    assert roles is not None and (roles.mirroring.lag, roles.mirroring.on) == (0, True)
    world.drop = lambda sender, to, message: False
    told = MirrorReply(mirror, 6, 0, 8, 0, 6, [])
    world.replica(world.leader(mirror), mirror).on_mirror_reply(1, told)
    assert roles.mirroring.lag == 2
    assert world.run_until(caught_up(world, origin, mirror))
    assert roles.mirroring.lag == 0


def test_r28_one_node_says_it_to_itself() -> None:
    world, origin, mirror = both(1)
    assert world.run_until(caught_up(world, origin, mirror))
    assert records(world, mirror) == list(enumerate(SIX))


def test_r28_leaders_are_killed_on_both_sides() -> None:
    world, origin, mirror = both()
    for number in range(4):
        victim = world.leader(origin if number % 2 else mirror)
        world.kill(victim)
        world.run(8)
        put(world, origin, b"%d" % (6 + number))
        world.restart(victim)
        world.run(8)
        assert world.run_until(caught_up(world, origin, mirror), 60)
    assert world.run_until(lambda: len(records(world, mirror)) == 10)
    assert records(world, mirror) == records(world, origin) == [(at, b"%d" % at) for at in range(10)]


def test_r28_what_is_gone_at_the_origin_has_no_record_and_its_offset_stays_empty() -> None:
    world = a_world()
    origin = world.create("s", removal=True)
    put(world, origin, *SIX)
    leader = world.leader(origin)
    world.answer(leader, PurgeRequest(origin, 2))
    world.answer(leader, DeleteMessageRequest(origin, 4))
    world.run(2)
    mirror = made(world, mirror_config())
    assert world.run_until(caught_up(world, origin, mirror))
    world.run(1)
    assert records(world, mirror) == [(2, b"2"), (3, b"3"), (5, b"5")]
    marks = world.nodes[world.leader(mirror)].marks
    assert marks["R28.below-start"] == 1 and marks["R28.gap"] == 1


def test_r28_a_mirror_takes_no_messages_until_it_is_none() -> None:
    world, origin, mirror = both()
    assert world.run_until(caught_up(world, origin, mirror))
    world.publish(mirror, b"mine")
    assert world.run_until(lambda: bool(world.refusals))
    assert "is a mirror" in world.refusals[-1].description
    world.answer(1, AlterStreamRequest("copy", StreamChanges(mirror="")))
    world.run(1)
    world.publish(mirror, b"mine")
    put(world, origin, b"theirs")
    assert world.run_until(lambda: len(records(world, mirror)) == 7)
    world.run(3)
    assert records(world, mirror) == [*enumerate(SIX), (6, b"mine")]


def test_r28_a_stream_that_has_the_origins_name_later_is_another_one() -> None:
    world, origin, mirror = both()
    assert world.run_until(caught_up(world, origin, mirror))
    world.answer(1, DeleteStreamRequest("s"))
    world.run(1)
    again = world.create("s")
    put(world, again, *[b"other"] * 9)
    world.run(3)
    assert len(records(world, mirror)) == 6
    node = world.nodes[world.leader(mirror)]
    assert origin_of(node.metadata, node.metadata.by_id[mirror.stream]) is None
    assert "was removed" in node.replicas[mirror].roles.mirroring.problem  # type: ignore[union-attr]
    assert node.marks["R28.stands-still"] > 0


def test_r28_an_answer_says_again_what_is_there_or_is_not_believed() -> None:
    world, origin, mirror = both()
    answers: list[MirrorReply] = []

    def keep(sender: int, to: int, message: PeerMessage) -> bool:
        if isinstance(message, MirrorReply) and message.batches:
            answers.append(message)
        return False

    world.drop = keep
    put(world, origin, b"6", b"7")
    assert world.run_until(caught_up(world, origin, mirror))
    leader = world.nodes[world.leader(mirror)]
    for reply in answers:
        leader.replicas[mirror].on_mirror_reply(2, reply)
    assert leader.replicas[mirror].leo == 8
    leader.replicas[mirror].on_mirror_reply(2, MirrorReply(mirror, 9, 0, 12, 0, 12, []))
    assert leader.replicas[mirror].leo == 8 and leader.marks["V3.MirrorReply"] == 1


def test_r28_what_is_damaged_on_its_way_is_asked_for_again() -> None:
    world = a_world()
    origin = world.create("s")
    put(world, origin, *SIX)
    spoilt: list[MirrorReply] = []

    def spoil(sender: int, to: int, message: PeerMessage) -> bool:
        if isinstance(message, MirrorReply) and message.batches and not spoilt:
            message.batches = [bytes([*message.batches[0][:-1], message.batches[0][-1] ^ 1])]
            spoilt.append(message)
        return False

    world.drop = spoil
    mirror = made(world, mirror_config())
    assert world.run_until(caught_up(world, origin, mirror))
    assert records(world, mirror) == list(enumerate(SIX))


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"mirror": "nobody"}, "there is no such stream"),
        ({"mirror": "copy"}, "is the stream itself"),
        ({"partitions": 2}, "as many partitions"),
        ({"compact": True}, "mirror and compact"),
        ({"dedupe_window_ms": 1000}, "mirror and dedupe_window_ms"),
        ({"messages_max": 10}, "mirror and messages_max"),
        ({"queue_group": "desk"}, "mirror and queue_group"),
        ({"allow_batches": True}, "mirror and allow_batches"),
    ],
)
def test_r28_what_can_be_no_mirror_is_refused(settings: dict[str, Any], word: str) -> None:
    world = a_world()
    world.create("s")
    config = StreamConfig("copy", "copy", **{"replication_factor": 3, "mirror": "s", **settings})
    refused = world.answer(1, CreateStreamRequest(config))
    assert isinstance(refused, ErrorReply) and word in refused.description


def test_r28_nothing_becomes_a_mirror_later_nor_copies_what_is_compacted() -> None:
    world = a_world()
    world.create("s")
    refused = world.answer(1, AlterStreamRequest("s", StreamChanges(mirror="t")))
    assert "it can only end" in refused.description
    mirror = made(world, mirror_config())
    world.answer(1, AlterStreamRequest("s", StreamChanges(compact=True)))
    world.run(2)
    roles = world.nodes[world.leader(mirror)].replicas[mirror].roles
    assert roles is not None and "is compacted" in roles.mirroring.problem


def test_v3_an_answer_that_contradicts_itself_is_refused() -> None:
    mirror = PartitionId(4, 0)
    assert intake.contradiction(MirrorReply(mirror, 0, 0, 5, 6, 6, []))
    assert intake.contradiction(MirrorReply(mirror, 5, 0, 5, 0, 4, []))
    assert intake.contradiction(MirrorReply(mirror, 0, 5, 5, 3, 3, [b"x"]))
    assert intake.contradiction(MirrorReply(mirror, 0, 5, 5, 6, 0, []))
    assert intake.contradiction(MirrorReply(mirror, 3, 5, 5, 3, 3, []))
    assert not intake.contradiction(MirrorReply(mirror, 0, 5, 5, 3, 3, []))


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_v3_an_answer_that_leaves_out_a_batch_is_asked_for_again(left_out: int) -> None:
    """An offset is empty if a batch of the origin says so, and not because none speaks of it."""
    world = a_world()
    origin = world.create("s")
    put(world, origin, *SIX)
    spoilt: list[MirrorReply] = []

    def spoil(sender: int, to: int, message: PeerMessage) -> bool:
        if isinstance(message, MirrorReply) and len(message.batches) > 2 and not spoilt:
            kept = [frame for number, frame in enumerate(message.batches) if number != left_out]
            message.batches = kept if left_out < 2 else message.batches[:-1]
            spoilt.append(message)
        return False

    world.drop = spoil
    mirror = made(world, mirror_config())
    assert world.run_until(caught_up(world, origin, mirror))
    assert records(world, mirror) == list(enumerate(SIX))
    assert spoilt or world.leader(origin) == world.leader(mirror)
