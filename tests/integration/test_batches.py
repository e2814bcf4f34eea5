"""Several records in one message, sent to real nodes: all of them are stored, or none (L8)."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from pathlib import Path

import pytest

from liftlog.client import BatchRecord, PublishResult
from liftlog.client.publisher import Publisher
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import DEADLINE_S, Harness, until, with_cluster

pytestmark = pytest.mark.real

SIZE = 20


class BatchWriter:
    """Sends batch after batch, several in flight; each is sent once."""

    def __init__(self, cluster: Harness) -> None:
        self.cluster = cluster
        self.acked: dict[int, PublishResult] = {}
        self.sent = 0
        self.stopping = False

    def values(self, tag: int) -> list[str]:
        return [f"{tag}.{place}" for place in range(SIZE)]

    async def run(self) -> None:
        async with self.cluster.client.publisher(self._on_result, window=8, ack_timeout_ms=2000) as publisher:
            for tag in count():
                if self.stopping:
                    return
                await self._send(publisher, tag)
                await asyncio.sleep(0.001)

    async def _send(self, publisher: Publisher, tag: int) -> None:
        self.sent += 1
        await publisher.send_batch(tag, "orders", [value.encode() for value in self.values(tag)])

    def _on_result(self, result: PublishResult) -> None:
        if result.outcome == "ok":
            self.acked[result.tag] = result

    async def more_acks(self, more: int) -> None:
        goal = len(self.acked) + more

        async def reached() -> bool:
            return len(self.acked) >= goal

        await until(reached, f"{more} more batches", DEADLINE_S)


def check_whole(there: dict[int, str], writer: BatchWriter) -> None:
    """Each batch lies there as it was sent, or not at all, and where it was acknowledged."""
    position = min(there, default=0)
    seen = set()
    while position in there:
        tag = int(there[position].partition(".")[0])
        assert [there.get(position + place) for place in range(SIZE)] == writer.values(tag), f"torn: {tag}"
        seen.add(tag)
        position += SIZE
    assert position == max(there) + 1
    for tag, result in writer.acked.items():
        assert result.records == SIZE and there[result.offset] == writer.values(tag)[0]
    assert set(writer.acked) <= seen


@pytest.mark.slow
def test_L8_batches_are_whole_on_every_replica_though_their_leader_is_killed(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        config = StreamConfig("orders", "orders", replication_factor=3, min_insync_replicas=2)
        await cluster.client.create_stream(config)
        writer = BatchWriter(cluster)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(writer.run())
            for _ in range(2):
                await writer.more_acks(50)
                killed = await cluster.leader("orders")
                await cluster.kill(killed)
                await writer.more_acks(50)
                await cluster.start(killed)
                await cluster.in_sync("orders", 3)
            writer.stopping = True
        await cluster.in_sync("orders", 3)
        for node in cluster.running():
            check_whole(await cluster.read("orders", node), writer)

    with_cluster(tmp_path, 3, story)


def test_L8_clients_and_the_command_line_send_batches(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await client.create_stream(StreamConfig("orders", "orders.>", max_payload_bytes=1000))
        records = [
            BatchRecord(b"0", headers={"Kind": "first"}),
            b"1",
            BatchRecord(b"2", key=b"k", subject="orders.other"),
            BatchRecord(b"x" * 1000),
        ]
        stored = await client.publish_batch("orders.new", records, codec="zstd", expected_offset=0)
        assert (stored.outcome, stored.offset, stored.records) == ("ok", 0, 4)
        refused = await client.publish_batch("orders.new", [b"late"], expected_offset=1)
        assert (refused.outcome, refused.next_offset) == ("info", 4)
        large = await client.publish_batch("orders.new", [b"a", b"x" * 1001])
        assert large.outcome == "fail"
        assert "record 1 of the batch exceeds the stream's limit of 1000 bytes" in large.error
        foreign = await client.publish_batch("orders.new", [BatchRecord(b"a", subject="payments")])
        assert foreign.outcome == "fail" and "'payments' is not within 'orders.>'" in foreign.error
        leader = await client.publish_batch("orders.new", [b"4", b"5"], ack="leader")
        assert (leader.outcome, leader.offset, leader.records) == ("leader", 4, 2)
        with pytest.raises(LiftlogError, match="1 to 1000 records, not 1001"):
            await client.publish_batch("orders.new", [b""] * 1001)
        with pytest.raises(LiftlogError, match="NATS server's limit of"):
            await client.publish_batch("orders.new", [b"x" * 1100] * 1000)
        told = await cluster.run("pub", "orders.new", "6", "7", "8", "--batch", "2")
        assert told.splitlines() == [
            "orders partition 0 offset 6 to 7 epoch 1",
            "orders partition 0 offset 8 to 8 epoch 1",
        ]
        told = await cluster.run("pub", "orders.new", "9", "10", "--batch", "9", "--quiet", "--key", "k")
        assert told == "stored 2 messages, the last at offset 10\n"
        told = await cluster.refused("pub", "orders.new", "x", "--batch", "1001")
        assert "a batch has 1000 messages at most" in told
        plain = await client.nats.request(
            "orders.new", b"LLP1 is nothing", timeout=5, headers={"Liftlog-Batch": "1"}
        )
        error = json.loads(plain.data)["error"]
        assert error["err_code"] == 10003 and "a batch is refused as a whole" in error["description"]
        there = await cluster.read("orders")
        assert [there[offset] for offset in range(11) if offset != 3] == [str(n) for n in range(11) if n != 3]

    with_cluster(tmp_path, 1, story)
