"""A message that says so goes when its time is over (R24)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from liftlog.bounds import TTL_MOST_MS
from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem, altered, describe_alteration
from liftlog.core.metadata.limits import limits_problem
from liftlog.core.replica.removal import lifetimes
from liftlog.core.replica.removal.entries import BadEntry, Outlived, decode_entry, encode_come_to
from liftlog.core.replica.removal.lifetimes import Lifetimes
from liftlog.messages import (
    ERR_HEADER,
    ERR_TTL_DISABLED,
    ERR_TTL_INVALID,
    AlterStreamRequest,
    DeleteMessageRequest,
    MessageDeleted,
    Published,
    StreamChanges,
)
from liftlog.mutants import Mutants
from liftlog.options.headers import read_block
from liftlog.options.lifetime import ANY, ENDS, STAYS, lifetime_ms, stored_lifetime
from liftlog.options.wishes import Terms
from liftlog.types import Message, PartitionId, StreamConfig
from tests.core.node_harness import WALL_START_MS, World
from tests.core.test_ack_policies import publish
from tests.core.test_headers import block
from tests.core.test_journal import delete, marks, others
from tests.core.test_roll_ups import new_leader
from tests.core.test_subject_limits import entries, journal, message_of_journal, shows

LARGE = 10**9


def living(allow: bool = True, **kwargs: Any) -> tuple[World, PartitionId]:
    """A cluster with one stream whose messages may say for how long they are to stay."""
    world = World(**kwargs)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(removal=True, allow_ttl=allow or UNSET)
    assert world.run_until(lambda: partition in world.subscriptions)
    return world, partition


def send(world: World, partition: PartitionId, lives: str) -> int:
    """One message for each: seconds, `.`: nothing said, `n`: never. Where they will end."""
    end = world.replica(world.leader(partition), partition).leo
    sent = []
    for number, life in enumerate(lives, end):
        said = {".": "", "n": "never"}.get(life, life)
        headers = block(f"Nats-TTL: {said}") if said else b""
        sent.append(Message(b"orders.a", b"", headers, b"%d" % number))
    leader, epoch = world.subscriptions[partition]
    stamp_ms = WALL_START_MS + int(world.now * 1000)
    world.step(leader, Published(partition, epoch, sent, stamp_ms))
    return end + len(lives)


def put(world: World, partition: PartitionId, lives: str) -> None:
    """Until they are committed."""
    end = send(world, partition, lives)
    assert world.run_until(lambda: world.committed(partition, end))


def acting(world: World, partition: PartitionId) -> Lifetimes:
    """Whoever does it for the leader."""
    roles = world.replica(world.leader(partition), partition.journal).roles
    assert roles is not None and roles.lifetimes is not None
    return roles.lifetimes


# -- what goes ---------------------------------------------------------------------------------------------


def test_R24_messages_go_when_their_time_is_over_on_all_copies() -> None:
    world, partition = living()
    put(world, partition, "1.3n2")
    world.run(0.7)
    assert shows(world, partition, 0, 1, 2, 3, 4) and entries(world, partition) == 0
    world.run(0.5)
    assert shows(world, partition, 1, 2, 3, 4)
    world.run(1.0)
    assert shows(world, partition, 1, 2, 3)
    world.run(1.0)
    assert shows(world, partition, 1, 3)
    assert marks(world, partition)["R24.over"] == 3
    assert journal(world, partition).removed.outlived == Outlived(1, 5)


@pytest.mark.parametrize("mutant", [False, True])
def test_R24_nothing_goes_before_its_time(mutant: bool) -> None:
    """The first message of this world is stored in the last part of a second."""
    world, partition = living(mutants=Mutants(ttl_of_whole_seconds=mutant))
    world.run(1.0 - world.now % 1.0 - 0.2)
    put(world, partition, "1")
    world.run(0.5)
    assert (entries(world, partition) > 0) == mutant
    world.run(0.8)
    assert shows(world, partition)


def test_R24_several_go_in_one_entry() -> None:
    world, partition = living()
    put(world, partition, "1111.1")
    assert world.run_until(lambda: entries(world, partition) == 2)
    assert shows(world, partition, 4)


def test_R24_no_more_entries_are_on_their_way_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes, "AHEAD_MAX", 1)
    monkeypatch.setattr(lifetimes, "RUNS_MAX", 2)
    world, partition = living()
    put(world, partition, "1.1.1.1.1.1.")
    world.drop = lambda sender, to, message: message_of_journal(message, partition)
    world.run(1.5)
    assert entries(world, partition) == 2
    world.drop = lambda sender, to, message: False
    assert shows(world, partition, *range(1, 12, 2))


def test_R24_where_nothing_has_a_time_nothing_is_written() -> None:
    world, partition = living()
    put(world, partition, "..n.")
    world.run(2.0)
    assert shows(world, partition, 0, 1, 2, 3) and entries(world, partition) == 0


def test_R24_what_is_deleted_already_is_not_named_again() -> None:
    world, partition = living()
    put(world, partition, "1.")
    assert isinstance(delete(world, partition, 0), MessageDeleted)
    world.run(1.5)
    assert "R24.over" not in marks(world, partition)
    assert journal(world, partition).removed.outlived == Outlived(1, 2)


def test_R24_a_message_that_is_not_committed_does_not_go() -> None:
    world, partition = living()
    for node in others(world, partition):
        world.hold_storage(node)
    send(world, partition, "1")
    world.run(1.5)
    assert entries(world, partition) == 0
    for node in list(world.held):
        world.release_storage(node)
    assert shows(world, partition)


# -- leaders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", [False, True])
def test_R24_a_new_leader_finds_what_is_still_to_go(mutant: bool) -> None:
    world, partition = living(mutants=Mutants(ttl_not_inherited=mutant))
    put(world, partition, "69.")
    new_leader(world, partition)
    if mutant:
        world.run(10.0)
    assert shows(world, partition, *([0, 1, 2] if mutant else [1, 2]))
    assert shows(world, partition, *([0, 1, 2] if mutant else [2]))


@pytest.mark.parametrize("mutant", [False, True])
def test_R24_it_begins_below_what_was_not_over_yet(mutant: bool) -> None:
    world, partition = living(mutants=Mutants(ttl_said_first=mutant))
    put(world, partition, "1.4")
    world.run(1.5)
    assert shows(world, partition, 1, 2)
    new_leader(world, partition)
    one = acting(world, partition)
    assert world.run_until(lambda: one._said.through >= 0)
    assert one._said.through == (3 if mutant else 0)
    world.run(4.5)
    assert shows(world, partition, *([1, 2] if mutant else [1]))


def test_R24_it_begins_where_an_entry_says_that_none_is_left() -> None:
    world, partition = living()
    put(world, partition, "1.")
    world.run(1.5)
    assert journal(world, partition).removed.outlived == Outlived(1, 2)
    new_leader(world, partition)
    put(world, partition, ".")
    assert world.run_until(lambda: acting(world, partition).passage.at == 3)
    assert acting(world, partition)._said.through == 2


def test_R24_how_far_none_is_left_is_said_also_while_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes, "SAID_EVERY", 3)
    world, partition = living()
    put(world, partition, "...9..")
    world.run(0.3)
    assert journal(world, partition).removed.outlived == Outlived(1, 3)


@pytest.mark.parametrize("guard", [False, True])
def test_R24_what_is_said_of_records_that_were_given_up_is_not_believed(guard: bool) -> None:
    world, partition = living(mutants=Mutants(without="" if guard else "R24.other-records"))
    put(world, partition, "..")
    one = acting(world, partition)
    journal(world, partition).removed.outlived = Outlived(7, 2)
    assert one._begin() == (0 if guard else 2)
    assert not guard or marks(world, partition)["R24.other-records"] == 1
    journal(world, partition).removed.outlived = Outlived(1, 2)
    assert one._begin() == 2


def test_R24_a_journal_that_is_said_again_says_where_none_is_left() -> None:
    world, partition = living()
    for _ in range(20):
        put(world, partition, "1.")
        world.run(1.2)
    leader = world.leader(partition)
    assert world.run_until(lambda: world.replica(leader, partition.journal).log_start > 0)
    for node in world.nodes:
        removed = world.replica(node, partition.journal).removed
        assert removed is not None
        removed.follow(anew=True)
        assert removed.outlived == Outlived(1, 40)


def test_R24_what_was_not_committed_of_a_journal_is_done_again() -> None:
    world, partition = living()
    put(world, partition, "1.")
    world.drop = lambda sender, to, message: message_of_journal(message, partition)
    world.run(1.3)
    assert entries(world, partition) > 0 and journal(world, partition).hw == 0
    old = new_leader(world, partition)
    world.drop = lambda sender, to, message: False
    assert shows(world, partition, 1)
    world.restart(old)
    assert world.run_until(lambda: partition.journal in world.nodes[old].replicas)
    assert shows(world, partition, 1)


# -- the bound ---------------------------------------------------------------------------------------------


def test_R24_what_there_is_no_room_for_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes, "HELD_MAX", 2)
    world, partition = living()
    put(world, partition, "654321.")
    one = acting(world, partition)
    assert world.run_until(lambda: one.passage.at == 7)
    assert [held.offset for _, held in sorted(one._held)] == [5, 4]
    assert one._again is not None and one._again[0] == 0
    for gone in range(1, 7):
        left = [offset for offset in range(7) if offset < 6 - gone or offset == 6]
        assert shows(world, partition, *left)
    assert marks(world, partition)["R24.again"] >= 2
    assert journal(world, partition).removed.outlived == Outlived(1, 7)


def test_R24_of_many_that_are_due_together_none_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes, "HELD_MAX", 2)
    world, partition = living()
    put(world, partition, "1111111.")
    world.run(2.0)
    assert shows(world, partition, 7)


# -- clocks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guard", [False, True])
def test_R24_a_clock_that_has_jumped_is_not_believed(guard: bool) -> None:
    world, partition = living(mutants=Mutants(without="" if guard else "R24.clock"))
    put(world, partition, "9.")
    one, ahead = acting(world, partition), 0
    ctx = one._ctx

    def tick() -> None:
        """As another clock tells it."""
        ctx.see_clocks(world.now * 1000, ctx.wall_ms + ahead)
        one.tick()

    world.run(0.1)
    ahead = 60_000
    tick()
    assert (entries(world, partition) > 0) == (not guard)
    if not guard:
        return
    assert marks(world, partition)["R24.clock"] == 1
    ahead = 0
    world.run(1.0)  # The clock is right again.
    assert shows(world, partition, 0, 1) and marks(world, partition)["R24.jumped"] == 1
    world.run(9.0)
    assert shows(world, partition, 1)


def test_R24_a_clock_that_stands_where_it_has_jumped_to_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    world, partition = living()
    put(world, partition, "9.")
    one = acting(world, partition)
    one._ctx._believed -= 5000  # As if it had shown less until now.
    one._held = [(due - 8000, offset) for due, offset in one._held]
    world.run(8.0)
    assert shows(world, partition, 0, 1)
    world.run(3.0)
    assert shows(world, partition, 1)


# -- what is in the way ------------------------------------------------------------------------------------


def test_R24_what_was_let_alone_goes_when_it_is_allowed_again() -> None:
    world, partition = living()
    put(world, partition, "1.")
    world.answer(1, AlterStreamRequest("orders", StreamChanges(allow_ttl=False)))
    world.run(1.5)
    assert entries(world, partition) == 0
    world.answer(1, AlterStreamRequest("orders", StreamChanges(allow_ttl=True)))
    assert shows(world, partition, 1)


def test_R24_a_stream_that_is_read_only_lets_nothing_go() -> None:
    world, partition = living()
    put(world, partition, "1.")
    world.answer(1, AlterStreamRequest("orders", StreamChanges(read_only=True)))
    world.run(1.5)
    assert entries(world, partition) == 0
    world.answer(1, AlterStreamRequest("orders", StreamChanges(read_only=False)))
    assert shows(world, partition, 1)


def test_R24_a_leader_reads_what_is_no_longer_in_memory_from_its_disk() -> None:
    world, partition = living()
    one = acting(world, partition)
    one._pause._until = LARGE
    put(world, partition, "1.")
    one._data.cache.clear()
    one._pause._until = 0
    assert world.run_until(lambda: bool(one.passage.request))
    world.run(1.3)
    assert shows(world, partition, 1)


def test_R24_where_the_log_cannot_be_read_it_is_tried_again_after_a_while() -> None:
    world, partition = living()
    put(world, partition, "1.")
    one = acting(world, partition)
    one._leave_alone()
    put(world, partition, "1.")
    world.run(5.0)
    assert shows(world, partition, 1, 2, 3)
    world.run(6.0)
    assert shows(world, partition, 1, 3)


def test_R24_a_deletion_beside_it_changes_nothing() -> None:
    world, partition = living()
    put(world, partition, "11.")
    world.ask(world.leader(partition), DeleteMessageRequest(partition, 1))
    world.run(1.5)
    assert shows(world, partition, 2)


# -- what is said and refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (b"1", 1000),
        (b"90", 90_000),
        (b"1h30m", 5_400_000),
        (b"+1s", 1000),
        (b"1.5s", 1500),
        (b"1000000us", 1000),
        ("1000000µs".encode(), 1000),
        ("1000000μs".encode(), 1000),
        (b"1000.0004ms", 1001),
        (b".5m", 30_000),
        (b"2.h", 7_200_000),
        (b"never", STAYS),
        (b"NEVER", STAYS),
        (b"9223372036", TTL_MOST_MS // 1000 * 1000),
        (b"9223372037", None),
        (b"0", None),
        (b"999ms", None),
        (b"-5", None),
        (b"-5s", None),
        (b"+5", None),
        (b"1d", None),
        (b"1h 30m", None),
        (b"soon", None),
        (b".s", None),
        (b"1.5", None),
        (b"\xff", None),
        (b"", None),
        (b"1s" * 60, None),
        (b"9" * 20, None),
    ],
)
def test_R24_how_a_time_is_said(value: bytes, ms: int | None) -> None:
    assert lifetime_ms(value) == ms
    if value and value.isascii():
        headers = block(f"Nats-TTL: {value.decode()}")
        refusal = read_block(headers, "orders", Terms(ttl=ANY)).refusal
        assert (refusal is None) == (ms is not None)
        assert refusal is None or (refusal.code, "1h30m" in refusal.text) == (ERR_TTL_INVALID, True)
        assert stored_lifetime(headers) == (ms or STAYS)


@given(st.binary(max_size=40))
def test_R24_any_value_is_read(value: bytes) -> None:
    found = lifetime_ms(value)
    assert found is None or found == STAYS or 1000 <= found <= TTL_MOST_MS


@given(st.integers(1, TTL_MOST_MS // 1000))
def test_R24_seconds_are_what_a_duration_says(seconds: int) -> None:
    assert lifetime_ms(b"%d" % seconds) == lifetime_ms(b"%ds" % seconds) == seconds * 1000


def test_R24_which_headers_are_taken() -> None:
    assert read_block(block("Nats-TTL: never"), "orders", Terms(ttl=ANY)).refusal is None
    refusal = read_block(block("Nats-TTL: never"), "orders", Terms(ttl=ENDS)).refusal
    assert refusal is not None and refusal.code == ERR_TTL_INVALID and "retention_ms" in refusal.text
    assert read_block(block("Nats-TTL: 5"), "orders", Terms(ttl=ENDS)).refusal is None
    refusal = read_block(block("Nats-TTL: 5"), "orders").refusal
    assert refusal is not None and refusal.code == ERR_TTL_DISABLED and "--allow-ttl" in refusal.text
    refusal = read_block(b"NATS/1.0\r\nNats-TTL: 5\r\nx", "orders", Terms(ttl=ANY)).refusal
    assert refusal is not None and refusal.code == ERR_HEADER
    refusal = read_block(block("Nats-TTL: 5", "Liftlog-Batch: 1"), "orders", Terms(ttl=ANY)).refusal
    assert refusal is not None and "parcel" in refusal.text
    empty = block("Nats-TTL: ", "Nats-TTL: 5")
    assert read_block(empty, "orders").refusal is None and stored_lifetime(empty) == STAYS
    assert stored_lifetime(block("nats-ttl: 5")) == STAYS == stored_lifetime(block("X: Nats-TTL: 5"))
    assert stored_lifetime(b"") == STAYS


def test_R24_a_stream_that_does_not_allow_it_refuses() -> None:
    world, partition = living(allow=False)
    leader, end = world.leader(partition), world.replica(world.leader(partition), partition).leo
    publish(world, partition, Message(b"orders.a", b"_INBOX.1", block("Nats-TTL: 5"), b"x"))
    assert world.replica(leader, partition).leo == end


def test_R24_a_stream_whose_messages_go_by_age_promises_none_that_it_stays() -> None:
    world, partition = living()
    world.answer(1, AlterStreamRequest("orders", StreamChanges(retention_ms=60_000)))
    leader, end = world.leader(partition), world.replica(world.leader(partition), partition).leo
    publish(world, partition, Message(b"orders.a", b"_INBOX.1", block("Nats-TTL: never"), b"x"))
    assert world.replica(leader, partition).leo == end
    put(world, partition, "5")


def test_R24_which_streams_may_allow_it() -> None:
    config = StreamConfig("s", "s", 1, 3, removal=True, allow_ttl=True)
    assert limits_problem(config) == "" and config.has_ttl
    off = altered(config, StreamChanges(allow_ttl=False))
    assert off.allow_ttl is UNSET and not off.has_ttl
    assert describe_alteration(config, off) == "allow_ttl true -> false"
    plain = StreamConfig("s", "s", 1, 3)
    assert "--removal" in alteration_problem(plain, StreamChanges(allow_ttl=True))
    assert "--removal" in limits_problem(StreamConfig("s", "s", 1, 3, allow_ttl=True))


def test_R24_entries() -> None:
    said = Outlived(3, 300)
    assert decode_entry(encode_come_to(said)) == said
    with pytest.raises(BadEntry, match="2 numbers and has 1"):
        decode_entry(bytes([4, 1]))
