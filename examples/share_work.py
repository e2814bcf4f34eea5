"""Share the partitions of a stream among programs: a consumer group, one member of which stops halfway."""

import asyncio
import os

from liftlog.client import Client
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
MESSAGES = 200


async def work(client: Client, done: list[tuple[int, int]], stop_after: int) -> None:
    """A message is done when the next one is asked for."""
    async with client.group("mailing", ["letters"], session_ms=3000) as member:
        async for message in member:
            done.append((message.partition, message.record.offset))
            stop_after -= 1
            if stop_after == 0:
                await member.commit()  # This one too, now.
                return


async def main() -> None:
    async with await Client.connect(NATS) as client:
        await client.create_stream(StreamConfig("letters", "letters", partitions=4))
        for number in range(MESSAGES):
            subject = "letters" if number % 4 == 0 else f"letters.{number % 4}"
            result = await client.publish(subject, f"letter {number}".encode())
            assert result.outcome == "ok", result
        first: list[tuple[int, int]] = []
        second: list[tuple[int, int]] = []
        await work(client, first, 50)
        await work(client, second, MESSAGES - 50)
        left = sum(share.lag for share in await client.group_lag("mailing"))
    print(f"worked through {len({*first, *second})} of {MESSAGES}; left to do: {left}")


asyncio.run(main())
