"""Compression and encryption at rest on real nodes, each with a key of its own."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from liftlog.format import read_header, split_frames
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import Harness, Writer, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

SECRET = "attack at dawn " * 10


def with_key(cluster: LocalCluster, node: int, content: bytes) -> None:
    """Give a node that is not running a key file."""
    path = cluster.folder / f"key-{node}"
    path.write_bytes(content)
    path.chmod(0o600)
    one = cluster.nodes[node]
    one.config = msgspec.structs.replace(one.config, encryption_key_file=path)


def log_bytes(cluster: LocalCluster, node: int) -> list[bytes]:
    """Every segment of a node's streams."""
    folder = cluster.nodes[node].config.data / "streams"
    return [path.read_bytes() for path in sorted(folder.rglob("*.log"))]


def test_a_cluster_with_keys_compresses_seals_fails_over_and_reads_back(tmp_path: Path) -> None:
    def prepare(cluster: LocalCluster) -> None:
        for node in cluster.nodes:
            with_key(cluster, node, bytes([node]) * 32)

    async def story(harness: Harness) -> None:
        client = harness.client
        await client.create_stream(StreamConfig("orders", "orders", 1, 3, codec="zstd"))
        async with Writer(client, "orders", SECRET) as writer:
            await writer.more_acks(50)
            leader = await harness.leader("orders")
            await harness.kill(leader)
            await writer.more_acks(50)
            await harness.start(leader)
            await writer.more_acks(20)
        await harness.in_sync("orders", 3)
        await harness.check_nothing_lost("orders", writer)

    cluster = with_cluster(tmp_path, 3, story, prepare)
    for node in cluster.nodes:
        segments = log_bytes(cluster, node)
        headers = [read_header(frame) for data in segments for frame in split_frames(data) if frame]
        assert headers and all(header.sealed for header in headers)
        assert any(header.codec == "zstd" for header in headers)
        for path in cluster.nodes[node].config.data.rglob("*"):
            assert path.is_dir() or SECRET[:14].encode() not in path.read_bytes(), path

    with_key(cluster, 2, b"77" * 32)
    cluster.nodes[2].launch()
    with pytest.raises(LiftlogError, match=r"encrypted with another key.*LIFTLOG_ENCRYPTION_KEY"):
        cluster.nodes[2].wait_ready()
    cluster.nodes[2].wait()
