"""What a move decides without a server: configurations, headers, packets, consumers (docs/moving.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from liftlog.client import Client
from liftlog.jetstream.configs import from_stream_config
from liftlog.messages import DELIVER_FROM, DELIVER_LASTS
from liftlog.moving.comparing import CopyComparison
from liftlog.moving.copying import MoveBounds, too_many
from liftlog.moving.move import Differs, Move
from liftlog.moving.origin import (
    JetStreamOrigin,
    OriginConsumer,
    OriginPair,
    OriginPlace,
    OriginState,
    OriginStream,
)
from liftlog.moving.outgoing import copied_block, outgoing, packets
from liftlog.moving.plan import (
    NOTE_MOVED,
    NOTE_MOVING,
    MovePlan,
    MoveWishes,
    Provenance,
    plan_move,
    provenance_of,
)
from liftlog.moving.positions import plan_consumers
from liftlog.moving.reading import OriginMessage
from liftlog.parcel import plain_records, read_parcel_head, record_subjects
from liftlog.types import LiftlogError

CREATED = "2026-01-02T03:04:05.123456789Z"
NO_WISHES = MoveWishes()


def stream(first: int = 1, last: int = 10, **config: Any) -> OriginStream:
    fields = {"name": "ORDERS", "subjects": ["orders.>"], **config}
    return OriginStream(fields, CREATED, OriginState(last - first + 1, first, last))


def planned(wishes: MoveWishes = NO_WISHES, **config: Any) -> MovePlan:
    return plan_move(stream(**config), wishes, None)


# -- the plan ----------------------------------------------------------------------------------------------


def test_while_it_is_copied_a_stream_has_no_limits_and_a_note() -> None:
    plan = planned(
        max_age=10**12,
        max_msgs=7,
        max_msgs_per_subject=3,
        deny_delete=True,
        deny_purge=True,
        sealed=True,
        metadata={"a": "b", "_nats.ver": "2.15"},
    )
    staged = plan.staged
    assert staged.retention_ms == staged.retention_messages == 0
    assert (staged.deny_delete, staged.deny_purge, staged.sealed) == (UNSET, UNSET, UNSET)
    assert staged.subjects == ("orders.>", "liftlog.moving.ORDERS")
    assert staged.max_messages_per_subject == 3
    assert provenance_of(staged, NOTE_MOVING) == Provenance("ORDERS", CREATED)
    assert provenance_of(plan.ready, NOTE_MOVED) == Provenance("ORDERS", CREATED)
    told = from_stream_config(plan.ready)
    assert (told.subjects, told.max_msgs, told.sealed, told.max_age) == (["orders.>"], 7, True, 10**12)
    assert told.metadata["a"] == "b"


def test_a_stream_that_takes_all_subjects_needs_no_other() -> None:
    assert planned(subjects=["liftlog.>"]).staged.subjects == ("liftlog.>",)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"storage": "memory"}, "storage 'memory' is not supported"),
        ({"mirror": {"name": "X"}}, "has 'mirror': move what it copies"),
        ({"sources": [{"name": "X"}]}, "has 'sources': move what it copies"),
        ({"allow_msg_counter": True}, "allow_msg_counter is not supported"),
        ({"retention": "workqueue"}, "has retention 'workqueue'"),
        ({"retention": "interest"}, "has retention 'interest'"),
        ({"of_tomorrow": 1}, "unknown field `of_tomorrow`"),
    ],
)
def test_what_the_door_would_refuse_is_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(LiftlogError, match=said) as raised:
        planned(**config)
    assert "--set" in str(raised.value) or "create the stream here" in str(raised.value)


def test_another_value_makes_it_possible() -> None:
    wishes = MoveWishes(fields={"storage": "file", "num_replicas": 1, "placement": None})
    plan = planned(wishes, storage="memory", num_replicas=5, placement={"cluster": "c"})
    assert plan.ready.replication_factor == 1
    assert planned(MoveWishes(fields={"of_tomorrow": None}), of_tomorrow=1).name == "ORDERS"


def test_a_copy_begins_with_the_first_message_that_is_there() -> None:
    plan = planned(first_seq=100, first=151, last=160)
    assert plan.staged.first_offset == plan.ready.first_offset == 150
    assert (plan.provenance.first, plan.provenance.compared, plan.provenance.offset(151)) == (150, 150, 150)
    later = plan_move(stream(first=158, last=160), NO_WISHES, plan.provenance)
    assert later.ready.first_offset == 150
    assert planned(MoveWishes(renumber=True), first=151, last=160).ready.first_offset is UNSET
    with pytest.raises(LiftlogError, match="--renumber"):
        planned(MoveWishes(fields={"first_seq": 7}))


def test_a_copy_that_an_older_liftlog_began_goes_on_from_sequence_1() -> None:
    there = Provenance("ORDERS", CREATED)
    assert plan_move(stream(first=151, last=160), NO_WISHES, there).staged.first_offset is UNSET


def test_a_bucket_keeps_its_name() -> None:
    with pytest.raises(LiftlogError, match="a bucket's name is in its subjects"):
        planned(MoveWishes("KV_NEW"), name="KV_OLD", subjects=["$KV.OLD.>"])
    assert planned(MoveWishes("NEW")).name == "NEW"


def test_a_name_is_no_field_like_others() -> None:
    for name in ("NEW", None):
        with pytest.raises(LiftlogError, match="say with --as NAME"):
            planned(MoveWishes(fields={"name": name}))


def test_sequences_can_begin_at_one() -> None:
    plan = planned(MoveWishes(renumber=True), first=1_000_001, last=1_000_010)
    assert plan.provenance.offset(1_000_001) == 0
    assert plan.provenance.seq(9) == 1_000_010
    with pytest.raises(LiftlogError, match="begun with --renumber"):
        plan_move(stream(), NO_WISHES, plan.provenance)


# -- headers -----------------------------------------------------------------------------------------------


def block(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in ("NATS/1.0", *lines, "")).encode()


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["A: b", "a:  c ", "A: b"], ["A: b", "a:  c ", "A: b"]),
        (["Nats-Msg-Id: 7"], ["Nats-Msg-Id: 7"]),
        (["Nats-Expected-Last-Subject-Sequence: 7", "A: b"], ["A: b"]),
        (["KV-Operation: PURGE", "Nats-Rollup: sub"], ["KV-Operation: PURGE"]),
        (["Nats-Batch-Id: x", "Nats-Batch-Sequence: 1", "A: b"], ["A: b"]),
    ],
)
def test_headers_that_have_done_what_they_ask_for_are_left_out(lines: list[str], kept: list[str]) -> None:
    assert copied_block(block(*lines), 0, NO_WISHES) == block(*kept)


def test_a_block_of_nothing_else_is_none() -> None:
    assert copied_block(block("Nats-Rollup: all"), 0, NO_WISHES) == b""
    assert copied_block(b"", 0, NO_WISHES) == b""
    assert copied_block(block(), 0, NO_WISHES) == block()


def test_a_header_can_be_left_out_and_one_can_be_added() -> None:
    wishes = MoveWishes(left_out=frozenset([b"X-Old"]), time_header="X-Time")
    when = 1_700_000_000_123_456_789
    assert copied_block(block("X-Old: 1", "A: b"), when, wishes) == block(
        "A: b", "X-Time: 2023-11-14T22:13:20.123Z"
    )
    assert copied_block(b"", when, wishes) == block("X-Time: 2023-11-14T22:13:20.123Z")


def message(seq: int, *lines: str, subject: bytes = b"orders.a", body: bytes = b"x") -> OriginMessage:
    return OriginMessage(seq, subject, block(*lines) if lines else b"", body, 0)


def test_who_has_an_id_travels_alone() -> None:
    plan = planned()
    assert not outgoing(message(1, "A: b"), plan, NO_WISHES).alone
    assert outgoing(message(2, "Nats-Msg-Id: b"), plan, NO_WISHES).alone
    assert not outgoing(message(3), plan, NO_WISHES).alone


def test_what_is_large_travels_alone_where_its_envelope_fits() -> None:
    large = message(1, body=b"x" * 300_000)
    assert outgoing(large, planned(), NO_WISHES).alone
    assert not outgoing(large, planned(max_msg_size=300_100), NO_WISHES).alone


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Nats-TTL: 1s", "have no time to live of their own"),
        ("Nats-Stream-Source: A", "only a stream that copies"),
        ("Liftlog-What: 1", "is none of"),
        ("Nats-Msg-Id: " + "x" * 5000, "it may have"),
    ],
)
def test_a_message_that_cannot_be_copied_as_it_is_names_itself_and_the_remedy(line: str, said: str) -> None:
    with pytest.raises(LiftlogError, match=said) as raised:
        outgoing(message(17, line), planned(), NO_WISHES)
    assert "sequence 17 (orders.a)" in str(raised.value) and "--drop-header" in str(raised.value)
    name = line.partition(":")[0].encode()
    assert outgoing(message(17, line), planned(), MoveWishes(left_out=frozenset([name]))).block == b""


def test_times_to_live_go_along_where_the_stream_has_them() -> None:
    assert outgoing(message(1, "Nats-TTL: 1h"), planned(allow_msg_ttl=True), NO_WISHES).alone
    with pytest.raises(LiftlogError, match="never"):
        outgoing(message(1, "Nats-TTL: never"), planned(allow_msg_ttl=True, max_age=10**12), NO_WISHES)


def test_nobody_else_may_have_the_subject_of_fillers() -> None:
    with pytest.raises(LiftlogError, match="which is the move's own"):
        outgoing(message(1, subject=b"liftlog.moving.ORDERS"), planned(), NO_WISHES)


# -- packets -----------------------------------------------------------------------------------------------


@given(
    st.sets(st.integers(0, 2500), max_size=60),
    st.sets(st.integers(0, 60)),
    st.integers(0, 100),
    st.integers(0, 2600),
)
def test_packets_take_every_offset_once_and_in_order(
    there: set[int], alone: set[int], offset: int, until: int
) -> None:
    plan = planned()
    found = [
        outgoing(message(place + 1, *(["Nats-Msg-Id: 1"] if number in alone else [])), plan, NO_WISHES)
        for number, place in enumerate(sorted(there))
        if place < until
    ]
    filled: dict[int, bytes] = {}
    at = offset
    for packet in packets(plan, found, offset, until):
        assert packet.offset == at and packet.span > 0
        at += packet.span
        if packet.block is not None:
            filled[packet.offset] = packet.subject.encode()
            continue
        head = read_parcel_head(packet.body)
        assert head.records == packet.span
        subjects = record_subjects(plain_records(head, packet.body, 10**9), head.records)
        filled.update(enumerate(subjects, packet.offset))
    assert at == max(offset, until)
    taken = {place for place, subject in filled.items() if subject == b"orders.a"}
    assert taken == {place for place in there if offset <= place < until}
    assert {filled[place] for place in filled.keys() - taken} <= {b"liftlog.moving.ORDERS"}


def test_too_many_fillers_are_said_with_the_remedy() -> None:
    assert "more than 5; allow more with --gaps-max N" in str(too_many(6, 5))


# -- consumers ---------------------------------------------------------------------------------------------


def consumer(floor: int, delivered: int, pending: int = 0, **config: Any) -> OriginConsumer:
    fields = {"durable_name": "work", "deliver_policy": "all", "ack_policy": "explicit", **config}
    sequences = OriginPair(delivered, delivered), OriginPair(floor, floor)
    return OriginConsumer("work", CREATED, fields, *sequences, pending)


def test_a_consumer_goes_on_behind_its_ack_floor_and_looks_as_before() -> None:
    made, left = plan_consumers([consumer(20, 50, 25, num_replicas=3)], planned(), NO_WISHES)
    assert left == []
    (one,) = made
    assert (one.config.deliver, one.config.offset, one.next_seq, one.again) == (DELIVER_FROM, 20, 21, 5)
    assert '"deliver_policy":"all"' in dict(one.config.notes)["jetstream"]


def test_a_consumer_of_last_messages_that_has_had_none_still_wants_the_last() -> None:
    wanted = {"deliver_policy": "last_per_subject", "filter_subject": "orders.>"}
    made, _ = plan_consumers([consumer(0, 0, **wanted), consumer(3, 3, **wanted)], planned(), NO_WISHES)
    assert [one.config.deliver for one in made] == [DELIVER_LASTS, DELIVER_FROM]


def test_ephemeral_consumers_and_those_that_nobody_wants_are_left_out() -> None:
    ephemeral = consumer(0, 0, durable_name="")
    assert plan_consumers([ephemeral], planned(), NO_WISHES) == ([], ["work"])
    skipped = MoveWishes(skipped_consumers=frozenset(["work"]))
    assert plan_consumers([consumer(0, 0)], planned(), skipped) == ([], ["work"])


def test_a_consumer_that_cannot_be_made_names_itself_and_the_remedy() -> None:
    with pytest.raises(LiftlogError, match=r"replay_policy original is not supported.*--skip-consumer work"):
        plan_consumers([consumer(0, 0, replay_policy="original")], planned(), NO_WISHES)


# -- cutting over ------------------------------------------------------------------------------------------


class Counted:
    """A copy and its origin as `Move.cut_over` asks for them: each look finds the next state."""

    def __init__(self, *states: tuple[int, int], here: int) -> None:
        self._states = list(states)
        self._here = here
        self.plan = planned()
        self.sequence = 0
        self.compared: list[range] = []
        self.stored_to = 0

    async def insist(self, work: Callable[[], Awaitable[Any]]) -> Any:
        return await work()

    async def look(self) -> OriginStream:
        messages, last = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        return OriginStream({}, CREATED, OriginState(messages, 1, last))

    async def copy(self, last: int) -> None:
        self.sequence = self.stored_to = last

    async def compare(self, offsets: range) -> CopyComparison:
        self.compared.append(offsets)
        return CopyComparison(len(offsets))

    async def was_compared(self, end: int) -> None:
        pass

    async def messages(self) -> int:
        return self._here

    async def delete(self, offsets: tuple[int, ...]) -> None:
        assert offsets == ()


def cut_over(copying: Any) -> int:
    place = OriginPlace("nats://origin", "ORDERS")
    move = Move(JetStreamOrigin(place), cast(Client, None), NO_WISHES, MoveBounds(), lambda *_, **__: None)
    move._target = copying
    return asyncio.run(move._until_alike(copying))


def test_it_is_opened_when_the_origin_stood_still_while_both_were_compared() -> None:
    copying = Counted((10, 10), (12, 12), (12, 12), here=12)
    assert cut_over(copying) == 12
    assert [len(one) for one in copying.compared] == [10, 12]


def test_it_is_not_opened_while_the_origin_gets_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.moving.move.LOOK_S", 0)
    copying = Counted(*((number, number) for number in range(10, 30)), here=100)
    with pytest.raises(LiftlogError, match=r"has got \d messages meanwhile: stop what publishes to it"):
        cut_over(copying)


def test_fewer_messages_than_the_origin_has_are_a_difference() -> None:
    with pytest.raises(Differs, match="has 9 messages, the origin 10"):
        cut_over(Counted((10, 10), here=9))
