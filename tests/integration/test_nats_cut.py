"""One node loses NATS while its peers stay: leadership must go where publishers can reach it (N5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from liftlog.client import Client
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, until
from tests.integration.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_a_leader_cut_from_nats_hands_over_and_follows_when_it_is_back(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 3)
    assert cluster.nats is not None
    proxies = {number: Proxy(cluster.nats.port) for number in cluster.nodes}
    for number, node in cluster.nodes.items():
        url = f"nats://127.0.0.1:{proxies[number].port}"
        node.config = msgspec.structs.replace(node.config, nats_url=url)

    async def story() -> None:
        async with await Client.connect(cluster.nats_url) as client:
            harness = Harness(cluster, client)
            await harness.all_live()
            await client.create_stream(StreamConfig("s", "s", replication_factor=3))
            leader = await harness.leader("s")
            async with Writer(client, "s", "cut") as writer:
                await writer.more_acks(100)
                proxies[leader].cut()

                async def moved() -> bool:
                    return (await harness.partition("s")).leader not in (0, leader)

                await until(moved, "another leader after the old one lost NATS")
                await writer.more_acks(100)
                proxies[leader].mend()
                await harness.in_sync("s", 3)
                await writer.more_acks(100)
            await harness.check_nothing_lost("s", writer)

    try:
        with cluster:
            asyncio.run(story())
    finally:
        for proxy in proxies.values():
            proxy.close()
