"""Publishing to a stream: to the subjects of its partitions, which a partitioner chooses by key or otherwise.

Partitions that are added meanwhile (R19) are found by looking once a second. They are used when their
leaders listen, and when every message that was sent before has its result: so what a publisher has sent
of a key is settled where it was before anything of that key goes elsewhere. Who must not have keys move at
all, as for a compacted stream, says how many partitions to use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType

from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.partitioners import Partitioner
from liftlog.client.publisher import Publisher
from liftlog.client.transport import Transport
from liftlog.core.metadata.subjects import partition_subject
from liftlog.messages import StreamInfo
from liftlog.subjects.grammar import matches, publish_problem
from liftlog.types import LiftlogError

LOOK_S = 1.0
"""How often is looked for partitions that were added."""
KEY_HEADER = "Liftlog-Key"
TOMBSTONE_HEADER = "Liftlog-Tombstone"


def key_headers(key: str | None, tombstone: bool = False) -> dict[str, str]:
    """The headers that make a key, and a tombstone (C1). Raises LiftlogError."""
    if key is None:
        if tombstone:
            raise LiftlogError("a tombstone deletes a key; name the key")
        return {}
    if key != key.strip() or not key.isprintable():
        raise LiftlogError(f"key {key!r} cannot travel in a NATS header; use printable text, trimmed")
    return {KEY_HEADER: key, TOMBSTONE_HEADER: "1"} if tombstone else {KEY_HEADER: key}


def publish_subject(stream: StreamInfo, subject: str) -> str:
    """The literal subject of partition 0: `subject`, or the stream's own if that is empty. Raises
    LiftlogError.
    """
    config = stream.config
    chosen = subject or config.subject
    if publish_problem(chosen):
        raise LiftlogError(
            f"subject {chosen!r} is not one to publish to; name one that matches stream '{config.name}' "
            f"({', '.join(config.subjects)}), with subject=..."
        )
    if not any(matches(pattern, chosen) for pattern in config.subjects):
        listens = " and ".join(map(repr, config.subjects))
        raise LiftlogError(f"stream '{config.name}' does not listen on {chosen!r} but on {listens}")
    return chosen


class StreamPublisher:
    """Sends to the partitions of one stream; use as an async context manager, which waits for the last
    answers. Made by `Client.stream_publisher`.
    """

    def __init__(
        self,
        transport: Transport,
        stream: StreamInfo,
        publisher: Publisher,
        partitioner: Partitioner,
        subject: str = "",
        partitions: int = 0,
        *,
        look_s: float = LOOK_S,
    ) -> None:
        """`partitions`: use the first so many, whatever is added; 0 = all. Raises LiftlogError."""
        there = len(stream.partitions)
        if not 0 <= partitions <= there:
            raise LiftlogError(
                f"stream '{stream.config.name}' has {there} partitions, not {partitions}; add some, with: "
                f"liftlog stream alter {stream.config.name} --partitions N"
            )
        self._transport = transport
        self._stream = stream
        self._publisher = publisher
        self._partitioner = partitioner
        self._look_s = look_s
        first = publish_subject(stream, subject)
        self._first = first
        self._subjects = [partition_subject(first, index) for index in range(partitions or there)]
        self._fixed = bool(partitions)
        self._wanted = len(self._subjects)
        self._problem: LiftlogError | None = None
        self._looker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> StreamPublisher:
        await self._publisher.__aenter__()
        self._looker = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._looker is not None:
            self._looker.cancel()
        await self._publisher.__aexit__(kind, error, trace)

    @property
    def partitions(self) -> int:
        """How many are published to now."""
        return len(self._subjects)

    async def send(
        self,
        tag: int,
        value: bytes | None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> int:
        """Publish, asking for the full ack; returns the partition. Waits while the window is full, and for
        what is in flight when partitions were added. `tag` must be unique among the messages in flight.
        `value` None: a tombstone, which deletes `key`.

        Raises LiftlogError: for what no server will take, if the stream is gone, if the partitioner finds no
        place.
        """
        if self._problem is not None:
            raise self._problem
        while self._wanted != len(self._subjects):
            await self._publisher.drain()
            there = range(len(self._subjects), self._wanted)
            self._subjects += [partition_subject(self._first, index) for index in there]
        all_headers = {**(headers or {}), **key_headers(key, value is None)}
        body = value or b""
        count = len(self._subjects)
        index = self._partitioner(key, body, count)
        if not 0 <= index < count:
            raise LiftlogError(f"the partitioner chose partition {index}; it must return 0 to {count - 1}")
        await self._publisher.send(tag, self._subjects[index], body, all_headers)
        return index

    async def drain(self) -> None:
        """Wait until every message has its result."""
        await self._publisher.drain()

    async def _look(self) -> None:
        """See which partitions there are, and that it is still this stream, again and again."""
        name = self._stream.config.name
        while self._problem is None:
            await asyncio.sleep(self._look_s)
            try:
                stream = await self._transport.stream(name)
            except Unreachable:
                continue
            except RequestFailed as error:
                if not error.retryable:
                    self._problem = error
                continue
            except LiftlogError as error:
                self._problem = error
                continue
            if stream.id != self._stream.id:
                self._problem = LiftlogError(
                    f"stream '{name}' was deleted and created anew; open a new publisher"
                )
            elif not self._fixed:
                while self._wanted < len(stream.partitions) and stream.partitions[self._wanted].ready:
                    self._wanted += 1
