"""Messages that come one by one and are stored together, or not at all (L11)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from liftlog.core import batchroom
from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem, altered, describe_alteration
from liftlog.core.metadata.limits import limits_problem
from liftlog.core.replica.publishing import staging
from liftlog.core.replica.publishing.staging import SILENT_MS
from liftlog.format import decode_records
from liftlog.messages import (
    ERR_BATCH_COMMIT,
    ERR_BATCH_DISABLED,
    ERR_BATCH_DUPLICATE,
    ERR_BATCH_HEADER,
    ERR_BATCH_ID,
    ERR_BATCH_INCOMPLETE,
    ERR_BATCH_LARGE,
    ERR_BATCH_MANY,
    ERR_BATCH_SEQUENCE,
    ERR_EXPECTED_LAST,
    ERR_EXPECTED_OFFSET,
    ERR_EXPECTED_WITHIN,
    ERR_FULL,
    ERR_HEADER,
    ERR_NOT_READY,
    ERR_OVERLOAD,
    ERR_WRONG_STREAM,
    AckPublishes,
    AlterStreamRequest,
    StreamChanges,
    TellStaged,
)
from liftlog.mutants import Mutants
from liftlog.options.batches import batch_problem, part_in
from liftlog.options.envelope import Envelope, seal
from liftlog.options.reading import wishes_of
from liftlog.options.wishes import Terms
from liftlog.real import nats_wire
from liftlog.types import Message, PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_ack_policies import acks_for, publish, split
from tests.core.test_headers import block

SUBJECT = b"orders"
LAST = "Nats-Expected-Last-Subject-Sequence"


def opened(**settings: Any) -> tuple[World, PartitionId]:
    """A stream that takes batches, with three values in it."""
    mutants = settings.pop("mutants", Mutants())
    world = World(mutants=mutants, **settings.pop("config", {}))
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(allow_batches=True, **settings)
    assert world.run_until(lambda: partition in world.subscriptions)
    world.publish(partition, b"a", b"b", b"c")
    assert world.run_until(lambda: world.committed(partition, 3))
    return world, partition


def part(
    id: str, number: int, commit: str = "", *lines: str, value: bytes | None = None, subject: bytes = SUBJECT
) -> Message:
    """One message of a batch; its reply subject and its value say which."""
    more = [f"Nats-Batch-Commit: {commit}"] if commit else []
    headers = block(f"Nats-Batch-Id: {id}", f"Nats-Batch-Sequence: {number}", *more, *lines)
    name = f"{id}{number}".encode()
    return Message(subject, b"_INBOX." + name, headers, name if value is None else value)


def stored(world: World, partition: PartitionId) -> list[bytes | None]:
    """What came behind the three values that were there."""
    return world.values(world.leader(partition), partition)[3:]


def refused(world: World) -> list[tuple[str, bytes]]:
    return [(one.code, reply) for one in world.refusals for reply in one.replies]


def marks_of(world: World, partition: PartitionId) -> dict[str, int]:
    return world.nodes[world.leader(partition)].marks


def room_of(world: World, partition: PartitionId) -> tuple[int, int]:
    """What batches take up at the leader: their number, and bytes."""
    room = world.replica(world.leader(partition), partition).ctx.batches
    return room.batches, room.size


# -- what is said ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["Nats-Batch-Id: b"], ERR_BATCH_SEQUENCE),
        (["Nats-Batch-Id: b", "Nats-Batch-Sequence: 0"], ERR_BATCH_SEQUENCE),
        (["Nats-Batch-Id: b", "Nats-Batch-Sequence: -1"], ERR_BATCH_SEQUENCE),
        (["Nats-Batch-Id: b", "Nats-Batch-Sequence: first"], ERR_BATCH_SEQUENCE),
        (["Nats-Batch-Id: b", "Nats-Batch-Sequence: " + "1" * 10], ERR_BATCH_SEQUENCE),
        (["Nats-Batch-Id: " + "b" * 65, "Nats-Batch-Sequence: 1"], ERR_BATCH_ID),
        (["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: yes"], ERR_BATCH_COMMIT),
        (["Nats-Batch-Sequence: 1"], ERR_HEADER),
        (["Nats-Batch-Commit: 1"], ERR_HEADER),
        (["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Other: 1"], ERR_HEADER),
        (["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "broken"], ERR_HEADER),
    ],
)
def test_L11_what_is_not_said_well_is_refused(lines: list[str], code: str) -> None:
    wish = wishes_of(Message(SUBJECT, b"", block(*lines), b"x"), "orders", terms=Terms(batches=True))
    assert wish.refusal is not None and wish.refusal.code == code
    wish = wishes_of(Message(SUBJECT, b"", block(*lines), b"x"), "orders")
    assert wish.refusal is not None and wish.refusal.code == ERR_BATCH_DISABLED and wish.part is None
    assert "'liftlog stream alter orders --allow-batches'" in wish.refusal.text


NAMES = [b"Nats-Batch-Id", b"Nats-Batch-Sequence", b"Nats-Batch-Commit"]


@given(st.dictionaries(st.sampled_from(NAMES), st.binary() | st.sampled_from([b"1", b"2", b"eob"])))
def test_L11_whatever_is_said_is_a_part_or_refused(theirs: dict[bytes, bytes]) -> None:
    problem, found = batch_problem(theirs, "s", True), part_in(theirs)
    if problem is None and any(theirs.values()):
        assert found is not None and found.number > 0 and 0 < len(found.id) <= 64
    if found is None:
        assert problem is not None or not any(theirs.values())


# -- together ----------------------------------------------------------------------------------------------


def test_L11_nothing_is_stored_until_the_last_one_and_then_all_is_in_one_batch() -> None:
    world, partition = opened()
    publish(world, partition, part("x", 1), part("x", 2))
    world.run(0.3)
    assert stored(world, partition) == [] and not world.acks[3:]
    assert [reply for told in world.staged for reply in told.replies] == [b"_INBOX.x1", b"_INBOX.x2"]
    assert room_of(world, partition)[0] == 1 and room_of(world, partition)[1] > 0
    publish(world, partition, Message(SUBJECT, b"", b"", b"between"))
    publish(world, partition, part("x", 3, "1", "Liftlog-Ack: full"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.x3")))
    assert stored(world, partition) == [b"between", b"x1", b"x2", b"x3"]
    (ack,) = acks_for(world, b"_INBOX.x3")
    assert (ack.offsets_from, ack.records, ack.batch, ack.full) == (4, 3, b"x", [True])
    assert not acks_for(world, b"_INBOX.x1") and room_of(world, partition) == (0, 0)
    batch = world.disks[world.leader(partition)].logs[partition].batches[-1]
    assert (batch.base_offset, batch.end_offset) == (4, 7)
    assert marks_of(world, partition)["L11.staged"] == 2 and marks_of(world, partition)["L11.whole"] == 1


def test_L11_batches_may_be_interleaved_and_end_in_any_order() -> None:
    world, partition = opened()
    publish(world, partition, part("x", 1), part("y", 1), part("x", 2), part("y", 2, "1"), part("x", 3, "1"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.x3")))
    assert stored(world, partition) == [b"y1", b"y2", b"x1", b"x2", b"x3"]


def test_L11_a_batch_may_be_ended_by_a_message_that_is_not_in_it() -> None:
    world, partition = opened()
    publish(world, partition, part("x", 1), part("x", 2, "eob", value=b""))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.x2")))
    assert stored(world, partition) == [b"x1"]
    batch = world.disks[world.leader(partition)].logs[partition].batches[-1]
    (record,) = decode_records(batch)
    assert record.headers == block("Nats-Batch-Id: x", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 1")
    (ack,) = acks_for(world, b"_INBOX.x2")
    assert (ack.offsets_from, ack.records) == (3, 1)
    publish(world, partition, part("y", 1, "eob", value=b""))
    assert refused(world) == [(ERR_BATCH_INCOMPLETE, b"_INBOX.y1")]


def test_L11_keys_and_subjects_are_each_messages_own() -> None:
    world, partition = opened()
    publish(
        world,
        partition,
        part("x", 1, "", "Liftlog-Key: k", subject=b"orders.a"),
        part("x", 2, "1", "Liftlog-Key: k", "Liftlog-Tombstone: 1", subject=b"orders.b"),
    )
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.x2")))
    batch = world.disks[world.leader(partition)].logs[partition].batches[-1]
    found = [(record.subject, record.key, record.value) for record in decode_records(batch)]
    assert found == [(b"orders.a", b"k", b"x1"), (b"orders.b", b"k", None)]


def test_L11_the_answers() -> None:
    log = PartitionId(5, 2)
    acks = AckPublishes(log, "s", 7, 9, 41, [b"a"], [False], records=3, batch=b"x")
    ((_, payload),) = split(nats_wire.acknowledgements(acks))
    assert json.loads(payload) == {"stream": "s", "seq": 44, "batch": "x", "count": 3}
    assert nats_wire.staged(TellStaged(log, [b"a", b"b"])) == b"PUB a 0\r\n\r\nPUB b 0\r\n\r\n"


# -- or not at all -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("without", ["", "L11.due"])
def test_L11_a_gap_ends_a_batch(without: str) -> None:
    world, partition = opened(mutants=Mutants(without=without))
    publish(world, partition, part("x", 1), part("x", 3), part("x", 4, "1"))
    world.run(1.0)
    if without:
        assert stored(world, partition) == [b"x1", b"x3", b"x4"]
        return
    assert stored(world, partition) == []
    assert refused(world) == [(ERR_BATCH_INCOMPLETE, b"_INBOX.x3"), (ERR_BATCH_INCOMPLETE, b"_INBOX.x4")]
    assert "message 2 due" in world.refusals[0].description
    assert marks_of(world, partition)["L11.due"] == 1 and room_of(world, partition) == (0, 0)


@pytest.mark.parametrize("anywhere", [False, True])
def test_L11_a_leader_that_lacks_the_beginning_takes_nothing_of_it(anywhere: bool) -> None:
    world, partition = opened(mutants=Mutants(batch_begins_anywhere=anywhere))
    publish(world, partition, part("x", 1), part("x", 2))
    former = world.leader(partition)
    world.kill(former)
    assert world.run_until(lambda: partition in world.subscriptions)
    publish(world, partition, part("x", 3, "1"))
    world.run(1.0)
    assert stored(world, partition) == ([b"x3"] if anywhere else [])
    assert refused(world) == ([] if anywhere else [(ERR_BATCH_INCOMPLETE, b"_INBOX.x3")])
    assert marks_of(world, partition).get("L11.unknown", 0) == (not anywhere)


def test_L11_a_batch_that_is_silent_is_given_up() -> None:
    world, partition = opened()
    publish(world, partition, part("x", 1))
    world.run(SILENT_MS / 1000 - 1)
    publish(world, partition, part("x", 2))
    world.run(SILENT_MS / 1000 - 1)
    assert room_of(world, partition)[0] == 1
    world.run(2.0)
    assert room_of(world, partition) == (0, 0) and marks_of(world, partition)["L11.silent"] == 1
    told = [(one.kind, one.batch, one.reason) for one in world.advisories]
    assert told == [("batch-abandoned", "x", "timeout")]
    publish(world, partition, part("x", 3, "1"))
    assert refused(world) == [(ERR_BATCH_INCOMPLETE, b"_INBOX.x3")]


def test_L11_a_leader_that_is_cut_off_forgets_its_batches() -> None:
    world, partition = opened()
    leader = world.leader(partition)
    publish(world, partition, part("x", 1))
    world.drop = lambda sender, to, message: leader in (sender, to)
    room = world.replica(leader, partition).ctx.batches
    assert room.batches == 1
    assert world.run_until(lambda: room.batches == 0, 10.0)
    assert room.size == 0 and world.nodes[leader].marks["L11.forgotten"] == 1


def test_L11_what_is_wrong_with_a_message_its_batch_is_told_at_the_end() -> None:
    world, partition = opened(dedupe_window_ms=60_000)
    wrong = (
        part("a", 2, "", "Nats-Expected-Last-Msg-Id: 1"),
        part("b", 2, "", "Liftlog-Producer: p", "Liftlog-Run: 1", "Liftlog-Sequence: 0"),
        part("c", 2, "", "Liftlog-Ack-Policy: leader"),
        part("d", 2, "", "Liftlog-Ack: full"),
        part("e", 2, "", value=seal(Envelope(value=b"x"))),
        part("f", 2, "eob", "Liftlog-Key: k", value=b""),
        part("g", 2, "eob", value=b"something"),
    )
    for message in wrong:
        name = message.reply.removeprefix(b"_INBOX.")[:1].decode()
        publish(world, partition, part(name, 1), message, part(name, 3, "1"))
    world.run(0.5)
    assert stored(world, partition) == [] and room_of(world, partition) == (0, 0)
    ended = [reply[-2:] for code, reply in refused(world) if code == ERR_BATCH_HEADER]
    assert ended == [b"a3", b"b3", b"c3", b"d3", b"e3", b"f2", b"g2"]
    assert refused(world)[-1] == (ERR_BATCH_INCOMPLETE, b"_INBOX.g3")
    other = part("h", 2, "", "Nats-Expected-Stream: other")
    publish(world, partition, part("h", 1), other, part("h", 3, "1"))
    assert refused(world)[-1] == (ERR_WRONG_STREAM, b"_INBOX.h3")


# -- limits ------------------------------------------------------------------------------------------------


def test_L11_so_many_batches_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world, partition = opened()
    monkeypatch.setattr(staging, "OF_STREAM_MAX", 2)
    publish(world, partition, part("x", 1), part("y", 1), part("z", 1))
    assert refused(world) == [(ERR_BATCH_MANY, b"_INBOX.z1")]
    assert marks_of(world, partition)["L11.many"] == 1
    publish(world, partition, part("x", 2, "1"), part("z", 1), part("z", 2, "1"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.z2")))
    monkeypatch.setattr(staging, "OF_STREAM_MAX", 50)
    monkeypatch.setattr(batchroom, "BATCHES_MAX", 1)
    publish(world, partition, part("v", 1), part("w", 1))
    assert refused(world)[-1] == (ERR_BATCH_MANY, b"_INBOX.w1")


def test_L11_a_batch_has_so_many_messages_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    world, partition = opened(config={"batch_max_bytes": 4000})
    publish(world, partition, part("x", 1), part("x", 2, value=b"x" * 4000), part("x", 3, "1"))
    assert refused(world)[0] == (ERR_BATCH_LARGE, b"_INBOX.x2")
    monkeypatch.setattr(staging, "MESSAGES_MAX", 2)
    publish(world, partition, part("y", 1), part("y", 2), part("y", 3, "1"))
    assert refused(world)[-1] == (ERR_BATCH_LARGE, b"_INBOX.y3")
    publish(world, partition, part("z", 1), part("z", 2), part("z", 3, "eob", value=b""))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.z3")))
    assert marks_of(world, partition)["L11.large"] == 2


def test_L11_all_batches_together_take_so_much_memory() -> None:
    world, partition = opened(config={"inflight_max_bytes": 1000})
    publish(world, partition, part("x", 1, value=b"x" * 600), part("y", 1, value=b"x" * 600))
    assert refused(world) == [(ERR_OVERLOAD, b"_INBOX.y1")]
    assert room_of(world, partition)[0] == 1 and marks_of(world, partition)["L11.overload"] == 1


def test_L11_C6_a_batch_needs_room_for_all_of_it() -> None:
    world, partition = opened(messages_max=5)
    publish(world, partition, part("x", 1), part("x", 2), part("x", 3, "1"))
    publish(world, partition, part("y", 1), part("y", 2, "1"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.y2")))
    assert stored(world, partition) == [b"y1", b"y2"] and refused(world) == [(ERR_FULL, b"_INBOX.x3")]


# -- what they expect --------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [False, True])
def test_L11_L6_the_place_of_the_first_is_judged_at_the_end(nothing: bool) -> None:
    world, partition = opened(mutants=Mutants(batch_expects_nothing=nothing))
    publish(world, partition, part("x", 1, "", "Nats-Expected-Last-Sequence: 3"))
    publish(world, partition, Message(SUBJECT, b"", b"", b"between"))
    publish(world, partition, part("x", 2, "1"))
    world.run(1.0)
    if nothing:
        assert stored(world, partition) == [b"between", b"x1", b"x2"]
        return
    assert refused(world) == [(ERR_EXPECTED_OFFSET, b"_INBOX.x2")] and world.refusals[0].next_offset == 4
    publish(world, partition, part("y", 1, "", "Nats-Expected-Last-Sequence: 4"), part("y", 2, "1"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.y2")))
    assert stored(world, partition) == [b"between", b"y1", b"y2"]
    publish(world, partition, part("z", 1), part("z", 2, "1", "Nats-Expected-Last-Sequence: 6"))
    assert refused(world)[-1] == (ERR_EXPECTED_WITHIN, b"_INBOX.z2")


def test_L11_what_cannot_be_is_said_with_the_last_answer() -> None:
    """Clients send the messages between without a reply: they heard `batch-incomplete` alone."""
    world, partition = opened()
    publish(world, partition, part("x", 1), part("x", 2, "", "Nats-Expected-Last-Sequence: 6"), part("x", 3))
    assert not world.refusals
    publish(world, partition, part("x", 4, "1"))
    assert refused(world) == [(ERR_EXPECTED_WITHIN, b"_INBOX.x4")] and stored(world, partition) == []
    publish(world, partition, part("x", 1), part("x", 2, "1"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.x2")))
    assert stored(world, partition) == [b"x1", b"x2"]


def test_L11_L9_the_last_of_each_subject_is_judged_at_the_end() -> None:
    world, partition = opened()
    first = part("x", 1, "", f"{LAST}: 0", subject=b"orders.a")
    publish(world, partition, first, part("x", 2, "1", f"{LAST}: 3", subject=b"orders"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.x2")))
    assert marks_of(world, partition)["L9.waits"] == 1
    publish(world, partition, part("y", 1, "", f"{LAST}: 5"))
    publish(world, partition, Message(SUBJECT, b"", b"", b"between"))
    publish(world, partition, part("y", 2, "1", subject=b"orders.a"))
    assert world.run_until(lambda: bool(world.refusals))
    assert refused(world) == [(ERR_EXPECTED_LAST, b"_INBOX.y2")] and world.refusals[0].last_offset == 5
    assert stored(world, partition) == [b"x1", b"x2", b"between"]
    publish(world, partition, part("z", 1), part("z", 2, "1", f"{LAST}: 6"))
    assert refused(world)[-1] == (ERR_EXPECTED_WITHIN, b"_INBOX.z2")


def test_L11_L9_a_batch_that_waits_is_stored_once_and_its_id_is_taken_meanwhile() -> None:
    world, partition = opened()
    world.disks[world.leader(partition)].logs[partition].fold_slice = 0
    publish(world, partition, part("x", 1, "", f"{LAST}: 0", subject=b"orders.a"))
    publish(world, partition, part("x", 2, "1", f"{LAST}: 0", subject=b"orders.b"), part("x", 2, "1"))
    publish(world, partition, part("x", 1))
    assert refused(world) == [(ERR_BATCH_INCOMPLETE, b"_INBOX.x2"), (ERR_BATCH_INCOMPLETE, b"_INBOX.x1")]
    roles = world.replica(world.leader(partition), partition).roles
    assert roles is not None and roles.leader.inflight_bytes > 0
    world.disks[world.leader(partition)].logs[partition].fold_slice = 100
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.x2")))
    assert stored(world, partition) == [b"x1", b"x2"] and roles.leader.inflight_bytes == 0
    publish(world, partition, part("x", 1), part("x", 2, "1"))
    assert world.run_until(lambda: len(acks_for(world, b"_INBOX.x2")) == 2)


def test_L11_L9_a_batch_that_waits_for_too_long_is_refused() -> None:
    world, partition = opened()
    world.disks[world.leader(partition)].logs[partition].fold_slice = 0
    publish(world, partition, part("x", 1, "", f"{LAST}: 0", subject=b"orders.a"), part("x", 2, "1"))
    assert world.run_until(lambda: bool(world.refusals))
    assert refused(world) == [(ERR_NOT_READY, b"_INBOX.x2")]
    world.disks[world.leader(partition)].logs[partition].fold_slice = 100
    publish(world, partition, part("x", 1), part("x", 2, "1"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.x2")))
    assert stored(world, partition) == [b"x1", b"x2"]


def test_L11_one_that_counts_for_those_behind_it_does_so_whole() -> None:
    world, partition = opened()
    behind = Message(SUBJECT, b"_INBOX.b", block("Nats-Expected-Last-Sequence: 5"), b"behind")
    publish(world, partition, part("x", 1), part("x", 2, "1"), behind)
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.b")))
    assert stored(world, partition) == [b"x1", b"x2", b"behind"]


@pytest.mark.parametrize("without", ["", "L7.known"])
def test_L11_L7_a_batch_of_which_one_is_known_is_not_stored(without: str) -> None:
    world, partition = opened(dedupe_window_ms=60_000, mutants=Mutants(without=without))
    publish(world, partition, part("x", 1, "", "Nats-Msg-Id: 1"), part("x", 2, "1", "Nats-Msg-Id: 2"))
    publish(world, partition, part("y", 1), part("y", 2, "1", "Nats-Msg-Id: 2"))
    publish(world, partition, part("z", 1, "", "Nats-Msg-Id: 3"), part("z", 2, "1", "Nats-Msg-Id: 3"))
    publish(world, partition, Message(SUBJECT, b"_INBOX.p", block("Nats-Msg-Id: 2"), b"again"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.x2")) and bool(acks_for(world, b"_INBOX.p")))
    if without:
        assert stored(world, partition) == [b"x1", b"x2", b"y1", b"y2", b"again"]
        return
    assert world.run_until(lambda: len(refused(world)) == 2)
    assert sorted(refused(world)) == [
        (ERR_BATCH_DUPLICATE, b"_INBOX.y2"),
        (ERR_BATCH_DUPLICATE, b"_INBOX.z2"),
    ]
    (again,) = acks_for(world, b"_INBOX.p")
    assert (again.offsets_from, again.duplicate) == (4, True)
    assert stored(world, partition) == [b"x1", b"x2"]
    # What was refused leaves its ids free.
    publish(world, partition, part("w", 1, "", "Nats-Msg-Id: 3"), part("w", 2, "1"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.w2")))


def test_L11_L7_ids_of_a_batch_need_room_and_a_table_that_is_read() -> None:
    world, partition = opened(dedupe_window_ms=60_000, dedupe_ids_max=2)
    publish(world, partition, part("x", 1, "", "Nats-Msg-Id: 1"), part("x", 2, "1"))
    publish(world, partition, part("y", 1, "", "Nats-Msg-Id: 2"), part("y", 2, "1", "Nats-Msg-Id: 3"))
    assert refused(world) == [(ERR_OVERLOAD, b"_INBOX.y2")]
    roles = world.replica(world.leader(partition), partition).roles
    assert roles is not None
    roles.leader.ids.whole = False
    publish(world, partition, part("z", 1, "", "Nats-Msg-Id: 2"), part("z", 2, "1"))
    publish(world, partition, part("w", 1), part("w", 2, "1"))
    assert refused(world)[1:] == [(ERR_NOT_READY, b"_INBOX.z2")]
    assert stored(world, partition) == [b"x1", b"x2", b"w1", b"w2"]


# -- planted ---------------------------------------------------------------------------------------------


def test_L11_a_part_that_is_stored_at_once_is_no_batch() -> None:
    world, partition = opened(mutants=Mutants(batch_stored_at_once=True))
    publish(world, partition, part("x", 1), part("x", 2, "1"))
    world.run(0.5)
    assert stored(world, partition) == [b"x1"]


# -- the stream --------------------------------------------------------------------------------------------


def test_L11_a_stream_that_takes_none_any_more_forgets_them() -> None:
    world, partition = opened()
    publish(world, partition, part("x", 1))
    world.answer(1, AlterStreamRequest("orders", StreamChanges(allow_batches=False)))
    assert world.run_until(lambda: room_of(world, partition) == (0, 0))
    publish(world, partition, part("x", 2, "1"))
    assert refused(world) == [(ERR_BATCH_DISABLED, b"_INBOX.x2")]
    world.answer(1, AlterStreamRequest("orders", StreamChanges(allow_batches=True)))
    at_leader = world.nodes[world.leader(partition)].ctx.metadata.by_id
    assert world.run_until(lambda: at_leader[partition.stream].config.allow_batches is True)
    publish(world, partition, part("x", 2, "1"))
    assert refused(world)[-1] == (ERR_BATCH_INCOMPLETE, b"_INBOX.x2")


def test_L11_the_option_is_there_or_absent() -> None:
    config = StreamConfig("s", "s", 1, 3, allow_batches=True)
    assert limits_problem(config) == ""
    off = altered(config, StreamChanges(allow_batches=False))
    assert off.allow_batches is UNSET
    assert describe_alteration(config, off) == "allow_batches true -> false"
    shared = StreamConfig("s", "s", 1, 3, queue_group="g")
    assert "queue_group" in alteration_problem(shared, StreamChanges(allow_batches=True))


