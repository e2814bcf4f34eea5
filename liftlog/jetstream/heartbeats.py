"""Heartbeats: what is sent to who consumes when nothing else was for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from liftlog.jetstream import statuses
from liftlog.jetstream.answers import NS_PER_S
from liftlog.jetstream.leaf import Leaf, LeafMessage


class Heartbeats:
    """Of one pull, or push consumer: to `to`, whenever nothing was sent for `every_ns`; 0 = never."""

    def __init__(self, leaf: Leaf, to: str, every_ns: int) -> None:
        self._leaf = leaf
        self._to = to
        self._clock = asyncio.get_running_loop().time
        self._every_s = every_ns / NS_PER_S
        self._due_at = self._clock() + self._every_s
        self.last = (0, 0)
        """Sequences of what was given last: the consumer's, the stream's."""

    @property
    def due_at(self) -> float | None:
        """When the next one is, by the loop's clock; None: never."""
        return self._due_at if self._every_s else None

    def restart(self) -> None:
        """Something was sent."""
        self._due_at = self._clock() + self._every_s

    async def beat(self, beside: Mapping[str, object] | None = None) -> None:
        """Send one if it is due, with the headers `beside`. Raises LeafAway."""
        if not self._every_s or self._clock() < self._due_at:
            return
        self.restart()
        block = statuses.IDLE.block({**statuses.last_given(*self.last), **(beside or {})})
        await self._leaf.send([LeafMessage(self._to, block=block)])
