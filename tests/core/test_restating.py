"""A journal that says again what is gone, and begins there (R21, C3)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.replica.removal.entries import Restated, decode_entry, encode_restated
from liftlog.messages import (
    AlterStreamRequest,
    DeleteConsumerRequest,
    DoneReply,
    ErrorReply,
    MessageDeleted,
    PurgeRequest,
    SettleRequest,
    StreamChanges,
)
from liftlog.mutants import Mutants
from liftlog.types import PartitionId
from tests.core.node_harness import World
from tests.core.test_consumers import asks, changed_leader, info, made, pull, settle
from tests.core.test_journal import delete, marks, others, ready, visible, without_journal
from tests.core.test_subject_purge import filled as filled_anyhow
from tests.core.test_subject_purge import purge


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.core.replica.removal.restating.CONSUMER_SHARE", 0)


def filled(count: int = 9, **kwargs: Any) -> tuple[World, PartitionId]:
    return filled_anyhow(count, restate_entries=1, **kwargs)


def starts(world: World, partition: PartitionId) -> set[int]:
    return {world.replica(node, partition.journal).log_start for node in world.nodes}


def restated(**kwargs: Any) -> tuple[World, PartitionId]:
    """Four of nine messages are gone, and the journal begins behind the entries that said so first."""
    world, partition = filled(**kwargs)
    for offset in (1, 2, 6, 7):
        assert isinstance(delete(world, partition, offset), MessageDeleted)
    assert world.run_until(lambda: min(starts(world, partition)) >= 3)
    return world, partition


LEFT = {0, 3, 4, 5, 8}


def test_r21_a_long_journal_says_all_again_and_begins_there_on_every_copy() -> None:
    world, partition = restated()
    assert marks(world, partition)["R21.restates"] >= 1
    for node in world.nodes:
        assert set(visible(world, partition, node, seen=4)) == LEFT


def test_r21_who_begins_there_hides_the_same() -> None:
    world, partition = restated()
    node = others(world, partition)[0]
    assert world.run_until(lambda: world.replica(node, partition.journal).log.checkpointed_hw >= 5)
    world.kill(node)
    world.restart(node)
    assert world.run_until(lambda: partition.journal in world.nodes[node].replicas)
    assert set(visible(world, partition, node, seen=5)) == LEFT


def test_r21_a_copy_that_was_away_gets_the_restatement_with_the_journal() -> None:
    world, partition = filled()
    node = others(world, partition)[0]
    world.kill(node)
    for offset in (1, 2, 6, 7):
        assert isinstance(delete(world, partition, offset), MessageDeleted)
    leader = world.leader(partition)
    assert world.run_until(lambda: world.replica(leader, partition.journal).log_start >= 3)
    world.restart(node)
    assert world.run_until(lambda: node in world.replica(leader, partition).isr)
    assert set(visible(world, partition, node, seen=5)) == LEFT
    assert world.replica(node, partition.journal).log_start >= 3


def test_r21_a_copy_knows_nothing_before_it_has_come_to_the_entry_behind() -> None:
    world, partition = restated()
    journal = world.replica(others(world, partition)[0], partition.journal)
    removed = journal.removed
    assert removed is not None and removed.is_known and set(removed.named()) >= {(1, 1), (7, 1)}
    hw = journal.log.hw
    journal.log.hw = journal.log.log_start + 1
    removed._begin()
    removed.follow()
    assert removed.folded == journal.log.hw and not removed.is_known
    journal.log.hw = hw
    removed.follow()
    assert removed.is_known


def test_r21_a_copy_whose_journal_begins_later_than_it_had_read_begins_there() -> None:
    world, partition = restated()
    journal = world.replica(others(world, partition)[0], partition.journal)
    removed = journal.removed
    assert removed is not None
    removed.folded = journal.log.log_start - 1
    assert removed.follow() or removed.is_known
    assert removed.folded == journal.log.hw and removed.is_known
    assert {offset for offset, _ in removed.named()} == {1, 2, 6, 7}


def test_r21_a_read_only_stream_says_nothing_again() -> None:
    world, partition = filled()
    for offset in (1, 2):
        assert isinstance(delete(world, partition, offset), MessageDeleted)
    leader = world.leader(partition)
    world.answer(leader, AlterStreamRequest("orders", StreamChanges(read_only=True)))
    journal = world.replica(leader, partition.journal)
    roles = journal.roles
    assert roles is not None and roles.restating is not None and journal.removed is not None
    assert world.run_until(lambda: bool(world.replica(leader, partition).log.config.read_only))  # type: ignore[union-attr]
    assert not roles.restating.tick(journal.removed) and journal.leo == 2


def test_r21_what_lies_below_the_data_s_start_need_not_be_said_again_and_no_copy_shows_it() -> None:
    world, partition = filled()
    leader, node = world.leader(partition), others(world, partition)[0]
    journal = world.replica(node, partition.journal)
    removed = journal.removed
    assert removed is not None
    removed._unsaid = True
    removed._said_again(Restated(0, 4))
    assert not removed.is_known, "its data begin lower"
    assert isinstance(world.answer(leader, PurgeRequest(partition, 4)), object)
    assert world.run_until(lambda: world.replica(node, partition).log_start >= 4)
    assert removed.is_known


def test_r21_nothing_begins_before_the_restatement_is_committed() -> None:
    world, partition = filled()
    for offset in (1, 2):
        assert isinstance(delete(world, partition, offset), MessageDeleted)
    leader = world.leader(partition)
    node = others(world, partition)[0]
    assert isinstance(delete(world, partition, 6), MessageDeleted)
    without_journal(world, partition, node)
    world.run(0.3)
    journal = world.replica(leader, partition.journal)
    assert journal.leo > 3 and journal.log_start == 0 and journal.hw == 3
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: min(starts(world, partition)) == 3)


def test_r21_a_purge_goes_on_over_a_restatement() -> None:
    world, partition = restated()
    reply = purge(world, partition, 9, keep=1)
    assert not isinstance(reply, ErrorReply)
    for node in world.nodes:
        assert set(visible(world, partition, node, seen=reply.journal)) == {8}


def test_a_restatement_s_last_entry_is_read_as_it_was_written() -> None:
    assert decode_entry(encode_restated(300, 7)) == Restated(300, 7)


def snapshots(world: World, partition: PartitionId) -> set[Any]:
    return {
        world.replica(node, partition.journal).removed.consumers.snapshot()  # type: ignore[union-attr]
        for node in world.nodes
    }


def consumed(count: int = 9) -> tuple[World, PartitionId, int]:
    """Of nine messages two are acked, the others wait, and the journal begins behind the consumer's entry."""
    world, partition = filled(count)
    number = made(world, partition)
    assert pull(world, partition, number).runs == [(0, count, 1)]
    for offset in (1, 2):
        assert not settle(world, partition, number, "ack", offset).unknown
    assert isinstance(delete(world, partition, 5), MessageDeleted)
    assert world.run_until(lambda: min(starts(world, partition)) >= number)
    assert world.run_until(lambda: len(snapshots(world, partition)) == 1)
    return world, partition, number


