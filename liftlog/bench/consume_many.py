"""What many consumers of one stream cost a server: created, at rest, each with a pull that waits, and served.

One node of ours with as many partitions as their bound takes, or one nats-server with a JetStream stream. A
phase tells processor time, memory, and, of a node of ours, how long its steps were by their thread's CPU
time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import nats
import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.js.api import AckPolicy
from nats.js.api import ConsumerConfig as JetStreamConfig

from liftlog.bench.cluster import wait_for_level
from liftlog.bench.jetstream import JetStream
from liftlog.bench.partitions import (
    SCRAPE_PAUSE_S,
    SCRAPE_TIMEOUT_S,
    Buckets,
    buckets_of,
    difference,
    percentile_ms,
)
from liftlog.bench.usage import resident_mb, usage_of
from liftlog.client.client import Client
from liftlog.client.consuming import PullConsumer
from liftlog.core.metadata.subjects import partition_subject
from liftlog.local import create_stream
from liftlog.messages import ConsumerConfig
from liftlog.real.local_cluster import LocalCluster
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError, StreamConfig

CONSUMERS_MAX = 250
"""A partition takes 256."""
CLIENT_MAX = 50
"""Consumers of one client: a node has 64 requests of a connection in work at once, and a pull that waits is
one."""
AT_ONCE = 16
ACTIVE_MAX = 1000
"""So many of them pull; the others stay idle."""
SETTLE_S = 1.0
MEMORY_AIM_MB = 300.0
AT_REST_AIM = 0.05
"""Of one core: what a node takes whose many consumers nobody uses."""
STEP_AIM_MS = 10.0
"""No step may take longer for 1,000 consumers of a stream. What the design set itself."""
STREAM = "many"
SERVED_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class ManyPhase:
    """`cpu_share`: of one core, of the server's process. `memory_mb`: resident, of the same, at its end.
    Steps: upper ends of buckets, 0 of others' servers.
    """

    name: str
    seconds: float
    cpu_share: float
    memory_mb: float
    step_p50_ms: float = 0.0
    step_max_ms: float = 0.0


class Watched:
    """The processes of one server, looked at before and after each phase."""

    def __init__(self, pids: list[int], metrics: str = "") -> None:
        """`metrics`: the address at which a node of ours tells of its steps."""
        self._pids = pids
        self._metrics = metrics
        self.phases: list[ManyPhase] = []

    async def phase(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        before = await self._steps()
        cpu_s, began_s = usage_of(self._pids).cpu_seconds, time.monotonic()
        await work()
        seconds, cpu_s = time.monotonic() - began_s, usage_of(self._pids).cpu_seconds - cpu_s
        memory_mb = resident_mb(self._pids)
        steps: Buckets = {}
        if self._metrics:
            await asyncio.sleep(SCRAPE_PAUSE_S)
            steps = difference({1: before}, {1: await self._steps()})
        p50_ms, max_ms = percentile_ms(steps, 0.5), percentile_ms(steps, 1.0)
        self.phases.append(ManyPhase(name, seconds, cpu_s / seconds, memory_mb, p50_ms, max_ms))

    async def run(
        self,
        count: int,
        idle_s: float,
        *,
        create: Callable[[int], Coroutine[object, object, None]],
        take: Callable[[int], Coroutine[object, object, None]],
        publish: Callable[[], Awaitable[None]],
        progress: Callable[[str], None],
    ) -> None:
        """All phases: no consumer, creation, rest, each waits for a message, each gets one; of more than
        ACTIVE_MAX these. `create` and `take` are called with the numbers from 0 on.
        """
        progress("no consumers")
        await asyncio.sleep(SETTLE_S)
        await self.phase("none", lambda: asyncio.sleep(idle_s))
        progress(f"creating {count} consumers")
        await self.phase("created", lambda: all_of([create(number) for number in range(count)]))
        progress("at rest")
        await asyncio.sleep(SETTLE_S)
        await self.phase("at rest", lambda: asyncio.sleep(idle_s))
        async with background([take(number) for number in range(min(count, ACTIVE_MAX))]) as tasks:
            progress("pulls that wait")
            await asyncio.sleep(SETTLE_S)
            await self.phase("pulls wait", lambda: asyncio.sleep(idle_s))
            progress("a message for each")
            await self.phase("served", lambda: _served(tasks, publish))

    async def _steps(self) -> Buckets:
        if not self._metrics:
            return {}

        def scrape() -> str:
            with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=SCRAPE_TIMEOUT_S) as page:
                text: str = page.read().decode()
                return text

        return buckets_of(await asyncio.to_thread(scrape))


async def all_of(work: list[Coroutine[object, object, None]]) -> None:
    """All of it, AT_ONCE at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(each: Coroutine[object, object, None]) -> None:
        async with gate:
            await each

    await asyncio.gather(*(one(each) for each in work))


