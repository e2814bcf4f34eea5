"""Read what a stream holds now, all partitions at once, and no further.

The stream is that of publish_fast.py: run that first.
"""

import asyncio
import os
from collections import Counter

from liftlog.client import Client, Gap

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")


def told(gap: Gap) -> None:
    print(f"partition {gap.partition}: retention took {gap.first} to {gap.next - 1} before they were read")


async def main() -> None:
    counts: Counter[int] = Counter()
    keys: dict[bytes, int] = {}
    async with (
        await Client.connect(NATS) as client,
        await client.read("purchases", replica="any", on_gap=told) as reading,
    ):
        async for partition, record in reading:
            counts[partition] += 1
            assert record.key is not None
            assert keys.setdefault(record.key, partition) == partition
    print(f"read {sum(counts.values())} purchases of {len(keys)} customers from {len(counts)} partitions")


asyncio.run(main())
