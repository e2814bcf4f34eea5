"""Keep a total for each customer: the last record of a customer's key is what he has bought.

What this program needs to go on it reads out of what it has stored, once the processor is open: then nobody
else stores anything under its name, and all that was stored is there to be read.
"""

import asyncio
import os

from liftlog.client import BatchRecord, Client
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
TILLS = 300


async def prepare(client: Client) -> None:
    """The streams, and what was bought."""
    if "tills" in {stream.config.name for stream in await client.streams()}:
        return
    await client.create_stream(StreamConfig("bought", "bought", dedupe_window_ms=86_400_000))
    await client.create_stream(StreamConfig("tills", "tills"))
    async with client.publisher(lambda result: None, insist=True) as publisher:
        for number in range(TILLS):
            await publisher.send(number, "tills", b"%s %d" % ((b"ada", b"bob")[number % 2], number % 7))


async def totals_so_far(client: Client) -> dict[bytes, int]:
    """By customer."""
    found: dict[bytes, int] = {}
    async for records in client.read_all(await client.stream("bought")):
        found |= {record.key: int(record.value or b"0") for record in records if record.key is not None}
    return found


async def main() -> None:
    async with await Client.connect(NATS) as client:
        await prepare(client)
        async with client.processor(
            "totals", source="tills", sink="bought", begin=0, records_max=20
        ) as processor:
            totals = await totals_so_far(client)
            while processor.position < TILLS:
                batch = await anext(processor)
                changed = set()
                for record in batch.records:
                    customer, _, amount = (record.value or b"").partition(b" ")
                    totals[customer] = totals.get(customer, 0) + int(amount)
                    changed.add(customer)
                await batch.commit(
                    [BatchRecord(b"%d" % totals[customer], customer) for customer in sorted(changed)]
                )
        for customer, total in sorted((await totals_so_far(client)).items()):
            print(customer.decode(), total)


asyncio.run(main())
