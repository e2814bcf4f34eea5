"""The calls about consumers."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from liftlog.client.errors import RequestFailed
from liftlog.client.reader import Reader
from liftlog.jetstream import consumerfaults as faults
from liftlog.jetstream.answers import NS_PER_MS, ZERO_TIME, JsAnswer, JsPage, SuccessAnswer, rfc3339
from liftlog.jetstream.calls import JsCall
from liftlog.jetstream.configs import consumer_limits, from_stream_config
from liftlog.jetstream.consumerconfigs import (
    JsConsumerConfig,
    check_update,
    effective,
    milliseconds,
    to_core,
)
from liftlog.jetstream.copies import own_subjects
from liftlog.jetstream.dispatch import Handlers, Room
from liftlog.jetstream.errors import (
    CONSUMER_CREATE,
    CONSUMER_NOT_FOUND,
    INVALID_JSON,
    STREAM_NAME_MISMATCH,
    JsError,
)
from liftlog.jetstream.groups import PinnedGroup, group_fault, states_of
from liftlog.jetstream.knownconsumers import KnownConsumer
from liftlog.jetstream.leaf import NO_LEAF
from liftlog.jetstream.push import all_is_sent
from liftlog.jetstream.shown import find_stream
from liftlog.jetstream.states import ClusterState, cluster_state, now_ms
from liftlog.jetstream.stored import last_of
from liftlog.jetstream.streamlimits import refuse_one_more, within_limits
from liftlog.jetstream.streams import PageRequest
from liftlog.jetstream.workqueues import refuse_shared, refuse_without_acks
from liftlog.messages import (
    DELIVER_FROM,
    DELIVER_NEW,
    ERR_EXISTS,
    ERR_INVALID,
    ERR_NOT_FOUND,
    ERR_OFFSET_RANGE,
    ConsumerConfig,
    ConsumerInfo,
    ConsumersReply,
    CreateConsumerRequest,
    StreamInfo,
)

NAMES_MAX = 1024
LIST_MAX = 256
"""So many a page has."""


class CreateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """`action`: "create" and "update" are about one that is not there, or is there; nothing: either."""

    stream_name: str = ""
    config: JsConsumerConfig | None = None
    action: Literal["", "create", "update"] = ""
    pedantic: bool = False


class SequencePair(msgspec.Struct):
    consumer_seq: int
    stream_seq: int
    last_active: str | UnsetType = UNSET
    """Of the leader of now; what was before it leads is not told."""


class ConsumerInfoAnswer(JsAnswer):
    kind: ClassVar[str] = "consumer_info"
    stream_name: str
    name: str
    created: str
    config: dict[str, Any]
    delivered: SequencePair
    ack_floor: SequencePair
    num_ack_pending: int
    num_redelivered: int
    num_waiting: int
    num_pending: int
    ts: str
    cluster: ClusterState
    push_bound: bool | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    pause_remaining: int | UnsetType = UNSET
    priority_groups: list[PinnedGroup] | UnsetType = UNSET


class UnpinBody(msgspec.Struct, forbid_unknown_fields=True):
    group: str = ""


class UnpinAnswer(JsAnswer):
    kind: ClassVar[str] = "consumer_unpin"


class ResetRequest(msgspec.Struct, forbid_unknown_fields=True):
    """`seq` 0: the first message that is not acked."""

    seq: Annotated[int, msgspec.Meta(ge=0)] = 0


class ResetAnswer(ConsumerInfoAnswer, kw_only=True):
    kind: ClassVar[str] = "consumer_reset"
    reset_seq: int


class PauseRequest(msgspec.Struct, forbid_unknown_fields=True):
    pause_until: str = ""


class PauseAnswer(JsAnswer):
    kind: ClassVar[str] = "consumer_pause"
    paused: bool
    pause_until: str
    pause_remaining: int | UnsetType = UNSET


class ConsumerNamesAnswer(JsPage):
    kind: ClassVar[str] = "consumer_names"
    consumers: list[str]


class ConsumerListAnswer(JsPage):
    kind: ClassVar[str] = "consumer_list"
    consumers: list[ConsumerInfoAnswer]


def describe(
    room: Room, stream: StreamInfo, known: KnownConsumer, info: ConsumerInfo
) -> ConsumerInfoAnswer:
    """What clients are told of a consumer of this stream."""
    bound = room.leaf.hears(known.config.deliver_subject) if known.config.is_push else UNSET
    groups = known.config.priority_groups or []
    left_ms = info.config.pause_until_ms - now_ms()
    return ConsumerInfoAnswer(
        stream_name=known.stream_name,
        name=known.name,
        created=rfc3339(known.created_ms),
        config=known.config.told(),
        delivered=SequencePair(info.sequence, info.position, _when(info.delivered_ms)),
        ack_floor=SequencePair(info.floor_sequence, info.floor, _when(info.acked_ms)),
        num_ack_pending=info.ack_pending,
        num_redelivered=info.redelivered,
        num_waiting=info.pulls,
        num_pending=max(0, info.num_pending),
        ts=rfc3339(now_ms()),
        cluster=cluster_state(room, stream),
        push_bound=bound or UNSET,
        paused=True if left_ms > 0 else UNSET,
        pause_remaining=left_ms * NS_PER_MS if left_ms > 0 else UNSET,
        priority_groups=states_of(groups, info.pin, info.pinned_ms) if groups else UNSET,
    )


def _when(time_ms: int) -> str | UnsetType:
    return rfc3339(time_ms) if time_ms else UNSET


async def create_consumer(room: Room, call: JsCall) -> ConsumerInfoAnswer:
    """Make a consumer, or alter it: the same configuration again is the same answer."""
    request = call.body(CreateRequest)
    if request.config is None:
        raise faults.CONFIG_REQUIRED.because()
    if request.stream_name != call.stream:
        raise STREAM_NAME_MISMATCH.because()
    if request.pedantic:
        raise CONSUMER_CREATE.because("pedantic mode is not supported")
    if not room.leaf.url:
        raise CONSUMER_CREATE.because(NO_LEAF)
    name = _named(call, request.config)
    stream = await find_stream(room.client, call.stream)
    told = from_stream_config(stream.config)
    wanted = within_limits(request.config, consumer_limits(stream.config))
    config = effective(wanted, name, own_subjects(stream.config), told.num_replicas)
    refuse_without_acks(stream, config)
    known = await _there(room, stream, name)
    if known is None:
        if request.action == "update":
            raise faults.CONSUMER_MISSING.because()
        await refuse_one_more(room, stream)
        await refuse_shared(room, stream, config)
        known = await _made(room, stream, config)
    if known.config != config:
        if request.action == "create":
            raise faults.CONSUMER_EXISTS.because()
        check_update(known.config, config)
        if known.config.filters != config.filters:
            await refuse_shared(room, stream, config)
        await _alter(known, config)
    if config.is_push:
        await room.push_soon(stream.config.name)
    return describe(room, stream, known, await known.info())


def _named(call: JsCall, config: JsConsumerConfig) -> str:
    """What the consumer is to be called, by the three forms of the call. Raises JsError."""
    old = call.verb == "CONSUMER.DURABLE.CREATE"
    if not call.consumer:
        if config.durable_name:
            raise faults.EPHEMERAL_WITH_DURABLE.because()
        return config.name or secrets.token_hex(4)
    if old and not config.durable_name:
        raise faults.DURABLE_NOT_SET.because()
    if config.durable_name and config.durable_name != call.consumer:
        raise faults.DURABLE_MISMATCH.because()
    if call.rest and config.filter_subjects:
        raise faults.FILTERS_IN_SUBJECT.because()
    if call.rest and call.rest != config.filter_subject:
        raise faults.FILTER_MISMATCH.because()
    return call.consumer


async def _there(room: Room, stream: StreamInfo, name: str) -> KnownConsumer | None:
    try:
        return await room.consumers.look_up(stream, name)
    except JsError as error:
        if error.err_code != CONSUMER_NOT_FOUND.err_code:
            raise
        return None


async def _made(room: Room, stream: StreamInfo, config: JsConsumerConfig) -> KnownConsumer:
    """Make it. Who was faster may have made it otherwise: then that is what there is."""
    reader = room.client.reader(stream, 0)
    core = to_core(config, now_ms())
    if config.deliver_policy == "last" and config.filters:
        core = msgspec.structs.replace(core, **await _last_matching(room, stream, config.filters))
    try:
        try:
            made = await _asked_for(reader, config.name, core)
        except RequestFailed as error:
            if error.code != ERR_OFFSET_RANGE:
                raise
            # Where there is nothing yet JetStream begins with what comes next.
            core = msgspec.structs.replace(core, deliver=DELIVER_NEW, offset=0)
            made = await _asked_for(reader, config.name, core)
    except RequestFailed as error:
        if error.code == ERR_EXISTS:
            return await room.consumers.look_up(stream, config.name)
        if error.code == ERR_INVALID:
            raise CONSUMER_CREATE.because(error) from None
        raise
    return room.consumers.add(stream, reader, made)


async def _alter(known: KnownConsumer, config: JsConsumerConfig) -> None:
    """Give it another configuration. It begins where it began, and what JetStream has no word for stays."""
    was = known.last_info.config
    kept = {"deliver": was.deliver, "offset": was.offset, "timestamp_ms": was.timestamp_ms}
    kept["dead_letter"] = was.dead_letter
    wanted = msgspec.structs.replace(to_core(config, known.created_ms), **kept)
    try:
        await known.alter(wanted)
    except RequestFailed as error:
        if error.retryable:
            raise
        raise CONSUMER_CREATE.because(error) from None


async def pause_consumer(room: Room, call: JsCall) -> PauseAnswer:
    """Deliver nothing until then; a time that is over has it deliver again."""
    request = call.body(PauseRequest)
    known = await room.consumers.look_up(await find_stream(room.client, call.stream), call.consumer)
    until_ms = milliseconds(request.pause_until) if request.pause_until else 0
    paused = until_ms > now_ms()
    said = rfc3339(until_ms) if paused else ""
    await _alter(known, msgspec.structs.replace(known.config, pause_until=said))
    if known.config.is_push:
        await room.push_soon(known.stream_name)
    return PauseAnswer(
        paused=paused,
        pause_until=said or ZERO_TIME,
        pause_remaining=(until_ms - now_ms()) * NS_PER_MS if paused else UNSET,
    )


async def reset_consumer(room: Room, call: JsCall) -> ResetAnswer:
    """Have it begin again, not before where its configuration has it begin."""
    sequence = call.body(ResetRequest).seq
    stream = await find_stream(room.client, call.stream)
    known = await room.consumers.look_up(stream, call.consumer)
    config = known.config
    if sequence and config.deliver_policy not in ("all", "by_start_sequence", "by_start_time"):
        raise faults.INVALID_RESET.because("not allowed")
    if config.deliver_policy == "by_start_sequence" and 0 < sequence < config.opt_start_seq:
        raise faults.INVALID_RESET.because("below start seq")
    if config.deliver_policy == "by_start_time" and sequence:
        first = await known.first_at(milliseconds(config.opt_start_time))
        if sequence - 1 < first:
            raise faults.INVALID_RESET.because("below start time")
    try:
        info = await known.reset(sequence - 1 if sequence else None)
    except RequestFailed as error:
        if error.code == ERR_NOT_FOUND:
            raise CONSUMER_NOT_FOUND.because() from None
        if error.retryable:
            raise
        raise faults.INVALID_RESET.because(error) from None
    now = room.consumers.add(stream, room.client.reader(stream, 0), info)
    if config.is_push:
        await room.push_soon(known.stream_name)
    told = describe(room, stream, now, info)
    return ResetAnswer(**msgspec.structs.asdict(told), reset_seq=sequence or info.position + 1)


async def unpin_consumer(room: Room, call: JsCall) -> UnpinAnswer:
    """Have another client be pinned."""
    group = call.body(UnpinBody).group
    if not group:
        raise INVALID_JSON.because("consumer group not specified")
    fault = group_fault(group)
    if fault is not None:
        raise fault.because()
    known = await room.consumers.look_up(await find_stream(room.client, call.stream), call.consumer)
    if group not in (known.config.priority_groups or []):
        raise faults.NO_SUCH_GROUP.because()
    if known.config.priority_policy == "pinned_client":
        await known.unpin(group)
    return UnpinAnswer()


async def _last_matching(room: Room, stream: StreamInfo, filters: list[str]) -> dict[str, Any]:
    """Where a consumer begins that wants the last message which one of its filters matches."""
    found = [await last_of(room, stream, pattern) for pattern in filters]
    offsets = [record.offset for record in found if record is not None]
    return {"deliver": DELIVER_FROM, "offset": max(offsets)} if offsets else {"deliver": DELIVER_NEW}


async def _asked_for(reader: Reader, name: str, core: ConsumerConfig) -> ConsumerInfo:
    request = CreateConsumerRequest(reader.partition, name, core)
    return (await reader.ask_leader(request, ConsumersReply)).consumers[0]


async def consumer_info(room: Room, call: JsCall) -> ConsumerInfoAnswer:
    """What a consumer is, and where it stands."""
    stream = await find_stream(room.client, call.stream)
    known = await room.consumers.look_at(stream, call.consumer)
    if known.config.is_push and known.last_info.sequence:
        await all_is_sent(room, known)
    return describe(room, stream, known, known.last_info)


async def _page(room: Room, call: JsCall, most: int) -> tuple[StreamInfo, int, int, list[ConsumerInfo]]:
    """The stream, how many consumers it has, where the page begins, and those on it."""
    request = call.body(PageRequest)
    if request.offset < 0:
        raise INVALID_JSON.because("offset is negative")
    stream = await find_stream(room.client, call.stream)
    found = sorted(await room.client.consumers(stream), key=lambda one: one.name)
    return stream, len(found), request.offset, found[request.offset : request.offset + most]


async def consumer_names(room: Room, call: JsCall) -> ConsumerNamesAnswer:
    """What the consumers of a stream are called."""
    _, total, offset, page = await _page(room, call, NAMES_MAX)
    names = [one.name for one in page]
    return ConsumerNamesAnswer(total=total, offset=offset, limit=NAMES_MAX, consumers=names)


async def consumer_list(room: Room, call: JsCall) -> ConsumerListAnswer:
    """All that INFO says, of each."""
    stream, total, offset, page = await _page(room, call, LIST_MAX)
    reader = room.client.reader(stream, 0)
    told = [describe(room, stream, room.consumers.add(stream, reader, one), one) for one in page]
    return ConsumerListAnswer(total=total, offset=offset, limit=LIST_MAX, consumers=told)


async def delete_consumer(room: Room, call: JsCall) -> SuccessAnswer:
    """Delete it; pulls that wait are told."""
    stream = await find_stream(room.client, call.stream)
    try:
        await room.client.delete_consumer(stream, call.consumer)
    except RequestFailed as error:
        if error.code == ERR_NOT_FOUND:
            raise CONSUMER_NOT_FOUND.because() from None
        raise
    finally:
        room.consumers.forget(call.stream, call.consumer)
    return SuccessAnswer()


HANDLERS: Handlers = {
    "CONSUMER.CREATE": create_consumer,
    "CONSUMER.DURABLE.CREATE": create_consumer,
    "CONSUMER.INFO": consumer_info,
    "CONSUMER.NAMES": consumer_names,
    "CONSUMER.LIST": consumer_list,
    "CONSUMER.DELETE": delete_consumer,
    "CONSUMER.PAUSE": pause_consumer,
    "CONSUMER.RESET": reset_consumer,
    "CONSUMER.UNPIN": unpin_consumer,
}
