"""What `liftlog bench`, `liftlog demo` and `liftlog dev` ask of a local cluster, as plain blocking calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from liftlog.client.client import Client
from liftlog.client.errors import Unreachable
from liftlog.messages import StreamInfo
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import LiftlogError, StreamConfig

READY_TIMEOUT_MS = 30_000
IN_SYNC_TIMEOUT_S = 60.0
LIVE_TIMEOUT_S = 60.0
POLL_S = 0.1

T = TypeVar("T")


def ask(cluster: LocalCluster, question: Callable[[Client], Awaitable[T]]) -> T:
    """Run `question` with a client of this cluster. Raises LiftlogError, naming a node that has ended."""

    async def connect_and_ask() -> T:
        secret = cluster.client_secret_file
        ca = None if cluster.authority is None else cluster.authority.ca_file
        async with await Client.connect(
            cluster.nats_url,
            cluster=cluster.cluster,
            login=cluster.nats_login,
            secret_file=secret,
            tls_ca=ca,
        ) as client:
            return await question(client)

    try:
        return asyncio.run(connect_and_ask())
    except LiftlogError:
        for number, node in cluster.nodes.items():
            if not node.running:
                raise LiftlogError(f"node {number} has ended: {node.last_words()}") from None
        raise


def wait_until_live(cluster: LocalCluster, timeout_s: float = LIVE_TIMEOUT_S) -> None:
    """Wait until the cluster has a controller and every node a session. Raises LiftlogError.

    A node without one is preferred to lead nothing that is created meanwhile (R16).
    """

    async def wait(client: Client) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            for number, node in cluster.nodes.items():
                if not node.running:
                    raise LiftlogError(f"node {number} ended: {node.last_words()}")
            try:
                status = await client.status(timeout_ms=1000)
                if status.controller and sum(info.live for info in status.nodes) == len(cluster.nodes):
                    return
            except Unreachable:
                pass
            if time.monotonic() > deadline_s:
                raise LiftlogError(
                    f"the cluster has no controller, or a node without a session, after {timeout_s:.0f} s; "
                    f"see {cluster.folder}"
                )
            await asyncio.sleep(POLL_S)

    ask(cluster, wait)


def create_stream(cluster: LocalCluster, config: StreamConfig) -> StreamInfo:
    """Create a stream, waiting for the cluster to be ready for it. Raises LiftlogError."""

    async def create(client: Client) -> StreamInfo:
        return await client.create_stream(config, timeout_ms=READY_TIMEOUT_MS)

    return ask(cluster, create)


def stream_info(cluster: LocalCluster, name: str) -> StreamInfo:
    """The stream as the metadata group has it now, linearizable. Raises LiftlogError."""

    async def find(client: Client) -> StreamInfo:
        return await client.stream(name)

    return ask(cluster, find)


def wait_in_sync(cluster: LocalCluster, name: str) -> float:
    """Wait until every replica of the stream is in sync; returns the seconds it took. Raises LiftlogError."""

    async def wait(client: Client) -> float:
        started_s = time.monotonic()
        while True:
            partitions = (await client.stream(name)).partitions
            if all(len(partition.isr) == len(partition.replicas) for partition in partitions):
                return time.monotonic() - started_s
            if time.monotonic() - started_s > IN_SYNC_TIMEOUT_S:
                behind = ", ".join(f"partition {p.index}: {p.isr} of {p.replicas}" for p in partitions)
                raise LiftlogError(
                    f"stream {name} is not in sync after {IN_SYNC_TIMEOUT_S:.0f} s ({behind}); "
                    f"see the nodes' logs in {cluster.folder}"
                )
            await asyncio.sleep(POLL_S)

    return ask(cluster, wait)
