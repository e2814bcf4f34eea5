"""Publish many messages with keys over the partitions of a stream, thousands in flight."""

import asyncio
import os
from collections import Counter

from liftlog.client import ByKey, Client, PublishResult
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
COUNT = 5000


async def main() -> None:
    outcomes: Counter[str] = Counter()
    unsure: list[int] = []

    def on_result(result: PublishResult) -> None:
        outcomes[result.outcome] += 1
        if result.outcome != "ok":
            unsure.append(result.tag)

    async with await Client.connect(NATS) as client:
        if "purchases" not in {stream.config.name for stream in await client.streams()}:
            await client.create_stream(StreamConfig("purchases", "purchases", partitions=3))
        async with await client.stream_publisher("purchases", on_result, ByKey()) as publisher:
            for tag in range(COUNT):
                await publisher.send(tag, b"purchase %d" % tag, key=f"customer-{tag % 50}")
        # Here every message has its result.
    print(f"stored {outcomes['ok']} of {COUNT}; to be published again: {unsure}")


asyncio.run(main())
