"""K9 on real nodes: what was delivered for the last time is stored elsewhere once, whoever is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
from pathlib import Path

import pytest

from liftlog.client import ConsumerConfig
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import Harness, with_cluster

pytestmark = pytest.mark.real

ORDERS = StreamConfig("orders", "orders", replication_factor=3, min_insync_replicas=2, removal=True)
DEAD = StreamConfig(
    "dead", "orders.dead", replication_factor=3, min_insync_replicas=2, dedupe_window_ms=3_600_000
)
CONFIG = ConsumerConfig(ack_wait_ms=500, max_deliver=1, dead_letter="orders.dead")
MESSAGES = 120
BAD = 5
"""Each fifth message is acked by nobody, and each tenth is terminated."""


async def work_until(cluster: Harness, floor: int) -> None:
    """Whoever does not hear in time goes on."""
    while True:
        with contextlib.suppress(LiftlogError):
            consumer = await cluster.client.consumer("orders", "billing", config=CONFIG)
            for one in await consumer.fetch(20, wait_ms=300):
                if one.record.offset % (2 * BAD) == 0:
                    await consumer.term(one)
                elif one.record.offset % BAD:
                    await consumer.ack(one)
            if (await consumer.info()).floor >= floor:
                return


async def letters(cluster: Harness) -> list[int]:
    """The offsets of the messages whose letters are stored."""
    found = []
    async with await cluster.client.read("dead", timeout_ms=30_000) as reading:
        async for _, record in reading:
            said = re.search(rb"Dead-Letter-Offset: (\d+)", record.headers)
            assert said is not None and record.value == b"%d" % int(said[1])
            found.append(int(said[1]))
    return found


def test_k9_each_dead_message_is_stored_once_while_leaders_are_killed_and_paused(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.client.create_stream(ORDERS)
        await cluster.client.create_stream(DEAD)
        for number in range(MESSAGES):
            while (await cluster.client.publish("orders", b"%d" % number)).outcome != "ok":
                pass
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work_until(cluster, MESSAGES))
            while not await letters(cluster):
                await asyncio.sleep(0.02)
            leader = await cluster.leader("orders")
            await cluster.kill(leader)
            await cluster.start(leader)
            led_by = await cluster.leader("dead")
            paused = cluster.cluster.nodes[led_by]
            paused.send(signal.SIGSTOP)
            try:
                while await cluster.leader("dead") == led_by:
                    await asyncio.sleep(0.1)
            finally:
                paused.send(signal.SIGCONT)
        found = await letters(cluster)
        # What was given, and lost with its leader, counts: it is dead too, though nobody has left it.
        assert len(found) == len(set(found))
        assert set(range(0, MESSAGES, BAD)) <= set(found)

    with_cluster(tmp_path, 3, story)


def test_k9_without_a_stream_for_them_dead_messages_wait_and_say_so(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        run = cluster.run
        await run("stream", "create", "orders", "--subject", "orders.new", "--replicas", "1", "--removal")
        limits = ("--ack-wait", "200ms", "--max-deliver", "1", "--dead-letter", "orders.dead")
        await run("consumer", "add", "orders", "billing", *limits)
        await run("pub", "orders.new", "first order")
        await run("consumer", "next", "orders", "billing", "--no-ack")
        while "no stream listens" not in (said := await run("consumer", "info", "orders", "billing")):
            await asyncio.sleep(0.05)
        assert "billing: 1 dead messages wait to be stored at orders.dead" in said
        log = cluster.cluster.nodes[1].log_path
        while "dead letters of consumer 'billing' wait: no stream listens" not in log.read_text():
            await asyncio.sleep(0.05)
        dedupe = ("--replicas", "1", "--dedupe-window", "1h")
        await run("stream", "create", "dead", "--subject", "orders.dead", *dedupe)
        while json.loads(await run("consumer", "info", "orders", "billing", "--json"))["dead"]:
            await asyncio.sleep(0.05)
        assert "first order" in await run("sub", "dead")

    with_cluster(tmp_path, 1, story)
