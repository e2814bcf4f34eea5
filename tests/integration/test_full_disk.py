"""A disk without room under the metadata (D5), on real processes: the kernel refuses as a full one would."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from liftlog.client import RequestFailed
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, liftlog, until
from tests.integration.test_node_log import Logs, with_logs

pytestmark = [pytest.mark.real, pytest.mark.slow]


async def status_of(cluster: Harness) -> str:
    """What `liftlog cluster status` prints now."""
    _, out, _ = await asyncio.to_thread(liftlog, "cluster", "status", "--nats", cluster.cluster.nats_url)
    return out


def limit_files(pid: int, size: int) -> None:
    """Let the kernel refuse every write behind this place of a file; -1 = no limit."""
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most if size < 0 else size, most))


def test_D5_a_controller_whose_disk_takes_no_metadata_hands_over_serves_reads_and_heals(
    tmp_path: Path,
) -> None:
    async def story(cluster: Harness, logs: Logs) -> None:
        nodes, client = cluster.cluster.nodes, cluster.client
        for number in range(20):
            result = await client.publish("orders", f"message {number}".encode())
            assert result.outcome == "ok"
        await cluster.in_sync("orders", 3)
        full = await cluster.leader("orders") % 3 + 1
        if await cluster.controller() != full:
            await client.transfer_controller(full)

        async def leads_the_group() -> bool:
            return await cluster.controller() == full

        await until(leads_the_group, f"node {full} as the controller")
        log = nodes[full].config.data / "raft" / "00000000000000000000.log"

        async def longer_than_its_own_log() -> bool:
            # Creations that are refused fill the metadata log, and no node's log tells of them.
            with pytest.raises(RequestFailed, match="exists"):
                await client.create_stream(StreamConfig("orders", "another"))
            return log.stat().st_size > nodes[full].log_path.stat().st_size + 4096

        await until(longer_than_its_own_log, "a metadata log longer than what the node tells", 60)
        logs.since_now()
        limit_files(nodes[full].pid, log.stat().st_size)
        await client.create_stream(StreamConfig("later", "later", replication_factor=2))
        told = await logs.wait(full, "disk", level="error", sync=False, text="the metadata cannot be stored")
        assert "reads go on" in told["text"] and "make room" in told["text"]

        async def another() -> bool:
            return await cluster.controller() not in (0, full)

        await until(another, "another controller")
        values = await cluster.read("orders", node=full)
        assert list(values.values()) == [f"message {number}" for number in range(20)]

        async def said() -> str:
            out = await status_of(cluster)
            return out if f"node {full}'s disk takes no metadata" in out else ""

        out = await until(said, "the reason in 'liftlog cluster status'")
        assert "make room on it" in out and str(log) in out

        limit_files(nodes[full].pid, -1)
        await logs.wait(full, "disk", text="the metadata is stored again")
        assert "takes no metadata" not in await status_of(cluster)
        assert (await client.publish("later", b"x")).outcome == "ok"
        assert nodes[full].running

        async def caught_up() -> bool:
            statuses = [await client.status(node, timeout_ms=2000) for node in nodes]
            return len({status.applied for status in statuses}) == 1

        await until(caught_up, "every node at the same place of the metadata")

    with_logs(tmp_path, story)


def test_D5_the_only_copy_of_a_stream_is_read_while_its_disk_is_full(tmp_path: Path) -> None:
    async def story(cluster: Harness, logs: Logs) -> None:
        nodes, client = cluster.cluster.nodes, cluster.client
        await client.create_stream(StreamConfig("alone", "alone", replication_factor=1))
        for number in range(20):
            assert (await client.publish("alone", b"%d " % number + b"x" * 2000)).outcome == "ok"
        node = await cluster.leader("alone")
        info = await client.stream("alone")
        limit_files(nodes[node].pid, 60_000)
        logs.since_now()
        refused = b"y" * 50_000
        assert (await client.publish("alone", refused, timeout_ms=500)).outcome != "ok"
        told = await logs.wait(node, "disk", stream="alone", text="a write was refused")
        assert "reads go on" in told["text"]
        # Longer than between two attempts to go on, each of which is refused as well.
        reader = client.reader(info, node=node, timeout_ms=900)
        for _ in range(30):
            records = await reader.fetch(0)
            assert [(record.value or b"").split()[0] for record in records] == [b"%d" % n for n in range(20)]
            assert (await client.publish("alone", refused, timeout_ms=100)).outcome != "ok"
        limit_files(nodes[node].pid, -1)

        # Shut for up to a second yet, where the last attempt came before there was room: each is answered at
        # once.
        async def taken_again() -> bool:
            result = await client.publish("alone", b"20 later", timeout_ms=20_000)
            assert result.outcome in ("ok", "fail"), result
            return result.outcome == "ok"

        await until(taken_again, "writes taken again by a disk with room")
        await logs.wait(node, "disk", stream="alone", text="open again")
        again = [record.value or b"" for record in await reader.fetch(0)]
        assert [value.split()[0] for value in again] == [b"%d" % n for n in range(21)]

    with_logs(tmp_path, story)
