"""Markers of messages that go for their time (R24), among real nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from liftlog.types import Record
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real


def test_r24_one_marker_stays_on_every_node_also_when_the_leader_dies(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        options = ("--removal", "--allow-ttl", "--allow-rollup", "--marker-ttl", "1h")
        await cluster.run("stream", "create", "keys", "--subject", "keys.*", "--replicas", "3", *options)
        assert "marker_ttl_ms" in await cluster.run("stream", "info", "keys")
        info = await client.stream("keys")

        async def put(subject: str, value: bytes, ttl_ms: int | None = None) -> None:
            while True:
                result = await client.publish(subject, value, 10_000, ttl_ms=ttl_ms)
                if result.outcome == "ok":
                    return
                assert result.outcome == "info" or "no stream listens" in result.error, result.error
                await asyncio.sleep(0.05)

        async def shown(node: int) -> list[Record]:
            """What a replica shows of what is there by now."""
            reader, records = client.reader(info, node=node, timeout_ms=20_000), list[Record]()
            end = await reader.offset("new")
            while reader.position < end:
                records += await reader.fetch(reader.position)
            return records

        async def left(*wanted: tuple[bytes, bytes]) -> None:
            """Subjects and values, of a marker its reason."""

            def told(record: Record) -> tuple[bytes, bytes]:
                marks = b"Nats-Marker-Reason: MaxAge\r\n" in record.headers
                return record.subject, b"MaxAge" if marks else record.value or b""

            async def so() -> bool:
                found = [sorted(map(told, await shown(node))) for node in cluster.running()]
                return all(one == sorted(wanted) for one in found)

            await until(so, f"{wanted} everywhere", 60.0)

        await put("keys.a", b"older", 1000)
        await put("keys.a", b"newer", 1000)
        await put("keys.b", b"stays")
        await put("keys.b", b"goes", 1000)
        await left((b"keys.a", b"MaxAge"), (b"keys.b", b"stays"))
        await put("keys.c", b"while the leader dies", 3000)
        leader = await cluster.leader("keys")
        await cluster.kill(leader)
        await put("keys.d", b"last")
        kept = ((b"keys.a", b"MaxAge"), (b"keys.b", b"stays"), (b"keys.c", b"MaxAge"), (b"keys.d", b"last"))
        await left(*kept)
        await cluster.start(leader)
        await cluster.in_sync("keys", 3)
        await put("keys.e", b"end")
        await left(*kept, (b"keys.e", b"end"))
        told = await cluster.run("stream", "alter", "keys", "--marker-ttl", "0")
        assert told == "stream 'keys': marker_ttl_ms 3600000 -> none\n"
        error = await cluster.refused("stream", "create", "plain", "--removal", "--marker-ttl", "1h")
        assert "--allow-ttl" in error

    with_cluster(tmp_path, 3, story)
