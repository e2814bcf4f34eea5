"""Turn each sale into a bill, once, however often this program is killed and begun again.

The bills and how far the sales are done are stored together. Begin it twice: the later process takes over,
and the earlier one is told so.
"""

import asyncio
import os
import sys

from liftlog.client import Client, ProcessorFenced
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
SALES = 200


async def prepare(client: Client) -> None:
    """The streams, and some sales."""
    if "sales" in {stream.config.name for stream in await client.streams()}:
        return
    # For a processor that may be away for a day.
    await client.create_stream(StreamConfig("bills", "bills", dedupe_window_ms=86_400_000))
    await client.create_stream(StreamConfig("sales", "sales"))
    async with client.publisher(lambda result: None, insist=True) as publisher:
        for number in range(SALES):
            await publisher.send(number, "sales", b"%d" % number)


async def main() -> None:
    async with await Client.connect(NATS) as client:
        await prepare(client)
        try:
            async with client.processor(
                "billing", source="sales", sink="bills", begin=0, records_max=10
            ) as processor:
                while processor.position < SALES:
                    batch = await anext(processor)
                    numbers = [int(record.value or b"0") for record in batch.records]
                    # Each third sale is a gift: nothing comes of it.
                    await batch.commit([b"bill %d" % number for number in numbers if number % 3])
        except ProcessorFenced as fenced:
            sys.exit(f"replaced: {fenced}")
        print(f"{processor.position} sales are done")


asyncio.run(main())
