"""Every parser that faces a network, and `Node.step`, against what is drawn, mutated or nested (V1 to V5).

A *target* takes bytes and may do two things with them: accept, or refuse with the exception that is there
for it. Anything else is a finding, and so is memory that grows. Inputs are good ones of the target's own, of
which most are mutated (`faults/lies.py`): flipped, cut, doubled, spliced, nested. Each input follows
from (seed, target, number), so that a finding is replayed by its number alone.

This knows nothing of the branches that it has reached: it is quick instead. The same targets run under
hypothesis (`tests/sim/test_fuzzing.py`), which looks for the shortest input, and under atheris, which is led
by coverage (`fuzz/guided.py`).
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
from google_crc32c import value as crc32c

from liftlog.api import nats_api, wire
from liftlog.api.handshake import NONCE_BYTES, PEER, Answerer, Caller, HandshakeError, Party
from liftlog.api.tags import FrameOpener, FrameSealer
from liftlog.client.bodies import decode_answer
from liftlog.client.publisher import result_of
from liftlog.codec import CODECS
from liftlog.core.guards import Guards
from liftlog.core.metadata.commands import Command, author, decode_command
from liftlog.core.replica.publishing.parcels import open_parcel, stored
from liftlog.format import CorruptBatch, decode_records, encode_messages, parse_batch
from liftlog.messages import (
    ClientMessage,
    ClientReply,
    PeerMessage,
    StreamInfo,
    StreamInfoReply,
    intake,
)
from liftlog.options.envelope import Envelope, EnvelopeAck, open_ack, seal, seal_ack
from liftlog.options.reading import wishes_of
from liftlog.parcel import Parcel, ParcelRecord, seal_parcel
from liftlog.real.nats_parser import NatsParser, ProtocolError
from liftlog.types import LiftlogError, Message, PartitionId, StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.faults import lies
from liftlog_sim.fuzz.drawing import Drawer, encoded
from liftlog_sim.fuzz.node import EPISODE_STEPS, Episode

GROWTH_MAX_BYTES = 256 * 1024 * 1024
"""By how much the process may grow over a run: a claim of four billion items must not be believed."""
NODE_SHARE = 10
"""One input in so many goes to the node, whose steps cost more than bytes do."""
KEY = bytes(32)
LOG = PartitionId(5, 0)
PARCEL_BYTES = 1 << 16
NUMBERS = [0, 1, 2, 3, 7, 100, 1 << 31, 1 << 53]

Refusals = tuple[type[Exception], ...]


class FuzzTarget(NamedTuple):
    """`take` gets one input and raises one of `refusals`, or nothing. `good` draws inputs that it accepts."""

    name: str
    take: Callable[[bytes], object]
    refusals: Refusals
    good: Callable[[Draws], bytes]


class FuzzFinding(NamedTuple):
    """An input that did something else. `data` is empty for the node, whose inputs are whole episodes."""

    target: str
    number: int
    error: str
    data: bytes


class FuzzReport(msgspec.Struct, kw_only=True):
    """What a run did. `refused` of the `inputs` of each target were turned away with a reason."""

    inputs: dict[str, int]
    refused: dict[str, int]
    finding: FuzzFinding | None = None
    grown_bytes: int = 0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return self.finding is None and self.grown_bytes <= GROWTH_MAX_BYTES


# -- targets ----------------------------------------------------------------------------------------------


def _nats(data: bytes) -> None:
    parser = NatsParser()
    middle = len(data) // 2
    parser.feed(data[:middle])
    parser.feed(data[middle:])


def _good_nats(draws: Draws) -> bytes:
    block = _good_headers(draws)
    body = draws.randbytes(draws.randrange(20))
    lines = (
        b"MSG orders 7 _INBOX.x %d\r\n%b\r\n" % (len(body), body),
        b"MSG orders 7 %d\r\n%b\r\n" % (len(body), body),
        b"HMSG orders 7 r %d %d\r\n%b\r\n" % (len(block), len(block + body), block + body),
        b"PING\r\n",
        b"-ERR 'Permissions Violation for Subscription to \"orders\"'\r\n",
        b'INFO {"server_id":"x","max_payload":1048576}\r\n',
    )
    return b"".join(draws.choice(lines) for _ in range(draws.randrange(1, 5)))


def _headers(data: bytes) -> None:
    wishes_of(Message(b"orders", b"r", data, b"value"), "orders")


def _good_headers(draws: Draws) -> bytes:
    lines = (
        b"Liftlog-Key: a",
        b"Liftlog-Tombstone: 1",
        b"Liftlog-Ack: full",
        b"Liftlog-Ack-Policy: leader",
        b"Nats-Msg-Id: 7",
        b"Nats-Expected-Stream: orders",
        b"Nats-Expected-Last-Sequence: 9",
        b"Nats-Expected-Last-Subject-Sequence: 9",
        b"Nats-Expected-Last-Subject-Sequence-Subject: orders",
        b"Liftlog-Expected-Last-Subject-Offset: none",
        b"Nats-TTL: 5s",
        b"Liftlog-Batch: 1",
        b"Other:  x",
    )
    chosen = [draws.choice(lines) for _ in range(draws.randrange(4))]
    return b"\r\n".join([b"NATS/1.0", *chosen, b"", b""])


def _envelope(data: bytes) -> None:
    wishes_of(Message(b"orders", b"r", b"", data), "orders")
    open_ack(data)


def _good_envelope(draws: Draws) -> bytes:
    texts = ("", "a", "_INBOX.x", "orders", "\u00e4" * 3)
    headers = tuple((draws.choice(texts), draws.randbytes(2)) for _ in range(draws.randrange(3)))
    envelope = Envelope(
        offset=draws.choice((-1, 0, 1, 1 << 40)),
        key=draws.randbytes(draws.randrange(4)),
        value=draws.randbytes(draws.randrange(40)),
        stream=draws.choice(texts),
        headers=headers,
        ack_inbox=draws.choice(texts),
        correlation_id=draws.choice(texts),
        policy=draws.randrange(4),
    )
    if draws.random() < 0.2:
        return seal_ack(EnvelopeAck(draws.choice(texts), offset=draws.randrange(1 << 20)))
    return seal(envelope, checksum=draws.random() < 0.5)


def _door() -> Answerer:
    return Answerer(Party("c", 1, (KEY,)), PEER, lambda node: node == 2, lambda: bytes(NONCE_BYTES))


def _caller() -> Caller:
    return Caller(Party("c", 2, (KEY,)), PEER, 1, bytes(NONCE_BYTES))


def _handshake(data: bytes) -> None:
    """The first half is the hello, the second the proof; the answerer's words go to a caller as well."""
    hello = _caller().hello()
    door = _door()
    challenge = door.receive(data[: len(hello)])
    door.receive(data[len(hello) :])
    caller = _caller()
    caller.receive(challenge)


