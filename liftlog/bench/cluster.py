"""liftlog as a system to measure: nodes and an embedded nats-server on this machine, with one stream."""

from __future__ import annotations

from liftlog.client.client import Client
from liftlog.commands.asking import ask_all
from liftlog.local import ask, create_stream, wait_in_sync
from liftlog.real.local_cluster import LocalCluster
from liftlog.scratch import Scratch
from liftlog.types import StreamConfig


class LiftlogCluster:
    """As many nodes as the stream has replicas."""

    echo = False

    def __init__(
        self, scratch: Scratch, replicas: int, subject: str, stream: str, name: str = "liftlog"
    ) -> None:
        self.name = name
        self.folder = scratch.folder / self.name
        self._scratch = scratch
        self._cluster = LocalCluster(self.folder, replicas)
        self._config = StreamConfig(stream, subject, replication_factor=replicas)

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
