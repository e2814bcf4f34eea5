"""The wishes of messages, from their headers and from Liftbridge's envelope (L1, L4, R4).

Who uses an envelope says there what he wants: where the ack goes, when, under which correlation id. The reply
subject of the NATS message is left to whatever service it belongs to, and headers of ours are refused beside
it: of two words about one thing one would have to be ignored. What is stored is what was in it: key and
value, and its headers as lines behind the message's own.

An envelope expects an offset if it names one (L6). It asks for what is not done here if it has a field that
this release does not know. Fields that only a server fills (time, stream, partition, subject, reply subject)
are compared, where that is possible: who says them relies on them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter

from liftlog.messages import (
    ERR_ENVELOPE,
    ERR_ENVELOPE_DAMAGED,
    ERR_WRONG_STREAM,
)
from liftlog.options import headers
from liftlog.options.envelope import ANY_OFFSET, COOKIE, Envelope, open_envelope
from liftlog.options.wishes import (
    ALL,
    LEADER,
    NO_TERMS,
    NO_WISHES,
    NONE,
    POLICY_NAMES,
    Refusal,
    Terms,
    Wishes,
)
from liftlog.types import Message

CORRELATION_BYTES_MAX = 1024
INBOX_BYTES_MAX = 1024
"""An ack repeats both, and must fit what a NATS server takes: one that it refuses ends our connection."""

FULL_ACK = b"NATS/1.0\r\nLiftlog-Ack: full\r\n\r\n"
"""The header block of a message that only asks for the full ack."""
NOT_COUNTED = frozenset(
    (FULL_ACK, *(FULL_ACK[:-2] + b"Liftlog-Ack-Policy: %b\r\n\r\n" % name.encode() for name in POLICY_NAMES))
)
"""Header blocks that say no more than how to answer."""

_INBOX = re.compile(r"[^\s.*>\x00-\x20\x7f]+(?:\.[^\s.*>\x00-\x20\x7f]+)*")
_HEADER_NAME = re.compile(r"[!-9;-~]+")
_headers_of, _value_of = itemgetter(2), itemgetter(3)
_beginning = itemgetter(slice(len(COOKIE)))


def read(
    messages: Sequence[Message], stream: str, index: int = 0, terms: Terms = NO_TERMS
) -> list[Wishes] | None:
    """The wishes of each message, for this partition of the stream of this name; None if no message has
    headers or an envelope, as usual.
    """
    if are_plain(messages):
        return None
    return [wishes_of(message, stream, index, terms) for message in messages]


def are_plain(messages: Sequence[Message]) -> bool:
    """Whether none of them has headers or is in an envelope."""
    return not any(map(_headers_of, messages)) and not _may_be_enveloped(messages)


def _may_be_enveloped(messages: Sequence[Message]) -> bool:
    """Whether a payload begins with the cookie. The greatest tells at once, if all are text: none of it is
    as great as the cookie; this is done for each message that there is.
    """
    values = map(_value_of, messages)
    return max(values, default=b"") >= COOKIE and COOKIE in map(_beginning, map(_value_of, messages))


def wishes_of(message: Message, stream: str, index: int = 0, terms: Terms = NO_TERMS) -> Wishes:
    """What one message asks for."""
    if message.value.startswith(COOKIE):
        envelope = open_envelope(message.value)
        if envelope is not None:
            block = _joined(message.headers, envelope.headers)
            known = headers.read_block(block or message.headers, stream, terms)
            return _of_envelope(message, envelope, block, known, stream, index)
    if not message.headers:
        return NO_WISHES
    return headers.read_block(message.headers, stream, terms)


def counted_bytes(message: Message) -> int:
    """What counts for a stream's limit: headers and payload, but not the mere wish for an answer's form. Of a
    parcel nothing does: each record in it is looked at by the leader (L8).
    """
    if message.headers and headers.read_block(message.headers, "").in_parcel:
        return 0
    return len(message.value) + (len(message.headers) if message.headers not in NOT_COUNTED else 0)


# -- the envelope -----------------------------------------------------------------------------------------


def _of_envelope(
    message: Message, envelope: Envelope, block: bytes | None, known: Wishes, stream: str, index: int
) -> Wishes:
    key = envelope.key or None
    if envelope.damaged:
        text = "the envelope's checksum is wrong: it was damaged on its way; send it again"
        return Wishes(key, refusal=Refusal(ERR_ENVELOPE_DAMAGED, text), envelope=envelope)
    expected = known.expected if envelope.offset in (0, ANY_OFFSET) else envelope.offset
    refusal = known.refusal or _refusal(message, envelope, block, stream, index)
    if refusal is None and known.expected not in (None, expected):
        refusal = Refusal(ERR_ENVELOPE, "the envelope and a header beside it expect two offsets")
    policy = envelope.policy if envelope.policy in (LEADER, ALL, NONE) else ALL
    if len(envelope.correlation_id.encode()) > CORRELATION_BYTES_MAX:
        envelope = envelope._replace(correlation_id="")
    if not _may_be_inbox(envelope.ack_inbox):
        envelope = envelope._replace(ack_inbox="")
    stored = block if envelope.headers else None
    return Wishes(
        key,
        refusal=refusal,
        policy=policy,
        envelope=envelope,
        headers=stored,
        expected=expected,
        expected_last=known.expected_last,
        compared=known.compared,
        id=known.id,
        after=known.after,
        rolls_up=known.rolls_up,
        part=known.part,
    )


def _joined(block: bytes, more: Sequence[tuple[str, bytes]]) -> bytes | None:
    """The block with these headers behind those that it has; None if they do not fit into one."""
    if not more:
        return block
    if block and not block.endswith(headers.BLOCK_END):
        return None
    lines = [block[: -len(b"\r\n")] if block else headers.BLOCK_START + b"\r\n"]
    for name, value in more:
        if not _HEADER_NAME.fullmatch(name) or b"\r" in value or b"\n" in value:
            return None
        lines.append(b"%b: %b\r\n" % (name.encode(), value))
    return b"".join((*lines, b"\r\n"))


def _may_be_inbox(inbox: str) -> bool:
    """Whether an ack may be published there; one without an inbox goes nowhere."""
    return not inbox or (len(inbox.encode()) <= INBOX_BYTES_MAX and _INBOX.fullmatch(inbox) is not None)


def _refusal(
    message: Message, envelope: Envelope, block: bytes | None, stream: str, index: int
) -> Refusal | None:
    """Why this is not stored, if it is not."""
    if envelope.stream and envelope.stream != stream:
        text = f"the envelope is for stream {envelope.stream[:64]!r}, this is {stream!r}; nothing was stored"
        return Refusal(ERR_WRONG_STREAM, text)
    facts = (
        (envelope.partition in (0, index), f"its partition is {envelope.partition}, this is {index}"),
        (envelope.subject.encode() in (b"", message.subject), "its subject is another than the message's"),
        (envelope.reply_subject.encode() in (b"", message.reply), "its reply subject is another"),
        (not envelope.timestamp, "it has a timestamp, which is the leader's to give"),
        (not envelope.unknown, f"field {max(envelope.unknown, default=0)} is not known here"),
        (envelope.offset >= ANY_OFFSET, f"there is no offset {envelope.offset}"),
        (envelope.policy in (LEADER, ALL, NONE), f"there is no ack policy {envelope.policy}"),
        (_may_be_inbox(envelope.ack_inbox), "its ack inbox is no subject to publish to"),
        (len(envelope.correlation_id.encode()) <= CORRELATION_BYTES_MAX, "its correlation id is too long"),
        (block is not None, "its headers do not fit a NATS header block"),
        (not headers.names_ours(block or b""), "headers of liftlog stand beside it; say it in the envelope"),
    )
    for holds, why in facts:
        if not holds:
            return Refusal(ERR_ENVELOPE, f"the envelope asks for what is not done: {why}")
    return None
