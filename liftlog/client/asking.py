"""One request of the API, one answer: by NATS, or of nodes that are known by address.

Nodes are asked themselves while NATS is away. They are, too, where NATS forbids a request to a client that
proves a secret of its own to them: what such a client may do its nodes know, by stream, and NATS need not
(V9). A client with the secret that all share stays with what NATS says: that one would give it everything.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TypeVar

import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from liftlog.api.handshake import VERSION
from liftlog.api.nats_api import ASKING, PROTOCOL, api_subject, parse_request
from liftlog.client.bodies import as_json, decode_answer
from liftlog.client.direct import KnownNodes
from liftlog.client.errors import RequestFailed, Unreachable, forbids
from liftlog.messages import ClientMessage, ClusterStatusReply, ClusterStatusRequest
from liftlog.messages.rightstold import NAMED
from liftlog.types import LiftlogError

T = TypeVar("T")

ATTEMPT_TIMEOUT_S = 3.0
LOOK_S = 0.05
"""How often is looked whether NATS has complained of a request that has no answer yet."""
STATUS = "CLUSTER.STATUS"


class ForbiddenByNats(RequestFailed):
    """NATS does not let its user ask this."""


class ApiAsker:
    """Asks for one client."""

    def __init__(
        self, connection: NatsConnection, cluster: str, known: KnownNodes, complaints: Sequence[Exception]
    ) -> None:
        """`complaints`: what NATS says against us, the latest last."""
        self._nats = connection
        self._cluster = cluster
        self._known = known
        self._complaints = complaints
        self._named: bool | None = None
        """Whether nodes know this client by name; None: that was not needed yet."""

    async def ask(self, operation: str, body: object, kind: type[T], deadline: float, node: int = 0) -> T:
        """Raises RequestFailed, Unreachable."""
        payload = as_json(operation, body)
        left_s = max(0.05, deadline - asyncio.get_running_loop().time())
        # Where the nodes are is asked where they need not be known.
        goes_by_nodes = bool(self._named) and (operation != STATUS or node != 0)
        if self._known and (goes_by_nodes or not self._nats.is_connected):
            return await self._by_nodes(parse_request(operation, payload), kind, left_s, node)
        try:
            return decode_answer((await self._by_nats(operation, payload, left_s, node)).data, kind)
        except ForbiddenByNats:
            if operation == STATUS or not await self._is_named(left_s):
                raise
        return await self._by_nodes(parse_request(operation, payload), kind, left_s, node)

    async def _by_nodes(self, request: ClientMessage, kind: type[T], left_s: float, node: int) -> T:
        """Where nobody is found, others may be by now: whoever asks again asks those."""
        try:
            return await self._known.ask(request, kind, left_s, node)
        except Unreachable:
            if self._nats.is_connected:
                with contextlib.suppress(LiftlogError):
                    await self._learn(left_s)
            raise

    async def _learn(self, left_s: float) -> None:
        """Where nodes are. Raises RequestFailed, Unreachable."""
        found = await self._by_nats(STATUS, b"{}", left_s, 0)
        self._known.learn(decode_answer(found.data, ClusterStatusReply))

    async def _is_named(self, left_s: float) -> bool:
        """Whether nodes can be asked that know this client by a name."""
        if self._named is None:
            try:
                if not self._known:
                    await self._learn(left_s)
                status = await self._known.ask(ClusterStatusRequest(), ClusterStatusReply, left_s)
            except LiftlogError:
                # NATS has said what is to be said. What kept us from asking may be over the next time.
                return False
            self._named = NAMED in status.counters
        return self._named

    async def _by_nats(self, operation: str, payload: bytes, left_s: float, node: int) -> Msg:
        subject = api_subject(self._cluster, operation, node)
        silent = f"node {node} does not answer" if node else f"no node of cluster '{self._cluster}' answers"
        try:
            return await self._request(subject, payload, min(left_s, ATTEMPT_TIMEOUT_S), operation)
        except nats.errors.NoRespondersError:
            raise Unreachable(
                f"{silent} on this NATS; start it with 'liftlog serve' or 'liftlog dev'"
            ) from None
        except (TimeoutError, nats.errors.TimeoutError):
            doubt = "" if operation in ASKING else ": whether it is done, or will be, is unknown"
            raise Unreachable(f"{silent} {operation} in time{doubt}; see 'liftlog cluster status'") from None
        except nats.errors.Error as error:
            raise Unreachable(f"NATS refused {operation}: {error}") from None

    async def _request(self, subject: str, payload: bytes, time_s: float, operation: str) -> Msg:
        """Raises ForbiddenByNats as soon as NATS says so."""
        before = list(self._complaints)
        headers = {PROTOCOL: str(VERSION)}
        asking = asyncio.ensure_future(self._nats.request(subject, payload, timeout=time_s, headers=headers))
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=LOOK_S)
                if asking.done() and not asking.exception():
                    break
                new = [one for one in self._complaints if not any(one is old for old in before)]
                if forbids(new, subject):
                    raise ForbiddenByNats(
                        "forbidden",
                        f"this NATS user may not publish to {subject}, which {operation} needs; log in as "
                        "one who may, or allow it in the server's permissions",
                    )
            return asking.result()
        finally:
            asking.cancel()
