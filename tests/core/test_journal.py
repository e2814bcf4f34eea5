"""Two logs of a partition under one record (R2, R10, R11, R14), and messages deleted by the second (R21)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import TailReport
from liftlog.core.metadata.pairs import found_of
from liftlog.core.metadata.records import LastKnown, PartitionState, StreamState
from liftlog.core.metadata.standins import greatest_last_known
from liftlog.core.replica.removal.entries import RUNS_MAX, BadEntry, decode_removed, encode_removed
from liftlog.format import decode_records, encode_values
from liftlog.messages import (
    ERR_NOT_READY,
    LAST_OF_SUBJECT,
    AlterStreamRequest,
    DeleteMessageRequest,
    DeleteStreamRequest,
    ErrorReply,
    Event,
    Fetch,
    FetchProgress,
    LogRead,
    MessageDeleted,
    OffsetRequest,
    PurgeRequest,
    ReadReply,
    ReadRequest,
    StreamChanges,
    SubjectRequest,
    VisibleReadReply,
    VisibleReadRequest,
)
from liftlog.mutants import Mutants
from liftlog.types import NUMBER_MAX, OffsetRange, PartitionId, StreamConfig, TailState
from tests.core.node_harness import World


def ready(minimum: int = 0, replicas: int = 3, **kwargs: Any) -> tuple[World, PartitionId]:
    """A cluster with one stream whose messages can be deleted, on which three are committed everywhere."""
    world = World(**kwargs)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(minimum=minimum, replicas=replicas, removal=True)
    assert world.run_until(lambda: partition in world.subscriptions)
    world.publish(partition, b"a", b"b", b"c")
    assert world.run_until(lambda: world.committed(partition, 3))
    return world, partition


def delete(world: World, partition: PartitionId, offset: int, node: int = 0) -> Any:
    return world.answer(node or world.leader(partition), DeleteMessageRequest(partition, offset))


def visible(
    world: World, partition: PartitionId, node: int, seen: int = 0, offset: int = 0, wait_ms: int = 3000
) -> Any:
    """Values by offset that a node shows from `offset` on; the reply if it shows none."""
    reply = world.answer(node, VisibleReadRequest(partition, offset, wait_ms=wait_ms, seen_journal=seen))
    if not isinstance(reply, VisibleReadReply):
        return reply
    records = [record for frame in reply.batches for record in decode_records(frame)]
    return {record.offset: record.value for record in records if record.offset >= offset}


def offsets(reply: Any) -> list[int]:
    """What a reader was shown."""
    return [record.offset for frame in reply.batches for record in decode_records(frame)]


def others(world: World, partition: PartitionId) -> list[int]:
    return [node for node in world.nodes if node != world.leader(partition)]


def marks(world: World, partition: PartitionId) -> dict[str, int]:
    return world.nodes[world.leader(partition)].marks


# -- deleting ----------------------------------------------------------------------------------------------


def test_r21_a_deleted_message_is_shown_by_no_copy_to_who_has_heard_of_it() -> None:
    world, partition = ready()
    reply = delete(world, partition, 1)
    assert reply == MessageDeleted(partition, 1, 1)
    for node in world.nodes:
        assert visible(world, partition, node, seen=reply.journal) == {0: b"a", 2: b"c"}
        assert world.values(node, partition) == [b"a", b"b", b"c"], "the bytes stay"


def test_r21_to_delete_again_is_answered_and_writes_nothing() -> None:
    world, partition = ready()
    delete(world, partition, 1)
    assert isinstance(delete(world, partition, 1), MessageDeleted)
    assert world.replica(world.leader(partition), partition.journal).leo == 1
    assert marks(world, partition)["R21.again"] == 1


def test_r21_two_who_ask_at_once_share_an_entry() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    asked = [world.ask(leader, DeleteMessageRequest(partition, 1)) for _ in range(2)]
    assert world.run_until(lambda: all(number in world.replies for number in asked))
    assert {world.replies[number].journal for number in asked} == {1}
    assert world.replica(leader, partition.journal).leo == 1


def test_r21_what_is_not_committed_cannot_be_deleted() -> None:
    world, partition = ready()
    for node in others(world, partition):
        world.hold_storage(node)
    world.publish(partition, b"d")
    leader = world.leader(partition)
    assert world.run_until(lambda: world.replica(leader, partition).leo == 4)
    reply = delete(world, partition, 3)
    assert (reply.code, reply.retryable) == ("offset-out-of-range", False)
    assert "not committed" in reply.description
    assert world.nodes[leader].marks["R21.uncommitted"] == 1


def test_r21_a_new_leader_waits_until_what_it_inherited_is_committed() -> None:
    world, partition = ready(minimum=2)
    leader = world.leader(partition)
    for node in others(world, partition):
        world.hold_storage(node)
    world.publish(partition, b"d")
    # The followers have it and have not synced it; the leader falls, and who follows it knows HW 3.
    assert world.run_until(
        lambda: all(world.replica(node, partition).leo == 4 for node in others(world, partition))
    )
    world.kill(leader)
    assert world.run_until(lambda: world.leader(partition) not in (0, leader))
    successor = world.leader(partition)
    reply = delete(world, partition, 0, successor)
    assert (reply.code, reply.retryable) == ("not-ready", True)
    assert world.nodes[successor].marks["R21.inherited"] == 1


def test_r21_other_refusals_say_why() -> None:
    world, partition = ready()
    follower = others(world, partition)[0]
    assert delete(world, partition, 1, follower).code == "not-leader"
    plain = world.create("plain")
    assert world.run_until(lambda: world.leader(plain) != 0)
    reply = delete(world, plain, 0)
    assert reply.code == "invalid" and "stream create --removal" in reply.description
    changes = StreamChanges(read_only=True)
    world.answer(world.leader(partition), AlterStreamRequest("orders", changes))
    assert world.run_until(
        lambda: bool(world.replica(world.leader(partition), partition).log.config.read_only)  # type: ignore[union-attr]
    )
    assert "is read-only" in delete(world, partition, 1).description


def test_r21_below_the_minimum_nothing_is_deleted() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    for node in others(world, partition):
        world.hold_storage(node)
    world.publish(partition, b"d")
    assert world.run_until(lambda: len(world.replica(leader, partition).isr) == 1)
    reply = delete(world, partition, 1, leader)
    assert (reply.code, reply.retryable) == ("not-ready", True)
    assert world.replica(leader, partition.journal).leo == 0


def test_r21_a_copy_that_starts_shows_nothing_before_it_has_read_its_journal() -> None:
    world, partition = ready()
    told = delete(world, partition, 1)
    node = others(world, partition)[0]
    assert world.run_until(lambda: world.replica(node, partition.journal).log.checkpointed_hw == 1)
    world.kill(node)
    world.restart(node)
    assert world.run_until(lambda: partition.journal in world.nodes[node].replicas)
    journal = world.replica(node, partition.journal)
    assert journal.removed is not None and not journal.removed.is_known
    number = world.ask(node, ReadRequest(partition, 0, wait_ms=5000))
    assert world.run_until(lambda: number in world.replies)
    reply = world.replies[number]
    assert isinstance(reply, ReadReply)
    records = [record for frame in reply.batches for record in decode_records(frame)]
    assert [record.offset for record in records] == [0, 2]
    assert world.nodes[node].marks["R21.unread"] == 1
    assert visible(world, partition, node, seen=told.journal) == {0: b"a", 2: b"c"}


def test_r21_a_reader_is_not_answered_by_a_copy_that_knows_less() -> None:
    world, partition = ready()
    node = others(world, partition)[0]
    world.drop = lambda sender, to, message: (
        to == node and getattr(message, "partition", None) == partition.journal
    )
    leader = world.leader(partition)
    number = world.ask(leader, DeleteMessageRequest(partition, 1))
    assert world.run_until(lambda: number in world.replies)
    told = world.replies[number]
    assert isinstance(told, MessageDeleted)
    assert visible(world, partition, node) == {0: b"a", 1: b"b", 2: b"c"}, "it has not heard of it"
    reply = visible(world, partition, node, seen=told.journal, wait_ms=0)
    assert "journal 0, the reader has seen" in reply.description
    assert (reply.code, reply.retryable) == ("not-ready", True)
    assert world.nodes[node].marks["R21.behind"] >= 1


@pytest.mark.parametrize("mutant", [False, True])
def test_r21_a_deletion_is_answered_when_it_is_committed(mutant: bool) -> None:
    world, partition = ready(mutants=Mutants(deletion_answered_at_append=mutant))
    for node in others(world, partition):
        world.hold_storage(node)
    number = world.ask(world.leader(partition), DeleteMessageRequest(partition, 1))
    world.run(0.3)
    assert (number in world.replies) == mutant


def test_r21_whoever_waits_is_told_when_the_leader_changes() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    for node in others(world, partition):
        world.hold_storage(node)
    number = world.ask(leader, DeleteMessageRequest(partition, 1))
    world.run(0.1)
    world.fail_sync(leader, partition)
    assert world.run_until(lambda: number in world.replies)
    assert (world.replies[number].code, world.replies[number].retryable) == ("not-leader", True)


def test_r21_an_entry_that_was_cut_takes_nothing_away() -> None:
    """A deletion that no other copy has is cut with its leader's epoch, and the message stays."""
    world, partition = ready()
    leader = world.leader(partition)
    world.drop = lambda sender, to, message: leader in (sender, to)
    world.ask(leader, DeleteMessageRequest(partition, 1))
    world.run(0.2)
    assert world.replica(leader, partition.journal).leo == 1
    assert world.run_until(lambda: world.leader(partition) not in (0, leader))
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: world.replica(leader, partition.journal).leo == 0)
    assert visible(world, partition, leader) == {0: b"a", 1: b"b", 2: b"c"}


