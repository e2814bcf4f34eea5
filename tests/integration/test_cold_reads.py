"""Reads of old data against real nodes: sent from the files, verified by the client, and what damage does."""

from __future__ import annotations

from pathlib import Path

import pytest

from liftlog.client import RequestFailed
from liftlog.messages import ERR_DAMAGED
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

MESSAGES = 300
PADDING = b"x" * 60_000
"""Together about twice what a node keeps of a log's tail in memory."""


async def fill(cluster: Harness, replicas: int) -> None:
    """A stream "cold" most of which has left the nodes' memory."""
    await cluster.client.create_stream(
        StreamConfig("cold", "cold", replication_factor=replicas, segment_bytes=4_000_000)
    )
    results: list[object] = []
    async with cluster.client.publisher(results.append, window=50) as publisher:
        for number in range(MESSAGES):
            await publisher.send(number, "cold", b"%06d " % number + PADDING)

    async def all_acked() -> bool:
        return len(results) == MESSAGES

    await until(all_acked, "an answer for every message")


async def values(cluster: Harness, start: int, node: int = 0, timeout_ms: int = 20_000) -> list[int]:
    """The numbers of the messages from an offset on."""
    reader = cluster.client.reader(await cluster.client.stream("cold"), node=node, timeout_ms=timeout_ms)
    records = [record async for record in reader.records(start)]
    assert [record.offset for record in records] == list(range(start, start + len(records)))
    return [int((record.value or b"").split(b" ")[0]) for record in records]


async def spans_sent(cluster: Harness, node: int) -> int:
    return (await cluster.client.status(node)).counters["network.spans"]


def destroy_record(cluster: Harness, node: int, number: int) -> None:
    """Overwrite a few bytes in the middle of a message, wherever a node's files hold it."""
    wanted = b"%06d xxxx" % number
    folder = cluster.cluster.nodes[node].config.data / "streams"
    (path,) = [path for path in folder.rglob("*.log") if wanted in path.read_bytes()]
    with path.open("r+b") as file:
        file.seek(path.read_bytes().index(wanted) + 1000)
        file.write(b"decayed")


def test_old_records_are_sent_from_the_files_and_new_ones_from_memory(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await fill(cluster, 1)
        assert await values(cluster, MESSAGES - 3) == list(range(MESSAGES - 3, MESSAGES))
        assert await spans_sent(cluster, 1) == 0
        assert await values(cluster, 0) == list(range(MESSAGES))
        assert await spans_sent(cluster, 1) > 0
        handles = Path(f"/proc/{cluster.cluster.nodes[1].pid}/fd")
        links = [str(link.readlink()) for link in handles.iterdir() if link.is_symlink()]
        # The segments that grow, one of the stream and one of the metadata, and no other.
        assert sum(link.endswith(".log") and "/streams/" in link for link in links) == 1

    with_cluster(tmp_path, 1, story)


def test_D2_a_damaged_record_is_a_clear_error_and_all_others_can_be_read(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await fill(cluster, 1)
        destroy_record(cluster, 1, 20)
        with pytest.raises(RequestFailed) as caught:
            await values(cluster, 0, timeout_ms=3000)
        assert caught.value.code == ERR_DAMAGED
        assert "/00000000000000000000.log byte " in str(caught.value)
        after = await values(cluster, 80)
        assert after == list(range(80, MESSAGES))

    with_cluster(tmp_path, 1, story)


def test_D2_a_reader_of_a_damaged_replica_gets_the_record_from_another_one(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await fill(cluster, 3)
        await cluster.in_sync("cold", 3)
        leader = await cluster.leader("cold")
        destroy_record(cluster, leader, 20)
        assert await values(cluster, 0) == list(range(MESSAGES))

        async def repaired() -> bool:
            return await values(cluster, 0, node=leader, timeout_ms=2000) == list(range(MESSAGES))

        await until(repaired, "the damaged replica can be read again")
        await cluster.in_sync("cold", 3)

    with_cluster(tmp_path, 3, story)
