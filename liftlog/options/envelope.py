r"""Liftbridge's envelope: what a publisher puts around a message for NATS, and around an ack for him (L1).

    B9 0E 43 B4 | version 0 | where the message begins | flags | type | [CRC-32C of the message] | message

All numbers are big-endian; the CRC is there if bit 0 of the flags is set, and then the message begins at 12.
The message is protobuf: Liftbridge's `Message` (type 0, a publish) or its `Ack` (type 1). Fields that we
write come in the order of their numbers, and those that are empty are left out, as Go's encoder does it.

A payload that begins with these four bytes and cannot be taken apart is a message like any other: so the
seeds of this project have it, and so does Liftbridge. That covers other versions and types, a header that
ends behind the payload (on which Liftbridge's server dies), and what is no `Message`. One that has a checksum
which is wrong was an envelope once; it is told apart, and refused.

The codec is total: any bytes give an `Envelope` or None, in time that grows with their length.
"""

from __future__ import annotations

from typing import NamedTuple

from google_crc32c import value as crc32c

from liftlog.options.protobuf import (
    LENGTH,
    VARINT,
    Malformed,
    bytes_field,
    fields_of,
    number_field,
    part_field,
    signed,
)

COOKIE = b"\xb9\x0e\x43\xb4"
VERSION = 0
PUBLISH, ACK = 0, 1
HAS_CRC = 1
HEAD_BYTES, CRC_BYTES = 8, 4
ANY_OFFSET = -1
"""An expected offset that expects nothing. Nor does 0, which is what a field says that is not there."""
OK, UNKNOWN, INCORRECT_OFFSET, TOO_LARGE, ENCRYPTION = range(5)
"""Liftbridge's errors of an ack."""


class Envelope(NamedTuple):
    """Liftbridge's `Message`, as a publisher fills it. `policy`: 0 = leader, 1 = all, 2 = none.

    `damaged`: its checksum is wrong, so that nothing else in it counts. `unknown`: numbers of fields that
    this release does not know.
    """

    offset: int = 0
    key: bytes = b""
    value: bytes = b""
    timestamp: int = 0
    stream: str = ""
    partition: int = 0
    subject: str = ""
    reply_subject: str = ""
    headers: tuple[tuple[str, bytes], ...] = ()
    ack_inbox: str = ""
    correlation_id: str = ""
    policy: int = 0
    damaged: bool = False
    unknown: tuple[int, ...] = ()


class EnvelopeAck(NamedTuple):
    """Liftbridge's `Ack`. Times are Unix nanoseconds."""

    stream: str = ""
    partition_subject: str = ""
    msg_subject: str = ""
    offset: int = 0
    ack_inbox: str = ""
    correlation_id: str = ""
    policy: int = 0
    reception_timestamp: int = 0
    commit_timestamp: int = 0
    error: int = OK


_NUMBERS = {1: "offset", 4: "timestamp", 6: "partition", 12: "policy"}
_BYTES = {2: "key", 3: "value"}
_TEXTS = {5: "stream", 7: "subject", 8: "reply_subject", 10: "ack_inbox", 11: "correlation_id"}
_HEADERS = 9
_ACK_NUMBERS = {4: "offset", 7: "policy", 8: "reception_timestamp", 9: "commit_timestamp", 10: "error"}
_ACK_TEXTS = {
    1: "stream", 2: "partition_subject", 3: "msg_subject", 5: "ack_inbox", 6: "correlation_id"
}  # fmt: skip


def open_envelope(payload: bytes) -> Envelope | None:
    """What a publisher has put into an envelope; None: this is a message like any other."""
    opened = _contents(payload, PUBLISH)
    if opened is None:
        return None
    contents, damaged = opened
    try:
        return _message(contents)._replace(damaged=damaged)
    except Malformed:
        return Envelope(damaged=True) if damaged else None


def open_ack(payload: bytes) -> EnvelopeAck | None:
    """The ack in an envelope; None if this is none, or damaged."""
    opened = _contents(payload, ACK)
    if opened is None or opened[1]:
        return None
    found: dict[str, int | str] = {}
    try:
        for number, kind, value in fields_of(opened[0]):
            if number in _ACK_NUMBERS:
                found[_ACK_NUMBERS[number]] = _number(kind, value)
            elif number in _ACK_TEXTS:
                found[_ACK_TEXTS[number]] = _text(kind, value)
    except Malformed:
        return None
    return EnvelopeAck(**found)  # type: ignore[arg-type]


