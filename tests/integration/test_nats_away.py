"""While NATS is away: who knows where the nodes are asks them, and readers go on (N5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from liftlog.client import NEW, RequestFailed, Unreachable
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, liftlog, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]


async def run(*arguments: str) -> tuple[int, str, str]:
    return await asyncio.to_thread(liftlog, *arguments)


def test_N5_status_is_told_by_the_nodes_themselves(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        local = cluster.cluster
        await cluster.client.create_stream(StreamConfig("orders", "orders", replication_factor=3))
        await cluster.leader("orders")
        code, out, _ = await run("cluster", "status", "--node", local.addresses[2])
        assert code == 0 and "every partition takes messages" in out

        assert local.nats is not None
        local.nats.kill()
        code, out, err = await run("cluster", "status", "--nats", local.nats_url)
        assert code == 2 and not out and "--node HOST:PORT" in err

        by_config = ("--config", str(local.nodes[1].config_path))
        for asked in (("--node", local.addresses[2]), by_config):

            async def told(asked: tuple[str, ...] = asked) -> str:
                code, out, err = await run("cluster", "status", *asked)
                assert code == 1 and not err, (code, out, err)
                return out if "no node that answers is connected to NATS" in out else ""

            out = await until(told, f"what 'cluster status {asked[0]}' tells of a NATS that is away")
            assert "controller: node " in out and "orders" in out
            rows = [line.split() for line in out.splitlines() if local.addresses[3] in line]
            assert len(rows) == 1 and "yes" in rows[0], "one node told where the others are, and all answer"

        gone = local.nodes[2]
        await cluster.kill(2)
        code, out, err = await run("cluster", "status", "--node", local.addresses[2], "--timeout", "3")
        assert code == 2 and f"at {local.addresses[2]} is not reachable" in err
        code, out, _ = await run(
            "cluster", "status", "--node", local.addresses[2], "--node", local.addresses[3]
        )
        assert code == 1 and "node 2 did not answer in time" in out
        code, _, err = await run("cluster", "status", "--node", "nowhere")
        assert code == 2 and "'nowhere' is no HOST:PORT" in err
        code, _, err = await run("cluster", "status", *by_config, "--secret-file", "none")
        assert code == 2 and "do not trust each other" in err
        local.nats.start()
        gone.launch()
        await asyncio.to_thread(gone.wait_ready)

    with_cluster(tmp_path, 3, story)


def test_N5_a_reader_goes_on_from_other_nodes_without_nats(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        local, client = cluster.cluster, cluster.client
        await client.create_stream(StreamConfig("orders", "orders", replication_factor=3))
        async with Writer(client, "orders", "x") as writer:
            await writer.more_acks(200)
        await cluster.in_sync("orders", 3)
        reader = client.reader(await client.stream("orders"))
        assert len(await reader.fetch(0, max_bytes=500)) < 200
        read = reader.position
        assert read > 0
        leader = await cluster.leader("orders")
        assert local.nats is not None
        local.nats.kill()
        await cluster.kill(leader)
        # The connection is lost, and the leader that comes next has to be asked for at another node.
        end = await reader.offset(NEW)
        while reader.position < end:
            await reader.fetch(reader.position)
        assert end > max(writer.acked)
        info = await client.stream("orders")
        assert info.partitions[0].leader not in (0, leader)
        with pytest.raises(RequestFailed, match="does not exist"):
            await client.stream("nobody")
        await cluster.kill(*cluster.running())
        with pytest.raises(Unreachable, match="not reachable"):
            await client.stream("orders", timeout_ms=500)
        local.nats.start()
        await cluster.start(1, 2, 3)
        await cluster.leader("orders")
        async with Writer(client, "orders", "later") as later:
            await later.more_acks(10)

    with_cluster(tmp_path, 3, story)
