"""A message that expects a certain last record of its subject is stored behind it or not at all (L9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from liftlog.core.replica.publishing import lasts
from liftlog.core.replica.publishing.lasts import NOTE_BYTES, WAIT_MS, LastRecords
from liftlog.messages import ERR_NOT_READY, LastsTold, RefusePublishes
from liftlog.mutants import Mutants
from liftlog.options.envelope import Envelope, seal
from liftlog.options.reading import wishes_of
from liftlog.options.wishes import Wishes
from liftlog.parcel import HEAD_BYTES, Parcel, ParcelRecord, addressed, seal_parcel
from liftlog.real import nats_wire
from liftlog.types import NO_OFFSET, Message, OffsetRange, PartitionId
from tests.core.node_harness import World
from tests.core.test_ack_policies import acks_for, publish, split
from tests.core.test_headers import block
from tests.core.test_replication import others, ready


def behind(last: int, reply: bytes = b"", value: bytes = b"x", subject: str = "orders.a") -> Message:
    """Expects this to be the last record of its subject."""
    shown = "none" if last == NO_OFFSET else str(last)
    lines = block(f"Liftlog-Expected-Last-Subject-Offset: {shown}")
    return Message(subject.encode(), reply, lines, value)


def plain(value: bytes, subject: str = "orders.a", reply: bytes = b"") -> Message:
    return Message(subject.encode(), reply, b"", value)


def stored(world: World, partition: PartitionId) -> list[bytes | None]:
    """What came behind the three values that were there."""
    return world.values(world.leader(partition), partition)[3:]


def refused(world: World) -> list[tuple[bytes, int | None]]:
    """Who was refused so, and what for."""
    assert {refusal.code for refusal in world.refusals} <= {"expected-last"}
    return [(reply, one.last_offset) for one in world.refusals for reply in one.replies]


def leader_of(world: World, partition: PartitionId) -> Any:
    roles = world.replica(world.leader(partition), partition).roles
    assert roles is not None
    return roles.leader


def log_of(world: World, partition: PartitionId) -> Any:
    return world.disks[world.leader(partition)].logs[partition]


# -- what is said ----------------------------------------------------------------------------------------

THEIRS = "Nats-Expected-Last-Subject-Sequence"


@pytest.mark.parametrize(
    ("lines", "expected", "compared"),
    [
        (["Liftlog-Expected-Last-Subject-Offset: 17"], 17, b""),
        (["liftlog-expected-last-subject-offset:  none "], NO_OFFSET, b""),
        ([f"{THEIRS}: 18"], 17, b""),
        ([f"{THEIRS}: 0"], NO_OFFSET, b""),
        ([f"{THEIRS.lower()}: 0"], None, b""),
        ([f"{THEIRS}: "], None, b""),
        ([f"{THEIRS}: 18", "Liftlog-Expected-Last-Subject-Offset: 17"], 17, b""),
        ([f"{THEIRS}: 0", "Liftlog-Expected-Last-Subject-Offset: none"], NO_OFFSET, b""),
        ([f"{THEIRS}: 3", f"{THEIRS}-Subject: orders.b"], 2, b"orders.b"),
    ],
)
def test_L9_headers_say_which_record(lines: list[str], expected: int | None, compared: bytes) -> None:
    wish = wishes_of(Message(b"orders", b"", block(*lines), b"x"), "orders")
    assert (wish.expected_last, wish.compared, wish.refusal) == (expected, compared, None)
    within = wishes_of(Message(b"orders", b"", block(*lines[:1]), seal(Envelope())), "orders")
    assert within.refusal is not None or within.expected_last == wish.expected_last


@pytest.mark.parametrize(
    "lines",
    [
        ["Liftlog-Expected-Last-Subject-Offset: -1"],
        ["Liftlog-Expected-Last-Subject-Offset: last"],
        ["Liftlog-Expected-Last-Subject-Offset: " + "9" * 19],
        [f"{THEIRS}: none"],
        [f"{THEIRS}: 4", "Liftlog-Expected-Last-Subject-Offset: 4"],
        [f"{THEIRS}: 4", "Liftlog-Expected-Last-Subject-Offset: none"],
        [f"{THEIRS}-Subject: orders.b"],
    ],
)
def test_L9_what_cannot_be_compared_is_refused(lines: list[str]) -> None:
    refusal = wishes_of(Message(b"orders", b"", block(*lines), b"x"), "orders").refusal
    assert refusal is not None and refusal.code == "header-not-honoured"


def test_L9_the_answer_says_which_record_is_the_last() -> None:
    refusal = RefusePublishes(
        PartitionId(5, 2), "orders", 4, "expected-last", "wrong", [b"_INBOX.a"], full=[True], last_offset=8
    )
    ((_, payload),) = split(nats_wire.refusals(refusal))
    body = json.loads(payload)
    assert body["error"]["err_code"] == 10071
    assert body["liftlog"] == {"code": "expected-last", "outcome": "info", "last_offset": 8}


# -- comparing -------------------------------------------------------------------------------------------


def test_L9_each_message_is_compared_with_all_of_its_subject_that_is_before_it() -> None:
    world, partition = ready()
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a", b"a"), behind(NO_OFFSET, b"_INBOX.b", b"b"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.a")) and bool(world.refusals))
    assert refused(world) == [(b"_INBOX.b", 3)]
    assert "wrong last sequence: 4; the last message of its subject has offset 3" in (
        world.refusals[0].description
    )
    publish(
        world,
        partition,
        plain(b"c", "orders.c"),
        behind(3, b"_INBOX.d", b"d"),
        behind(3, b"_INBOX.e", b"e"),
        behind(4, b"_INBOX.f", b"f", "orders.c"),
        behind(5, b"_INBOX.g", b"g"),
    )
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.g")))
    assert stored(world, partition) == [b"a", b"c", b"d", b"f", b"g"]
    assert refused(world)[1:] == [(b"_INBOX.e", 5)]
    marks = world.nodes[world.leader(partition)].marks
    assert marks["L9.refused"] == 2 and marks["L9.expected-last"] == 2 and marks["L9.waits"] == 2


def test_L9_what_was_there_before_is_asked_of_the_index() -> None:
    world, partition = ready()
    publish(world, partition, plain(b"old"))
    assert world.run_until(lambda: world.committed(partition, 4))
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a"), behind(3, b"_INBOX.b", b"new"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.b")))
    assert refused(world) == [(b"_INBOX.a", 3)] and stored(world, partition) == [b"old", b"new"]


def test_L9_a_message_waits_for_the_index_and_others_do_not() -> None:
    world, partition = ready()
    for node in others(world, partition):
        world.hold_storage(node)
    publish(world, partition, plain(b"not committed"))
    publish(world, partition, behind(3, b"_INBOX.a", b"waits"), plain(b"does not", "orders.b"))
    world.run(0.3)
    assert stored(world, partition) == [b"not committed", b"does not"]
    assert leader_of(world, partition).inflight_bytes > 0 and not leader_of(world, partition).settled
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.a")))
    assert stored(world, partition) == [b"not committed", b"does not", b"waits"] and refused(world) == []
    assert leader_of(world, partition).inflight_bytes == 0


def test_L9_what_came_meanwhile_counts() -> None:
    world, partition = ready()
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a", b"late"))
    publish(world, partition, plain(b"faster"))
    assert world.run_until(lambda: bool(world.refusals))
    assert refused(world) == [(b"_INBOX.a", 3)] and stored(world, partition) == [b"faster"]


def test_L9_a_refusal_waits_until_what_it_rests_on_is_committed() -> None:
    world, partition = ready()
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a", b"a"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.a")))
    for node in others(world, partition):
        world.hold_storage(node)
    publish(world, partition, behind(3, b"", b"b"), behind(9, b"_INBOX.z", b"z", "orders.z"))
    publish(world, partition, behind(3, b"_INBOX.c", b"c"))
    world.run(0.3)
    assert refused(world) == [(b"_INBOX.z", NO_OFFSET)], "that one rests on nothing"
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: len(world.refusals) == 2)
    assert refused(world)[1:] == [(b"_INBOX.c", 4)]


def test_L9_another_subject_may_be_meant_if_it_is_this_partitions() -> None:
    world, partition = ready()

    def about(subject: str, last: int, reply: bytes) -> Message:
        lines = block(f"{THEIRS}: {last + 1}", f"{THEIRS}-Subject: {subject}")
        return Message(b"orders", reply, lines, b"x")

    publish(world, partition, about("orders", 2, b"_INBOX.a"), about("orders.*", 2, b"_INBOX.b"))
    publish(world, partition, about("elsewhere", NO_OFFSET, b"_INBOX.c"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.a")))
    assert [(one.code, one.replies) for one in world.refusals] == [
        ("header-not-honoured", [b"_INBOX.b"]),
        ("header-not-honoured", [b"_INBOX.c"]),
    ]
    assert "not this partition's" in world.refusals[1].description


def test_L9_a_parcel_is_compared_as_one_and_each_of_its_records_counts() -> None:
    world, partition = ready()

    def parcel(last: int, reply: bytes, *records: tuple[bytes, bytes]) -> Message:
        payload = seal_parcel([ParcelRecord(value, subject=subject) for value, subject in records])
        return Message(b"orders", reply, block("Liftlog-Batch: 1", f"{THEIRS}: {last + 1}"), payload)

    publish(world, partition, parcel(2, b"_INBOX.a", (b"a", b"orders"), (b"b", b"orders"), (b"c", b"orders")))
    publish(world, partition, parcel(3, b"_INBOX.b", (b"d", b"orders")))
    publish(world, partition, parcel(5, b"_INBOX.c", (b"e", b"orders")))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.c")))
    assert refused(world) == [(b"_INBOX.b", 5)]
    assert stored(world, partition) == [b"a", b"b", b"c", b"e"]


@pytest.mark.parametrize("unnoted", [False, True])
def test_L9_the_records_of_a_parcel_are_noted_under_their_own_subjects(unnoted: bool) -> None:
    world, partition = ready(mutants=Mutants(last_of_parcel_unnoted=unnoted))
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.z", b"z", "orders"))
    assert world.run_until(lambda: bool(world.refusals))
    payload = seal_parcel([ParcelRecord(b"a", subject=b"orders"), ParcelRecord(b"b")])
    world.replica(world.leader(partition), partition).roles.leader.lasts.appended(  # type: ignore[union-attr]
        [plain(b"", "orders.p")],
        [Wishes(parcel=Parcel(2, addressed(payload[HEAD_BYTES:], 2, b"orders.q")))],
        3,
    )
    found = leader_of(world, partition).lasts
    noted = [found.last_of(subject) for subject in (b"orders", b"orders.q", b"orders.p")]
    assert noted == ([None, None, 4] if unnoted else [3, 4, None])


def test_L9_records_below_the_log_start_are_none() -> None:
    world, partition = ready()
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a", b"a"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.a")))
    leading = leader_of(world, partition)
    assert leading.lasts.last_of(b"orders.a") == 3
    world.replica(world.leader(partition), partition).log.start_moved(4)
    assert leading.lasts.last_of(b"orders.a") == NO_OFFSET


# -- when it is not known ----------------------------------------------------------------------------------


def not_ready(world: World, reply: bytes) -> str:
    (one,) = [refusal for refusal in world.refusals if reply in refusal.replies]
    assert one.code == ERR_NOT_READY
    return one.description


def test_L9_who_waits_too_long_is_refused_and_may_try_again() -> None:
    world, partition = ready()
    log_of(world, partition).fold_slice = 0
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a"), behind(NO_OFFSET, b""))
    world.run(WAIT_MS / 1000 / 2)
    assert not world.refusals
    assert world.run_until(lambda: bool(world.refusals), WAIT_MS / 1000)
    assert "the subject index has come to offset 0 of 3; send it again" in not_ready(world, b"_INBOX.a")
    assert leader_of(world, partition).settled is False and leader_of(world, partition).inflight_bytes == 0
    assert stored(world, partition) == []
    log_of(world, partition).fold_slice = 100
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.b", b"b"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.b")))


def test_L9_an_index_that_cannot_be_made_refuses() -> None:
    world, partition = ready()
    log_of(world, partition).bad.append(OffsetRange(1, 2))
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a"))
    assert world.run_until(lambda: bool(world.refusals))
    assert "bad bytes" in not_ready(world, b"_INBOX.a")


def test_L9_an_answer_with_an_error_refuses() -> None:
    world, partition = ready()
    leading = leader_of(world, partition)
    log_of(world, partition).fold_slice = 0
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a"))
    leading.lasts.request = 77
    told = LastsTold(partition, 77, 0, [], [], "the log has failed")
    world.step(world.leader(partition), told)
    assert "the log has failed" in not_ready(world, b"_INBOX.a")
    world.step(world.leader(partition), told)
    assert len(world.refusals) == 1, "an answer to nothing that is asked"


def test_L9_storage_says_itself_that_its_index_is_behind() -> None:
    world, partition = ready()
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a", b"a"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.a")))
    log_of(world, partition).folded = -1
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.b", b"b", "orders.b"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.b")))
    assert world.nodes[world.leader(partition)].marks["L9.behind"] == 1


def test_L9_notes_are_bounded_and_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    world, partition = ready()
    monkeypatch.setattr(lasts, "NOTES_BYTES_MAX", 3 * NOTE_BYTES)
    log_of(world, partition).fold_slice = 0
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a"))
    publish(world, partition, *[plain(b"x", f"orders.{number}") for number in range(5)])
    assert world.run_until(lambda: bool(world.refusals), 0.5)
    assert "does not keep up" in not_ready(world, b"_INBOX.a")
    assert world.nodes[world.leader(partition)].marks["L9.too-many"] == 1
    log_of(world, partition).fold_slice = 100
    publish(world, partition, behind(3, b"_INBOX.b", b"b", "orders.0"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.b")))


def test_L9_notes_are_dropped_when_the_index_has_them_and_end_when_nobody_asks() -> None:
    world, partition = ready()
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.a", b"a"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.a")))
    found: LastRecords = leader_of(world, partition).lasts
    world.run(2.0)
    assert found.last_of(b"orders.a") is None and found.noting
    publish(world, partition, behind(3, b"_INBOX.b", b"b"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.b")))
    world.replica(world.leader(partition), partition).log.index.given_up()
    world.run(0.3)
    assert not found.noting
    publish(world, partition, behind(4, b"_INBOX.c", b"c"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.c")))
    assert stored(world, partition) == [b"a", b"b", b"c"]


def test_L9_N2_a_fenced_leader_judges_nobody() -> None:
    world, partition = ready()
    log_of(world, partition).fold_slice = 0
    publish(world, partition, behind(5, b"_INBOX.a"))
    leading = leader_of(world, partition)
    leading.fence()
    assert leading.inflight_bytes == 0 and not leading.lasts.waiting
    assert world.nodes[world.leader(partition)].marks["L9.silenced"] == 1
    world.run(3.0)
    assert not world.refusals


def test_L9_what_an_earlier_leader_stored_and_what_was_cut() -> None:
    world, partition = ready()
    first = world.leader(partition)
    for node in others(world, partition):
        world.hold_storage(node)
    publish(world, partition, plain(b"cut later"), behind(3, b"_INBOX.a", b"waits"))
    world.run(0.1)
    world.kill(first)
    for node in list(world.nodes):
        world.release_storage(node)
    assert world.run_until(lambda: world.leader(partition) not in (0, first))
    assert world.run_until(lambda: partition in world.subscriptions)
    last = len(world.values(world.leader(partition), partition)) - 1
    publish(world, partition, behind(last if last > 2 else NO_OFFSET, b"_INBOX.b", b"b"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.b")))
    assert not world.refusals


# -- planted bugs ------------------------------------------------------------------------------------------


def doubled(**bugs: Any) -> bool:
    """Whether two publishers are told that theirs followed on the same record of a subject."""
    world, partition = ready(mutants=Mutants(**bugs))
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.z", b"z", "orders.z"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.z")))
    world.run(0.5)
    world.replica(world.leader(partition), partition).log.index.given_up()
    world.run(0.5)
    for node in others(world, partition):
        world.hold_storage(node)
    publish(world, partition, plain(b"first"))
    publish(world, partition, behind(NO_OFFSET, b"_INBOX.wrong", b"wrong"))
    world.run(0.3)
    for node in others(world, partition):
        world.release_storage(node)
    world.run(1.0)
    for node in others(world, partition):
        world.hold_storage(node)
    publish(world, partition, behind(4, b"_INBOX.a", b"a"), behind(4, b"_INBOX.b", b"b"))
    world.run(0.3)
    publish(world, partition, behind(4, b"_INBOX.c", b"c"))
    world.run(0.3)
    return stored(world, partition) != [b"z", b"first", b"a"]


@pytest.mark.parametrize(
    "bugs",
    [
        {},
        {"last_of_index_alone": True},
        {"last_of_index_behind": True},
        {"last_of_those_before": True},
        {"without": "L9.not-known"},
        {"without": "L9.expected-last"},
    ],
)
def test_L9_each_planted_bug_stores_what_must_not_be(bugs: dict[str, Any]) -> None:
    assert doubled(**bugs) == bool(bugs)
