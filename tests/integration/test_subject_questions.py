"""Questions about subjects, asked of real nodes: with compaction, a purge, and a killed leader (S1)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from liftlog.client import PartitionRecord, RequestFailed
from liftlog.client.on_trio import TrioClient
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import Harness, liftlog, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]


def place(found: PartitionRecord | None) -> tuple[int, int, bytes | None] | None:
    return None if found is None else (found.partition, found.record.offset, found.record.value)


def test_S1_the_last_of_a_subject_the_next_match_and_counts_also_behind_a_killed_leader(
    tmp_path: Path,
) -> None:
    async def story(harness: Harness) -> None:
        cluster, client = harness.cluster, harness.client
        await client.create_stream(StreamConfig("orders", "orders.>", 1, 3))
        for number in range(12):
            subject = f"orders.{('eu', 'us', 'asia')[number % 3]}"
            ack = await client.publish(subject, b"%d" % number)
            assert ack.outcome == "ok"
        assert place(await client.last("orders", "orders.eu")) == (0, 9, b"9")
        assert await client.last("orders", "orders.mars") is None
        assert place(await client.next_matching("orders", "orders.us", 2)) == (0, 4, b"4")
        assert await client.next_matching("orders", "orders.us", 11) is None
        counted = {b"orders.eu": 4, b"orders.us": 4, b"orders.asia": 4}
        assert await client.subjects("orders") == counted
        assert await client.subjects("orders", "orders.e*") == {}
        with pytest.raises(RequestFailed, match="is a filter"):
            await client.last("orders", "orders.*")
        with pytest.raises(LiftlogError, match="partitions 0 to 0"):
            await client.next_matching("orders", ">", 0, partition=3)

        leader = (await client.stream("orders")).partitions[0].leader
        cluster.nodes[leader].kill()
        assert place(await client.last("orders", "orders.asia", timeout_ms=30_000)) == (0, 11, b"11")
        assert await client.subjects("orders") == counted, "the next leader makes its own index"
        cluster.nodes[leader].launch()

        await client.purge("orders", 0, 7, timeout_ms=30_000)
        assert await client.subjects("orders") == {b"orders.eu": 1, b"orders.us": 2, b"orders.asia": 2}
        assert place(await client.next_matching("orders", "orders.eu", 0)) == (0, 9, b"9")

        server = ("--nats", cluster.nats_url)
        code, said, error = await asyncio.to_thread(
            liftlog, "stream", "get", "orders", "--last-by-subject", "orders.us", "--json", *server
        )
        assert code == 0, error
        told = json.loads(said)
        assert (told["partition"], told["offset"]) == (0, 10)
        assert (told["subject"], told["value"]) == ("orders.us", "10")
        code, said, error = await asyncio.to_thread(
            liftlog, "stream", "get", "orders", "--next-by-subject", "orders.*", "--offset", "8", *server
        )
        assert (code, said) == (0, "partition 0 offset 8 subject orders.asia\n8\n"), error
        code, said, error = await asyncio.to_thread(
            liftlog, "stream", "get", "orders", "--last-by-subject", "orders.mars", *server
        )
        assert code == 2 and "has no message of subject 'orders.mars'" in error
        code, said, error = await asyncio.to_thread(liftlog, "stream", "subjects", "orders", *server)
        assert code == 0, error
        counted_lines = [["orders.asia", "2"], ["orders.eu", "1"], ["orders.us", "2"]]
        assert [line.split() for line in said.splitlines()[1:-1]] == counted_lines
        assert said.endswith("5 messages, 3 subjects\n")

    with_cluster(tmp_path, 3, story)


def test_S1_compaction_takes_subjects_along_and_partitions_are_counted_together(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        config = StreamConfig(
            "keys", "keys.*", 1, 1, compact=True, segment_records=5, dirty_ratio_percent=0
        )
        await client.create_stream(config)
        headers = {"Liftlog-Key": "one"}
        results = []
        async with client.publisher(results.append, window=1) as publisher:
            for number in range(20):
                await publisher.send(number, f"keys.{number % 2}", b"%d" % number, headers)
        assert [result.outcome for result in results] == ["ok"] * 20
        assert sum((await client.subjects("keys")).values()) <= 20

        async def compacted() -> bool:
            return sum((await client.subjects("keys")).values()) < 10

        await until(compacted, "compaction, and counts that know of it", 60.0)
        assert place(await client.last("keys", "keys.1")) == (0, 19, b"19")

        await client.create_stream(StreamConfig("two", "two", 2, 1))
        for subject in ("two", "two", "two.1"):
            assert (await client.publish(subject, b"x")).outcome == "ok"
        assert await client.subjects("two") == {b"two": 2, b"two.1": 1}
        assert await client.subjects("two", "two.>") == {b"two.1": 1}
        assert await client.subjects("two", partition=0) == {b"two": 2}
        assert place(await client.last("two", "two.1")) == (1, 0, b"x")

        async def in_trio() -> tuple[object, ...]:
            async with TrioClient.connect(harness.cluster.nats_url) as other:
                return (
                    place(await other.last("two", "two")),
                    place(await other.next_matching("two", "two", 1)),
                    await other.subjects("two", "two"),
                )

        import trio

        told = await asyncio.to_thread(trio.run, in_trio)
        assert told == ((0, 1, b"x"), (0, 1, b"x"), {b"two": 2})

    with_cluster(tmp_path, 1, story)
