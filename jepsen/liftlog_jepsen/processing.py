"""Writes down what processors do, as the facts of docs/promises.md, as they do it.

    writer = HistoryWriter("totals", stream=JsonlStream(run / "history.jsonl"))
    recorder = ProcessorRecorder(writer, "orders/0", "totals/0")
    async with recorder.opened(client.processor("totals", source="orders", sink="totals")) as processor:
        async for batch in processor:
            await batch.commit([total_of(record) for record in batch.records])
    await recorder.final_read(lambda: read_all_outputs())  # at the end: records

A batch is a poll, and then one transaction: what it sent, which records it has dealt with, and how far the
input then is. All calls raise what the client raises. Any client will do that has the calls of
`liftlog.client`. Values are text, and no two outputs of a run are the same. A history recognizes records by
their values, so it has each output with the run that sent it: what was sent again, by who replaced the
first, is another one.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from liftlog.types import Record
from liftlog_jepsen.history import FINAL_POLL, HistoryWriter, Mop
from liftlog_jepsen.recording import ClientRecorder, RecordedClient

TRANSACTION, COMMITS = "txn", "commit"
_RUN = re.compile(rb"(?i)\r\nliftlog-run: *(\d+)")
_RECORDS = re.compile(rb"(?i)\r\nliftlog-records: *(\d+)")
"""Headers of the first record of a processor's message, as docs/processing.md has them."""


class GivenBatch(Protocol):
    """Records of the input, and what becomes of them."""

    @property
    def records(self) -> list[Record]: ...
    @property
    def next(self) -> int: ...
    async def commit(self, outputs: Sequence[Any]) -> int: ...


class Processing(Protocol):
    """One run of a client's processor: an async context, and an iterator of batches."""

    producer: str
    run: int
    position: int

    @property
    def read_to(self) -> int: ...
    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None: ...
    async def __anext__(self) -> GivenBatch: ...


class ProcessorRecorder(ClientRecorder):
    """Of processors that read one log and store into another one."""

    def __init__(self, writer: HistoryWriter, source: str, sink: str, *, first_process: int = 1) -> None:
        super().__init__(writer, first_process)
        self.source, self.sink = source, sink

    async def final_read(self, read: Callable[[], Awaitable[Sequence[Record]]]) -> Sequence[Record]:
        """All that is in the log of the outputs, when nobody stores any more."""
        op_id, there = await self.doing(FINAL_POLL, self.process(), read, Mop("poll", self.sink))
        outputs = list(_outputs(there))
        offsets = [offset for offset, _ in outputs]
        self.writer.ok_poll(op_id, self.sink, offsets, [value for _, value in outputs])
        return there

    @asynccontextmanager
    async def opened(
        self, processor: Processing, begin: int | None = None
    ) -> AsyncIterator[RecordedProcessor]:
        """Open a run. `begin`: as the processor was given it."""
        perhaps = [] if begin is None else [Mop("commit", self.source, begin, processor.producer)]
        op_id, _ = await self.doing(TRANSACTION, self.process(), processor.__aenter__, *perhaps)
        group, at, run = processor.producer, processor.position, processor.run
        facts = [Mop("join", group, None, None, run), Mop("fetch-commit", self.source, at, group)]
        if at == begin:
            facts.append(Mop("commit", self.source, at, group, run))
        self.writer.ok(op_id, mops=facts)
        try:
            yield RecordedProcessor(self, processor)
        except BaseException as error:
            await processor.__aexit__(type(error), error, error.__traceback__)
            raise
        await processor.__aexit__(None, None, None)


class RecordedProcessor(RecordedClient):
    """An open run whose batches are written down."""

    def __init__(self, recorder: ProcessorRecorder, processor: Processing) -> None:
        super().__init__(recorder)
        self.processor = processor
        self._recorder = recorder
        self._stored = processor.position

    def __aiter__(self) -> RecordedProcessor:
        return self

    async def __anext__(self) -> RecordedBatch:
        """As the client's."""
        try:
            batch = await self.processor.__anext__()
        except BaseException:
            self._may_have_said(self.processor.read_to)
            raise
        if self.processor.position != self._stored:
            self._said(self.processor.position)
        writer, source = self._recorder.writer, self._recorder.source
        op_id = writer.invoke(self._process, "poll", source)
        offsets = [one.offset for one in batch.records]
        writer.ok_poll(op_id, source, offsets, [(one.value or b"").decode() for one in batch.records])
        return RecordedBatch(self, batch)

    def _said(self, offset: int) -> None:
        """Where it is was stored while it had no work."""
        op_id = self._recorder.writer.invoke(self._process, COMMITS)
        self._recorder.writer.ok(op_id, mops=[self._cursor(offset)])
        self._stored = offset

    def _may_have_said(self, offset: int) -> None:
        """The same, and nobody knows."""
        op_id = self._recorder.writer.invoke(self._recorder.process(), COMMITS)
        self._recorder.writer.mops(op_id, [self._cursor(offset)])
        self._recorder.writer.info(op_id, "it says so when it has no work")

    def _cursor(self, offset: int) -> Mop:
        return Mop("commit", self._recorder.source, offset, self.processor.producer, self.processor.run)

    def facts(self, batch: GivenBatch) -> list[Mop]:
        """Of a transaction, whatever comes of it."""
        source, group = self._recorder.source, self.processor.producer
        dealt = [Mop("source", source, one.offset, group) for one in batch.records]
        return [*dealt, self._cursor(batch.next)]

    async def commit(self, batch: GivenBatch, outputs: Sequence[Any]) -> int:
        """As `RecordedBatch.commit`. Who was replaced may have stored it: only the answer is lost then."""
        sink, facts = self._recorder.sink, self.facts(batch)
        texts = [_named(_value(output), self.processor.run) for output in outputs]
        perhaps = [Mop("send", sink, None, text) for text in texts]
        op_id, first = await self._doing(TRANSACTION, lambda: batch.commit(outputs), *facts, *perhaps)
        sent = [Mop("send", sink, first + place, text) for place, text in enumerate(texts)]
        self._recorder.writer.ok(op_id, mops=[*facts, *sent])
        self._stored = batch.next
        return first


class RecordedBatch:
    """Records of the input, and what becomes of them."""

    def __init__(self, processor: RecordedProcessor, batch: GivenBatch) -> None:
        self.records, self.next = batch.records, batch.next
        self._processor, self._batch = processor, batch

    async def commit(self, outputs: Sequence[Any]) -> int:
        """As the client's."""
        return await self._processor.commit(self._batch, outputs)


def _value(output: Any) -> bytes:
    """Of an output: bytes, or a record with a value."""
    return (output if isinstance(output, bytes) else output.value) or b""


def _named(value: bytes, run: int) -> str:
    """As the history has it."""
    return f"{value.decode()} of run {run}"


def _outputs(records: Sequence[Record]) -> Iterator[tuple[int, str]]:
    """Of records that are stored: offset and value, without those that only say how far a processor is. The
    first record of a message says which run sent it, and how many belong to it.
    """
    run, left = 0, 0
    for record in records:
        said = _RUN.search(record.headers)
        if said is not None:
            together = _RECORDS.search(record.headers)
            run, left = int(said[1]), 1 if together is None else int(together[1])
        if record.value:
            yield record.offset, _named(record.value, run) if left > 0 else record.value.decode()
        left -= 1
