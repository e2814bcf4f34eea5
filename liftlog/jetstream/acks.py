"""Acks: what becomes of messages that were delivered. Any door hands them to the partition's leader.

Who asks for an answer gets an empty one when the ack is durable on every replica in sync; none if the leader
knows no such delivery: then the message comes again.
"""

from __future__ import annotations

from nats.aio.msg import Msg

from liftlog.jetstream.ackwords import AckSubject, AckWord, parse_ack_subject, parse_ack_word
from liftlog.jetstream.advisories import tell_of_termination
from liftlog.jetstream.calls import JsCall
from liftlog.jetstream.dispatch import Room
from liftlog.jetstream.errors import JsError
from liftlog.jetstream.knownconsumers import KnownConsumer, is_over
from liftlog.jetstream.pulls import serve
from liftlog.messages import ACK, TERM
from liftlog.types import LiftlogError

NAK_DELAY_MAX_MS = 86_400_000


def take_plain_ack(room: Room, message: Msg) -> bool:
    """Take what most acks are: of one message, of a consumer that is known here, without a wish for an
    answer. Whether it was one.
    """
    if message.reply or message.data not in (b"", b"+ACK"):
        return False
    about = parse_ack_subject(message.subject)
    known = about and room.consumers.known(about.stream, about.consumer)
    if not about or not known or known.config.ack_policy != "explicit":
        return False
    if known.ack_soon(about.stream_seq - 1):
        room.start(_settle_soon(room, known), f"acks of {about.stream}.{about.consumer}")
    return True


async def _settle_soon(room: Room, known: KnownConsumer) -> None:
    try:
        await known.settle_soon()
    except LiftlogError as error:
        # Nobody has heard that they count: what is still there comes again.
        if not is_over(error):
            raise
        room.consumers.forget(known.stream_name, known.name)


async def on_ack(room: Room, message: Msg) -> None:
    """One has come. What is none, or is about a consumer that is not there, is passed over."""
    about, word = parse_ack_subject(message.subject), parse_ack_word(message.data)
    if about is None or word is None:
        return
    try:
        unknown = await room.consumers.doing(
            about.stream, about.consumer, lambda known: _settled(room, known, about, word)
        )
    except JsError as error:
        if error.code == 404:
            return
        raise
    if word.next is not None:
        wanted = JsCall(
            verb="CONSUMER.MSG.NEXT",
            stream=about.stream,
            consumer=about.consumer,
            payload=word.next,
            reply=message.reply,
        )
        await serve(room, wanted)
    elif message.reply and not unknown:
        await room.nats.publish(message.reply, b"")


async def _settled(room: Room, known: KnownConsumer, about: AckSubject, word: AckWord) -> list[int]:
    """Of which messages no delivery was known."""
    offset = about.stream_seq - 1
    policy = known.config.ack_policy
    if policy == "none":
        return []
    if word.how != ACK:
        unknown = await known.settle(word.how, [offset], min(word.delay_ms, NAK_DELAY_MAX_MS))
        if word.how == TERM and not unknown:
            await tell_of_termination(room, about, word.reason)
        return unknown
    if policy == "all":
        return await known.ack_all(offset)
    return await known.ack([offset])
