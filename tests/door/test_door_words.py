"""JetStream's door, what needs no server: calls, answers, configurations, errors."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.jetstream.answers import SuccessAnswer, encode_answer, encode_error, kind_of, rfc3339
from liftlog.jetstream.calls import NAMED, JsCall, parse_call
from liftlog.jetstream.configs import (
    ConsumerLimits,
    JsStreamConfig,
    born_as,
    consumer_limits,
    created_ms,
    from_stream_config,
    max_consumers,
    name_problem,
    stream_changes,
    to_stream_config,
)
from liftlog.jetstream.consumerconfigs import JsConsumerConfig
from liftlog.jetstream.door import HANDLERS, NOBODY, status_of
from liftlog.jetstream.errors import NEEDS_API_LEVEL, STREAM_NOT_FOUND, JsError, error_of
from liftlog.jetstream.stored import BatchPlace, GetRequest, direct_block
from liftlog.jetstream.streamlimits import within_limits
from liftlog.types import Record, StreamConfig

TOKEN = st.text(st.characters(exclude_characters=" .\t\r\n", exclude_categories=["Cs"]), min_size=1)


def call(subject: str, payload: bytes = b"", headers: dict[str, str] | None = None) -> JsCall:
    return parse_call(f"$JS.API.{subject}", "$JS.API", payload, headers or {}, "_INBOX.1")


@pytest.mark.parametrize(
    ("subject", "verb", "stream", "consumer", "rest"),
    [
        ("INFO", "INFO", "", "", ""),
        ("STREAM.CREATE.A", "STREAM.CREATE", "A", "", ""),
        ("STREAM.MSG.GET.A", "STREAM.MSG.GET", "A", "", ""),
        ("DIRECT.GET.A", "DIRECT.GET", "A", "", ""),
        ("DIRECT.GET.A.$KV.B.k.x", "DIRECT.GET", "A", "", "$KV.B.k.x"),
        ("CONSUMER.CREATE.A", "CONSUMER.CREATE", "A", "", ""),
        ("CONSUMER.CREATE.A.c", "CONSUMER.CREATE", "A", "c", ""),
        ("CONSUMER.CREATE.A.c.f.>", "CONSUMER.CREATE", "A", "c", "f.>"),
        ("CONSUMER.DURABLE.CREATE.A.c", "CONSUMER.DURABLE.CREATE", "A", "c", ""),
        ("CONSUMER.MSG.NEXT.A.c", "CONSUMER.MSG.NEXT", "A", "c", ""),
    ],
)
def test_a_subject_says_which_call_it_is(
    subject: str, verb: str, stream: str, consumer: str, rest: str
) -> None:
    found = call(subject)
    assert (found.verb, found.stream, found.consumer, found.rest) == (verb, stream, consumer, rest)


@pytest.mark.parametrize(
    "subject", ["", "STREAM", "STREAM.CREATE", "STREAM.CREATE.A.B", "INFO.x", "FOO.A", "CONSUMER.INFO.A"]
)
def test_a_subject_that_is_no_call_is_refused(subject: str) -> None:
    with pytest.raises(JsError) as found:
        call(subject)
    assert found.value.err_code == 10003


@given(st.lists(TOKEN, max_size=6))
def test_any_subject_is_a_call_or_refused(tokens: list[str]) -> None:
    try:
        found = call(".".join(tokens))
    except JsError as error:
        assert error.code == 400
    else:
        assert found.verb in NAMED


@given(st.sampled_from(sorted(NAMED)), TOKEN, TOKEN)
def test_every_verb_finds_its_names(verb: str, stream: str, consumer: str) -> None:
    names, _ = NAMED[verb]
    found = call(".".join([verb, stream, consumer][: names + 1]))
    assert (found.verb, found.stream, found.consumer) == (
        verb,
        stream if names else "",
        consumer if names > 1 else "",
    )


def test_every_handler_answers_a_known_verb() -> None:
    assert set(HANDLERS) <= set(NAMED)


@pytest.mark.parametrize(
    ("said", "content"), [("0", True), ("1", False), ("99", False), ("", False), ("x", False), ("-1", False)]
)
def test_a_client_that_needs_a_higher_level_is_told_so(said: str, content: bool) -> None:
    assert call("INFO", headers={"Nats-Required-Api-Level": said}).needs_at_most(0) is content
    assert call("INFO").needs_at_most(0)


@given(st.binary(max_size=40))
def test_any_body_is_read_or_refused(payload: bytes) -> None:
    try:
        found = call("STREAM.CREATE.A", payload).body(JsStreamConfig)
    except JsError as error:
        assert error.err_code == 10025
    else:
        assert isinstance(found, JsStreamConfig)


def test_an_answer_has_its_type_and_an_error_nothing_else_than_clients_take() -> None:
    assert json.loads(encode_answer(SuccessAnswer(), kind_of("STREAM.DELETE"))) == {
        "type": "io.nats.jetstream.api.v1.stream_delete_response",
        "success": True,
    }
    assert json.loads(encode_error(STREAM_NOT_FOUND.because(), "STREAM.INFO")) == {
        "type": "io.nats.jetstream.api.v1.stream_info_response",
        "error": {"code": 404, "err_code": 10059, "description": "stream not found"},
    }


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (1_700_000_000_120, "2023-11-14T22:13:20.12Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_times_end_in_z(timestamp_ms: int, text: str) -> None:
    assert rfc3339(timestamp_ms) == text


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "a/b", "a\\b", "x" * 256, "a\n"])
def test_names_that_jetstream_refuses(name: str) -> None:
    assert name_problem(name)
    assert not name_problem("KV_b-1")


def refused(**fields: Any) -> str:
    with pytest.raises(JsError) as found:
        to_stream_config(JsStreamConfig(name="A", **fields))
    return found.value.description


def test_the_defaults_that_clients_send_ask_for_nothing() -> None:
    sent = JsStreamConfig(
        name="A",
        max_msgs=-1,
        max_bytes=-1,
        max_age=0,
        max_msgs_per_subject=-1,
        max_msg_size=-1,
        duplicate_window=0,
    )
    made = to_stream_config(sent)
    assert made == to_stream_config(JsStreamConfig(name="A"))
    assert (made.subject, made.replication_factor, made.dedupe_window_ms) == ("A", 1, 120_000)
    assert made.removal is True
    assert made.messages_max is made.max_messages_per_subject is UNSET
    told = from_stream_config(made)
    assert (told.max_msgs, told.max_bytes, told.max_msg_size, told.discard) == (-1, -1, -1, "old")


def test_what_a_stream_is_comes_back_as_it_was_said() -> None:
    said = JsStreamConfig(
        name="A",
        subjects=["a.>"],
        max_msgs=7,
        discard="new",
        max_age=3_600_000_000_000,
        max_msgs_per_subject=3,
        max_msg_size=100,
        no_ack=True,
        compression="s2",
        num_replicas=3,
    )
    told = from_stream_config(to_stream_config(said))
    for field in ("name", "subjects", "max_msgs", "discard", "max_age", "max_msgs_per_subject"):
        assert getattr(told, field) == getattr(said, field)
    assert told.duplicate_window == 120_000_000_000
    for field in ("max_msg_size", "no_ack", "compression", "num_replicas"):
        assert getattr(told, field) == getattr(said, field)


def test_a_limit_by_bytes_lets_old_messages_go_or_refuses_new_ones() -> None:
    old, new = (
        to_stream_config(JsStreamConfig(name="A", max_bytes=5000, discard=which)) for which in ("old", "new")
    )
    assert (old.retention_bytes, old.holds_bytes) == (5000, 0) == (new.holds_bytes, new.retention_bytes)
    for made, which in ((old, "old"), (new, "new")):
        told = from_stream_config(made)
        assert (told.max_bytes, told.discard) == (5000, which)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"republish": {"src": ">", "dest": "x"}}, "republish"),
        ({"storage": "memory"}, "memory"),
        ({"persist_mode": "async"}, "persist_mode"),
        ({"max_age": 5}, ">= 100ms"),
        ({"max_age": -1}, "negative"),
        ({"duplicate_window": 5}, ">= 100ms"),
        ({"duplicate_window": -1}, "negative"),
        ({"max_age": 10**9, "duplicate_window": 2 * 10**9}, "larger then max age"),
        ({"num_replicas": -1}, "negative"),
        ({"description": "x" * 5000}, "too long"),
        ({"deny_purge": True, "allow_rollup_hdrs": True}, "purge permission"),
        ({"num_replicas": 6}, "maximum replicas is 5"),
        ({"allow_msg_counter": True}, "counter"),
    ],
)
def test_what_is_not_honoured_is_refused(fields: dict[str, Any], word: str) -> None:
    assert word in refused(**fields)


def test_changes_are_what_differs_and_some_cannot_be_made() -> None:
    before = to_stream_config(JsStreamConfig(name="A", max_msgs_per_subject=3))
    after = to_stream_config(JsStreamConfig(name="A", max_age=10**9))
    changes = stream_changes(before, after)
    assert changes.named == {
        "retention_ms": 1000,
        "segment_ms": 125,
        "dedupe_window_ms": 1000,
        "max_messages_per_subject": 0,
    }
    assert stream_changes(before, before).named == {}
    with pytest.raises(JsError, match="can not change no_ack"):
        stream_changes(before, msgspec.structs.replace(before, ack_reply=False))


def test_what_liftlog_has_no_word_for_stands_in_notes() -> None:
    said = JsStreamConfig(
        name="A",
        description="all of it",
        metadata={"owner": "x", "_nats.level": "7"},
        discard="new",
        allow_direct=True,
        deny_delete=True,
        allow_rollup_hdrs=True,
    )
    made = to_stream_config(said, 1_700_000_000_000)
    told = from_stream_config(made)
    assert created_ms(made) == 1_700_000_000_000
    assert (told.description, told.discard, told.allow_direct) == ("all of it", "new", True)
    assert (told.deny_delete, told.deny_purge, told.sealed) == (True, False, False)
    assert told.allow_rollup_hdrs
    assert told.metadata["owner"] == "x"
    assert (told.metadata["_nats.level"], told.metadata["_nats.req.level"]) == ("1", "0")
    assert from_stream_config(to_stream_config(said, 5)) == told


def test_an_update_keeps_when_a_stream_was_made_and_the_notes_of_others() -> None:
    before = to_stream_config(JsStreamConfig(name="A", description="old"), 7)
    assert before.notes is not UNSET
    before = msgspec.structs.replace(before, notes=(*before.notes, ("team", "blue")))
    after = born_as(before, to_stream_config(JsStreamConfig(name="A", description="new"), 9))
    assert after.notes is not UNSET
    assert dict(after.notes) == {
        "js.created": "7",
        "js.no_direct": "1",
        "js.description": "new",
        "team": "blue",
    }
    assert stream_changes(before, after).named == {"notes": after.notes}


@pytest.mark.parametrize(
    ("field", "word"), [("deny_delete", "cancel deny message"), ("deny_purge", "cancel deny purge")]
)
def test_what_is_denied_is_denied_for_ever(field: str, word: str) -> None:
    before = to_stream_config(JsStreamConfig(name="A", **{field: True}))
    with pytest.raises(JsError, match=word):
        stream_changes(before, to_stream_config(JsStreamConfig(name="A")))


def test_ttls_stay_allowed() -> None:
    before = to_stream_config(JsStreamConfig(name="A", allow_msg_ttl=True))
    assert from_stream_config(before).allow_msg_ttl
    with pytest.raises(JsError, match="TTL status can not be disabled"):
        stream_changes(before, to_stream_config(JsStreamConfig(name="A")))


def test_markers_bring_what_they_need() -> None:
    made = to_stream_config(JsStreamConfig(name="A", subject_delete_marker_ttl=90 * 10**9))
    assert (made.marker_ttl_ms, made.has_ttl, made.rolls_up) == (90_000, True, True)
    told = from_stream_config(made)
    assert (told.subject_delete_marker_ttl, told.metadata["_nats.req.level"]) == (90 * 10**9, "1")
    without = to_stream_config(JsStreamConfig(name="A", allow_msg_ttl=True, allow_rollup_hdrs=True))
    assert from_stream_config(without).subject_delete_marker_ttl is UNSET
    assert stream_changes(without, made).named == {"marker_ttl_ms": 90_000}
    assert stream_changes(made, without).named == {"marker_ttl_ms": 0}


def test_markers_that_cannot_be() -> None:
    assert "at least 1 second" in refused(subject_delete_marker_ttl=10)
    assert "negative" in refused(subject_delete_marker_ttl=-1)
    assert "purge permission" in refused(subject_delete_marker_ttl=10**9, deny_purge=True)
    assert "discard 'new'" in refused(subject_delete_marker_ttl=10**9, discard="new", max_msgs=5)


def test_batches_are_allowed_and_forbidden_again() -> None:
    before, after = to_stream_config(JsStreamConfig(name="A", allow_atomic=True)), JsStreamConfig(name="A")
    assert from_stream_config(before).allow_atomic is True
    assert stream_changes(before, to_stream_config(after)).named == {"allow_batches": False}
    assert from_stream_config(to_stream_config(after)).allow_atomic is UNSET


def test_a_sealed_stream_denies_all_of_it() -> None:
    sealed = to_stream_config(JsStreamConfig(name="A", sealed=True))
    assert (sealed.sealed, sealed.deny_delete, sealed.deny_purge) == (True, True, True)


def test_several_subjects_are_told_in_their_order() -> None:
    made = to_stream_config(JsStreamConfig(name="A", subjects=["b.>", "a", "c.*"]))
    assert made.subjects == ("b.>", "a", "c.*")
    assert from_stream_config(made).subjects == ["b.>", "a", "c.*"]
    one = to_stream_config(JsStreamConfig(name="A", subjects=["b.>"]))
    assert stream_changes(made, one).named == {"more_subjects": ()}


def test_segments_follow_limits_and_stay_as_an_operator_has_set_them() -> None:
    made = to_stream_config(JsStreamConfig(name="A", max_msgs=80_000, max_bytes=10**9, max_age=8 * 10**12))
    assert (made.segment_records, made.segment_ms) == (10_000, 1_000_000)
    assert made.segment_bytes == 64 * 1024 * 1024
    small = to_stream_config(JsStreamConfig(name="A", max_msgs=5, max_bytes=1000))
    assert (small.segment_records, small.segment_bytes) == (256, 1024 * 1024)
    set_otherwise = msgspec.structs.replace(made, segment_bytes=2**20, segment_records=0)
    assert stream_changes(set_otherwise, made).named == {}
    fewer = to_stream_config(JsStreamConfig(name="A", max_msgs=8_000, max_bytes=10**9, max_age=8 * 10**12))
    assert stream_changes(set_otherwise, fewer).named == {
        "retention_messages": 8000,
        "segment_records": 1000,
    }


def test_a_stream_s_limits_bound_its_consumers() -> None:
    limits = ConsumerLimits(inactive_threshold=60 * 10**9, max_ack_pending=10)
    silent = within_limits(JsConsumerConfig(ack_policy="explicit"), limits)
    assert (silent.max_ack_pending, silent.inactive_threshold) == (10, 60 * 10**9)
    assert within_limits(JsConsumerConfig(), limits).max_ack_pending == 0
    modest = JsConsumerConfig(ack_policy="explicit", max_ack_pending=3, inactive_threshold=10**9)
    assert within_limits(modest, limits) == modest
    assert within_limits(modest, ConsumerLimits()) == modest
    for fields, err_code in (
        ({"max_ack_pending": 11}, 10121),
        ({"max_ack_pending": -1}, 10121),
        ({"inactive_threshold": 61 * 10**9}, 10153),
    ):
        with pytest.raises(JsError) as found:
            within_limits(msgspec.structs.replace(modest, **fields), limits)
        assert found.value.err_code == err_code
    kept = to_stream_config(JsStreamConfig(name="A", consumer_limits=limits, max_consumers=4))
    assert (consumer_limits(kept), max_consumers(kept)) == (limits, 4)
    assert from_stream_config(kept).consumer_limits == msgspec.structs.asdict(limits)


def test_errors_of_liftlog_are_said_in_jetstreams_words() -> None:
    assert error_of(RequestFailed("not-found", "no")).err_code == 10059
    assert error_of(Unreachable("away")).code == 503
    assert error_of(RequestFailed("no-leader", "none", True)).code == 503
    assert error_of(ValueError("odd")).code == 500
    assert status_of(STREAM_NOT_FOUND.because()) == NOBODY
    assert status_of(NEEDS_API_LEVEL.because()).text == "Required Api Level"


def test_a_direct_get_adds_to_the_headers_that_were_stored() -> None:
    record = Record(4, 1_700_000_000_000, b"a.b", b"", b"NATS/1.0\r\nX: 1\r\nX: 2\r\n\r\n", None, b"v")
    block = direct_block("A", record, None, False)
    assert block.startswith(b"NATS/1.0\r\nX: 1\r\nX: 2\r\nNats-Stream: A\r\nNats-Subject: a.b\r\n")
    assert b"Nats-Sequence: 5\r\n" in block
    assert block.endswith(b"\r\n\r\n")
    assert block.count(b"\r\n\r\n") == 1
    bare = direct_block("A", record._replace(headers=b""), BatchPlace(3, 4), False)
    assert bare.startswith(b"NATS/1.0\r\nNats-Stream: A\r\n")
    assert bare.endswith(b"Nats-Num-Pending: 3\r\nNats-Last-Sequence: 4\r\n\r\n")
    assert direct_block("A", record, None, True) == b""


@pytest.mark.parametrize(
    ("fields", "contradicts"),
    [
        ({"seq": 1}, False),
        ({"seq": 1, "last_by_subj": "a"}, True),
        ({"last_by_subj": "a", "next_by_subj": "a"}, True),
        ({"last_by_subj": "a", "batch": 2}, True),
        ({"next_by_subj": "a", "multi_last": ["a"]}, True),
        ({"multi_last": ["a"], "up_to_seq": 3}, False),
    ],
)
def test_requests_that_ask_for_two_things_at_once(fields: dict[str, Any], contradicts: bool) -> None:
    assert GetRequest(**fields).contradicts is contradicts


def test_a_stream_of_liftlogs_own_is_told_too() -> None:
    told = from_stream_config(StreamConfig("orders", "orders.>", removal=True, retention_messages=5))
    assert (told.max_msgs, told.discard, told.duplicate_window) == (5, "old", 0)
