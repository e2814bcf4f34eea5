"""The client: administration over NATS, publishing with acks, and readers.

    async with await Client.connect("nats://127.0.0.1:4222") as client:
        await client.create_stream(StreamConfig("orders", "orders.>", replication_factor=3))
        ack = await client.publish("orders.new", b"hello")
        async for partition, record in await client.read("orders"):
            ...

Publishing needs no client of ours: any NATS publisher is stored. What this one adds is that it knows what an
answer means: stored (ok), certainly not stored (fail), or unknown (info), see `PublishResult`.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeVar

from nats.aio.client import Client as NatsConnection

from liftlog.api.plain import to_plain
from liftlog.client.asking import ApiAsker
from liftlog.client.batches import BatchRecord, batch_message
from liftlog.client.bounds import END, Start, Until
from liftlog.client.connecting import NatsPlace, connect_nats
from liftlog.client.consuming import UsesConsumers
from liftlog.client.cursors import UsesCursors
from liftlog.client.direct import KnownNodes
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.grouping import UsesGroups
from liftlog.client.managing import ManagesNodes
from liftlog.client.nodes import Access, NodePool
from liftlog.client.partitioners import Partitioner
from liftlog.client.processing import RunsProcessors
from liftlog.client.producing import NumberedPublisher
from liftlog.client.progress import OnProgress
from liftlog.client.publisher import (
    Publisher,
    PublishResult,
    expecting,
    expecting_last,
    identified,
    living,
    rolling_up,
)
from liftlog.client.reader import EARLIEST, Reader
from liftlog.client.reading import BUFFER_BYTES, Gap, StreamReading
from liftlog.client.registry import MAX_AGE_MS, AckRegistry, AckView, differences
from liftlog.client.streams import StreamPublisher
from liftlog.client.subjects import AsksSubjects
from liftlog.config import CLUSTER_NAME, DEFAULT_CLUSTER, DEFAULT_NATS_URL
from liftlog.messages import (
    ERR_EXISTS,
    ERR_NOT_FOUND,
    ClientMessage,
    ClientReply,
    ClusterStatusReply,
    DoneReply,
    MessageDeleted,
    StreamChanges,
    StreamInfo,
    StreamInfoReply,
    SubjectsPurged,
)
from liftlog.nats_login import NO_LOGIN, NatsLogin
from liftlog.security import client_secrets
from liftlog.tls.files import TlsFiles, client_tls
from liftlog.types import LiftlogError, PartitionId, Record, StreamConfig

T = TypeVar("T")

CONNECT_TIMEOUT_MS = 3000
REQUEST_TIMEOUT_MS = 12_000
"""A little more than the core's own `request_timeout_ms`, so that its clearer error comes first."""
PENDING_BYTES = 64 * 1024 * 1024
"""So much is kept for NATS while it is away."""
RETRY_PAUSE_S = 0.1


