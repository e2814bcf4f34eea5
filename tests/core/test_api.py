"""The API: frames survive any cut, JSON names its fields, and malformed requests get a clear answer."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.api import wire
from liftlog.api.clients import ClientRegistry
from liftlog.api.nats_api import OPERATIONS, NatsApi
from liftlog.api.plain import from_plain, to_plain
from liftlog.client.client import decode_answer
from liftlog.client.errors import RequestFailed
from liftlog.messages import (
    ClientRequest,
    ClusterStatusReply,
    CreateStreamRequest,
    ErrorReply,
    Event,
    NodeInfo,
    PartitionInfo,
    ReadRequest,
    ReplicaInfo,
    StreamInfo,
    StreamInfoReply,
    StreamInfoRequest,
)
from liftlog.types import ClientRef, PartitionId, StreamConfig

STATUS = ClusterStatusReply(
    1,
    2,
    3,
    4,
    [NodeInfo(1, True, 7, "h:1", True)],
    [ReplicaInfo(PartitionId(5, 0), "leader", 1, 10, 9, 8, 0, "clean", "ready")],
    {"R2.commit": 3},
)
STREAMS = StreamInfoReply(
    [StreamInfo(5, StreamConfig("a", "a.>"), [PartitionInfo(0, 1, 2, 3, [1], [1], [], True)])]
)


@given(st.lists(st.binary(max_size=50), max_size=20), st.lists(st.integers(1, 30), max_size=40))
def test_frames_survive_any_cut_of_the_byte_stream(bodies: list[bytes], cuts: list[int]) -> None:
    data = b"".join(wire.encode_frame(body) for body in bodies)
    splitter = wire.FrameSplitter()
    received, position = [], 0
    for cut in [*cuts, len(data)]:
        for frame in splitter.feed(data[position : position + cut]):
            received.append(msgspec.msgpack.decode(frame))
        position += cut
    assert received == bodies


def test_a_frame_too_long_to_be_ours_is_refused() -> None:
    with pytest.raises(wire.WireError, match="not a liftlog peer"):
        list(wire.FrameSplitter().feed(b"GET / HTTP/1.1\r\n"))


@pytest.mark.parametrize(
    ("hello", "words"),
    [
        (wire.Hello(99, "liftlog", 1), "protocol version 99"),
        (wire.Hello(wire.PROTOCOL_VERSION, "other", 1), "cluster 'other'"),
        ([1], "greeting"),
    ],
)
def test_a_caller_of_another_version_or_cluster_is_refused(hello: object, words: str) -> None:
    frame = wire.encode_frame(hello)[4:]
    with pytest.raises(wire.WireError, match=words):
        wire.check_hello(frame, "liftlog")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ReadRequest(PartitionId(5, 0), 0, max_bytes=0), "max_bytes is 0"),
        (ReadRequest(PartitionId(5, 0), 0, max_bytes=wire.READ_MAX_BYTES + 1), "accepted: 1 to"),
        (ReadRequest(PartitionId(5, 0), 0, wait_ms=-1), "wait_ms is -1"),
        (ReadRequest(PartitionId(5, 0), 0, wait_ms=wire.READ_WAIT_MAX_MS + 1), "accepted: 0 to"),
    ],
)
def test_a_read_beyond_the_limits_is_named(request_: ReadRequest, words: str) -> None:
    assert words in wire.request_problem(request_)
    assert wire.request_problem(ReadRequest(PartitionId(5, 0), 0)) == ""


def test_calls_and_answers_come_back_as_they_were_sent() -> None:
    call = wire.ClientCall(7, ReadRequest(PartitionId(5, 0), 10))
    assert wire.call_decoder.decode(wire.encode_frame(call)[4:]) == call
    assert wire.answer_decoder.decode(wire.encode_frame((7, STATUS))[4:]) == wire.ClientAnswer(7, STATUS)


@pytest.mark.parametrize("value", [STATUS, STREAMS])
def test_json_has_field_names_and_comes_back_as_it_was(value: msgspec.Struct) -> None:
    plain = json.loads(json.dumps(to_plain(value)))
    assert set(plain) == set(value.__struct_fields__)
    assert from_plain(type(value), plain) == value


class Api:
    """A NatsApi with its surroundings."""

    def __init__(self) -> None:
        self.answers: list[tuple[bytes, bytes]] = []
        self.events: list[Event] = []
        self.clients = ClientRegistry()
        self.api = NatsApi(
            "c",
            2,
            self.clients,
            self.events.append,
            lambda reply, payload: self.answers.append((reply, payload)),
        )

    def ask(self, operation: str, payload: bytes) -> None:
        self.api.handle(f"$LIFTLOG.c.API.{operation}".encode(), b"_INBOX.1", payload)


@pytest.mark.parametrize(
    ("operation", "payload", "words"),
    [
        ("STREAM.CREATE", b"{nope", "malformed"),
        ("STREAM.CREATE", b"", "missing field `name`"),
        ("STREAM.CREATE", b'{"name":"a","subject":"b","replicas":3}', "unknown field `replicas`"),
        ("STREAM.CREATE", b'{"name":"a","subject":5}', "subject"),
        ("STREAM.CREATE", b"[]", "expected an object"),
        ("STREAM.CREATE", b"[" * 60_000, "recursion"),
        ("STREAM.CREATE", b"\xff", "malformed"),
        ("STREAM.CREATE", b'"' + b"x" * 70_000 + b'"', "65536 bytes"),
        ("STREAM.LIST", b'{"x":1}', "unknown field `x`"),
        ("STREAM.EXPLODE", b"{}", "no operation"),
        ("LEADER.ELECT", b'{"name":"a","partition":0}', "missing field `node`"),
    ],
)
def test_a_malformed_request_is_answered_at_once_and_never_reaches_the_core(
    operation: str, payload: bytes, words: str
) -> None:
    api = Api()
    api.ask(operation, payload)
    assert api.events == []
    ((reply, answer),) = api.answers
    assert reply == b"_INBOX.1"
    body = json.loads(answer)
    assert set(body["error"]) == {"code", "err_code", "description"}
    assert words in body["error"]["description"]
    assert body["liftlog"]["code"] == "invalid"


def test_a_request_reaches_the_core_once_and_its_reply_goes_back_once() -> None:
    api = Api()
    api.ask("STREAM.CREATE", b'{"name":"a","subject":"a.>","replication_factor":3}')
    (event,) = api.events
    assert isinstance(event, ClientRequest)
    assert event.request == CreateStreamRequest(StreamConfig("a", "a.>", replication_factor=3))
    api.clients.reply(event.client, STREAMS)
    api.clients.reply(event.client, STREAMS)
    ((_, answer),) = api.answers
    assert decode_answer(answer, StreamInfoReply) == STREAMS


def test_a_node_answers_on_its_own_subject_too() -> None:
    api = Api()
    api.ask("NODE.2.STREAM.INFO", b'{"name":"a"}')
    (event,) = api.events
    assert isinstance(event, ClientRequest)
    assert event.request == StreamInfoRequest("a")


def test_an_error_reply_becomes_the_client_s_error() -> None:
    api = Api()
    api.ask("STREAM.LIST", b"")
    (event,) = api.events
    assert isinstance(event, ClientRequest)
    api.clients.reply(event.client, ErrorReply("no-leader", "nobody leads", True, 3))
    with pytest.raises(RequestFailed, match="nobody leads") as caught:
        decode_answer(api.answers[0][1], StreamInfoReply)
    assert (caught.value.code, caught.value.retryable, caught.value.leader) == ("no-leader", True, 3)


def test_every_operation_refuses_a_list() -> None:
    for operation in OPERATIONS:
        api = Api()
        api.ask(operation, b"[1]")
        assert "expected an object" in json.loads(api.answers[0][1])["error"]["description"]


def test_a_client_that_left_gets_nothing_and_is_reported_once() -> None:
    registry = ClientRegistry()
    got: list[object] = []
    first, second = registry.register(got.append), registry.register(got.append)
    registry.reply(first, "answer")
    assert registry.forget([first, second]) == [second]
    registry.reply(second, "late")
    assert got == ["answer"]
    assert len(registry) == 0
    assert ClientRef(first) != second


def test_a_cluster_status_shows_the_counters_of_the_ports() -> None:
    registry = ClientRegistry()
    got: list[object] = []
    registry.add_counters(lambda: {"nats.connects": 2})
    registry.reply(registry.register(got.append), ClusterStatusReply(1, 1, 1, 1, [], [], {}))
    (status,) = got
    assert isinstance(status, ClusterStatusReply)
    assert status.counters == {"nats.connects": 2}
