"""What consumers' clients say and hear, byte by byte: acks, pulls, configurations, what a leaf node sends."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.jetstream import consumerconfigs
from liftlog.jetstream.ackwords import AckSubject, AckWord, parse_ack_subject, parse_ack_word
from liftlog.jetstream.consumerconfigs import JsConsumerConfig, effective, from_core, to_core
from liftlog.jetstream.errors import JsError
from liftlog.jetstream.leaf import Interests, LeafLogin, LeafMessage, encode_messages, parse_leaf_url
from liftlog.jetstream.nextrequests import PullRefused, check_limits, go_duration, parse_next
from liftlog.jetstream.push import WINDOW_MIN, FlowWindow
from liftlog.jetstream.statuses import IDLE, last_given
from liftlog.messages import ACK, NAK, PROGRESS, TERM
from liftlog.types import LiftlogError

NUMBER = st.integers(min_value=1, max_value=2**62)
NAME = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)


@given(st.builds(AckSubject, NAME, NAME, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER))
def test_both_forms_of_ack_subjects_are_read(about: AckSubject) -> None:
    assert parse_ack_subject(str(about)) == about
    rest = str(about).removeprefix("$JS.ACK.")
    assert parse_ack_subject(f"$JS.ACK._.hash.{rest}") == about
    assert parse_ack_subject(f"$JS.ACK.domain.hash.{rest}.token") == about


@given(st.text(max_size=60))
def test_other_subjects_are_none(text: str) -> None:
    assert parse_ack_subject(text) is None
    assert parse_ack_subject(f"$JS.ACK.{text}.1.2") is None


@pytest.mark.parametrize(
    ("payload", "word"),
    [
        (b"", AckWord(ACK)),
        (b"+ACK", AckWord(ACK)),
        (b"+OK", AckWord(ACK)),
        (b"+WPI", AckWord(PROGRESS)),
        (b"-NAK", AckWord(NAK)),
        (b'-NAK {"delay": 1500000000}', AckWord(NAK, delay_ms=1500)),
        (b"-NAK 1m2.5s", AckWord(NAK, delay_ms=62_500)),
        (b"-NAK soon", AckWord(NAK)),
        (b'-NAK {"delay": "x"}', AckWord(NAK)),
        (b"+TERM", AckWord(TERM)),
        (b"+TERM it is broken", AckWord(TERM, reason="it is broken")),
        (b"+NXT", AckWord(ACK, next=b"")),
        (b'+NXT {"batch": 5}', AckWord(ACK, next=b' {"batch": 5}')),
        (b"hello", None),
        (b"+ACKED", None),
    ],
)
def test_words_of_acks(payload: bytes, word: AckWord | None) -> None:
    assert parse_ack_word(payload) == word


@given(st.binary(max_size=40))
def test_anything_is_a_word_or_none(payload: bytes) -> None:
    parse_ack_word(payload)
    parse_ack_word(b"-NAK " + payload)


def test_pulls_are_read() -> None:
    assert parse_next(b"").batch == 1
    assert parse_next(b" 17 ").batch == 17
    assert parse_next(b"-3").batch == 1
    assert parse_next(b"many").batch == 1
    full = parse_next(b'{"batch":5,"expires":1000,"no_wait":true,"max_bytes":9,"unknown":1}')
    assert (full.batch, full.expires, full.no_wait, full.max_bytes) == (5, 1000, True, 9)
    assert parse_next(b'{"batch":0,"expires":-5}').expires == 0


@pytest.mark.parametrize("text", [b"{", b'{"batch":"x"}', b'{"expires":10,"idle_heartbeat":6}', b"{\xff}"])
def test_bad_pulls_are_refused(text: bytes) -> None:
    with pytest.raises(PullRefused) as caught:
        parse_next(text)
    assert caught.value.status.code == 400
    assert caught.value.status.text.startswith("Bad Request - ")


def test_limits_of_pulls() -> None:
    config = JsConsumerConfig(max_batch=2, max_expires=90_000_000_000, max_bytes=10)
    check_limits(parse_next(b'{"batch":2,"expires":90000000000,"max_bytes":10}'), config)
    for text, said in [
        (b"3", "Exceeded MaxRequestBatch of 2"),
        (b'{"expires":90000000001}', "Exceeded MaxRequestExpires of 1m30s"),
        (b'{"max_bytes":11}', "Exceeded MaxRequestMaxBytes of 10"),
        (b'{"priority":10}', "Bad Request - Priority must be between 0 and 9"),
    ]:
        with pytest.raises(PullRefused) as caught:
            check_limits(parse_next(text), config)
        assert caught.value.status.text == said


@pytest.mark.parametrize(
    ("ns", "said"),
    [(0, "0s"), (1_500, "1.5µs"), (20_000_000, "20ms"), (10**9, "1s"), (3_600 * 10**9, "1h0m0s")],
)
def test_durations_are_said_as_go_does(ns: int, said: str) -> None:
    assert go_duration(ns) == said


def refused(**fields: object) -> int:
    wanted = msgspec.convert(fields, JsConsumerConfig)
    with pytest.raises(JsError) as caught:
        effective(wanted, "C", ["orders.>"], 1)
    return caught.value.err_code


@pytest.mark.parametrize(
    ("number", "fields"),
    [
        (10079, {"deliver_subject": "to.*"}),
        (10080, {"deliver_subject": "to", "max_waiting": 5}),
        (10081, {"deliver_subject": "orders.new"}),
        (10082, {"deliver_subject": "to", "max_ack_pending": 5}),
        (10083, {"deliver_subject": "to", "idle_heartbeat": 1000}),
        (10086, {"rate_limit_bps": 5}),
        (10088, {"idle_heartbeat": 10**9}),
        (10089, {"flow_control": True}),
        (10094, {"deliver_policy": "by_start_sequence"}),
        (10094, {"opt_start_seq": 5}),
        (10094, {"deliver_policy": "last_per_subject"}),
        (10107, {"description": "x" * 5000}),
        (10108, {"deliver_subject": "to", "flow_control": True}),
        (10115, {"max_expires": 5}),
        (10116, {"max_deliver": 1, "backoff": [1, 2]}),
        (10121, {"ack_policy": "explicit", "max_ack_pending": 100_000}),
        (10126, {"num_replicas": 3}),
        (10132, {"durable_name": "C", "name": "D"}),
        (10136, {"filter_subject": "orders.a", "filter_subjects": ["orders.b"]}),
        (10138, {"filter_subjects": ["orders.*", "orders.b"]}),
        (10139, {"filter_subjects": [""]}),
        (10183, {"ack_wait": -1}),
        (10012, {"replay_policy": "original", "durable_name": "C"}),
        (10159, {"priority_policy": "prioritized", "durable_name": "C"}),
        (10196, {"priority_groups": ["g"], "durable_name": "C"}),
        (10012, {"priority_policy": "overflow", "priority_groups": [f"g{n}" for n in range(17)]}),
        (10012, {"ack_policy": "flow_control", "durable_name": "C"}),
    ],
)
def test_what_is_refused_has_its_number(number: int, fields: dict[str, object]) -> None:
    assert refused(**fields) == number


def test_defaults_hold_and_are_told() -> None:
    wanted = JsConsumerConfig(durable_name="C", ack_policy="explicit")
    config = effective(wanted, "C", ["orders.>"], 3)
    assert config.told() == {
        "durable_name": "C",
        "name": "C",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": 30_000_000_000,
        "max_deliver": -1,
        "replay_policy": "instant",
        "max_waiting": 512,
        "max_ack_pending": 1000,
        "num_replicas": 0,
    }
    assert effective(config, "C", ["orders.>"], 3) == config


def test_the_core_keeps_all_of_a_configuration() -> None:
    wanted = JsConsumerConfig(
        durable_name="C",
        description="bills",
        ack_policy="all",
        backoff=[10**9, 2 * 10**9],
        max_deliver=3,
        filter_subjects=["orders.a", "orders.b"],
        deliver_policy="by_start_sequence",
        opt_start_seq=7,
        metadata={"owner": "me"},
    )
    config = effective(wanted, "C", ["orders.>"], 1)
    core = to_core(config, 1234)
    assert core.patterns == ("orders.a", "orders.b")
    assert (core.backoff_ms, core.ack_wait_ms, core.max_deliver, core.offset) == ((1000, 2000), 2000, 3, 6)
    assert from_core("C", core) == (config, 1234)
    bare, created_ms = from_core("C", msgspec.structs.replace(core, notes=()))
    assert created_ms == 0
    assert (bare.opt_start_seq, bare.filter_subjects) == (7, ["orders.a", "orders.b"])
    assert bare.backoff == config.backoff


def test_times_need_a_zone() -> None:
    assert consumerconfigs.milliseconds("2024-01-01T00:00:00.123456789Z") == 1_704_067_200_123
    for text in ("2024-01-01T00:00:00", "yesterday"):
        with pytest.raises(JsError):
            consumerconfigs.milliseconds(text)


def test_what_a_leaf_node_sends() -> None:
    plain = LeafMessage("inbox", body=b"hello")
    assert plain.encoded() == b"LMSG inbox 5\r\nhello\r\n"
    assert plain.encoded(["q1", "q2"]) == b"LMSG inbox | q1 q2 5\r\nhello\r\n"
    named = LeafMessage("inbox", "$JS.ACK.S.C.1.1.1.1.0", b"NATS/1.0\r\n\r\n", b"hi", "orders.new")
    assert named.encoded(["q"]).startswith(b"HMSG inbox + $JS.ACK.S.C.1.1.1.1.0@orders.new q 12 14\r\n")
    assert named.encoded() == b"HMSG inbox $JS.ACK.S.C.1.1.1.1.0@orders.new 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    block = IDLE.block(last_given(3, 7))
    assert block == b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 3\r\nNats-Last-Stream: 7\r\n\r\n"


@given(
    st.lists(
        st.builds(
            LeafMessage,
            st.sampled_from(["inbox", "other", "third"]),
            st.just("$JS.ACK.S.C.1.1.1.1.0"),
            st.sampled_from([b"", b"NATS/1.0\r\n\r\n"]),
            st.binary(max_size=4),
            st.sampled_from(["", "orders.new"]),
        ),
        max_size=6,
    )
)
def test_messages_that_are_sent_together_are_sent_as_each_alone(messages: list[LeafMessage]) -> None:
    queues = {"inbox": [], "other": ["q"], "third": ["q1", "q2"]}
    alone = [one.encoded(queues[one.to]) for one in messages]
    assert encode_messages(messages, queues.__getitem__) == b"".join(alone)


def test_interest_is_counted_by_queue_group() -> None:
    interests = Interests()
    interests.add("a.b")
    interests.add("a.b", "workers")
    interests.add("a.b", "workers")
    interests.remove("a.b")
    assert "a.b" in interests
    assert interests.queues("a.b") == ["workers"]
    interests.remove("a.b", "workers")
    assert "a.b" not in interests
    interests.add("_INBOX.x.*")
    assert "_INBOX.x.1" in interests
    assert "_INBOX.y.1" not in interests
    interests.remove("_INBOX.x.*")
    interests.remove("never.added")
    assert "_INBOX.x.1" not in interests


def test_addresses_of_leaf_node_ports() -> None:
    assert parse_leaf_url("nats-leaf://h") == ("h", 7422, LeafLogin())
    assert parse_leaf_url("nats-leaf://u:p%40@h:1") == ("h", 1, LeafLogin("u", "p@"))
    assert parse_leaf_url("nats-leaf://t@h:1") == ("h", 1, LeafLogin(token="t"))
    for url in ("nats://h:1", "nats-leaf://", "nats-leaf://h:x", "h:1"):
        with pytest.raises(LiftlogError, match="leaf node port"):
            parse_leaf_url(url)


def test_the_window_of_a_client_grows_as_it_confirms() -> None:
    window = FlowWindow()
    assert not window.sent(WINDOW_MIN // 2)
    assert window.sent(1)
    window.ask("f1")
    assert not window.sent(WINDOW_MIN)
    assert window.is_full
    assert not window.confirmed("other")
    assert window.confirmed("f1")
    assert not window.confirmed("f1")
    assert (window.most, window.unconfirmed) == (2 * WINDOW_MIN, WINDOW_MIN)


def test_a_configuration_is_read_strictly() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps({"durable": "x"}), type=JsConsumerConfig)