# -- two logs, one record ----------------------------------------------------------------------------------


def without_journal(world: World, partition: PartitionId, node: int) -> None:
    """Nothing of the journal reaches this node, or comes from it."""
    world.drop = lambda sender, to, message: (
        node in (sender, to) and getattr(message, "partition", None) == partition.journal
    )


@pytest.mark.parametrize("mutant", [False, True])
def test_r10_r11_whoever_lags_in_the_journal_leaves_and_joins_with_both_logs(mutant: bool) -> None:
    world, partition = ready(mutants=Mutants(joins_by_data_alone=mutant))
    leader, node = world.leader(partition), others(world, partition)[0]
    without_journal(world, partition, node)
    number = world.ask(leader, DeleteMessageRequest(partition, 1))
    assert world.run_until(lambda: number in world.replies), "it was removed for the sake of the journal"
    assert isinstance(world.replies[number], MessageDeleted)
    world.run(3.0)
    assert world.replica(node, partition).hw == 3, "of the data it has everything"
    if mutant:
        return
    assert node not in world.replica(leader, partition).isr
    assert world.nodes[leader].marks["R10.journal"] >= 1
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: node in world.replica(leader, partition).isr)
    assert world.replica(node, partition.journal).leo == 1


def test_r10_the_journal_alone_keeps_a_copy_out() -> None:
    world, partition = ready()
    leader, node = world.leader(partition), others(world, partition)[0]
    delete(world, partition, 1)
    world.kill(node)
    assert world.run_until(lambda: node not in world.replica(leader, partition).isr)
    without_journal(world, partition, node)
    world.restart(node)
    before = world.nodes[leader].marks.get("R10.journal", 0)
    assert world.run_until(lambda: world.nodes[leader].marks.get("R10.journal", 0) == before + 1)
    counted = {"R10.journal": world.nodes[leader].marks["R10.journal"] - before}
    assert counted["R10.journal"] == 1
    assert node not in world.replica(leader, partition).isr


