"""Real nodes retire: one that is dead is replaced, one that lives gives away what it has; and a stream is
paused while messages come (I3, N1).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

FOUNDERS = (1, 2, 3)


def three_begin(cluster: LocalCluster) -> None:
    """Three nodes found the cluster; each other one knows a single member."""
    for number, node in cluster.nodes.items():
        named = FOUNDERS if number in FOUNDERS else (1, number)
        peers = {peer: cluster.peer_addresses[peer] for peer in named}
        node.config = msgspec.structs.replace(node.config, peers=peers, join=number not in FOUNDERS)


async def nodes_are(harness: Harness, wanted: list[int], voters: list[int]) -> None:
    async def reached() -> bool:
        status = await harness.client.status(timeout_ms=1000)
        known = sorted(info.node for info in status.nodes)
        return known == wanted and sorted(status.contact.voters) == voters

    await until(reached, f"nodes {wanted}, of which {voters} vote", 60.0)


async def whole(harness: Harness, name: str, nodes: list[int]) -> None:
    async def reached() -> bool:
        partition = (await harness.client.sure_stream(name)).streams[0].partitions[0]
        return sorted(partition.replicas) == sorted(partition.isr) == nodes and not partition.target

    await until(reached, f"copies of '{name}' on {nodes}, all in sync", 60.0)


def test_I3_a_dead_node_is_replaced_and_a_living_one_retires_while_messages_come(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        cluster, client = harness.cluster, harness.client
        await harness.newest_level()
        await client.create_stream(StreamConfig("orders", "orders", 1, 3))
        await harness.in_sync("orders", 3)
        async with Writer(client, "orders", "value") as writer:
            await writer.more_acks(20)
            await harness.kill(3)
            assert "liftlog cluster add 4 HOST:PORT" in await harness.refused("cluster", "replace", "3", "4")
            await harness.run("cluster", "add", "4", cluster.peer_addresses[4])
            # The heir was added, and is not there yet: all waits for it, and nobody else gets the copy.
            await harness.kill(4)
            assert "in favour of node 4" in await harness.run("cluster", "replace", "3", "4")

            async def waits() -> bool:
                said = await harness.run("cluster", "status")
                return "node 3 retires in favour of node 4: 1 copy to move; node 4 is not here" in said

            await until(waits, "a line that says who is waited for")
            await writer.more_acks(20)
            await harness.start(4)
            await whole(harness, "orders", [1, 2, 4])
            await nodes_are(harness, [1, 2, 4], [1, 2, 4])
            assert "removed already" in await harness.run("cluster", "remove", "3", "--drain")
            await writer.more_acks(20)

            # A node that lives, the leader, goes by one request; whoever is controller sees to it.
            await harness.run("cluster", "add", "5", cluster.peer_addresses[5])
            leader = await harness.leader("orders")
            stay = sorted({1, 2, 4, 5} - {leader})
            assert "retires" in await harness.run("cluster", "remove", str(leader), "--drain")
            other = next(node for node in stay if node != 5)
            await harness.kill(other)
            await harness.start(other)
            await whole(harness, "orders", stay)
            # Its vote went to node 5, which was a spare: it named no heir.
            await nodes_are(harness, stay, stay)
            ended = await asyncio.to_thread(cluster.nodes[leader].wait)
            assert ended is not None
            assert "it was removed from the cluster" in cluster.nodes[leader].log_path.read_text()
            await writer.more_acks(20)
            # Nobody else can have its copy: it says so, and stays until somebody takes that back.
            assert "retires" in await harness.run("cluster", "remove", "5", "--drain")

            async def stuck() -> bool:
                said = await harness.run("cluster", "status")
                return "node 5 retires: 1 copy to move; 'orders' partition 0 has no other node" in said

            await until(stuck, "a line that says what the retirement waits for")
            assert "node 5 stays" in await harness.run("cluster", "remove", "5", "--cancel")
            assert "does not retire" in await harness.run("cluster", "remove", "5", "--cancel")
            await writer.more_acks(20)
        await harness.check_nothing_lost("orders", writer)

    with_cluster(tmp_path, 5, story, three_begin, begin_with=FOUNDERS)


def test_N1_a_paused_stream_takes_nothing_and_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        await harness.newest_level()
        await client.create_stream(StreamConfig("orders", "orders", 1, 3))
        async with Writer(client, "orders", "value", ack_timeout_ms=500) as writer:
            await writer.more_acks(50)
            assert "is paused" in await harness.run("stream", "pause", "orders")

            async def pub() -> str:
                words = ("pub", "orders", "x", "--timeout", "2")
                return await harness.refused(*words)

            async def nobody() -> bool:
                return "stream 'orders' is paused" in await pub()

            await until(nobody, "publishers that hear of no responders, and why")
            taken = len(await harness.read("orders"))
            leader = (await harness.partition("orders")).leader
            # Another leader, and the same node again: the pause is the stream's.
            await harness.kill(leader)

            async def another() -> bool:
                return (await harness.partition("orders")).leader not in (0, leader)

            await until(another, "another leader")
            assert "stream 'orders' is paused" in await pub()
            await harness.start(leader)
            await harness.in_sync("orders", 3)
            assert len(await harness.read("orders")) == taken, "reads go on, and nothing came"
            assert "liftlog stream resume orders" in await harness.run("stream", "info", "orders")
            assert "liftlog stream resume orders" in await harness.run("cluster", "status")
            assert "is resumed" in await harness.run("stream", "resume", "orders")
            await writer.more_acks(50)
        await harness.check_nothing_lost("orders", writer)

    with_cluster(tmp_path, 3, story)
