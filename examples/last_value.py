"""Keep the last value of every key in a compacted stream, and rebuild the table from it."""

import asyncio
import os

from liftlog.client import ByKey, Client, PublishResult, RequestFailed
from liftlog.messages import ERR_COMPACTED
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
PARTITIONS = 2
"""Of all publishers alike, for ever: a key that moved would leave its old value behind."""


async def write(client: Client) -> None:
    def on_result(result: PublishResult) -> None:
        if result.outcome != "ok":
            raise SystemExit(f"not stored: {result.error}")

    async with await client.stream_publisher("users", on_result, ByKey(), partitions=PARTITIONS) as publisher:
        for tag, (key, value) in enumerate(
            [("ada", b"1"), ("bob", b"1"), ("ada", b"2"), ("eve", b"1"), ("bob", None)]
        ):
            await publisher.send(tag, value, key=key)


async def read(client: Client) -> dict[bytes, bytes]:
    """From the front to the end; begun again if deletions were dropped that it had not come to."""
    while True:
        table: dict[bytes, bytes] = {}
        try:
            async with await client.read("users") as reading:
                async for _, record in reading:
                    if record.key is None:
                        continue
                    if record.value is None:
                        table.pop(record.key, None)
                    else:
                        table[record.key] = record.value
            return table
        except RequestFailed as error:
            if error.code != ERR_COMPACTED:
                raise


async def main() -> None:
    async with await Client.connect(NATS) as client:
        if "users" not in {stream.config.name for stream in await client.streams()}:
            await client.create_stream(StreamConfig("users", "users", partitions=PARTITIONS, compact=True))
        await write(client)
        for key, value in sorted((await read(client)).items()):
            print(key.decode(), value.decode())


asyncio.run(main())
