"""What a stream is and what is in it, as answers tell it."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from liftlog.client.errors import RequestFailed
from liftlog.client.reader import Reader
from liftlog.jetstream.answers import NS_PER_MS, ZERO_TIME, JsAnswer, rfc3339
from liftlog.jetstream.configs import StreamConfigAnswer, created_ms, from_stream_config
from liftlog.jetstream.copies import SourceState, copied_states
from liftlog.jetstream.dispatch import Room
from liftlog.jetstream.scanning import StreamTotals
from liftlog.messages import ERR_OFFSET_RANGE, StreamInfo
from liftlog.types import Record


class JsStreamState(msgspec.Struct):
    """What is in a stream. Without messages `first_seq` is one more than `last_seq`; both are 0 of a stream
    that has never had any.
    """

    messages: int
    bytes: int
    first_seq: int
    first_ts: str
    last_seq: int
    last_ts: str
    consumer_count: int
    num_subjects: int | UnsetType = UNSET
    num_deleted: int | UnsetType = UNSET
    deleted: list[int] | UnsetType = UNSET
    subjects: dict[str, int] | UnsetType = UNSET


class PeerState(msgspec.Struct):
    """A copy that does not lead."""

    name: str
    current: bool
    active: int = 0


class ClusterState(msgspec.Struct):
    """Who has a copy."""

    name: str
    leader: str
    replicas: list[PeerState] | UnsetType = UNSET


class StreamInfoAnswer(JsAnswer):
    kind: ClassVar[str] = "stream_info"
    config: StreamConfigAnswer
    state: JsStreamState
    cluster: ClusterState
    domain: str
    ts: str
    created: str
    mirror: SourceState | UnsetType = UNSET
    sources: list[SourceState] | UnsetType = UNSET
    did_create: bool | UnsetType = UNSET
    total: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    limit: int | UnsetType = UNSET


def now_ms() -> int:
    """The time of the door's machine, which answers are stamped with."""
    return time.time_ns() // NS_PER_MS


def cluster_state(room: Room, info: StreamInfo) -> ClusterState:
    """Who leads the stream, and who else has a copy."""
    (partition,) = info.partitions
    others = [node for node in partition.replicas if node != partition.leader]
    return ClusterState(
        name=room.client.cluster,
        leader=f"node-{partition.leader}" if partition.leader else "",
        replicas=[PeerState(f"node-{node}", node in partition.isr) for node in others] or UNSET,
    )


async def stream_state(
    room: Room, info: StreamInfo, totals: StreamTotals, consumers: int, details: bool = False
) -> JsStreamState:
    """What is in it now; with `details` which sequences between the first and the last are gone."""
    reader = room.client.reader(info, 0)
    messages, last_seq = totals.messages, totals.hw
    first = await room.client.next_matching(info, ">", totals.log_start) if messages else None
    if first is None:
        messages = 0  # Nothing, or all of it went since it was counted.
    state = JsStreamState(
        messages=messages,
        bytes=totals.size,
        first_seq=first.record.offset + 1 if first is not None else (last_seq and last_seq + 1),
        first_ts=rfc3339(first.record.timestamp_ms) if first is not None else ZERO_TIME,
        last_seq=last_seq,
        last_ts=await _last_time(reader, last_seq),
        consumer_count=consumers,
        num_subjects=totals.subjects if messages else UNSET,
    )
    gone = max(0, last_seq - state.first_seq + 1 - messages) if messages else 0
    if gone:
        state.num_deleted = gone
        if details:
            state.deleted = await _deleted(reader, state.first_seq, last_seq)
    return state


async def _records(reader: Reader, offset: int) -> list[Record]:
    """The messages at an offset and behind it, as far as one answer brings them; none at the end."""
    try:
        return await reader.fetch(offset, wait_ms=0)
    except RequestFailed as error:
        if error.code != ERR_OFFSET_RANGE:
            raise
        return []


async def _last_time(reader: Reader, last_seq: int) -> str:
    """When the last message came; no time if it is gone."""
    records = await _records(reader, last_seq - 1) if last_seq else []
    return rfc3339(records[-1].timestamp_ms) if records else ZERO_TIME


async def _deleted(reader: Reader, first_seq: int, last_seq: int) -> list[int]:
    """The sequences between these two that have no message: what is there is read."""
    gone: list[int] = []
    offset = first_seq - 1
    while offset < last_seq:
        records = await _records(reader, offset)
        there = {record.offset for record in records}
        end = min(max(reader.position, offset + 1), last_seq)
        gone += [one + 1 for one in range(offset, end) if one not in there]
        offset = end
    return gone


async def describe(room: Room, info: StreamInfo, details: bool = False) -> StreamInfoAnswer:
    """All of a stream."""
    totals, consumers = await asyncio.gather(
        room.counted.totals(room.client, info), room.client.consumers(info)
    )
    copied = await copied_states(room, info, totals.behind)
    return StreamInfoAnswer(
        config=from_stream_config(info.config),
        state=await stream_state(room, info, totals, len(consumers), details),
        mirror=copied[0] if info.config.mirrors else UNSET,
        sources=copied or UNSET if not info.config.mirrors else UNSET,
        cluster=cluster_state(room, info),
        domain=room.domain,
        ts=rfc3339(now_ms()),
        created=rfc3339(created) if (created := created_ms(info.config)) else ZERO_TIME,
    )
