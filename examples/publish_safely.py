"""Publish so that each message is stored, at least once: an unknown outcome is published again."""

import asyncio
import os
import sys

from liftlog.client import Client
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")


async def store(client: Client, subject: str, value: bytes) -> int:
    """The offset at which it is stored."""
    for _ in range(10):
        result = await client.publish(subject, value)
        if result.outcome == "ok":
            return result.offset
        print(f"{result.outcome}: {result.error}", file=sys.stderr)
        if result.outcome == "fail":
            view = await client.who_acks(subject, max_age_ms=0)
            if not view.acks_when_well:
                sys.exit(f"no stream will ever ack {subject!r}")
            for listener in view.listeners:
                print(f"{listener.stream}: {listener.state} ({listener.detail})", file=sys.stderr)
        await asyncio.sleep(1)
    sys.exit(f"gave up on {value!r}")


async def main() -> None:
    async with await Client.connect(NATS) as client:
        known = {stream.config.name for stream in await client.streams()}
        if "invoices" not in known:
            await client.create_stream(StreamConfig("invoices", "invoices.>"))
        for number in range(3):
            offset = await store(client, "invoices.new", b"invoice %d" % number)
            print(f"invoice {number} is stored at offset {offset}")


asyncio.run(main())
