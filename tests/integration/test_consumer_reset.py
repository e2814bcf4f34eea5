"""Consumers that are reset, on real nodes: there is always one, and it gives all again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from liftlog.client import ConsumerConfig, RequestFailed
from liftlog.client.consuming import Delivery, PullConsumer
from liftlog.client.on_trio import TrioClient
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import Harness, with_cluster

pytestmark = pytest.mark.real

MESSAGES = 40
CONFIG = StreamConfig("orders", "orders", replication_factor=3, min_insync_replicas=2, removal=True)


def test_k1_the_commands_of_the_page(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        run, reset = cluster.run, ("consumer", "reset", "orders", "billing")
        await run("stream", "create", "orders", "--subject", "orders.>", "--replicas", "1", "--removal")
        await run("consumer", "add", "orders", "billing", "--ack-wait", "10m", "--note", "owner=us")
        for word in ("first", "second", "third"):
            await run("pub", "orders.new", word)
        await run("consumer", "next", "orders", "billing")
        assert "delivered 1: second" in await run("consumer", "next", "orders", "billing", "--no-ack")
        for to, position, to_come in (
            *(("floor", 1, 2), ("earliest", 0, 3), ("new", 3, 0), ("2", 2, 1)),
            *(("2026-05-01T12:00:00Z", 0, 3), ("2999-05-01T12:00:00Z", 3, 0)),
        ):
            told = json.loads(await run(*reset, "--to", to, "--json"))
            assert (told["position"], told["num_pending"], told["ack_pending"]) == (position, to_come, 0), to
            assert told["config"]["notes"] == [["owner", "us"]]
        assert "billing" in await run(*reset, "--to", "0")
        assert "delivered 1: first" in await run("consumer", "next", "orders", "billing")
        assert "below 3" in await cluster.refused(*reset, "--to", "4")
        assert "or a time such as" in await cluster.refused(*reset, "--to", "middle")
        assert "--to" in await cluster.refused(*reset)
        missing = await cluster.refused("consumer", "reset", "orders", "nobody", "--to", "floor")
        assert "does not exist" in missing and "liftlog consumer ls" in missing

    with_cluster(tmp_path, 1, story)


def test_k1_in_programs_and_to_whoever_was_given_something_before(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await cluster.newest_level()
        await client.create_stream(StreamConfig("s", "s", replication_factor=1, removal=True))
        for number in range(3):
            assert (await client.publish("s", b"%d" % number)).outcome == "ok"
        config = ConsumerConfig(ack_wait_ms=60_000)
        mine, theirs = [await client.consumer("s", "c", config=config) for _ in range(2)]
        given = await theirs.fetch(2)
        waits = asyncio.create_task(theirs.fetch(2, wait_ms=30_000))
        assert [one.record.offset for one in await mine.fetch(1)] == [2]
        await asyncio.sleep(0)
        told = await mine.reset(1)
        assert (told.position, told.num_pending, mine.number) == (1, 2, told.number)
        with contextlib.suppress(RequestFailed):
            given += await waits
        with pytest.raises(RequestFailed, match="deleted, or reset") as caught:
            await theirs.ack(*given)
        assert caught.value.code == "not-found"
        found = await mine.fetch(9)
        assert [(one.record.offset, one.delivered, one.sequence) for one in found] == [(1, 1, 1), (2, 1, 2)]
        await mine.ack(*found)
        assert (await client.reset_consumer("s", "c")).position == 3
        with pytest.raises(LiftlogError, match="name 0 or more, or None"):
            await client.reset_consumer("s", "c", -1)

        def in_trio() -> list[int]:
            import trio

            async def main() -> list[int]:
                async with TrioClient.connect(cluster.cluster.nats_url) as other:
                    shared = await other.consumer("s", "c")
                    await shared.reset(0)
                    return [one.record.offset for one in await shared.fetch(9)]

            return trio.run(main)

        assert await asyncio.to_thread(in_trio) == [0, 1, 2]

    with_cluster(tmp_path, 1, story)


async def _taken(cluster: Harness, consumer: PullConsumer) -> list[Delivery]:
    """All that it is given, and acked."""
    found: list[Delivery] = []
    while len({one.record.offset for one in found}) < MESSAGES:
        with contextlib.suppress(LiftlogError):
            some = await consumer.fetch(20, wait_ms=500)
            found += some
            if some:
                await consumer.ack(*some)
    return found


def test_k1_through_leaders_that_are_killed_there_is_one_that_gives_all_again(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await cluster.newest_level()
        stream = await client.create_stream(CONFIG)
        for number in range(MESSAGES):
            assert (await client.publish("orders", b"%d" % number)).outcome == "ok"
        config = ConsumerConfig(ack_wait_ms=2000)
        late = await client.consumer("orders", "c", config=config)
        for _ in range(3):
            stale = await late.fetch(30)
            leader = (await client.stream("orders")).partitions[0].leader
            killing = asyncio.create_task(cluster.kill(leader))
            told = None
            while told is None:
                with contextlib.suppress(LiftlogError):
                    told = await client.reset_consumer("orders", "c", 0, timeout_ms=20_000)
            await killing
            assert told.number > late.number and told.config == config
            with pytest.raises(RequestFailed, match="reset"):
                await late.ack(*stale)
            consumer = await client.consumer(stream, "c", timeout_ms=30_000)
            assert consumer.number == told.number
            assert {one.record.offset for one in await _taken(cluster, consumer)} == set(range(MESSAGES))
            await cluster.start(leader)
            late = await client.consumer("orders", "c", timeout_ms=30_000)
            await late.reset(0)

    with_cluster(tmp_path, 3, story)
