"""Two releases as real processes: an upgrade under load, a step back, the level that ends that (U2)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import msgspec
import pytest

from liftlog.client import Client
from liftlog.messages import StreamChanges
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import FEATURE_LEVEL, StreamConfig
from liftlog.version import VERSION
from tests.golden_contents import contents
from tests.integration.cluster import Harness, Writer, liftlog, until, with_cluster
from tests.releases import ROOT, check_out, releases, unpack

pytestmark = [pytest.mark.real, pytest.mark.slow]

RELEASE = releases()[0]


def test_u2_a_cluster_is_upgraded_node_by_node_and_may_go_back_until_its_level_rises(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    environment = check_out(RELEASE, folder)
    older = environment["PYTHONPATH"]
    present = ""

    def prepare(cluster: LocalCluster) -> None:
        nonlocal present
        for node in cluster.nodes.values():
            present, node.packages = node.packages, older
            protocol = {**node.config.protocol, "raft_snapshot_entries": 64, "raft_chunk_records": 16}
            node.config = msgspec.structs.replace(node.config, protocol=protocol)

    async def story(harness: Harness) -> None:
        nodes, client = harness.cluster.nodes, harness.client
        nats = {"LIFTLOG_NATS": harness.cluster.nats_url}

        async def command(*arguments: str) -> tuple[int, str]:
            code, out, err = await asyncio.to_thread(
                liftlog, "cluster", *arguments, "--json", environment=nats
            )
            return code, out if code == 0 else err

        async def runs(node: int, packages: str) -> None:
            """Stop a node in an orderly way; start it on the same data with this code."""
            nodes[node].terminate()
            await asyncio.to_thread(nodes[node].wait)
            nodes[node].packages = packages
            await harness.start(node)
            await harness.in_sync("orders", 3)
            release = RELEASE.version if packages == older else VERSION
            assert f"liftlog {release}," in nodes[node].log_path.read_text().rpartition("starts: ")[2]

        async def decide(count: int) -> None:
            await asyncio.gather(*(client.rebalance(timeout_ms=20_000) for _ in range(count)))

        await client.create_stream(StreamConfig("orders", "orders", 1, 3))
        async with Writer(client, "orders", "value") as writer:
            await writer.more_acks(20)
            await decide(100)
            for node in (1, 2):
                await runs(node, present)
                await writer.more_acks(20)
            code, text = await command("level")
            assert code == 0 and json.loads(text)["level"] == 1
            code, text = await command("level", "--raise")
            assert code != 0 and ("node 3 (can 1)" in text or "no operation 'CONTROLLER.LEVEL'" in text)
            # Back, with what the newer one has written, snapshots too; and forward again.
            await decide(100)
            await runs(2, older)
            await writer.more_acks(20)
            await runs(2, present)
            await runs(3, present)
            await writer.more_acks(20)
            code, text = await command("level", "--raise")
            assert code == 0, text
            assert json.loads(text)["level"] == FEATURE_LEVEL
            await decide(100)
            # From here on there is no way back: the older release is told so, and so is who runs the others.
            nodes[3].terminate()
            await asyncio.to_thread(nodes[3].wait)
            nodes[3].packages = older
            nodes[3].launch()

            reason = f"protocol version {RELEASE.protocol[1]}, we 3: upgrade liftlog there"

            async def told() -> bool:
                return "does not speak protocol version 2" in nodes[3].log_path.read_text()

            async def known() -> bool:
                # Who refuses says so to the other side first: its own line may stand a moment later.
                return any(reason in nodes[node].log_path.read_text() for node in (1, 2))

            await until(told, "the older release to say why nobody speaks with it")
            await until(known, "a node to say why it speaks with no older release")
            await writer.more_acks(20)
            await runs(3, present)
            await writer.more_acks(20)
            # A client of the older release is told what it can read, whatever has come to be since.
            await client.create_stream(StreamConfig("halted", "halted", 1, 3))
            await client.alter_stream("halted", StreamChanges(paused=True))
            for arguments in (("stream", "info", "halted"), ("sub", "orders", "--count", "5")):
                ran = await asyncio.to_thread(liftlog, *arguments, environment={**environment, **nats})
                assert ran[0] == 0, ran
        await harness.check_nothing_lost("orders", writer)
        status = json.loads((await command("status"))[1])
        assert status["level"] == FEATURE_LEVEL
        assert {node["can_level"] for node in status["nodes"]} == {FEATURE_LEVEL}
        assert all(status["snapshots"][str(node)]["entries"] > 0 for node in nodes)

    where = subprocess.run(
        [sys.executable, "-c", "import liftlog, liftlog_spec; print(liftlog.__file__, liftlog.__version__)"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert where == [str(folder / "liftlog" / "__init__.py"), RELEASE.version]
    with_cluster(tmp_path / "cluster", 3, story, prepare)


@pytest.mark.parametrize("version", [release.version for release in releases()])
def test_u3_everything_that_a_release_has_stored_is_there_and_goes_on(version: str, tmp_path: Path) -> None:
    """Compacted and compressed segments, on the very folder that a node of the release has left."""
    golden = ROOT / "tests" / "golden" / f"release-{version}"
    left = json.loads((golden / "contents.json").read_text())

    async def look(cluster: LocalCluster) -> None:
        async with await Client.connect(cluster.nats_url) as client:
            await story(Harness(cluster, client))

    async def story(harness: Harness) -> None:
        for name, rows in left.items():
            await harness.leader(name)
            # The node has another address now than the folder remembers.
            await harness.client.addresses(refresh=True)
            assert await contents(harness.client, name) == rows
        async with Writer(harness.client, "plain.new", "value") as writer:
            await writer.more_acks(20)
        found = await contents(harness.client, "plain")
        assert found[: len(left["plain"])] == left["plain"] and len(found) >= len(left["plain"]) + 20

    with tarfile.open(golden / "data.tar.xz") as archive:
        unpack(archive, tmp_path / "node-1")
    with LocalCluster(tmp_path, 1) as cluster:
        asyncio.run(look(cluster))
