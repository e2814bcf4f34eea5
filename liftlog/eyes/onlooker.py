"""The metrics port of a node: /metrics, /healthz and /readyz, made while the node goes on.

A scrape is made in slices of a millisecond or so, and the event loop goes round between them. There is one at
a time, and what was collected within the last second is given again: however many ask, and however often,
they cost the node no more than that.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

import trio

from liftlog.config import ServerConfig
from liftlog.core.node import Node
from liftlog.eyes.health import missing, out_of_sync, overdue_ms
from liftlog.eyes.http import HttpAnswer, HttpRequest, HttpServer
from liftlog.eyes.measures import Measures
from liftlog.eyes.page import CONTENT_TYPE, write
from liftlog.eyes.readings import DiskSpace, LastScrape, Readings
from liftlog.real.breakdown import GroupTimes
from liftlog.real.server import Parts
from liftlog.types import ClientRef, PartitionId

SHARED_S = 1.0
"""A scrape is given again to whoever asks so soon."""
LOOP_S = 0.1
DISK_TIMEOUT_S = 1.0
GZIP_LEVEL = 1
IN_SYNC = "in-sync"
PATHS = "/metrics, /healthz, /readyz, /readyz?in-sync"


class _Scrape(NamedTuple):
    """As it is and compressed, and when it was made."""

    plain: bytes
    packed: bytes
    at_s: float


class MetricsOnlooker:
    """`Onlooker` of a node. All methods belong to the trio thread."""

    def __init__(self, node: Node, config: ServerConfig, log_bytes: Callable[[PartitionId], int]) -> None:
        self.measures = Measures(node)
        self._node = node
        self._config = config
        self._log_bytes = log_bytes
        self._parts: Parts | None = None
        self._readings: Readings | None = None
        self._server = HttpServer(self._answer)
        self._one_at_a_time = trio.Lock()
        self._scrape: _Scrape | None = None
        self._last = LastScrape()
        self._asking_disk = trio.CapacityLimiter(1)

    def attach(self, parts: Parts) -> None:
        interpreter = parts.driver.interpreter
        interpreter.measure_by(self.measures.cpu)
        self.measures.use_clock(_now_ms, lambda: interpreter.now_ms)
        self._parts = parts
        self._readings = Readings(
            self._node, self._config, parts, self.measures, log_bytes=self._log_bytes, now_ms=_now_ms
        )

    def group_ended(self, times: GroupTimes) -> None:
        self.measures.group_ended(times)

    def request_ended(self, client: ClientRef, answered: bool) -> None:
        if answered:
            self.measures.answered(client)
        else:
            self.measures.left(client)

    async def run(self, listeners: list[trio.SocketListener]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._feel_the_loop)
            await self._server.run(listeners)

    async def _feel_the_loop(self) -> None:
        while True:
            before_s = trio.current_time()
            await trio.sleep(LOOP_S)
            self.measures.loop.add(max(0.0, trio.current_time() - before_s - LOOP_S) * 1000)

    # -- answers -------------------------------------------------------------------------------------------

    async def _answer(self, asked: HttpRequest) -> HttpAnswer:
        if asked.path == "/metrics":
            return await self._metrics(asked.takes_gzip)
        if asked.path == "/healthz":
            return await self._health()
        if asked.path == "/readyz":
            return self._readiness(asked)
        if asked.path == "/":
            return HttpAnswer(200, f"liftlog node {self._config.node}: {PATHS}\n".encode())
        return HttpAnswer(404, f"there is nothing by this name; there are: {PATHS}\n".encode())

    async def _metrics(self, takes_gzip: bool) -> HttpAnswer:
        async with self._one_at_a_time:
            scrape = self._scrape
            if scrape is None or trio.current_time() - scrape.at_s > SHARED_S:
                scrape = self._scrape = await self._collect()
        if takes_gzip:
            vary = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
            return HttpAnswer(200, scrape.packed, CONTENT_TYPE, vary)
        return HttpAnswer(200, scrape.plain, CONTENT_TYPE, (("Vary", "Accept-Encoding"),))

    async def _health(self) -> HttpAnswer:
        if overdue_ms(self._node, _now_ms()):
            # It may have been stopped until now, and this came before its tick.
            await trio.sleep(2 * self._node.config.tick_ms / 1000)
        silent_ms = overdue_ms(self._node, _now_ms())
        if silent_ms:
            text = f"node {self._config.node} has not looked at its clock for {silent_ms / 1000:.1f} s\n"
            return HttpAnswer(503, text.encode())
        return HttpAnswer(200, f"node {self._config.node} runs\n".encode())

    def _readiness(self, asked: HttpRequest) -> HttpAnswer:
        unknown = asked.query.keys() - {IN_SYNC}
        if unknown:
            text = f"/readyz knows no {', '.join(sorted(unknown))}; it knows {IN_SYNC}\n"
            return HttpAnswer(400, text.encode("utf-8", "replace"))
        assert self._parts is not None
        lacks = missing(self._node, self._parts)
        if IN_SYNC in asked.query:
            lacks += out_of_sync(self._node)
        if lacks:
            text = "".join(f"{lack}\n" for lack in lacks)
            return HttpAnswer(
                503, f"node {self._config.node} is not ready\n{text}".encode("utf-8", "replace")
            )
        return HttpAnswer(200, f"node {self._config.node} is ready\n".encode())

    # -- a scrape ------------------------------------------------------------------------------------------

    async def _collect(self) -> _Scrape:
        assert self._readings is not None
        begun_s = trio.current_time()
        disk = await self._disk_space()
        packer = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
        slices = self._readings.read(disk, dict(self._server.answers), self._server.cut, self._last)
        plain: list[bytes] = []
        packed: list[bytes] = []
        cpu_s = longest_s = 0.0
        parts = write(slices)
        while True:
            before_s = time.thread_time()
            part = next(parts, None)
            if part is not None:
                plain.append(part)
                packed.append(packer.compress(part))
            else:
                packed.append(packer.flush())
            took_s = time.thread_time() - before_s
            cpu_s, longest_s = cpu_s + took_s, max(longest_s, took_s)
            if part is None:
                break
            await trio.lowlevel.checkpoint()
        now_s = trio.current_time()
        scrape = _Scrape(b"".join(plain), b"".join(packed), now_s)
        self._last = LastScrape(now_s - begun_s, cpu_s, longest_s, len(scrape.plain))
        return scrape

    async def _disk_space(self) -> DiskSpace | None:
        """None if the file system does not answer, or has not answered the last time yet."""
        if self._asking_disk.borrowed_tokens:
            return None
        found: DiskSpace | None = None
        with trio.move_on_after(DISK_TIMEOUT_S):
            found = await trio.to_thread.run_sync(
                self._ask_disk, abandon_on_cancel=True, limiter=self._asking_disk
            )
        return found

    def _ask_disk(self) -> DiskSpace | None:
        try:
            told = os.statvfs(self._config.data)
        except OSError:
            return None
        return DiskSpace(told.f_bavail * told.f_frsize, told.f_blocks * told.f_frsize)


def _now_ms() -> float:
    return trio.current_time() * 1000
