"""Advisories: what happens to streams, and which messages are terminated, is told to whoever listens, by the
door that was asked to do it.

As with nats-server nobody keeps them: who does not listen misses them.
"""

from __future__ import annotations

import secrets

import msgspec

from liftlog.jetstream.ackwords import AckSubject
from liftlog.jetstream.answers import rfc3339
from liftlog.jetstream.dispatch import Room
from liftlog.jetstream.states import now_ms

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


async def _tell(room: Room, subject: str, kind: str, told: dict[str, object]) -> None:
    advisory = {
        "type": f"io.nats.jetstream.advisory.v1.{kind}",
        "id": secrets.token_hex(11),
        "timestamp": rfc3339(now_ms()),
        **told,
        "domain": room.domain,
    }
    await room.nats.publish(f"{SUBJECT}.{subject}", msgspec.json.encode(advisory))
