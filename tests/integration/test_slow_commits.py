"""A follower that stands still holds commits up: consumers wait, and are not given up (K4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from liftlog.client import ConsumerConfig
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, with_cluster
from tests.integration.stopping import stop, wake

pytestmark = [pytest.mark.real, pytest.mark.slow]


ASKING = 5
"""So many programs wait; with the times below each would be given the message, and the last one nothing."""


def patient(cluster: LocalCluster) -> None:
    """Who stands still is in sync for three seconds."""
    for node in cluster.nodes.values():
        protocol = {"session_timeout_ms": 6000, "replica_lag_max_ms": 3000, "replica_slow_ms": 0}
        node.config = msgspec.structs.replace(node.config, protocol=protocol)


def test_K4_what_is_being_recorded_for_long_is_neither_repeated_nor_given_up(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.client.create_stream(
            StreamConfig("s", "s", replication_factor=3, min_insync_replicas=2, removal=True)
        )
        await cluster.in_sync("s", 3)
        config = ConsumerConfig(ack_wait_ms=500, max_deliver=ASKING)
        consumer = await cluster.client.consumer("s", "c", config=config)
        await cluster.put("s", b"once", "")
        busy = await cluster.leader("s"), await cluster.controller()
        idle = next(number for number in cluster.running() if number not in busy)
        (first,) = await consumer.fetch(1, wait_ms=10_000)
        assert first.delivered == 1
        await stop(cluster, idle)
        try:
            asking = [asyncio.create_task(consumer.fetch(1, wait_ms=30_000)) for _ in range(ASKING)]
            done, others = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            (again,) = done.pop().result()
            assert await consumer.ack(again) == []
            told = await consumer.info()
            # One more if its answer, or this program, has waited for too long.
            assert told.floor == 1 and told.sequence <= 3, told
        finally:
            wake(cluster, idle)
        for task in others:
            task.cancel()
        await asyncio.wait(others)

    with_cluster(tmp_path, 3, story, patient)
