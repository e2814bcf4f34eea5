"""A processor's outputs and its cursor are one message, and who opens a run learns where it begins (L10)."""

from __future__ import annotations

import json

import pytest

from liftlog.format import decode_records
from liftlog.messages import FetchReply
from liftlog.options.cursors import InputCursor, cursor_in, with_cursor, without_cursor
from liftlog.options.numbered import stored_number
from liftlog.options.reading import wishes_of
from liftlog.options.wishes import Terms
from liftlog.parcel import ParcelRecord, seal_parcel
from liftlog.real import nats_wire
from liftlog.types import Message, PartitionId
from tests.core.node_harness import World
from tests.core.test_ack_policies import acks_for
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
    world_with_ids,
)
from tests.core.test_producers import numbers, sent
from tests.core.test_replication import others

INPUT = "17/0"


def opening(run: int, reply: bytes = b"", begin: str = "/0", *lines: str, of: str = INPUT) -> Message:
    own = ("Liftlog-Open: 1", f"Liftlog-Cursor: {of}{begin}", "Liftlog-Ack: full")
    return Message(b"orders", reply, numbers(run, 0, *own, *lines), b"")


def outputs(
    run: int, sequence: int, cursor: int, values: list[bytes], reply: bytes = b"", of: str = INPUT
) -> Message:
    lines = [f"Liftlog-Cursor: {of}/{cursor}", "Liftlog-Ack: full"]
    if len(values) == 1:
        return Message(b"orders", reply, numbers(run, sequence, *lines), values[0])
    payload = seal_parcel([ParcelRecord(value) for value in values])
    return Message(b"orders", reply, numbers(run, sequence, "Liftlog-Batch: 1", *lines), payload)


def stored(world: World, partition: PartitionId) -> list[tuple[bytes | None, int | None]]:
    """Of each record of the leader its value, and where its cursor is."""
    log = world.disks[world.leader(partition)].logs[partition]
    found = []
    for record in (record for batch in log.batches for record in decode_records(batch)):
        number = stored_number(record.headers)
        cursor = None if number is None else number.cursor
        found.append((record.value, None if cursor is None else cursor.position))
    return found


def begins(world: World, reply: bytes) -> list[int]:
    """What who opened a run was told."""
    return [ack.cursor for ack in acks_for(world, reply)]


def refused(world: World) -> dict[bytes, str]:
    return {reply: one.code for one in world.refusals for reply in one.replies}


# -- what a message asks for -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["Liftlog-Cursor: 17/0/3"], "beside Liftlog-Producer"),
        (["Liftlog-Open: 1"], "name that in Liftlog-Cursor"),
        ([*"P1", "Liftlog-Open: 1", "Liftlog-Cursor: 17/0/3"], "begins with message 0"),
        ([*"P0", "Liftlog-Cursor: 17/0/3"], "begins with message 0"),
        ([*"P0", "Liftlog-Open: yes", "Liftlog-Cursor: 17/0/3"], "value 1"),
        ([*"P0", "Liftlog-Open: 1", "Liftlog-Cursor: 17"], "stream id/partition/offset"),
        ([*"P1", "Liftlog-Cursor: 17/0"], "lacks the offset"),
        ([*"P0", "Liftlog-Open: 1", "Liftlog-Cursor: 17/0", "Liftlog-Batch: 1"], "without Liftlog-Batch"),
        ([*"P0", "Liftlog-Open: 1", "Liftlog-Cursor: 17/0", "Liftlog-Ack-Policy: leader"], "ack policy"),
    ],
)
def test_L10_a_cursor_that_is_not_whole_is_refused(lines: list[str], why: str) -> None:
    own = [line for line in lines if len(line) > 1]
    named = [f"Liftlog-Producer: p\r\nLiftlog-Run: 1\r\nLiftlog-Sequence: {lines[1]}"] if "P" in lines else []
    message = Message(b"orders", b"", block(*named, *own), b"x")
    wish = wishes_of(message, "orders", terms=Terms(remembers=True))
    assert wish.cursor is None and not wish.opens
    assert wish.refusal is not None and wish.refusal.code == "header-not-honoured"
    assert why in wish.refusal.text


def test_L10_a_cursor_is_read_again_as_it_was_written() -> None:
    first = block("Other: x", "LIFTLOG-cursor: 9/9/9")
    again = with_cursor(without_cursor(first), InputCursor(17, 3, 120))
    assert again == block("Other: x", "Liftlog-Cursor: 17/3/120")
    assert cursor_in({b"liftlog-cursor": b"17/3/120"}) == InputCursor(17, 3, 120)
    for bad in (b"", b"1", b"1/2/3/4", b"1/-2", b"1/2/", b"1/2/" + b"1" * 19, b"\xb2/0"):
        assert cursor_in({b"liftlog-cursor": bad}) is None


