"""docs/wire.md is enough to write a client: each example on the page is what the code sends, byte by byte."""

from __future__ import annotations

import ast
import hashlib
import hmac
import inspect
import json
import re
from pathlib import Path

import msgspec
import pytest

from liftlog.api import handshake, wire
from liftlog.api.handshake import CLIENT, CLIENT_NODE, REFUSED_VERSION, VERSIONS, Answerer, Caller, Party
from liftlog.api.nats_api import OPERATIONS, REQUEST_MAX_BYTES, answer_payload, parse_request
from liftlog.api.spans import batches_of
from liftlog.api.tags import FrameSealer
from liftlog.client import client as client_module
from liftlog.client import reader as reader_module
from liftlog.codec import CODECS
from liftlog.config import NetworkLimits
from liftlog.format import decode_records, encode_records
from liftlog.messages import (
    AckPublishes,
    ClientMessage,
    ClientReply,
    ClusterStatusReply,
    ClusterStatusRequest,
    ErrorReply,
    NodeInfo,
    OffsetReply,
    OffsetRequest,
    PartitionInfo,
    ReadReply,
    ReadRequest,
    RefusePublishes,
    SpannedRead,
    StreamInfo,
    StreamInfoReply,
    StreamInfoRequest,
    clients,
)
from liftlog.messages.filespan import FileSpan
from liftlog.options.headers import NOT_HONOURED
from liftlog.parcel import ParcelRecord, seal_parcel
from liftlog.real import door, nats_wire
from liftlog.types import Batch, PartitionId, Record, StreamConfig

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "wire.md").read_text()
BLOCK = re.compile(r"<!-- example: ([\w -]+) -->\n```\w*\n(.*?)```", re.DOTALL)
HEX = re.compile(r"^((?:[0-9a-f]{2})+(?: (?:[0-9a-f]{2})+)*)(?:  |$)")

SECRET = bytes(range(32))
LOG = PartitionId(17, 0)
RECORDS = [
    Record(4, 1_700_000_000_000, b"orders.new", b"", b"", b"a", b"one"),
    Record(5, 1_700_000_000_250, b"orders.new", b"", b"", None, b"two"),
]
PARTITION = PartitionInfo(0, 2, 3, 9, [1, 2, 3], [2, 3], [], True, 2)
STREAMS = StreamInfoReply(
    [StreamInfo(17, StreamConfig("orders", "orders.>", 1, 3, 2), [PARTITION])], 2, True, 40, 120
)
STATUS = ClusterStatusReply(
    2, 3, 5, 120, [NodeInfo(2, True, 31, "10.0.0.2:4701", True, "live")], [], {"network.clients": 1}
)


def blocks() -> dict[str, str]:
    """Every example of the page by its name."""
    found = BLOCK.findall(PAGE)
    assert len({name for name, _ in found}) == len(found)
    return dict(found)


def hex_of(text: str) -> bytes:
    """The bytes that a block shows: at the beginning of each line, before what is said about them."""
    shown = [HEX.match(line) for line in text.splitlines()]
    assert all(shown), text
    return b"".join(bytes.fromhex(found[1]) for found in shown if found is not None)


class Conversation:
    """The handshake of the page, as both sides' machines speak it."""

    def __init__(self) -> None:
        self.caller = Caller(Party("liftlog", CLIENT_NODE, (SECRET,)), CLIENT, 2, b"\x11" * 32)
        answerer = Answerer(Party("liftlog", 2, (SECRET,)), CLIENT, lambda node: True, lambda: b"\x22" * 32)
        self.hello = self.caller.hello()
        self.challenge = answerer.receive(self.hello)
        self.proof = self.caller.receive(self.challenge)
        self.welcome = answerer.receive(self.proof)
        assert self.caller.receive(self.welcome) == b""
        session = self.caller.session
        assert session is not None and answerer.session is not None
        assert session.caller_key == answerer.session.caller_key
        self.session = session


def batch() -> Batch:
    return encode_records(LOG, 3, RECORDS)


class NoFile:
    """Stands for a file of which only the length counts."""

    def read_at(self, position: int, length: int) -> bytes:
        raise NotImplementedError

    def send_to(self, descriptor: int, position: int, length: int) -> int:
        raise NotImplementedError

    def close(self) -> None:
        pass


