"""A journal that says again what is gone, and begins there (R21, C3)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.replica.entries import Restated, decode_entry, encode_restated
from liftlog.messages import (
    AlterStreamRequest,
    DeleteConsumerRequest,
    DoneReply,
    ErrorReply,
    MessageDeleted,
    PullRequest,
    PurgeRequest,
    StreamChanges,
)
from liftlog.types import PartitionId
from tests.core.node_harness import World
from tests.core.test_consumers import asks, made
from tests.core.test_journal import delete, marks, others, visible, without_journal
from tests.core.test_subject_purge import filled, purge


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.core.replica.restating.ENTRIES_MIN", 3)


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


def test_k2_a_journal_that_consumers_are_in_keeps_its_front_until_they_are_deleted() -> None:
    world, partition = filled()
    number = made(world, partition)
    for offset in (1, 2, 6, 7):
        assert isinstance(delete(world, partition, offset), MessageDeleted)
    world.run(3)
    assert starts(world, partition) == {0}
    assert marks(world, partition)["K2.kept"] >= 1 and "R21.restates" not in marks(world, partition)
    assert asks(world, partition, PullRequest(partition, number)).runs == [(0, 1, 1), (3, 3, 1), (8, 1, 1)]
    node = others(world, partition)[0]
    world.kill(node)
    world.restart(node)
    assert world.run_until(lambda: partition.journal in world.nodes[node].replicas)
    assert set(visible(world, partition, node, seen=4)) == LEFT
    assert number in world.replica(node, partition.journal).removed.consumers.by_number
    assert isinstance(asks(world, partition, DeleteConsumerRequest(partition, "c")), DoneReply)
    assert world.run_until(lambda: min(starts(world, partition)) >= 3)
    later = made(world, partition)
    assert later > number
    assert asks(world, partition, PullRequest(partition, later)).runs == [(0, 1, 1), (3, 3, 1), (8, 1, 1)]
