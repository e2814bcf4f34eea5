"""Messages with ids, sent again and again to real nodes whose leaders die: each is stored once (L7)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from liftlog.client import PublishResult, RequestFailed
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, with_cluster

pytestmark = pytest.mark.real

SENDERS, EACH = 4, 60
CONFIG = StreamConfig(
    "orders", "orders", replication_factor=3, min_insync_replicas=2, dedupe_window_ms=3_600_000
)


def name(sender: int, number: int) -> str:
    return f"order-{sender}-{number}"


async def send_until_stored(cluster: Harness, id: str) -> PublishResult:
    """However often that takes, each time as another text."""
    attempt = 0
    while True:
        attempt += 1
        value = f"{id} attempt {attempt}".encode()
        result = await cluster.client.publish("orders", value, timeout_ms=1000, message_id=id)
        if result.outcome == "ok":
            return result
        assert result.outcome == "info" or "no stream listens" in result.error, result
        await asyncio.sleep(0.05)


def test_L7_each_id_is_stored_once_also_when_leaders_die_and_all_start_anew(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.client.create_stream(CONFIG)
        offsets: dict[str, int] = {}

        async def send(sender: int) -> None:
            for number in range(EACH):
                id = name(sender, number)
                offsets[id] = (await send_until_stored(cluster, id)).offset

        async def retry_all() -> None:
            """All of them are there already, each where it was said to be."""
            for id, offset in sorted(offsets.items()):
                result = await send_until_stored(cluster, id)
                assert (result.duplicate, result.offset) == (True, offset), id

        async with asyncio.TaskGroup() as tasks:
            for sender in range(SENDERS):
                tasks.create_task(send(sender))
            for share in (1, 2):
                while len(offsets) < SENDERS * EACH * share // 3:
                    await asyncio.sleep(0.02)
                leader = await cluster.leader("orders")
                await cluster.kill(leader)
                await cluster.start(leader)
        await retry_all()
        nodes = cluster.running()
        await cluster.kill(*nodes)
        await cluster.start(*nodes)
        await retry_all()
        there = await cluster.read("orders")
        assert len(offsets) == SENDERS * EACH
        assert {offset: value.partition(" ")[0] for offset, value in there.items()} == {
            offset: id for id, offset in offsets.items()
        }, "each id is stored once, where its answers say"

    with_cluster(tmp_path, 3, story)


def test_L7_jetstreams_client_and_the_command_line_are_told_what_was_there(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        created = ("--dedupe-window", "2m", "--dedupe-ids-max", "3", "--replicas", "1")
        await cluster.run("stream", "create", "orders", "orders.>", *created)
        assert "dedupe_window_ms 120000, dedupe_ids_max 3" in await cluster.run("stream", "info", "orders")
        js = cluster.client.nats.jetstream()
        first = await js.publish("orders.new", b"0", headers={"Nats-Msg-Id": "a"})
        again = await js.publish("orders.new", b"0", headers={"Nats-Msg-Id": "a"})
        assert (first.seq, first.duplicate, again.seq, again.duplicate) == (1, None, 1, True)
        told = await cluster.run("pub", "orders.new", "x", "--message-id", "a")
        assert told.splitlines() == ["orders partition 0 offset 0 epoch 1, where it was stored before"]
        for id in ("b", "c"):
            await cluster.run("pub", "orders.new", id, "--message-id", id)
        full = await cluster.refused("pub", "orders.new", "d", "--message-id", "d")
        assert "3 message ids are remembered" in full and "--dedupe-ids-max" in full
        several = await cluster.refused("pub", "orders.new", "d", "e", "--message-id", "d")
        assert "the id of one message" in several
        with pytest.raises(RequestFailed, match="--dedupe-window 0"):
            await cluster.client.purge("orders", 0, 3)
        altered = await cluster.run("stream", "alter", "orders", "--dedupe-window", "0")
        assert "dedupe_window_ms 120000 -> none" in altered
        none = await cluster.refused("pub", "orders.new", "d", "--message-id", "d")
        assert "remembers no message ids" in none and "--dedupe-window 2m" in none
        assert await cluster.read("orders") == {0: "0", 1: "b", 2: "c"}

    with_cluster(tmp_path, 1, story)