def _contents(payload: bytes, wanted: int) -> tuple[bytes, bool] | None:
    """The protobuf message of an envelope of this type, and whether its checksum is wrong."""
    if len(payload) < HEAD_BYTES or payload[:4] != COOKIE:
        return None
    version, begin, flags, kind = payload[4:HEAD_BYTES]
    if version != VERSION or kind != wanted or flags & ~HAS_CRC or not HEAD_BYTES <= begin <= len(payload):
        return None
    contents = payload[begin:]
    if not flags:
        return contents, False
    if begin != HEAD_BYTES + CRC_BYTES:
        return None
    return contents, int.from_bytes(payload[HEAD_BYTES:begin], "big") != crc32c(contents)


def _message(contents: bytes) -> Envelope:
    found: dict[str, int | bytes | str] = {}
    headers: dict[str, bytes] = {}
    unknown: list[int] = []
    for number, kind, value in fields_of(contents):
        if number in _NUMBERS:
            found[_NUMBERS[number]] = _number(kind, value)
        elif number in _BYTES:
            found[_BYTES[number]] = _bytes(kind, value)
        elif number in _TEXTS:
            found[_TEXTS[number]] = _text(kind, value)
        elif number == _HEADERS:
            name, content = _header(_bytes(kind, value))
            headers[name] = content
        else:
            unknown.append(number)
    return Envelope(**found, headers=tuple(headers.items()), unknown=tuple(unknown))  # type: ignore[arg-type]


def _header(entry: bytes) -> tuple[str, bytes]:
    """One entry of the map of headers."""
    name, content = "", b""
    for number, kind, value in fields_of(entry):
        if number == 1:
            name = _text(kind, value)
        elif number == 2:
            content = _bytes(kind, value)
    return name, content


def _number(kind: int, value: int | bytes) -> int:
    if kind != VARINT or not isinstance(value, int):
        raise Malformed("no number where one is due")
    return signed(value)


def _bytes(kind: int, value: int | bytes) -> bytes:
    if kind != LENGTH or not isinstance(value, bytes):
        raise Malformed("no bytes where some are due")
    return value


def _text(kind: int, value: int | bytes) -> str:
    try:
        return _bytes(kind, value).decode()
    except UnicodeDecodeError:
        raise Malformed("a text that is not UTF-8") from None


# -- writing ----------------------------------------------------------------------------------------------


def seal(message: Envelope, checksum: bool = False) -> bytes:
    """The payload of a message in an envelope, as Liftbridge's Go client makes it."""
    headers = (part_field(1, name.encode()) + part_field(2, value) for name, value in message.headers)
    return _around(
        PUBLISH,
        number_field(1, message.offset)
        + bytes_field(2, message.key)
        + bytes_field(3, message.value)
        + number_field(4, message.timestamp)
        + bytes_field(5, message.stream.encode())
        + number_field(6, message.partition)
        + bytes_field(7, message.subject.encode())
        + bytes_field(8, message.reply_subject.encode())
        + b"".join(part_field(_HEADERS, entry) for entry in headers)
        + bytes_field(10, message.ack_inbox.encode())
        + bytes_field(11, message.correlation_id.encode())
        + number_field(12, message.policy),
        checksum,
    )


def seal_ack(ack: EnvelopeAck) -> bytes:
    """The payload of an ack in an envelope, as Liftbridge's server makes it: without a checksum."""
    return _around(
        ACK,
        bytes_field(1, ack.stream.encode())
        + bytes_field(2, ack.partition_subject.encode())
        + bytes_field(3, ack.msg_subject.encode())
        + number_field(4, ack.offset)
        + bytes_field(5, ack.ack_inbox.encode())
        + bytes_field(6, ack.correlation_id.encode())
        + number_field(7, ack.policy)
        + number_field(8, ack.reception_timestamp)
        + number_field(9, ack.commit_timestamp)
        + number_field(10, ack.error),
        False,
    )


def _around(kind: int, contents: bytes, checksum: bool) -> bytes:
    if not checksum:
        return COOKIE + bytes((VERSION, HEAD_BYTES, 0, kind)) + contents
    head = COOKIE + bytes((VERSION, HEAD_BYTES + CRC_BYTES, HAS_CRC, kind))
    crc: int = crc32c(contents)
    return head + crc.to_bytes(CRC_BYTES, "big") + contents