def test_k2_where_consumers_stand_is_said_again_and_every_copy_that_begins_there_knows_it() -> None:
    world, partition, number = consumed()
    assert marks(world, partition)["K2.said-again"] >= 1
    known = snapshots(world, partition)
    node = others(world, partition)[0]
    world.kill(node)
    world.restart(node)
    assert world.run_until(lambda: partition.journal in world.nodes[node].replicas)
    journal = world.replica(node, partition.journal)
    assert world.run_until(lambda: journal.removed is not None and journal.removed.is_known)
    assert snapshots(world, partition) == known
    assert journal.removed is not None
    consumer = journal.removed.consumers.by_number[number]
    assert (consumer.position, sorted(consumer.pending)) == (9, [0, 3, 4, 6, 7, 8])


def test_k2_a_new_leader_goes_on_from_what_was_said_again() -> None:
    world, partition, number = consumed()
    changed_leader(world, partition)
    assert info(world, partition).ack_pending == 6
    assert settle(world, partition, number, "nak", 0).unknown == []
    assert pull(world, partition, number, wait_ms=1000).runs == [(0, 1, 2)]
    assert isinstance(asks(world, partition, DeleteConsumerRequest(partition, "c")), DoneReply)
    assert made(world, partition) > number


def test_k2_a_journal_begins_later_only_when_what_takes_its_place_is_committed() -> None:
    world, partition = filled()
    number = made(world, partition)
    pull(world, partition, number, messages=3)
    leader, node = world.leader(partition), others(world, partition)[0]
    assert settle(world, partition, number, "ack", 2).journal == 3
    without_journal(world, partition, node)
    journal = world.replica(leader, partition.journal)
    world.run(0.3)
    assert journal.leo > 3 and journal.log_start == 0 and journal.hw == 3
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: min(starts(world, partition)) == 3)
    assert marks(world, partition)["K2.kept"] >= 1


