"""The door in a node's process: an event loop in a thread of its own beside trio, with its own connection.

It waits for NATS and for the cluster as any client does, and comes back after whatever went wrong with it: a
node does not stop for its door.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio

from liftlog.client.client import Client
from liftlog.eventlog import say
from liftlog.jetstream.door import Door
from liftlog.types import LiftlogError

PAUSE_S = 1.0
"""Before another attempt."""
Connect = Callable[[], Awaitable[Client]]


class Place(NamedTuple):
    """Where a door is: see `Door`."""

    domain: str
    node: int = 0
    leaf: str = ""


async def serve_door(
    connect: Connect, place: Place, over: asyncio.Event, opened: Callable[[bool], None]
) -> None:
    """Answer until `over`; `opened` is told each time whether the bare prefix is served."""
    while not over.is_set():
        try:
            client = await connect()
        except LiftlogError as error:
            say(logging.WARNING, "jetstream", f"JetStream's door is closed: {error}", open=False)
            await _pause(over)
            continue
        door = Door(client, place.domain, node=place.node, leaf=place.leaf)
        try:
            opened(await door.open())
            await over.wait()
        except Exception as error:
            say(logging.ERROR, "jetstream", f"JetStream's door has fallen shut: {error}", open=False)
            await _pause(over)
        finally:
            await door.close()
            await client.close()


async def _pause(over: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(PAUSE_S):
            await over.wait()
    except TimeoutError:
        pass


class DoorBeside:
    """What a node runs beside itself."""

    def __init__(self, connect: Connect, place: Place) -> None:
        self._connect = connect
        self._place = place

    async def run(self) -> None:
        """Until cancelled; then the door is closed, and its thread over."""
        loop = asyncio.new_event_loop()
        over = asyncio.Event()

        def work() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(serve_door(self._connect, self._place, over, lambda bare: None))

        thread = threading.Thread(target=work, name="liftlog-jetstream", daemon=True)
        thread.start()
        try:
            await trio.sleep_forever()
        finally:
            loop.call_soon_threadsafe(over.set)
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(thread.join)
