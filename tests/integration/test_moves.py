"""Copies are moved between real nodes, and a node is drained, while messages come (R20)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from liftlog.messages import PartitionInfo
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, liftlog, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]


async def record(harness: Harness) -> PartitionInfo:
    return (await harness.client.sure_stream("orders")).streams[0].partitions[0]


async def whole(harness: Harness, avoid: int) -> None:
    """Nothing is moved any more, and one node keeps nothing."""

    async def reached() -> bool:
        partition = await record(harness)
        over = not partition.target and not partition.dropping and avoid not in partition.replicas
        return over and sorted(partition.isr) == sorted(partition.replicas)

    await until(reached, f"a partition that is whole, and not on node {avoid}")


def test_R20_copies_are_moved_and_a_node_is_drained_while_messages_come(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client, server = harness.client, ("--nats", harness.cluster.nats_url)
        await client.create_stream(StreamConfig("orders", "orders", 1, 3))

        await harness.newest_level()
        async with Writer(client, "orders", "value") as writer:
            await writer.more_acks(50)
            before = await record(harness)
            new = next(node for node in (1, 2, 3, 4) if node not in before.replicas)
            gone = before.leader
            stay = [node for node in before.replicas if node != gone]
            named = ",".join(map(str, (new, *stay)))
            move = ("stream", "move", "orders", "0", "--to")
            # Who is to have a copy is away: the move waits, and goes on by itself.
            await harness.kill(new)
            assert f"its copies go to nodes {new}" in await harness.run(*move, named)
            await writer.more_acks(20)
            assert f"{new} {' '.join(map(str, stay))}" in await harness.run("stream", "moves")
            await harness.start(new)
            await whole(harness, gone)
            assert "nothing is being moved" in await harness.run("stream", "moves")
            await writer.more_acks(20)
            assert (await record(harness)).replicas == [new, *stay]
            drained = (await record(harness)).leader
            code, _, error = await asyncio.to_thread(liftlog, "cluster", "remove", str(drained), *server)
            assert code and f"liftlog cluster drain {drained}" in error
            assert "is being drained" in await harness.run("cluster", "drain", str(drained))
            await whole(harness, drained)
            await writer.more_acks(20)
            assert "drained already" in await harness.run("cluster", "drain", str(drained))
            assert "may keep copies again" in await harness.run("cluster", "drain", str(drained), "--cancel")
            code, _, error = await asyncio.to_thread(liftlog, *move, "1,2", *server)
            assert code and "replication factor of 3" in error
        await harness.in_sync("orders", 3)
        await harness.check_nothing_lost("orders", writer)

    with_cluster(tmp_path, 4, story)
