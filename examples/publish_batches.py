"""Publish many records in few messages: each batch is stored as a whole, or not at all."""

import asyncio
import os
from collections import Counter

from liftlog.client import BatchRecord, Client, PublishResult
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
BATCHES, SIZE = 50, 100


async def main() -> None:
    outcomes: Counter[str] = Counter()
    unsure: list[int] = []

    def on_result(result: PublishResult) -> None:
        outcomes[result.outcome] += result.records
        if result.outcome != "ok":
            unsure.append(result.tag)

    async with await Client.connect(NATS) as client:
        if "events" not in {stream.config.name for stream in await client.streams()}:
            await client.create_stream(StreamConfig("events", "events"))
        async with client.publisher(on_result, window=20) as publisher:
            for tag in range(BATCHES):
                await publisher.send_batch(tag, "events", [b"event %d" % n for n in range(SIZE)])
        # What belongs together is one batch: a reader who gets to its end has seen all of it.
        moved = await client.publish_batch(
            "events", [BatchRecord(b"-40", key=b"account-7"), BatchRecord(b"+40", key=b"account-8")]
        )
    print(f"stored {outcomes['ok']} of {BATCHES * SIZE}; to be published again: {unsure}")
    print(f"stored {moved.records} together, the first at offset {moved.offset}")


asyncio.run(main())
