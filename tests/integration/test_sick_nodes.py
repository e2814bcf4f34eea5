"""Real processes: a disk that becomes slow, and a process that is stopped again and again (R17, R18)."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest

from liftlog.bench.sicknode import SickNode, with_slow_disks
from liftlog.messages import PartitionInfo
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

STREAM = StreamConfig("s", "s", replication_factor=3, min_insync_replicas=2)
SLOW_MS = 150
"""What is late here: far above what a busy machine does to a healthy disk."""
SYNC_MS = 500


def removals(record: PartitionInfo) -> dict[int, int]:
    return {slow.node: slow.removals for slow in record.slow}


class Sick:
    """A cluster in which each disk can be made slow; `probation_ms` as stated."""

    def __init__(self, probation_ms: int) -> None:
        self._protocol = {"replica_slow_ms": SLOW_MS, "replica_probation_ms": probation_ms}
        self.disks: dict[int, SickNode] = {}

    def prepare(self, cluster: LocalCluster) -> None:
        self.disks = with_slow_disks(cluster)
        for node in cluster.nodes.values():
            node.config = msgspec.structs.replace(node.config, protocol=self._protocol)

    async def left(self, cluster: Harness, node: int) -> None:
        async def gone() -> bool:
            record = await cluster.partition("s")
            return node not in record.isr and removals(record).get(node, 0) > 0

        await until(gone, f"node {node} is out of sync since it is slow")

    async def back(self, cluster: Harness, node: int) -> None:
        async def joined() -> bool:
            return node in (await cluster.partition("s")).isr

        await until(joined, f"node {node} is in sync again", 60.0)


def test_R17_R18_who_has_a_slow_disk_leaves_and_comes_back_when_it_is_well(tmp_path: Path) -> None:
    """First a follower, then the leader, which hands its office over before."""
    sick = Sick(probation_ms=1000)

    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        await cluster.in_sync("s", 3)
        async with Writer(cluster.client, "s", "w") as writer:
            await writer.more_acks(200)
            leader = await cluster.leader("s")
            follower = leader % 3 + 1
            sick.disks[follower].slow(SYNC_MS)
            await sick.left(cluster, follower)
            assert (await cluster.partition("s")).leader == leader
            await writer.more_acks(200)
            sick.disks[follower].slow(0)
            await sick.back(cluster, follower)

            sick.disks[leader].slow(SYNC_MS)
            await sick.left(cluster, leader)
            record = await cluster.partition("s")
            assert record.leader not in (0, leader, follower)
            assert removals(record) == {leader: 1, follower: 1}
            await writer.more_acks(200)
            sick.disks[leader].slow(0)
            await sick.back(cluster, leader)
            assert (await cluster.partition("s")).leader == record.leader
        await cluster.check_nothing_lost("s", writer)

    stopped = with_cluster(tmp_path, 3, story, sick.prepare)
    said = "".join(node.log_path.read_text() for node in stopped.nodes.values())
    assert "it is out of sync until it keeps up, the first time" in said
    assert "which leads no more" in said


def test_R18_who_is_stopped_again_and_again_is_removed_once(tmp_path: Path) -> None:
    sick = Sick(probation_ms=4000)

    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        await cluster.in_sync("s", 3)
        async with Writer(cluster.client, "s", "w") as writer:
            await writer.more_acks(200)
            flaps = await cluster.leader("s") % 3 + 1
            node = cluster.cluster.nodes[flaps]

            async def caught_up() -> bool:
                status = await cluster.client.status(flaps, timeout_ms=1000)
                return any(copy.leo >= max(writer.acked) for copy in status.replicas)

            for turn in range(3):
                node.send(signal.SIGSTOP)
                if turn == 0:
                    await sick.left(cluster, flaps)
                await writer.more_acks(300)
                node.send(signal.SIGCONT)
                await until(caught_up, f"node {flaps} has what was acknowledged")
                record = await cluster.partition("s")
                assert flaps not in record.isr
                assert removals(record) == {flaps: 1}
            await sick.back(cluster, flaps)
            assert removals(await cluster.partition("s")) == {flaps: 1}
        await cluster.check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story, sick.prepare)
