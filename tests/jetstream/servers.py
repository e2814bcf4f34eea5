"""The two servers that every test of this folder runs on: nats-server with JetStream, and liftlog's door.

Both are started once for a process of the test run, in a folder of their own. Tests use names of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from liftlog.client import Client, RequestFailed, Unreachable
from liftlog.commands.asking import look_at
from liftlog.real.local_cluster import LocalCluster
from liftlog.real.nats_server import NatsServer, free_port
from liftlog.types import FEATURE_LEVEL

NAMES = ("nats-server", "nats-server-3", "liftlog", "liftlog-3")


@dataclass(frozen=True)
class Server:
    """Where one of them listens, and how many replicas the streams of its tests have."""

    name: str
    url: str
    replicas: int
    domain: str = ""

    @property
    def liftlog(self) -> bool:
        return self.name.startswith("liftlog")

    @property
    def several_doors(self) -> bool:
        """Whether any of several processes answers a request."""
        return self.liftlog and self.replicas > 1


@contextmanager
def running(name: str, folder: Path) -> Iterator[Server]:
    """One of NAMES, started; stopped at the end."""
    replicas = 3 if name.endswith("-3") else 1
    if name.startswith("liftlog"):
        with _liftlog(folder, replicas) as url:
            yield Server(name, url, replicas, "liftlog")
    else:
        with _jetstream(folder, replicas) as url:
            yield Server(name, url, replicas)


@contextmanager
def _liftlog(folder: Path, nodes: int) -> Iterator[str]:
    with LocalCluster(folder, nodes, jetstream=True) as cluster:
        asyncio.run(_newest_level(cluster.nats_url))
        yield cluster.nats_url


async def _newest_level(url: str) -> None:
    """Wait until the controller has raised the cluster to the level at which all of this is allowed."""
    async with await Client.connect(url) as client, asyncio.timeout(20):
        while True:
            try:
                if (await look_at(client)).level == FEATURE_LEVEL:
                    return
            except (RequestFailed, Unreachable):
                pass
            await asyncio.sleep(0.02)


@contextmanager
def _jetstream(folder: Path, servers: int) -> Iterator[str]:
    """Members of a cluster wait for each other while they start: they are launched one after the other, and
    the first answers for all."""
    started: list[NatsServer] = []
    ports = [free_port() for _ in range(servers)]
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
    try:
        for number, port in enumerate(ports, 1):
            extra = ("-js", "-sd", str(folder / f"store-{number}"))
            if servers > 1:
                extra += ("--name", f"n{number}", "--cluster_name", "tests")
                extra += ("--cluster", f"nats://127.0.0.1:{port}", "--routes", routes)
            started.append(NatsServer(folder, extra=extra, name=f"nats-{number}"))
            started[-1].start()
        yield started[0].url
    finally:
        for server in started:
            server.stop()
