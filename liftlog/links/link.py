"""One other cluster, asked as a client asks: which cluster it is, who leads a partition, what he has.

Which cluster it is each connection is asked for when it is opened, and never after: what comes over it is
that one's. All connections that are kept are to nodes of one and the same. If a node says it is of another
one, since that has come in the place of the first, all are closed, and are opened anew.

One question of a partition is under way; another one meanwhile is dropped, since who asks does so again.
After a failure the next question of that partition waits, longer each time, up to `PAUSE_MAX_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from liftlog.api.spans import frames
from liftlog.client.direct import KnownNodes
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.nodes import Access, NodeConnection, NodePool
from liftlog.client.reader import EARLIEST, NEW, Reader
from liftlog.messages import (
    ERR_OFFSET_RANGE,
    AskOrigin,
    ClientMessage,
    ClientReply,
    ClusterStatusReply,
    ClusterStatusRequest,
    MirrorReply,
    OriginAnswered,
    ReadReply,
    ReadRequest,
    StreamInfo,
    StreamInfoReply,
    StreamInfoRequest,
    intake,
)
from liftlog.messages.copying import below_start, copied
from liftlog.otherclusters import OtherCluster
from liftlog.types import LiftlogError, PartitionId

CONNECT_S = 3.0
TIMEOUT_S = 3.0
WAIT_MS = 500
"""For so long a leader that has nothing new keeps a question."""
LOOK_S = 2.0
"""What a stream is there is asked again so often."""
PAUSE_S, PAUSE_MAX_S = 0.5, 10.0
QUESTIONS_MAX = 1024

Answered = Callable[[OriginAnswered], None]
_Key = tuple[PartitionId, str]
"""The copy's partition, and the stream that is asked about."""


class _Side:
    """Connections to the nodes of one cluster, which is one and the same: `identity`, empty before any
    connection stands. `Transport` for readers.
    """

    def __init__(self, place: OtherCluster) -> None:
        self._place = place
        self._pool = NodePool(self._access, CONNECT_S, self._greet)
        self._known = KnownNodes(self._pool, place.nodes)
        self.identity = ""
        self.replaced = False
        """Another cluster has answered: this one is to be closed."""
        self._looked: dict[str, tuple[StreamInfo, float]] = {}
        self._readers: dict[tuple[int, int], Reader] = {}

    def _access(self) -> Access:
        place = self._place
        source = f"the secret in {place.client_secret_file}" if place.client_secret_file else "no secret"
        table = f"[clusters.{place.name}]"
        remedy = f"name the file with that cluster's clients' secret in {table}, or its own name (cluster)"
        return Access(place.cluster, place.secrets(), source, remedy, place.tls)

    async def _greet(self, connection: NodeConnection) -> None:
        """Raises Unreachable for a node that is of another cluster, or does not know which it is of."""
        status = await connection.call(ClusterStatusRequest(), TIMEOUT_S)
        assert isinstance(status, ClusterStatusReply)
        found = status.contact.cluster
        if not found.partition("-")[2]:
            text = "does not say which cluster it is of: it has just started, or is of an older release"
            raise Unreachable(f"node at {connection.address} {text}")
        if self.identity and found != self.identity:
            self.replaced = True
            raise Unreachable(f"node at {connection.address} is of cluster {found}, not {self.identity}")
        self.identity = found
        self._known.learn(status)

    async def call(self, node: int, address: str, request: ClientMessage, timeout_s: float) -> ClientReply:
        return await self._pool.call(node, address, request, timeout_s)

    async def addresses(self, refresh: bool = False, timeout_ms: int = 0) -> dict[int, str]:
        if refresh:
            self._known.learn(await self._known.ask(ClusterStatusRequest(), ClusterStatusReply, TIMEOUT_S))
        return self._known.addresses

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        """Raises RequestFailed, Unreachable."""
        reply = await self._known.ask(StreamInfoRequest(name), StreamInfoReply, TIMEOUT_S)
        info = reply.streams[0]
        self._looked[name] = info, asyncio.get_running_loop().time() + LOOK_S
        return info

    async def known_stream(self, name: str) -> StreamInfo:
        """As of some seconds ago at most."""
        info, until_s = self._looked.get(name, (None, 0.0))
        if info is None or asyncio.get_running_loop().time() > until_s:
            return await self.stream(name)
        return info

    def reader(self, info: StreamInfo, index: int) -> Reader:
        key = info.id, index
        if key not in self._readers:
            self._readers[key] = Reader(self, info, index, 0, int(TIMEOUT_S * 1000))
        return self._readers[key]

    def forget(self, name: str) -> None:
        """What is known of a stream may be wrong."""
        info, _ = self._looked.pop(name, (None, 0.0))
        if info is not None:
            for index in range(len(info.partitions)):
                self._readers.pop((info.id, index), None)

    async def close(self) -> None:
        await self._pool.close()