class Client(AsksSubjects, ManagesNodes, RunsProcessors, UsesConsumers, UsesCursors, UsesGroups):
    """One connection to NATS and the connections to nodes that readers need. Use `connect`."""

    def __init__(
        self,
        connection: NatsConnection,
        cluster: str,
        secret_file: Path | str | None,
        timeout_ms: int,
        complaints: deque[Exception],
        tls: TlsFiles | None,
    ) -> None:
        self.nats = connection
        self._complaints = complaints
        """What NATS said against us, the latest last."""
        self.cluster = cluster
        self.timeout_ms = timeout_ms

        def access() -> Access:
            return Access(cluster, *client_secrets(cluster, os.environ, secret_file), tls=tls)

        self.nodes = NodePool(access, CONNECT_TIMEOUT_MS / 1000)
        self._known = KnownNodes(self.nodes)
        self._asker = ApiAsker(connection, cluster, self._known, complaints)
        self._deleted: dict[PartitionId, int] = {}
        """R21: how far journals are committed, as this client was told of its deletions."""
        self._acks = AckRegistry(self._all_streams)

    @classmethod
    async def connect(
        cls,
        url: str = DEFAULT_NATS_URL,
        *,
        cluster: str = DEFAULT_CLUSTER,
        secret_file: Path | str | None = None,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        login: NatsLogin = NO_LOGIN,
        tls_ca: Path | str | None = None,
        tls_cert: Path | str | None = None,
        tls_key: Path | str | None = None,
    ) -> Client:
        """Connect to NATS. Raises Unreachable, with URL and reason; LiftlogError for files it cannot use.

        `secret_file`: the clients' secret, which readers prove to know to the nodes; by default what
        LIFTLOG_CLIENT_SECRET_FILE names, or the user's own file (`liftlog.security`); "none" = no secret.
        It is read when first needed. `tls_ca`: the CA whose certificates nodes must show; by default what
        LIFTLOG_CLIENT_TLS_CA names, "none" and nothing = without TLS. `tls_cert`, `tls_key`: our own.
        """
        if not CLUSTER_NAME.fullmatch(cluster):
            raise LiftlogError(f"no cluster is called {cluster!r}: use 1 to 64 letters, digits, '_' or '-'")
        tls = client_tls(tls_ca, tls_cert, tls_key, os.environ)
        connection = NatsConnection()
        complaints = await connect_nats(
            connection,
            NatsPlace(url, login, shown=url.rsplit("@", 1)[-1]),
            name="liftlog-client",
            time_s=connect_timeout_ms / 1000,
            pending_bytes=PENDING_BYTES,
        )
        return cls(connection, cluster, secret_file, timeout_ms, complaints, tls)

    async def close(self) -> None:
        await self.nodes.close()
        await self.nats.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- administration ------------------------------------------------------------------------------------

    async def create_stream(self, config: StreamConfig, timeout_ms: int = 0) -> StreamInfo:
        """Create a stream; returns once every partition's leader listens (N1). Raises RequestFailed."""
        attempts = 0

        async def attempt(deadline: float) -> StreamInfo:
            nonlocal attempts
            attempts += 1
            try:
                reply = await self._ask("STREAM.CREATE", to_plain(config), StreamInfoReply, deadline)
                return reply.streams[0]
            except RequestFailed as error:
                if error.code != ERR_EXISTS or attempts == 1:
                    raise
                # An earlier attempt without an answer may have been the one that created it.
                found = await self._stream(config.name, deadline)
                if differences(config, found.config):
                    raise
                return found

        return await self._insist(attempt, timeout_ms)

    async def streams(self, timeout_ms: int = 0) -> list[StreamInfo]:
        """All streams, linearizable."""
        reply = await self._request("STREAM.LIST", {}, StreamInfoReply, timeout_ms)
        return reply.streams

    async def known_streams(self, node: int = 0, timeout_ms: int = 0) -> list[StreamInfo]:
        """All streams as some node, or `node`, knows them: perhaps out of date, but told without a quorum."""
        reply = await self._request("STREAM.LIST", {"known": True}, StreamInfoReply, timeout_ms, node)
        return reply.streams

    async def known_stream(self, name: str, timeout_ms: int = 0) -> StreamInfoReply:
        """One stream as some node knows it, with the age of that. Raises RequestFailed if it knows none."""
        body = {"name": name, "known": True}
        return await self._request("STREAM.INFO", body, StreamInfoReply, timeout_ms)

    async def sure_stream(self, name: str, timeout_ms: int = 0) -> StreamInfoReply:
        """The same, linearizable."""
        return await self._request("STREAM.INFO", {"name": name}, StreamInfoReply, timeout_ms)

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        """One stream, linearizable. Raises RequestFailed if there is none of this name."""
        reply = await self._request("STREAM.INFO", {"name": name}, StreamInfoReply, timeout_ms)
        return reply.streams[0]

    async def delete_stream(self, name: str, timeout_ms: int = 0) -> None:
        """Delete the stream that bears `name` now, and no later one of it (I1). Raises RequestFailed."""
        found: StreamInfo | None = None
        asked = 0

        async def attempt(deadline: float) -> None:
            nonlocal found, asked
            if found is None:
                found = await self._stream(name, deadline)
            asked += 1
            try:
                await self._ask("STREAM.DELETE", {"name": name, "id": found.id}, DoneReply, deadline)
            except RequestFailed as error:
                # It may have been an earlier attempt without an answer that deleted it.
                if error.code != ERR_NOT_FOUND or asked == 1:
                    raise

        await self._insist(attempt, timeout_ms)

    async def alter_stream(self, name: str, changes: StreamChanges, timeout_ms: int = 0) -> str:
        """Change the configuration of the stream that bears `name` now (R19). Returns what has changed, in
        words. Raises RequestFailed, with code "invalid" for what cannot be altered so.
        """
        body: dict[str, object] = {"name": name, "changes": changes.named}

        async def attempt(deadline: float) -> str:
            if "id" not in body:
                body["id"] = (await self._stream(name, deadline)).id
            return (await self._ask("STREAM.ALTER", body, DoneReply, deadline)).detail

        return await self._insist(attempt, timeout_ms)

    async def purge(self, name: str, partition: int, before: int, timeout_ms: int = 0) -> None:
        """Remove every record below the offset `before`, which may be at most the end of what is committed.

        Returns once the whole ISR has done so durably: it is not undone by any election (C3). Asking again is
        harmless. Raises RequestFailed.
        """

        async def attempt(deadline: float) -> None:
            stream, leader = await self._leader(name, partition, deadline)
            body = {"partition": [stream, partition], "before": before}
            await self._ask("STREAM.PURGE", body, DoneReply, deadline, leader)

        await self._insist(attempt, timeout_ms)

    async def delete(self, name: str, partition: int, offset: int, timeout_ms: int = 0) -> int:
        """Delete one committed message, of a stream that was created with `removal` (R21).

        Once this returns, no reader of this client gets it, nor any other that has heard of the deletion;
        the offset is never given again, and its bytes stay on disk until retention takes them. To delete it
        again is harmless. Returns how far the journal is committed that says so, see `Reader.seen_journal`.
        Raises RequestFailed.
        """

        async def attempt(deadline: float) -> int:
            stream, leader = await self._leader(name, partition, deadline)
            body = {"partition": [stream, partition], "offset": offset}
            reply = await self._ask("MESSAGE.DELETE", body, MessageDeleted, deadline, leader)
            known = self._deleted.get(reply.partition, 0)
            self._deleted[reply.partition] = max(known, reply.journal)
            return reply.journal

        return await self._insist(attempt, timeout_ms)

    async def purge_subjects(
        self,
        name: str,
        partition: int,
        pattern: str,
        keep: int = 0,
        up_to: int | None = None,
        timeout_ms: int = 0,
    ) -> int:
        """Delete the messages of a partition whose subject the filter `pattern` matches: of those below the
        offset `up_to`, or of all that are committed now, all but the newest `keep` (R21).

        Of a stream that was created with `removal`. What it says of `delete` holds of each message. If the
        time is too short for all, a part is gone: calling again does the rest. Returns how many the last
        request found. Raises RequestFailed.
        """
        if up_to is None:
            info = await self.stream(name, timeout_ms)
            up_to = await self.reader(info, partition, timeout_ms=timeout_ms).offset("new")

        async def attempt(deadline: float) -> int:
            stream, leader = await self._leader(name, partition, deadline)
            body = {"partition": [stream, partition], "pattern": pattern, "below": up_to, "keep": keep}
            reply = await self._ask("MESSAGES.PURGE", body, SubjectsPurged, deadline, leader)
            known = self._deleted.get(reply.partition, 0)
            self._deleted[reply.partition] = max(known, reply.journal)
            return reply.messages

        return await self._insist(attempt, timeout_ms)

    async def status(self, node: int = 0, timeout_ms: int = 0) -> ClusterStatusReply:
        """The cluster as a node sees it: any node, or `node`."""
        status = await self._request("CLUSTER.STATUS", {}, ClusterStatusReply, timeout_ms, node)
        self._known.learn(status)
        return status

    async def elect(
        self, name: str, partition: int, node: int, unclean: bool = False, timeout_ms: int = 0
    ) -> str:
        """Make `node` the leader of a partition as it is now (R14, R16). Raises RequestFailed, with code
        "stale" if the partition has changed meanwhile.
        """
        body: dict[str, object] = {"name": name, "partition": partition, "node": node, "unclean": unclean}

        async def attempt(deadline: float) -> str:
            if "id" not in body:
                info = await self._stream(name, deadline)
                if 0 <= partition < len(info.partitions):
                    body["version"] = info.partitions[partition].version
                body["id"] = info.id
            return (await self._ask("LEADER.ELECT", body, DoneReply, deadline)).detail

        return await self._insist(attempt, timeout_ms)

    async def move_replicas(
        self,
        name: str,
        partition: int,
        replicas: Sequence[int],
        timeout_ms: int = 0,
        *,
        assignment: int = -1,
    ) -> str:
        """Have the copies of a partition on these nodes, the first of which is to lead it (R20); none: cancel
        the move that is under way. `assignment`, of its `PartitionInfo`: only if nobody has said another
        thing of its copies since it was so. Returns when it is decided, in words if there was nothing to
        decide; `streams` shows how far it is. Raises RequestFailed, with code "invalid" for nodes that cannot
        have it, "stale" if it is not as it was seen.
        """
        body: dict[str, object] = {"name": name, "partition": partition, "replicas": list(replicas)}
        if assignment >= 0:
            body["assignment"] = assignment

        async def attempt(deadline: float) -> str:
            if "id" not in body:
                body["id"] = (await self._stream(name, deadline)).id
            return (await self._ask("REPLICAS.MOVE", body, DoneReply, deadline)).detail

        return await self._insist(attempt, timeout_ms)

    async def call(self, node: int, address: str, request: ClientMessage, timeout_s: float) -> ClientReply:
        """Ask one node over TCP. Raises Unreachable, RequestFailed, LiftlogError."""
        return await self.nodes.call(node, address, request, timeout_s)

    async def addresses(self, refresh: bool = False, timeout_ms: int = 0) -> dict[int, str]:
        """host:port of every known node."""
        if refresh or not self._known:
            await self.status(timeout_ms=timeout_ms)
        return self._known.addresses

    # -- data ----------------------------------------------------------------------------------------------

    async def publish(
        self,
        subject: str,
        value: bytes,
        timeout_ms: int = 5000,
        *,
        ack: str = "all",
        expected_offset: int | None = None,
        expected_last_subject_offset: int | None = None,
        message_id: str | None = None,
        rollup: str | None = None,
        ttl_ms: int | None = None,
    ) -> PublishResult:
        """Publish one message and wait for what becomes of it; look at the result's `outcome`. `ack`: as of
        `publisher`. `expected_offset`: store it there, or not at all; who is refused is told `next_offset`.
        `expected_last_subject_offset`: of the last message of its subject, -1: it has none; who is refused is
        told `last_offset`.
        `message_id`: store it once, however often it is sent; the result of a repetition has the first one's
        offset and `duplicate`.
        `rollup`: once it is committed older messages go, for "sub" those of its subject, for "all" those of
        the partition, of a stream that allows it; see `docs/deleting.md`.
        `ttl_ms`: it goes when it is so old, at least 1000, 0: it stays; of a stream that allows it.
        """
        expected = {**expecting(expected_offset), **expecting_last(expected_last_subject_offset)}
        headers = {**expected, **identified(message_id), **rolling_up(rollup), **living(ttl_ms)}
        return await self._send((subject, value, headers), timeout_ms, ack)

    async def _send(self, what: tuple[str, bytes, dict[str, str]], time_ms: int, ack: str) -> PublishResult:
        results: list[PublishResult] = []
        async with self.publisher(results.append, window=1, ack_timeout_ms=time_ms, ack=ack) as one:
            await one.send(0, *what)
        return results[0]

    async def publish_batch(
        self,
        subject: str,
        records: Sequence[BatchRecord | bytes],
        timeout_ms: int = 5000,
        *,
        ack: str = "all",
        expected_offset: int | None = None,
        expected_last_subject_offset: int | None = None,
        codec: str = "none",
    ) -> PublishResult:
        """As `publish`, of several records that are stored together or not at all: see `batch_message`."""
        expected = {**expecting(expected_offset), **expecting_last(expected_last_subject_offset)}
        message = batch_message(records, expected, codec)
        return await self._send((subject, *message), timeout_ms, ack)

    def publisher(
        self,
        on_result: Callable[[PublishResult], object],
        *,
        window: int = 5000,
        ack_timeout_ms: int = 5000,
        insist: bool = False,
        ack: str = "all",
        idempotent: bool = False,
        producer: str = "",
    ) -> Publisher:
        """A publisher that keeps up to `window` messages in flight; `on_result` gets each `PublishResult`.

        `insist`: a message that nobody listens for is sent again until `ack_timeout_ms` have passed. `ack`:
        whose word the ack is: "all" of those in sync, the "leader" alone, or "none".
        `idempotent`, or `producer`, a name: store each message once, and in order: see `NumberedPublisher`.
        """
        heard = self._complaints
        if idempotent or producer:
            return NumberedPublisher(
                self.nats, on_result, window, ack_timeout_ms, heard, ack=ack, producer=producer
            )
        return Publisher(self.nats, on_result, window, ack_timeout_ms, insist, complaints=heard, ack=ack)

    async def stream_publisher(
        self,
        stream: str | StreamInfo,
        on_result: Callable[[PublishResult], object],
        partitioner: Partitioner,
        *,
        subject: str = "",
        partitions: int = 0,
        window: int = 5000,
        ack_timeout_ms: int = 5000,
        insist: bool = True,
    ) -> StreamPublisher:
        """A publisher to the partitions of a stream, chosen by `partitioner`: ByKey(), RoundRobin(),
        RandomPartition() or a callable of your own. See `StreamPublisher`; the rest is as for `publisher`.

        `subject`: a literal one, for a stream whose own has wildcards. `partitions`: use the first so many,
        whatever is added later; 0 = all. Raises LiftlogError, RequestFailed, Unreachable.
        """
        info = stream if isinstance(stream, StreamInfo) else await self.stream(stream)
        publisher = self.publisher(on_result, window=window, ack_timeout_ms=ack_timeout_ms, insist=insist)
        return StreamPublisher(self, info, publisher, partitioner, subject, partitions)

    async def who_acks(self, subject: str, *, max_age_ms: int = MAX_AGE_MS) -> AckView:
        """Which streams take a message that is published on `subject`, and how many acks it gets; by what
        this client knows if that is younger than `max_age_ms`. Raises Unreachable, LiftlogError for a subject
        that nobody can publish to.
        """
        return await self._acks.who_acks(subject, max_age_ms)

    async def _all_streams(self, known: bool) -> StreamInfoReply:
        body = {"known": True} if known else {}
        timeout_ms = 0 if known else CONNECT_TIMEOUT_MS
        return await self._request("STREAM.LIST", body, StreamInfoReply, timeout_ms)

    def reader(
        self,
        stream: StreamInfo,
        partition: int = 0,
        *,
        node: int = 0,
        spread: bool = False,
        timeout_ms: int = 0,
    ) -> Reader:
        """A reader of one partition: from its leader, only from `node` if given, or from any replica that is
        in sync if reads are to be `spread`."""
        if not 0 <= partition < len(stream.partitions):
            count = len(stream.partitions)
            raise LiftlogError(
                f"stream '{stream.config.name}' has partitions 0 to {count - 1}, not {partition}"
            )
        reader = Reader(self, stream, partition, node, timeout_ms or self.timeout_ms, spread=spread)
        reader.has_heard(self._deleted.get(reader.partition, 0))
        return reader

    async def read(
        self,
        stream: str | StreamInfo,
        partition: int | None = None,
        *,
        start: Start = EARLIEST,
        until: Until = END,
        replica: Literal["leader", "any"] | int = "leader",
        buffer_bytes: int = BUFFER_BYTES,
        on_gap: Callable[[Gap], object] | None = None,
        on_progress: OnProgress | None = None,
        filter: str | None = None,
        keys: Sequence[str] = (),
        timeout_ms: int = 0,
    ) -> StreamReading:
        """The committed records of a stream within bounds, as an async iterator of (partition, record): of
        one partition in the order of its offsets, or of all of them as they come.

        `start`: "earliest", "latest" (the last record there is), "new", an offset, At(ms) or {partition:
        offset}. `until`: "end" (of what is committed now), "forever", an offset (exclusive; waits for what is
        not there yet), At(ms) or {partition: offset}. `replica`: "leader" = from leaders, and from others
        while one does not answer; "any" = from one that is in sync; a node's number = from it alone.

        At most `buffer_bytes` of records wait for who reads, and one batch of each partition; who is slow
        makes servers wait. `on_gap` is called with what retention has removed before it was read; without
        it that raises RecordsGone. `on_progress` is called with a `ReadingProgress` of a partition when what
        was fetched of it at once has been handed out. `filter`: a pattern of subjects, `keys`: some keys;
        only what matches is sent and handed out. `timeout_ms`: for how long a partition may not answer.
        Raises LiftlogError, RequestFailed, Unreachable.
        """
        info = stream if isinstance(stream, StreamInfo) else await self.stream(stream)
        node = replica if isinstance(replica, int) else 0
        if not isinstance(replica, int) and replica not in ("leader", "any"):
            raise LiftlogError(f"replica {replica!r}: use 'leader', 'any' or the number of a node")

        def open(stream: StreamInfo, partition: int) -> Reader:
            return self.reader(stream, partition, node=node, spread=replica == "any", timeout_ms=timeout_ms)

        return StreamReading(
            self,
            info,
            open,
            start,
            until,
            partition=partition,
            buffer_bytes=buffer_bytes,
            on_gap=on_gap,
            on_progress=on_progress,
            filter=filter,
            keys=keys,
        )

    async def read_all(
        self, stream: StreamInfo, partition: int = 0, *, node: int = 0, timeout_ms: int = 0
    ) -> AsyncIterator[list[Record]]:
        """Everything that is committed now, in lists of records in offset order.

        With `node` the records come from this replica alone, however long it takes it (up to `timeout_ms`
        without progress) to reach the leader's present HW.
        """
        end = await self.reader(stream, partition, timeout_ms=timeout_ms).offset("new")
        reader = self.reader(stream, partition, node=node, timeout_ms=timeout_ms)
        reader.mind_deletions()
        offset = await reader.offset(EARLIEST)
        while offset < end:
            records = await reader.fetch(offset)
            offset = reader.position
            if records:
                yield [record for record in records if record.offset < end]

    # -- requests ------------------------------------------------------------------------------------------

    async def _request(
        self, operation: str, body: object, kind: type[T], timeout_ms: int, node: int = 0
    ) -> T:
        async def attempt(deadline: float) -> T:
            return await self._ask(operation, body, kind, deadline, node)

        return await self._insist(attempt, timeout_ms)

    async def _leader(self, name: str, partition: int, deadline: float) -> tuple[int, int]:
        """The stream's id, and who leads the partition."""
        info = await self._stream(name, deadline)
        if not 0 <= partition < len(info.partitions):
            raise LiftlogError(
                f"stream '{name}' has partitions 0 to {len(info.partitions) - 1}, not {partition}"
            )
        leader = info.partitions[partition].leader
        if leader == 0:
            raise RequestFailed("no-leader", f"partition {partition} of '{name}' has no leader", True)
        return info.id, leader

    async def _stream(self, name: str, deadline: float) -> StreamInfo:
        return (await self._ask("STREAM.INFO", {"name": name}, StreamInfoReply, deadline)).streams[0]

    async def _insist(self, attempt: Callable[[float], Awaitable[T]], timeout_ms: int) -> T:
        """Try again what may succeed at another node or later, until the time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (timeout_ms or self.timeout_ms) / 1000
        while True:
            try:
                return await attempt(deadline)
            except RequestFailed as error:
                if not error.retryable or loop.time() + RETRY_PAUSE_S > deadline:
                    raise
            except Unreachable:
                if loop.time() + RETRY_PAUSE_S > deadline:
                    raise
            await asyncio.sleep(RETRY_PAUSE_S)

    async def _ask(self, operation: str, body: object, kind: type[T], deadline: float, node: int = 0) -> T:
        """One request, one answer, see `liftlog.client.asking`. Raises RequestFailed, Unreachable."""
        return await self._asker.ask(operation, body, kind, deadline, node)
