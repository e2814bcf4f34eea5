"""A cluster before its leader is stopped: everybody in sync, the offices on the nodes that were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from liftlog.client import Client, RequestFailed, Unreachable
from liftlog.types import LiftlogError

NODES = 3
WAIT_S = 60.0


async def whole(client: Client, stream: str) -> int:
    """Wait until every replica is in sync and the leader listens; return the leader. Raises LiftlogError."""

    async def leader() -> int:
        partition = (await client.stream(stream, timeout_ms=2000)).partitions[0]
        return partition.leader if partition.ready and len(partition.isr) == NODES else 0

    return await _until(leader, "every replica in sync")


async def arrange(client: Client, leader: int, both: bool) -> int:
    """Make the leader the controller, or another node; return the controller. Raises LiftlogError."""

    async def controller() -> int:
        status = await client.status(timeout_ms=1000)
        if status.controller and (status.controller == leader) == both:
            return status.controller
        if status.controller:
            await client.transfer_controller(leader if both else leader % NODES + 1, timeout_ms=1000)
        return 0

    return await _until(controller, "another controller")


async def _until(condition: Callable[[], Awaitable[int]], what: str) -> int:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + WAIT_S
    while loop.time() < deadline_s:
        try:
            if value := await condition():
                return value
        except (RequestFailed, Unreachable):
            pass
        await asyncio.sleep(0.05)
    raise LiftlogError(f"not within {WAIT_S:.0f} s: {what}")
