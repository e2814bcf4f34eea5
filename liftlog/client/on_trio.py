"""The client in trio programs.

    async with TrioClient.connect("nats://127.0.0.1:4222") as client:
        ack = await client.publish("orders.new", b"hello")
        async with client.read("orders") as reading:
            async for partition, record in reading:
                ...

nats-py speaks asyncio only. So one thread runs an event loop with the client of `liftlog.client`, and each
call here has its coroutine run there (docs/adr/0054-client.md). A call that is cancelled cancels its
coroutine, and waits until that has ended. A call costs two hand-overs between threads; `send_all` and
readings make one for many messages. Arguments and results are as for `Client`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import trio

from liftlog.client.batches import BatchRecord, batch_message
from liftlog.client.bounds import END, FOREVER, Start, Until
from liftlog.client.bridge import TrioBridge
from liftlog.client.bridged import BridgedCursorReading, BridgedGroup, BridgedProcessor
from liftlog.client.client import CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS, Client
from liftlog.client.consuming import Delivery, PullConsumer
from liftlog.client.cursors import CHECKPOINT_MS
from liftlog.client.grouping import SESSION_MS
from liftlog.client.partitioners import Partitioner
from liftlog.client.processing import PATIENCE_MS, RECORDS_MAX
from liftlog.client.progress import OnProgress
from liftlog.client.publisher import Publisher, PublishResult
from liftlog.client.reader import EARLIEST
from liftlog.client.reading import BUFFER_BYTES, Gap, PartitionList, PartitionRecord, StreamReading
from liftlog.client.registry import MAX_AGE_MS, AckView
from liftlog.client.streams import StreamPublisher
from liftlog.config import DEFAULT_CLUSTER, DEFAULT_NATS_URL
from liftlog.messages import ConsumerConfig, ConsumerInfo, StreamChanges, StreamInfo
from liftlog.nats_login import NO_LOGIN, NatsLogin
from liftlog.types import Record, StreamConfig

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class KeyedMessage(NamedTuple):
    """One message for `TrioStreamPublisher.send_all`; `value` None deletes `key`."""

    tag: int
    value: bytes | None
    key: str | None = None
    headers: Mapping[str, str] | None = None


class ResultRelay:
    """Hands results from the loop's thread to a callback in trio's, many at once."""

    def __init__(self, bridge: TrioBridge, on_result: Callable[[PublishResult], object]) -> None:
        self._bridge = bridge
        self._on_result = on_result
        self._results: deque[PublishResult] = deque()
        self._error: Exception | None = None

    def add(self, result: PublishResult) -> None:
        """In the loop's thread."""
        self._results.append(result)
        if len(self._results) == 1:
            with contextlib.suppress(trio.RunFinishedError):
                self._bridge.token.run_sync_soon(self.deliver)

    def deliver(self) -> None:
        """In trio's thread. What the callback raises is kept for `check`: nobody else could get it."""
        while self._results:
            result = self._results.popleft()
            try:
                self._on_result(result)
            except Exception as error:
                self._error = self._error or error

    def check(self) -> None:
        """Raises what the callback has raised first."""
        if self._error is not None:
            raise self._error


class TrioPublisher:
    """As `Publisher`. Results come in trio's thread; what the callback raises, the next call raises."""

    def __init__(self, bridge: TrioBridge, relay: ResultRelay, publisher: Publisher) -> None:
        self._bridge = bridge
        self._relay = relay
        self._publisher = publisher

    async def send(self, tag: int, subject: str, value: bytes, headers: dict[str, str] | None = None) -> None:
        """Publish one message; waits while the window is full."""
        await self.send_all([(tag, subject, value, headers)])

    async def send_all(self, messages: Sequence[tuple[int, str, bytes, dict[str, str] | None]]) -> None:
        """Publish (tag, subject, value, headers) in this order, with one hand-over for all."""

        async def work() -> None:
            for message in messages:
                await self._publisher.send(*message)

        self._relay.check()
        await self._bridge.run(work)

    async def send_batch(
        self,
        tag: int,
        subject: str,
        records: Sequence[BatchRecord | bytes],
        headers: Mapping[str, str] | None = None,
        *,
        codec: str = "none",
    ) -> None:
        """As `Publisher.send_batch`."""
        value, wanted = batch_message(records, headers, codec)
        await self.send_all([(tag, subject, value, wanted)])

    async def drain(self) -> None:
        """Wait until every message has its result."""
        await self._bridge.run(self._publisher.drain)
        self._relay.deliver()
        self._relay.check()


