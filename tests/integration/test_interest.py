"""Messages that go by interest, on real nodes whose leaders are killed: what all consumers are done with is
gone, and nothing else (R27).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from liftlog.client import EARLIEST, ConsumerConfig, PullConsumer
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

MESSAGES = 40
ALL, ODD, OTHERS = "all", "odd", "others"


def test_r27_what_all_have_acked_is_gone_on_every_node_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        config = StreamConfig("events", "events.*", 1, 3, 2, removal=True, interest=True)
        await client.create_stream(config)
        assert "interest" in await cluster.run("stream", "info", "events")
        info = await client.stream("events")

        async def put(number: int) -> None:
            subject = "events.odd" if number % 2 else "events.even"
            while (await client.publish(subject, b"%d" % number, 10_000)).outcome != "ok":
                await asyncio.sleep(0.05)

        async def shown(node: int) -> list[int]:
            """The numbers that a replica shows."""
            reader = client.reader(info, node=node, timeout_ms=20_000)
            return [int(record.value or b"") async for record in reader.records(EARLIEST)]

        async def shows(*numbers: int) -> None:
            async def so() -> bool:
                return all([await shown(node) == list(numbers) for node in cluster.running()])

            await until(so, f"{numbers} everywhere", 60.0)

        await put(0)
        await shows()
        filters = {ALL: "", ODD: "events.odd", OTHERS: "events.other"}
        made = {
            name: await client.consumer("events", name, config=ConsumerConfig(ack_wait_ms=2000, filter=its))
            for name, its in filters.items()
        }
        for number in range(1, MESSAGES):
            await put(number)
        left = {ALL: set(range(1, MESSAGES)), ODD: set(range(1, MESSAGES, 2))}

        async def work(name: str, until_left: int) -> None:
            """The last of what is given is acked first."""
            consumer: PullConsumer = made[name]
            while len(left[name]) > until_left:
                try:
                    for one in reversed(await consumer.fetch(7, wait_ms=500)):
                        if not await consumer.ack(one):
                            left[name].discard(int(one.record.value or b""))
                except LiftlogError:
                    await asyncio.sleep(0.05)

        for enough in (25, 10):
            leader = await cluster.leader("events")
            both = work(ALL, enough), work(ODD, enough // 2)
            await asyncio.gather(*both, cluster.kill(leader))
            await cluster.start(leader)
            await cluster.in_sync("events", 3)
            await shows(*sorted(left[ALL] | left[ODD]))
        await work(ALL, 0)
        await shows(*sorted(left[ODD]))
        await cluster.run("consumer", "rm", "events", ODD)
        await shows()

    with_cluster(tmp_path, 3, story)


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        assert "--removal" in await cluster.refused("stream", "create", "plain", "--interest")
        await cluster.run("stream", "create", "events", "--subject", "events.>", "--removal", "--interest")
        await cluster.run("consumer", "add", "events", "mails", "--filter", "events.user.>")
        await cluster.run("consumer", "add", "events", "audit")
        await cluster.run("pub", "events.user.x", "first")
        assert "first" in await cluster.run("consumer", "next", "events", "mails")
        told = await cluster.run("stream", "alter", "events", "--no-interest")
        assert "interest true -> false" in told
        assert "interest false -> true" in await cluster.run("stream", "alter", "events", "--interest")
        error = await cluster.refused("stream", "alter", "events", "--sealed")
        assert "interest and sealed exclude each other" in error

    with_cluster(tmp_path, 1, story)
