"""The calls about streams."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from liftlog.client.errors import RequestFailed
from liftlog.client.reader import EARLIEST, NEW
from liftlog.jetstream.answers import ZERO_TIME, Answer, rfc3339
from liftlog.jetstream.calls import Call
from liftlog.jetstream.configs import (
    JsStreamConfig,
    StreamConfigAnswer,
    from_stream_config,
    name_problem,
    to_stream_config,
)
from liftlog.jetstream.dispatch import Handlers, Room
from liftlog.jetstream.errors import (
    INVALID_JSON,
    STREAM_INVALID,
    STREAM_NAME_EXISTS,
    STREAM_NAME_MISMATCH,
    STREAM_NOT_FOUND,
    SUBJECTS_OVERLAP,
)
from liftlog.messages import ERR_EXISTS, StreamInfo
from liftlog.subjects.grammar import overlap
from liftlog.types import StreamConfig

NAMES_MAX = 1024
"""So many names a page has."""


class StreamState(msgspec.Struct):
    """What is in a stream. A stream without messages: `first_seq` is one more than `last_seq`."""

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


class StreamInfoAnswer(Answer):
    kind: ClassVar[str] = "stream_info"
    config: StreamConfigAnswer
    state: StreamState
    domain: str
    did_create: bool | UnsetType = UNSET


class StreamNamesAnswer(Answer):
    kind: ClassVar[str] = "stream_names"
    total: int
    offset: int
    limit: int
    streams: list[str]


class NamesRequest(msgspec.Struct, forbid_unknown_fields=True):
    """`subject`: only streams whose subjects have something in common with it."""

    offset: int = 0
    subject: str | None = None


def is_jetstream(info: StreamInfo) -> bool:
    """Whether a stream is one that the door shows: one partition, whose messages can be deleted."""
    return len(info.partitions) == 1 and info.config.has_journal


async def find_stream(room: Room, name: str) -> StreamInfo:
    """The stream of this name. Raises JsError, "stream not found", for those that the door does not show."""
    info = await room.client.stream(name)
    if not is_jetstream(info):
        raise STREAM_NOT_FOUND.because()
    return info


async def stream_state(room: Room, info: StreamInfo) -> StreamState:
    """What is in it now."""
    reader = room.client.reader(info, 0)
    last_seq = await reader.offset(NEW)
    counts = await room.client.subjects(info)
    first = await room.client.next_matching(info, ">", await reader.offset(EARLIEST))
    return StreamState(
        messages=sum(counts.values()),
        bytes=0,
        first_seq=first.record.offset + 1 if first is not None else last_seq + 1,
        first_ts=rfc3339(first.record.timestamp_ms) if first is not None else ZERO_TIME,
        last_seq=last_seq,
        last_ts=ZERO_TIME,
        consumer_count=0,
        num_subjects=len(counts) or UNSET,
    )


async def describe(room: Room, info: StreamInfo) -> StreamInfoAnswer:
    """All of a stream."""
    return StreamInfoAnswer(
        config=from_stream_config(info.config), state=await stream_state(room, info), domain=room.domain
    )


async def create_stream(room: Room, call: Call) -> StreamInfoAnswer:
    """Create it; the same configuration again is the same answer."""
    wanted = call.body(JsStreamConfig)
    if wanted.name != call.stream:
        raise STREAM_NAME_MISMATCH.because()
    problem = name_problem(wanted.name)
    if problem:
        raise STREAM_INVALID.because(problem)
    config = to_stream_config(wanted)
    there = await room.client.streams()
    same = next((info for info in there if info.config.name == config.name), None)
    if same is None:
        refuse_overlap(there, config)
        try:
            info = await room.client.create_stream(config)
        except RequestFailed as error:
            if error.code != ERR_EXISTS:
                raise STREAM_INVALID.because(error) from None
            same = await room.client.stream(config.name)
    if same is not None:
        if not is_jetstream(same) or from_stream_config(same.config) != from_stream_config(config):
            raise STREAM_NAME_EXISTS.because()
        info = same
    answer = await describe(room, info)
    answer.did_create = True
    return answer


def refuse_overlap(there: list[StreamInfo], config: StreamConfig) -> None:
    """JetStream lets no two streams keep the same message (liftlog does). Raises JsError."""
    for info in there:
        if info.config.name != config.name and overlap(info.config.subject, config.subject):
            raise SUBJECTS_OVERLAP.because()


async def stream_info(room: Room, call: Call) -> StreamInfoAnswer:
    """What a stream is, and what is in it."""
    return await describe(room, await find_stream(room, call.stream))


async def stream_names(room: Room, call: Call) -> StreamNamesAnswer:
    """The names of all streams, or of those that may keep a subject; none is no error."""
    request = call.body(NamesRequest)
    if request.offset < 0:
        raise INVALID_JSON.because("offset is negative")
    shown = [info for info in await room.client.streams() if is_jetstream(info)]
    if request.subject:
        shown = [info for info in shown if overlap(info.config.subject, request.subject)]
    names = sorted(info.config.name for info in shown)
    page = names[request.offset : request.offset + NAMES_MAX]
    return StreamNamesAnswer(total=len(names), offset=request.offset, limit=NAMES_MAX, streams=page)


HANDLERS: Handlers = {
    "STREAM.CREATE": create_stream,
    "STREAM.INFO": stream_info,
    "STREAM.NAMES": stream_names,
}
