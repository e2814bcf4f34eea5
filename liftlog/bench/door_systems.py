"""Servers of JetStream's API for `liftlog bench jetstream`: liftlog with its door, and nats-server.

Both get the same streams and the same bucket, through nats-py: one stream to publish into, one to read from,
which is filled once, and a bucket.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Protocol

import nats
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, StorageType, StreamConfig

from liftlog.bench.cluster import wait_for_level
from liftlog.bench.door_user import (
    BUCKET,
    FAST,
    PUBLISH,
    PUBLISH_FAST,
    PULL,
    PUT,
    PUT_IN_TURN,
    READ,
    REPLAY,
    WRITTEN,
)
from liftlog.bench.jetstream import READY_TIMEOUT_S, JetStream, until_made
from liftlog.bench.load import Load
from liftlog.bench.publish import run_load
from liftlog.real.local_cluster import LocalCluster
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError

NOT_CREATED = "a stream was not created"


class DoorSystem(Protocol):
    """What is measured. `parts`: its processes, by what they are."""

    name: str

    @property
    def parts(self) -> dict[str, list[int]]: ...

    def start(self) -> None:
        """Start all of it, and make the streams. Raises LiftlogError."""
        ...

    def port_for(self, work: str) -> int:
        """Where a client of this work connects: at the leader of its stream, where that can be chosen."""
        ...


class DoorCluster:
    """liftlog: as many nodes as streams have replicas, each with its door, over one nats-server."""

    name = "liftlog"

    def __init__(self, scratch: Scratch, replicas: int) -> None:
        self._scratch = scratch
        self._replicas = replicas
        self._cluster = LocalCluster(scratch.folder / self.name, replicas, jetstream=True)

    @property
    def parts(self) -> dict[str, list[int]]:
        nats_server = [self._cluster.nats.pid] if self._cluster.nats is not None else []
        return {"nats-server": nats_server, "nodes": [node.pid for node in self._cluster.nodes.values()]}

    def port_for(self, work: str) -> int:
        return int(self._cluster.nats_url.rpartition(":")[2])

    def start(self) -> None:
        self._scratch.enter_context(self._cluster)
        wait_for_level(self._cluster)
        asyncio.run(make_streams(self._cluster.nats_url, self._replicas))


class PlainJetStream(JetStream):
    """nats-server, or a cluster of three."""

    def __init__(self, scratch: Scratch, replicas: int, sync_always: bool) -> None:
        super().__init__(scratch, replicas, sync_always, WRITTEN, WRITTEN)
        self._ports: dict[str, int] = {}

    @property
    def parts(self) -> dict[str, list[int]]:
        return {"nats-server": self.pids}

    def port_for(self, work: str) -> int:
        return self._ports[STREAM_OF[work]]

    def start(self) -> None:
        super().start()
        leaders = asyncio.run(make_streams(self._servers[0].url, self._replicas))
        for stream, leader in leaders.items():
            number = int(leader[1:]) if leader.startswith("n") else 1
            self._ports[stream] = self._servers[number - 1].port


STREAM_OF = {
    **{PUBLISH: WRITTEN, PUBLISH_FAST: FAST, PULL: READ, REPLAY: READ},
    **{PUT: f"KV_{BUCKET}", PUT_IN_TURN: f"KV_{BUCKET}"},
}


async def make_streams(url: str, replicas: int) -> dict[str, str]:
    """Make all that the works need; returns who leads each stream. Raises LiftlogError."""
    async with await nats.connect(url) as connection:
        jetstream = connection.jetstream(timeout=2)
        for name in (WRITTEN, READ, FAST):
            config = StreamConfig(
                name=name, subjects=[name], storage=StorageType.FILE, num_replicas=replicas
            )
            config.allow_batched = True if name == FAST else None
            await until_made(partial(jetstream.add_stream, config), NOT_CREATED)
        bucket = KeyValueConfig(bucket=BUCKET, replicas=replicas)
        await until_made(partial(jetstream.create_key_value, bucket), NOT_CREATED)
        streams = sorted(set(STREAM_OF.values()))
        return {stream: await _leader(jetstream, stream) for stream in streams}


async def _leader(jetstream: JetStreamContext, stream: str) -> str:
    """Empty: a server that is alone does not say."""
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while True:
        cluster = (await jetstream.stream_info(stream)).cluster
        if cluster is None or cluster.leader:
            return (cluster.leader if cluster else "") or ""
        if time.monotonic() > deadline_s:
            raise LiftlogError(f"nobody leads stream {stream}")
        await asyncio.sleep(0.2)


def fill(system: DoorSystem, messages: int, size: int) -> None:
    """Publish so many into the stream that is read. Raises LiftlogError."""
    load = Load(
        system.port_for(PULL), READ, READ, size=size, window=2000, messages=messages, seconds_max=60
    )
    run_load(load, system.name)
