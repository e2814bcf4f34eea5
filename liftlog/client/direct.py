"""Asking nodes themselves, over TCP: by addresses that somebody gave, or that a node has told.

NATS is the way by which a client finds a cluster that it knows nothing of. Who knows where the nodes are
needs it no longer, and can ask them what they know when it is away.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from liftlog.client.errors import Unreachable
from liftlog.client.nodes import Access, NodePool
from liftlog.messages import (
    ClientMessage,
    ClusterStatusReply,
    ClusterStatusRequest,
    StreamInfo,
    StreamInfoReply,
    StreamInfoRequest,
)
from liftlog.security import client_secrets
from liftlog.tls.files import TlsFiles
from liftlog.types import LiftlogError

T = TypeVar("T")

ATTEMPT_TIMEOUT_S = 3.0
ADDRESSES_MAX = 64
"""Of how many nodes the addresses are remembered."""


class KnownNodes:
    """The nodes whose addresses are known, each asked once until one answers."""

    def __init__(self, pool: NodePool, seeds: Sequence[str] = ()) -> None:
        """`seeds`: addresses of nodes, as host:port, whose numbers are not known yet."""
        self._pool = pool
        self._seeds = tuple(seeds)
        self.addresses: dict[int, str] = {}
        """host:port of every node that a status has told of; the last one that is known of each."""

    def __bool__(self) -> bool:
        return bool(self.addresses or self._seeds)

    def learn(self, status: ClusterStatusReply) -> None:
        for info in status.nodes:
            if info.address and (info.node in self.addresses or len(self.addresses) < ADDRESSES_MAX):
                self.addresses[info.node] = info.address

    async def ask(self, request: ClientMessage, kind: type[T], timeout_s: float, node: int = 0) -> T:
        """An answer of `node`, or of any; each attempt ends within `timeout_s`.

        Raises Unreachable, which tells of every address; RequestFailed, LiftlogError.
        """
        if node:
            places = [(node, self.addresses[node])] if node in self.addresses else []
        else:
            known = list(self.addresses.items())
            places = known + [(0, seed) for seed in self._seeds if seed not in self.addresses.values()]
        problems = [] if places else [f"no address of node {node} is known"]
        for number, address in places:
            try:
                reply = await self._pool.call(number, address, request, min(timeout_s, ATTEMPT_TIMEOUT_S))
            except Unreachable as error:
                problems.append(str(error))
                continue
            if not isinstance(reply, kind):
                raise LiftlogError(f"node at {address} answered with {type(reply).__name__}")
            return reply
        raise Unreachable("; ".join(problems))


class NodesClient:
    """What nodes say of themselves and of the cluster, without NATS. Use as `Client`, with `async with`."""

    def __init__(
        self,
        seeds: Sequence[str],
        *,
        cluster: str,
        secret_file: Path | str | None,
        timeout_ms: int,
        tls: TlsFiles | None = None,
    ) -> None:
        """`secret_file`: as for `Client.connect`. `tls`: None, without TLS."""

        def access() -> Access:
            return Access(cluster, *client_secrets(cluster, os.environ, secret_file), tls=tls)

        self._timeout_ms = timeout_ms
        self._pool = NodePool(access, ATTEMPT_TIMEOUT_S)
        self._known = KnownNodes(self._pool, seeds)

    async def __aenter__(self) -> NodesClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.close()

    async def status(self, node: int = 0, timeout_ms: int = 0) -> ClusterStatusReply:
        """The cluster as a node sees it: one of those that are known, or `node`. Raises Unreachable."""
        reply = await self._ask(ClusterStatusRequest(), ClusterStatusReply, timeout_ms, node)
        self._known.learn(reply)
        return reply

    async def streams(self, timeout_ms: int = 0) -> list[StreamInfo]:
        """All streams, linearizable. Raises Unreachable, RequestFailed."""
        return (await self._ask(StreamInfoRequest(), StreamInfoReply, timeout_ms)).streams

    async def known_streams(self, node: int = 0, timeout_ms: int = 0) -> list[StreamInfo]:
        """All streams as `node` knows them: perhaps out of date, but told without a quorum."""
        return (await self._ask(StreamInfoRequest(known=True), StreamInfoReply, timeout_ms, node)).streams

    async def known_stream(self, name: str, timeout_ms: int = 0) -> StreamInfoReply:
        """One stream as some node knows it, with the age of that. Raises RequestFailed if it knows none."""
        return await self._ask(StreamInfoRequest(name, known=True), StreamInfoReply, timeout_ms)

    async def sure_stream(self, name: str, timeout_ms: int = 0) -> StreamInfoReply:
        """The same, linearizable."""
        return await self._ask(StreamInfoRequest(name), StreamInfoReply, timeout_ms)

    async def _ask(self, request: ClientMessage, kind: type[T], timeout_ms: int, node: int = 0) -> T:
        timeout_s = (timeout_ms or self._timeout_ms) / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await self._known.ask(request, kind, timeout_s, node)
        except TimeoutError:
            raise Unreachable(f"no node answered within {timeout_s:g} s") from None
