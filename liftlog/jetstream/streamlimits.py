"""What a stream allows its consumers: `max_consumers`, `consumer_limits`."""

from __future__ import annotations

import msgspec

from liftlog.jetstream import consumerfaults as faults
from liftlog.jetstream.answers import NS_PER_S
from liftlog.jetstream.configs import ConsumerLimits, max_consumers
from liftlog.jetstream.consumerconfigs import JsConsumerConfig
from liftlog.jetstream.dispatch import Room
from liftlog.messages import StreamInfo


async def refuse_one_more(room: Room, stream: StreamInfo) -> None:
    """Raises JsError if a stream has as many consumers as it may have. Two doors that are asked at once may
    each make the last.
    """
    most = max_consumers(stream.config)
    if 0 < most <= len(await room.client.consumers(stream)):
        raise faults.CONSUMERS_LIMIT.because()


def within_limits(config: JsConsumerConfig, limits: ConsumerLimits) -> JsConsumerConfig:
    """The consumer that is asked for, with what the stream says where it says nothing itself. Raises JsError
    for one that asks for more.
    """
    changes: dict[str, int] = {}
    if limits.max_ack_pending > 0:
        if config.max_ack_pending == 0 and config.ack_policy != "none":
            changes["max_ack_pending"] = limits.max_ack_pending
        elif not 0 <= config.max_ack_pending <= limits.max_ack_pending:
            raise faults.PENDING_TOO_MANY.because(limits.max_ack_pending)
    if limits.inactive_threshold > 0:
        if config.inactive_threshold == 0:
            changes["inactive_threshold"] = limits.inactive_threshold
        elif config.inactive_threshold > limits.inactive_threshold:
            raise faults.INACTIVE_TOO_LONG.because(f"{limits.inactive_threshold / NS_PER_S:g}s")
    return msgspec.structs.replace(config, **changes)