def _answers(data: bytes) -> None:
    caller = _caller()
    end = len(_door().receive(caller.hello()))
    caller.receive(data[:end])
    caller.receive(data[end:])


def _good_handshake(draws: Draws) -> bytes:
    caller = _caller()
    hello = caller.hello()
    return hello + caller.receive(_door().receive(hello))


def _good_answers(draws: Draws) -> bytes:
    caller, door = _caller(), _door()
    challenge = door.receive(caller.hello())
    return challenge + door.receive(caller.receive(challenge))


def _frames(data: bytes) -> None:
    opener = FrameOpener(KEY)
    for frame in wire.FrameSplitter().feed(data):
        with opener.open(frame) as message:
            if len(message):
                intake.peer_message(message)


def _good_frames(draws: Draws) -> bytes:
    sealer = FrameSealer(KEY)
    return b"".join(sealer.seal(_messages.draw(draws)) for _ in range(draws.randrange(1, 4)))


def _peer_message(data: bytes) -> None:
    message = intake.peer_message(data)
    intake.names_another(2, message)
    intake.contradiction(message)


def _client_call(data: bytes) -> None:
    wire.request_problem(wire.client_call(data).request)


def _good_call(draws: Draws) -> bytes:
    return _encode((draws.randrange(9), _requests.draw(draws)))


def _good_answer(draws: Draws) -> bytes:
    return _encode((draws.randrange(9), _replies.draw(draws)))


