"""Real nodes: with one copy left an operator lowers the minimum in sync, and raises it again (R13, R19)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, liftlog, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_R19_a_lower_minimum_goes_on_with_fewer_copies_and_loses_nothing(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client, server = harness.client, ("--nats", harness.cluster.nats_url)
        await client.create_stream(StreamConfig("orders", "orders", 1, 3, 3))

        async def two_in_sync() -> bool:
            partition = (await client.sure_stream("orders")).streams[0].partitions[0]
            return len(partition.isr) == 2 and bool(partition.leader)

        await harness.newest_level()
        alter = ("stream", "alter", "orders", "--min-insync-replicas")
        async with Writer(client, "orders", "value") as writer:
            await writer.more_acks(20)
            partition = (await client.sure_stream("orders")).streams[0].partitions[0]
            gone = next(node for node in partition.replicas if node != partition.leader)
            await harness.kill(gone)
            await until(two_in_sync, "two copies in sync")
            assert "min_insync_replicas 3 -> 2" in await harness.run(*alter, "2")
            info = await harness.run("stream", "info", "orders", "--linearizable")
            assert "of which 2 must be in sync" in info
            await writer.more_acks(20)
            code, _, error = await asyncio.to_thread(liftlog, *alter, "4", *server)
            assert code and "it must be 1 to the replication factor, which is 3" in error
            code, _, error = await asyncio.to_thread(
                liftlog, "stream", "alter", "orders", "--replicas", "1", *server
            )
            assert code and "lower min_insync_replicas too" in error
            assert "min_insync_replicas 2 -> 3" in await harness.run(*alter, "3")
            await harness.start(gone)
            await writer.more_acks(20)
        await harness.in_sync("orders", 3)
        await harness.check_nothing_lost("orders", writer)

    with_cluster(tmp_path, 3, story)
