"""Where the last message of a subject goes for its time or age, a marker stays (R24)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem, altered, describe_alteration
from liftlog.core.metadata.limits import limits_problem
from liftlog.core.replica.removal.markers import Markers, Over, is_literal, over
from liftlog.format import decode_records
from liftlog.messages import (
    AlterStreamRequest,
    DeleteMessageRequest,
    LastsTold,
    Published,
    StreamChanges,
    SubjectsFolded,
    VisibleReadReply,
    VisibleReadRequest,
)
from liftlog.mutants import Mutants
from liftlog.options.headers import read_block, rolled_up_by
from liftlog.options.lifetime import ANY, stored_lifetime
from liftlog.options.marking import is_marker, marker_ms, marker_of
from liftlog.options.wishes import Terms
from liftlog.types import Message, PartitionId, Record, StreamConfig
from tests.core.node_harness import WALL_START_MS, World
from tests.core.test_headers import block
from tests.core.test_journal import delete, marks
from tests.core.test_roll_ups import new_leader
from tests.core.test_subject_limits import journal, message_of_journal

HOUR_MS = 3_600_000


def marking(stays_ms: int = HOUR_MS, age_ms: int = 0, **kwargs: Any) -> tuple[World, PartitionId]:
    """A cluster with one stream that leaves markers."""
    world = World(**kwargs)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(
        removal=True, allow_ttl=True, allow_rollup=True, marker_ttl_ms=stays_ms, retention_ms=age_ms
    )
    assert world.run_until(lambda: partition in world.subscriptions)
    return world, partition


def put(world: World, partition: PartitionId, *said: str, ago_ms: int = 0, wait: bool = True) -> None:
    """Messages, each a subject's letter and for how many seconds it is to stay; nothing said: it stays."""
    leader, epoch = world.subscriptions[partition]
    end = world.replica(leader, partition).leo
    sent = []
    for number, one in enumerate(said, end):
        headers = block(f"Nats-TTL: {one[1:]}") if one[1:] else b""
        sent.append(Message(f"orders.{one[0]}".encode(), b"", headers, b"%d" % number))
    world.step(leader, Published(partition, epoch, sent, WALL_START_MS + int(world.now * 1000) - ago_ms))
    if wait:
        assert world.run_until(lambda: world.committed(partition, end + len(sent)))


def seen(world: World, partition: PartitionId, node: int) -> dict[int, str]:
    """What a node shows, by offset: its subject's letter, a capital for a marker."""
    reply = world.answer(node, VisibleReadRequest(partition, 0, wait_ms=0))
    assert isinstance(reply, VisibleReadReply)
    records = [record for frame in reply.batches for record in decode_records(frame)]
    letters = [record.subject[-1:].decode() for record in records]
    return {
        record.offset: letter.upper() if is_marker(record.headers) else letter
        for record, letter in zip(records, letters, strict=True)
    }


def shows(world: World, partition: PartitionId, **wanted: str) -> bool:
    """Whether in the end every copy shows these, and no others: `_3="a"`, and a capital for a marker."""
    left = {int(name[1:]): letter for name, letter in wanted.items()}
    nodes = [node for node in world.nodes if world.replica(node, partition) is not None]
    return world.run_until(lambda: all(seen(world, partition, node) == left for node in nodes))


def judging(world: World, partition: PartitionId) -> Markers:
    roles = world.replica(world.leader(partition), partition.journal).roles
    assert roles is not None and roles.markers is not None
    return roles.markers


def stored(world: World, partition: PartitionId, node: int) -> list[Record]:
    return [one for batch in world.disks[node].logs[partition].batches for one in decode_records(batch)]


# -- what stays --------------------------------------------------------------------------------------------


def test_R24_the_last_message_of_a_subject_leaves_a_marker() -> None:
    world, partition = marking()
    put(world, partition, "a1", "b", "a1")
    assert shows(world, partition, _1="b", _3="A")
    world.run(3.0)
    assert shows(world, partition, _1="b", _3="A"), "one, and no more"
    marker = stored(world, partition, world.leader(partition))[3]
    assert (marker.subject, marker.value) == (b"orders.a", b"")
    assert marker.headers == block(
        "Nats-Marker-Reason: MaxAge",
        "Nats-TTL: 3600",
        "Nats-Rollup: sub",
        "Nats-Expected-Last-Subject-Sequence: 3",
    )
    assert marks(world, partition)["R24.marked"] == 1


def test_R24_where_another_message_remains_there_is_none() -> None:
    world, partition = marking()
    put(world, partition, "a", "a1", "b1", "b")
    assert shows(world, partition, _0="a", _3="b")
    world.run(2.0)
    assert shows(world, partition, _0="a", _3="b")
    assert "R24.marked" not in marks(world, partition)


def test_R24_a_marker_goes_after_its_time_and_leaves_none() -> None:
    world, partition = marking(1000)
    put(world, partition, "a1")
    assert shows(world, partition, _1="A")
    assert shows(world, partition)
    world.run(2.0)
    assert shows(world, partition) and world.replica(world.leader(partition), partition).leo == 2


