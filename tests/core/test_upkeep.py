"""Retention, purge and compaction as the protocol sees them: whole nodes with a pretended storage."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.metadata.limits import limits_problem
from liftlog.core.replica.publishing.keys import encode
from liftlog.format import decode_records
from liftlog.messages import (
    Compacted,
    CompactLog,
    ConfigureLog,
    ErrorReply,
    Fetch,
    FetchReply,
    LogRead,
    MoveLogStart,
    OffsetReply,
    OffsetRequest,
    PurgeRequest,
    ReadReply,
    ReadRequest,
    Received,
    RetainLog,
    StorageFailed,
)
from liftlog.mutants import Mutants
from liftlog.options.reading import read
from liftlog.options.wishes import NO_WISHES
from liftlog.types import EpochStart, LogOptions, Message, PartitionId, StreamConfig
from tests.core.node_harness import World

NEVER_MS = 3_600_000
QUICK = {"retention_check_ms": 500, "compaction_check_ms": 500, "scrub_bytes_per_s": 0}


def keyed(key: bytes, tombstone: bool = False) -> bytes:
    deletion = b"Liftlog-Tombstone: 1\r\n" if tombstone else b""
    return b"NATS/1.0\r\nLiftlog-Key: %s\r\n%s\r\n" % (key, deletion)


def others(world: World, partition: PartitionId) -> list[int]:
    return [node for node in world.nodes if node != world.leader(partition)]


def put(world: World, partition: PartitionId, value: bytes, **how: Any) -> None:
    """Publish one message as a batch of its own and wait until it is committed everywhere."""
    replica = world.replica(world.leader(partition), partition)
    end = replica.leo + 1
    assert world.publish(partition, value, **how)
    assert world.run_until(lambda: world.committed(partition, end))


def ready(values: int, world: World | None = None, **settings: Any) -> tuple[World, PartitionId]:
    """A cluster with one stream of `values` committed batches of one record each."""
    world = world or World(**QUICK)
    partition = world.create(**settings)
    for number in range(values):
        put(world, partition, b"%d" % number)
    return world, partition


def starts(world: World, partition: PartitionId) -> dict[int, int]:
    return {node: world.replica(node, partition).log_start for node in world.nodes}


def jobs_of(world: World, kind: type[Any]) -> list[Any]:
    """From here on, the storage jobs of one kind, as they are given out."""
    seen: list[Any] = []
    store = world._store

    def record(node: int, job: Any) -> None:
        if isinstance(job, kind):
            seen.append(job)
        store(node, job)

    world._store = record  # type: ignore[method-assign]
    return seen


# -- options -----------------------------------------------------------------------------------------


def test_a_log_is_opened_with_its_streams_options_and_told_of_them_after_a_restart() -> None:
    world, partition = ready(1, segment_records=7, durability="os")
    wanted = LogOptions(segment_records=7, durability="os")
    assert [world.options[node, partition] for node in (1, 2, 3)] == [wanted] * 3
    seen = jobs_of(world, ConfigureLog)
    world.kill(2)
    world.restart(2)
    assert world.run_until(lambda: bool(seen))
    assert seen == [ConfigureLog(partition, wanted)]


# -- keys (L1) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (b"", (None, False)),
        (keyed(b"a"), (b"a", False)),
        (keyed(b"a", tombstone=True), (b"a", True)),
        (b"NATS/1.0\r\nlIFTLOG-kEY:  a b \r\n\r\n", (b"a b", False)),
        (b"NATS/1.0 503\r\nLiftlog-Key: a\r\n\r\n", (b"a", False)),
        (b"NATS/1.0\r\nLiftlog-Key: a\r\nLiftlog-Key: b\r\n\r\n", (b"a", False)),
        (b"NATS/1.0\r\nLiftlog-Key:\r\n\r\n", (b"", False)),
        (b"NATS/1.0\r\nLiftlog-Key: a\r\nLiftlog-Tombstone: \r\n\r\n", (b"a", False)),
        (b"NATS/1.0\r\nLiftlog-Tombstone: 1\r\n\r\n", (None, False)),
        (b"NATS/1.0\r\nX: Liftlog-Key: a\r\n\r\n", (None, False)),
        (b"NATS/2.0\r\nLiftlog-Key: a\r\n\r\n", (None, False)),
        (b"NATS/1.0\r\nLiftlog-Key: a\r\n", (None, False)),
        (b"NATS/1.0\r\nLiftlog-Key: a\r\nno colon\r\n\r\n", (None, False)),
        (b"NATS/1.0\r\nLiftlog-Key : a\r\n\r\n", (None, False)),
        (b"NATS/1.0\r\n: a\r\nLiftlog-Key: a\r\n\r\n", (None, False)),
        (b"\xff\xfeLiftlog-Key\x00", (None, False)),
    ],
)
def test_L1_a_key_is_taken_from_well_formed_headers_only(
    headers: bytes, expected: tuple[bytes | None, bool]
) -> None:
    (wish,) = read([Message(b"s", b"", headers, b"")], "s") or [NO_WISHES]
    assert (wish.key, wish.tombstone) == expected


def test_L1_keys_and_tombstones_stand_in_the_records_and_offsets_stay_contiguous() -> None:
    messages = [
        Message(b"s", b"r", keyed(b"a"), b"1"),
        Message(b"s", b"", b"", b"2"),
        Message(b"s", b"", keyed(b"a", tombstone=True), b"gone"),
        Message(b"s", b"", b"NATS/1.0\r\nOther: x\r\n\r\n", b"3"),
    ]
    records = decode_records(encode(PartitionId(4, 0), 10, 2, 99, messages, read(messages, "s")))
    assert [(record.offset, record.key, record.value) for record in records] == [
        (10, b"a", b"1"),
        (11, None, b"2"),
        (12, b"a", None),
        (13, None, b"3"),
    ]
    assert [record.headers for record in records] == [message.headers for message in messages]
    assert {record.timestamp_ms for record in records} == {99}


# -- retention (C3) ----------------------------------------------------------------------------------


def test_C3_the_leader_retains_and_followers_take_over_its_log_start() -> None:
    world, partition = ready(10, retention_messages=3)
    assert world.run_until(lambda: set(starts(world, partition).values()) == {7})
    refused = world.answer(others(world, partition)[0], ReadRequest(partition, 6))
    assert (refused.code, refused.retryable) == ("offset-out-of-range", False)
    assert isinstance(world.answer(world.leader(partition), ReadRequest(partition, 7)), ReadReply)
    earliest = world.answer(others(world, partition)[1], OffsetRequest(partition, "earliest"))
    assert earliest.offset == 7


def test_C3_retention_never_passes_the_hw() -> None:
    world, partition = ready(2, retention_messages=1)
    for node in others(world, partition):
        world.hold_storage(node)
    for value in (b"x", b"y", b"z"):
        world.publish(partition, value)
        world.run(0.1)
    seen = jobs_of(world, RetainLog)
    world.run(1.5)
    assert seen, "it goes on checking"
    assert {job.limit for job in seen} == {2}
    assert max(starts(world, partition).values()) <= 2


def test_C3_a_follower_never_moves_its_log_start_beyond_what_it_has_durably() -> None:
    world, partition = ready(4)
    slow = others(world, partition)[0]
    world.hold_storage(slow)
    for number in range(4):
        world.publish(partition, b"more %d" % number)
        world.run(0.1)
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: leader.hw == 8, 20), "the others commit without it"
    seen = jobs_of(world, MoveLogStart)
    world.ask(world.leader(partition), PurgeRequest(partition, 8))
    world.run(1.0)
    moved = world.replica(slow, partition)
    assert moved.durable_leo == 4
    assert moved.log_start == 4
    world.release_storage(slow)
    assert world.run_until(lambda: moved.log_start == 8)
    assert all(job.offset <= 8 for job in seen)


def purged_past_a_follower() -> tuple[World, PartitionId, int]:
    """Offsets 0 to 8, purged below 6 while a follower with 0 to 3 was away; its number is the last value."""
    world, partition = ready(3)
    behind = others(world, partition)[0]
    world.kill(behind)
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: behind not in leader.isr)
    assert world.run_until(lambda: partition in world.subscriptions)
    for number in range(5):
        world.publish(partition, b"more %d" % number)
        world.run(0.2)
    assert world.run_until(lambda: leader.hw == 8)
    assert world.answer(world.leader(partition), PurgeRequest(partition, 6)).detail
    world.restart(behind)
    return world, partition, behind


def test_C3_a_follower_below_the_leaders_log_start_begins_again_there() -> None:
    world, partition, behind = purged_past_a_follower()
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: behind in leader.isr)
    replica = world.replica(behind, partition)
    assert world.nodes[behind].marks["C3.reset"] == 1
    assert (replica.log_start, replica.leo) == (6, 8)
    assert world.values(behind, partition) == [b"more 3", b"more 4"]
    # R6: it knows the epoch of the record before its first one, and so does its next run.
    world.kill(behind)
    world.restart(behind)
    assert world.run_until(lambda: behind in leader.isr and partition in world.nodes[behind].replicas)
    assert world.replica(behind, partition).history.epoch_before(6) == leader.history.epoch_before(6) > 0
    assert world.nodes[behind].marks.get("C3.reset", 0) == 0


def fail_last_write(world: World, node: int, partition: PartitionId) -> tuple[int, int]:
    """The sync of the newest write fails; (epoch, LEO) that the node tells the group then."""
    replica = world.replica(node, partition)
    ticket = replica.pending[-1][0]
    world.step(node, StorageFailed(partition, ticket, True, "no space left on device"))
    told = replica.log.confession.said
    assert told is not None
    return told.epoch, told.leo


def test_R14_a_reset_that_fails_is_told_with_the_epoch_of_what_may_be_there_yet() -> None:
    """Found in seed 960: it told that its copy reaches offset 3 with a record of no epoch."""
    world, partition, behind = purged_past_a_follower()
    assert world.run_until(lambda: world.nodes[behind].marks.get("C3.reset", 0) > 0)
    assert fail_last_write(world, behind, partition) == (1, 3)


def test_R14_two_resets_in_a_row_that_fail_are_told_with_the_epoch_of_what_was_there_first() -> None:
    world, partition, behind = purged_past_a_follower()
    assert world.run_until(lambda: world.nodes[behind].marks.get("C3.reset", 0) > 0)
    world.replica(behind, partition).log.reset(9, (EpochStart(1, 0), EpochStart(2, 2)))
    assert fail_last_write(world, behind, partition) == (1, 3)


def test_R14_a_reset_to_nothing_that_fails_claims_no_record() -> None:
    """With the old epoch it would stand before every copy that has records of an earlier one."""
    world, partition = ready(3)
    behind = others(world, partition)[0]
    world.replica(behind, partition).log.reset(0, (), consent=True)
    assert fail_last_write(world, behind, partition) == (0, 0)


def test_R14_after_a_reset_is_done_its_epoch_is_told_and_not_that_of_what_it_gave_up() -> None:
    world, partition = ready(3)
    behind = others(world, partition)[0]
    replica = world.replica(behind, partition)
    replica.log.reset(2, (EpochStart(3, 1),), consent=True)
    replica.durable(replica.pending[-1][0])
    replica.log.truncate(2)
    assert fail_last_write(world, behind, partition) == (3, 2)


def test_R6_at_the_log_start_the_epoch_before_it_is_checked() -> None:
    """A follower that ends exactly where the leader begins, with another epoch there, is not a prefix."""
    world, partition = ready(4)
    number = world.leader(partition)
    world.answer(number, PurgeRequest(partition, 4))
    leader = world.replica(number, partition)
    assert leader.log_start == leader.leo == 4
    follower = others(world, partition)[0]
    incarnation = world.nodes[follower].incarnation
    own = leader.history.epoch_before(4)
    seen: list[FetchReply] = []

    def record(sender: int, to: int, message: Any) -> bool:
        if isinstance(message, FetchReply) and message.request >= 900:
            seen.append(message)
        return False

    world.drop = record
    for request, offset, last in ((901, 4, own), (902, 4, own + 7), (903, 3, own), (904, 4, 0)):
        fetch = Fetch(partition, leader.epoch, incarnation, request, offset, 0, last, 1000)
        world.step(number, Received(follower, fetch))
        world.run(0.7)
    statuses = {reply.request: reply.status for reply in seen}
    assert statuses == {901: 0, 902: 1, 903: 5, 904: 1}


def test_R6_a_leader_that_does_not_know_the_epoch_before_its_start_lets_the_follower_begin_there() -> None:
    world, partition = ready(4)
    number = world.leader(partition)
    world.answer(number, PurgeRequest(partition, 4))
    leader = world.replica(number, partition)
    leader.history.entries.clear()
    follower = others(world, partition)[0]
    replica = world.replica(follower, partition)
    assert world.run_until(lambda: world.nodes[follower].marks.get("C3.reset", 0) > 0)
    world.publish(partition, b"on")
    assert world.run_until(lambda: replica.hw == 5)
    assert world.nodes[follower].marks["C3.reset"] == 1, "once is enough"


# -- purge (C3, R10) ---------------------------------------------------------------------------------


def test_C3_a_purge_is_done_when_the_whole_isr_has_the_log_start() -> None:
    world, partition = ready(5)
    slow = others(world, partition)[0]
    world.drop = lambda sender, to, message: to == slow and isinstance(message, FetchReply)
    leader = world.leader(partition)
    number = world.ask(leader, PurgeRequest(partition, 3))
    world.run(1.0)
    assert number not in world.replies
    assert world.replica(leader, partition).log_start == 3
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: number in world.replies)
    assert not isinstance(world.replies[number], ErrorReply)
    assert set(starts(world, partition).values()) == {3}


def test_C3_a_purge_is_never_undone_by_an_election() -> None:
    world, partition = ready(5)
    first = world.leader(partition)
    world.answer(first, PurgeRequest(partition, 4))
    world.kill(first)
    assert world.run_until(lambda: world.leader(partition) not in (0, first))
    reply = world.answer(world.leader(partition), ReadRequest(partition, 0))
    assert reply.code == "offset-out-of-range"


def test_C3_a_purge_again_is_answered_at_once_and_one_above_the_hw_is_refused() -> None:
    world, partition = ready(5)
    leader = world.leader(partition)
    world.answer(leader, PurgeRequest(partition, 3))
    assert not isinstance(world.answer(leader, PurgeRequest(partition, 2), 0.5), ErrorReply)
    refused = world.answer(leader, PurgeRequest(partition, 6))
    assert (refused.code, refused.retryable) == ("offset-out-of-range", False)
    assert world.answer(leader, PurgeRequest(partition, -1)).code == "invalid"
    elsewhere = world.answer(others(world, partition)[0], PurgeRequest(partition, 4))
    assert (elsewhere.code, elsewhere.leader) == ("not-leader", leader)


def test_C3_below_the_minimum_no_purge_is_done_and_a_leader_change_says_retry() -> None:
    world, partition = ready(5)
    leader = world.leader(partition)
    for node in others(world, partition):
        world.kill(node)
    number = world.ask(leader, PurgeRequest(partition, 4))
    world.run(9.0)
    assert number not in world.replies, "who is elected next may not have it"
    for node in (1, 2, 3):
        if node != leader:
            world.restart(node)
    assert world.run_until(lambda: number in world.replies)
    reply = world.replies[number]
    assert not isinstance(reply, ErrorReply) or reply.retryable


def test_C3_whoever_waits_for_a_purge_when_the_leader_steps_down_is_told_to_ask_again() -> None:
    world, partition = ready(5)
    leader = world.leader(partition)
    world.drop = lambda sender, to, message: isinstance(message, FetchReply)
    number = world.ask(leader, PurgeRequest(partition, 4))
    world.run(0.3)
    world.nodes[leader].replicas[partition].roles.leader.resign()  # type: ignore[union-attr]
    assert world.run_until(lambda: number in world.replies)
    assert (world.replies[number].code, world.replies[number].retryable) == ("not-leader", True)


def test_R10_a_replica_joins_only_with_the_leaders_log_start() -> None:
    world, partition = ready(5)
    joiner = others(world, partition)[0]
    leader = world.replica(world.leader(partition), partition)
    world.kill(joiner)
    assert world.run_until(lambda: joiner not in leader.isr and partition in world.subscriptions)
    world.answer(world.leader(partition), PurgeRequest(partition, 5))
    store = world._store

    def no_moves(node: int, job: Any) -> None:
        if node != joiner or not isinstance(job, MoveLogStart):
            store(node, job)

    world._store = no_moves  # type: ignore[method-assign]
    world.restart(joiner)
    assert world.run_until(lambda: partition in world.nodes[joiner].replicas)
    world.run(5.0)
    assert world.replica(joiner, partition).durable_leo == leader.hw == 5
    assert joiner not in leader.isr, "an election would bring back what was purged"


# -- compaction (C1, C2) -----------------------------------------------------------------------------


def compacted(world: World, partition: PartitionId, values: dict[bytes, bytes]) -> None:
    """Publish these and wait until every replica has compacted everything but the last batch."""
    for key, value in values.items():
        put(world, partition, value, headers=keyed(key))
    end = world.replica(world.leader(partition), partition).hw - 1
    assert world.run_until(
        lambda: all(world.replica(node, partition).log.clean_point >= end for node in world.nodes)
    )


def test_C1_every_replica_compacts_its_own_copy_below_its_hw() -> None:
    world = World(**QUICK)
    partition = world.create(compact=True)
    jobs = jobs_of(world, CompactLog)
    for number in range(6):
        put(world, partition, b"%d" % number, headers=keyed(b"k"))
    assert world.run_until(
        lambda: all(world.replica(node, partition).log.clean_point == 5 for node in world.nodes)
    )
    assert all(world.values(node, partition) == [b"4", b"5"] for node in world.nodes)
    assert all(job.below <= 6 for job in jobs)


def test_C1_what_is_not_committed_is_not_compacted() -> None:
    world = World(**QUICK)
    partition = world.create(compact=True)
    for number in range(3):
        put(world, partition, b"%d" % number, headers=keyed(b"k"))
    for node in others(world, partition):
        world.hold_storage(node)
    for number in range(3, 6):
        world.publish(partition, b"%d" % number, headers=keyed(b"k"))
        world.run(0.1)
    jobs = jobs_of(world, CompactLog)
    world.run(1.5)
    leader = world.replica(world.leader(partition), partition)
    assert leader.leo == 6
    assert jobs
    assert all(job.below <= 3 for job in jobs)


def test_C1_compaction_keeps_to_its_rate() -> None:
    world = World(**{**QUICK, "compaction_bytes_per_s": 512 * 1024})
    world.create(compact=True)
    spent: dict[int, int] = dict.fromkeys(world.nodes, 0)
    store = world._store

    def never_done(node: int, job: Any) -> None:
        if isinstance(job, CompactLog):
            spent[node] += job.max_bytes
            world.post(node, Compacted(job.log, False, 0, 0), 0.001)
        else:
            store(node, job)

    world._store = never_done  # type: ignore[method-assign]
    world.run(10.0)
    assert all(4 * 1024 * 1024 < bytes_ <= 5.25 * 1024 * 1024 for bytes_ in spent.values()), spent


def test_C2_tombstones_go_only_when_every_replica_has_compacted_past_them() -> None:
    world = World(**QUICK)
    partition = world.create(compact=True, tombstone_retention_ms=0)
    put(world, partition, b"old", headers=keyed(b"k"))
    down = others(world, partition)[0]
    world.kill(down)
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: down not in leader.isr and partition in world.subscriptions)
    for value, headers in ((b"", keyed(b"k", tombstone=True)), (b"x", b""), (b"y", b"")):
        end = leader.leo + 1
        world.publish(partition, value, headers=headers)
        assert world.run_until(lambda end=end: leader.hw >= end)  # type: ignore[misc]
    assert world.run_until(lambda: leader.log.clean_point >= 2)
    world.run(3.0)
    assert leader.log.tombstones_below == 0
    assert None in world.values(world.leader(partition), partition), "the absent one still has the value"
    world.restart(down)
    assert world.run_until(lambda: leader.log.dropped_below == 2, 60)
    assert world.run_until(
        lambda: all(
            None not in world.values(node, partition) and b"old" not in world.values(node, partition)
            for node in world.nodes
        ),
        60,
    )


def test_C2_a_wiped_copy_counts_as_not_compacted_until_it_says_otherwise() -> None:
    world = World(**QUICK)
    partition = world.create(compact=True)
    compacted(world, partition, {b"a": b"1", b"b": b"2", b"c": b"3"})
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: leader.log.horizon() >= 2)  # type: ignore[union-attr]
    node = others(world, partition)[0]
    world.kill(node)
    world.restart(node)
    assert world.run_until(lambda: world.nodes[node].incarnation > 0)
    progress = leader.leading.followers.get(node)  # type: ignore[union-attr]
    assert progress is None or progress.clean_point == 0
    assert leader.log.tombstones_below >= 2, "what has once been so on all copies stays so"


def test_C2_what_is_compacted_is_not_served_from_memory_any_more() -> None:
    """Regression: a wiped follower got an old value from the leader's cache, and its tombstone was dropped
    before the follower came to it.
    """
    world = World(**QUICK)
    partition = world.create(compact=True)
    for number in range(4):
        put(world, partition, b"%d" % number, headers=keyed(b"k"))
    assert world.run_until(
        lambda: all(world.replica(node, partition).log.clean_point == 3 for node in world.nodes)
    )
    for node in world.nodes:
        replica = world.replica(node, partition)
        assert [batch.base_offset for batch in replica.log.cache.batches] == [3]
        assert replica.log.cache.size_bytes == len(replica.log.cache.batches[0].data)
        reply = world.answer(node, ReadRequest(partition, 0))
        records = [record.offset for data in reply.batches for record in decode_records(data)]
        assert records == [2, 3], "readers get the compacted log, too"


# -- readers (C4) ------------------------------------------------------------------------------------


def test_C4_a_reader_that_is_overtaken_by_dropped_tombstones_is_told_to_begin_again() -> None:
    world, partition = ready(5, World(**{**QUICK, "compaction_check_ms": NEVER_MS}), compact=True)
    leader = world.leader(partition)
    replica = world.replica(leader, partition)
    first = world.answer(leader, ReadRequest(partition, 0, max_bytes=1))
    assert (first.dropped_below, first.next_offset) == (0, 1)
    replica.log.dropped_below = 3
    told = world.answer(leader, ReadRequest(partition, 1, seen_dropped=first.dropped_below))
    assert (told.code, told.retryable) == ("compacted-past-start", False)
    assert "compacted past your start, restart" in told.description
    past = world.answer(leader, ReadRequest(partition, 3, seen_dropped=first.dropped_below))
    assert isinstance(past, ReadReply), "it has passed the place"
    again = world.answer(leader, ReadRequest(partition, 0, seen_dropped=3))
    assert isinstance(again, ReadReply), "it began after they were dropped"
    assert isinstance(world.answer(leader, ReadRequest(partition, 1)), ReadReply), "it does not mind"


def test_C4_tombstones_dropped_while_storage_reads_are_noticed() -> None:
    world, partition = ready(5, World(**{**QUICK, "compaction_check_ms": NEVER_MS}), compact=True)
    leader = world.leader(partition)
    replica = world.replica(leader, partition)
    replica.log.cache.clear()
    number = world.ask(leader, ReadRequest(partition, 1, seen_dropped=0))
    assert world.run_until(lambda: bool(replica.readers.reads))
    replica.log.dropped_below = 3
    assert world.run_until(lambda: number in world.replies)
    assert world.replies[number].code == "compacted-past-start"


def test_C4_a_copy_with_holes_says_that_tombstones_are_gone_as_far_as_its_leader_does() -> None:
    world = World(**QUICK)
    partition = world.create(compact=True)
    behind = others(world, partition)[0]
    put(world, partition, b"first", headers=keyed(b"z"))
    world.kill(behind)
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: behind not in leader.isr and partition in world.subscriptions)
    compacted(world, partition, {b"a": b"1", b"b": b"2", b"c": b"3"})
    compacted(world, partition, {b"a": b"4", b"b": b"5", b"c": b"6"})
    leader.log.cache.clear()
    world.restart(behind)
    assert world.run_until(lambda: behind in leader.isr)
    replica = world.replica(behind, partition)
    assert None in world.values(behind, partition) or len(world.values(behind, partition)) < replica.leo
    assert replica.log.dropped_below == min(leader.log.dropped_below, replica.leo) == 0


def test_C4_a_reader_that_began_on_a_copy_with_holes_hears_of_what_is_dropped_later() -> None:
    """Found by the model (variant holes-count-as-dropped): a copy took the end of a hole for the end of what
    was dropped. A reader that began there was not told when a tombstone below that went."""
    world = World(**QUICK)
    partition = world.create(compact=True, tombstone_retention_ms=0)
    frozen = set(world.nodes)
    store = world._store

    def freeze(node: int, job: Any) -> None:
        if isinstance(job, CompactLog) and node in frozen:
            copy = world.replica(node, partition)
            world.post(node, Compacted(job.log, True, copy.log.clean_point, copy.log.dropped_below), 0.001)
        else:
            store(node, job)

    world._store = freeze  # type: ignore[method-assign]
    put(world, partition, b"old", headers=keyed(b"a"))
    put(world, partition, b"", headers=keyed(b"a", tombstone=True))
    behind = others(world, partition)[0]
    world.kill(behind)
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: behind not in leader.isr and partition in world.subscriptions)
    for number in range(5):
        put(world, partition, b"%d" % number, headers=keyed(b"b"))
    frozen.clear()
    frozen.add(behind)
    assert world.run_until(lambda: leader.log.clean_point >= 5)
    leader.log.cache.clear()
    world.restart(behind)
    assert world.run_until(lambda: behind in leader.isr)
    first = world.answer(behind, ReadRequest(partition, 0, max_bytes=1))
    assert isinstance(first, ReadReply)
    copy = world.replica(behind, partition)
    frozen.clear()
    assert world.run_until(lambda: copy.log.dropped_below > first.dropped_below, 60)
    assert None not in world.values(behind, partition), "the tombstone is gone"
    then = world.answer(behind, ReadRequest(partition, 1, seen_dropped=first.dropped_below))
    assert isinstance(then, ErrorReply) and then.code == "compacted-past-start"


# -- different batches on different replicas (C5) ----------------------------------------------------


def merged(mutants: Mutants | None = None) -> tuple[World, PartitionId, int]:
    """A leader that has merged [0, 5), and a follower with offsets 0 and 1 only, which is down."""
    world = World(mutants=mutants or Mutants(), **QUICK)
    partition = world.create(compact=True)
    behind = others(world, partition)[0]
    for number in range(2):
        put(world, partition, b"%d" % number, headers=keyed(b"a%d" % number))
    world.kill(behind)
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: behind not in leader.isr and partition in world.subscriptions)
    for number in range(2, 6):
        put(world, partition, b"%d" % number, headers=keyed(b"b"))
    assert world.run_until(
        lambda: all(world.replica(node, partition).log.clean_point == 5 for node in world.nodes)
    )
    leader.log.cache.clear()
    assert [batch.count for batch in world.disks[world.leader(partition)].logs[partition].batches] == [5, 1]
    return world, partition, behind


def test_C5_a_follower_goes_on_inside_a_batch_that_its_leader_has_merged() -> None:
    world, partition, behind = merged()
    world.restart(behind)
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: behind in leader.isr)
    assert world.nodes[behind].marks["C5.cut"] >= 1
    assert world.replica(behind, partition).leo == 6
    log = world.disks[behind].logs[partition]
    records = [record for batch in log.batches for record in decode_records(batch)]
    assert [(record.offset, record.value) for record in records][-2:] == [(4, b"4"), (5, b"5")]


def test_C5_mutant_44_renumbers_the_records_behind_a_hole() -> None:
    world, partition, behind = merged(Mutants(compacted_hole_out_of_range=True))
    world.restart(behind)
    world.run(3.0)
    log = world.disks[behind].logs[partition]
    records = [record for batch in log.batches for record in decode_records(batch)]
    assert [(record.offset, record.value) for record in records][:2] == [(2, b"0"), (3, b"1")], (
        "what lay at offsets 0 and 1 is found at 2 and 3"
    )


def test_C5_a_hw_inside_a_batch_is_never_passed_by_a_reader() -> None:
    world, partition, _ = merged()
    number = world.leader(partition)
    replica = world.replica(number, partition)
    assert replica.hw == 6
    replica.log.hw = 3
    reply = world.answer(number, ReadRequest(partition, 0))
    assert (reply.hw, reply.next_offset) == (3, 3)
    records = [record for data in reply.batches for record in decode_records(data)]
    assert [(record.offset, record.value) for record in records] == [(0, b"0"), (1, b"1")]
    assert world.nodes[number].marks["C5.hw-inside"] == 1
    # The same out of memory.
    log = world.disks[number].logs[partition]
    replica.log.cache.add(list(log.batches))
    cached = world.answer(number, ReadRequest(partition, 0))
    assert (cached.next_offset, cached.batches) == (3, reply.batches)
    assert world.nodes[number].marks["C5.hw-inside"] == 1


def test_a_read_below_a_log_start_that_moved_meanwhile_says_so() -> None:
    world, partition = ready(4)
    number = world.leader(partition)
    replica = world.replica(number, partition)
    replica.log.cache.clear()
    asked = world.ask(number, ReadRequest(partition, 1))
    assert world.run_until(lambda: bool(replica.readers.reads))
    request = next(iter(replica.readers.reads))
    replica.log.start_moved(3)
    world.step(number, LogRead(partition, request, [], "below the log start"))
    assert world.replies[asked].code == "offset-out-of-range"


def test_the_log_start_of_a_client_never_lies_above_what_offsets_are_told() -> None:
    world, partition = ready(4)
    number = world.leader(partition)
    world.answer(number, PurgeRequest(partition, 4))
    for what, offset in (("earliest", 4), ("latest", 4), ("new", 4), ("time", 4)):
        reply = world.answer(number, OffsetRequest(partition, what))
        assert isinstance(reply, OffsetReply)
        assert reply.offset == offset, what


def test_a_streams_default_configuration_is_accepted() -> None:
    assert limits_problem(StreamConfig("a", "a", replication_factor=1)) == ""
