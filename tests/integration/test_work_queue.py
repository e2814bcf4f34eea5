"""A work queue on real nodes whose leaders are killed: what is acked is gone, and nothing else (R26)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from liftlog.client import EARLIEST, LATEST, ConsumerConfig, RequestFailed
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

MESSAGES = 60
GIVEN_UP = frozenset((7, 31))
"""Nobody acks these."""


def test_r26_what_is_acked_is_gone_on_every_node_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        config = StreamConfig("jobs", "jobs.*", 1, 3, 2, removal=True, work_queue=True)
        await client.create_stream(config)
        assert "work_queue" in await cluster.run("stream", "info", "jobs")
        info = await client.stream("jobs")

        async def put(number: int) -> None:
            while (await client.publish("jobs.a", b"%d" % number, 10_000)).outcome != "ok":
                await asyncio.sleep(0.05)

        async def shown(node: int) -> list[int]:
            """Offsets, in order, that a replica shows."""
            reader = client.reader(info, node=node, timeout_ms=20_000)
            return [record.offset async for record in reader.records(EARLIEST)]

        for number in range(MESSAGES):
            await put(number)
        consumer = await client.consumer("jobs", "c", config=ConsumerConfig(ack_wait_ms=2000, max_deliver=4))
        acked = set[int]()

        async def work(until_acked: int) -> None:
            """The last of what is given is acked first."""
            while len(acked) < until_acked:
                await step()

        async def step() -> None:
            try:
                for one in reversed(await consumer.fetch(7, wait_ms=500)):
                    assert one.record.offset not in acked, "what is acked does not come again"
                    if one.record.offset not in GIVEN_UP and not await consumer.ack(one):
                        acked.add(one.record.offset)
            except LiftlogError:
                await asyncio.sleep(0.05)

        async def is_empty() -> bool:
            await step()
            told = await consumer.info()
            return told.ack_pending == told.num_pending == 0

        for enough in (15, 30):
            await work(enough)
            leader = await cluster.leader("jobs")
            await asyncio.gather(work(enough + 5), cluster.kill(leader))
            await cluster.start(leader)
            await cluster.in_sync("jobs", 3)
        await until(is_empty, "an empty consumer", 60.0)
        await put(0)
        last = await client.reader(info).offset(LATEST)

        async def so() -> bool:
            return all([await shown(node) == [*sorted(GIVEN_UP), last] for node in cluster.running()])

        await until(so, f"{sorted(GIVEN_UP)} and {last} everywhere", 60.0)

    with_cluster(tmp_path, 3, story)


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        assert "--removal" in await cluster.refused("stream", "create", "plain", "--work-queue")
        await cluster.run(
            "stream", "create", "jobs", "--subject", "jobs.>", "--removal", "--work-queue"
        )
        await cluster.run("consumer", "add", "jobs", "mails", "--filter", "jobs.mail.>", "--ack-wait", "1m")
        await cluster.run("consumer", "add", "jobs", "images", "--filter", "jobs.image.>")
        error = await cluster.refused("consumer", "add", "jobs", "all")
        assert "may be given the same messages" in error
        error = await cluster.refused("consumer", "add", "jobs", "new", "--deliver", "new", "--filter", "x")
        assert "say deliver 'all'" in error
        await cluster.run("pub", "jobs.mail.x", "first")
        given = await cluster.run("consumer", "next", "jobs", "mails")
        assert "first" in given
        consumer = await cluster.client.consumer("jobs", "mails")
        with pytest.raises(RequestFailed, match="may be given the same messages"):
            await cluster.client.consumer("jobs", "all", config=ConsumerConfig())
        assert await consumer.fetch(1, wait_ms=0) == []

    with_cluster(tmp_path, 1, story)
