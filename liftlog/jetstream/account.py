"""The call about the account."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from liftlog.jetstream.answers import JsAnswer
from liftlog.jetstream.calls import JsCall
from liftlog.jetstream.dispatch import Handlers, Room

API_LEVEL = 0
"""Reported, a promise: clients use what a level brings. 1 is message TTL, pauses and priority groups."""


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
    streams = await room.client.streams()
    return AccountInfo(
        memory=0,
        storage=0,
        reserved_memory=0,
        reserved_storage=0,
        streams=len(streams),
        consumers=0,
        limits=AccountLimits(),
        api=ApiStats(API_LEVEL, room.calls, room.errors),
        domain=room.domain,
    )


HANDLERS: Handlers = {"INFO": account_info}
