"""The sequencer: messages from NATS become batches with contiguous offsets (R1, D1).

Nothing here is done per message except the record's own encoding: a whole socket read becomes one batch.
"""

from __future__ import annotations

from liftlog.format import encode_messages
from liftlog.types import Batch, Message, PartitionId


def sequence(
    partition: PartitionId,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    messages: list[Message],
    batch_max_bytes: int,
) -> list[Batch]:
    """Encode `messages` in order from `base_offset` on, into batches of at most `batch_max_bytes`.

    A batch that comes out too large is halved and encoded again, so that the usual case costs no size count;
    a single message may exceed the limit (its own limit was checked at the NATS side).
    """
    batch = encode_messages(partition, base_offset, epoch, timestamp_ms, messages)
    if len(batch.data) <= batch_max_bytes or len(messages) == 1:
        return [batch]
    half = len(messages) // 2
    first = sequence(partition, base_offset, epoch, timestamp_ms, messages[:half], batch_max_bytes)
    rest = sequence(partition, base_offset + half, epoch, timestamp_ms, messages[half:], batch_max_bytes)
    return first + rest
