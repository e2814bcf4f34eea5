"""Real nodes of which most disks are destroyed at once: a new quorum out of the one that is left (M5)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, liftlog, until, with_cluster
from tests.integration.test_replaced_disks import voters

pytestmark = [pytest.mark.real, pytest.mark.slow]


async def recover(*arguments: str | Path) -> tuple[int, str, str]:
    return await asyncio.to_thread(liftlog, "cluster", "recover", *map(str, arguments))


def test_M5_a_new_quorum_is_formed_and_an_old_member_that_returns_is_refused(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        nodes = harness.cluster.nodes
        data = {number: node.config.data for number, node in nodes.items()}
        await harness.client.create_stream(StreamConfig("orders", "orders", 1, 3))
        async with Writer(harness.client, "orders", "value") as writer:
            await harness.in_sync("orders", 3)
            await writer.more_acks(100)
            code, _, error = await recover(data[1])
            assert code == 2 and "in use by a running process" in error
            await harness.kill(1, 2, 3)
        shutil.copytree(data[3], tmp_path / "old")
        for node in (2, 3):
            shutil.rmtree(data[node])

        # Nothing is done before the operator has said what only he can know.
        code, said, error = await recover(data[1])
        assert code == 2 and "state it: --destroyed 2 --destroyed 3" in error
        assert "not here: node 2" in said and "may be lost: what the missing voters decided" in said
        stated = ("--destroyed", "2", "--destroyed", "3")
        code, _, error = await recover(data[1], *stated)
        assert code == 2 and "say the same with --yes" in error
        code, said, _ = await recover(data[1], *stated, "--dry-run")
        assert code == 0 and "would do: epoch 2" in said
        assert not (data[1] / "quarantine").exists()
        code, said, error = await recover(data[1], *stated, "--yes")
        assert code == 0 and "epoch 2 of the cluster begins with the disk of node 1" in said, error
        code, said, error = await recover(data[1], *stated, "--yes")
        assert code == 0 and "epoch 2 has begun: start the nodes" in said, error

        await harness.start(1, 2, 3)
        await voters(harness, [1, 2, 3])
        await harness.in_sync("orders", 3)
        await harness.check_nothing_lost("orders", writer)

        # The disk that was taken for destroyed comes back.
        await harness.kill(3)
        shutil.rmtree(data[3])
        shutil.copytree(tmp_path / "old", data[3])
        await harness.start(3)

        async def told() -> bool:
            return "the cluster was recovered without this disk" in nodes[3].log_path.read_text()

        await until(told, "the refusal in the log of node 3")
        async with Writer(harness.client, "orders", "later") as later:
            await later.more_acks(20)
        await harness.kill(3)
        for path in sorted((tmp_path / "old" / "streams").rglob("*.log")):
            kept = data[3] / path.relative_to(tmp_path / "old")
            assert kept.read_bytes().startswith(path.read_bytes()[:4096]), path
        shutil.rmtree(data[3])
        await harness.start(3)
        await voters(harness, [1, 2, 3])
        await harness.in_sync("orders", 3)
        await harness.check_nothing_lost("orders", writer)

    with_cluster(tmp_path / "cluster", 3, story, refined=False)
