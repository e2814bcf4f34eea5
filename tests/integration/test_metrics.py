"""A node's metrics port as Prometheus, a load balancer and a stranger use it, while the cluster is broken."""

from __future__ import annotations

import asyncio
import http.client
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from liftlog.client import Client, RequestFailed
from liftlog.eyes import names
from liftlog.eyes.http import CONNECTIONS_MAX
from liftlog.real.local_cluster import HOST, LocalCluster
from liftlog.real.nats_server import free_port
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, until, with_cluster
from tests.integration.test_full_disk import limit_files
from tests.tools.metric_files import alerts, dashboard_expressions
from tests.tools.promql import parse

pytestmark = [pytest.mark.real, pytest.mark.slow]

STREAM = StreamConfig("orders", "orders", replication_factor=3)
MIRROR = StreamConfig("copy", "copy", replication_factor=3, mirror="orders")
GATHERED = StreamConfig("all", "all.in", replication_factor=3, sources=(("orders", ""),))
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def ask(cluster: LocalCluster, node: int, path: str, timeout_s: float = 5.0) -> tuple[int, str]:
    """Status and body. Raises OSError."""
    connection = http.client.HTTPConnection(cluster.nodes[node].config.metrics_listen, timeout=timeout_s)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


class Scraper:
    """Reads metrics as Prometheus does."""

    def __init__(self, harness: Harness) -> None:
        self._cluster = harness.cluster

    async def get(self, node: int, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(ask, self._cluster, node, path)

    async def page(self, node: int) -> str:
        status, text = await self.get(node, "/metrics")
        assert status == 200
        return text

    async def samples(self, node: int) -> Samples:
        families = text_string_to_metric_families(await self.page(node))
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }

    async def value(self, node: int, name: str, /, **labels: str) -> float:
        return (await self.samples(node)).get((f"liftlog_{name}", tuple(sorted(labels.items()))), -1.0)

    async def total(self, nodes: Iterable[int], name: str) -> float:
        return sum([await self.value(node, name) for node in nodes])

    async def shows(self, node: int, wanted: float, name: str, /, **labels: str) -> None:
        """Wait until a metric has a value."""

        async def reached() -> bool:
            return await self.value(node, name, **labels) == wanted

        await until(reached, f"{name} {labels} = {wanted} on node {node}")

    async def lacks(self, node: int, words: str) -> str:
        """Wait until /readyz says that something is missing."""

        async def said() -> str:
            status, text = await self.get(node, "/readyz")
            return text if status == 503 and words in text else ""

        return await until(said, f"{words!r} in /readyz of node {node}")

    async def ready(self, node: int, path: str = "/readyz") -> None:
        told = (0, "")

        async def said() -> bool:
            nonlocal told
            told = await self.get(node, path)
            return told == (200, f"node {node} is ready\n")

        try:
            await until(said, f"node {node} ready by {path}")
        except AssertionError as error:
            error.add_note(f"it said {told}")
            raise


Story = Callable[[Harness, Scraper], Awaitable[None]]


def prepare(cluster: LocalCluster) -> None:
    for node in cluster.nodes.values():
        listen = f"{HOST}:{free_port(HOST)}"
        # Who leaves an in-sync set leaves it for what the test does, and not for a busy machine (R17).
        node.config = msgspec.structs.replace(
            node.config, metrics_listen=listen, protocol={"replica_slow_ms": 0}
        )


async def tell(harness: Harness, story: Story) -> None:
    await harness.client.create_stream(STREAM)
    await harness.in_sync("orders", 3)
    await story(harness, Scraper(harness))


def without_traces(folder: Path, story: Story) -> None:
    """For nodes whose files, their traces too, are cut short."""
    cluster = LocalCluster(folder, 3)
    prepare(cluster)

    async def run() -> None:
        async with await Client.connect(cluster.nats_url) as client:
            harness = Harness(cluster, client)
            await harness.all_live()
            await tell(harness, story)

    with cluster:
        asyncio.run(run())


