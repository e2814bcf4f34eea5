"""Nodes that start while NATS cannot be reached vote, elect, replicate and serve reads without it (N5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from liftlog.format import decode_records, parse_batch, split_frames
from liftlog.messages import (
    ClientMessage,
    ClientReply,
    ClusterStatusReply,
    ClusterStatusRequest,
    ReadReply,
    ReadRequest,
)
from liftlog.types import PartitionId, StreamConfig
from tests.integration.cluster import Harness, Writer, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_N5_a_cluster_starts_without_nats_serves_reads_and_takes_messages_when_nats_is_there(
    tmp_path: Path,
) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("s", "s", replication_factor=3))
        async with Writer(cluster.client, "s", "first") as writer:
            await writer.more_acks(100)
        await cluster.in_sync("s", 3)
        partition = PartitionId((await cluster.client.stream("s")).id, 0)
        addresses = dict(await cluster.client.addresses(refresh=True))
        nats = cluster.cluster.nats
        assert nats is not None
        nats.kill()
        await cluster.kill(1, 2, 3)
        # Each says that it is ready: it listens for peers and readers.
        await cluster.start(1, 2, 3)

        async def ask(node: int, request: ClientMessage) -> ClientReply:
            return await cluster.client.nodes.call(node, addresses[node], request, 2.0)

        async def elected() -> bool:
            status = await ask(1, ClusterStatusRequest())
            assert isinstance(status, ClusterStatusReply)
            return status.controller in (1, 2, 3) and all(info.live for info in status.nodes)

        await until(elected, "a controller and three live nodes, without NATS")

        async def values(node: int) -> dict[int, str]:
            found: dict[int, str] = {}
            while True:
                reply = await ask(node, ReadRequest(partition, max(found, default=-1) + 1))
                assert isinstance(reply, ReadReply)
                if not reply.batches:
                    return found
                for frame in [frame for data in reply.batches for frame in split_frames(data)]:
                    for record in decode_records(parse_batch(partition, frame)):
                        assert record.value is not None
                        found[record.offset] = record.value.decode()

        for node in (1, 2, 3):

            async def readable(node: int = node) -> bool:
                found = await values(node)
                return all(found.get(offset) == value for offset, value in writer.acked.items())

            await until(readable, f"every acknowledged record on node {node}, without NATS")
        nats.start()
        async with Writer(cluster.client, "s", "second") as later:
            await later.more_acks(100)
        await cluster.in_sync("s", 3)
        later.acked.update(writer.acked)
        await cluster.check_nothing_lost("s", later)

    stopped = with_cluster(tmp_path, 3, story)
    for node in stopped.nodes.values():
        assert "cannot connect to NATS" in node.log_path.read_text(errors="replace")
