"""Markers: what stays where the last message of a subject goes for its time or age (R24), as nats-server
writes it (ADR-43 of NATS).

    Nats-Marker-Reason: MaxAge                  that it is one
    Nats-TTL: 60                                for how long it stays
    Nats-Rollup: sub                            the message that it stands for goes (R23)
    Nats-Expected-Last-Subject-Sequence: 18     which one that is, by its sequence: it is the last of its
                                                subject, or no marker is stored (L9)

The last line is ours: nats-server's markers do not say what they stand for.
"""

from __future__ import annotations

from msgspec import UNSET

from liftlog.options.headers import BLOCK_END, BLOCK_START, LAST_OF_SUBJECT, ROLLUP_NAME, SUBJECT_BEFORE
from liftlog.options.lifetime import TTL
from liftlog.types import Message, StreamConfig

REASON = b"Nats-Marker-Reason"
MAX_AGE = b"MaxAge"
KEY_PURGED = b"\r\nKV-Operation: PURGE\r\n"
"""A key-value client has purged a key: what it leaves is as good as a marker."""
_REASON_LINE = b"\r\n" + REASON + b":"


def marker_ms(config: StreamConfig) -> int:
    """For how long a marker of this stream stays; 0 = none is left."""
    return 0 if config.marker_ttl_ms is UNSET else config.marker_ttl_ms


def is_marker(headers: bytes) -> bool:
    """Whether a message with these headers leaves no marker itself."""
    return _REASON_LINE in headers or KEY_PURGED in headers


def marker_of(subject: bytes, offset: int, stays_ms: int) -> Message:
    """The marker for the message of a subject at this offset."""
    seconds, rest = divmod(stays_ms, 1000)
    stays = b"%dms" % stays_ms if rest else b"%d" % seconds
    lines = (
        BLOCK_START,
        REASON + b": " + MAX_AGE,
        TTL + b": " + stays,
        ROLLUP_NAME + b": " + SUBJECT_BEFORE,
        LAST_OF_SUBJECT + b": %d" % (offset + 1),
    )
    return Message(subject, b"", b"\r\n".join(lines) + BLOCK_END, b"")
