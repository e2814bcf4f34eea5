"""Processing exactly once: outputs, and how far the input is done, are stored together or not at all (L10).

    async with client.processor("totals", source="orders", sink="totals", begin=0) as processor:
        async for batch in processor:
            await batch.commit([total_of(record) for record in batch.records])

A processor has a name, one partition that it reads, and one to which `sink` belongs. To begin it opens a run,
which ends the one before, and is told where that had come to. It has one message on its way, and sends that
again until there is an answer: leaders store it once. Whoever opens a later run replaces this process, which
hears of it when it commits: `ProcessorFenced`.

The stream of the outputs remembers for the length of its window (`dedupe_window_ms`). A processor without
work says each third of that where it is, with a record that has no value.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, TypeVar

import nats.errors
from nats.aio.client import Client as NatsConnection

from liftlog.bounds import PRODUCER_BYTES_MAX
from liftlog.client.batches import BatchRecord, batch_message
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.producing import begin_run
from liftlog.client.progress import OnProgress, ProgressTeller, ReadingProgress
from liftlog.client.publisher import FULL_ACK
from liftlog.client.reader import Reader
from liftlog.client.reading import ReadingOwner
from liftlog.messages import ERR_CURSOR, ERR_FENCED, ERR_NO_CURSOR, ERR_NOT_DUE
from liftlog.subjects.grammar import publish_problem
from liftlog.types import LiftlogError, Record

T = TypeVar("T")

AGAIN_S, PAUSE_S = 1.0, 0.1
"""For so long a message waits for an answer, and after a refusal, until it is sent again."""
PATIENCE_MS = 60_000
RECORDS_MAX = 500
FETCH_BYTES = 1024 * 1024
WAIT_MS = 500
_NO_OUTPUT = b"liftlog-cursor:"


class ProcessorFenced(LiftlogError):
    """Another process has opened a later run, `newest_run`, or the run is not known any more (-1): what this
    one has not committed, it must not. End it, or open a processor anew, which goes on from the last commit.
    """

    def __init__(self, text: str, newest_run: int) -> None:
        super().__init__(text)
        self.newest_run = newest_run


class ProcessorUnknown(LiftlogError):
    """Nothing is known of this processor, and it was not said where to begin: see `begin`."""


class ProcessedBatch:
    """Records of the input, and what becomes of them. `next`: the offset that is next when it is done."""

    __slots__ = ("_processor", "next", "records")

    def __init__(self, processor: StreamProcessor, records: list[Record], next: int) -> None:
        self._processor = processor
        self.records = records
        self.next = next

    async def commit(self, outputs: Sequence[BatchRecord | bytes]) -> int:
        """Store these outputs, at most 1,000, perhaps none, and that all records up to here are done. Returns
        the offset of the first record that was stored.

        Raises ProcessorFenced: another process goes on, behind these outputs if they were stored and only the
        answer is lost; Unreachable, if nobody says in time whether they are: open the processor anew, which
        knows; LiftlogError for what cannot be stored.
        """
        return await self._processor.commit(self, outputs)


class _Answer(NamedTuple):
    """What a leader says of a message that is stored. `cursor`: where the run begins that it opened."""

    stream: str
    offset: int
    cursor: int | None


class ProcessorOwner(ReadingOwner, Protocol):
    """What a processor uses: the client."""

    nats: NatsConnection


class StreamProcessor:
    """One run of a processor: use as an async context manager, and iterate over it."""

    def __init__(
        self,
        client: ProcessorOwner,
        name: str,
        source: str,
        sink: str,
        *,
        partition: int = 0,
        begin: int | None = None,
        records_max: int = RECORDS_MAX,
        patience_ms: int = PATIENCE_MS,
        on_progress: OnProgress | None = None,
    ) -> None:
        """As of `RunsProcessors.processor`."""
        if problem := publish_problem(sink):
            raise LiftlogError(f"sink {sink!r} cannot be published to: {problem}")
        self.producer = f"{name}/{source}/{partition}"
        size = len(self.producer.encode())
        if not name or not name.isprintable() or name != name.strip() or size > PRODUCER_BYTES_MAX:
            raise LiftlogError(
                f"processor name {name[:64]!r} cannot be used: printable text, trimmed, and with the input's "
                f"name at most {PRODUCER_BYTES_MAX} bytes"
            )
        if records_max < 1 or (begin is not None and begin < 0):
            raise LiftlogError("records_max is at least 1, and begin an offset: 0 or more")
        self._client = client
        self._source, self._partition, self._sink = source, partition, sink
        self._begin = begin
        self._records_max = records_max
        self._patience_s = patience_ms / 1000
        self._progress = ProgressTeller(on_progress)
        self.run = begin_run(0)
        self.position = -1
        """The offset of the input that is next, as it is stored."""
        self.stream = ""
        """The stream that stores the outputs."""
        self._input = 0
        self._sequence = 0
        self._reader: Reader | None = None
        self._read_to = 0
        self._unread: list[Record] = []
        self._open: ProcessedBatch | None = None
        """Given out, and not committed."""
        self._ended = ""
        """Why nothing more may be stored: nobody knows whether the last message is."""
        self._said_s = 0.0
        self._say_again_s = 0.0

    async def __aenter__(self) -> StreamProcessor:
        """Open a run. Raises ProcessorUnknown, Unreachable, RequestFailed, LiftlogError."""
        info = await self._client.stream(self._source)
        self._reader = self._client.reader(info, self._partition)
        self._input = info.id
        where = "" if self._begin is None else f"/{self._begin}"
        while True:
            try:
                answer = await self._exchange(b"", {"Liftlog-Open": "1"}, where)
                break
            except ProcessorFenced as fenced:
                if fenced.newest_run <= self.run:
                    raise
                # The clock is behind, or another one begins now: no output of this run is stored.
                self._ended = ""
                self.run = begin_run(fenced.newest_run)
        if answer.cursor is None:
            raise LiftlogError(f"the leader of {self._sink!r} does not say where a run begins: upgrade it")
        self.position = self._read_to = answer.cursor
        self.stream = answer.stream
        window_ms = (await self._client.stream(self.stream)).config.remembers_ms
        self._say_again_s = window_ms / 3000
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is to be undone: what is not committed is not stored."""

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def read_to(self) -> int:
        """All of the input below this offset was read; without work it stores that. -1: it is not open."""
        return -1 if self._reader is None else self._read_to

    def __aiter__(self) -> StreamProcessor:
        return self

    async def __anext__(self) -> ProcessedBatch:
        """Records that come next, as soon as there are any; never the end. Raises RequestFailed, with code
        "offset-out-of-range" if retention has taken what was not done; ProcessorFenced; LiftlogError.
        """
        if self._reader is None:
            raise LiftlogError("this processor is not open: use it as 'async with client.processor(...)'")
        if self._open is not None:
            raise LiftlogError(
                f"the records from {self.position} on are not committed: commit() them, without outputs if "
                "nothing comes of them"
            )
        while not self._unread:
            await self._say_where()
            found = await self._reader.fetch(self._read_to, max_bytes=FETCH_BYTES, wait_ms=WAIT_MS)
            self._read_to = self._reader.position
            self._unread = [record for record in found if not is_without_output(record)]
        records = self._unread[: self._records_max]
        del self._unread[: self._records_max]
        batch = ProcessedBatch(self, records, records[-1].offset + 1 if self._unread else self._read_to)
        self._open = batch
        return batch

    async def _say_where(self) -> None:
        """Be remembered, though there is nothing to be done."""
        if asyncio.get_running_loop().time() >= self._said_s + self._say_again_s:
            await self._store([], max(self.position, self._read_to))

    # -- storing -------------------------------------------------------------------------------------------

    async def commit(self, batch: ProcessedBatch, outputs: Sequence[BatchRecord | bytes]) -> int:
        """As of `ProcessedBatch.commit`."""
        if batch is not self._open:
            raise LiftlogError(f"the records up to {batch.next} are committed: a batch has one commit")
        offset = await self._store(outputs, batch.next)
        self._open = None
        if self._reader is not None:
            place, end = (self._source, self._partition), self._reader.seen_hw
            self._progress.tell([ReadingProgress(*place, batch.next, end)])
        return offset

    async def _store(self, outputs: Sequence[BatchRecord | bytes], position: int) -> int:
        value, headers = batch_message(outputs) if outputs else (b"", {})
        answer = await self._exchange(value, headers, f"/{position}")
        if answer.stream != self.stream:
            raise LiftlogError(f"streams {self.stream!r} and {answer.stream!r} both answer on {self._sink!r}")
        self.position = position
        return answer.offset

    async def _exchange(self, value: bytes, headers: dict[str, str], where: str) -> _Answer:
        """Send the message that is next until it is known to be stored."""
        if self._ended:
            raise LiftlogError(self._ended)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._patience_s
        wanted = {
            **FULL_ACK,
            **headers,
            "Liftlog-Producer": self.producer,
            "Liftlog-Run": str(self.run),
            "Liftlog-Sequence": str(self._sequence),
            "Liftlog-Cursor": f"{self._input}/{self._partition}{where}",
        }
        last = "no answer in time"
        # Its number is not given to another message, unless this one is refused.
        self._ended = f"it is unknown whether the last commit of {self.producer!r} is stored: open it anew"
        while True:
            try:
                message = await self._client.nats.request(self._sink, value, timeout=AGAIN_S, headers=wanted)
                answer, last = self._read_answer(message.data)
                if answer is not None:
                    self._ended = ""
                    self._sequence += 1
                    self._said_s = loop.time()
                    return answer
            except nats.errors.NoRespondersError:
                last = f"no stream listens on {self._sink!r}"
            except nats.errors.MaxPayloadError:
                limit = self._client.nats.max_payload
                self._ended = ""
                text = f"these outputs exceed the NATS server's limit of {limit} bytes"
                raise LiftlogError(f"{text}: commit fewer at once, by a lower records_max") from None
            except (TimeoutError, nats.errors.Error) as error:
                last = str(error) or last
            if loop.time() + PAUSE_S > deadline_s:
                raise Unreachable(
                    f"nobody says whether {self.producer!r} is stored up to here ({last}): open it anew"
                )
            await asyncio.sleep(PAUSE_S)

    def _read_answer(self, data: bytes) -> tuple[_Answer | None, str]:
        """The answer if it is stored, or why it is to be sent again. Raises ProcessorFenced,
        ProcessorUnknown, RequestFailed.
        """
        try:
            body = json.loads(data)
            if "error" not in body:
                return _Answer(str(body["stream"]), int(body["offset"]), body.get("cursor")), ""
            text, ours = str(body["error"]["description"]), body.get("liftlog", {})
            code, newest_run = str(ours.get("code", "")), int(ours.get("newest_run", -1))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None, f"an answer that is not liftlog's: {data[:100]!r}"
        if code in (ERR_FENCED, ERR_NOT_DUE):
            raise ProcessorFenced(text, newest_run)
        if code == ERR_NO_CURSOR:
            raise ProcessorUnknown(text)
        if code == ERR_CURSOR or ours.get("outcome") == "fail":
            self._ended = ""
            raise RequestFailed(code, text)
        return None, text