def test_R24_the_mutant_of_markers_of_markers() -> None:
    world, partition = marking(1000, mutants=Mutants(marker_of_marker=True))
    put(world, partition, "a1")
    assert shows(world, partition, _2="A")


def test_R24_what_goes_for_its_age_leaves_one_too() -> None:
    world, partition = marking(age_ms=60_000)
    put(world, partition, "a", "b", "a", ago_ms=59_000)
    put(world, partition, "b")
    assert shows(world, partition, _3="b", _4="A")


def test_R24_a_key_that_was_purged_leaves_none() -> None:
    world, partition = marking()
    leader, epoch = world.subscriptions[partition]
    purged = Message(b"orders.a", b"", block("KV-Operation: PURGE", "Nats-TTL: 1"), b"0")
    world.step(leader, Published(partition, epoch, [purged], WALL_START_MS + int(world.now * 1000)))
    world.run(0.5)
    assert shows(world, partition, _0="A")
    assert shows(world, partition) and world.replica(leader, partition).leo == 1


def test_R24_a_subject_that_others_match_leaves_none() -> None:
    """NATS hands on a message to `orders.*`, which no message can roll up."""
    world, partition = marking()
    put(world, partition, "*1")
    world.run(0.5)
    assert shows(world, partition, _0="*")
    assert shows(world, partition) and not is_literal(b"orders.*") and is_literal(b"orders.a")


def test_R24_a_deleted_message_leaves_none() -> None:
    world, partition = marking()
    put(world, partition, "a1", "b")
    delete(world, partition, 0)
    assert shows(world, partition, _1="b")
    world.run(2.0)
    assert shows(world, partition, _1="b")


# -- the marker comes first --------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", [False, True])
def test_R24_a_message_is_not_gone_before_its_marker_is_there(mutant: bool) -> None:
    world, partition = marking(mutants=Mutants(marker_beside_entry=mutant))
    put(world, partition, "a1", "b")
    world.drop = lambda sender, to, message: getattr(message, "partition", None) == partition
    world.run(1.5)
    leader = world.leader(partition)
    assert world.replica(leader, partition).leo == 3, "the marker is there, and not committed"
    assert (journal(world, partition).hw > 0) == mutant
    new_leader(world, partition)
    world.drop = lambda sender, to, message: False
    if mutant:
        world.run(3.0)
    assert shows(world, partition, **({"_1": "b"} if mutant else {"_1": "b", "_2": "A"}))


def test_R24_a_marker_that_is_lost_with_its_leader_is_written_by_the_next_one() -> None:
    world, partition = marking()
    put(world, partition, "a1", "b")
    world.drop = lambda sender, to, message: getattr(message, "partition", None) == partition
    world.run(1.5)
    old = new_leader(world, partition)
    world.drop = lambda sender, to, message: False
    assert shows(world, partition, _1="b", _2="A")
    world.restart(old)
    assert world.run_until(lambda: partition.journal in world.nodes[old].replicas)
    world.run(2.0)
    assert shows(world, partition, _1="b", _2="A")


def test_R24_a_marker_that_the_next_leader_has_is_not_written_again() -> None:
    world, partition = marking()
    put(world, partition, "a1", "b")
    world.drop = lambda sender, to, message: message_of_journal(message, partition)
    assert world.run_until(lambda: world.committed(partition, 3))
    new_leader(world, partition)
    world.drop = lambda sender, to, message: False
    world.run(2.0)
    assert shows(world, partition, _1="b", _2="A")


@pytest.mark.parametrize("mutant", [False, True])
def test_R24_what_comes_meanwhile_is_not_taken(mutant: bool) -> None:
    world, partition = marking(mutants=Mutants(marker_unexpected=mutant))
    put(world, partition, "a1", "b")
    one = judging(world, partition)
    assert world.run_until(lambda: one.asked > 0)
    put(world, partition, "a", wait=False)
    world.run(2.0)
    if mutant:
        assert shows(world, partition, _1="b", _3="A")
    else:
        assert shows(world, partition, _1="b", _2="a")


@pytest.mark.parametrize("guard", [False, True])
def test_R24_the_last_one_is_found_out(guard: bool) -> None:
    world, partition = marking(mutants=Mutants(without="" if guard else "R24.last"))
    put(world, partition, "a1", "b")
    if not guard:
        assert shows(world, partition, _1="b")
        return
    assert shows(world, partition, _1="b", _2="A")
    assert marks(world, partition)["R24.last"] == 1


@pytest.mark.parametrize("guard", [False, True])
def test_R24_what_is_on_its_way_does_not_remain(guard: bool) -> None:
    """Of two messages that are over each would go since the other one is there."""
    world, partition = marking(mutants=Mutants(without="" if guard else "R24.on-its-way"))
    put(world, partition, "a", "a", "b")
    one, ctx = judging(world, partition), judging(world, partition)._ctx
    assert world.run_until(lambda: one.offer([Over(0, b"orders.a")]))
    world.drop = lambda sender, to, message: message_of_journal(message, partition)
    world.run(0.1)
    assert journal(world, partition).leo == 1 and journal(world, partition).hw == 0
    assert one.offer([Over(1, b"orders.a")]) == (not guard)
    assert not guard or ctx.marks["R24.on-its-way"] == 1
    world.run(0.1)
    world.drop = lambda sender, to, message: False
    assert shows(world, partition, **({"_1": "a", "_2": "b"} if guard else {"_2": "b"}))