async def check_names(scraper: Scraper, nodes: Sequence[int]) -> None:
    """What is listed is told, what is told is listed, and what dashboard and alerts ask for is there.

    A node alone does not tell everything: only who leads a copy tells how far that is behind.
    """
    told: dict[str, set[str]] = {}
    listed = {series: family for family in names.FAMILIES for series in names.series_of(family)}
    for node in nodes:
        await scraper.get(node, "/nothing")
        await scraper.shows(node, 1, "http_answers_total", code="404")
        text = await scraper.page(node)
        samples = await scraper.samples(node)
        for name, labels in samples:
            told.setdefault(name, set()).update(label for label, _ in labels)
        for family in {listed[name] for name, _ in samples if name in listed}:
            assert f"# HELP {family.name} {family.text}\n" in text
            assert text.count(f"# TYPE {family.name} {family.kind}\n") == 1
    assert told.keys() == listed.keys() | set(names.PROCESS)
    for series, family in listed.items():
        assert told[series] - {"le"} == set(family.labels), series
    for expression in [*dashboard_expressions(), *(rule["expr"] for rule in alerts())]:
        assert {selector.name for selector in parse(expression).selectors} <= told.keys(), expression


def test_metrics_tell_of_load_of_a_kill_of_a_pause_and_of_nats(tmp_path: Path) -> None:
    async def story(cluster: Harness, scraper: Scraper) -> None:
        leader = await cluster.leader("orders")
        others = [node for node in (1, 2, 3) if node != leader]
        place = {"stream": "orders", "partition": "0"}
        async with Writer(cluster.client, "orders", "v") as writer:
            await writer.more_acks(300)
            assert await scraper.value(leader, "commit_duration_seconds_count") >= 300
            assert await scraper.value(leader, "partition_leading", **place) == 1
            assert await scraper.value(leader, "partition_high_watermark_offset", **place) >= 300
            assert await scraper.value(leader, "partition_in_sync_replicas", **place) == 3
            assert await scraper.value(leader, "partition_log_bytes", **place) > 300 * 10
            for node in others:
                assert await scraper.value(leader, "replica_lag_records", **place, replica=str(node)) < 300
                assert await scraper.value(node, "partition_leading", **place) == 0
            assert await scraper.total((1, 2, 3), "leader_elections_total") == 1
            assert await scraper.total((1, 2, 3), "controller_active") == 1
            assert await scraper.value(leader, "disk_free_bytes") > 0
            assert await scraper.value(leader, "storage_sync_duration_seconds_count") > 0

            async def tells_of_the_one_before() -> bool:
                return await scraper.value(leader, "scrape_cpu_seconds") > 0

            await until(tells_of_the_one_before, "the cost of an earlier scrape")

            await cluster.kill(leader)
            second = await cluster.leader("orders")
            for node in others:
                await scraper.shows(node, 0, "session_live", node=str(leader))
                await scraper.shows(node, 1, "partitions_under_replicated")
                assert await scraper.value(node, "partitions_offline") == 0
            assert await scraper.total(others, "leader_elections_total") == 1
            assert await scraper.total(others, "isr_shrinks_total") == 1
            assert await scraper.total(others, "isr_expands_total") == 0
            await scraper.shows(second, 1, "partitions_at_minimum")
            await cluster.start(leader)
            await scraper.ready(leader, "/readyz?in-sync")
            await scraper.shows(second, 0, "partitions_under_replicated")
            await scraper.shows(second, 1, "isr_expands_total")
            assert await scraper.total((1, 2, 3), "isr_expands_total") == 1
            # History is not counted anew by the node that came back.
            assert await scraper.value(leader, "leader_elections_total") == 0

            paused = next(node for node in (1, 2, 3) if node != second)
            cluster.cluster.nodes[paused].send(signal.SIGSTOP)
            try:
                await scraper.shows(second, 0, "session_live", node=str(paused))
                with pytest.raises(TimeoutError):
                    await asyncio.to_thread(ask, cluster.cluster, paused, "/healthz", 0.5)
            finally:
                cluster.cluster.nodes[paused].send(signal.SIGCONT)
            assert await scraper.get(paused, "/healthz") == (200, f"node {paused} runs\n")
            await scraper.ready(paused, "/readyz?in-sync")
            assert await scraper.value(paused, "loop_delay_seconds_sum") > 1
            await writer.more_acks(50)
        await cluster.client.create_stream(MIRROR)
        await scraper.shows(
            await cluster.leader("copy"), 0, "mirror_lag_records", stream="copy", partition="0"
        )
        await cluster.client.create_stream(GATHERED)
        labels = {"stream": "all", "partition": "0", "source": "orders"}
        await scraper.shows(await cluster.leader("all"), 0, "source_lag_records", **labels)
        await check_names(scraper, (1, 2, 3))

        nats = cluster.cluster.nats
        assert nats is not None
        nats.stop()
        for node in (1, 2, 3):
            text = await scraper.lacks(node, "nats: not connected")
            assert text.startswith(f"node {node} is not ready\n")
            await scraper.shows(node, 0, "nats_connected")
            assert (await scraper.get(node, "/healthz"))[0] == 200
        nats.start()
        for node in (1, 2, 3):
            await scraper.ready(node)

    with_cluster(tmp_path, 3, lambda harness: tell(harness, story), prepare, tls=True)


