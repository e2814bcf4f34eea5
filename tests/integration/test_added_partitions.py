"""A stream gets more partitions while it is published to and followed, and a node is down (R19)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from liftlog.client import FOREVER
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]


class Follower:
    """Follows a stream from its front, and keeps what it sees."""

    def __init__(self, harness: Harness, stream: str) -> None:
        self._harness = harness
        self._stream = stream
        self.seen: dict[tuple[int, int], str] = {}
        """By partition and offset."""
        self.out_of_order: list[tuple[int, int]] = []

    async def __aenter__(self) -> Follower:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        client = self._harness.client
        due: dict[int, int] = {}
        async with await client.read(self._stream, until=FOREVER, timeout_ms=30_000) as found:
            async for partition, record in found:
                if record.offset != due.get(partition, 0):
                    self.out_of_order.append((partition, record.offset))
                due[partition] = record.offset + 1
                assert record.value is not None
                self.seen[partition, record.offset] = record.value.decode()

    async def has(self, partition: int, writer: Writer) -> None:
        """Wait until everything that was acknowledged has been seen, and was what it was."""

        async def reached() -> bool:
            if self._task.done():
                await self._task
            return all((partition, offset) in self.seen for offset in writer.acked)

        await until(reached, f"all acknowledged messages of partition {partition} at who follows")
        assert {offset: self.seen[partition, offset] for offset in writer.acked} == writer.acked


def test_R19_a_stream_gets_partitions_while_it_is_published_to_and_followed(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client

        await harness.newest_level()
        await client.create_stream(StreamConfig("orders", "orders", 1, 3))
        await client.create_stream(StreamConfig("beside", "orders.4", 1, 3))
        alter = ("stream", "alter", "orders", "--partitions")
        writers = [Writer(client, "orders", "p0")]
        async with Follower(harness, "orders") as follower, contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(writers[0])
            await writers[0].more_acks(50)
            assert await harness.said(*alter, "2") == (0, "stream 'orders': partitions 1 -> 2\n")
            writers.append(await stack.enter_async_context(Writer(client, "orders.1", "p1")))
            # N1: its leader listens already.
            await writers[1].more_acks(20)
            assert [result.error for result in writers[1].others] == []
            code, said = await harness.said(*alter, "5")
            assert code and "'orders.4' collides with stream 'beside'" in said
            code, said = await harness.said(*alter, "1")
            assert code and "there are 2, and what those beyond hold would be gone" in said
            leader = (await harness.partition("orders")).leader
            down, other = (node for node in (1, 2, 3) if node != leader)
            await harness.kill(down)
            await writers[0].more_acks(20)
            assert await harness.said(*alter, "4") == (0, "stream 'orders': partitions 2 -> 4\n")
            for number in (2, 3):
                writer = Writer(client, f"orders.{number}", f"p{number}")
                writers.append(await stack.enter_async_context(writer))
            for writer in writers:
                await writer.more_acks(20)
            # Who was down has never opened the new partitions, and another one dies that has.
            await harness.start(down)
            for number in range(4):
                await in_sync(harness, number)
            await harness.kill(other)
            for writer in writers:
                await writer.more_acks(20)
            await harness.start(other)
            await stack.aclose()
            for number, writer in enumerate(writers):
                await in_sync(harness, number)
                await follower.has(number, writer)
                assert writer.contradictions == []
            assert follower.out_of_order == []
        _, said = await harness.said("stream", "info", "orders", "--json")
        told = json.loads(said)
        assert told["config"]["partitions"] == 4
        assert [partition["index"] for partition in told["partitions"]] == [0, 1, 2, 3]
        code, said = await harness.said("sub", "orders", "--follow", "--count", "60", "--raw")
        assert code == 0 and len(said.splitlines()) == 60

    with_cluster(tmp_path, 3, story)


async def in_sync(harness: Harness, number: int) -> None:
    async def reached() -> bool:
        record = await harness.partition("orders", number)
        return record.ready and len(record.isr) == 3

    await until(reached, f"partition {number} in sync on three nodes")