@pytest.mark.parametrize("guard", [False, True])
def test_R24_nor_does_what_was_written_meanwhile(guard: bool) -> None:
    world, partition = marking(mutants=Mutants(without="" if guard else "R24.meanwhile"))
    put(world, partition, "a", "a", "b")
    one = judging(world, partition)
    assert world.run_until(lambda: one.offer([Over(0, b"orders.a")]))
    world.ask(world.leader(partition), DeleteMessageRequest(partition, 1))
    world.run(1.0)
    assert shows(world, partition, **({"_0": "a", "_2": "b"} if guard else {"_2": "b"}))
    assert not guard or marks(world, partition)["R24.meanwhile"] == 1


def test_R24_what_cannot_be_judged_now_is_offered_again() -> None:
    world, partition = marking()
    put(world, partition, "a", "b")
    one = judging(world, partition)
    assert not one.offer([])
    assert world.run_until(lambda: one.offer([Over(0, b"orders.a")]))
    assert not one.offer([Over(1, b"orders.b")])
    one.behind(SubjectsFolded(partition, one.asked, 0, False))
    assert not one.asked
    assert world.run_until(lambda: one.offer([Over(0, b"orders.a")]))
    one.told(LastsTold(partition, one.asked, 0, [], [], "no such thing"))
    assert not one.asked
    world.run(1.0)
    assert shows(world, partition, _0="a", _1="b")


def test_R24_a_stream_that_is_read_only_marks_nothing() -> None:
    world, partition = marking()
    put(world, partition, "a1")
    world.answer(1, AlterStreamRequest("orders", StreamChanges(read_only=True)))
    world.run(2.0)
    assert shows(world, partition, _0="a")
    world.answer(1, AlterStreamRequest("orders", StreamChanges(read_only=False)))
    assert shows(world, partition, _1="A")


def test_R24_a_paused_stream_goes_on_marking() -> None:
    world, partition = marking()
    put(world, partition, "a1")
    world.answer(1, AlterStreamRequest("orders", StreamChanges(paused=True)))
    assert shows(world, partition, _1="A")


def test_R24_markers_can_be_switched_on_and_off() -> None:
    world, partition = marking()
    world.answer(1, AlterStreamRequest("orders", StreamChanges(marker_ttl_ms=0)))
    put(world, partition, "a1")
    assert shows(world, partition)
    world.answer(1, AlterStreamRequest("orders", StreamChanges(marker_ttl_ms=2500)))
    put(world, partition, "b1")
    assert shows(world, partition, _2="B")
    assert shows(world, partition)


# -- what is said and refused ------------------------------------------------------------------------------


@given(st.integers(1000, 10**12), st.integers(0, 10**15))
def test_R24_a_marker_is_read_as_what_it_is(stays_ms: int, offset: int) -> None:
    marker = marker_of(b"a", offset, stays_ms)
    wishes = read_block(marker.headers, "orders", Terms(rolls_up=True, ttl=ANY))
    assert wishes.refusal is None and wishes.expected_last == offset and wishes.rolls_up
    assert stored_lifetime(marker.headers) == stays_ms and rolled_up_by(marker.headers) == b"sub"
    assert is_marker(marker.headers) and marker.reply == b""


def test_R24_what_leaves_a_marker() -> None:
    plain = Record(3, 0, b"a", b"", block("Nats-TTL: 1"), None, b"x")
    marker = Record(4, 0, b"a", b"", block("Nats-Marker-Reason: Remove"), None, b"")
    assert over(plain, every=False) == Over(3, b"a") and over(marker, every=False) == Over(4, b"")
    assert over(marker, every=True) == Over(4, b"a")
    assert not is_marker(b"") and not is_marker(block("KV-Operation: DEL"))


def test_R24_which_streams_may_leave_markers() -> None:
    config = StreamConfig(
        "s", "s", 1, 3, removal=True, allow_ttl=True, allow_rollup=True, marker_ttl_ms=60_000
    )
    assert limits_problem(config) == "" and marker_ms(config) == 60_000
    off = altered(config, StreamChanges(marker_ttl_ms=0))
    assert off.marker_ttl_ms is UNSET and marker_ms(off) == 0
    assert describe_alteration(config, off) == "marker_ttl_ms 60000 -> none"
    for name in ("allow_ttl", "allow_rollup"):
        assert name in alteration_problem(config, StreamChanges(**{name: False}))
    assert "messages_max" in alteration_problem(config, StreamChanges(messages_max=10))
    assert "1000" in alteration_problem(config, StreamChanges(marker_ttl_ms=999))
    assert altered(config, StreamChanges(sealed=True)).marker_ttl_ms is UNSET
