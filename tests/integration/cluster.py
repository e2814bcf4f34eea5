"""Real clusters for tests: processes, a nats-server, a publisher that goes on and on, conditions to wait for.

Nothing here sleeps for luck: every wait is for a condition, with a deadline after which the test fails and
says what it saw last.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from liftlog.client import Client, PublishResult, RequestFailed, Unreachable
from liftlog.commands.asking import look_at
from liftlog.messages import PartitionInfo
from liftlog.real.local_cluster import LocalCluster
from liftlog.tls.files import VARIABLES
from liftlog.types import FEATURE_LEVEL
from liftlog_spec.refine.traces import check_traces

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
DEADLINE_S = 30.0
STORY_S = 480.0
"""What happens on a cluster ends by then, or the test fails and says where it waited."""


async def until(condition: Callable[[], Awaitable[T]], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Wait until `condition` returns something true; return it. Temporary errors count as "not yet"."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    last: object = None
    while loop.time() < deadline:
        try:
            value = await condition()
            if value:
                return value
            last = value
        except (RequestFailed, Unreachable) as error:
            last = error
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {deadline_s} s: {what}; last seen: {last!r}")


def child_environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """Our environment without the developer's own LIFTLOG_ settings, with this checkout to import from; and
    output waits in buffers as it does for users, whose Python is not told otherwise.
    """
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LIFTLOG_")}
    clean.pop("PYTHONUNBUFFERED", None)
    clean["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), clean.get("PYTHONPATH", "")]))
    return clean | (extra or {})


def liftlog(
    *arguments: str, environment: dict[str, str] | None = None, stdin: bytes = b""
) -> tuple[int, str, str]:
    """Run the command line; returns (exit code, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-m", "liftlog", *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        env=child_environment(environment),
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Writer:
    """Publishes distinct values to one subject without end, and remembers what became of each."""

    def __init__(self, client: Client, subject: str, prefix: str, ack_timeout_ms: int = 3000) -> None:
        self._client = client
        self._subject = subject
        self._prefix = prefix
        self._ack_timeout_ms = ack_timeout_ms
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self.acked: dict[int, str] = {}
        """Offset -> value of every acknowledged message."""
        self.epochs: dict[int, int] = {}
        self.others: list[PublishResult] = []
        self.contradictions: list[str] = []

    def value(self, tag: int) -> str:
        return f"{self._prefix}-{tag}"

    async def __aenter__(self) -> Writer:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping = True
        assert self._task is not None
        await self._task

    async def more_acks(self, count: int, deadline_s: float = DEADLINE_S) -> None:
        """Wait for so many further acks."""
        goal = len(self.acked) + count

        async def reached() -> bool:
            return len(self.acked) >= goal

        await until(reached, f"{count} more acks for {self._subject}", deadline_s)

    async def _run(self) -> None:
        publisher = self._client.publisher(self._on_result, window=64, ack_timeout_ms=self._ack_timeout_ms)
        async with publisher:
            tag = 0
            while not self._stopping:
                await publisher.send(tag, self._subject, self.value(tag).encode())
                tag += 1
                # Some hundred messages a second leave the machine to the nodes under test.
                await asyncio.sleep(0.002)

    def _on_result(self, result: PublishResult) -> None:
        if result.outcome != "ok":
            self.others.append(result)
            return
        known = self.acked.setdefault(result.offset, self.value(result.tag))
        if known != self.value(result.tag):
            self.contradictions.append(f"offset {result.offset}: {known} and {self.value(result.tag)}")
        self.epochs[result.offset] = result.epoch


class Harness:
    """A started cluster with a client, used inside one asyncio run."""

    def __init__(self, cluster: LocalCluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client

    async def all_live(self, count: int = 0) -> None:
        """Wait until every node, or so many, have a session with a controller."""

        async def reached() -> bool:
            status = await self.client.status(timeout_ms=1000)
            return sum(info.live for info in status.nodes) == (count or len(self.cluster.nodes))

        await until(reached, "a session for every node")

    async def partition(self, stream: str, index: int = 0) -> PartitionInfo:
        return (await self.client.stream(stream, timeout_ms=2000)).partitions[index]

    async def leader(self, stream: str) -> int:
        """Wait for a leader that listens; return its node."""

        async def ready() -> int:
            record = await self.partition(stream)
            running = record.leader and self.cluster.nodes[record.leader].running
            return record.leader if record.ready and running else 0

        return await until(ready, f"a running leader of {stream} that is ready")

    async def controller(self) -> int:
        async def elected() -> int:
            for node in self.running():
                status = await self.client.status(node, timeout_ms=1000)
                if status.controller in self.running():
                    return status.controller
            return 0

        return await until(elected, "a running controller")

    async def in_sync(self, stream: str, count: int) -> None:
        async def reached() -> bool:
            return len((await self.partition(stream)).isr) == count

        await until(reached, f"{count} replicas of {stream} in sync")

    def running(self) -> list[int]:
        return [number for number, node in self.cluster.nodes.items() if node.running]

    async def kill(self, *nodes: int) -> None:
        for node in nodes:
            await asyncio.to_thread(self.cluster.nodes[node].kill)

    async def start(self, *nodes: int) -> None:
        for node in nodes:
            self.cluster.nodes[node].launch()
        for node in nodes:
            await asyncio.to_thread(self.cluster.nodes[node].wait_ready)

    async def read(self, stream: str, node: int = 0, index: int = 0) -> dict[int, str]:
        """Offset -> value of everything committed in a partition, from one replica."""
        info = await until(lambda: self.client.stream(stream, timeout_ms=2000), f"information on {stream}")
        found: dict[int, str] = {}
        expected = 0
        async for records in self.client.read_all(info, index, node=node, timeout_ms=20_000):
            for record in records:
                assert record.offset == expected, f"offset {record.offset} where {expected} is due"
                assert record.value is not None
                found[record.offset] = record.value.decode()
                expected += 1
        return found

    async def put(self, subject: str, value: bytes, full: str) -> str:
        """What became of a message, when that is known: "ok"; or "full", if its refusal says `full`."""
        while True:
            result = await self.client.publish(subject, value, timeout_ms=10_000)
            if result.outcome == "ok":
                return "ok"
            if full in result.error:
                return "full"
            await asyncio.sleep(0.05)

    async def said(self, *words: str) -> tuple[int, str]:
        """What a command says to an operator: its exit code, and what it prints, or else complains of."""
        authority = self.cluster.authority
        environment = {} if authority is None else {VARIABLES[0]: str(authority.ca_file)}
        code, out, error = await asyncio.to_thread(
            liftlog, *words, "--nats", self.cluster.nats_url, environment=environment
        )
        return code, out or error

    async def run(self, *words: str) -> str:
        """What a command prints that has to succeed."""
        code, said = await self.said(*words)
        assert code == 0, said
        return said

    async def refused(self, *words: str) -> str:
        """What a command complains of that must not succeed."""
        code, said = await self.said(*words)
        assert code
        return said

    async def newest_level(self) -> None:
        async def reached() -> bool:
            return (await look_at(self.client)).level == FEATURE_LEVEL

        await until(reached, "the newest feature level")

    async def check_nothing_lost(self, stream: str, writer: Writer, index: int = 0) -> None:
        """Every acked message is where its ack said, on every replica of the partition, and all replicas
        agree.
        """
        assert writer.contradictions == []
        info = await self.client.stream(stream)
        copies = [await self.read(stream, node, index) for node in info.partitions[index].replicas]
        for copy in copies:
            lost = {offset: value for offset, value in writer.acked.items() if copy.get(offset) != value}
            assert lost == {}
        assert all(copy == copies[0] for copy in copies)


def with_cluster(
    folder: Path,
    nodes: int,
    story: Callable[[Harness], Awaitable[None]],
    prepare: Callable[[LocalCluster], None] | None = None,
    refined: bool = True,
    begin_with: Sequence[int] = (),
    tls: bool = False,
) -> LocalCluster:
    """Start a cluster in `folder`, run `story` on it, stop everything, whatever happens. What the nodes did
    is held against the specification then.

    `begin_with`: the nodes that are of the cluster from the beginning; none = all. `prepare` may change
    the nodes' configurations before they start. Without `refined` there are no traces: a disk that an
    operator's tool has changed goes on from what no step has made. `tls`: nodes and the client speak it.
    Returns the stopped cluster.
    """
    stopped = LocalCluster(folder, nodes, traces=folder / "traces" if refined else None, tls=tls)
    if prepare is not None:
        prepare(stopped)
    with stopped as cluster:

        async def run() -> None:
            ca = None if cluster.authority is None else cluster.authority.ca_file
            async with await Client.connect(cluster.nats_url, tls_ca=ca) as client:
                harness = Harness(cluster, client)
                async with asyncio.timeout(STORY_S):
                    await harness.all_live(len(begin_with))
                    await story(harness)

        try:
            asyncio.run(run())
        except Exception as error:
            error.add_note(_logs(cluster))
            raise
    if not refined:
        return stopped
    report = check_traces(sorted((folder / "traces").iterdir()))
    assert report.good, report.finding
    assert report.lines > 0 and report.actions["raft.Commit"] > 0
    return stopped


def _logs(cluster: LocalCluster) -> str:
    """The end of every node's log, for the report of a failed test."""
    parts = []
    for number, node in cluster.nodes.items():
        text = node.log_path.read_text(errors="replace") if node.log_path.exists() else ""
        parts.append(f"--- node {number}\n{text[-1500:]}")
    return "\n".join(parts)
