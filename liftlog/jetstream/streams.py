"""The calls about streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from liftlog.client.errors import RequestFailed
from liftlog.client.reader import NEW
from liftlog.jetstream.advisories import tell_of_stream
from liftlog.jetstream.answers import JsAnswer, JsPage, SuccessAnswer
from liftlog.jetstream.calls import JsCall
from liftlog.jetstream.configs import (
    JsStreamConfig,
    born_as,
    from_stream_config,
    name_problem,
    stream_changes,
    to_stream_config,
)
from liftlog.jetstream.copies import as_the_origin, own_subjects, refuse_unknown
from liftlog.jetstream.dispatch import Handlers, Room
from liftlog.jetstream.errors import (
    BAD_REQUEST,
    PURGE_FAILED,
    REPLICAS_NOT_SUPPORTED,
    SEALED,
    STREAM_DELETE,
    STREAM_GENERAL,
    STREAM_INVALID,
    STREAM_NAME_EXISTS,
    STREAM_NAME_MISMATCH,
    STREAM_NOT_FOUND,
    SUBJECTS_OVERLAP,
)
from liftlog.jetstream.scanning import count_from
from liftlog.jetstream.shown import find_stream, is_shown, shown_streams
from liftlog.jetstream.states import StreamInfoAnswer, describe, now_ms
from liftlog.messages import ERR_EXISTS, ERR_NOT_FOUND, StreamInfo
from liftlog.subjects.grammar import overlap, subject_problem
from liftlog.types import StreamConfig

NAMES_MAX = 1024
"""So many names a page has."""
INFOS_MAX = 256
"""So many streams a page describes."""
SUBJECTS_MAX = 100_000
"""So many subjects of a stream a page has."""
AT_ONCE = 16
"""So many streams of a page are looked at at once."""


class PageRequest(msgspec.Struct, forbid_unknown_fields=True):
    """`subject`: only streams whose subjects have something in common with it."""

    offset: int = 0
    subject: str | None = None


class InfoRequest(msgspec.Struct, forbid_unknown_fields=True):
    """`subjects_filter`: count the messages of subjects that it matches."""

    subjects_filter: str | None = None
    deleted_details: bool = False
    offset: int = 0


class StreamPurge(msgspec.Struct, forbid_unknown_fields=True):
    """Purge what `filter` matches, below the sequence `seq`, or all but the newest `keep`."""

    filter: str | None = None
    seq: int | None = None
    keep: int | None = None


class StreamNamesAnswer(JsPage):
    kind: ClassVar[str] = "stream_names"
    streams: list[str]


class StreamListAnswer(JsPage):
    kind: ClassVar[str] = "stream_list"
    streams: list[StreamInfoAnswer]


class PurgedAnswer(JsAnswer):
    kind: ClassVar[str] = "stream_purge"
    purged: int
    success: bool = True


def _wanted(room: Room, call: JsCall) -> StreamConfig:
    """The configuration that was sent, as liftlog says it. Raises JsError."""
    wanted = call.body(JsStreamConfig)
    if wanted.name != call.stream:
        raise STREAM_NAME_MISMATCH.because()
    problem = name_problem(wanted.name)
    if problem:
        raise STREAM_INVALID.because(problem)
    config = to_stream_config(wanted, now_ms())
    refuse_unknown(config, room.clusters)
    return config


async def create_stream(room: Room, call: JsCall) -> StreamInfoAnswer:
    """Create it; the same configuration again is the same answer."""
    config = _wanted(room, call)
    if config.sealed is True:
        raise STREAM_INVALID.because("stream configuration for create can not be sealed")
    there = await room.client.streams()
    config = as_the_origin(config, there)
    same = next((info for info in there if info.config.name == config.name), None)
    if same is None:
        refuse_overlap(there, config)
        same = await _create(room, config)
        await tell_of_stream(room, config.name, "create")
    if not is_shown(same) or from_stream_config(same.config) != from_stream_config(config):
        raise STREAM_NAME_EXISTS.because()
    answer = await describe(room, same)
    answer.did_create = True
    return answer


async def _create(room: Room, config: StreamConfig) -> StreamInfo:
    """The stream, which may be there meanwhile. Raises JsError, LiftlogError."""
    try:
        return await room.client.create_stream(config)
    except RequestFailed as error:
        if error.retryable:
            raise
        if error.code == ERR_EXISTS:
            return await room.client.stream(config.name)
        status = await room.client.status()
        if config.replication_factor > len(status.nodes) == 1:
            raise REPLICAS_NOT_SUPPORTED.because() from None
        raise STREAM_INVALID.because(error) from None


def refuse_overlap(there: list[StreamInfo], config: StreamConfig) -> None:
    """JetStream lets no two streams keep the same message (liftlog does). Raises JsError."""
    for info in there:
        if info.config.name != config.name and has_subject_of(info.config, own_subjects(config)):
            raise SUBJECTS_OVERLAP.because()


def has_subject_of(config: StreamConfig, subjects: Sequence[str]) -> bool:
    """Whether a stream keeps what may come on one of these subjects."""
    return any(overlap(mine, other) for mine in own_subjects(config) for other in subjects)


async def update_stream(room: Room, call: JsCall) -> StreamInfoAnswer:
    """Change what can be changed while a stream is in use."""
    config = _wanted(room, call)
    info = await find_stream(room.client, call.stream)
    changes = stream_changes(info.config, born_as(info.config, config))
    if changes.named:
        refuse_overlap(await room.client.streams(), config)
        try:
            await room.client.alter_stream(call.stream, changes)
        except RequestFailed as error:
            if error.retryable:
                raise
            raise STREAM_INVALID.because(error) from None
        await tell_of_stream(room, call.stream, "modify")
        info = await find_stream(room.client, call.stream)
    return await describe(room, info)


async def delete_stream(room: Room, call: JsCall) -> SuccessAnswer:
    """Delete it, with all that it holds."""
    await find_stream(room.client, call.stream)
    try:
        await room.client.delete_stream(call.stream)
    except RequestFailed as error:
        if error.retryable:
            raise
        if error.code == ERR_NOT_FOUND:
            raise STREAM_NOT_FOUND.because() from None
        raise STREAM_DELETE.because(error) from None
    await tell_of_stream(room, call.stream, "delete")
    return SuccessAnswer()


async def purge_stream(room: Room, call: JsCall) -> PurgedAnswer:
    """Remove messages: all, those below a sequence, all but the newest; of all subjects or some."""
    request = call.body(StreamPurge) if call.has_object else StreamPurge()
    seq, keep = request.seq or 0, request.keep or 0
    if (seq > 0 and keep > 0) or seq < 0 or keep < 0:
        raise BAD_REQUEST.because()
    pattern = request.filter or ">"
    problem = subject_problem(pattern)
    if problem:
        raise STREAM_GENERAL.because(f"filter {pattern!r} is invalid: {problem}")
    info = await find_stream(room.client, call.stream)
    if info.config.sealed is True:
        raise SEALED.because()
    if info.config.deny_purge is True:
        raise PURGE_FAILED.because("stream purge not permitted")
    reader = room.client.reader(info, 0)
    end = await reader.offset(NEW)
    if pattern == ">" and not seq and not keep:
        messages = await count_from(reader, ">", 0)
        try:
            await room.client.purge(call.stream, 0, end)
            return PurgedAnswer(messages)
        except RequestFailed as error:
            # The front of the log stays where message ids are remembered by it; messages can go all the same.
            if error.retryable:
                raise
    up_to = min(end, seq - 1) if seq else end
    return PurgedAnswer(await room.client.purge_subjects(call.stream, 0, pattern, keep, up_to))


async def stream_info(room: Room, call: JsCall) -> StreamInfoAnswer:
    """What a stream is, and what is in it."""
    request = call.body(InfoRequest) if call.has_object else InfoRequest()
    info = await find_stream(room.client, call.stream)
    answer = await describe(room, info, request.deleted_details)
    answer.total = answer.offset = answer.limit = 0
    if request.subjects_filter:
        problem = subject_problem(request.subjects_filter)
        counts = {} if problem else await room.client.subjects(info, request.subjects_filter)
        if counts:
            offset = max(0, request.offset)
            answer.total, answer.offset, answer.limit = len(counts), offset, SUBJECTS_MAX
            page = sorted(counts)[offset : offset + SUBJECTS_MAX]
            answer.state.subjects = {subject.decode(): counts[subject] for subject in page}
    return answer


async def _page(room: Room, call: JsCall) -> tuple[int, list[StreamInfo]]:
    """Where a page begins, and all streams that pages are made of. Raises JsError."""
    request = call.body(PageRequest) if call.has_object else PageRequest()
    shown = await shown_streams(room.client)
    if request.subject:
        wanted = request.subject
        shown = [info for info in shown if has_subject_of(info.config, [wanted])]
    return min(max(0, request.offset), len(shown)), shown


async def stream_names(room: Room, call: JsCall) -> StreamNamesAnswer:
    """The names of all streams, or of those that may keep a subject; none is no error."""
    offset, shown = await _page(room, call)
    names = [info.config.name for info in shown[offset : offset + NAMES_MAX]]
    return StreamNamesAnswer(total=len(shown), offset=offset, limit=NAMES_MAX, streams=names)


async def list_streams(room: Room, call: JsCall) -> StreamListAnswer:
    """All streams, described. One that is deleted meanwhile is left out."""
    offset, shown = await _page(room, call)
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(info: StreamInfo) -> StreamInfoAnswer | None:
        async with turn:
            try:
                return await describe(room, info)
            except RequestFailed as error:
                if error.code != ERR_NOT_FOUND:
                    raise
                return None

    found = await asyncio.gather(*map(one, shown[offset : offset + INFOS_MAX]))
    streams = [answer for answer in found if answer is not None]
    return StreamListAnswer(total=len(shown), offset=offset, limit=INFOS_MAX, streams=streams)


HANDLERS: Handlers = {
    "STREAM.CREATE": create_stream,
    "STREAM.UPDATE": update_stream,
    "STREAM.DELETE": delete_stream,
    "STREAM.PURGE": purge_stream,
    "STREAM.INFO": stream_info,
    "STREAM.NAMES": stream_names,
    "STREAM.LIST": list_streams,
}
