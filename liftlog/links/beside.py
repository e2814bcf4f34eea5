"""All other clusters of a node's configuration, on an event loop in a thread of its own beside trio."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence

import trio

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
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._links: dict[str, ClusterLink] = {}
        """Of the loop's thread."""
        self._post: Callable[[Event], None] = lambda event: None

    def attach(self, post: Callable[[Event], None]) -> None:
        """Where answers go, in trio's thread."""
        self._post = post

    def ask(self, question: AskOrigin) -> None:
        # A loop that is closed has nobody who could ask.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ask, question)

    def _ask(self, question: AskOrigin) -> None:
        link = self._links.get(question.cluster)
        if link is not None:
            link.ask(question)

    async def run(self) -> None:
        """Until cancelled; then all connections are closed, and the thread is over."""
        token = trio.lowlevel.current_trio_token()

        def answered(event: OriginAnswered) -> None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(self._post, event)

        def work() -> None:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve(answered))

        thread = threading.Thread(target=work, name="liftlog-links", daemon=True)
        thread.start()
        try:
            await trio.sleep_forever()
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(thread.join)

    async def _serve(self, answered: Callable[[OriginAnswered], None]) -> None:
        self._links = {place.name: ClusterLink(place, answered) for place in self._places}
        try:
            await self._over.wait()
        finally:
            for link in self._links.values():
                await link.close()
