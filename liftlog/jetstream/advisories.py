"""Advisories: what happens to streams is told to whoever listens, by the door that was asked to do it.

As with nats-server nobody keeps them: who does not listen misses them.
"""

from __future__ import annotations

import secrets

import msgspec

from liftlog.jetstream.answers import rfc3339
from liftlog.jetstream.dispatch import Room
from liftlog.jetstream.states import now_ms

SUBJECT = "$JS.EVENT.ADVISORY"
WORDS = {"create": "CREATED", "delete": "DELETED", "modify": "UPDATED"}


async def tell_of_stream(room: Room, stream: str, action: str) -> None:
    """`action`: create, delete or modify."""
    advisory = {
        "type": "io.nats.jetstream.advisory.v1.stream_action",
        "id": secrets.token_hex(11),
        "timestamp": rfc3339(now_ms()),
        "stream": stream,
        "action": action,
        "domain": room.domain,
    }
    await room.nats.publish(f"{SUBJECT}.STREAM.{WORDS[action]}.{stream}", msgspec.json.encode(advisory))
