"""Producers that number their messages, on real nodes whose leaders die: each is there once, in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import trio

from liftlog.client import PublishResult
from liftlog.client.on_trio import TrioClient
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import Harness, with_cluster

pytestmark = pytest.mark.real

PRODUCERS, EACH, IN_A_BATCH = 3, 200, 3
CONFIG = StreamConfig(
    "orders", "orders", replication_factor=3, min_insync_replicas=2, dedupe_window_ms=3_600_000
)
PATIENCE_MS = 120_000
"""Longer than any fail-over: nothing is given up."""


def test_L2_each_is_stored_once_and_in_order_also_when_leaders_are_killed(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.client.create_stream(CONFIG)
        results: list[list[PublishResult]] = [[] for _ in range(PRODUCERS)]

        async def produce(producer: int) -> None:
            """The last one sends batches."""
            async with cluster.client.publisher(
                results[producer].append, window=50, ack_timeout_ms=PATIENCE_MS, producer=f"pump-{producer}"
            ) as publisher:
                for number in range(EACH):
                    await asyncio.sleep(0.005)
                    if producer < PRODUCERS - 1:
                        await publisher.send(number, "orders", b"%d %d" % (producer, number))
                    else:
                        batch = [b"%d %d.%d" % (producer, number, place) for place in range(IN_A_BATCH)]
                        await publisher.send_batch(number, "orders", batch)

        async with asyncio.TaskGroup() as tasks:
            for producer in range(PRODUCERS):
                tasks.create_task(produce(producer))
            for share in (1, 2):
                while sum(map(len, results)) < PRODUCERS * EACH * share // 3:
                    await asyncio.sleep(0.02)
                leader = await cluster.leader("orders")
                await cluster.kill(leader)
                await cluster.start(leader)
        there = await cluster.read("orders")
        for producer, found in enumerate(results):
            assert {one.outcome for one in found} == {"ok"} and len(found) == EACH
            own = [(offset, value) for offset, value in sorted(there.items()) if value[0] == str(producer)]
            wanted = [f"{producer} {number}" for number in range(EACH)]
            if producer == PRODUCERS - 1:
                wanted = [f"{one}.{place}" for one in wanted for place in range(IN_A_BATCH)]
            assert [value for _, value in own] == wanted, "each is there once, in the order of sending"
            for one in found:
                number = there[one.offset].partition(" ")[2].partition(".")[0]
                assert number == str(one.tag), "and where its answer says"

    with_cluster(tmp_path, 3, story)


def test_L2_a_later_process_replaces_an_earlier_one_and_the_command_line_says_so(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.run("stream", "create", "plain", "plain", "--replicas", "1")
        none = await cluster.refused("pub", "plain", "x", "--producer", "pump")
        assert "remembers no producers" in none and "--dedupe-window 2m" in none
        for more, why in (
            (("--message-id", "a"), "leave one of them out"),
            (("--expected-offset", "0"), "leave one out"),
            (("--ack", "none"), "needs answers"),
        ):
            assert why in await cluster.refused("pub", "plain", "x", "--producer", "pump", *more)
        assert "the name is empty" in await cluster.refused("pub", "plain", "x", "--producer", "")
        created = ("--dedupe-window", "2m", "--replicas", "1")
        await cluster.run("stream", "create", "orders", "orders.>", *created)
        results: list[PublishResult] = []
        async with cluster.client.publisher(results.append, producer="pump") as publisher:
            await publisher.send(0, "orders.new", b"mine")
            await publisher.drain()
            told = await cluster.run("pub", "orders.new", "a", "b", "--producer", "pump", "--batch", "2")
            assert told.startswith("orders partition 0 offset 1 to 2 epoch 1")
            await publisher.send(1, "orders.new", b"zombie")
            await publisher.drain()
            with pytest.raises(LiftlogError, match="another process"):
                await publisher.send(2, "orders.new", b"zombie")
            await publisher.send(3, "orders.old", b"another subject")
        assert [one.outcome for one in results] == ["ok", "info", "ok"]
        assert "which is newer" in results[1].error
        assert await cluster.read("orders") == {0: "mine", 1: "a", 2: "b", 3: "another subject"}

    with_cluster(tmp_path, 1, story)


def test_L2_under_trio(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.run("stream", "create", "orders", "orders", "--dedupe-window", "2m", "--replicas", "1")
        url = cluster.cluster.nats_url

        async def program() -> list[PublishResult]:
            found: list[PublishResult] = []
            async with (
                TrioClient.connect(url) as client,
                client.publisher(found.append, idempotent=True) as publisher,
            ):
                await publisher.send_all([(tag, "orders", b"%d" % tag, None) for tag in range(300)])
                await publisher.send_batch(300, "orders", [b"300", b"301"])
            return found

        found = await asyncio.to_thread(trio.run, program)
        assert [(one.outcome, one.offset) for one in sorted(found)] == [("ok", tag) for tag in range(301)]
        assert await cluster.read("orders") == {number: str(number) for number in range(302)}

    with_cluster(tmp_path, 1, story)
