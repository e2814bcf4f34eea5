"""The API: frames survive any cut, JSON names its fields, and malformed requests get a clear answer."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.api import wire
from liftlog.api.clients import ClientRegistry
from liftlog.api.nats_api import OPERATIONS, NatsApi
from liftlog.api.plain import from_plain, to_plain
from liftlog.api.spans import frames, materialize
from liftlog.client.bodies import decode_answer
from liftlog.client.errors import RequestFailed
from liftlog.format import encode_values
from liftlog.messages import (
    ClientRequest,
    ClusterStatusReply,
    CreateStreamRequest,
    ErrorReply,
    Event,
    NodeInfo,
    PartitionInfo,
    ReadReply,
    ReadRequest,
    ReplicaInfo,
    SpannedRead,
    StreamInfo,
    StreamInfoReply,
    StreamInfoRequest,
)
from liftlog.messages.filespan import FileSpan
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
    assert wire.client_call(wire.encode_frame(call)[4:]) == call
    assert wire.client_answer(wire.encode_frame((7, STATUS))[4:]) == wire.ClientAnswer(7, STATUS)


class MemoryFile:
    """A span's file, and whether it was closed."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.closed = False

    def read_at(self, position: int, length: int) -> bytes:
        return self.content[position : position + length]

    def send_to(self, descriptor: int, position: int, length: int) -> int:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


def spanned(content: bytes, *cuts: int) -> tuple[SpannedRead, list[MemoryFile]]:
    """A read whose batches lie in one file for each stretch between two cuts."""
    files = [MemoryFile(b"before" + content + b"after") for _ in cuts[1:]]
    spans = [
        FileSpan(file, 6 + start, end - start, 0, 1)
        for file, (start, end) in zip(files, pairwise(cuts), strict=True)
    ]
    return SpannedRead(ReadReply(PartitionId(5, 0), 2, 1 << 40, 3, 9, [], 4), spans), files


@pytest.mark.parametrize("cuts", [(0, 300), (0, 100, 300), (0, 0, 70000), (0,)])
@pytest.mark.parametrize("number", [1, 1 << 40])
def test_a_frame_with_spans_is_the_frame_of_an_answer_that_holds_their_bytes(
    cuts: tuple[int, ...], number: int
) -> None:
    content = bytes(range(256)) * 300
    read, files = spanned(content, *cuts)
    parts = wire.spanned_frame(number, read)
    data = b"".join(
        one.file.read_at(one.position, one.length) if isinstance(one, FileSpan) else one for one in parts
    )
    (frame,) = [bytes(one) for one in wire.FrameSplitter().feed(data)]
    batches = [content[start:end] for start, end in pairwise(cuts)]
    expected = msgspec.structs.replace(read.reply, batches=batches)
    assert wire.client_answer(frame) == wire.ClientAnswer(number, expected)
    assert not any(file.closed for file in files)


def test_spans_that_are_read_instead_are_cut_into_frames_and_closed() -> None:
    batches = [encode_values(PartitionId(5, 0), offset, 1, 0, [b"x" * offset]).data for offset in range(5)]
    content = b"".join(batches)
    read, files = spanned(content, 0, len(batches[0]), len(content))
    assert materialize(read) == msgspec.structs.replace(read.reply, batches=batches)
    assert all(file.closed for file in files)


@given(st.integers(0, 400), st.integers(0, 255))
def test_cutting_into_frames_loses_no_byte_whatever_the_lengths_say(position: int, value: int) -> None:
    data = bytearray(b"".join(encode_values(PartitionId(5, 0), i, 1, 0, [b"abc"]).data for i in range(5)))
    data[position % len(data)] = value
    assert b"".join(frames(bytes(data))) == data


def test_an_answer_with_spans_for_a_client_that_left_is_closed() -> None:
    registry = ClientRegistry()
    client = registry.register(lambda reply: None)
    registry.forget([client])
    read, files = spanned(b"x" * 100, 0, 100)
    registry.reply(client, read)
    assert [file.closed for file in files] == [True]


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

    def ask(self, operation: str, payload: bytes, headers: bytes = b"") -> None:
        self.api.handle(f"$LIFTLOG.c.API.{operation}".encode(), b"_INBOX.1", headers, payload)

    def told(self, reply: object, headers: bytes = b"") -> dict[str, Any]:
        """The answer to STREAM.INFO, if this is the node's."""
        self.ask("STREAM.INFO", b'{"name":"orders"}', headers)
        asked = self.events.pop()
        assert isinstance(asked, ClientRequest)
        self.clients.reply(asked.client, reply)
        found: dict[str, Any] = json.loads(self.answers.pop()[1])
        return found


@pytest.mark.parametrize(
    ("operation", "payload", "words"),
    [
        ("STREAM.CREATE", b"{nope", "malformed"),
        ("STREAM.CREATE", b"", "missing field `name`"),
        ("STREAM.CREATE", b'{"name":"a","subject":"b","replicas":3}', "unknown field `replicas`"),
        ("STREAM.CREATE", b'{"name":"a","subject":5}', "subject"),
        ("STREAM.CREATE", b"[]", "expected an object"),
        ("STREAM.CREATE", b"[" * 60_000, "nested too deeply"),
        ("STREAM.CREATE", b"\xff", "malformed"),
        ("STREAM.DELETE", b'{"name":"\xff"}', "not JSON"),
        ("STREAM.DELETE", b'{"name":"a b"}', "'a b'"),
        ("STREAM.PURGE", b'{"partition":[%d,0],"before":0}' % (2**70), "partition"),
        ("STREAM.PURGE", b'{"partition":[5,0],"before":%d}' % (2**70), "before"),
        ("STREAM.PURGE", b'{"partition":[5,0],"before":%s}' % (b"9" * 9000), "out of range"),
        ("LEADER.ELECT", b'{"name":"a","partition":-5,"node":1}', "partition"),
        ("LEADER.ELECT", b'{"name":"a","partition":0,"node":%d}' % (2**70), "node"),
        ("CONTROLLER.TRANSFER", b'{"to":-1}', "to"),
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


MOVING = StreamInfoReply(
    [
        StreamInfo(
            5,
            StreamConfig("orders", "orders", paused=True),
            [PartitionInfo(0, 1, 2, 3, [1, 2], [1], [], True, target=[2], adding=[2], dropping=[3])],
        )
    ]
)


def test_u1_who_does_not_say_what_he_reads_is_told_what_release_0_1_0_reads() -> None:
    api = Api()
    (older,) = api.told(MOVING)["streams"]
    assert "paused" not in older["config"]
    assert not {"target", "adding", "dropping"} & older["partitions"][0].keys()
    assert older["partitions"][0]["slow"] == [] and older["revision"] == 0
    for version in (b"3", b" 4 ", b"65000"):
        (newer,) = api.told(MOVING, b"NATS/1.0\r\nliftlog-Protocol:%b\r\n\r\n" % version)["streams"]
        assert newer["config"]["paused"] is True and newer["partitions"][0]["dropping"] == [3]
    assert api.told(MOVING, b"NATS/1.0\r\nLiftlog-Protocol: 2\r\n\r\n")["streams"] == [older]


@pytest.mark.parametrize("version", ["", "1", "-3", "three", "3.0", "123456", "\u0663"])
def test_u1_a_version_that_is_none_is_refused(version: str) -> None:
    api = Api()
    headers = f"NATS/1.0\r\nLiftlog-Protocol: {version}\r\n\r\n".encode()
    api.ask("STREAM.INFO", b'{"name":"orders"}', headers)
    assert not api.events
    assert "is no version from 2 on" in json.loads(api.answers[0][1])["error"]["description"]


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
