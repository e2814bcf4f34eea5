"""Partitions that keep, or hold, so many bytes of messages, on nodes whose leaders are killed (R25, C6)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from liftlog.sizes import message_bytes
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

LARGE = 1_000_000


async def one(cluster: Harness) -> int:
    """What the first message of the stream counts for, and each other one: our client sends headers."""
    reader = cluster.client.reader(await cluster.client.stream("runs"), timeout_ms=20_000)
    record = (await reader.fetch(0))[0]
    assert record.value is not None and len(record.value) == 2
    return message_bytes(len(record.subject), len(record.headers), len(record.value))


def test_r25_so_many_bytes_stay_on_every_node_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        config = StreamConfig("runs", "runs.*", 1, 3, 2, removal=True, retention_bytes=LARGE)
        await client.create_stream(config)
        info = await client.stream("runs")

        async def put(count: int) -> int:
            """Publish so many. Where the last one ends."""
            end = 0
            for number in range(count):
                subject, value = f"runs.{number % 3}", b"%02d" % number
                result = await client.publish(subject, value, timeout_ms=10_000)
                while result.outcome != "ok":
                    await asyncio.sleep(0.05)
                    result = await client.publish(subject, value, timeout_ms=10_000)
                end = result.offset + 1
            return end

        async def shown(node: int, end: int) -> list[int]:
            """Offsets that a replica shows."""
            reader, found = client.reader(info, node=node, timeout_ms=20_000), list[int]()
            while reader.position < end:
                found += [record.offset for record in await reader.fetch(reader.position)]
            return found

        async def left(most: int, end: int) -> None:
            wanted = list(range(end - most, end))

            async def so() -> bool:
                return all([await shown(node, end) == wanted for node in cluster.running()])

            await until(so, f"{wanted} everywhere", 60.0)

        end, size = await put(20), await one(cluster)
        await left(20, end)
        await cluster.run("stream", "alter", "runs", "--retention-bytes", str(5 * size + 1))
        await left(5, end)
        leader = await cluster.leader("runs")
        end, _ = await asyncio.gather(put(12), cluster.kill(leader))
        await cluster.start(leader)
        await cluster.in_sync("runs", 3)
        await left(5, end)
        told = await cluster.run("stream", "alter", "runs", "--retention-bytes", str(2 * size))
        assert told == f"stream 'runs': retention_bytes {5 * size + 1} -> {2 * size}\n"
        await left(2, end)

    with_cluster(tmp_path, 3, story)


def test_c6_a_full_partition_stays_full_when_its_leader_dies_and_deletions_make_room(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        created = "create", "runs", "runs.*", "--removal", "--replicas", "3", "--bytes-max", str(LARGE)
        await cluster.run("stream", *created)

        async def put(value: bytes) -> str:
            return await cluster.put("runs.0", value, full="maximum bytes exceeded")

        assert await put(b"00") == "ok"
        await cluster.run("stream", "alter", "runs", "--bytes-max", str(3 * await one(cluster)))
        assert [await put(b"%02d" % number) for number in range(1, 5)] == ["ok"] * 2 + ["full"] * 2
        leader = await cluster.leader("runs")
        await cluster.kill(leader)
        assert await put(b"05") == "full"
        await cluster.start(leader)
        await cluster.in_sync("runs", 3)
        await cluster.run("stream", "delete-message", "runs", "--offset", "1")
        assert [await put(b"06"), await put(b"07")] == ["ok", "full"]
        assert sum((await client.subjects("runs")).values()) == 3
        refused = await cluster.refused("stream", "create", "plain", "--bytes-max", "100")
        assert "removal" in refused

    with_cluster(tmp_path, 3, story)
