"""One node loses NATS while its peers stay: leadership must go where publishers can reach it (N5)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from pathlib import Path

import msgspec
import pytest

from liftlog.client import Client
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, until

pytestmark = [pytest.mark.real, pytest.mark.slow]


class Proxy:
    """A TCP proxy in threads that can hang up on everybody and refuse new connections."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open = True
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._open = False
            for connection in self._sockets:
                # One that its own pump has closed already is as cut as it can be.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._sockets.clear()

    def mend(self) -> None:
        with self._lock:
            self._open = True

    def close(self) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._open:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self._target_port))
                except OSError:
                    near.close()
                    continue
                self._sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with source:
            try:
                while data := source.recv(65536):
                    target.sendall(data)
                target.shutdown(socket.SHUT_RDWR)
            except OSError:
                return


def test_a_leader_cut_from_nats_hands_over_and_follows_when_it_is_back(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 3)
    assert cluster.nats is not None
    proxies = {number: Proxy(cluster.nats.port) for number in cluster.nodes}
    for number, node in cluster.nodes.items():
        url = f"nats://127.0.0.1:{proxies[number].port}"
        node.config = msgspec.structs.replace(node.config, nats_url=url)

    async def story() -> None:
        async with await Client.connect(cluster.nats_url) as client:
            harness = Harness(cluster, client)
            await harness.all_live()
            await client.create_stream(StreamConfig("s", "s", replication_factor=3))
            leader = await harness.leader("s")
            async with Writer(client, "s", "cut") as writer:
                await writer.more_acks(100)
                proxies[leader].cut()

                async def moved() -> bool:
                    return (await harness.partition("s")).leader not in (0, leader)

                await until(moved, "another leader after the old one lost NATS")
                await writer.more_acks(100)
                proxies[leader].mend()
                await harness.in_sync("s", 3)
                await writer.more_acks(100)
            await harness.check_nothing_lost("s", writer)

    try:
        with cluster:
            asyncio.run(story())
    finally:
        for proxy in proxies.values():
            proxy.close()
