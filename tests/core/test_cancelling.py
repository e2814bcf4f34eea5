"""What is cancelled ends, also when what it waits for comes at that very moment.

`asyncio.wait_for` of Python 3.11 kept such a cancellation to itself: a member of a group that is asked for a
message until a time has come went on waiting, and what had asked for ever with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from liftlog.client.grouping import GroupReading
from liftlog.groups.member import GroupMembership
from liftlog.moving.reading import OriginReading
from liftlog.moving.sending import PacketSender


async def is_cancelled_with(waiting: Coroutine[Any, Any, Any], moved: asyncio.Event) -> bool:
    task = asyncio.create_task(waiting)
    while not moved._waiters:
        await asyncio.sleep(0)
    moved.set()
    task.cancel()
    _, left = await asyncio.wait([task], timeout=5)
    ended = task.cancelled()
    for one in left:
        # What it waits for may never come again.
        one.cancel()
    return ended


def test_a_member_that_waits_for_messages() -> None:
    async def story() -> bool:
        membership = GroupMembership("m", "", 10_000, ["orders"])
        owner: Any = None
        member = GroupReading(owner, "billing", membership, None, None, "leader")
        return await is_cancelled_with(anext(member), member._moved)

    assert asyncio.run(story())


@pytest.mark.parametrize("kind", [OriginReading, PacketSender])
def test_a_copy_of_a_stream_that_waits(kind: type[Any]) -> None:
    async def story() -> bool:
        copying = kind.__new__(kind)
        copying._moved = asyncio.Event()
        if kind is PacketSender:
            copying._trouble = None
            return await is_cancelled_with(copying._wait(), copying._moved)
        copying._came = []
        return await is_cancelled_with(copying._one(float("inf")), copying._moved)

    assert asyncio.run(story())