# -- one run after the other -------------------------------------------------------------------------------


def test_L10_a_run_begins_where_the_one_before_has_ended_and_that_one_writes_no_more() -> None:
    world, partition = world_with_ids()
    publish(world, partition, opening(1, b"_INBOX.1"))
    assert world.run_until(lambda: begins(world, b"_INBOX.1") == [0])
    publish(world, partition, outputs(1, 1, 2, [b"a", b"b"]), outputs(1, 2, 3, [b"c"]))
    publish(world, partition, opening(2, b"_INBOX.2"), outputs(1, 3, 4, [b"zombie"], b"_INBOX.zombie"))
    assert world.run_until(lambda: begins(world, b"_INBOX.2") == [3])
    publish(world, partition, outputs(2, 1, 4, [b"d"], b"_INBOX.d"))
    assert world.run_until(lambda: bool(told(world, b"_INBOX.d")))
    assert refused(world) == {b"_INBOX.zombie": "producer-fenced"}
    written = [(b"", 0), (b"a", 2), (b"b", None), (b"c", 3), (b"", 3), (b"d", 4)]
    assert stored(world, partition) == written
    (ack,) = acks_for(world, b"_INBOX.2")
    body = json.loads(nats_wire.acknowledgements(ack).split(b"\r\n")[1])
    assert (body["cursor"], body["offset"]) == (3, 4)


def test_L10_who_opens_a_run_hears_nothing_before_all_that_is_before_it_is_committed() -> None:
    world, partition = world_with_ids()
    publish(world, partition, opening(1, b"_INBOX.1"))
    assert world.run_until(lambda: bool(begins(world, b"_INBOX.1")))
    hold_others(world, partition)
    publish(world, partition, outputs(1, 1, 5, [b"in flight"]), opening(2, b"_INBOX.2"))
    publish(world, partition, opening(2, b"_INBOX.again"))
    world.run(0.3)
    assert not begins(world, b"_INBOX.2") and not begins(world, b"_INBOX.again")
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: begins(world, b"_INBOX.2") == begins(world, b"_INBOX.again") == [5])


def test_L10_what_was_in_flight_and_was_cut_is_done_again() -> None:
    world, partition = world_with_ids()
    publish(world, partition, opening(1))
    assert world.run_until(lambda: world.committed(partition, 1))
    world.drop = lambda sender, to, message: isinstance(message, FetchReply) and bool(message.batches)
    publish(world, partition, outputs(1, 1, 5, [b"lost"]), opening(2, b"_INBOX.lost"))
    world.run(0.1)
    fail_over(world, partition)
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: ids(world, partition).whole)
    publish(world, partition, opening(2, b"_INBOX.2"))
    assert world.run_until(lambda: begins(world, b"_INBOX.2") == [0])
    assert not begins(world, b"_INBOX.lost")


def test_L10_the_next_leader_finds_the_cursors_in_its_log() -> None:
    world, partition = world_with_ids()
    publish(world, partition, opening(1), outputs(1, 1, 2, [b"a", b"b"], b"_INBOX.1"))
    assert world.run_until(lambda: bool(told(world, b"_INBOX.1")))
    fail_over(world, partition)
    assert world.run_until(lambda: ids(world, partition).whole)
    publish(world, partition, opening(2, b"_INBOX.2", ""))
    assert world.run_until(lambda: begins(world, b"_INBOX.2") == [2])
    assert marks(world, partition)["L10.goes-on"] == 1


def test_L10_an_opening_keeps_the_cursor_for_as_long_as_itself() -> None:
    world, partition = world_with_ids()
    publish(world, partition, opening(1), outputs(1, 1, 7, [b"a"]), at_ms=T0)
    publish(world, partition, opening(2), at_ms=T0 + WINDOW_MS - 1)
    publish(world, partition, Message(b"orders", b"", b"", b"later"), at_ms=T0 + WINDOW_MS + 1)
    assert world.run_until(lambda: world.committed(partition, 4))
    fail_over(world, partition)
    assert world.run_until(lambda: ids(world, partition).whole)
    publish(world, partition, opening(3, b"_INBOX.3", ""), at_ms=T0 + WINDOW_MS + 2)
    assert world.run_until(lambda: begins(world, b"_INBOX.3") == [7])


# -- what does not fit -------------------------------------------------------------------------------------