class TrioStreamPublisher:
    """As `StreamPublisher`, with results as `TrioPublisher` has them. The partitioner is called in the
    loop's thread.
    """

    def __init__(self, bridge: TrioBridge, relay: ResultRelay, publisher: StreamPublisher) -> None:
        self._bridge = bridge
        self._relay = relay
        self._publisher = publisher

    @property
    def partitions(self) -> int:
        return self._publisher.partitions

    async def send(
        self,
        tag: int,
        value: bytes | None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> int:
        """Publish one message; returns its partition."""
        (partition,) = await self.send_all([KeyedMessage(tag, value, key, headers)])
        return partition

    async def send_all(self, messages: Sequence[KeyedMessage]) -> list[int]:
        """Publish in this order, with one hand-over for all; returns the partitions."""

        async def work() -> list[int]:
            return [
                await self._publisher.send(one.tag, one.value, key=one.key, headers=one.headers)
                for one in messages
            ]

        self._relay.check()
        return await self._bridge.run(work)

    async def drain(self) -> None:
        """Wait until every message has its result."""
        await self._bridge.run(self._publisher.drain)
        self._relay.deliver()
        self._relay.check()


class TrioReading:
    """As `StreamReading`: an async iterator of (partition, record)."""

    def __init__(self, bridge: TrioBridge, reading: StreamReading) -> None:
        self._bridge = bridge
        self._reading = reading
        self._index = 0
        self._rest: Iterator[Record] = iter(())
        self.positions: dict[int, int] = {}
        """By partition: where a later reading goes on."""

    def __aiter__(self) -> TrioReading:
        return self

    async def __anext__(self) -> PartitionRecord:
        while True:
            for record in self._rest:
                self.positions[self._index] = record.offset + 1
                return PartitionRecord(self._index, record)
            found, self.positions = await self._bridge.run(self._next)
            if found is None:
                raise StopAsyncIteration
            self._index, records = found
            self.positions[self._index] = records[0].offset
            self._rest = iter(records)

    async def _next(self) -> tuple[PartitionList | None, dict[int, int]]:
        """With the positions when the list has been read."""
        try:
            found = await self._reading.next_list()
        except StopAsyncIteration:
            found = None
        return found, dict(self._reading.positions)


class TrioPullConsumer:
    """As `PullConsumer`. `pull` is a context that gives an async iterator of deliveries."""

    def __init__(self, bridge: TrioBridge, consumer: PullConsumer) -> None:
        self._bridge = bridge
        self.consumer = consumer

    async def info(self) -> ConsumerInfo:
        return await self._bridge.run(self.consumer.info)

    async def fetch(
        self, messages: int = 100, *, wait_ms: int = 1000, max_bytes: int = 1024 * 1024
    ) -> list[Delivery]:
        return await self._bridge.run(
            lambda: self.consumer.fetch(messages, wait_ms=wait_ms, max_bytes=max_bytes)
        )

    async def ack(self, *deliveries: Delivery) -> list[int]:
        return await self._bridge.run(lambda: self.consumer.ack(*deliveries))

    async def alter(self, **changes: object) -> ConsumerInfo:
        return await self._bridge.run(lambda: self.consumer.alter(**changes))

    async def reset(self, offset: int | None = None) -> ConsumerInfo:
        return await self._bridge.run(lambda: self.consumer.reset(offset))

    async def term(self, *deliveries: Delivery) -> list[int]:
        return await self._bridge.run(lambda: self.consumer.term(*deliveries))

    async def nak(self, *deliveries: Delivery, delay_ms: int = 0) -> list[int]:
        return await self._bridge.run(lambda: self.consumer.nak(*deliveries, delay_ms=delay_ms))

    async def progress(self, *deliveries: Delivery) -> list[int]:
        return await self._bridge.run(lambda: self.consumer.progress(*deliveries))

    @asynccontextmanager
    async def pull(
        self, messages: int = 100, *, max_bytes: int = 1024 * 1024
    ) -> AsyncIterator[AsyncIterator[Delivery]]:
        """Who leaves it gives back what is not settled."""
        pulling = self.consumer.pull(messages, max_bytes=max_bytes)

        async def deliveries() -> AsyncGenerator[Delivery, None]:
            while True:
                yield await self._bridge.run(pulling.__anext__)

        try:
            async with aclosing(deliveries()) as found:
                yield found
        finally:
            with trio.CancelScope(shield=True):
                await self._bridge.run(self.consumer.give_back)


class TrioClient:
    """A client for trio. Made by `connect`, which closes it."""

    def __init__(self, bridge: TrioBridge, client: Client) -> None:
        self._bridge = bridge
        self.client = client
        """The asyncio client; what is not offered here, `call` runs on it."""

    @classmethod
    @asynccontextmanager
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
    ) -> AsyncIterator[TrioClient]:
        """As `Client.connect`; a context. Raises Unreachable, LiftlogError."""

        async def connect() -> Client:
            return await Client.connect(
                url,
                cluster=cluster,
                secret_file=secret_file,
                timeout_ms=timeout_ms,
                connect_timeout_ms=connect_timeout_ms,
                login=login,
                tls_ca=tls_ca,
                tls_cert=tls_cert,
                tls_key=tls_key,
            )

        async with TrioBridge() as bridge:
            client = await bridge.run(connect)
            try:
                yield cls(bridge, client)
            finally:
                with trio.CancelScope(shield=True):
                    await bridge.run(client.close)

    async def call(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Have anything done with the asyncio client, in its thread: `await client.call(lambda c:
        c.status())`."""
        return await self._bridge.run(lambda: work(self.client))

    async def create_stream(self, config: StreamConfig, timeout_ms: int = 0) -> StreamInfo:
        return await self.call(lambda client: client.create_stream(config, timeout_ms))

    async def alter_stream(self, name: str, changes: StreamChanges, timeout_ms: int = 0) -> str:
        return await self.call(lambda client: client.alter_stream(name, changes, timeout_ms))

    async def delete_stream(self, name: str, timeout_ms: int = 0) -> None:
        await self.call(lambda client: client.delete_stream(name, timeout_ms))

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        return await self.call(lambda client: client.stream(name, timeout_ms))

    async def streams(self, timeout_ms: int = 0) -> list[StreamInfo]:
        return await self.call(lambda client: client.streams(timeout_ms))

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
        return await self.call(
            lambda client: client.publish(
                subject,
                value,
                timeout_ms,
                ack=ack,
                expected_offset=expected_offset,
                expected_last_subject_offset=expected_last_subject_offset,
                message_id=message_id,
                rollup=rollup,
                ttl_ms=ttl_ms,
            )
        )

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
        return await self.call(
            lambda client: client.publish_batch(
                subject,
                records,
                timeout_ms,
                ack=ack,
                expected_offset=expected_offset,
                expected_last_subject_offset=expected_last_subject_offset,
                codec=codec,
            )
        )

    async def last(
        self, stream: str | StreamInfo, subject: str, *, timeout_ms: int = 0
    ) -> PartitionRecord | None:
        return await self.call(lambda client: client.last(stream, subject, timeout_ms=timeout_ms))

    async def next_matching(
        self,
        stream: str | StreamInfo,
        filter: str,
        offset: int = 0,
        partition: int = 0,
        *,
        timeout_ms: int = 0,
    ) -> PartitionRecord | None:
        return await self.call(
            lambda client: client.next_matching(stream, filter, offset, partition, timeout_ms=timeout_ms)
        )

    async def subjects(
        self,
        stream: str | StreamInfo,
        filter: str = ">",
        partition: int | None = None,
        *,
        timeout_ms: int = 0,
    ) -> dict[bytes, int]:
        return await self.call(
            lambda client: client.subjects(stream, filter, partition, timeout_ms=timeout_ms)
        )

    async def consumer(
        self,
        stream: str | StreamInfo,
        name: str,
        *,
        config: ConsumerConfig | None = None,
        partition: int = 0,
        timeout_ms: int = 0,
    ) -> TrioPullConsumer:
        """As `Client.consumer`."""
        made = await self.call(
            lambda client: client.consumer(
                stream, name, config=config, partition=partition, timeout_ms=timeout_ms
            )
        )
        return TrioPullConsumer(self._bridge, made)

    @asynccontextmanager
    async def processor(
        self,
        name: str,
        *,
        source: str,
        sink: str,
        partition: int = 0,
        begin: int | None = None,
        records_max: int = RECORDS_MAX,
        patience_ms: int = PATIENCE_MS,
        on_progress: OnProgress | None = None,
    ) -> AsyncIterator[BridgedProcessor]:
        """As `Client.processor`; a context. `on_progress` is called in the loop's thread."""
        inner = self.client.processor(
            name,
            source=source,
            sink=sink,
            partition=partition,
            begin=begin,
            records_max=records_max,
            patience_ms=patience_ms,
            on_progress=on_progress,
        )
        yield BridgedProcessor(self._bridge, await self._bridge.run(inner.__aenter__))

    @asynccontextmanager
    async def group(
        self,
        name: str,
        streams: Sequence[str],
        *,
        member: str = "",
        session_ms: int = SESSION_MS,
        replica: Literal["leader", "any"] | int = "leader",
        on_gap: Callable[[Gap], object] | None = None,
        on_progress: OnProgress | None = None,
    ) -> AsyncIterator[BridgedGroup]:
        """As `Client.group`; a context. What is called back, is called in the loop's thread."""
        inner = self.client.group(
            name,
            streams,
            member=member,
            session_ms=session_ms,
            replica=replica,
            on_gap=on_gap,
            on_progress=on_progress,
        )
        await self._bridge.run(inner.__aenter__)
        try:
            yield BridgedGroup(self._bridge, inner)
        finally:
            with trio.CancelScope(shield=True):
                await self._bridge.run(lambda: inner.__aexit__(None, None, None))

    async def set_cursor(self, name: str, stream: str, partition: int, offset: int) -> None:
        await self.call(lambda client: client.set_cursor(name, stream, partition, offset))

    async def fetch_cursor(self, name: str, stream: str, partition: int = 0) -> int | None:
        return await self.call(lambda client: client.fetch_cursor(name, stream, partition))

    @asynccontextmanager
    async def resume(
        self,
        name: str,
        stream: str | StreamInfo,
        partition: int | None = None,
        *,
        until: Until = FOREVER,
        replica: Literal["leader", "any"] | int = "leader",
        on_gap: Callable[[Gap], object] | None = None,
        on_progress: OnProgress | None = None,
        checkpoint_ms: int = CHECKPOINT_MS,
    ) -> AsyncIterator[BridgedCursorReading]:
        """As `Client.resume`; a context. What is called back, is called in the loop's thread."""
        inner = await self.call(
            lambda client: client.resume(
                name,
                stream,
                partition,
                until=until,
                replica=replica,
                on_gap=on_gap,
                on_progress=on_progress,
                checkpoint_ms=checkpoint_ms,
            )
        )
        await self._bridge.run(inner.__aenter__)
        try:
            yield BridgedCursorReading(self._bridge, inner)
        finally:
            with trio.CancelScope(shield=True):
                await self._bridge.run(lambda: inner.__aexit__(None, None, None))

    async def who_acks(self, subject: str, *, max_age_ms: int = MAX_AGE_MS) -> AckView:
        return await self.call(lambda client: client.who_acks(subject, max_age_ms=max_age_ms))

    @asynccontextmanager
    async def publisher(
        self,
        on_result: Callable[[PublishResult], object],
        *,
        window: int = 5000,
        ack_timeout_ms: int = 5000,
        insist: bool = False,
        ack: str = "all",
        idempotent: bool = False,
        producer: str = "",
    ) -> AsyncIterator[TrioPublisher]:
        """As `Client.publisher`; a context, which waits for the last answers."""
        relay = ResultRelay(self._bridge, on_result)
        inner = self.client.publisher(
            relay.add,
            window=window,
            ack_timeout_ms=ack_timeout_ms,
            insist=insist,
            ack=ack,
            idempotent=idempotent,
            producer=producer,
        )
        async with self._entered(inner, relay):
            yield TrioPublisher(self._bridge, relay, inner)

    @asynccontextmanager
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
    ) -> AsyncIterator[TrioStreamPublisher]:
        """As `Client.stream_publisher`; a context, which waits for the last answers."""
        relay = ResultRelay(self._bridge, on_result)
        inner = await self.call(
            lambda client: client.stream_publisher(
                stream,
                relay.add,
                partitioner,
                subject=subject,
                partitions=partitions,
                window=window,
                ack_timeout_ms=ack_timeout_ms,
                insist=insist,
            )
        )
        async with self._entered(inner, relay):
            yield TrioStreamPublisher(self._bridge, relay, inner)

    @asynccontextmanager
    async def _entered(self, inner: Publisher | StreamPublisher, relay: ResultRelay) -> AsyncIterator[None]:
        """A publisher is open. At the end all results have been handed over."""
        await self._bridge.run(inner.__aenter__)
        try:
            yield
            await self._bridge.run(inner.drain)
        finally:
            with trio.CancelScope(shield=True):
                # All answers are there, or there was an error, after which none is waited for.
                await self._bridge.run(lambda: inner.__aexit__(GeneratorExit, None, None))
        relay.deliver()
        relay.check()

    @asynccontextmanager
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
    ) -> AsyncIterator[TrioReading]:
        """As `Client.read`; a context. `on_gap` and `on_progress` are called in the loop's thread."""
        reading = await self.call(
            lambda client: client.read(
                stream,
                partition,
                start=start,
                until=until,
                replica=replica,
                buffer_bytes=buffer_bytes,
                on_gap=on_gap,
                on_progress=on_progress,
                filter=filter,
                keys=keys,
                timeout_ms=timeout_ms,
            )
        )
        try:
            yield TrioReading(self._bridge, reading)
        finally:
            with trio.CancelScope(shield=True):
                await self._bridge.run(reading.aclose)
