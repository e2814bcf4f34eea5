"""Real nodes that are added to a cluster, and removed from it, while it runs (I3)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, liftlog, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

FOUNDERS = (1, 2, 3)


def three_begin(cluster: LocalCluster) -> None:
    """Of the nodes that there are, three found the cluster; each other one knows a single member."""
    for number, node in cluster.nodes.items():
        named = FOUNDERS if number in FOUNDERS else (number % 3 + 1, number)
        peers = {peer: cluster.peer_addresses[peer] for peer in named}
        node.config = msgspec.structs.replace(node.config, peers=peers, join=number not in FOUNDERS)


async def live(harness: Harness, wanted: list[int]) -> None:
    async def reached() -> bool:
        status = await harness.client.status(timeout_ms=1000)
        return sorted(info.node for info in status.nodes if info.live) == wanted

    await until(reached, f"sessions of nodes {wanted}")


def test_I3_nodes_are_added_serve_vote_and_are_removed_while_messages_come(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        cluster, client = harness.cluster, harness.client
        server = ("--nats", cluster.nats_url)
        await live(harness, [1, 2, 3])
        strange = cluster.nodes[4].log_path

        async def refused() -> bool:
            hint = "liftlog cluster add"
            said = [cluster.nodes[number].log_path.read_text() for number in FOUNDERS]
            return hint in strange.read_text() and any(f"{hint} 4 HOST:PORT" in text for text in said)

        await until(refused, "a line in the logs of the stranger and of who refused it")
        await client.create_stream(StreamConfig("orders", "orders", 1, 3))
        async with Writer(client, "orders", "value") as writer:
            await writer.more_acks(20)
            for number in (4, 5):
                address = cluster.peer_addresses[number]
                code, said, error = await asyncio.to_thread(
                    liftlog, "cluster", "add", str(number), address, *server
                )
                assert code == 0, error
                assert f"node {number} is of the cluster, at {address}" in said
            await live(harness, [1, 2, 3, 4, 5])
            again = await client.add_node(4, cluster.peer_addresses[4])
            assert again == f"node 4 is of the cluster already, at {cluster.peer_addresses[4]}"
            await client.create_stream(StreamConfig("wide", "wide", 1, 5))
            await harness.in_sync("wide", 5)
            await client.set_voter(4, True)

            async def votes() -> bool:
                seen = [await client.status(node, timeout_ms=1000) for node in harness.running()]
                return all(list(status.contact.voters) == [1, 2, 3, 4] for status in seen)

            await until(votes, "a fourth voter")
            await client.transfer_controller(4)

            async def leads() -> bool:
                return await harness.controller() == 4

            await until(leads, "the node that was added as controller")
            # Who starts knows the founders alone, by its file, and none of them leads.
            await harness.kill(1)
            await harness.start(1)
            await live(harness, [1, 2, 3, 4, 5])
            code, _, error = await asyncio.to_thread(liftlog, "cluster", "remove", "5", *server)
            assert code and "node 5 keeps a copy of a partition (wide)" in error
            code, _, error = await asyncio.to_thread(liftlog, "cluster", "remove", "4", *server)
            assert code and "node 4 keeps a copy of a partition (wide)" in error
            await client.delete_stream("wide")
            code, said, error = await asyncio.to_thread(liftlog, "cluster", "remove", "5", *server)
            assert code == 0, error
            # The one who was asked may be the one who ends: then another says that it was done.
            assert "node 5 is removed; its number is not used again" in said or "removed already" in said
            ended = await asyncio.to_thread(cluster.nodes[5].wait)
            assert ended is not None
            assert "it was removed from the cluster" in cluster.nodes[5].log_path.read_text()
            await live(harness, [1, 2, 3, 4])
            code, _, error = await asyncio.to_thread(liftlog, "cluster", "remove", "4", *server)
            assert code and "node 4 has a vote: take it with 'liftlog cluster demote 4'" in error
            # Whoever joined has all that it needs on its own disk.
            await harness.kill(4)
            await harness.leader("orders")
            await writer.more_acks(20)
            await harness.start(4)
            await live(harness, [1, 2, 3, 4])
            await writer.more_acks(20)
        await harness.in_sync("orders", 3)
        await harness.check_nothing_lost("orders", writer)

    with_cluster(tmp_path, 5, story, three_begin, begin_with=FOUNDERS)


def test_R20_copies_spread_over_added_nodes_while_messages_come(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        cluster, client = harness.cluster, harness.client
        await harness.newest_level()
        await client.create_stream(StreamConfig("orders", "orders", 1, 3))
        await client.create_stream(StreamConfig("wide", "wide", 6, 2, min_insync_replicas=1))

        async def kept() -> list[int]:
            """By each node that has a copy or is to have one."""
            partitions = [one for info in await client.streams() for one in info.partitions]
            nodes = [node for one in partitions for node in one.target or one.replicas]
            return [nodes.count(node) for node in sorted(set(nodes))]

        async with Writer(client, "orders", "value") as one, Writer(client, "wide.1", "other") as other:
            for number in (4, 5):
                await client.add_node(number, cluster.peer_addresses[number])
            await live(harness, [1, 2, 3, 4, 5])
            plan = json.loads(await harness.run("cluster", "balance", "--dry-run", "--json"))
            assert [node["copies"] for node in plan["nodes"]] == [5, 5, 5, 0, 0]
            assert sum(len(set(move["to"]) - set(move["replicas"])) for move in plan["moves"]) == 6
            assert await kept() == [5, 5, 5]
            balancing = asyncio.create_task(harness.run("cluster", "balance", "--at-a-time", "2"))

            async def begun() -> bool:
                return len(await kept()) > 3

            await until(begun, "a copy on another node")
            # A node that restarts in the middle is waited for.
            await harness.kill(4)
            await harness.start(4)
            assert (await balancing).endswith("balanced: nodes 1, 2, 3, 4, 5 keep 3 copies\n")
            assert await kept() == [3, 3, 3, 3, 3]

            async def whole() -> bool:
                partitions = [one for info in await client.streams() for one in info.partitions]
                return all(sorted(one.isr) == sorted(one.replicas) for one in partitions)

            # Who has only just restarted got no office back yet.
            await until(whole, "copies that are in sync")
            again = json.loads(await harness.run("cluster", "balance", "--json"))
            assert again["balanced"] and not again["moves"]
            await one.more_acks(20)
            await other.more_acks(20)
            led = [partition.leader for info in await client.streams() for partition in info.partitions]
            assert sorted(led.count(node) for node in cluster.nodes) == [1, 1, 1, 2, 2]
        await harness.check_nothing_lost("orders", one)
        await harness.check_nothing_lost("wide", other, 1)

    with_cluster(tmp_path, 5, story, three_begin, begin_with=FOUNDERS)
