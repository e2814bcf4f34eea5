"""The sequencer: messages from NATS become batches with contiguous offsets (R1, D1).

Nothing here is done per message except the record's own encoding: a whole socket read becomes one batch.
"""

from __future__ import annotations

from liftlog.codec import MissingCodec
from liftlog.core.replica.publishing.keys import encode
from liftlog.format import compress
from liftlog.options.wishes import Wishes
from liftlog.types import Batch, Message, PartitionId


def sequence(
    partition: PartitionId,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    messages: list[Message],
    wishes: list[Wishes] | None,
    batch_max_bytes: int,
    codec: str = "none",
) -> list[Batch]:
    """Encode `messages` in order from `base_offset` on, into batches of at most `batch_max_bytes`.

    A batch that comes out too large is halved and encoded again, so that the usual case costs no size count;
    a single message may exceed the limit (its own limit was checked at the NATS side). `codec` is applied
    afterwards, so the limit holds for what a reader unpacks.
    """
    batch = encode(partition, base_offset, epoch, timestamp_ms, messages, wishes)
    if len(batch.data) <= batch_max_bytes or len(messages) == 1:
        return [batch if codec == "none" else compressed(partition, batch, codec)]
    half = len(messages) // 2
    batches = []
    for offset, part in ((base_offset, slice(half)), (base_offset + half, slice(half, None))):
        wished = wishes[part] if wishes is not None else None
        batches += sequence(
            partition=partition,
            base_offset=offset,
            epoch=epoch,
            timestamp_ms=timestamp_ms,
            messages=messages[part],
            wishes=wished,
            batch_max_bytes=batch_max_bytes,
            codec=codec,
        )
    return batches


def compressed(partition: PartitionId, batch: Batch, codec: str) -> Batch:
    """Every batch says how it is packed, so a leader that lacks the library can still write it plain."""
    try:
        return compress(partition, batch, codec)
    except MissingCodec:
        return batch
