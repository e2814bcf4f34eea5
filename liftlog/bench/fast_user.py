"""A publisher of a fast batch, with nats-py, as ADR-50 of JetStream tells publishers to be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from liftlog.bench.consumer import ConsumingError

FLOW = 500
"""Messages between two acks, at most."""
ACKS_TO_COME = 2
BEGIN, GO_ON, CLOSE = 0, 1, 3


class FastPublisher:
    """One batch without gaps, on one subject."""

    def __init__(self, connection: NatsConnection, subject: str, silence_s: float) -> None:
        self._connection = connection
        self._subject = subject
        self._silence_s = silence_s
        self._inbox = f"{connection.new_inbox()}.fast"
        self._sent = self._acked = 0
        self._flow = 0
        self._told = asyncio.Event()
        self._end: dict[str, Any] = {}

    async def begin(self, payload: bytes) -> None:
        """Publish the first message, and hear how many may follow."""
        await self._connection.subscribe(f"{self._inbox}.>", cb=self._hear)
        await self._publish(payload, BEGIN)
        await self._wait(lambda: self._flow > 0)

    async def add(self, payload: bytes) -> None:
        """Publish one more."""
        await self._publish(payload, GO_ON)
        if self._acked + ACKS_TO_COME * self._flow <= self._sent:
            await self._wait(lambda: self._acked + ACKS_TO_COME * self._flow > self._sent)

    async def close(self) -> int:
        """Returns how many are stored, which are all."""
        sent = self._sent
        await self._publish(b"", CLOSE)
        await self._wait(lambda: bool(self._end))
        if self._end["count"] != sent:
            raise ConsumingError(f"of {sent} messages of a fast batch {self._end['count']} are stored")
        return sent

    async def _publish(self, payload: bytes, operation: int) -> None:
        self._sent += 1
        reply = f"{self._inbox}.{FLOW}.fail.{self._sent}.{operation}.$FI"
        await self._connection.publish(self._subject, payload, reply)

    async def _hear(self, message: Msg) -> None:
        told = json.loads(message.data)
        if told.get("type") == "ack":
            self._acked, self._flow = max(self._acked, told["seq"]), told["msgs"]
        elif "batch" in told:
            self._end = told
        else:
            self._end = {"count": f"none ({told})"}
        self._told.set()

    async def _wait(self, done: Callable[[], bool]) -> None:
        """Raises ConsumingError if the batch ends first, TimeoutError."""
        async with asyncio.timeout(self._silence_s):
            while not done() and not self._end:
                self._told.clear()
                await self._told.wait()
        if self._end and not done():
            raise ConsumingError(f"a fast batch ended by itself: {self._end}")
