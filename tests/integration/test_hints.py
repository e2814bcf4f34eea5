"""What moves offices among real processes, and what does not: kills do; pauses and cut connections do not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, until, with_cluster
from tests.integration.proxy import Proxy
from tests.integration.stopping import stop, wake

pytestmark = [pytest.mark.real, pytest.mark.slow]

STREAM = StreamConfig("s", "s", replication_factor=3)
PAUSE_S = 0.5
OVERSLEPT_S = 0.1
"""A machine that is busy may leave a process stopped for longer than was asked for: that says nothing."""


def told(cluster: Harness, kind: str) -> list[dict[str, Any]]:
    """What the logs of all nodes say of one kind."""
    found = []
    for node in cluster.cluster.nodes.values():
        lines = [json.loads(line) for line in node.log_path.read_text().splitlines() if line[:5] == '{"at"']
        found += [line for line in lines if line["kind"] == kind]
    return found


def readable(cluster: LocalCluster) -> None:
    """Logs for programs."""
    for node in cluster.nodes.values():
        node.config = msgspec.structs.replace(node.config, log_format="json")


async def offices(cluster: Harness) -> tuple[int, int, int]:
    """Who is controller, how often somebody became it, and the epoch of the stream's leader."""
    partition = await cluster.partition("s")
    return await cluster.controller(), len(told(cluster, "controller")), partition.epoch


async def move_controller(cluster: Harness, to: int) -> None:
    async def moved() -> bool:
        if await cluster.controller() != to:
            await cluster.client.transfer_controller(to)
            return False
        return True

    await until(moved, f"node {to} as controller")


@pytest.mark.parametrize("both", [False, True])
def test_N2_a_killed_leader_is_replaced_because_nobody_listens_there(tmp_path: Path, both: bool) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        leader = await cluster.leader("s")
        await move_controller(cluster, leader if both else leader % 3 + 1)
        async with Writer(cluster.client, "s", "hint") as writer:
            await writer.more_acks(50)
            epoch = (await cluster.partition("s")).epoch
            await cluster.kill(leader)
            await writer.more_acks(100)
            partition = await cluster.partition("s")
            assert partition.epoch == epoch + 1, "one election"
            assert leader not in partition.isr
        hints = told(cluster, "hint")
        assert any(hint.get("about") == leader and hint["lost"] for hint in hints)
        assert any("silent_ms" in hint for hint in hints), "the session did not end by the hint"

    with_cluster(tmp_path, 3, story, readable)


def test_N2_a_pause_of_half_a_second_moves_no_office(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        leader = await cluster.leader("s")
        controller = leader % 3 + 1
        await move_controller(cluster, controller)
        judged = 0
        for victim in (leader, controller, controller % 3 + 1) * 2:
            await cluster.in_sync("s", 3)
            before = await offices(cluster)
            await stop(cluster, victim)
            began_s = time.monotonic()
            await asyncio.sleep(PAUSE_S)
            wake(cluster, victim)
            overslept = time.monotonic() - began_s > PAUSE_S + OVERSLEPT_S
            async with Writer(cluster.client, "s", f"pause{victim}") as writer:
                await writer.more_acks(50)
            if not overslept:
                judged += 1
                assert await offices(cluster) == before
        assert judged, "every pause was longer than asked for: this machine is too busy to tell"

    with_cluster(tmp_path, 3, story, readable)


@contextmanager
def between_nodes() -> Iterator[dict[int, Proxy]]:
    proxies: dict[int, Proxy] = {}
    try:
        yield proxies
    finally:
        for proxy in proxies.values():
            proxy.close()


def test_N2_connections_that_are_cut_again_and_again_move_no_office(tmp_path: Path) -> None:
    with between_nodes() as proxies:

        def prepare(cluster: LocalCluster) -> None:
            """Whoever connects to a node does so through its proxy."""
            readable(cluster)
            for number, address in cluster.peer_addresses.items():
                proxies[number] = Proxy(int(address.rpartition(":")[2]))
            for number, node in cluster.nodes.items():
                peers = {
                    peer: address if peer == number else f"127.0.0.1:{proxies[peer].port}"
                    for peer, address in cluster.peer_addresses.items()
                }
                node.config = msgspec.structs.replace(node.config, peers=peers)

        async def story(cluster: Harness) -> None:
            await cluster.client.create_stream(STREAM)
            leader = await cluster.leader("s")
            await cluster.in_sync("s", 3)
            before = await offices(cluster)
            async with Writer(cluster.client, "s", "flap") as writer:
                for _ in range(8):
                    for victim in (leader, before[0]):
                        proxies[victim].cut()
                        proxies[victim].mend()
                        await writer.more_acks(20)
            assert await offices(cluster) == before
            assert not any(line.get("state") == "expired" for line in told(cluster, "session"))

        with_cluster(tmp_path, 3, story, prepare)
