"""Streams whose first message has another offset than 0, on real nodes (C7)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

FIRST = 1 << 50


async def starts(cluster: Harness) -> list[tuple[int, str]]:
    """What a reader from the beginning gets of the first partition."""
    async with await cluster.client.read("orders") as reading:
        return [(record.offset, (record.value or b"").decode()) async for _, record in reading]


def test_C7_a_stream_begins_there_though_leaders_and_folders_are_lost(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        create = ("stream", "create", "orders", "orders", "--removal", "--first-offset", str(FIRST))
        await cluster.run(*create)
        assert f"first_offset {FIRST}" in await cluster.run("stream", "info", "orders")
        told = json.loads(await cluster.run("stream", "info", "orders", "--json"))
        assert told["config"]["first_offset"] == FIRST
        leader = await cluster.leader("orders")
        # Nobody has published: whoever leads next gives the first offset.
        await cluster.kill(leader)
        await until(lambda: other_leads(cluster, leader), "another leader")
        for number in range(3):
            await cluster.run("pub", "orders", str(number))
        folder = Path(cluster.cluster.nodes[leader].config.data)
        shutil.rmtree(folder / "streams" / str(told["id"]))
        await cluster.start(leader)
        await cluster.in_sync("orders", 3)
        expected = [(FIRST + number, str(number)) for number in range(3)]
        assert await starts(cluster) == expected
        for node in (1, 2, 3):
            await cluster.kill(node)
            await cluster.start(node)
            await cluster.in_sync("orders", 3)
        await cluster.run("stream", "delete-message", "orders", "--offset", str(FIRST + 1))
        await cluster.run("stream", "alter", "orders", "--partitions", "2")
        await cluster.leader("orders")
        assert await starts(cluster) == [expected[0], expected[2]]

    async def other_leads(cluster: Harness, former: int) -> bool:
        return await cluster.leader("orders") != former

    with_cluster(tmp_path, 3, story)


def test_C7_the_command_line_says_what_cannot_be(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        create = ("stream", "create", "orders", "orders", "--partitions", "2")
        assert "first_offset" in await cluster.refused(*create, "--first-offset", str((1 << 52) + 1))
        await cluster.run(*create, "--first-offset", "1000")
        assert "first_offset is 1000" in await cluster.refused(*create)
        for number in range(6):
            await cluster.run("pub", "orders", str(number))
        await cluster.run("stream", "create", "copy", "--mirror", "orders")
        told = json.loads(await cluster.run("stream", "info", "copy", "--json"))
        assert (told["config"]["first_offset"], told["config"]["partitions"]) == (1000, 2)

        async def copied() -> bool:
            lag = json.loads(await cluster.run("stream", "lag", "copy", "--json"))
            return all(one["behind"] == 0 for one in lag["partitions"])

        await until(copied, "a mirror that has everything")
        async with await cluster.client.read("copy") as reading:
            offsets = [record.offset async for _, record in reading]
        assert offsets and set(offsets) <= set(range(1000, 1006))

    with_cluster(tmp_path, 1, story)
