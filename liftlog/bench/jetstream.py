"""JetStream as the measure: one nats-server or a cluster of three, on files, synced by default or always."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import nats
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import Error as JetStreamError

from liftlog.real.nats_server import NatsServer, free_port
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError

READY_TIMEOUT_S = 30.0


class JetStream:
    """Servers with one stream. `sync_always` false is JetStream's default: a sync every two minutes."""

    echo = False

    def __init__(
        self,
        scratch: Scratch,
        replicas: int,
        sync_always: bool,
        subject: str,
        stream: str,
        suffix: str = "",
        monitors: Sequence[int] = (),
    ) -> None:
        """`monitors`: a port for each server at which it tells of itself over HTTP."""
        self.name = ("jetstream-always" if sync_always else "jetstream-default") + suffix
        self.folder = scratch.folder / self.name
        self._replicas = replicas
        self._subject = subject
        self._stream = stream
        routes = [free_port() for _ in range(replicas)]
        self._servers = []
        for index in range(replicas):
            folder = self.folder / f"n{index + 1}"
            folder.mkdir(parents=True)
            config = folder / "server.conf"
            text = _config(folder, f"n{index + 1}", sync_always, routes, index)
            if monitors:
                text += f'http: "127.0.0.1:{monitors[index]}"\n'
            config.write_text(text)
            server = NatsServer(folder, extra=("--config", str(config)))
            scratch.callback(server.stop)
            self._servers.append(server)
        self._leader_port = 0

    @property
    def port(self) -> int:
        return self._leader_port

    @property
    def pids(self) -> list[int]:
        return [server.pid for server in self._servers]

    def start(self) -> None:
        """Start the servers and create the stream. Raises LiftlogError if they are not ready in time."""
        for server in self._servers:
            server.start()
        self._leader_port = asyncio.run(self._create())

    async def _create(self) -> int:
        """Create the stream; returns the port of its leader's server, the best place to publish at."""
        config = StreamConfig(
            name=self._stream,
            subjects=[self._subject],
            storage=StorageType.FILE,
            num_replicas=self._replicas,
        )
        client = await nats.connect(self._servers[0].url)
        try:
            jetstream = client.jetstream(timeout=1)
            await until_made(partial(jetstream.add_stream, config), "JetStream did not create a stream")
            info = await jetstream.stream_info(self._stream)
        finally:
            await client.close()
        leader = info.cluster.leader if info.cluster is not None and self._replicas > 1 else "n1"
        index = int((leader or "n1")[1:]) - 1
        return self._servers[index].port

    def stored(self) -> int:
        """How many messages the stream holds."""

        async def ask() -> int:
            client = await nats.connect(self._servers[0].url)
            try:
                return (await client.jetstream(timeout=10).stream_info(self._stream)).state.messages
            finally:
                await client.close()

        return asyncio.run(ask())


async def until_made(make: Callable[[], Awaitable[object]], problem: str) -> None:
    """Make a stream: a cluster needs a moment to elect whoever makes it. Raises LiftlogError, which begins
    with `problem`.
    """
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            await make()
            return
        except (JetStreamError, nats.errors.Error) as error:
            if time.monotonic() > deadline_s:
                raise LiftlogError(f"{problem}: {error}") from None
            await asyncio.sleep(0.2)


def _config(folder: Path, name: str, sync_always: bool, routes: list[int], index: int) -> str:
    sync = "sync_interval: always\n" if sync_always else ""
    text = f'server_name: {name}\njetstream {{\nstore_dir: "{folder / "store"}"\n{sync}}}\n'
    if len(routes) > 1:
        others = ", ".join(f'"nats-route://127.0.0.1:{port}"' for port in routes)
        text += f'cluster {{ name: bench, listen: "127.0.0.1:{routes[index]}", routes: [{others}] }}\n'
    return text