def spanned() -> bytes:
    """The answer to a read whose batch is sent out of a file."""
    data = batch().data
    reply = ReadReply(LOG, 3, 6, 0, 6, [], 0, 4)
    span = FileSpan(NoFile(), 0, len(data), 4, 6)
    parts = wire.spanned_frame(2, SpannedRead(reply, [span]))
    return b"".join(data if isinstance(part, FileSpan) else part for part in parts)


def in_frame(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def examples() -> dict[str, bytes]:
    talk = Conversation()
    sealer = FrameSealer(talk.session.caller_key)
    read = ReadRequest(LOG, 4, 1 << 20, 500, 3, 6, -1, False)
    first, second = sealer.seal((1, OffsetRequest(LOG, "earliest", 0))), sealer.seal((2, read))
    return {
        "hello": in_frame(talk.hello),
        "challenge": in_frame(talk.challenge),
        "conversation": handshake._conversation(
            2, CLIENT, talk.challenge[1], "liftlog", CLIENT_NODE, 2, b"\x11" * 32, b"\x22" * 32, talk.hello
        ),
        "proof": in_frame(talk.proof),
        "welcome": in_frame(talk.welcome),
        "refused": in_frame(handshake.refusal(handshake.REFUSED_PROOF)),
        "refused version": in_frame(handshake.refusal(REFUSED_VERSION, VERSIONS)),
        "caller key": talk.session.caller_key,
        "first call": first,
        "second call": second,
        "offset answer": wire.encode_frame((1, OffsetReply(LOG, 0, 3))),
        "read answer": wire.encode_frame((2, ReadReply(LOG, 3, 6, 0, 6, [batch().data], 0, 4))),
        "read answer from a file": spanned(),
        "empty answer": wire.encode_frame((2, ReadReply(LOG, 3, 4, 0, 4, []))),
        "error answer": wire.encode_frame(
            (2, ErrorReply("not-leader", "ask the partition's leader", True, 3))
        ),
        "stream request": msgspec.msgpack.encode((3, StreamInfoRequest("orders", False))),
        "stream answer": msgspec.msgpack.encode((3, STREAMS)),
        "status request": msgspec.msgpack.encode((4, ClusterStatusRequest())),
        "status answer": msgspec.msgpack.encode((4, STATUS)),
        "parcel": seal_parcel([ParcelRecord(b"a"), ParcelRecord(b"bc", b"k")]),
    }


def json_examples() -> dict[str, bytes]:
    def ack(full: list[bool] | None) -> bytes:
        acks = AckPublishes(
            partition=LOG, stream="orders", epoch=3, incarnation=31, offsets_from=5, replies=[b"r"], full=full
        )
        return nats_wire.acknowledgements(acks).split(b"\r\n")[1]

    refused = RefusePublishes(
        partition=LOG,
        stream="orders",
        epoch=3,
        code="too-few-in-sync",
        description="1 in sync, 2 needed; try again later",
        replies=[b"r"],
        full=[True],
    )
    refusal = nats_wire.refusals(refused).split(b"\r\n")[1]
    missing = ErrorReply(
        "not-found", "stream 'order' does not exist: create it with 'liftlog stream create'", False
    )
    return {
        "ack": ack(None),
        "full ack": ack([True]),
        "refusal": refusal,
        "stream info": answer_payload(STREAMS),
        "status": answer_payload(STATUS),
        "api error": answer_payload(missing),
    }


def row_cells(beginning: str) -> dict[str, list[str]]:
    """The table under a header line that begins so: the other cells of each row by the first one's name."""
    _, found, rest = PAGE.partition(f"\n| {beginning}")
    assert found, beginning
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return {first.strip("`"): others for first, *others in cells}


def fields(cell: str) -> dict[str, str]:
    """The fields of a message as the page has them, each with its default, empty if it has none."""
    return dict(re.findall(r"`(\w+)`(?: = (\"\"|[\w-]+))?", re.sub(r"\(.*?\)", "", cell)))


def shown(value: object) -> str:
    return json.dumps(value)


def test_every_example_of_bytes_is_what_the_code_sends() -> None:
    page = blocks()
    expected = examples()
    assert {name: hex_of(page[name]).hex() for name in expected} == {
        name: data.hex() for name, data in expected.items()
    }


def test_every_example_of_json_is_what_the_code_sends() -> None:
    page, expected = blocks(), json_examples()
    assert set(page) == set(expected) | set(examples())
    assert {name: json.loads(page[name]) for name in expected} == {
        name: json.loads(data) for name, data in expected.items()
    }
    for name in ("ack", "full ack", "refusal"):
        assert page[name].strip().encode() == expected[name]


def test_the_code_reads_the_examples_back_as_the_page_tells_them() -> None:
    page = {name: hex_of(blocks()[name]) for name in examples()}
    head = 4 + 16 + 8
    call = wire.client_call(page["first call"][head:])
    assert call == wire.ClientCall(1, OffsetRequest(LOG, "earliest"))
    call = wire.client_call(page["second call"][head:])
    assert call.number == 2 and isinstance(call.request, ReadRequest) and call.request.seen_hw == 6
    for name in ("read answer", "read answer from a file"):
        answer = wire.client_answer(page[name][4:])
        assert isinstance(answer.reply, ReadReply)
        batches = list(batches_of(answer.reply, 4))
        assert [record for one in batches for record in decode_records(one)] == RECORDS
    assert wire.client_answer(page["stream answer"]).reply == STREAMS
    assert wire.client_answer(page["status answer"]).reply == STATUS
    answer = wire.client_answer(page["error answer"][4:])
    assert isinstance(answer.reply, ErrorReply) and answer.reply.leader == 3


def test_v6_the_page_s_recipe_makes_the_proofs_the_keys_and_the_tags() -> None:
    """By hand, with nothing of the code's."""
    page = {name: hex_of(blocks()[name]) for name in examples()}

    def derived(label: str) -> bytes:
        assert f"| `{label}` |" in PAGE
        said = bytes([len(SECRET), len(label)]) + label.encode() + page["conversation"]
        return hmac.digest(SECRET, said, hashlib.sha256)

    assert page["proof"][6:] == derived("caller proves")
    assert page["welcome"][5:] == derived("answerer proves")
    assert page["caller key"] == derived("frames of the caller")
    for name in ("first call", "second call"):
        frame = page[name]
        tag = hmac.digest(page["caller key"], frame[20:], hashlib.sha256)[:16]
        assert frame[4:20] == tag and int.from_bytes(frame[:4], "big") + 4 == len(frame)


@pytest.mark.parametrize("union", [ClientMessage, ClientReply])
def test_v1_the_page_has_the_fields_of_every_message_in_their_order(union: object) -> None:
    rows = row_cells("request | fields") | row_cells("reply, and what lies in it | fields")
    kinds = list(union.__args__)  # type: ignore[attr-defined]
    if union is ClientReply:
        kinds += [
            StreamInfo,
            PartitionInfo,
            clients.SlowReplica,
            NodeInfo,
            clients.ReplicaInfo,
            clients.Contact,
        ]
    for kind in kinds:
        assert list(fields(rows[kind.__name__][0])) == list(kind.__struct_fields__), kind
    named = {name for name in rows if name.endswith("Request")}
    assert named == {kind.__name__ for kind in ClientMessage.__args__}


def test_v1_the_page_has_the_defaults_of_every_request() -> None:
    rows = row_cells("request | fields")
    for kind in ClientMessage.__args__:
        stated = {name: default for name, default in fields(rows[kind.__name__][0]).items() if default}
        known = {
            field.name: shown(field.default)
            for field in msgspec.structs.fields(kind)
            if field.default is not msgspec.NODEFAULT
        }
        assert stated == known, kind
    short = msgspec.msgpack.encode((1, ("ReadRequest", LOG, 4)))
    assert wire.client_call(short).request == ReadRequest(LOG, 4)


def test_the_page_has_every_operation_and_the_fields_of_its_request() -> None:
    rows = row_cells("operation | request | answer")
    assert set(rows) == set(OPERATIONS)
    samples: dict[str, object] = {
        "name": "orders",
        "subject": "orders.>",
        "known": True,
        "changes": {"codec": "zstd"},
        "partition": [17, 0],
        "before": 5,
        "offset": 5,
        "node": 2,
        "unclean": False,
        "version": 9,
        "replicas": [1, 2],
        "assignment": 12,
        "to": 2,
        "votes": True,
        "address": "10.0.0.4:4801",
        "drains": True,
        "retires": True,
        "heir": 3,
        "pattern": "orders.*",
        "below": 9,
        "keep": 1,
        "id": 17,
    }
    for operation, (request, _) in rows.items():
        body = {name: samples[name] for name in re.findall(r'"(\w+)"', request)}
        if operation in ("REPLICAS.MOVE", "LEADER.ELECT"):
            body["partition"] = 0
        parse_request(operation, json.dumps(body).encode())


def test_every_error_code_of_the_code_is_on_the_page_and_no_other() -> None:
    codes = {value for name, value in inspect.getmembers(clients) if name.startswith("ERR_")}
    refused = row_cells("code of a refused message | NATS's | outcome | meaning")
    others = row_cells("code | of | retryable | meaning")
    assert set(refused) | set(others) == codes
    for code, (numbers, outcome, _) in refused.items():
        number = nats_wire.ERROR_CODES.get(code, (500, 10077))
        assert numbers == f"{number[0]}, {number[1]}", code
        assert outcome == ("fail" if code in nats_wire.FAILS else "info"), code
    said = PAGE.partition("Over NATS `error.code` is ")[2].partition("\n")[0]
    for code in others:
        number = json.loads(answer_payload(ErrorReply(code, "", False)))["error"]["code"]
        assert re.search(rf"{number} for [^0-9]*`{code}`", said) or (
            number == 503 and f"`{code}`" not in said
        )
    assert "`err_code` is 10000 more" in said


def refusals() -> dict[str, set[bool]]:
    """By code, whether it may be tried again, as far as the core's sources say it in one place."""
    found: dict[str, set[bool]] = {}
    for path in (ROOT / "liftlog" / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(ast.Name("ErrorReply"), [ast.Name(name), _, ast.Constant(bool(again)), *_]) if (
                    name.startswith("ERR_")
                ):
                    found.setdefault(getattr(clients, name), set()).add(again)
    return found


def test_the_page_says_which_errors_may_be_tried_again() -> None:
    rows, found = row_cells("code | of | retryable | meaning"), refusals()
    assert len(found) > 8
    for code, again in found.items():
        said = set(rows[code][1].split("; "))
        assert said == {"yes" if one else "no" for one in again}, code


def test_l4_the_page_names_every_header_that_is_refused() -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| any other `Nats-Expected-*`,")]
    named = {name.removesuffix("*").encode() for name in re.findall(r"`([\w*-]+)`", row)}
    assert named == {name for name, _, _ in NOT_HONOURED}


def test_l3_the_limits_and_times_on_the_page_are_those_of_the_code() -> None:
    assert (wire.READ_MAX_BYTES, wire.READ_WAIT_MAX_MS) == (16777216, 60000)
    for number in (
        wire.READ_MAX_BYTES,
        wire.READ_WAIT_MAX_MS,
        wire.CALL_MAX_BYTES,
        wire.FRAME_MAX_BYTES,
        handshake.FRAME_MAX_BYTES,
        REQUEST_MAX_BYTES,
        door.REQUESTS_MAX,
        door.PULLS_MAX,
        NetworkLimits().client_connections_max,
        NetworkLimits().client_idle_ms,
        NetworkLimits().handshake_ms,
        client_module.CONNECT_TIMEOUT_MS,
        client_module.REQUEST_TIMEOUT_MS,
        int(1000 * reader_module.ATTEMPT_TIMEOUT_S),
        int(1000 * reader_module.RETRY_PAUSE_S),
    ):
        assert re.search(rf"(?<![\d.]){number}(?![\d.]\d)", PAGE), number
    assert f"**{VERSIONS[0]} and {VERSIONS[1]}**" in PAGE
    for reason in handshake.REASONS:
        assert str(reason) in row_cells("reason | meaning | try again")
    assert CODECS == ("none", "zstd", "lz4"), "a new codec belongs into docs/log-format.md and examples/go"