def test_L10_of_whom_nothing_is_known_it_is_asked_where_to_begin() -> None:
    world, partition = world_with_ids()
    publish(world, partition, opening(1, b"_INBOX.1", ""), opening(1, b"_INBOX.2", "/40"))
    assert world.run_until(lambda: begins(world, b"_INBOX.2") == [40])
    assert refused(world) == {b"_INBOX.1": "cursor-unknown"}
    assert f"remembers ({WINDOW_MS} ms)" in world.refusals[0].description
    assert marks(world, partition)["L10.known"] == 1 and marks(world, partition)["L10.begun"] == 1


def test_L10_who_was_silent_for_the_window_is_not_known_any_more() -> None:
    world, partition = world_with_ids()
    publish(world, partition, opening(1), outputs(1, 1, 7, [b"a"]), at_ms=T0)
    publish(world, partition, opening(2, b"_INBOX.2", ""), at_ms=T0 + WINDOW_MS)
    assert world.run_until(lambda: refused(world) == {b"_INBOX.2": "cursor-unknown"})


def test_L10_each_message_of_a_processor_has_a_cursor_and_nobody_elses() -> None:
    world, partition = world_with_ids()
    publish(world, partition, sent(1, 0), outputs(1, 1, 7, [b"a"], b"_INBOX.unopened"))
    assert marks(world, partition)["L10.opened"] == 1
    publish(world, partition, opening(2), sent(2, 1, b"_INBOX.without"), sent(3, 0, b"_INBOX.run"))
    publish(world, partition, outputs(2, 1, 1, [b"b"]))
    assert world.run_until(lambda: len(world.refusals) == 3)
    assert set(refused(world).values()) == {"cursor-refused"}
    assert stored(world, partition) == [(b"1.0", None), (b"", 0), (b"b", 1)]


def test_L10_a_cursor_is_of_one_input_and_never_goes_back() -> None:
    world, partition = world_with_ids()
    publish(world, partition, opening(1), outputs(1, 1, 7, [b"a"]))
    publish(world, partition, outputs(1, 2, 6, [b"back"], b"_INBOX.back"))
    assert marks(world, partition)["L10.back"] == 1
    publish(world, partition, outputs(1, 2, 8, [b"other"], b"_INBOX.other", of="18/0"))
    assert marks(world, partition)["L10.input"] == 1
    publish(world, partition, opening(2, b"_INBOX.input", of="17/1"))
    publish(world, partition, outputs(1, 2, 7, [b"none of it"], b"_INBOX.2"))
    assert world.run_until(lambda: bool(told(world, b"_INBOX.2")) and len(world.refusals) == 3)
    assert set(refused(world).values()) == {"cursor-refused"}
    assert stored(world, partition)[-1] == (b"none of it", 7)


@pytest.mark.parametrize(
    ("lacks", "messages"),
    [
        ("L10.known", [opening(1, b"", "")]),
        ("L10.opened", [sent(1, 0), outputs(1, 1, 1, [b"x"])]),
        ("L10.input", [opening(1), outputs(1, 1, 1, [b"x"], of="18/0")]),
        ("L10.back", [opening(1), outputs(1, 1, 2, [b"x"]), outputs(1, 2, 1, [b"y"])]),
    ],
)
def test_L10_what_a_guard_is_for(lacks: str, messages: list[Message]) -> None:
    world, partition = world_with_ids(lacks)
    publish(world, partition, *messages)
    assert len(stored(world, partition)) == len(messages)


# -- what is planted ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("planted", "told_early", "written"),
    [
        ("cursor_of_committed", None, [(b"", 0), (b"a", 2), (b"b", None), (b"", 0)]),
        ("opening_acked_at_append", 2, [(b"", 0), (b"a", 2), (b"b", None), (b"", 2)]),
        ("opening_as_sent", None, [(b"", 0), (b"a", 2), (b"b", None), (b"", 0)]),
        ("parcel_without_cursor", None, [(b"", 0), (b"a", None), (b"b", None), (b"", 2)]),
    ],
)
def test_L10_what_planted_bugs_do(
    planted: str, told_early: int | None, written: list[tuple[bytes, int | None]]
) -> None:
    world, partition = world_with_ids(planted)
    publish(world, partition, opening(1))
    assert world.run_until(lambda: world.committed(partition, 1))
    hold_others(world, partition)
    publish(world, partition, outputs(1, 1, 2, [b"a", b"b"]), opening(2, b"_INBOX.2"))
    assert begins(world, b"_INBOX.2") == ([] if told_early is None else [told_early])
    assert stored(world, partition) == written