@pytest.mark.parametrize("mutant", [False, True])
def test_r2_each_log_has_its_own_hw(mutant: bool) -> None:
    world, partition = ready(mutants=Mutants(journal_hw_of_data=mutant))
    leader = world.leader(partition)
    world.drop = lambda sender, to, message: getattr(message, "partition", None) == partition.journal
    world.ask(leader, DeleteMessageRequest(partition, 1))
    world.run(0.3)
    journal = world.replica(leader, partition.journal)
    assert (journal.durable_leo, journal.hw) == (1, 1 if mutant else 0)


def test_r5_r14_a_copy_stops_with_both_logs_and_tells_both_ends() -> None:
    world, partition = ready()
    delete(world, partition, 1)
    node = others(world, partition)[0]
    world.fail_sync(node, partition.journal)
    assert world.run_until(lambda: world.replica(node, partition.journal).state == "failed")
    assert world.replica(node, partition).state == "failed"
    said = world.replica(node, partition).log.confession.said
    assert said is not None and (said.leo, getattr(said, "journal_leo", None)) == (3, 1)
    leader = world.leader(partition)
    assert world.run_until(lambda: node not in world.replica(leader, partition).isr)
    assert world.run_until(lambda: node in world.replica(leader, partition).isr)


def test_r14_a_copy_is_as_doubtful_as_the_more_doubtful_of_its_logs() -> None:
    stream, partition = _stream(), PartitionState(PartitionId(7, 0), (1, 2), 2)
    log = partition.id
    reports = {
        log: TailReport(log, TailState.INTACT.value, 3, 10),
        log.journal: TailReport(log.journal, TailState.SUSPECT.value, 2, 4),
    }
    found = found_of(stream, partition, reports)
    assert found is not None and found.ends == LastKnown(3, 10, journal_epoch=2, journal_leo=4)
    assert (found.state, found.by_journal) == (TailState.SUSPECT.value, True)
    del reports[log.journal]
    assert found_of(stream, partition, reports) is None, "half a copy is none"


