"""Liftbridge's envelope: its bytes, what it asks for; any bytes are taken apart or left alone (L1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.core.replica.publishing.sequencer import sequence
from liftlog.format import decode_records
from liftlog.options.envelope import (
    ACK,
    COOKIE,
    Envelope,
    EnvelopeAck,
    open_ack,
    open_envelope,
    seal,
    seal_ack,
)
from liftlog.options.reading import CORRELATION_BYTES_MAX, INBOX_BYTES_MAX, counted_bytes, read
from liftlog.options.wishes import ALL, LEADER, NONE, Wishes
from liftlog.types import Message, PartitionId

INT64 = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
INT32 = st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1)
ENVELOPES = st.builds(
    Envelope,
    offset=INT64,
    key=st.binary(max_size=20),
    value=st.binary(max_size=300),
    timestamp=INT64,
    stream=st.text(max_size=10),
    partition=INT32,
    subject=st.text(max_size=10),
    reply_subject=st.text(max_size=10),
    headers=st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3).map(
        lambda headers: tuple(headers.items())
    ),
    ack_inbox=st.text(max_size=10),
    correlation_id=st.text(max_size=10),
    policy=st.integers(min_value=0, max_value=3),
    damaged=st.just(False),
    unknown=st.just(()),
)
ACKS = st.builds(
    EnvelopeAck,
    *(st.text(max_size=10) for _ in range(3)),
    offset=INT64,
    ack_inbox=st.text(max_size=10),
    correlation_id=st.text(max_size=10),
    policy=st.integers(min_value=0, max_value=2),
    reception_timestamp=INT64,
    commit_timestamp=INT64,
    error=st.integers(min_value=0, max_value=4),
)
GO = bytes.fromhex(
    "b90e43b4 00080000"  # version 0, the message begins at 8, no flags, a publish
    "08 ffffffffffffffffff01"  # offset: -1, nothing is expected
    "12 016b"  # key: k
    "1a 0568656c6c6f"  # value: hello
    "4a 0a 0a0161 120562 63646566"  # headers: a = bcdef
    "52 036163 6b"  # ack inbox: ack
    "5a 026331"  # correlation id: c1
    "60 01"  # policy: ALL
)
"""What `lift.NewMessage([]byte("hello"), lift.Key(...), ...)` of go-liftbridge gives."""


def wish(envelope: Envelope | bytes, headers: bytes = b"", reply: bytes = b"_INBOX.own") -> Wishes:
    payload = envelope if isinstance(envelope, bytes) else seal(envelope)
    found = read([Message(b"orders.new", reply, headers, payload)], "orders", 2)
    assert found is not None
    return found[0]


def test_L1_the_bytes_of_liftbridge_s_go_client_are_taken_apart_and_made() -> None:
    opened = open_envelope(GO)
    assert opened == Envelope(
        -1, b"k", b"hello", headers=(("a", b"bcdef"),), ack_inbox="ack", correlation_id="c1", policy=ALL
    )
    assert seal(opened) == GO


def test_L1_the_ack_has_the_bytes_of_liftbridge_s_server() -> None:
    ack = EnvelopeAck("s", "p", "m", 300, "i", "c", NONE, 1, 2, 3)
    expected = "b90e43b4 00080001 0a0173 120170 1a016d 20ac02 2a0169 320163 3802 4001 4802 5003"
    assert seal_ack(ack) == bytes.fromhex(expected)
    leaders = EnvelopeAck("s", offset=0, policy=LEADER)
    assert seal_ack(leaders) == bytes.fromhex("b90e43b4 00080001 0a0173"), "what is 0 is left out, as in Go"


@given(ENVELOPES, st.booleans())
def test_L1_what_was_put_into_an_envelope_comes_out_of_it(envelope: Envelope, checksum: bool) -> None:
    assert open_envelope(seal(envelope, checksum)) == envelope


@given(ACKS)
def test_R4_what_was_put_into_an_ack_comes_out_of_it(ack: EnvelopeAck) -> None:
    assert open_ack(seal_ack(ack)) == ack
    assert open_envelope(seal_ack(ack)) is None


@given(st.binary(max_size=200), st.sampled_from([b"", COOKIE, GO[:8], COOKIE + b"\0\x0c\1\0"]))
def test_L1_any_bytes_are_taken_apart_or_left_alone(data: bytes, beginning: bytes) -> None:
    payload = beginning + data
    opened = open_envelope(payload)
    open_ack(payload)
    found = read([Message(b"orders", b"r", b"", payload)], "orders")
    if opened is None:
        assert found is None or found[0] == Wishes()


@pytest.mark.parametrize(
    "payload",
    [
        COOKIE,
        COOKIE + bytes((0, 200, 0, 0)),  # On this one Liftbridge's server dies.
        COOKIE + bytes((0, 7, 0, 0)) + b"x",
        COOKIE + bytes((1, 8, 0, 0)) + GO[8:],
        COOKIE + bytes((0, 8, 2, 0)) + GO[8:],
        COOKIE + bytes((0, 8, 1, 0)) + GO[8:],
        COOKIE + bytes((0, 8, 0, ACK)) + GO[8:],
        GO[:-1],
        GO + b"\x0b",
        GO + b"\x00\x00",
        GO + b"\x08" + b"\xff" * 10,
        COOKIE + bytes((0, 8, 0, 0)) + b"\x2a\x01\xff",
        COOKIE + bytes((0, 8, 0, 0)) + b"\x09" + bytes(8),
    ],
)
def test_L1_what_only_begins_like_an_envelope_is_stored_as_it_came(payload: bytes) -> None:
    assert open_envelope(payload) is None
    assert wish(payload) == Wishes()
    message = Message(b"orders", b"r", b"", payload)
    (batch,) = sequence(PartitionId(1, 0), 0, 1, 0, [message], read([message], "s"), 1 << 20)
    assert [record.value for record in decode_records(batch)] == [payload]


def test_L1_key_value_and_headers_of_an_envelope_are_what_is_stored() -> None:
    envelope = Envelope(key=b"k", value=b"v", headers=(("Kind", b"new"), ("b", b"\xff")), ack_inbox="acks.1")
    message = Message(b"orders.new", b"service.x", b"NATS/1.0\r\nOwn: 1\r\n\r\n", seal(envelope))
    wishes = read([message], "orders")
    (batch,) = sequence(PartitionId(1, 0), 7, 1, 5, [message], wishes, 1 << 20)
    (record,) = decode_records(batch)
    assert (record.offset, record.key, record.value) == (7, b"k", b"v")
    assert record.headers == b"NATS/1.0\r\nOwn: 1\r\nKind: new\r\nb: \xff\r\n\r\n"
    assert (record.subject, record.reply) == (b"orders.new", b"service.x")
    plain = Message(b"orders.new", b"", b"", seal(Envelope(value=b"", headers=(("a", b""),))))
    (batch,) = sequence(PartitionId(1, 0), 0, 1, 5, [plain], read([plain], "orders"), 1 << 20)
    (record,) = decode_records(batch)
    assert (record.key, record.value, record.headers) == (None, b"", b"NATS/1.0\r\na: \r\n\r\n")


def test_R4_an_envelope_says_where_its_ack_goes_and_nothing_else_is_answered() -> None:
    assert wish(Envelope(ack_inbox="acks.1")).answered_at(b"_INBOX.own") == b"acks.1"
    assert wish(Envelope()).answered_at(b"_INBOX.own") == b""
    assert [wish(Envelope(policy=policy)).policy for policy in (0, 1, 2)] == [LEADER, ALL, NONE]
    answer = wish(Envelope(correlation_id="c7", policy=ALL)).enveloped(b"orders.new", "orders.2", 9)
    assert answer is not None
    assert (answer.correlation_id, answer.policy, answer.received_ms) == ("c7", ALL, 9)


@pytest.mark.parametrize(
    ("envelope", "code", "words"),
    [
        (Envelope(offset=-2), "envelope-not-honoured", "no offset -2"),
        (Envelope(stream="other"), "wrong-stream", "'other'"),
        (Envelope(partition=1), "envelope-not-honoured", "partition is 1, this is 2"),
        (Envelope(timestamp=1), "envelope-not-honoured", "timestamp"),
        (Envelope(subject="elsewhere"), "envelope-not-honoured", "subject"),
        (Envelope(reply_subject="elsewhere"), "envelope-not-honoured", "reply subject"),
        (Envelope(policy=3), "envelope-not-honoured", "policy 3"),
        (Envelope(ack_inbox="a b"), "envelope-not-honoured", "inbox"),
        (Envelope(ack_inbox="a\r\nPUB b 0\r\n\r\n"), "envelope-not-honoured", "inbox"),
        (Envelope(ack_inbox="a.>"), "envelope-not-honoured", "inbox"),
        (Envelope(ack_inbox="a..b"), "envelope-not-honoured", "inbox"),
        (Envelope(ack_inbox="a" * (INBOX_BYTES_MAX + 1)), "envelope-not-honoured", "inbox"),
        (Envelope(correlation_id="a" * (CORRELATION_BYTES_MAX + 1)), "envelope-not-honoured", "correlation"),
        (Envelope(headers=(("a b", b""),)), "envelope-not-honoured", "headers"),
        (Envelope(headers=(("a", b"b\r\nc: d"),)), "envelope-not-honoured", "headers"),
        (Envelope(headers=(("Liftlog-Key", b"k"),)), "envelope-not-honoured", "headers of liftlog"),
        (Envelope(headers=(("Nats-TTL", b"5s"),)), "ttl-disabled", "Nats-TTL"),
    ],
)
def test_L4_what_an_envelope_asks_for_and_is_not_done_is_refused(
    envelope: Envelope, code: str, words: str
) -> None:
    found = wish(envelope)
    assert found.refusal is not None
    assert found.refusal.code == code
    assert words in found.refusal.text
    assert found.answered_at(b"r") in (b"", envelope.ack_inbox.encode())
    assert b"\r" not in found.answered_at(b"r") and b" " not in found.answered_at(b"r")


def test_L4_a_field_that_is_not_known_is_asked_for_in_vain() -> None:
    found = wish(seal(Envelope(value=b"v")) + b"\x68\x01")
    assert found.refusal is not None and "field 13" in found.refusal.text
    beside = wish(Envelope(), headers=b"NATS/1.0\r\nLiftlog-Ack: full\r\n\r\n")
    assert beside.refusal is not None and "say it in the envelope" in beside.refusal.text


@pytest.mark.parametrize("offset", [0, -1])
@pytest.mark.parametrize("partition", [0, 2])
def test_L4_what_is_so_or_expects_nothing_is_stored(offset: int, partition: int) -> None:
    named = Envelope(
        offset=offset, stream="orders", partition=partition, subject="orders.new", reply_subject="_INBOX.own"
    )
    assert wish(named).refusal is None


def test_L1_an_envelope_whose_checksum_is_wrong_is_refused_where_its_message_can_be_answered() -> None:
    sealed = seal(Envelope(value=b"v", ack_inbox="acks.1"), checksum=True)
    assert wish(sealed).refusal is None
    for place in range(8, len(sealed)):
        damaged = sealed[:place] + bytes((sealed[place] ^ 1,)) + sealed[place + 1 :]
        found = wish(damaged)
        assert found.refusal is not None and found.refusal.code == "envelope-damaged"
        assert found.answered_at(b"_INBOX.own") == b"_INBOX.own"
        assert found.enveloped(b"s", "s", 0) is None


def test_a_plain_payload_costs_no_list_and_counts_whole() -> None:
    plain = [Message(b"orders", b"r", b"", value) for value in (b"", b"abc", COOKIE[:3], b"x" + COOKIE)]
    assert read(plain, "orders") is None
    sealed = seal(Envelope(value=b"v"))
    assert counted_bytes(Message(b"orders", b"r", b"", sealed)) == len(sealed)