def is_without_output(record: Record) -> bool:
    """Whether a processor has stored this record only to say where it is (L10)."""
    return not record.value and record.key is None and _NO_OUTPUT in record.headers.lower()


class RunsProcessors:
    """A client's way to processors."""

    def processor(
        self: ProcessorOwner,
        name: str,
        *,
        source: str,
        sink: str,
        partition: int = 0,
        begin: int | None = None,
        records_max: int = RECORDS_MAX,
        patience_ms: int = PATIENCE_MS,
        on_progress: OnProgress | None = None,
    ) -> StreamProcessor:
        """A processor of this name, which reads a partition of the stream `source` and stores its outputs on
        subjects of the partition that `sink`, a subject, belongs to. See `liftlog.client.processing`.

        `begin`: the offset of the source to begin with if nothing is known of the processor: it never began,
        or was silent for longer than the outputs' stream remembers; without it that is an error.
        `records_max`: so many records it gives out at once. `patience_ms`: for so long it tries to store.
        `on_progress` is called with a `ReadingProgress` of the input when a batch is committed.
        Raises LiftlogError for what cannot be one.
        """
        return StreamProcessor(
            self,
            name,
            source,
            sink,
            partition=partition,
            begin=begin,
            records_max=records_max,
            patience_ms=patience_ms,
            on_progress=on_progress,
        )
