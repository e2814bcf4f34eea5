"""Publish so that each message is stored once and in order, however often it has to be sent."""

import asyncio
import os
import sys

from liftlog.client import Client, PublishResult
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
COUNT = 1000
PATIENCE_MS = 60_000
"""Longer than a fail-over takes, shorter than the stream remembers."""


async def main() -> None:
    offsets: dict[int, int] = {}

    def on_result(result: PublishResult) -> None:
        if result.outcome == "ok":
            offsets[result.tag] = result.offset
        else:
            print(f"{result.tag} {result.outcome}: {result.error}", file=sys.stderr)

    async with await Client.connect(NATS) as client:
        if "meter" not in {stream.config.name for stream in await client.streams()}:
            await client.create_stream(StreamConfig("meter", "meter", dedupe_window_ms=120_000))
        async with client.publisher(on_result, ack_timeout_ms=PATIENCE_MS, producer="house-7") as publisher:
            for number in range(COUNT):
                await publisher.send(number, "meter", b"reading %d" % number)
    in_order = [offsets[number] for number in sorted(offsets)]
    print(f"stored {len(offsets)} of {COUNT}, in order: {in_order == sorted(in_order)}")


asyncio.run(main())
