"""liftlog as a system to measure: nodes and an embedded nats-server on this machine, with one stream."""

from __future__ import annotations

import asyncio
import time

from msgspec import structs

from liftlog.client.client import Client
from liftlog.commands.asking import ask_all, look_at
from liftlog.local import ask, create_stream, wait_in_sync
from liftlog.real.local_cluster import LocalCluster
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError, StreamConfig

LEVEL_WITHIN_S = 30.0
LEVEL_POLL_S = 0.1


def wait_for_level(cluster: LocalCluster) -> None:
    """Until a cluster that has started is at the feature level of its nodes. Raises LiftlogError."""

    async def wait(client: Client) -> None:
        deadline_s = time.monotonic() + LEVEL_WITHIN_S
        while True:
            view = await look_at(client)
            if view.level and all(0 < view.can(info) <= view.level for info in view.nodes()):
                return
            if time.monotonic() > deadline_s:
                raise LiftlogError(f"the cluster stays at feature level {view.level}; see {cluster.folder}")
            await asyncio.sleep(LEVEL_POLL_S)

    ask(cluster, wait)


class LiftlogCluster:
    """As many nodes as the stream has replicas."""

    echo = False

    def __init__(
        self,
        scratch: Scratch,
        replicas: int,
        subject: str,
        stream: str,
        name: str = "liftlog",
        *,
        removal: bool = False,
        tls: bool = False,
    ) -> None:
        """`removal`: the stream has a journal, and may have consumers. `tls`: nodes speak it."""
        self.name = name
        self.folder = scratch.folder / self.name
        self._scratch = scratch
        self._cluster = LocalCluster(self.folder, replicas, tls=tls)
        self._config = StreamConfig(stream, subject, replication_factor=replicas)
        if removal:
            self._config = structs.replace(self._config, removal=True)

    @property
    def local(self) -> LocalCluster:
        return self._cluster

    @property
    def port(self) -> int:
        return int(self._cluster.nats_url.rpartition(":")[2])

    @property
    def pids(self) -> list[int]:
        nats = [self._cluster.nats.pid] if self._cluster.nats is not None else []
        return nats + [node.pid for node in self._cluster.nodes.values()]

    def start(self) -> None:
        """Start everything and create the stream. Raises LiftlogError if it is not ready in time."""
        self._scratch.enter_context(self._cluster)
        if self._config.has_journal:
            wait_for_level(self._cluster)
        create_stream(self._cluster, self._config)
        wait_in_sync(self._cluster, self._config.name)

    def stored(self) -> int:
        """How many messages the stream holds (offsets are contiguous and start at 0)."""

        async def end(client: Client) -> int:
            return await client.reader(await client.stream(self._config.name)).offset("new")

        return ask(self._cluster, end)

    def counters(self) -> dict[int, dict[str, int]]:
        """What each node that answers has counted since it started."""

        async def all_of_them(client: Client) -> dict[int, dict[str, int]]:
            answers, _ = await ask_all(client)
            return {node: answer.counters for node, answer in answers.items()}

        return ask(self._cluster, all_of_them)