def _api(data: bytes) -> None:
    operation, _, payload = data.partition(b" ")
    nats_api.parse_request(operation.decode("utf-8", "replace"), payload)


def _good_api(draws: Draws) -> bytes:
    bodies = {
        "STREAM.CREATE": {"name": "orders", "subject": "orders.>", "partitions": 3, "ack_reply": True},
        "STREAM.ALTER": {"name": "orders", "changes": {"retention_ms": 7, "read_only": True}},
        "STREAM.INFO": {"name": "orders"},
        "STREAM.DELETE": {"name": "orders"},
        "STREAM.PURGE": {"partition": [5, 0], "before": 7},
        "MESSAGE.DELETE": {"partition": [5, 0], "offset": 7},
        "MESSAGES.PURGE": {"partition": [5, 0], "pattern": "s.*", "below": 7, "keep": 1},
        "LEADER.ELECT": {"name": "orders", "partition": 0, "node": 2, "unclean": False},
        "REPLICAS.MOVE": {"name": "orders", "partition": 0, "replicas": [3, 1, 2]},
        "NODE.ADD": {"node": 4, "address": "10.0.0.4:4801"},
        "NODE.DRAIN": {"node": 4, "drains": True},
        "NODE.REMOVE": {"node": 4},
        "NODE.RETIRE": {"node": 4, "retires": True, "heir": 5},
        "CONTROLLER.TRANSFER": {"to": 2},
        "CONTROLLER.VOTER": {"node": 2, "votes": False},
    }
    operation = draws.choice([*nats_api.OPERATIONS])
    return operation.encode() + b" " + msgspec.json.encode(bodies.get(operation, {}))


def _api_answer(data: bytes) -> None:
    decode_answer(data, StreamInfoReply)


def _good_api_answer(draws: Draws) -> bytes:
    info = StreamInfo(5, StreamConfig("orders", "orders.>", 3), [])
    return nats_api.answer_payload(draws.choice((StreamInfoReply([info]), StreamInfoReply([]))))


class _Ack(NamedTuple):
    """What an ack is read from."""

    data: bytes
    headers: None = None


def _ack(data: bytes) -> None:
    result_of(1, _Ack(data))  # type: ignore[arg-type]


def _good_ack(draws: Draws) -> bytes:
    full = {"stream": "orders", "seq": 8, "offset": 7, "partition": 0, "epoch": 1, "incarnation": 4}
    error = {"error": {"code": 503, "err_code": 10008, "description": "x"}, "liftlog": {"outcome": "info"}}
    return msgspec.json.encode(draws.choice((full, error)))


def _command(data: bytes) -> None:
    author(decode_command(data))


def _batch(data: bytes) -> None:
    parse_batch(LOG, data)


def _good_batch(draws: Draws) -> bytes:
    values = [Message(b"s", b"", b"", draws.randbytes(9)) for _ in range(draws.randrange(1, 4))]
    return encode_messages(LOG, draws.randrange(9), 1, 1, values).data


def _parcel(data: bytes) -> None:
    """As it came, and once more with the checksum that fits, for all that lies behind that. What is accepted
    can be read again.
    """
    resealed = data[:4] + crc32c(data[8:]).to_bytes(4, "little") + data[8:]
    for payload in (data, resealed):
        message = Message(b"orders", b"", b"", payload)
        parcel = open_parcel(Guards().decides, StreamConfig("orders", "orders"), 0, message, PARCEL_BYTES)
        if isinstance(parcel, Parcel):
            found = len(decode_records(stored(LOG, 7, 1, 9, parcel, CODECS[len(payload) % len(CODECS)])))
            if found != parcel.records:
                raise RuntimeError(f"{parcel.records} records were accepted, {found} are stored")


def _good_parcel(draws: Draws) -> bytes:
    records = [
        ParcelRecord(
            draws.randbytes(draws.randrange(20)),
            draws.choice((None, b"", b"k")),
            draws.choice((b"", b"NATS/1.0\r\nKind: a\r\n\r\n", b"NATS/1.0\r\nNats-TTL: 1\r\n\r\n")),
            draws.choice((b"", b"orders", b"orders", b"payments")),
        )
        for _ in range(draws.randrange(1, 6))
    ]
    return seal_parcel(records, draws.choice(CODECS))


