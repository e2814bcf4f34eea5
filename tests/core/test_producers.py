"""Messages that their producer numbers are stored once, in order, behind no later run, whoever leads (L2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from liftlog.core.replica.publishing.message_ids import RememberedIds
from liftlog.format import decode_records
from liftlog.messages import (
    AlterStreamRequest,
    DoneReply,
    ErrorReply,
    FetchReply,
    PurgeRequest,
    StreamChanges,
)
from liftlog.options.numbered import stored_number
from liftlog.options.reading import wishes_of
from liftlog.options.wishes import Terms
from liftlog.parcel import ParcelRecord, seal_parcel
from liftlog.real import nats_wire
from liftlog.types import Message, PartitionId
from tests.core.node_harness import World
from tests.core.test_ack_policies import acks_for, split
from tests.core.test_headers import block
from tests.core.test_message_ids import (
    T0,
    WINDOW_MS,
    fail_over,
    hold_others,
    ids,
    marks,
    publish,
    told,
    with_id,
    world_with_ids,
)
from tests.core.test_replication import others


def sent(run: int, sequence: int, reply: bytes = b"", *lines: str, producer: str = "p") -> Message:
    value = b"%d.%d" % (run, sequence)
    return Message(b"orders", reply, numbers(run, sequence, *lines, producer=producer), value)


def numbers(run: int, sequence: int, *lines: str, producer: str = "p") -> bytes:
    own = (f"Liftlog-Producer: {producer}", f"Liftlog-Run: {run}", f"Liftlog-Sequence: {sequence}")
    return block(*own, *lines)


def batch(run: int, sequence: int, values: list[bytes], reply: bytes = b"") -> Message:
    payload = seal_parcel([ParcelRecord(value) for value in values])
    return Message(b"orders", reply, numbers(run, sequence, "Liftlog-Batch: 1", "Liftlog-Ack: full"), payload)


def values(world: World, partition: PartitionId) -> list[bytes | None]:
    log = world.disks[world.leader(partition)].logs[partition]
    return [record.value for batch in log.batches for record in decode_records(batch)]


def refusals(world: World) -> dict[bytes, tuple[str, int, int]]:
    """By reply: the code, the number that is due and the newest run."""
    return {
        reply: (one.code, one.next_sequence, one.newest_run)
        for one in world.refusals
        for reply in one.replies
    }


# -- what a message asks for -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["Liftlog-Producer: p", "Liftlog-Run: 1"], "go together"),
        (["Liftlog-Sequence: 1"], "go together"),
        (["Liftlog-Producer: ", "Liftlog-Run: 1", "Liftlog-Sequence: 0"], "1 to 256"),
        (["Liftlog-Producer: " + "p" * 257, "Liftlog-Run: 1", "Liftlog-Sequence: 0"], "257 bytes"),
        (["Liftlog-Producer: p", "Liftlog-Run: -1", "Liftlog-Sequence: 0"], "Liftlog-Run is a number"),
        (["Liftlog-Producer: p", "Liftlog-Run: 1", "Liftlog-Sequence: " + "1" * 19], "at most 18 digits"),
        (["Liftlog-Producer: p", "Liftlog-Run: 1", "Liftlog-Sequence: 0", "Nats-Msg-Id: a"], "not both"),
        (["Liftlog-Records: 1"], "is none of"),
    ],
)
def test_L2_numbers_that_are_not_whole_are_refused(lines: list[str], why: str) -> None:
    wish = wishes_of(Message(b"orders", b"", block(*lines), b"x"), "orders", terms=Terms(remembers=True))
    assert wish.numbered is None
    assert wish.refusal is not None and wish.refusal.code == "header-not-honoured"
    assert why in wish.refusal.text


def test_L2_numbers_are_refused_where_nothing_is_remembered() -> None:
    refusal = wishes_of(sent(1, 0), "orders").refusal
    assert refusal is not None and "liftlog stream alter orders --dedupe-window 2m" in refusal.text


# -- stored once, in order ---------------------------------------------------------------------------------


def test_L2_a_message_is_stored_once_and_who_sends_it_again_is_told_where_it_lies() -> None:
    world, partition = world_with_ids()
    both = sent(1, 0, b"_INBOX.0"), sent(1, 1, b"_INBOX.1")
    base = publish(world, partition, *both, sent(1, 0, b"_INBOX.2"))
    assert world.run_until(lambda: bool(told(world, b"_INBOX.2")))
    assert told(world, b"_INBOX.0") == [(base, False)]
    assert told(world, b"_INBOX.1") == [(base + 1, False)]
    assert told(world, b"_INBOX.2") == [(base, True)]
    publish(world, partition, sent(1, 1), sent(1, 2, b"_INBOX.3"))
    assert values(world, partition) == [b"1.0", b"1.1", b"1.2"]
    counted = marks(world, partition)
    assert counted["L2.stored"] == 2 and counted["L2.dropped"] == 1


def test_L2_a_gap_is_refused_with_the_number_that_is_due_when_that_is_committed() -> None:
    world, partition = world_with_ids()
    hold_others(world, partition)
    publish(world, partition, sent(1, 0), sent(1, 2, b"_INBOX.gap"), sent(1, 1), sent(1, 3, b"_INBOX.3"))
    assert marks(world, partition)["L2.due"] == 2
    world.run(0.1)
    assert not world.refusals, "what it rests on is not committed"
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: len(world.refusals) == 2)
    due = {b"_INBOX.gap": ("sequence-not-due", 1, -1), b"_INBOX.3": ("sequence-not-due", 2, -1)}
    assert refusals(world) == due
    assert values(world, partition) == [b"1.0", b"1.1"]


def test_L2_a_newer_run_begins_with_0_and_an_older_one_writes_no_more() -> None:
    world, partition = world_with_ids()
    publish(world, partition, sent(5, 0), sent(7, 1, b"_INBOX.begins"), sent(7, 0))
    publish(world, partition, sent(5, 1, b"_INBOX.zombie"))
    publish(world, partition, sent(5, 0, b"_INBOX.retry"), sent(7, 1), sent(6, 0, b"_INBOX.between"))
    assert world.run_until(lambda: len(world.refusals) == 4)
    assert refusals(world) == {
        b"_INBOX.begins": ("sequence-not-due", 0, -1),
        b"_INBOX.zombie": ("producer-fenced", -1, 7),
        b"_INBOX.retry": ("producer-fenced", -1, 7),
        b"_INBOX.between": ("producer-fenced", -1, 7),
    }
    assert marks(world, partition)["L2.fenced"] == 3
    assert values(world, partition) == [b"5.0", b"7.0", b"7.1"]
    assert "begin a run above 7" in next(one for one in world.refusals if one.newest_run == 7).description


def test_L2_producers_do_not_know_of_each_other() -> None:
    world, partition = world_with_ids()
    publish(world, partition, sent(1, 0), sent(9, 0, producer="q"), sent(1, 1), sent(9, 1, producer="q"))
    assert values(world, partition) == [b"1.0", b"9.0", b"1.1", b"9.1"]


@pytest.mark.parametrize(
    ("lacks", "messages", "stored"),
    [
        ("L2.stored", [(1, 0), (1, 0)], [b"1.0", b"1.0"]),
        ("L2.due", [(1, 0), (1, 2)], [b"1.0", b"1.2"]),
        ("L2.fenced", [(2, 0), (1, 0)], [b"2.0", b"1.0"]),
    ],
)
def test_L2_what_a_guard_is_for(lacks: str, messages: list[tuple[int, int]], stored: list[bytes]) -> None:
    world, partition = world_with_ids(lacks)
    publish(world, partition, *(sent(*one) for one in messages))
    assert values(world, partition) == stored


def test_L2_L6_what_is_refused_for_its_offset_is_due_again() -> None:
    world, partition = world_with_ids()
    publish(world, partition, sent(1, 0, b"_INBOX.x", "Liftlog-Expected-Offset: 9"), sent(1, 0, b"_INBOX.0"))
    assert world.run_until(lambda: bool(told(world, b"_INBOX.0")))
    assert told(world, b"_INBOX.0") == [(0, False)] and refusals(world)[b"_INBOX.x"][0] == "expected-offset"


def test_L2_a_repetition_hears_nothing_before_the_first_is_committed() -> None:
    world, partition = world_with_ids()
    hold_others(world, partition)
    base = publish(world, partition, sent(1, 0))
    publish(world, partition, sent(1, 0, b"_INBOX.again"))
    world.run(0.2)
    assert not told(world, b"_INBOX.again")
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: bool(told(world, b"_INBOX.again")))
    assert told(world, b"_INBOX.again") == [(base, True)]


# -- bounds ------------------------------------------------------------------------------------------------


def test_L2_who_was_silent_for_the_window_begins_a_new_run() -> None:
    world, partition = world_with_ids()
    publish(world, partition, sent(1, 0), at_ms=T0)
    publish(world, partition, sent(1, 1), at_ms=T0 + WINDOW_MS - 1)
    publish(world, partition, sent(1, 2, b"_INBOX.late"), at_ms=T0 + 2 * WINDOW_MS)
    publish(world, partition, sent(2, 0), at_ms=T0 + 2 * WINDOW_MS)
    assert world.run_until(lambda: bool(world.refusals))
    assert refusals(world) == {b"_INBOX.late": ("sequence-not-due", 0, -1)}
    assert f"remembers ({WINDOW_MS} ms)" in world.refusals[0].description
    assert values(world, partition) == [b"1.0", b"1.1", b"2.0"]


def test_L2_a_full_table_refuses_new_producers_until_others_are_silent_for_long() -> None:
    world, partition = world_with_ids(most=2)
    publish(world, partition, sent(1, 0, producer="a"), sent(1, 0, producer="b"))
    publish(world, partition, sent(1, 0, b"_INBOX.c", producer="c"), sent(1, 1, producer="a"))
    assert refusals(world) == {b"_INBOX.c": ("overload", -1, -1)}
    assert "2 producers" in world.refusals[0].description
    assert marks(world, partition)["L2.full"] == 1
    publish(world, partition, sent(2, 0, producer="c"), at_ms=T0 + WINDOW_MS)
    assert values(world, partition) == [b"1.0", b"1.0", b"1.1", b"2.0"]


def test_L2_C3_what_a_new_leader_has_to_know_of_producers_is_not_purged() -> None:
    world, partition = world_with_ids()
    publish(world, partition, sent(1, 0), sent(1, 1))
    assert world.run_until(lambda: world.committed(partition, 2))
    leader = world.leader(partition)
    reply = world.answer(leader, PurgeRequest(partition, 1))
    assert isinstance(reply, ErrorReply) and "producers, from offset 0 on" in reply.description
    publish(world, partition, sent(2, 0), at_ms=T0 + 2 * WINDOW_MS)
    assert world.run_until(lambda: world.committed(partition, 3))
    assert isinstance(world.answer(leader, PurgeRequest(partition, 2)), DoneReply)


def test_L2_a_longer_window_with_too_many_producers_takes_no_more_memory_than_the_stream_allows() -> None:
    world, partition = world_with_ids(most=2)
    began_ms = world.nodes[1].ctx.wall_ms
    for number in range(5):
        publish(world, partition, sent(1, 0, producer=f"p{number}"), at_ms=began_ms + number * WINDOW_MS)
    assert world.run_until(lambda: world.committed(partition, 5))
    reply = world.answer(
        1, AlterStreamRequest("orders", StreamChanges(dedupe_window_ms=10 * WINDOW_MS))
    )
    assert isinstance(reply, DoneReply), reply
    world.run(1.0)
    assert marks(world, partition)["L7.too-many"] == 1 and not ids(world, partition).whole
    publish(world, partition, sent(1, 0, b"_INBOX.0", producer="p0"), at_ms=began_ms + 5 * WINDOW_MS)
    assert refusals(world) == {b"_INBOX.0": ("overload", -1, -1)}
    assert "message ids or producers" in world.refusals[-1].description


# -- who leads next ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lacks", ["", "L2.unread", "ids_of_own_epoch"])
def test_L2_the_next_leader_finds_the_producers_in_its_log(lacks: str) -> None:
    world, partition = world_with_ids(lacks)
    base = publish(world, partition, sent(1, 0), sent(2, 0), sent(2, 1))
    assert world.run_until(lambda: world.committed(partition, base + 3))
    fail_over(world, partition)
    publish(world, partition, sent(2, 0, b"_INBOX.early"), Message(b"orders", b"", b"", b"plain"))
    if lacks:
        assert values(world, partition) == [b"1.0", b"2.0", b"2.1", b"2.0", b"plain"]
        return
    assert refusals(world) == {b"_INBOX.early": ("not-ready", -1, -1)}
    assert marks(world, partition)["L2.unread"] == 1
    assert world.run_until(lambda: ids(world, partition).whole)
    publish(world, partition, sent(2, 1, b"_INBOX.1"), sent(1, 1, b"_INBOX.old"), sent(2, 2))
    assert world.run_until(lambda: bool(told(world, b"_INBOX.1")) and len(world.refusals) == 2)
    assert told(world, b"_INBOX.1") == [(base + 2, True)]
    assert refusals(world)[b"_INBOX.old"] == ("producer-fenced", -1, 2)
    assert values(world, partition) == [b"1.0", b"2.0", b"2.1", b"plain", b"2.2"]


def test_L2_what_was_cut_is_due_again() -> None:
    world, partition = world_with_ids()
    world.drop = lambda sender, to, message: isinstance(message, FetchReply) and bool(message.batches)
    publish(world, partition, sent(1, 0), sent(1, 1, b"_INBOX.1"), sent(1, 1, b"_INBOX.2"))
    world.run(0.1)
    fail_over(world, partition)
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: ids(world, partition).whole)
    publish(world, partition, sent(1, 1, b"_INBOX.gap"), sent(1, 0), sent(1, 1, b"_INBOX.3"))
    assert world.run_until(lambda: bool(told(world, b"_INBOX.3")))
    assert told(world, b"_INBOX.3") == [(1, False)] and not told(world, b"_INBOX.2")
    assert refusals(world)[b"_INBOX.gap"] == ("sequence-not-due", 0, -1)


# -- batches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("marked", [True, False])
def test_L2_L8_a_batch_has_one_number_and_is_there_once(codec: str, marked: bool) -> None:
    settings: dict[str, Any] = {"codec": codec}
    world, partition = world_with_ids("" if marked else "parcel_not_marked", **settings)
    publish(world, partition, sent(1, 0), batch(1, 1, [b"a", b"b", b"c"], b"_INBOX.1"), sent(1, 2))
    assert world.run_until(lambda: world.committed(partition, 5))
    log = world.disks[world.leader(partition)].logs[partition]
    found = [stored_number(one.headers) for part in log.batches for one in decode_records(part)]
    assert [one is not None for one in found] == [True, marked, False, False, True]
    fail_over(world, partition)
    assert world.run_until(lambda: ids(world, partition).whole)
    publish(world, partition, batch(1, 1, [b"a", b"b", b"c"], b"_INBOX.2"), batch(1, 3, [b"d"], b"_INBOX.3"))
    if not marked:
        return
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.3")))
    (first,), (again,) = acks_for(world, b"_INBOX.1"), acks_for(world, b"_INBOX.2")
    assert (first.offsets_from, first.records, first.duplicate) == (1, 3, False)
    assert (again.offsets_from, again.records, again.duplicate) == (1, 3, True)
    assert values(world, partition) == [b"1.0", b"a", b"b", b"c", b"1.2", b"d"]


def test_L2_a_full_answer_says_what_is_due_and_which_run_is_the_newest() -> None:
    world, partition = world_with_ids()
    publish(world, partition, sent(3, 0), sent(3, 5, b"_INBOX.a", "Liftlog-Ack: full"))
    publish(world, partition, sent(2, 0, b"_INBOX.b", "Liftlog-Ack: full"))
    assert world.run_until(lambda: len(world.refusals) == 2)
    bodies = [json.loads(body) for one in world.refusals for _, body in split(nats_wire.refusals(one))]
    assert [body["liftlog"] for body in bodies] == [
        {"code": "sequence-not-due", "outcome": "info", "next_sequence": 1},
        {"code": "producer-fenced", "outcome": "info", "newest_run": 3},
    ]


def test_L2_L7_ids_and_numbers_stand_beside_each_other() -> None:
    world, partition = world_with_ids()
    publish(world, partition, with_id("a"), sent(1, 0), with_id("a"), sent(1, 0), with_id("b"), sent(1, 1))
    assert len(values(world, partition)) == 4
    assert isinstance(ids(world, partition), RememberedIds)


def test_L2_a_parcel_that_its_producer_s_headers_make_too_large_is_refused() -> None:
    world, partition = world_with_ids()
    limit = world.nodes[1].config.batch_max_bytes
    payload = seal_parcel([ParcelRecord(b"v" * ((limit - 280) // 4)) for _ in range(4)])
    own = numbers(1, 0, "Liftlog-Batch: 1", "Liftlog-Ack: full", producer="p" * 250)
    publish(world, partition, Message(b"orders", b"_INBOX.p", own, payload))
    assert [one.code for one in world.refusals] == ["parcel-refused-here"]
    assert "with its producer's headers" in world.refusals[0].description
    assert "send fewer records at once" in world.refusals[0].description
    publish(world, partition, Message(b"orders", b"_INBOX.q", block("Liftlog-Batch: 1"), payload))
    assert len(world.refusals) == 1, "without them it fits"
