"""The call about the account."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import msgspec

from liftlog.jetstream.answers import JsAnswer
from liftlog.jetstream.calls import JsCall
from liftlog.jetstream.configs import API_LEVEL
from liftlog.jetstream.dispatch import Handlers, Room
from liftlog.jetstream.shown import shown_streams
from liftlog.messages import StreamInfo
from liftlog.types import LiftlogError

AT_ONCE = 64
COUNT_TIMEOUT_MS = 1000


class AccountLimits(msgspec.Struct):
    """None of these is limited."""

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False


class ApiStats(msgspec.Struct):
    level: int
    total: int
    errors: int


class AccountInfo(JsAnswer):
    kind: ClassVar[str] = "account_info"
    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    streams: int
    consumers: int
    limits: AccountLimits
    api: ApiStats
    domain: str


async def account_info(room: Room, call: JsCall) -> AccountInfo:
    """How much there is."""
    streams = await shown_streams(room.client)
    turn = asyncio.Semaphore(AT_ONCE)

    async def consumers_of(info: StreamInfo) -> int:
        """None of a stream without a leader: by this call clients find out whether anybody is here."""
        async with turn:
            try:
                return len(await room.client.consumers(info, timeout_ms=COUNT_TIMEOUT_MS))
            except LiftlogError:
                return 0

    consumers = sum(await asyncio.gather(*map(consumers_of, streams)))
    return AccountInfo(
        memory=0,
        storage=0,
        reserved_memory=0,
        reserved_storage=0,
        streams=len(streams),
        consumers=consumers,
        limits=AccountLimits(),
        api=ApiStats(API_LEVEL, room.calls, room.errors),
        domain=room.domain,
    )


HANDLERS: Handlers = {"INFO": account_info}
