"""Real nodes and snapshots of their metadata (M1p, M1q): who was away installs one, also if it dies in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, liftlog, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

COMMANDS = 600
AT_ONCE = 40


def often(cluster: LocalCluster) -> None:
    """A snapshot after every 64 commands, of which 16 stay; each of its chunks holds few records."""
    for node in cluster.nodes.values():
        protocol = {**node.config.protocol, "raft_snapshot_entries": 64, "raft_chunk_records": 16}
        node.config = msgspec.structs.replace(node.config, protocol=protocol)


async def decide(harness: Harness, commands: int) -> None:
    """So many commands of the metadata group: each of these is one."""
    for _ in range(commands // AT_ONCE):
        await asyncio.gather(*(harness.client.rebalance(timeout_ms=20_000) for _ in range(AT_ONCE)))


def test_M1q_a_node_that_was_away_installs_a_snapshot_and_takes_part_again(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        for name in ("orders", "gone", "kept"):
            await client.create_stream(StreamConfig(name, name, 1, 3))
        async with Writer(client, "orders", "value") as writer:
            await writer.more_acks(20)
            had = (await client.status(3, timeout_ms=2000)).applied
            await harness.kill(3)
            await harness.in_sync("orders", 2)
            await client.delete_stream("gone")
            await decide(harness, COMMANDS)
            for _ in range(3):
                # Killed wherever it is by then: before the install, in the middle, or behind it.
                harness.cluster.nodes[3].launch()
                await asyncio.to_thread(harness.cluster.nodes[3].wait_ready)
                await harness.kill(3)
                await decide(harness, AT_ONCE)
            await harness.start(3)
            await harness.in_sync("orders", 3)
            await writer.more_acks(20)
        ours = await client.status(3, timeout_ms=2000)
        # It was away for more commands than any log keeps: its own begins behind what it had.
        assert ours.snapshot > had and ours.log_start > had and ours.installing is None

        async def equal() -> bool:
            seen = [await client.status(node, timeout_ms=1000) for node in (1, 2, 3)]
            return len({status.applied for status in seen}) == 1

        await until(equal, "all nodes to have applied the same commands")
        environment = {"LIFTLOG_NATS": harness.cluster.nats_url}
        code, text, _ = await asyncio.to_thread(liftlog, "cluster", "status", environment=environment)
        assert code == 0 and "SNAPSHOT" in text
        await harness.check_nothing_lost("orders", writer)
        # Everybody starts from snapshot and log; whoever was away may lead what it has not seen decided.
        for node in (1, 2, 3):
            await harness.kill(node)
        await harness.start(1, 2, 3)
        await harness.all_live()
        await harness.leader("kept")
        names = sorted([stream.config.name for stream in await client.streams(timeout_ms=10_000)])
        assert names == ["kept", "orders"]
        await client.create_stream(StreamConfig("later", "later", 1, 3))

    cluster = with_cluster(tmp_path, 3, story, often)
    for number, node in cluster.nodes.items():
        assert (node.config.data / "raft" / "snapshot").exists(), f"node {number} has a snapshot"
    told = cluster.nodes[3].log_path.read_text()
    assert "the metadata is in a snapshot of the first" in told
