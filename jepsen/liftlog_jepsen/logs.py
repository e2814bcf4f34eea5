"""Writes down what publishers and readers of one log are told, as the facts of docs/promises.md.

    writer = HistoryWriter("orders", stream=JsonlStream(run / "history.jsonl"))
    recorder = LogRecorder(writer, "orders/0")
    await recorder.publish("a", lambda: client.publish("orders", b"a"), record_key="customer-17")
    async with recorder.publisher(lambda told: client.publisher(told, producer="house-7")) as publisher:
        await publisher.send("b", "orders")
    reader = recorder.reader(client.reader(info))
    records = await reader.fetch(0)
    await recorder.final_read(client.reader(info, node=2), end)  # of each copy, when nobody publishes

What a reader gets it writes with what the record says of itself: its key, that it deletes it, its number; and
with the HW of the answer (not the greatest that was seen: a client remembers that one, and would hide it if a
server told less). Values are text, and no two are the same. All calls raise what the client raises. Any
client will do that has the calls of `liftlog.client`. One recorder for all clients of a log, in one thread.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from liftlog.types import Record
from liftlog_jepsen.history import FINAL_POLL, HistoryWriter, Mop, Value
from liftlog_jepsen.recording import ClientRecorder, RecordedClient, RecordedSender, SendAnswer, end_send

_PRODUCER = re.compile(rb"(?i)\r\nliftlog-producer: *([^\r]*)")
_RUN = re.compile(rb"(?i)\r\nliftlog-run: *(\d+)")
_SEQUENCE = re.compile(rb"(?i)\r\nliftlog-sequence: *(\d+)")
"""Headers of a record that was sent under a number, as docs/publishing.md has them."""
P = TypeVar("P", bound=SendAnswer)


class FetchTold(Protocol):
    """What a server said beside the records of an answer."""

    @property
    def epoch(self) -> int: ...
    @property
    def hw(self) -> int: ...
    def epoch_of(self, offset: int) -> int: ...


class LogReading(Protocol):
    """A client's reader of one partition. `answer`: of the last `fetch`."""

    @property
    def position(self) -> int: ...
    @property
    def answer(self) -> FetchTold | None: ...
    def mind_deletions(self) -> None: ...
    async def offset(self, what: str) -> int: ...
    async def fetch(self, offset: int, *, wait_ms: int) -> list[Record]: ...


class TaggedAnswer(SendAnswer, Protocol):
    """What became of a message of a publisher."""

    @property
    def tag(self) -> int: ...


class Publishing(Protocol):
    """A client's publisher with many messages in flight: an async context."""

    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None: ...
    async def send(self, tag: int, subject: str, value: bytes, headers: Any = None) -> None: ...


def facts_of(key: str, record: Record) -> Iterator[Mop]:
    """What a record of a log says of itself."""
    if record.key is not None:
        f = "tombstone" if record.value is None else "record-key"
        yield Mop(f, key, None, record.key.decode())
    producer, run = _PRODUCER.search(record.headers), _RUN.search(record.headers)
    sequence = _SEQUENCE.search(record.headers)
    if producer is not None and run is not None and sequence is not None:
        yield Mop("producer", key, int(sequence[1]), producer[1].decode(), int(run[1]))


