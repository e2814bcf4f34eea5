"""Work through messages with a durable consumer, which two workers share; one of them gives up halfway."""

import asyncio
import os

from liftlog.client import Client, ConsumerConfig
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
CONFIG = ConsumerConfig(ack_wait_ms=10_000, max_deliver=5)
MESSAGES = 100


async def work(client: Client, done: list[int], stop_after: int) -> None:
    """Ack each message once its work is done."""
    consumer = await client.consumer("parcels", "shipping", config=CONFIG)
    async with consumer.pull(20) as deliveries:
        async for delivery in deliveries:
            if stop_after == 0:
                return  # What this worker has and has not acked goes to the other one at once.
            stop_after -= 1
            await consumer.ack(delivery)
            done.append(delivery.record.offset)
            if len(done) == MESSAGES:
                return


async def main() -> None:
    done: list[int] = []
    async with await Client.connect(NATS) as client:
        await client.create_stream(StreamConfig("parcels", "parcels", replication_factor=1, removal=True))
        for number in range(MESSAGES):
            result = await client.publish("parcels", f"parcel {number}".encode())
            assert result.outcome == "ok", result
        await work(client, done, 30)
        await work(client, done, MESSAGES)
        info = await (await client.consumer("parcels", "shipping")).info()
    print(f"worked through {len(set(done))} of {MESSAGES}, {len(done) - len(set(done))} of them twice")
    print(f"waiting for an ack: {info.ack_pending}; to come: {info.num_pending}")


asyncio.run(main())
