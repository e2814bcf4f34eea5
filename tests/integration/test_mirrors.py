"""A mirror on real nodes has what its origin has, whoever is killed (R28)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from liftlog.messages import ConsumerConfig
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real


async def values(cluster: Harness, stream: str) -> list[tuple[int, str]]:
    """What is in a stream's first partition, which may have gaps."""
    async with await cluster.client.read(stream) as reading:
        return [(record.offset, (record.value or b"").decode()) async for _, record in reading]


async def no_lag(cluster: Harness) -> bool:
    """Whether the mirror has all that its origin had."""
    told = json.loads(await cluster.run("stream", "lag", "copy", "--json"))
    return all(one["behind"] == 0 for one in told["partitions"])


def test_R28_a_mirror_is_the_same_though_leaders_on_both_sides_are_killed(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.client.create_stream(StreamConfig("orders", "orders.*", 1, 3, 2))
        await cluster.leader("orders")
        sent = 0
        acked: set[str] = set()

        async def publish(until_acked: int) -> None:
            async def enough() -> bool:
                nonlocal sent
                subject, value = f"orders.{sent % 3}", str(sent)
                sent += 1
                result = await cluster.client.publish(subject, value.encode(), timeout_ms=1000)
                if result.outcome == "ok":
                    acked.add(value)
                return len(acked) >= until_acked

            await until(enough, f"{until_acked} acks")

        await publish(100)
        await cluster.client.create_stream(StreamConfig("copy", "copy", 1, 3, 2, mirror="orders"))
        for round, name in enumerate(("orders", "copy", "orders")):
            leader = await cluster.leader(name)
            await cluster.kill(leader)
            await publish(150 + 50 * round)
            await cluster.start(leader)
            await cluster.leader("copy")
            await cluster.leader("orders")
        await until(lambda: no_lag(cluster), "a mirror that has everything")
        origin, mirror = await cluster.read("orders"), await cluster.read("copy")
        assert mirror == origin
        assert acked <= set(mirror.values())

    with_cluster(tmp_path, 3, story)


def test_R28_the_command_line_makes_shows_and_ends_a_mirror(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.run("stream", "create", "orders", "orders", "--partitions", "2", "--removal")
        for number in range(6):
            await cluster.run("pub", "orders", str(number))
        await cluster.run("stream", "delete-message", "orders", "--offset", "4")
        told = await cluster.refused("stream", "create", "copy", "--mirror", "order")
        assert "order" in told
        told = await cluster.refused("stream", "lag", "orders")
        assert "is no mirror" in told
        await cluster.run("stream", "create", "copy", "--mirror", "orders", "--retention-messages", "100")
        assert "mirror of 'orders'" in await cluster.run("stream", "info", "copy")
        await until(lambda: no_lag(cluster), "a mirror that has everything")
        assert await values(cluster, "copy") == [(0, "0"), (1, "1"), (2, "2"), (3, "3"), (5, "5")]
        told = await cluster.refused("pub", "copy", "mine")
        assert "is a mirror" in told and "publish to that" in told
        await cluster.run("stream", "pause", "copy")
        await cluster.run("pub", "orders", "6")
        told = await cluster.run("stream", "lag", "copy")
        assert "BEHIND" in told and "nothing is copied: it is paused" in told
        await cluster.run("stream", "resume", "copy")
        await until(lambda: no_lag(cluster), "a mirror that has everything")
        assert "mirror orders -> none" in await cluster.run("stream", "alter", "copy", "--no-mirror")
        await cluster.run("pub", "copy", "mine")
        await cluster.run("pub", "orders", "theirs")
        assert (await values(cluster, "copy"))[-1] == (7, "mine")

    with_cluster(tmp_path, 1, story)


def test_R28_messages_of_a_mirror_with_a_journal_are_consumed_and_deleted(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.run("stream", "create", "orders", "orders", "--removal")
        for number in range(6):
            await cluster.run("pub", "orders", str(number))
        await cluster.run("stream", "delete-message", "orders", "--offset", "4")
        await cluster.run("stream", "create", "copy", "--mirror", "orders", "--removal")
        await until(lambda: no_lag(cluster), "a mirror that has everything")
        consumer = await cluster.client.consumer("copy", "c", config=ConsumerConfig())
        given = await consumer.fetch(5, wait_ms=2000)
        assert [one.record.value for one in given] == [b"0", b"1", b"2", b"3", b"5"]
        assert given[-1].to_come == 0
        await cluster.run("stream", "delete-message", "copy", "--offset", "2")
        await cluster.run("pub", "orders", "6")
        await until(lambda: no_lag(cluster), "a mirror that has everything")
        assert await values(cluster, "copy") == [(0, "0"), (1, "1"), (3, "3"), (5, "5"), (6, "6")]

    with_cluster(tmp_path, 3, story)


def test_R28_a_mirror_outlives_its_origin(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.run("stream", "create", "orders", "orders")
        await cluster.run("pub", "orders", "kept")
        await cluster.run("stream", "create", "copy", "--mirror", "orders")
        await until(lambda: no_lag(cluster), "a mirror that has everything")
        await cluster.run("stream", "rm", "orders")
        told = await cluster.refused("stream", "lag", "copy")
        assert "was removed" in told and "--no-mirror" in told
        await cluster.run("stream", "create", "orders", "orders")
        await cluster.run("pub", "orders", "another")
        assert "was removed" in await cluster.refused("stream", "lag", "copy")
        assert await cluster.read("copy") == {0: "kept"}

    with_cluster(tmp_path, 1, story)