class LogRecorder(ClientRecorder):
    """Of one log, `key`. Everything that is written to that log has to be published here."""

    def __init__(self, writer: HistoryWriter, key: str, *, first_process: int = 1) -> None:
        super().__init__(writer, first_process)
        self.key = key
        self.contents: dict[tuple[int, int], Value] = {}
        """By offset and epoch what anybody was told to lie there; which of it is cut is another question."""
        self._sender = RecordedSender(self)

    def begin_send(self, process: int, value: str | None, record_key: str | None) -> int:
        """`value` None: the record deletes its key."""
        op_id = self.writer.invoke(process, "send")
        facts = [Mop("send", self.key, None, value)]
        if record_key is not None:
            facts.append(Mop("tombstone" if value is None else "record-key", self.key, None, record_key))
        self.writer.mops(op_id, facts)
        return op_id

    def end_send(self, op_id: int, value: str | None, result: SendAnswer) -> bool:
        """Whether it is known what became of it."""
        if result.outcome in ("ok", "leader") and not result.duplicate:
            self.contents[result.offset, result.epoch] = value
        return end_send(self.writer, op_id, result)

    async def publish(
        self, value: str | None, publish: Callable[[], Awaitable[P]], record_key: str | None = None
    ) -> P:
        """`value`, which no other message of this log has; None: the message deletes `record_key`."""

        def begin(process: int) -> int:
            return self.begin_send(process, value, record_key)

        def end(op_id: int, result: P) -> bool:
            return self.end_send(op_id, value, result)

        return await self._sender.send(begin, publish, end)

    def publisher(self, make: Callable[[Callable[[TaggedAnswer], object]], Publishing]) -> RecordedPublisher:
        """One with many messages in flight. `make`: of what is to be told of each."""
        return RecordedPublisher(self, make)

    def reader(self, reader: LogReading) -> RecordedReader:
        """One who reads this log."""
        return RecordedReader(self, reader)

    async def final_read(self, reader: LogReading, end: int) -> list[Record]:
        """All that this reader finds below `end`, when nobody publishes any more."""
        found: list[Record] = []
        facts: list[Mop] = []

        async def read() -> None:
            reader.mind_deletions()
            offset = await reader.offset("earliest")
            while offset < end:
                records = await reader.fetch(offset, wait_ms=500)
                found.extend(records)
                facts.extend(self.facts_of_answer(records, reader.answer))
                offset = reader.position

        op_id, _ = await self.doing(FINAL_POLL, self.process(), read, Mop("poll", self.key))
        self.writer.ok(op_id, mops=facts if found else [Mop("poll", self.key), *facts])
        return found

    def facts_of_answer(self, records: Sequence[Record], answer: FetchTold | None) -> Iterator[Mop]:
        """Of what one answer brought."""
        for record in records:
            value = None if record.value is None else record.value.decode()
            if answer is not None:
                self.contents[record.offset, answer.epoch_of(record.offset)] = value
            yield Mop("poll", self.key, record.offset, value)
            yield from facts_of(self.key, record)
        if answer is not None:
            yield Mop("hw", self.key, answer.hw, None, answer.epoch)


class RecordedReader(RecordedClient):
    """A client's reader whose answers are written down."""

    def __init__(self, recorder: LogRecorder, reader: LogReading) -> None:
        super().__init__(recorder)
        self.reader = reader
        self._recorder = recorder

    @property
    def position(self) -> int:
        """Where to read next."""
        return self.reader.position

    async def fetch(self, offset: int, *, wait_ms: int = 500) -> list[Record]:
        """As the client's."""
        nothing = Mop("poll", self._recorder.key)
        op_id, records = await self._doing(
            "poll", lambda: self.reader.fetch(offset, wait_ms=wait_ms), nothing
        )
        told = list(self._recorder.facts_of_answer(records, self.reader.answer))
        self._recorder.writer.ok(op_id, mops=told if records else [nothing, *told])
        return records


class RecordedPublisher(RecordedClient):
    """A publisher whose messages are written down. Use it as it is used: as an async context."""

    def __init__(
        self, recorder: LogRecorder, make: Callable[[Callable[[TaggedAnswer], object]], Publishing]
    ) -> None:
        super().__init__(recorder)
        self._recorder = recorder
        self._sent: dict[int, tuple[int, str | None]] = {}
        """By tag: the operation that is open, and the value."""
        self._tag = 0
        self.publisher = make(self._told)

    async def __aenter__(self) -> RecordedPublisher:
        await self.publisher.__aenter__()
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self.publisher.__aexit__(kind, error, trace)

    async def send(
        self,
        value: str | None,
        subject: str,
        headers: dict[str, str] | None = None,
        *,
        record_key: str | None = None,
    ) -> None:
        """As the client's. What it will not even send may still be on its way: nobody says."""
        op_id = self._recorder.begin_send(self._process, value, record_key)
        self._tag += 1
        tag = self._tag
        self._sent[tag] = op_id, value
        try:
            await self.publisher.send(tag, subject, (value or "").encode(), headers)
        except BaseException as error:
            if self._sent.pop(tag, None) is not None:
                self._process = self._recorder.process()
                self._recorder.writer.info(op_id, f"{type(error).__name__}: {error}")
            raise

    def _told(self, result: TaggedAnswer) -> None:
        op_id, value = self._sent.pop(result.tag)
        if not self._recorder.end_send(op_id, value, result):
            self._process = self._recorder.process()
