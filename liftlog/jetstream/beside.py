"""The door in a node's process: an event loop in a thread of its own beside trio, with its own connection.

It waits for NATS and for the cluster as any client does, and comes back after whatever went wrong with it: a
node does not stop for its door.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

import trio

from liftlog.client.client import Client
from liftlog.eventlog import say
from liftlog.jetstream.advisories import leaders_advisory
from liftlog.jetstream.door import Door, DoorPlace
from liftlog.messages import TellAdvisory
from liftlog.types import LiftlogError

PAUSE_S = 1.0
"""Before another attempt."""
Connect = Callable[[], Awaitable[Client]]
Opened = Callable[[bool], None]


async def serve_door(connect: Connect, place: DoorPlace, over: asyncio.Event, opened: Opened) -> None:
    """Answer until `over`; `opened` is told each time whether the bare prefix is served."""
    ends = asyncio.ensure_future(over.wait())
    try:
        while not over.is_set():
            serving = asyncio.ensure_future(_serve_once(connect, place, opened))
            await asyncio.wait([serving, ends], return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            try:
                await serving
            except asyncio.CancelledError:
                pass
            except LiftlogError as error:
                say(logging.WARNING, "jetstream", f"JetStream's door is closed: {error}", open=False)
            except Exception as error:
                text = f"JetStream's door has fallen shut: {type(error).__name__}: {error}"
                say(logging.ERROR, "jetstream", text, open=False)
            await asyncio.wait([ends], timeout=PAUSE_S)
    finally:
        ends.cancel()


async def _serve_once(connect: Connect, place: DoorPlace, opened: Opened) -> None:
    """Until cancelled. Raises LiftlogError if it cannot begin."""
    client = await connect()
    door = Door(client, place)
    try:
        opened(await door.open())
        await asyncio.get_running_loop().create_future()
    finally:
        await door.close()
        await client.close()


class DoorBeside:
    """What a node runs beside itself."""

    def __init__(self, connect: Connect, place: DoorPlace) -> None:
        self._connect = connect
        self._place = place

    def words(self, advisory: TellAdvisory) -> tuple[bytes, bytes]:
        """As the door would tell what this node's leaders know."""
        return leaders_advisory(advisory, self._place.domain)

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
