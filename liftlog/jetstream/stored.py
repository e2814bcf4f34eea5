"""Single messages: got by sequence or subject, got directly, deleted.

A *direct get* is answered with the message itself: its headers, and those that say where it stood.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, ClassVar, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from liftlog.client.errors import RequestFailed
from liftlog.client.reader import NEW, TIME, Reader
from liftlog.jetstream.answers import JsAnswer, SuccessAnswer, rfc3339
from liftlog.jetstream.blocks import publish_block
from liftlog.jetstream.calls import JsCall
from liftlog.jetstream.configs import allows_direct
from liftlog.jetstream.dispatch import Handlers, Room
from liftlog.jetstream.errors import (
    BAD_REQUEST,
    MESSAGE_DELETE,
    NO_MESSAGE,
    SEALED,
    SEQUENCE_NOT_FOUND,
    STREAM_NOT_FOUND,
    JsError,
)
from liftlog.jetstream.scanning import count_from, matching
from liftlog.jetstream.shown import find_stream
from liftlog.jetstream.statuses import JsStatus
from liftlog.messages import ERR_OFFSET_RANGE, StreamInfo
from liftlog.subjects.grammar import is_literal, pattern_tokens, subject_problem
from liftlog.types import Record

SUBJECTS_MAX = 1024
"""So many messages one request for the last of several subjects gets at most."""
BATCH_BYTES = 64 * 1024 * 1024
"""What one request gets if it names no bound."""
FETCH_BYTES = 1024
"""A fetch brings the batch in which a message stands, and no more."""
AT_ONCE = 64
"""So many questions of one request are under way at once."""

EMPTY_REQUEST = JsStatus(408, "Empty Request")
MALFORMED_REQUEST = JsStatus(408, "Malformed Request")
BAD_DIRECT_REQUEST = JsStatus(408, "Bad Request")
NOT_FOUND = JsStatus(404, "Message Not Found")
NO_RESULTS = JsStatus(404, "No Results")
TOO_MANY_RESULTS = JsStatus(413, "Too Many Results")
END_OF_BATCH = JsStatus(204, "EOB")


Count = Annotated[int, msgspec.Meta(ge=0)]


class GetRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which message: of this sequence, the last of a subject, or the next one that a filter matches."""

    seq: Count | None = None
    last_by_subj: str | None = None
    next_by_subj: str | None = None
    batch: Count | None = None
    max_bytes: Count | None = None
    start_time: datetime | None = None
    multi_last: list[str] | None = None
    up_to_seq: Count | None = None
    up_to_time: datetime | None = None
    no_hdr: bool = False

    @property
    def contradicts(self) -> bool:
        """Whether it asks for two things at once."""
        seq, last, following = self.seq or 0, self.last_by_subj, self.next_by_subj
        return bool(
            (seq > 0 and last)
            or (seq > 0 and self.start_time is not None)
            or (self.start_time is not None and last)
            or (last and following)
            or (last and self.multi_last)
            or (following and self.multi_last)
            or (last and self.batch)
            or (self.up_to_seq and self.up_to_time is not None)
        )

    @property
    def empty(self) -> bool:
        """Whether it names no message."""
        named = self.seq, self.last_by_subj, self.next_by_subj, self.multi_last, self.start_time
        return not any(named)


class StoredMessage(msgspec.Struct):
    """A message as it is kept; `hdrs` and `data` in base64."""

    subject: str
    seq: int
    time: str
    data: str | UnsetType = UNSET
    hdrs: str | UnsetType = UNSET


class MessageAnswer(JsAnswer):
    kind: ClassVar[str] = "stream_msg_get"
    message: StoredMessage


class DeleteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """`no_erase`: accepted, and all the same: bytes stay on disk until retention takes their segment."""

    seq: Count = 0
    no_erase: bool = False


# -- finding -----------------------------------------------------------------------------------------------


async def message_at(reader: Reader, seq: int) -> Record | None:
    """The message of this sequence; None: there is none, or none any more."""
    if not 1 <= seq <= await reader.offset(NEW):
        return None
    try:
        records = await reader.fetch(seq - 1, max_bytes=FETCH_BYTES, wait_ms=0)
    except RequestFailed as error:
        if error.code != ERR_OFFSET_RANGE:
            raise
        return None
    return records[0] if records and records[0].offset == seq - 1 else None


async def last_of(room: Room, info: StreamInfo, subject: str) -> Record | None:
    """The last message that a subject, or a pattern, matches."""
    if subject_problem(subject):
        return None
    if is_literal(pattern_tokens(subject)):
        found = await room.client.last(info, subject)
        return None if found is None else found.record
    subjects = await room.client.subjects(info, subject)
    records = await lasts_of(room, info, [one.decode() for one in subjects])
    return max(records, key=lambda record: record.offset, default=None)