def test_k2_what_is_not_committed_is_said_again_as_it_is_written() -> None:
    """A consumer whose entries are always under way does not keep the journal long."""
    world, partition = filled()
    number = made(world, partition)
    pull(world, partition, number)
    settle(world, partition, number, "ack", 0)
    leader = world.leader(partition)
    journal = world.replica(leader, partition.journal)
    roles, removed = journal.roles, journal.removed
    assert roles is not None and roles.restating is not None and removed is not None
    without_journal(world, partition, others(world, partition)[0])
    world.ask(leader, SettleRequest(partition, number, "ack", [(4, 1)]))
    world.run(0.01)
    assert removed.folded < journal.leo
    ahead = roles.restating._ahead(removed)
    assert ahead is not None and [offset for offset, _ in ahead] == list(range(removed.folded, journal.leo))
    (said,) = removed.consumers.say_again([number, 77], ahead)
    assert said.pending == [(1, 3, 1), (5, 4, 1)] and said.position == 9
    assert 4 in removed.consumers.by_number[number].pending


def test_k2_a_journal_whose_end_is_not_in_memory_says_nothing_of_consumers_yet() -> None:
    world, partition = filled()
    made(world, partition)
    leader = world.leader(partition)
    journal = world.replica(leader, partition.journal)
    roles, removed = journal.roles, journal.removed
    assert roles is not None and roles.restating is not None and removed is not None
    removed.folded = 0
    journal.log.cache.clear()
    assert roles.restating._ahead(removed) is None


def in_epochs(count: int, **kwargs: Any) -> tuple[World, PartitionId]:
    """So many leaders in a row have each had the three newest messages deleted."""
    world, partition = ready(**kwargs)
    for _ in range(count):
        leader = world.leader(partition)
        end = world.replica(leader, partition).hw
        for offset in range(end - 3, end):
            assert isinstance(delete(world, partition, offset), MessageDeleted)
        world.kill(leader)
        assert world.run_until(
            lambda leader=leader: world.leader(partition) not in (0, leader)  # type: ignore[misc]
        )
        world.restart(leader)
        assert world.run_until(lambda: len(world.replica(world.leader(partition), partition).isr) == 3)
        world.publish(partition, b"a", b"b", b"c")
        assert world.run_until(lambda end=end: world.committed(partition, end + 3))  # type: ignore[misc]
    return world, partition


def grows_when_idle(world: World, partition: PartitionId) -> int:
    """By how many entries, in twenty seconds in which nobody asks for anything."""
    world.run(5.0)
    before = world.replica(world.leader(partition), partition.journal).leo
    world.run(20.0)
    return world.replica(world.leader(partition), partition.journal).leo - before


def test_r21_a_restatement_is_no_reason_for_the_next_one() -> None:
    """Each epoch in which something was deleted is an entry of its own in every restatement."""
    world, partition = in_epochs(12, restate_entries=4)
    assert grows_when_idle(world, partition) == 0
    assert min(starts(world, partition)) > 0


def test_r21_restated_for_its_own_length_is_a_bug() -> None:
    world, partition = in_epochs(12, restate_entries=4, mutants=Mutants(restated_for_its_own_length=True))
    assert grows_when_idle(world, partition) > 30
