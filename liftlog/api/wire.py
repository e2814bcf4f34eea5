"""Frames of the TCP protocol, without IO. Nodes and clients have ports of their own and frame alike.

    frame  =  u32 length (big endian, of what follows)  |  what follows

A connection begins with a handshake, in which both sides prove who they are (`liftlog/api/handshake.py`).
What the caller sends after it carries a tag and a number (`liftlog/api/tags.py`) before the msgpack. A node
sends peer messages; it never gets an answer on the connection it opened (the other node opens one of its
own). A client sends `ClientCall`s; each is answered by one `ClientAnswer` with the same number, in any order,
and without a tag: batches travel as the bytes that lie on disk, and `spanned_frame` writes the msgpack around
them, so that a file can be sent in the middle of a frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct as Layout

import msgspec

from liftlog.messages import (
    AlterConsumerRequest,
    AlterStreamRequest,
    ClientMessage,
    ClientReply,
    ConsumersRequest,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DeleteMessageRequest,
    DeleteStreamRequest,
    ElectLeaderRequest,
    FilteredReadRequest,
    MoveReplicasRequest,
    PullRequest,
    PurgeSubjectsRequest,
    ReadRequest,
    ResetConsumerRequest,
    SettleRequest,
    SpannedRead,
    StreamInfoRequest,
    SubjectRequest,
    UnpinRequest,
    VisibleReadRequest,
    intake,
)
from liftlog.messages.filespan import FileSpan
from liftlog.types import Handle

FRAME_MAX_BYTES = 64 * 1024 * 1024
"""Far above what any bound in the configuration lets grow; larger means that the peer speaks something
else."""
CALL_MAX_BYTES = 64 * 1024
"""No frame of a client is longer: requests carry names and numbers, never records."""
READ_MAX_BYTES = 16 * 1024 * 1024
READ_WAIT_MAX_MS = 60_000

_LENGTH = Layout(">I")


class WireError(intake.InputRefused):
    """The other side does not speak this protocol, or not for this cluster."""


class ClientCall(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A client's request. `number` is the client's own and comes back with the answer."""

    number: Handle
    request: ClientMessage


class ClientAnswer(msgspec.Struct, frozen=True, array_like=True):
    """Answer to the `ClientCall` with the same number."""

    number: Handle
    reply: ClientReply


_encoder = msgspec.msgpack.Encoder()
_call_decoder = msgspec.msgpack.Decoder(ClientCall)
_answer_decoder = msgspec.msgpack.Decoder(ClientAnswer)


def client_call(frame: bytes | memoryview) -> ClientCall:
    """V1: a client's call. Raises InputRefused."""
    return intake.decode(_call_decoder, frame, "a client's call")


def client_answer(frame: bytes | memoryview) -> ClientAnswer:
    """V1: a node's answer to a call. Raises InputRefused."""
    return intake.decode(_answer_decoder, frame, "a node's answer")


def encode_frame(message: object) -> bytes:
    """One whole frame."""
    frame = bytearray(4)
    _encoder.encode_into(message, frame, 4)
    _LENGTH.pack_into(frame, 0, len(frame) - 4)
    return bytes(frame)


def answer_frames(numbers: Sequence[int], reply: object) -> bytes:
    """The frames of `ClientAnswer`s that say the same to these calls."""
    encode, pack = _encoder.encode, _LENGTH.pack
    said = encode(reply)
    heads = [b"\x92" + encode(number) for number in numbers]
    return b"".join([pack(len(head) + len(said)) + head + said for head in heads])


_BIN32 = Layout(">BI")
_ARRAY16 = Layout(">BH")


def spanned_frame(number: int, read: SpannedRead) -> list[bytes | FileSpan]:
    """The frame of a `ClientAnswer` whose batches lie in files: bytes, and between them what files hold.

    To the receiver it is the frame of an answer that has the spans' bytes as its `batches`.
    """
    pieces = [bytearray(b"\x92") + _encoder.encode(number)]
    fields = read.reply.__struct_fields__
    pieces[0] += _ARRAY16.pack(0xDC, 1 + len(fields)) + _encoder.encode(type(read.reply).__name__)
    for field in fields:
        if field != "batches":
            pieces[-1] += _encoder.encode(getattr(read.reply, field))
            continue
        pieces[-1] += _ARRAY16.pack(0xDC, len(read.spans))
        for span in read.spans:
            pieces[-1] += _BIN32.pack(0xC6, span.length)
            pieces.append(bytearray())
    length = sum(map(len, pieces)) + sum(span.length for span in read.spans)
    parts: list[bytes | FileSpan] = [_LENGTH.pack(length) + pieces[0]]
    for span, piece in zip(read.spans, pieces[1:], strict=True):
        parts += (span, bytes(piece))
    return parts


class FrameSplitter:
    """Cuts a byte stream into frames; keeps an incomplete end for the next time."""

    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit: int = FRAME_MAX_BYTES) -> None:
        """`limit`: no frame is longer."""
        self._buffer = bytearray()
        self._limit = limit

    @property
    def buffered(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray) -> Iterator[memoryview]:
        """Yield the frames that are complete, without their length; each is valid until the next one is
        taken.

        Raises `WireError` at a length that no frame can have. The iterator must be run to its end.
        """
        buffer = self._buffer
        buffer += data
        view = memoryview(buffer)
        position, total = 0, len(buffer)
        try:
            while total - position >= 4:
                (length,) = _LENGTH.unpack_from(buffer, position)
                if length > self._limit:
                    raise WireError(f"a frame of {length} bytes: not a liftlog peer, or a damaged stream")
                end = position + 4 + length
                if end > total:
                    break
                with view[position + 4 : end] as frame:
                    yield frame
                position = end
        finally:
            view.release()
        del buffer[:position]


REQUEST_SINCE: Mapping[type[object], int] = {
    SubjectRequest: 3,
    DeleteMessageRequest: 3,
    PurgeSubjectsRequest: 3,
    VisibleReadRequest: 3,
    FilteredReadRequest: 3,
    CreateConsumerRequest: 3,
    AlterConsumerRequest: 3,
    DeleteConsumerRequest: 3,
    ResetConsumerRequest: 3,
    ConsumersRequest: 3,
    PullRequest: 3,
    SettleRequest: 3,
    UnpinRequest: 3,
}
"""U1: with which version of the protocol requests came that were not there before. Who speaks an earlier one
does not know them, and hangs up.
"""
NAMING = (
    AlterStreamRequest,
    DeleteStreamRequest,
    ElectLeaderRequest,
    MoveReplicasRequest,
    StreamInfoRequest,
)
"""Requests that name a stream."""


def request_problem(request: ClientMessage) -> str:
    """Which limit a request breaks (L3), or what in it cannot be a name (V1); empty if nothing."""
    if isinstance(request, NAMING):
        if request.name or not isinstance(request, StreamInfoRequest):
            return intake.name_problem(request.name)
    elif isinstance(request, ReadRequest):
        if not 0 < request.max_bytes <= READ_MAX_BYTES:
            return f"max_bytes is {request.max_bytes}; accepted: 1 to {READ_MAX_BYTES}"
        if not 0 <= request.wait_ms <= READ_WAIT_MAX_MS:
            return f"wait_ms is {request.wait_ms}; accepted: 0 to {READ_WAIT_MAX_MS}"
    elif isinstance(request, PullRequest) and request.wait_ms > READ_WAIT_MAX_MS:
        return f"wait_ms is {request.wait_ms}; accepted: 0 to {READ_WAIT_MAX_MS}"
    return ""
