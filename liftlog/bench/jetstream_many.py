"""As many JetStream streams as there are partitions, or as many as it makes within a time: R3, on files."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import nats
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import Error as JetStreamError

from liftlog.bench.jetstream import JetStream
from liftlog.bench.usage import usage_of
from liftlog.scratch import Scratch

AT_ONCE = 8
"""Creations under way at any time."""
REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class JetStreamStreams:
    """What came of it."""

    created: int
    refused: int
    """Requests without an answer, or with an error."""
    seconds: float
    idle_cpu_share: float
    """Processor seconds for each second and server, with these streams and nothing to do."""


class JetStreamMany(JetStream):
    """Three servers. The first stream is made at the start and not counted."""

    def __init__(self, scratch: Scratch, nodes: int) -> None:
        super().__init__(scratch, nodes, False, "many.first", "first")
        self._copies = min(nodes, 3)

    def measure(self, count: int, seconds_max: float, idle_s: float) -> JetStreamStreams:
        """Create `count` streams, no longer than `seconds_max`; then look at what they cost at rest."""
        self.start()
        created, refused, seconds = asyncio.run(self._create_many(count, seconds_max))
        before_s = usage_of(self.pids).cpu_seconds
        time.sleep(idle_s)
        cpu_s = usage_of(self.pids).cpu_seconds - before_s
        return JetStreamStreams(created, refused, seconds, cpu_s / idle_s / len(self.pids))

    async def _create_many(self, count: int, seconds_max: float) -> tuple[int, int, float]:
        client = await nats.connect(self._servers[0].url)
        jetstream = client.jetstream(timeout=REQUEST_TIMEOUT_S)
        began_s = time.monotonic()
        waiting, created, refused = list(range(count, 0, -1)), 0, 0

        async def work() -> None:
            nonlocal created, refused
            while waiting and time.monotonic() - began_s < seconds_max:
                number = waiting.pop()
                try:
                    await jetstream.add_stream(
                        StreamConfig(
                            name=f"many{number}",
                            subjects=[f"many.{number}"],
                            storage=StorageType.FILE,
                            num_replicas=self._copies,
                        )
                    )
                    created += 1
                except (JetStreamError, nats.errors.Error):
                    refused += 1

        try:
            await asyncio.gather(*(work() for _ in range(AT_ONCE)))
            return created, refused, time.monotonic() - began_s
        finally:
            await client.close()
