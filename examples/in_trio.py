"""Publish and read in a trio program."""

import os

import trio

from liftlog.client import PublishResult, RoundRobin
from liftlog.client.on_trio import KeyedMessage, TrioClient
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
COUNT = 1000


async def main() -> None:
    stored = []

    def on_result(result: PublishResult) -> None:
        if result.outcome == "ok":
            stored.append(result.tag)

    async with TrioClient.connect(NATS) as client:
        if "ticks" not in {stream.config.name for stream in await client.streams()}:
            await client.create_stream(StreamConfig("ticks", "ticks", partitions=2))
        async with client.stream_publisher("ticks", on_result, RoundRobin()) as publisher:
            await publisher.send_all([KeyedMessage(tag, b"%d" % tag) for tag in range(COUNT)])
        print(f"stored {len(stored)}")
        seen = 0
        with trio.fail_after(30):
            async with client.read("ticks") as reading:
                async for _partition, _record in reading:
                    seen += 1
        print(f"read {seen}")


trio.run(main)