_encode = msgspec.msgpack.Encoder().encode
_commands = Drawer(Command, NUMBERS)
_messages = Drawer(PeerMessage, NUMBERS, (encoded(_commands), _good_batch))
_requests = Drawer(ClientMessage, NUMBERS)
_replies = Drawer(ClientReply, NUMBERS)
_refused = (intake.InputRefused,)

TARGETS = (
    FuzzTarget("nats", _nats, (ProtocolError,), _good_nats),
    FuzzTarget("headers", _headers, (), _good_headers),
    FuzzTarget("envelope", _envelope, (), _good_envelope),
    FuzzTarget("handshake", _handshake, (HandshakeError,), _good_handshake),
    FuzzTarget("answers", _answers, (HandshakeError,), _good_answers),
    FuzzTarget("frames", _frames, _refused, _good_frames),
    FuzzTarget("peer-message", _peer_message, _refused, encoded(_messages)),
    FuzzTarget("client-call", _client_call, _refused, _good_call),
    FuzzTarget("client-answer", wire.client_answer, _refused, _good_answer),
    FuzzTarget("api", _api, _refused, _good_api),
    FuzzTarget("api-answer", _api_answer, (LiftlogError,), _good_api_answer),
    FuzzTarget("ack", _ack, (), _good_ack),
    FuzzTarget("command", _command, _refused, encoded(_commands)),
    FuzzTarget("parcel", _parcel, (), _good_parcel),
    FuzzTarget("batch", _batch, (CorruptBatch, LiftlogError), _good_batch),
)
NODE = "node"
NAMES = (*(target.name for target in TARGETS), NODE)


def target_named(name: str) -> FuzzTarget:
    """Raises LiftlogError for a name that there is not."""
    for target in TARGETS:
        if target.name == name:
            return target
    raise LiftlogError(f"there is no target '{name}'; choose from {', '.join(NAMES)}")


# -- running ----------------------------------------------------------------------------------------------


def input_of(target: FuzzTarget, seed: int, number: int) -> bytes:
    """Input `number` of a run: mostly a good one, mutated up to three times."""
    draws = Draws(seed, target.name, number)
    data = target.good(draws)
    for _ in range(draws.choice((0, 1, 1, 1, 2, 3))):
        data = lies.mutated(data, draws)
    return data


def tried(target: FuzzTarget, data: bytes) -> tuple[bool, str]:
    """(refused, what else happened): the one place that says what a target may do."""
    try:
        target.take(data)
    except target.refusals:
        return True, ""
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"
    return False, ""


def run(names: Iterable[str], seed: int, inputs: int, first: int = 0) -> FuzzReport:
    """Give each target its share of `inputs`, from input `first` on; stops at the first finding."""
    started, peak = time.process_time(), _peak_bytes()
    chosen = list(names)
    report = FuzzReport(inputs=dict.fromkeys(chosen, 0), refused=dict.fromkeys(chosen, 0))
    for_node = max(1, inputs // NODE_SHARE) if NODE in chosen and len(chosen) > 1 else inputs
    parsers = [target_named(name) for name in chosen if name != NODE]
    share = -(-(inputs - (for_node if NODE in chosen else 0)) // max(1, len(parsers)))
    for target in parsers:
        for number in range(first, first + share):
            data = input_of(target, seed, number)
            refused, error = tried(target, data)
            report.inputs[target.name] += 1
            report.refused[target.name] += refused
            if error:
                report.finding = FuzzFinding(target.name, number, error, data)
                break
    if NODE in chosen and report.finding is None:
        _run_node(report, seed, for_node, first)
    report.grown_bytes = _peak_bytes() - peak
    report.seconds = time.process_time() - started
    return report


def _run_node(report: FuzzReport, seed: int, inputs: int, first: int) -> None:
    for number in range(first, first + -(-inputs // EPISODE_STEPS)):
        episode = Episode(f"{seed}/{NODE}/{number}")
        try:
            report.inputs[NODE] += episode.run()
        except Exception as error:
            report.finding = FuzzFinding(NODE, number, f"{type(error).__name__}: {error}", b"")
            return
        report.refused[NODE] += episode.node.ctx.refused


def _peak_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
