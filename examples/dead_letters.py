"""Give up messages that cannot be worked through: they go to a stream of their own."""

import asyncio
import os

from liftlog.client import Client, ConsumerConfig
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
CONFIG = ConsumerConfig(ack_wait_ms=500, max_deliver=2, dead_letter="boxes.dead")
DAY_MS = 86_400_000
MESSAGES = 10


async def work(client: Client) -> None:
    """What has no address cannot be sent; one that is torn is terminated at once."""
    consumer = await client.consumer("boxes", "shipping", config=CONFIG)
    while (await consumer.info()).floor < MESSAGES:
        for delivery in await consumer.fetch(20, wait_ms=500):
            if delivery.record.value == b"torn":
                await consumer.term(delivery)
            elif delivery.record.value != b"no address":
                await consumer.ack(delivery)


async def main() -> None:
    async with await Client.connect(NATS) as client:
        await client.create_stream(StreamConfig("boxes", "boxes.new", replication_factor=1, removal=True))
        # It remembers the ids of letters: so each is there once.
        letters = StreamConfig("dead-boxes", "boxes.dead", replication_factor=1, dedupe_window_ms=DAY_MS)
        await client.create_stream(letters)
        for number in range(MESSAGES):
            value = {3: b"no address", 7: b"torn"}.get(number, b"box")
            result = await client.publish("boxes.new", value)
            assert result.outcome == "ok", result
        await work(client)
        async with await client.read("dead-boxes") as reading:
            async for _, record in reading:
                lines = [line.split(b": ", 1) for line in record.headers.split(b"\r\n") if b": " in line]
                headers = dict(lines)
                where, why = headers[b"Dead-Letter-Offset"], headers[b"Dead-Letter-Reason"]
                print(f"offset {where.decode()}: {(record.value or b'').decode()} ({why.decode()})")


asyncio.run(main())