def _stream() -> StreamState:
    return StreamState(7, StreamConfig("s", "s", removal=True), (PartitionId(7, 0),))


def test_r14_nobody_leads_while_one_has_the_longest_data_and_another_one_the_longest_journal() -> None:
    known = {1: LastKnown(3, 10, journal_epoch=3, journal_leo=4), 2: LastKnown(3, 9, False, 3, 5)}
    record = PartitionState(PartitionId(7, 0), (1, 2), 2, last_known=known)
    counted: list[str] = []
    assert greatest_last_known(record, lambda node: True, counted.append) == 0
    assert counted == ["R14.apart"]
    both = PartitionState(
        PartitionId(7, 0), (1, 2), 2, last_known=known | {2: LastKnown(3, 10, False, 3, 5)}
    )
    assert greatest_last_known(both, lambda node: True, counted.append) == 2


def test_r14_all_in_doubt_and_the_journal_is_kept() -> None:
    world, partition = ready()
    delete(world, partition, 1)
    assert world.run_until(lambda: world.committed(partition.journal, 1))
    for node in (1, 2, 3):
        world.kill(node)
    for node in (1, 2, 3):
        world.restart(node, TailState.SUSPECT)
    assert world.run_until(lambda: partition in world.subscriptions)
    leader = world.leader(partition)
    assert world.run_until(lambda: len(world.replica(leader, partition).isr) == 3)
    assert world.run_until(lambda: world.committed(partition.journal, 1))
    assert all(visible(world, partition, node, seen=1) == {0: b"a", 2: b"c"} for node in (1, 2, 3))


def test_a_stream_without_removal_has_no_journal_and_sends_no_more() -> None:
    world = World()
    heard: list[Any] = []
    world.drop = lambda sender, to, message: bool(heard.append(message))
    partition = world.create()
    world.publish(partition, b"a")
    assert world.run_until(lambda: world.committed(partition, 1))
    assert all(not log.is_journal for node in world.nodes.values() for log in node.replicas)
    asked = [message for message in heard if isinstance(message, Fetch | FetchProgress)]
    assert asked and all(not message.partition.is_journal for message in asked)
    assert all(not log.is_journal for disk in world.disks.values() for log in disk.logs)