async def lasts_of(room: Room, info: StreamInfo, subjects: list[str]) -> list[Record]:
    """The last message of each of these subjects, by offset."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(subject: str) -> Record | None:
        async with turn:
            found = await room.client.last(info, subject)
            return None if found is None else found.record

    found = await asyncio.gather(*map(one, subjects))
    return sorted((record for record in found if record is not None), key=lambda record: record.offset)


async def next_of(room: Room, info: StreamInfo, subject: str, seq: int) -> Record | None:
    """The next message, at this sequence or above, that a filter matches."""
    if subject_problem(subject):
        return None
    found = await room.client.next_matching(info, subject, max(0, seq - 1))
    return None if found is None else found.record


async def sequence_at(reader: Reader, moment: datetime) -> int:
    """The first sequence at or after a moment."""
    return await reader.offset(TIME, int(moment.timestamp() * 1000)) + 1


async def find(room: Room, info: StreamInfo, request: GetRequest) -> Record | None:
    """The one message that is asked for."""
    reader = room.client.reader(info, 0)
    seq = request.seq or 0
    if request.start_time is not None:
        seq = await sequence_at(reader, request.start_time)
    if request.last_by_subj:
        return await last_of(room, info, request.last_by_subj)
    if request.next_by_subj:
        return await next_of(room, info, request.next_by_subj, seq)
    return await message_at(reader, seq)


# -- message get and delete --------------------------------------------------------------------------------


async def get_message(room: Room, call: JsCall) -> MessageAnswer:
    """One message, as JSON."""
    request = call.body(GetRequest)
    if request.batch or request.max_bytes or request.multi_last or request.contradicts or request.empty:
        raise BAD_REQUEST.because()
    record = await find(room, await find_stream(room.client, call.stream), request)
    if record is None:
        raise NO_MESSAGE.because()
    message = StoredMessage(record.subject.decode(), record.offset + 1, rfc3339(record.timestamp_ms))
    if record.value:
        message.data = base64.b64encode(record.value).decode()
    if record.headers and not request.no_hdr:
        message.hdrs = base64.b64encode(record.headers).decode()
    return MessageAnswer(message)


async def delete_message(room: Room, call: JsCall) -> SuccessAnswer:
    """Delete one message for good."""
    if not call.payload.strip():
        raise BAD_REQUEST.because()
    request = call.body(DeleteRequest)
    info = await find_stream(room.client, call.stream)
    if info.config.sealed is True:
        raise SEALED.because()
    if info.config.deny_delete is True:
        raise MESSAGE_DELETE.because("message delete not permitted")
    reader = room.client.reader(info, 0)
    if await message_at(reader, request.seq) is None:
        if request.seq > await reader.offset(NEW):
            raise MESSAGE_DELETE.because("stream store EOF")
        raise SEQUENCE_NOT_FOUND.because(request.seq)
    try:
        await room.client.delete(call.stream, 0, request.seq - 1)
    except RequestFailed as error:
        raise MESSAGE_DELETE.because(error) from None
    return SuccessAnswer()


# -- direct get --------------------------------------------------------------------------------------------


class BatchPlace(NamedTuple):
    """What a message that is got in a batch says beside: how many are to come, and what was given last."""

    pending: int
    last_seq: int

    @property
    def headers(self) -> dict[str, object]:
        return {"Nats-Num-Pending": self.pending, "Nats-Last-Sequence": self.last_seq}


def direct_block(stream: str, record: Record, place: BatchPlace | None, bare: bool) -> bytes:
    """The headers of a message that is got directly: its own, and where it stands."""
    if bare:
        return b""
    added: dict[str, object] = {
        "Nats-Stream": stream,
        "Nats-Subject": record.subject.decode(),
        "Nats-Sequence": record.offset + 1,
        "Nats-Time-Stamp": rfc3339(record.timestamp_ms),
    }
    added |= place.headers if place is not None else {}
    lines = "".join(f"{name}: {text}\r\n" for name, text in added.items())
    block = record.headers.removesuffix(b"\r\n") or b"NATS/1.0\r\n"
    return block + lines.encode() + b"\r\n"


async def _give(room: Room, call: JsCall, record: Record, place: BatchPlace | None, bare: bool) -> None:
    block = direct_block(call.stream, record, place, bare)
    await publish_block(room.nats, call.reply, block, record.value or b"")


async def direct_get(room: Room, call: JsCall) -> None:
    """A message, or several, themselves; what is wrong is a status."""
    if not call.reply:
        return
    problem = await _direct_get(room, call)
    if problem is not None:
        await publish_block(room.nats, call.reply, problem.block())


async def _direct_get(room: Room, call: JsCall) -> JsStatus | None:
    try:
        request = call.body(GetRequest)
    except JsError:
        return MALFORMED_REQUEST
    if call.rest:
        if not request.empty or request.batch or request.up_to_seq or request.up_to_time is not None:
            return BAD_DIRECT_REQUEST
        request.last_by_subj = call.rest
    elif request.empty:
        return EMPTY_REQUEST
    if request.contradicts:
        return BAD_DIRECT_REQUEST
    info = await find_stream(room.client, call.stream)
    if not allows_direct(info.config):
        raise STREAM_NOT_FOUND.because()
    if request.multi_last:
        return await _get_lasts(room, call, info, request)
    if request.batch:
        return await _get_batch(room, call, info, request)
    record = await find(room, info, request)
    if record is None:
        return NOT_FOUND
    await _give(room, call, record, None, request.no_hdr)
    return None


async def _get_batch(room: Room, call: JsCall, info: StreamInfo, request: GetRequest) -> JsStatus | None:
    """So many messages from a sequence on, of those that a filter matches."""
    reader = room.client.reader(info, 0)
    seq = request.seq or 0
    if request.start_time is not None:
        seq = await sequence_at(reader, request.start_time)
    pattern = request.next_by_subj or ">"
    if subject_problem(pattern):
        return NOT_FOUND
    pending = await count_from(reader, pattern, seq)
    left = request.max_bytes or BATCH_BYTES
    count, last_seq = 0, 0
    async with aclosing(matching(reader, pattern, max(1, seq))) as found:
        async for record in found:
            count += 1
            pending = max(0, pending - 1)
            await _give(room, call, record, BatchPlace(pending, last_seq), request.no_hdr)
            last_seq = record.offset + 1
            left -= len(record.subject) + len(record.headers) + len(record.value or b"")
            if left <= 0 or count >= (request.batch or 1):
                break
    if not last_seq:
        return NOT_FOUND
    block = END_OF_BATCH.block(BatchPlace(pending, last_seq).headers)
    await publish_block(room.nats, call.reply, block)
    return None


async def _get_lasts(room: Room, call: JsCall, info: StreamInfo, request: GetRequest) -> JsStatus | None:
    """The last message of each subject that one of the filters matches, as of a sequence or a moment."""
    reader = room.client.reader(info, 0)
    end = await reader.offset(NEW)
    up_to = request.up_to_seq or end
    if request.up_to_time is not None:
        up_to = await sequence_at(reader, request.up_to_time) - 1
        if up_to < 1:
            return NO_RESULTS
    subjects: set[str] = set()
    for pattern in request.multi_last or []:
        if not subject_problem(pattern):
            subjects |= {one.decode() for one in await room.client.subjects(info, pattern)}
        if len(subjects) > SUBJECTS_MAX:
            return TOO_MANY_RESULTS
    records = []
    for record in await lasts_of(room, info, sorted(subjects)):
        kept = record if record.offset < up_to else await _last_up_to(reader, record.subject, up_to)
        if kept is not None and kept.offset + 1 >= (request.seq or 0):
            records.append(kept)
    if not records:
        return NO_RESULTS
    records.sort(key=lambda record: record.offset)
    last_seq, pending, left = 0, len(records), request.max_bytes or BATCH_BYTES
    for record in records[: request.batch or SUBJECTS_MAX]:
        pending -= 1
        await _give(room, call, record, BatchPlace(pending, last_seq), False)
        last_seq = record.offset + 1
        left -= len(record.subject) + len(record.headers) + len(record.value or b"")
        if left <= 0:
            break
    ends = BatchPlace(pending, last_seq).headers | {"Nats-UpTo-Sequence": up_to}
    await publish_block(room.nats, call.reply, END_OF_BATCH.block(ends))
    return None


async def _last_up_to(reader: Reader, subject: bytes, up_to: int) -> Record | None:
    """The last message of a subject at a sequence or below, which the last of all is not."""
    last = None
    async with aclosing(matching(reader, subject.decode(), 1, up_to)) as found:
        async for record in found:
            last = record
    return last


HANDLERS: Handlers = {
    "STREAM.MSG.GET": get_message,
    "STREAM.MSG.DELETE": delete_message,
    "DIRECT.GET": direct_get,
}
