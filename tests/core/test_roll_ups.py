"""A message that says so takes those before it (R23)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem, altered, describe_alteration
from liftlog.core.metadata.limits import limits_problem
from liftlog.core.replica.publishing.rolling import of_one_subject
from liftlog.core.replica.removal import rollups
from liftlog.core.replica.removal.entries import BadEntry, RolledUp, decode_entry, encode_come_to
from liftlog.messages import (
    ERR_HEADER,
    ERR_ROLLUP_DISABLED,
    AlterStreamRequest,
    DeleteMessageRequest,
    MessageDeleted,
    StreamChanges,
    SubjectsFolded,
)
from liftlog.mutants import Mutants
from liftlog.options.headers import read_block, rolled_up_by
from liftlog.options.reading import read
from liftlog.options.wishes import Terms
from liftlog.types import Message, PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_ack_policies import publish
from tests.core.test_headers import block
from tests.core.test_journal import delete, marks, others
from tests.core.test_subject_limits import entries, journal, log_of, message_of_journal, shows

LARGE = 10**9
ROLLS_UP = Terms(rolls_up=True)


def rolling(allow: bool = True, **kwargs: Any) -> tuple[World, PartitionId]:
    """A cluster with one stream whose messages may roll up others."""
    world = World(**kwargs)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(removal=True, allow_rollup=allow or UNSET)
    assert world.run_until(lambda: partition in world.subscriptions)
    return world, partition


def messages(end: int, subjects: str) -> list[Message]:
    """One to each; a capital rolls up its subject, and `*` all, under subject `all`."""
    made = []
    for number, subject in enumerate(subjects, end):
        rolls = "all" if subject == "*" else "sub" if subject.isupper() else ""
        headers = block(f"Nats-Rollup: {rolls}") if rolls else b""
        name = "all" if subject == "*" else subject.lower()
        made.append(Message(f"orders.{name}".encode(), b"", headers, b"%d" % number))
    return made


def send(world: World, partition: PartitionId, subjects: str) -> int:
    """Hand them to the leader. Where they will end."""
    end = world.replica(world.leader(partition), partition).leo
    publish(world, partition, *messages(end, subjects))
    return end + len(subjects)


def put(world: World, partition: PartitionId, subjects: str) -> None:
    """Until they are committed."""
    end = send(world, partition, subjects)
    assert world.run_until(lambda: world.committed(partition, end))


def roll_ups(world: World, partition: PartitionId, node: int = 0) -> Any:
    replica = world.replica(node or world.leader(partition), partition.journal)
    return replica.roles.roll_ups


def paused(world: World, partition: PartitionId) -> Any:
    """This leader acts on nothing."""
    acting = roll_ups(world, partition)
    acting._pause._until = LARGE
    return acting


def new_leader(world: World, partition: PartitionId) -> int:
    old = world.leader(partition)
    world.kill(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old))
    return old


# -- what goes ---------------------------------------------------------------------------------------------


def test_R23_older_messages_of_the_subject_are_gone_on_all_copies() -> None:
    world, partition = rolling()
    put(world, partition, "aabAab")
    assert shows(world, partition, 2, 3, 4, 5)
    assert marks(world, partition)["R23.rolled-up"] == 1
    put(world, partition, "BA")
    assert shows(world, partition, 6, 7)


def test_R23_all_takes_what_is_before_it_of_the_partition() -> None:
    world, partition = rolling()
    put(world, partition, "abA*cC")
    assert shows(world, partition, 3, 5)
    put(world, partition, "*")
    assert shows(world, partition, 6)


def test_R23_several_are_acted_on_at_once_and_the_newest_of_a_subject_counts() -> None:
    world, partition = rolling()
    acting = paused(world, partition)
    put(world, partition, "abcdABAcDC")
    acting._pause._until = 0
    assert shows(world, partition, 5, 6, 8, 9)
    assert world.run_until(lambda: journal(world, partition).removed.rolled_up == RolledUp(1, 10))


def test_R23_no_more_entries_are_on_their_way_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollups, "AHEAD_MAX", 2)
    world, partition = rolling()
    acting = paused(world, partition)
    put(world, partition, "abcdefABCDEF")
    world.drop = lambda sender, to, message: message_of_journal(message, partition)
    acting._pause._until = 0
    world.run(0.4)
    assert entries(world, partition) == 3
    world.drop = lambda sender, to, message: False
    assert shows(world, partition, *range(6, 12))


def test_R23_where_nothing_rolls_up_nothing_is_written() -> None:
    world, partition = rolling()
    put(world, partition, "aabb")
    world.run(0.5)
    assert shows(world, partition, 0, 1, 2, 3) and entries(world, partition) == 0


def test_R23_what_is_deleted_already_is_not_named_again() -> None:
    world, partition = rolling()
    put(world, partition, "aa")
    assert isinstance(delete(world, partition, 0), MessageDeleted)
    put(world, partition, "A")
    assert shows(world, partition, 2)
    assert isinstance(delete(world, partition, 2), MessageDeleted)
    put(world, partition, "A")
    world.run(0.5)
    assert shows(world, partition, 3)


def test_R23_a_long_roll_up_goes_part_by_part() -> None:
    """The storage of these tests answers two offsets at a time."""
    world, partition = rolling()
    put(world, partition, "ab" * 8 + "A")
    assert shows(world, partition, *range(1, 16, 2), 16)


@pytest.mark.parametrize("mutant", [False, True])
def test_R23_what_comes_after_a_roll_up_stays_however_late_that_is_acted_on(mutant: bool) -> None:
    world, partition = rolling(mutants=Mutants(roll_up_takes_newer=mutant))
    acting = paused(world, partition)
    put(world, partition, "aAa")
    acting._pause._until = 0
    assert shows(world, partition, *([] if mutant else [1, 2]))


@pytest.mark.parametrize("mutant", [False, True])
def test_R23_a_roll_up_that_is_not_committed_takes_nothing(mutant: bool) -> None:
    world, partition = rolling(mutants=Mutants(roll_up_uncommitted=mutant))
    put(world, partition, "aa")
    for node in others(world, partition):
        world.hold_storage(node)
    send(world, partition, "A")
    world.run(0.5)
    assert (entries(world, partition) > 0) == mutant
    for node in list(world.held):
        world.release_storage(node)
    assert shows(world, partition, 2)


# -- leaders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", [False, True])
def test_R23_a_new_leader_acts_on_what_the_one_before_has_not(mutant: bool) -> None:
    world, partition = rolling(mutants=Mutants(roll_ups_not_inherited=mutant))
    paused(world, partition)
    put(world, partition, "aaAb")
    assert entries(world, partition) == 0
    new_leader(world, partition)
    world.run(0.5)
    assert shows(world, partition, *([0, 1, 2, 3] if mutant else [2, 3]))


def test_R23_a_new_leader_begins_where_an_entry_says_that_the_one_before_has_come_to() -> None:
    world, partition = rolling()
    put(world, partition, "aaAb")
    assert shows(world, partition, 2, 3)
    assert world.run_until(lambda: entries(world, partition) == 2)
    assert journal(world, partition).removed.rolled_up == RolledUp(1, 4)
    new_leader(world, partition)
    put(world, partition, "b")
    acting = roll_ups(world, partition)
    assert world.run_until(lambda: acting.passage.at == 5)
    assert acting._said.through == 4 and entries(world, partition) == 2


@pytest.mark.parametrize("mutant", [False, True])
def test_R23_that_it_has_come_past_a_roll_up_is_said_behind_what_goes_by_it(mutant: bool) -> None:
    world, partition = rolling(mutants=Mutants(roll_up_said_first=mutant))
    log_of(world, partition).fold_slice = 0
    put(world, partition, "aaAb")
    world.run(0.5)
    assert entries(world, partition) == (1 if mutant else 0), "the index is not ready"
    new_leader(world, partition)
    world.run(0.5)
    assert shows(world, partition, *([0, 1, 2, 3] if mutant else [2, 3]))


@pytest.mark.parametrize("guard", [False, True])
def test_R23_what_is_said_of_records_that_were_given_up_is_not_believed(guard: bool) -> None:
    world, partition = rolling(mutants=Mutants(without="" if guard else "R23.other-records"))
    put(world, partition, "ab")
    acting = roll_ups(world, partition)
    journal(world, partition).removed.rolled_up = RolledUp(7, 2)
    assert acting._begin() == (0 if guard else 2)
    assert not guard or marks(world, partition)["R23.other-records"] == 1
    journal(world, partition).removed.rolled_up = RolledUp(1, 2)
    assert acting._begin() == 2


def test_R23_a_journal_that_is_said_again_says_how_far_roll_ups_were_acted_on() -> None:
    world, partition = rolling()
    for _ in range(20):
        put(world, partition, "aA")
        assert shows(world, partition, world.replica(1, partition).leo - 1)
    leader = world.leader(partition)
    assert world.run_until(lambda: world.replica(leader, partition.journal).log_start > 0)
    for node in world.nodes:
        removed = world.replica(node, partition.journal).removed
        assert removed is not None
        removed.follow(anew=True)
        assert removed.rolled_up == RolledUp(1, 40)


def test_R23_what_was_not_committed_of_a_journal_is_done_again() -> None:
    world, partition = rolling()
    world.drop = lambda sender, to, message: message_of_journal(message, partition)
    put(world, partition, "aaA")
    world.run(0.3)
    assert entries(world, partition) > 0 and journal(world, partition).hw == 0
    old = new_leader(world, partition)
    world.drop = lambda sender, to, message: False
    assert shows(world, partition, 2)
    world.restart(old)
    assert world.run_until(lambda: partition.journal in world.nodes[old].replicas)
    assert shows(world, partition, 2)


# -- what is in the way ------------------------------------------------------------------------------------


def test_R23_what_was_let_alone_is_acted_on_when_it_is_allowed_again() -> None:
    world, partition = rolling()
    paused(world, partition)
    put(world, partition, "aA")
    world.answer(1, AlterStreamRequest("orders", StreamChanges(allow_rollup=False)))
    roll_ups(world, partition)._pause._until = 0
    world.run(0.5)
    assert entries(world, partition) == 0
    world.answer(1, AlterStreamRequest("orders", StreamChanges(allow_rollup=True)))
    assert shows(world, partition, 1)


def test_R23_a_stream_that_is_read_only_lets_nothing_go() -> None:
    world, partition = rolling()
    paused(world, partition)
    put(world, partition, "aA")
    world.answer(1, AlterStreamRequest("orders", StreamChanges(read_only=True)))
    roll_ups(world, partition)._pause._until = 0
    world.run(0.5)
    assert entries(world, partition) == 0
    world.answer(1, AlterStreamRequest("orders", StreamChanges(read_only=False)))
    assert shows(world, partition, 1)


def test_R23_where_the_index_cannot_be_made_it_is_tried_again_after_a_while() -> None:
    world, partition = rolling()
    log_of(world, partition).fold_slice = 0
    put(world, partition, "aA")
    world.run(0.3)
    roll_ups(world, partition).folded(SubjectsFolded(partition, 0, False, error="no room", full=True))
    log_of(world, partition).fold_slice = 100
    world.run(9.0)
    assert marks(world, partition)["R23.paused"] == 1 and entries(world, partition) == 0
    world.run(2.0)
    assert shows(world, partition, 1)


def test_R23_a_leader_reads_what_is_no_longer_in_memory_from_its_disk() -> None:
    world, partition = rolling()
    acting = paused(world, partition)
    put(world, partition, "aaAb")
    acting._data.cache.clear()
    acting._pause._until = 0
    assert world.run_until(lambda: bool(acting.passage.request))
    assert shows(world, partition, 2, 3)


def test_R23_a_deletion_beside_it_changes_nothing() -> None:
    world, partition = rolling()
    acting = paused(world, partition)
    put(world, partition, "aabA")
    acting._pause._until = 0
    world.ask(world.leader(partition), DeleteMessageRequest(partition, 1))
    assert shows(world, partition, 2, 3)


# -- what is refused ---------------------------------------------------------------------------------------


def test_R23_which_headers_are_taken() -> None:
    for value in ("sub", "all", "SUB", " All "):
        headers = block(f"Nats-Rollup: {value}")
        wishes = read_block(headers, "orders", ROLLS_UP)
        assert wishes.rolls_up and wishes.refusal is None
        assert rolled_up_by(headers) == value.strip().lower().encode()
    empty = block("Nats-Rollup: ", "Nats-Rollup: sub")
    assert not read_block(empty, "orders").rolls_up and rolled_up_by(empty) == b""
    assert rolled_up_by(block("nats-rollup: sub")) == b"" == rolled_up_by(block("X: Nats-Rollup: sub"))
    refusal = read_block(block("Nats-Rollup: sub"), "orders").refusal
    assert refusal is not None and refusal.code == ERR_ROLLUP_DISABLED and "--allow-rollup" in refusal.text
    refusal = read_block(block("Nats-Rollup: some"), "orders", ROLLS_UP).refusal
    assert refusal is not None and refusal.code == ERR_HEADER and "'sub' and 'all'" in refusal.text
    refusal = read_block(b"NATS/1.0\r\nNats-Rollup: sub\r\nx", "orders", ROLLS_UP).refusal
    assert refusal is not None and refusal.code == ERR_HEADER
    refusal = read_block(block("Nats-Rollup: sub", "Liftlog-Batch: 1"), "orders", ROLLS_UP).refusal
    assert refusal is not None and "parcel" in refusal.text


@pytest.mark.parametrize("subject", [b"orders.*", b"orders.>", b"orders..a", b"orders.\xff"])
def test_R23_a_subject_that_others_match_cannot_be_rolled_up(subject: bytes) -> None:
    sent = [Message(subject, b"", block(line), b"x") for line in ("Nats-Rollup: sub", "X: y")]
    wishes = of_one_subject(sent, read(sent, "orders", terms=ROLLS_UP))
    assert wishes is not None and wishes[0].refusal is not None and wishes[1].refusal is None
    assert wishes[0].refusal.code == ERR_HEADER
    good = [Message(b"orders.a", b"", block("Nats-Rollup: sub"), b"x")]
    wishes = of_one_subject(good, read(good, "orders", terms=ROLLS_UP))
    assert wishes is not None and wishes[0].refusal is None


def test_R23_a_stream_that_does_not_allow_it_refuses() -> None:
    world, partition = rolling(allow=False)
    leader, end = world.leader(partition), world.replica(world.leader(partition), partition).leo
    publish(world, partition, Message(b"orders.a", b"_INBOX.1", block("Nats-Rollup: sub"), b"x"))
    assert world.replica(leader, partition).leo == end


def test_R23_which_streams_may_allow_it() -> None:
    config = StreamConfig("s", "s", 1, 3, removal=True, allow_rollup=True)
    assert limits_problem(config) == "" and config.rolls_up
    off = altered(config, StreamChanges(allow_rollup=False))
    assert off.allow_rollup is UNSET and not off.rolls_up
    assert describe_alteration(config, off) == "allow_rollup true -> false"
    plain = StreamConfig("s", "s", 1, 3)
    assert "--removal" in alteration_problem(plain, StreamChanges(allow_rollup=True))


def test_R23_the_entry_is_read_as_it_was_written() -> None:
    said = RolledUp(3, 1 << 40)
    assert decode_entry(encode_come_to(said)) == said
    with pytest.raises(BadEntry, match="2 numbers"):
        decode_entry(encode_come_to(said)[:2])
