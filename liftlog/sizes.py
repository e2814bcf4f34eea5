"""How many bytes a message counts for, where streams are limited by bytes and where they are told (R25).

It is JetStream's number, so that a limit keeps as many messages here as there: what nats-server's file store
writes for a message (`fileStoreMsgSizeRaw`). What lies on a disk of liftlog's is another number, less with a
codec; a key, and the subject for replies, count for nothing.
"""

from __future__ import annotations

OF_EACH = 30
"""Length, sequence, time, length of the subject, hash."""
OF_HEADERS = 4
"""Their length, where there are any."""


def message_bytes(subject: int, headers: int, payload: int) -> int:
    """What a message counts for whose parts have so many bytes. `headers`: with the line before them and the
    empty one behind; 0: there are none.
    """
    return OF_EACH + subject + (OF_HEADERS + headers if headers else 0) + payload
