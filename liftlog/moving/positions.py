"""Consumers: made anew behind what was acked without a gap, which is all that JetStream tells of it.

What was acked above that comes again, once. Counts of deliveries begin anew. A consumer keeps the
configuration that programs ask for: where it begins here is between it and liftlog.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from liftlog.client.client import Client
from liftlog.client.errors import RequestFailed
from liftlog.jetstream.consumerconfigs import JsConsumerConfig, effective, to_core
from liftlog.jetstream.errors import JsError
from liftlog.messages import (
    DELIVER_FROM,
    DELIVER_NEW,
    ERR_EXISTS,
    ERR_OFFSET_RANGE,
    ConsumerConfig,
    StreamInfo,
)
from liftlog.moving.origin import OriginConsumer
from liftlog.moving.plan import MovePlan, MoveWishes, time_ms
from liftlog.moving.reading import READER_PREFIX
from liftlog.types import LiftlogError


class MovedConsumer(NamedTuple):
    """One that is to be made. `again`: so many messages at most were acked and come again. `anew`: it begins
    as its configuration says.
    """

    name: str
    config: ConsumerConfig
    next_seq: int
    again: int
    anew: bool


class ConsumerPlan(NamedTuple):
    """Those to be made, and the names of those that are not: ephemeral ones, which programs make anew."""

    made: list[MovedConsumer]
    left: list[str]


def plan_consumers(found: list[OriginConsumer], plan: MovePlan, wishes: MoveWishes) -> ConsumerPlan:
    """What becomes of them. Raises LiftlogError for one that cannot be made."""
    made: list[MovedConsumer] = []
    left: list[str] = []
    for one in found:
        if one.name.startswith(READER_PREFIX):
            continue
        if one.name in wishes.skipped_consumers or not one.config.get("durable_name"):
            left.append(one.name)
            continue
        try:
            made.append(_moved(one, plan))
        except (JsError, msgspec.ValidationError) as error:
            raise LiftlogError(
                f"consumer '{one.name}' cannot be made here: {error}; leave it out with --skip-consumer "
                f"{one.name}"
            ) from None
    return ConsumerPlan(made, left)


def _moved(one: OriginConsumer, plan: MovePlan) -> MovedConsumer:
    # More replicas than the stream has here would be refused; consumers are kept with it anyway.
    fields = {**one.config, "num_replicas": 0}
    if isinstance(fields.get("metadata"), dict):
        kept = {name: value for name, value in fields["metadata"].items() if not name.startswith("_nats.")}
        fields["metadata"] = kept or None
    wanted = msgspec.convert(fields, JsConsumerConfig)
    config = effective(wanted, one.name, list(plan.ready.subjects), plan.ready.replication_factor)
    core = to_core(config, time_ms(one.created))
    untouched = config.deliver_policy == "last_per_subject" and not one.delivered.consumer_seq
    if not untouched:
        offset = max(0, plan.provenance.offset(one.ack_floor.stream_seq + 1))
        core = msgspec.structs.replace(core, deliver=DELIVER_FROM, offset=offset, timestamp_ms=0)
    again = max(0, one.delivered.stream_seq - one.ack_floor.stream_seq - one.num_ack_pending)
    return MovedConsumer(one.name, core, one.ack_floor.stream_seq + 1, again, untouched)


async def make_consumer(client: Client, stream: StreamInfo, moved: MovedConsumer) -> None:
    """Make it; one that an earlier attempt has made otherwise is replaced: nobody has used it."""
    try:
        await _make(client, stream, moved)
    except RequestFailed as error:
        if error.code != ERR_EXISTS:
            raise
        await client.delete_consumer(stream, moved.name)
        await _make(client, stream, moved)


async def _make(client: Client, stream: StreamInfo, moved: MovedConsumer) -> None:
    config = moved.config
    try:
        await client.consumer(stream, moved.name, config=config)
    except RequestFailed as error:
        if error.code != ERR_OFFSET_RANGE:
            raise
        # Nothing is there yet: it begins with what comes.
        config = msgspec.structs.replace(config, deliver=DELIVER_NEW, offset=0)
        await client.consumer(stream, moved.name, config=config)