class ClusterLink:
    """Of one other cluster; all in one event loop's thread."""

    def __init__(self, place: OtherCluster, answered: Answered) -> None:
        self._place = place
        self._answered = answered
        self._side = _Side(place)
        self._under_way: dict[_Key, asyncio.Task[None]] = {}
        self._failures: dict[_Key, int] = {}

    def ask(self, question: AskOrigin) -> None:
        """`answered` is told; unless the last question of this partition is under way."""
        key = question.partition, question.stream
        if key in self._under_way or len(self._under_way) >= QUESTIONS_MAX:
            return
        task = asyncio.get_running_loop().create_task(self._work(question))
        self._under_way[key] = task
        task.add_done_callback(lambda done: self._under_way.pop(key, None))

    async def close(self) -> None:
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._side.close()

    async def _work(self, question: AskOrigin) -> None:
        key, side = (question.partition, question.stream), self._side
        try:
            answer = await self._ask(side, question)
        except LiftlogError as error:
            side.forget(question.stream)
            problem = f"cluster '{self._place.name}': {error}"
            self._answered(OriginAnswered(question.partition, question.origin, problem=problem))
            await self._after_failure(side, key)
            return
        self._failures.pop(key, None)
        self._answered(answer)

    async def _after_failure(self, side: _Side, key: _Key) -> None:
        if side.replaced and side is self._side:
            self._side = _Side(self._place)
            await side.close()
            return
        failures = self._failures[key] = min(10, self._failures.get(key, 0) + 1)
        await asyncio.sleep(min(PAUSE_MAX_S, PAUSE_S * 2 ** (failures - 1)))

    async def _ask(self, side: _Side, question: AskOrigin) -> OriginAnswered:
        """Raises LiftlogError."""
        info = await side.known_stream(question.stream)
        answer = OriginAnswered(question.partition, question.origin, side.identity, info.id, info.config)
        if question.partition.index < len(info.partitions):
            answer.reply = await _read(side, info, question)
        return answer


async def _read(side: _Side, info: StreamInfo, question: AskOrigin) -> MirrorReply:
    """What the leader there has from an offset on. Raises LiftlogError."""
    log = PartitionId(info.id, question.partition.index)
    reader = side.reader(info, log.index)
    request = ReadRequest(log, question.offset, question.max_bytes, WAIT_MS, verify=True)
    try:
        reply = await reader.ask_leader(request, ReadReply)
        batches = [frame for item in reply.batches for frame in frames(item)]
        told = copied(question.partition, question.offset, info.id, reply, batches)
    except RequestFailed as error:
        if error.code != ERR_OFFSET_RANGE:
            raise
        start, end = await reader.offset(EARLIEST), await reader.offset(NEW)
        if question.offset >= start:
            raise LiftlogError(
                f"'{question.stream}' ends at offset {end}, and the copy is at {question.offset}: it has "
                "lost what the copy has; remove the copy, and make it again"
            ) from None
        told = below_start(question.partition, question.offset, info.id, max(end, start), start)
    if problem := intake.contradiction(told):
        raise LiftlogError(f"a node's answer contradicts itself: {problem}")
    return told
