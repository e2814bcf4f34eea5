"""Advisories: what happens to streams and consumers is told to whoever listens.

What a door is asked to do it tells itself. What only a leader knows, as that a message was delivered as often
as it may be, the node tells that leads, if a door is in its process. As with nats-server nobody keeps them:
who does not listen misses them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import msgspec

from liftlog.jetstream.ackwords import AckSubject
from liftlog.jetstream.answers import rfc3339
from liftlog.jetstream.dispatch import Room
from liftlog.jetstream.states import now_ms
from liftlog.messages import TOLD_MAX_DELIVERIES, TellAdvisory

SUBJECT = "$JS.EVENT.ADVISORY"
WORDS = {"create": "CREATED", "delete": "DELETED", "modify": "UPDATED"}


async def tell_of_stream(room: Room, stream: str, action: str) -> None:
    """`action`: create, delete or modify."""
    subject = f"STREAM.{WORDS[action]}.{stream}"
    await _tell(room, subject, "stream_action", {"stream": stream, "action": action})


async def tell_of_termination(room: Room, about: AckSubject, reason: str) -> None:
    """A message was terminated, and the leader has noted that. `reason`: empty if none was said."""
    told: dict[str, object] = {
        "stream": about.stream,
        "consumer": about.consumer,
        "consumer_seq": about.consumer_seq,
        "stream_seq": about.stream_seq,
        "deliveries": about.delivered,
    }
    if reason:
        told["reason"] = reason
    await _tell(room, f"CONSUMER.MSG_TERMINATED.{about.stream}.{about.consumer}", "terminated", told)


def leaders_advisory(advisory: TellAdvisory, domain: str) -> tuple[bytes, bytes]:
    """What a leader has to tell, as JetStream says it: the subject, and the text."""
    assert advisory.kind == TOLD_MAX_DELIVERIES, advisory.kind
    told = {
        "stream": advisory.stream,
        "consumer": advisory.consumer,
        "stream_seq": advisory.offset + 1,
        "deliveries": advisory.count,
    }
    subject = f"CONSUMER.MAX_DELIVERIES.{advisory.stream}.{advisory.consumer}"
    return f"{SUBJECT}.{subject}".encode(), _text("max_deliver", told, domain)


async def _tell(room: Room, subject: str, kind: str, told: dict[str, object]) -> None:
    await room.nats.publish(f"{SUBJECT}.{subject}", _text(kind, told, room.domain))


def _text(kind: str, told: Mapping[str, object], domain: str) -> bytes:
    advisory = {
        "type": f"io.nats.jetstream.advisory.v1.{kind}",
        "id": secrets.token_hex(11),
        "timestamp": rfc3339(now_ms()),
        **told,
        "domain": domain,
    }
    return msgspec.json.encode(advisory)
