"""Acks that a program asks for at the same time go in one request.

What is asked for while a request is under way goes in the next one, all of it together. So a program that
acks message by message from many tasks waits for two requests at most, its own and the one before. A request
that fails fails for all who are in it. Who stops waiting leaves it to the others; the last one ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

Sending = Callable[[Sequence[int]], Awaitable[list[int]]]
"""Sends acks of these offsets; returns those of which no delivery is known."""


class AckRequest:
    """Offsets that go together."""

    def __init__(self) -> None:
        self.offsets: dict[int, None] = {}
        self.waiting = 0
        self.task: asyncio.Task[set[int]] | None = None


class JoinedAcks:
    """Those of one consumer in one program."""

    def __init__(self, send: Sending) -> None:
        self._send = send
        self._turn = asyncio.Lock()
        self._next: AckRequest | None = None
        """Who comes now goes in this one: it has not been sent yet."""

    async def ack(self, offsets: Sequence[int]) -> list[int]:
        """Returns those of which no delivery is known. Raises as `send`."""
        if not offsets:
            return []
        request = self._next
        if request is None:
            request = self._next = AckRequest()
            request.task = asyncio.create_task(self._run(request))
        request.offsets.update(dict.fromkeys(offsets))
        request.waiting += 1
        assert request.task is not None
        try:
            unknown = await asyncio.shield(request.task)
        finally:
            request.waiting -= 1
            if not request.waiting:
                request.task.cancel()
                self._close(request)
        return [offset for offset in offsets if offset in unknown]

    async def _run(self, request: AckRequest) -> set[int]:
        async with self._turn:
            self._close(request)
            return set(await self._send(sorted(request.offsets)))

    def _close(self, request: AckRequest) -> None:
        """Nobody joins it any more."""
        if self._next is request:
            self._next = None