def test_a_removed_stream_takes_its_journal_along() -> None:
    world, partition = ready()
    delete(world, partition, 1)
    world.answer(1, DeleteStreamRequest("orders"))
    assert world.run_until(
        lambda: not any(log.stream == partition.stream for disk in world.disks.values() for log in disk.logs)
    )


# -- entries -----------------------------------------------------------------------------------------------

_numbers = st.integers(0, NUMBER_MAX)


@given(_numbers, st.lists(_numbers, min_size=2, max_size=20, unique=True), st.booleans())
def test_an_entry_is_read_as_it_was_written(epoch: int, ends: list[int], done: bool) -> None:
    ends = sorted(ends[: len(ends) // 2 * 2])
    runs = tuple(OffsetRange(*pair) for pair in zip(ends[::2], ends[1::2], strict=True))
    assert decode_removed(encode_removed(epoch, runs, done_with=done)) == (epoch, runs, done)


@given(st.binary(max_size=40))
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    try:
        removed = decode_removed(data)
    except BadEntry:
        return
    assert decode_removed(encode_removed(removed[0], removed[1], done_with=removed[2])) == removed


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x7f\x01\x01\x00\x01", b"\x01", b"\x01\x01", b"\x01\x01\x00", b"\x01\x01\x01\x05"),
        *(b"\x01\x01\x01\x05\x80", b"\x01\x01\x01\x05\x00", b"\x01\x01\x01\x05\x01\x01"),
        b"\x01\x01\x01" + b"\xff\xff\xff\xff\xff\xff\xff\x0f" + b"\x02",
    ],
)
def test_a_bad_entry_is_named(data: bytes) -> None:
    with pytest.raises(BadEntry):
        decode_removed(data)


def test_an_entry_names_something_and_not_too_much() -> None:
    run = OffsetRange(1, 2)
    large = OffsetRange(1, NUMBER_MAX + 1)
    for runs in ([], [run] * (RUNS_MAX + 1), [run, run], [OffsetRange(2, 2)], [large]):
        with pytest.raises(ValueError, match="names"):
            encode_removed(1, runs)


def test_logs_of_a_partition_are_named_apart() -> None:
    partition = PartitionId(7, 3)
    assert (str(partition), str(partition.journal)) == ("7/3", "7/3.journal")
    assert partition.journal.partition == partition == partition.partition
    assert partition.journal.journal == partition.journal and not partition.is_journal


# -- what nobody may do with a journal ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda journal: ReadRequest(journal, 0),
        lambda journal: VisibleReadRequest(journal, 0),
        lambda journal: OffsetRequest(journal, "earliest", 0),
        lambda journal: PurgeRequest(journal, 1),
        lambda journal: DeleteMessageRequest(journal, 0),
        lambda journal: SubjectRequest(journal, LAST_OF_SUBJECT, "orders"),
    ],
)
def test_R21_no_client_reaches_a_journal_as_if_it_were_a_partition(ask: Any) -> None:
    """A purge of it would have brought back what was deleted, with each copy that was opened anew."""
    world, partition = ready()
    assert isinstance(delete(world, partition, 1), MessageDeleted)
    reply = world.answer(world.leader(partition), ask(partition.journal))
    assert isinstance(reply, ErrorReply) and (reply.code, reply.retryable) == ("not-found", False)
    assert "at most 1024" in reply.description
    assert all(world.replica(node, partition.journal).log_start == 0 for node in world.nodes)


