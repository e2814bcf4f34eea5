"""Makes tests/golden/release-<version>/: a data folder that a release has written, and what it holds.

    .venv/bin/python scripts/golden_release.py 0.1.0

The release is taken out of this repository's history by `releases.toml`. One node with a compacted stream and
a plain one, in several segments, compressed, a deleted stream, a snapshot of the metadata, and a clean stop.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from liftlog.client import Client
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.golden_contents import contents
from tests.releases import ROOT, check_out, releases

PROTOCOL = {"raft_snapshot_entries": 64, "raft_chunk_records": 16, "compaction_check_ms": 100}
STREAMS = (
    StreamConfig("keyed", "keyed", 1, 1, compact=True, dirty_ratio_percent=1, segment_bytes=1024),
    StreamConfig("plain", "plain.>", 1, 1, segment_bytes=1024, codec="zstd"),
    StreamConfig("gone", "gone", 1, 1),
)


async def fill(cluster: LocalCluster) -> dict[str, list[list[object]]]:
    async with await Client.connect(cluster.nats_url) as client:
        for config in STREAMS:
            await client.create_stream(config, timeout_ms=20_000)
        for number in range(120):
            headers = {"Liftlog-Key": f"key-{number % 7}"}
            if number % 31 == 30:
                headers["Liftlog-Tombstone"] = "1"
            body = b"" if number % 31 == 30 else f"value {number}".encode() * 8
            await client.nats.request("keyed", body, timeout=5, headers=headers)
            await client.nats.request(f"plain.{number}", body or b"x", timeout=5)
        await client.delete_stream("gone")
        for _ in range(80):
            await client.rebalance(timeout_ms=20_000)
        before = -1
        while before != (now := len(await contents(client, "keyed"))) or now >= 120:
            before = now
            await asyncio.sleep(1.0)
        return {name: await contents(client, name) for name in ("keyed", "plain")}


def main(version: str) -> None:
    release = next(each for each in releases() if each.version == version)
    target = ROOT / "tests" / "golden" / f"release-{version}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cluster = LocalCluster(folder / "cluster", 1, protocol=PROTOCOL)
        node = cluster.nodes[1]
        node.packages = check_out(release, folder / "release")["PYTHONPATH"]
        with cluster:
            found = asyncio.run(fill(cluster))
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(target / "data.tar.xz", "w:xz") as archive:
            archive.add(node.config.data, "data")
    (target / "contents.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")
    print({name: len(rows) for name, rows in found.items()}, (target / "data.tar.xz").stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
