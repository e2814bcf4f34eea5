"""All other clusters of a node's configuration, on an event loop in a thread of its own beside trio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import trio

from liftlog.client.bridge import TrioBridge
from liftlog.links.link import ClusterLink
from liftlog.messages import AskOrigin, Event, OriginAnswered
from liftlog.otherclusters import OtherCluster


class LinksBeside:
    """What a node runs beside itself, to ask other clusters. `ask` and `run` belong to trio's thread."""

    def __init__(self, places: Sequence[OtherCluster]) -> None:
        """Raises LiftlogError for a file of secrets that cannot be used: better now than later."""
        for place in places:
            place.secrets()
        self._places = tuple(places)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._links: dict[str, ClusterLink] = {}
        """Of the loop's thread."""
        self._post: Callable[[Event], None] = lambda event: None

    def attach(self, post: Callable[[Event], None]) -> None:
        """Where answers go, in trio's thread."""
        self._post = post

    def ask(self, question: AskOrigin) -> None:
        """What is asked before `run` is ready is asked again."""
        # A loop that is closed has nobody who could ask.
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._ask, question)

    def _ask(self, question: AskOrigin) -> None:
        link = self._links.get(question.cluster)
        if link is not None:
            link.ask(question)

    async def run(self) -> None:
        """Until cancelled; then all connections are closed, and the thread is over."""
        async with TrioBridge("liftlog-links") as bridge:

            def answered(event: OriginAnswered) -> None:
                with contextlib.suppress(trio.RunFinishedError):
                    bridge.token.run_sync_soon(self._post, event)

            await bridge.run(lambda: self._serve(answered))

    async def _serve(self, answered: Callable[[OriginAnswered], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._links = {place.name: ClusterLink(place, answered) for place in self._places}
        try:
            await self._loop.create_future()
        finally:
            for link in self._links.values():
                await link.close()
