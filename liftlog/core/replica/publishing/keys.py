"""Records of messages: their keys, which compaction goes by (L1, C1), and what was in an envelope."""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.format import encode_messages, encode_records
from liftlog.options.wishes import Wishes
from liftlog.types import Batch, Message, PartitionId, Record


def encode(
    log: PartitionId,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    messages: Sequence[Message],
    wishes: Sequence[Wishes] | None,
) -> Batch:
    """Encode messages from NATS, with the keys that they wish for; the headers are stored unchanged, but for
    those of an opening (L10), and an envelope's content in its place. Raises ValueError like
    `liftlog.format.encode_messages`.
    """
    if wishes is None or all(map(_as_they_came, wishes)):
        return encode_messages(log, base_offset, epoch, timestamp_ms, messages)
    records = [
        Record(
            offset=base_offset + place,
            timestamp_ms=timestamp_ms,
            subject=subject,
            reply=reply,
            headers=headers if wish.headers is None else wish.headers,
            key=wish.key,
            value=None if wish.tombstone else value if wish.envelope is None else wish.envelope.value,
        )
        for place, ((subject, reply, headers, value), wish) in enumerate(zip(messages, wishes, strict=True))
    ]
    return encode_records(log, epoch, records)


def _as_they_came(wish: Wishes) -> bool:
    return wish.key is None and wish.envelope is None and wish.headers is None
