"""What a node's log says when things happen to it and to others: read as an operator's tools would."""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from liftlog.client import Client
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, until

pytestmark = [pytest.mark.real, pytest.mark.slow]

STREAM = StreamConfig("orders", "orders", segment_bytes=64 * 1024)
NAME = "'orders' partition 0"


class Logs:
    """The lines of all nodes; `since` forgets what was there before."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._from: dict[int, int] = {}

    def since_now(self) -> None:
        self._from = {node: len(self._read(node)) for node in self._cluster.nodes}

    def lines(self, node: int) -> list[dict[str, Any]]:
        return self._read(node)[self._from.get(node, 0) :]

    def _read(self, node: int) -> list[dict[str, Any]]:
        text = self._cluster.nodes[node].log_path.read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith('{"at"')]

    async def wait(self, node: int, kind: str, **fields: object) -> dict[str, Any]:
        """Wait for a line of this kind with these fields; `text` need only be contained."""
        text = str(fields.pop("text", ""))

        async def there() -> dict[str, Any]:
            for line in self.lines(node):
                fits = all(line.get(key) == value for key, value in fields.items())
                if line["kind"] == kind and fits and text in line["text"]:
                    return line
            return {}

        return await until(there, f"a line {kind} {fields} {text!r} of node {node}")


def with_logs(folder: Path, story: Callable[[Harness, Logs], Awaitable[None]]) -> None:
    cluster = LocalCluster(folder, 3)
    for node in cluster.nodes.values():
        node.config = msgspec.structs.replace(node.config, log_format="json")

    async def run() -> None:
        async with await Client.connect(cluster.nats_url) as client:
            harness = Harness(cluster, client)
            await harness.all_live()
            await client.create_stream(STREAM)
            await story(harness, Logs(cluster))

    with cluster:
        asyncio.run(run())


def test_kills_pauses_wipes_a_lost_quorum_and_an_orderly_stop_are_told(tmp_path: Path) -> None:
    async def story(cluster: Harness, logs: Logs) -> None:
        nodes = cluster.cluster.nodes
        await logs.wait(1, "start", clean=False)
        await logs.wait(1, "session", text="registered as incarnation")
        await logs.wait(1, "fence", fenced=False)

        killed = await cluster.leader("orders")
        logs.since_now()
        await cluster.kill(killed)
        leader = await cluster.leader("orders")
        other = 6 - killed - leader
        await logs.wait(leader, "role", role="leader", text=f"{NAME}: leads epoch")
        await logs.wait(other, "role", role="follower", text=f"follows node {leader}")
        for node in (leader, other):
            lost = await logs.wait(node, "session", about=killed, state="expired")
            assert lost["level"] == "warning" and "is lost" in lost["text"]
            await logs.wait(node, "isr", text=f"({killed} left)")

        logs.since_now()
        await cluster.start(killed)
        await logs.wait(leader, "session", about=killed, state="live")
        await logs.wait(leader, "isr", text=f"({killed} joined)")
        found = await logs.wait(killed, "start", clean=False)
        assert "not after a clean stop" in found["text"]

        logs.since_now()
        nodes[leader].send(signal.SIGSTOP)
        try:
            await logs.wait(other, "session", about=leader, state="expired")
        finally:
            nodes[leader].send(signal.SIGCONT)
        fenced = await logs.wait(leader, "fence", fenced=True)
        assert fenced["session_ms"] > 1000
        await logs.wait(leader, "fence", fenced=False)
        await cluster.in_sync("orders", 3)

        wiped = other
        logs.since_now()
        await cluster.kill(wiped)
        shutil.rmtree(nodes[wiped].config.data)
        await cluster.start(wiped)
        told = await logs.wait(wiped, "quorum", text="this disk was found empty or set back")
        assert told["level"] == "warning"
        await logs.wait(leader, "session", about=wiped, text="its copies are fetched anew")
        await cluster.in_sync("orders", 3)
        await logs.wait(leader, "voters", text=f"node {wiped} is on the way")
        await logs.wait(wiped, "quorum", text="this node's vote counts")
        await logs.wait(leader, "voters", voters=[1, 2, 3], learners=[])

        logs.since_now()
        stopped = killed
        nodes[stopped].terminate()
        assert nodes[stopped].wait(20) == 0
        await logs.wait(stopped, "stop", by="SIGTERM")
        await logs.wait(stopped, "stop", handed_over=True)
        left = await logs.wait(leader, "session", about=stopped, state="left")
        assert left["level"] == "info"
        await cluster.kill(wiped)
        # Two of the three votes are away now.
        lonely = await logs.wait(leader, "controller", controller=0)
        assert lonely["level"] == "warning" and "no controller is heard" in lonely["text"]
        await logs.wait(leader, "fence", fenced=True)
        await cluster.start(stopped)
        await logs.wait(stopped, "start", clean=True)
        await logs.wait(leader, "fence", fenced=False)

    with_logs(tmp_path, story)


def test_a_nats_that_goes_a_full_disk_and_damage_are_told(tmp_path: Path) -> None:
    async def story(cluster: Harness, logs: Logs) -> None:
        nodes, nats = cluster.cluster.nodes, cluster.cluster.nats
        assert nats is not None
        await logs.wait(2, "nats", up=True)
        logs.since_now()
        nats.kill()
        await logs.wait(2, "nats", up=False, text="lost NATS")
        await logs.wait(2, "nats", up=False, text="cannot connect to NATS at")
        nats.start()
        await logs.wait(2, "nats", up=True)
        await cluster.leader("orders")

        async with Writer(cluster.client, "orders", "x" * 1000) as writer:
            await writer.more_acks(300)
            leader = await cluster.leader("orders")
            full = leader % 3 + 1
            logs.since_now()
            # The kernel refuses every write behind this place of a file, as a full disk would.
            _, most = resource.prlimit(nodes[full].pid, resource.RLIMIT_FSIZE)
            resource.prlimit(nodes[full].pid, resource.RLIMIT_FSIZE, (20_000, most))
            refused = await logs.wait(full, "disk", sync=False, stream="orders", text=NAME)
            assert refused["level"] == "error" and "a write was refused" in refused["text"]
            resource.prlimit(nodes[full].pid, resource.RLIMIT_FSIZE, (most, most))
            await logs.wait(full, "disk", text=f"{NAME}: open again")
            await writer.more_acks(100)

        # If the others had to wait for it, it comes back once it has kept up for its probation (R18): where
        # somebody else needs the machine as well, that is when nobody writes.
        await cluster.in_sync("orders", 3)
        logs.since_now()
        await cluster.kill(full)
        sealed = min((nodes[full].config.data / "streams").rglob("*.log"))
        # Where it ends depends on how far the copy was when its disk was full.
        place = sealed.stat().st_size // 2
        with sealed.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 0xFF]))
        await cluster.start(full)
        hurt = await logs.wait(full, "damage", level="error", text="cannot be read")
        assert hurt["stream"] == "orders" and hurt["ranges"]
        await logs.wait(full, "damage", text="repaired, every offset can be read")
        await cluster.in_sync("orders", 3)

    with_logs(tmp_path, story)