def test_R21_an_entry_that_nobody_can_read_ends_no_node_and_nothing_is_shown_then() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    journal = world.replica(leader, partition.journal)
    journal.log.append(
        [encode_values(journal.log.id, journal.log.leo, journal.log.epoch, 0, [b"\x7f\x01"])]
    )
    assert isinstance(delete(world, partition, 1), MessageDeleted)
    assert {world.replica(node, partition.journal).state for node in world.nodes} == {"ready"}
    refused = visible(world, partition, leader, wait_ms=100)
    assert isinstance(refused, ErrorReply) and refused.retryable
    assert "offset 0 of the journal cannot be heeded" in refused.description
    assert "newer liftlog" in refused.description
    assert marks(world, partition)["R21.unreadable"] == 1
    assert world.publish(partition, b"d")
    assert world.run_until(lambda: world.committed(partition, 4)), "messages are stored as before"


def test_R21_a_read_that_outlives_its_journal_is_not_answered_by_what_is_left_of_it() -> None:
    world, partition = ready()
    assert isinstance(delete(world, partition, 1), MessageDeleted)
    leader = world.leader(partition)
    copy = world.replica(leader, partition)
    removed = copy.journal.removed
    view = copy.readers._view()
    assert view.journal == 1 and not copy.readers._lost(view)
    removed._begin()
    assert copy.readers._lost(view), "it has to be folded anew"
    removed.follow()
    assert not copy.readers._lost(view)


def test_R21_deletions_are_bounded_by_what_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that give up make room for others, and what they have asked for is still under way."""
    monkeypatch.setattr("liftlog.core.replica.journal.DELETIONS_MAX", 2)
    world, partition = ready()
    leader = world.leader(partition)
    deletions = world.replica(leader, partition).journal.roles.leader._deletions
    deletions._under_way = {7: 100, 8: 101}
    refused = delete(world, partition, 0)
    assert isinstance(refused, ErrorReply) and (refused.code, refused.retryable) == ("overload", True)


def read_while_it_hears(**kwargs: Any) -> tuple[Any, Any]:
    """What a reader is told by a copy that hears of a deletion while it reads its disk, and then by one that
    has not heard of it, and is asked with what the first one has told.
    """
    world, partition = ready(**kwargs)
    node, third = others(world, partition)
    journal = partition.journal
    world.kill(node)
    world.restart(node)
    assert world.run_until(lambda: partition in world.nodes[node].replicas)
    assert world.run_until(lambda: world.replica(node, partition).hw == 3)
    assert world.run_until(lambda: world.replica(node, journal).removed.is_known)
    world.drop = lambda sender, to, message: to == third and getattr(message, "partition", None) == journal
    held: list[LogRead] = []
    post = world.post

    def holding(to: int, event: Event, delay_s: float = 0.0) -> None:
        if isinstance(event, LogRead) and event.log == partition and not held:
            held.append(event)
        else:
            post(to, event, delay_s)

    world.post = holding  # type: ignore[method-assign]
    number = world.ask(node, VisibleReadRequest(partition, 0, wait_ms=500))
    assert world.run_until(lambda: bool(held))
    world.ask(world.leader(partition), DeleteMessageRequest(partition, 1))
    assert world.run_until(lambda: world.replica(node, journal).removed.folded == 1)
    post(node, held[0])
    assert world.run_until(lambda: number in world.replies)
    first = world.replies[number]
    seen = {"seen_hw": first.hw, "seen_epoch": first.epoch, "seen_journal": first.journal}
    return first, world.answer(third, VisibleReadRequest(partition, 0, wait_ms=500, **seen))


def test_r21_an_answer_says_all_of_the_journal_that_it_hides_by() -> None:
    """A reader goes on elsewhere with what it was told, and must not see there what was gone here."""
    first, again = read_while_it_hears()
    assert offsets(first) == [0, 2]
    assert first.journal == 1
    assert again.code == ERR_NOT_READY


def test_r21_journal_as_read_began_is_a_bug() -> None:
    first, again = read_while_it_hears(mutants=Mutants(journal_as_read_began=True))
    assert offsets(first) == [0, 2]
    assert offsets(again) == [0, 1, 2]
