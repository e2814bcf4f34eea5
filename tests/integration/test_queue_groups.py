"""Two streams share a subject, on real nodes (N11)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real


def test_N11_each_message_is_in_one_of_two_streams_though_a_leader_dies(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        for name in ("left", "right"):
            config = StreamConfig(name, "orders.*", 1, 3, 2, queue_group="desks")
            await cluster.client.create_stream(config)
            await cluster.leader(name)
        acked: dict[str, str] = {}
        sent = 0

        async def publish(until_acked: int) -> None:
            nonlocal sent

            async def enough() -> bool:
                nonlocal sent
                result = await cluster.client.publish(f"orders.{sent % 3}", b"%d" % sent, timeout_ms=1000)
                if result.outcome == "ok":
                    acked[str(sent)] = result.stream
                sent += 1
                return len(acked) >= until_acked

            await until(enough, f"{until_acked} acks")

        await publish(100)
        assert set(acked.values()) == {"left", "right"}
        leader = await cluster.leader("left")
        await cluster.kill(leader)
        await publish(150)
        await cluster.start(leader)
        for name in ("left", "right"):
            await cluster.leader(name)
        await publish(250)
        stored = {name: set((await cluster.read(name)).values()) for name in ("left", "right")}
        assert not stored["left"] & stored["right"], "each message is in one of them"
        for value, stream in acked.items():
            assert value in stored[stream]

    with_cluster(tmp_path, 3, story)


def test_N11_the_command_line_makes_and_shows_a_group(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        for name in ("left", "right"):
            await cluster.run("stream", "create", name, "--subject", "orders.*", "--queue-group", "desks")
        assert "queue group 'desks'" in await cluster.run("stream", "info", "left")
        info = json.loads(await cluster.run("stream", "info", "right", "--json"))
        assert info["config"]["queue_group"] == "desks"
        told = await cluster.refused("stream", "create", "third", "--subject", "orders.new")
        assert "put both into one queue group (--queue-group)" in told
        await cluster.run("stream", "create", "copy", "--subject", "orders.>", "--no-ack-reply")
        for number in range(8):
            await cluster.run("pub", "orders.new", str(number))
        left, right = [await cluster.read(name) for name in ("left", "right")]
        assert sorted([*left.values(), *right.values()], key=int) == [str(number) for number in range(8)]

        async def copied() -> bool:
            return sorted((await cluster.read("copy")).values(), key=int) == [str(n) for n in range(8)]

        await until(copied, "a copy of every message")

    with_cluster(tmp_path, 1, story)