@asynccontextmanager
async def background(work: list[Coroutine[object, object, None]]) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _served(tasks: list[asyncio.Task[None]], publish: Callable[[], Awaitable[None]]) -> None:
    await publish()
    _, waiting = await asyncio.wait(tasks, timeout=SERVED_WITHIN_S)
    if waiting:
        raise LiftlogError(f"{len(waiting)} consumers got no message within {SERVED_WITHIN_S:.0f} s")
    for task in tasks:
        task.result()


def our_many(scratch: Scratch, count: int, idle_s: float, progress: Callable[[str], None]) -> list[ManyPhase]:
    """Consumers of one node. Raises LiftlogError."""
    partitions = -(-count // CONSUMERS_MAX)
    cluster = LocalCluster(scratch.folder / "many", 1, metrics=True)
    scratch.enter_context(cluster)
    wait_for_level(cluster)
    create_stream(cluster, StreamConfig(STREAM, STREAM, partitions, replication_factor=1, removal=True))

    async def run() -> list[ManyPhase]:
        async with AsyncExitStack() as stack:
            clients = []
            for _ in range(-(-count // CLIENT_MAX)):
                client = await Client.connect(
                    cluster.nats_url, cluster=cluster.cluster, secret_file=cluster.client_secret_file
                )
                clients.append(await stack.enter_async_context(client))
            return await _our_phases(clients, cluster, count, idle_s, progress)

    return asyncio.run(run())


async def _our_phases(
    clients: list[Client],
    cluster: LocalCluster,
    count: int,
    idle_s: float,
    progress: Callable[[str], None],
) -> list[ManyPhase]:
    watched = Watched([node.pid for node in cluster.nodes.values()], cluster.metrics_addresses[1])
    info = await clients[0].stream(STREAM)
    partitions = len(info.partitions)
    consumers: list[PullConsumer] = []

    async def create(number: int) -> None:
        config = ConsumerConfig(ack_wait_ms=30_000)
        client, partition = clients[number // CLIENT_MAX], number % partitions
        consumers.append(await client.consumer(info, f"c{number}", config=config, partition=partition))

    async def take(number: int) -> None:
        consumer = consumers[number]
        deliveries = await consumer.fetch(1, wait_ms=round((2 * idle_s + SERVED_WITHIN_S) * 1000))
        if not deliveries:
            raise LiftlogError(f"consumer {consumer.name} was given no message")
        await consumer.ack(*deliveries)

    async def publish() -> None:
        # One for all consumers of a partition.
        for number in range(partitions):
            stored = await clients[0].publish(partition_subject(STREAM, number), b"x")
            if stored.outcome != "ok":
                raise LiftlogError(f"a message was not stored: {stored}")

    def tell(what: str) -> None:
        progress(f"liftlog: {what}")

    await watched.run(count, idle_s, create=create, take=take, publish=publish, progress=tell)
    return watched.phases


def their_many(
    scratch: Scratch, count: int, idle_s: float, progress: Callable[[str], None]
) -> list[ManyPhase]:
    """As many durable consumers of a JetStream stream on one server."""
    jetstream = JetStream(scratch, 1, False, STREAM, STREAM, "-many")
    jetstream.start()

    async def run() -> list[ManyPhase]:
        connection = await nats.connect(f"nats://127.0.0.1:{jetstream.port}")
        try:
            return await _their_phases(connection, jetstream.pids, count, idle_s, progress)
        finally:
            with contextlib.suppress(nats.errors.Error):
                await connection.close()

    return asyncio.run(run())


async def _their_phases(
    connection: NatsConnection, pids: list[int], count: int, idle_s: float, progress: Callable[[str], None]
) -> list[ManyPhase]:
    watched, context = Watched(pids), connection.jetstream(timeout=10)
    wait_s = 2 * idle_s + SERVED_WITHIN_S

    async def create(number: int) -> None:
        config = JetStreamConfig(durable_name=f"c{number}", ack_policy=AckPolicy.EXPLICIT, ack_wait=30)
        await context.add_consumer(STREAM, config)

    async def take(number: int) -> None:
        pulling = await context.pull_subscribe_bind(f"c{number}", STREAM)
        for message in await pulling.fetch(1, timeout=wait_s):
            await message.ack_sync(timeout=10)

    async def publish() -> None:
        await context.publish(STREAM, b"x")

    def tell(what: str) -> None:
        progress(f"JetStream: {what}")

    await watched.run(count, idle_s, create=create, take=take, publish=publish, progress=tell)
    return watched.phases
