"""Messages on their way to who consumes them: how they look, and what becomes of those that nobody gets."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Sequence

from liftlog.client.consuming import Delivery
from liftlog.client.errors import RequestFailed
from liftlog.jetstream.ackwords import ack_subject
from liftlog.jetstream.answers import NS_PER_MS
from liftlog.jetstream.knownconsumers import KnownConsumer
from liftlog.jetstream.leaf import LeafMessage
from liftlog.messages import NAK

FIRST_LINE = b"NATS/1.0\r\n"
MESSAGE_SIZE = "Nats-Msg-Size"
PIN_ID = "Nats-Pin-Id"


def messages_of(known: KnownConsumer, found: Sequence[Delivery], to: str, pin: str = "") -> list[LeafMessage]:
    """Messages for `to`: each under its own subject, with the subject for its ack as reply. `pin`: of who is
    given them, if that is pinned.
    """
    begins, headers_only = known.acks_at, known.config.headers_only
    messages: list[LeafMessage] = []
    for record, delivered, _, _, sequence, to_come in found:
        offset, timestamp_ms, subject, _, block, _, value = record
        reply = ack_subject(begins, delivered, offset + 1, sequence, timestamp_ms * NS_PER_MS, to_come)
        body = value or b""
        if headers_only:
            block, body = _with_header(block, MESSAGE_SIZE, len(body)), b""
        if pin:
            block = _with_header(block, PIN_ID, pin)
        messages.append(LeafMessage(to, reply, block, body, subject.decode("utf-8", "replace")))
    return messages


def _with_header(block: bytes, name: str, value: object) -> bytes:
    return (block[:-2] if block else FIRST_LINE) + f"{name}: {value}\r\n\r\n".encode()


def size_of(message: LeafMessage) -> int:
    """As nats-server counts it: what a client can count too."""
    _, reply, block, body, subject = message
    return len(subject.encode()) + len(reply) + len(block) + len(body)


async def give_back(known: KnownConsumer, given: Sequence[Delivery]) -> None:
    """Nobody got them: they are given again, at once."""
    if given:
        await known.settle(NAK, [one.record.offset for one in given])


async def give_back_late(known: KnownConsumer, asking: Awaitable[list[Delivery]]) -> None:
    """Who asked for them is not there any more when they come."""
    with contextlib.suppress(RequestFailed):
        await give_back(known, await asking)


async def settle_unasked(known: KnownConsumer, given: Sequence[Delivery]) -> None:
    """Of a consumer without acks: what was sent is done."""
    await known.ack([one.record.offset for one in given])
