"""JetStream's stream leader as the one that is killed; its monitor port tells who leads the metadata."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from typing import Any

import nats
from nats.js.errors import Error as JetStreamError

from liftlog.bench.jetstream import JetStream
from liftlog.real.nats_server import free_port
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError

WAIT_S = 90.0
MOVES_MAX = 20


class JetStreamVictim(JetStream):
    """Three servers, of which one is killed: the publisher is connected to another one."""

    seconds = 10.0

    def __init__(self, scratch: Scratch, sync_always: bool, subject: str, stream: str) -> None:
        self._monitors = [free_port() for _ in range(3)]
        self.may_lose = not sync_always
        super().__init__(scratch, 3, sync_always, subject, stream, monitors=self._monitors)
        self._next = 0

    @property
    def port(self) -> int:
        return self._servers[(self._next + 1) % 3].port

    def kill(self) -> None:
        self._servers[self._next].kill()

    def revive(self) -> None:
        self._servers[self._next].start()

    def arrange(self, both: bool) -> bool:
        """Moves the stream's leader until it is the metadata's too, or is not. Who leads the metadata cannot
        be moved without a system account.
        """
        return asyncio.run(self._arrange(both))

    async def _arrange(self, both: bool) -> bool:
        deadline_s = time.monotonic() + WAIT_S
        client = await nats.connect([server.url for server in self._servers])
        try:
            moves = 0
            while True:
                leader, meta = await self._leader_in_sync(client), await asyncio.to_thread(self._meta_leader)
                if leader and meta and ((leader == meta) == both or moves == MOVES_MAX):
                    self._next = int(leader[1:]) - 1
                    return leader == meta
                if leader and meta:
                    moves += 1
                    await self._move(client, meta if both else "")
                if time.monotonic() > deadline_s:
                    raise LiftlogError(f"JetStream was not back in sync within {WAIT_S:.0f} s")
                await asyncio.sleep(0.2)
        finally:
            await client.close()

    async def _move(self, client: Any, wanted: str) -> None:
        """Let another server lead the stream: this one, if the server knows how to choose."""
        request = json.dumps({"placement": {"preferred": wanted}}).encode() if wanted else b""
        try:
            await client.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{self._stream}", request, timeout=2)
        except nats.errors.Error:
            return

    async def _leader_in_sync(self, client: Any) -> str:
        """The stream's leader if all copies are current, else nothing."""
        try:
            info = await client.jetstream(timeout=1).stream_info(self._stream)
        except (JetStreamError, nats.errors.Error):
            return ""
        cluster = info.cluster
        copies = (cluster.replicas or []) if cluster is not None else []
        current = [copy for copy in copies if copy.current and not copy.offline]
        return str(cluster.leader) if cluster is not None and cluster.leader and len(current) == 2 else ""

    def _meta_leader(self) -> str:
        """Who leads the metadata, as all that answer say; nothing while they differ."""
        said = set()
        for port in self._monitors:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/jsz", timeout=1) as answer:
                    said.add(json.load(answer).get("meta_cluster", {}).get("leader", ""))
            except OSError:
                return ""
        return str(said.pop()) if len(said) == 1 else ""