def test_a_full_disk_a_lost_quorum_and_strangers(tmp_path: Path) -> None:
    async def story(cluster: Harness, scraper: Scraper) -> None:
        nodes, client = cluster.cluster.nodes, cluster.client
        full = await cluster.controller() % 3 + 1
        log = nodes[full].config.data / "raft" / "00000000000000000000.log"

        async def longer_than_its_own_log() -> bool:
            with pytest.raises(RequestFailed, match="exists"):
                await client.create_stream(StreamConfig("orders", "another"))
            return log.stat().st_size > nodes[full].log_path.stat().st_size + 4096

        await until(longer_than_its_own_log, "a metadata log longer than what the node tells", 60)
        limit_files(nodes[full].pid, log.stat().st_size)
        await client.create_stream(StreamConfig("later", "later", replication_factor=2))
        assert "make room on it" in await scraper.lacks(full, "disk: it takes no metadata (")
        await scraper.shows(full, 1, "metadata_refused")
        limit_files(nodes[full].pid, -1)
        await scraper.ready(full)

        await asyncio.to_thread(strangers, nodes[full].config.metrics_listen)
        await scraper.shows(full, 1, "http_answers_total", code="400")
        assert await scraper.value(full, "http_connections_cut_total") >= 1

        gone = [node for node in (1, 2, 3) if node != full]
        await cluster.kill(*gone)
        await scraper.shows(full, 0, "controller_heard")
        text = await scraper.lacks(full, "session: not valid, the controller answered")
        assert "this node takes no messages" in text
        await scraper.shows(full, 0, "session_valid")
        assert await scraper.value(full, "controller_contact_age_seconds") > 0.5
        await cluster.start(*gone)
        for node in (1, 2, 3):
            await scraper.ready(node)

    without_traces(tmp_path, story)


def strangers(address: str) -> None:
    """More connections than are allowed, silent or talking nonsense: who comes after them is answered."""
    host, _, port = address.rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(3 * CONNECTIONS_MAX)]
    try:
        for one in silent[: CONNECTIONS_MAX // 2]:
            one.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
        with socket.create_connection((host, int(port)), timeout=5) as one:
            one.sendall(b"\x16\x03\x01 hello\r\n\r\n")
            assert one.recv(4096).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        connection = http.client.HTTPConnection(address, timeout=5)
        connection.request("GET", "/readyz")
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        for one in silent:
            one.close()
