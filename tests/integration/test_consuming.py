"""Durable consumers on real nodes whose leaders are killed: nothing is skipped, nothing acked comes again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from liftlog.client import ConsumerConfig, RequestFailed
from liftlog.client.on_trio import TrioClient
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, with_cluster

pytestmark = pytest.mark.real

MESSAGES = 600
CONFIG = StreamConfig("orders", "orders", replication_factor=3, min_insync_replicas=2, removal=True)


def test_k3_k6_what_is_acked_never_comes_again_and_all_comes_while_leaders_are_killed(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await cluster.newest_level()
        await client.create_stream(CONFIG)
        config = ConsumerConfig(ack_wait_ms=1500)
        await client.consumer("orders", "billing", config=config, timeout_ms=30_000)
        acked: set[int] = set()
        seen: dict[int, int] = {}
        again: list[int] = []

        async def publish() -> None:
            for number in range(MESSAGES):
                outcome = ""
                while outcome != "ok":
                    outcome = (await client.publish("orders", b"%d" % number, timeout_ms=3000)).outcome

        async def work() -> None:
            consumer = await client.consumer("orders", "billing", timeout_ms=30_000)
            while not published.done() or (await consumer.info()).num_pending:
                for delivery in await consumer.fetch(20, wait_ms=500):
                    offset = delivery.record.offset
                    again.extend([offset] if offset in acked else [])
                    seen[offset] = max(seen.get(offset, 0), delivery.delivered)
                    if offset % 7 == 0 and delivery.delivered == 1:
                        continue  # Not acked: it has to come again.
                    unknown = await consumer.ack(delivery)
                    if not unknown:
                        acked.add(offset)

        published = asyncio.create_task(publish())
        workers = [asyncio.create_task(work()) for _ in range(2)]
        for _ in range(2):
            heard = len(acked)
            while len(acked) < heard + MESSAGES // 6:
                await asyncio.sleep(0.02)
            leader = await cluster.leader("orders")
            await cluster.kill(leader)
            await cluster.start(leader)
        await published
        await asyncio.gather(*workers)
        consumer = await client.consumer("orders", "billing", timeout_ms=30_000)
        end = (await consumer.info()).position
        while (await consumer.info()).ack_pending:
            for delivery in await consumer.fetch(100, wait_ms=500):
                again.extend([delivery.record.offset] if delivery.record.offset in acked else [])
                seen[delivery.record.offset] = delivery.delivered
                if not await consumer.ack(delivery):
                    acked.add(delivery.record.offset)
        assert end >= MESSAGES
        assert sorted(seen) == sorted(acked) == list(range(end))
        assert again == []
        assert (await consumer.info()).floor == end
        before = await consumer.info()
        nodes = cluster.running()
        await cluster.kill(*nodes)
        await cluster.start(*nodes)
        found = await client.consumer("orders", "billing", timeout_ms=30_000)
        assert await found.info() == before, "it is on disk"
        assert await found.fetch(1, wait_ms=0) == []

    with_cluster(tmp_path, 3, story)


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        run = cluster.run
        await run("stream", "create", "orders", "--subject", "orders.>", "--replicas", "1", "--removal")
        options = ("--ack-wait", "10s", "--max-deliver", "5")
        made = json.loads(await run("consumer", "add", "orders", "billing", *options, "--json"))
        config = made["config"]
        assert (made["name"], config["ack_wait_ms"], config["max_deliver"]) == ("billing", 10_000, 5)
        billing = ("orders", "billing")
        await run("pub", "orders.new", "first order")
        assert "delivered 1: first order" in await run("consumer", "next", *billing, "--no-ack")
        assert "no message came" in await run("consumer", "next", *billing, "--wait", "100ms")
        await run("pub", "orders.new", "second order")
        assert "delivered 1: second order" in await run("consumer", "next", *billing, "--count", "10")
        told = json.loads(await run("consumer", "info", *billing, "--json"))
        assert (told["position"], told["floor"], told["ack_pending"]) == (2, 0, 1)
        await run("consumer", "add", "orders", "refunds", "--filter", "orders.*.refunded")
        await run("pub", "orders.7.refunded", "money back")
        found = json.loads(await run("consumer", "next", "orders", "refunds", "--count", "9", "--json"))
        assert (found["offset"], found["delivered"]) == (2, 1)
        assert "deleted" in await run("consumer", "rm", "orders", "refunds", "--json")
        listed = json.loads(await run("consumer", "ls", "orders", "--json"))
        assert [one["name"] for one in listed] == ["billing"]
        assert "billing" in await run("consumer", "ls", "orders")
        assert "another configuration" in await cluster.refused("consumer", "add", *billing)
        assert "an offset" in await cluster.refused("consumer", "add", "orders", "x", "--deliver", "last")
        assert "removed" in await run("consumer", "rm", *billing)
        assert "does not exist" in await cluster.refused("consumer", "rm", *billing)
        await run("stream", "create", "plain", "--replicas", "1")
        assert "--removal" in await cluster.refused("consumer", "add", "plain", "billing")

    with_cluster(tmp_path, 1, story)


def test_a_program_gives_back_what_it_has_not_acked(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await cluster.newest_level()
        await client.create_stream(StreamConfig("s", "s", replication_factor=1, removal=True))
        for number in range(10):
            assert (await client.publish("s", b"%d" % number)).outcome == "ok"
        config = ConsumerConfig(ack_wait_ms=60_000)
        consumer = await client.consumer("s", "c", config=config)
        async with consumer.pull(5) as deliveries:
            async for delivery in deliveries:
                await consumer.ack(delivery)
                if delivery.record.offset == 2:
                    break

        def in_trio() -> list[tuple[int, int]]:
            import trio

            async def main() -> list[tuple[int, int]]:
                found = []
                async with TrioClient.connect(cluster.cluster.nats_url) as other:
                    shared = await other.consumer("s", "c")
                    async with shared.pull() as more:
                        async for one in more:
                            found.append((one.record.offset, one.delivered))
                            await shared.ack(one)
                            if len(found) == 7:
                                break
                return found

            return trio.run(main)

        assert sorted(await asyncio.to_thread(in_trio)) == [(3, 2), (4, 2), *((n, 1) for n in range(5, 10))]
        assert (await consumer.info()).ack_pending == 0
        await client.delete_consumer("s", "c")
        with pytest.raises(RequestFailed, match="it was deleted"):
            await consumer.fetch(1, wait_ms=0)

    with_cluster(tmp_path, 1, story)
