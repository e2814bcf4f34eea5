"""Which consumers a stream with `retention: workqueue` has (R26), as JetStream refuses the others."""

from __future__ import annotations

from liftlog.jetstream import consumerfaults as faults
from liftlog.jetstream.consumerconfigs import JsConsumerConfig
from liftlog.jetstream.dispatch import Room
from liftlog.messages import StreamInfo
from liftlog.subjects.grammar import overlap

EVERY_SUBJECT = (">",)


def refuse_without_acks(stream: StreamInfo, config: JsConsumerConfig) -> None:
    """Raises JsError for a consumer of a work queue that acks otherwise than one message at a time."""
    if not stream.config.is_queue or config.ack_policy == "explicit":
        return
    if config.ack_policy == "none" and not config.is_push:
        raise faults.QUEUE_PULL_NEEDS_ACKS.because()
    raise faults.QUEUE_NEEDS_ACKS.because()


async def refuse_shared(room: Room, stream: StreamInfo, config: JsConsumerConfig) -> None:
    """Raises JsError for a consumer of a work queue that may be given what another one is. The partition's
    leader refuses it too: two doors that are asked at once do not make both.
    """
    if not stream.config.is_queue:
        return
    if config.deliver_policy != "all":
        raise faults.QUEUE_NOT_ALL.because()
    others = [each for each in await room.client.consumers(stream) if each.name != config.name]
    if others and not config.filters:
        raise faults.QUEUE_UNFILTERED.because()
    for other in others:
        theirs = other.config.patterns or EVERY_SUBJECT
        if any(overlap(mine, pattern) for mine in config.filters for pattern in theirs):
            raise faults.QUEUE_SHARED.because()
