"""Real nodes: the data folder of another cluster of the same name and founders is put into a node (M5)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]


def logs(folder: Path) -> dict[str, bytes]:
    """All logs of a data folder, by name, without what was set aside for growth."""
    return {
        str(path.relative_to(folder)): path.read_bytes().rstrip(b"\0")
        for path in sorted(folder.rglob("*.log"))
    }


async def stored(harness: Harness, prefix: str, acks: int) -> Writer:
    await harness.client.create_stream(StreamConfig("orders", "orders", 1, 3))
    await harness.in_sync("orders", 3)
    async with Writer(harness.client, "orders", prefix) as writer:
        await writer.more_acks(acks)
    return writer


def test_M5_a_folder_of_a_cluster_of_the_same_name_is_refused_and_kept(tmp_path: Path) -> None:
    """Before there was a name for a birth it was believed: the node led the partition with what the other
    cluster had stored, and the one that it had come to took no more messages.
    """

    async def first(harness: Harness) -> None:
        await stored(harness, "theirs", 300)
        # Its term is higher than that of the other cluster.
        for _ in range(2):
            controller = await harness.controller()
            await harness.kill(controller)
            await harness.controller()
            await harness.start(controller)
            await harness.in_sync("orders", 3)
        await harness.kill(1, 2, 3)

    other = with_cluster(tmp_path / "other", 3, first, refined=False)
    folder = other.nodes[1].config.data

    async def second(harness: Harness) -> None:
        nodes = harness.cluster.nodes
        writer = await stored(harness, "ours", 50)
        data = nodes[1].config.data
        await harness.kill(1)
        data.rename(tmp_path / "own")
        shutil.copytree(folder, data)
        await harness.start(1)

        async def told() -> bool:
            said = ["of another cluster of this name" in nodes[n].log_path.read_text() for n in (1, 2, 3)]
            return all(said)

        await until(told, "both sides say it")
        async with Writer(harness.client, "orders", "later") as later:
            await later.more_acks(50)
        code, said = await harness.said("cluster", "status")
        assert code == 1 and "node 1 runs on a data folder of another cluster" in said, said
        assert nodes[1].running
        for number in (1, 2, 3):
            lines = nodes[number].log_path.read_text().splitlines()
            assert sum("of another cluster of this name" in line for line in lines) <= 2, lines[-5:]
        await harness.kill(1)
        assert logs(data) == logs(folder)

        # Its own folder is believed as before.
        shutil.rmtree(data)
        (tmp_path / "own").rename(data)
        await harness.start(1)
        await harness.in_sync("orders", 3)
        assert (await harness.said("cluster", "status"))[0] == 0
        await harness.check_nothing_lost("orders", writer)
        await harness.check_nothing_lost("orders", later)

    # What the other cluster's disk remembers is no history of this one, against which traces are held.
    with_cluster(tmp_path / "cluster", 3, second, refined=False)
