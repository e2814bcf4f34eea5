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
from liftlog.messages import TOLD_BATCH, TOLD_MAX_DELIVERIES, TOLD_PINNED, TOLD_UNPINNED, TellAdvisory

SUBJECT = "$JS.EVENT.ADVISORY"
LEADERS = {
    TOLD_BATCH: ("STREAM.BATCH_ABANDONED", "stream_batch_abandoned"),
    TOLD_MAX_DELIVERIES: ("CONSUMER.MAX_DELIVERIES", "max_deliver"),
    TOLD_PINNED: ("CONSUMER.PINNED", "consumer_group_pinned"),
    TOLD_UNPINNED: ("CONSUMER.UNPINNED", "consumer_group_unpinned"),
}
"""What leaders tell: the word in the subject, and that in the type."""
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
    word, kind = LEADERS[advisory.kind]
    told: dict[str, object] = {"stream": advisory.stream}
    if advisory.kind == TOLD_BATCH:
        told |= {"batch": advisory.batch, "reason": advisory.reason}
        return f"{SUBJECT}.{word}.{advisory.stream}".encode(), _text(kind, told, domain)
    told["consumer"] = advisory.consumer
    if advisory.kind == TOLD_MAX_DELIVERIES:
        told |= {"stream_seq": advisory.offset + 1, "deliveries": advisory.count}
    elif advisory.kind == TOLD_PINNED:
        told |= {"group": advisory.group, "pinned_id": advisory.pin}
    else:
        told |= {"group": advisory.group, "reason": advisory.reason}
    subject = f"{SUBJECT}.{word}.{advisory.stream}.{advisory.consumer}"
    return subject.encode(), _text(kind, told, domain)


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
