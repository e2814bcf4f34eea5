"""Reading a partition: pull, over TCP, from a replica.

A reader remembers the greatest (epoch, HW) it has seen and sends it along; a replica that is behind makes it
wait or says "not ready", and the reader turns to another one (R3). It therefore never goes backward,
whichever servers it talks to. Batches arrive as they lie on disk; their checksums are verified here, at the
very end of the way. Those that do not verify are asked for again, this time to be verified by the server,
which so learns of the damage and answers from another copy or not at all (D2).

Compaction leaves holes: an offset may have no record, and where to go on (`position`) is not always behind
the last record. A reader that goes through a compacted stream from its front sees the last value of every
key; if deletions that it has not come to were dropped on its way, it is told to begin again (C4).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, TypeVar

from liftlog.api.spans import batches_of, filtered_batches_of
from liftlog.client.errors import NodeTooOld, RequestFailed, Unreachable
from liftlog.client.transport import Transport
from liftlog.format import CorruptBatch, decode_records, read_header
from liftlog.groups.streams import INTERNAL
from liftlog.messages import (
    ERR_NOT_ALLOWED,
    SUBJECTS_PAGE_MAX,
    ClientMessage,
    ClientReply,
    FilteredReadRequest,
    OffsetReply,
    OffsetRequest,
    ReadReply,
    ReadRequest,
    StreamInfo,
    SubjectReply,
    SubjectRequest,
    VisibleReadReply,
    VisibleReadRequest,
)
from liftlog.types import LiftlogError, PartitionId, Record

T = TypeVar("T")

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
NEW: Final = "new"
TIME: Final = "time"

RETRY_PAUSE_S = 0.1
ATTEMPT_TIMEOUT_S = 3.0
REFRESH_TIMEOUT_MS = 3000
INDEX_WAIT_MS = 2000
"""For so long a server waits for its subject index: less than an attempt takes, so that it says how far it
is."""


class ReadAnswer(NamedTuple):
    """What a server said beside the records of a `fetch`: its epoch, and its HW, which may be below what was
    seen of another one before it was asked. `epochs`: (epoch, first offset) of each batch, in order.
    """

    epoch: int
    hw: int
    epochs: tuple[tuple[int, int], ...]

    def epoch_of(self, offset: int) -> int:
        """Under which epoch a record of this answer was written."""
        return [epoch for epoch, first in self.epochs if first <= offset][-1]


class Reader:
    """Reads one partition. With `node` only from this replica; else from the leader, else from any other;
    with `spread` from a replica in sync that is drawn, else from the next.

    Every call ends within `timeout_ms` without progress, with a LiftlogError that says what the last problem
    was.
    """

    def __init__(
        self,
        transport: Transport,
        stream: StreamInfo,
        partition: int,
        node: int,
        timeout_ms: int,
        *,
        spread: bool = False,
    ) -> None:
        self._transport = transport
        self._stream = stream
        self._index = partition
        self._id = PartitionId(stream.id, partition)
        self._only = node
        self._spread = spread
        self._timeout_s = timeout_ms / 1000
        in_sync = len(stream.partitions[partition].isr)
        self._turn = random.randrange(in_sync) if spread and in_sync else 0
        self.seen_epoch = 0
        self.seen_hw = 0
        self.position = 0
        """Where to read next after the last `fetch`."""
        self.seen_journal = 0
        """R21: what was deleted below this offset of the partition's journal is not seen again; only where
        the stream's messages can be deleted."""
        self.answer: ReadAnswer | None = None
        """Of the last `fetch`."""
        self._minds_deletions = False
        self._seen_dropped = -1

    @property
    def partition(self) -> PartitionId:
        return self._id

    @property
    def is_internal(self) -> bool:
        """Whether its stream is one that the client library keeps something in."""
        return self._stream.config.name.startswith(INTERNAL)

    async def offset(self, what: str, timestamp_ms: int = 0) -> int:
        """Offset of EARLIEST, LATEST (HW - 1), NEW (HW) or TIME (first record at or after `timestamp_ms`).

        LATEST and NEW are answered by the leader alone (R3), whatever `node` this reader keeps to.
        """
        to_leader = what in (LATEST, NEW)
        reply = await self._call(OffsetRequest(self._id, what, timestamp_ms), to_leader)
        if not isinstance(reply, OffsetReply):
            raise LiftlogError(f"a server answered an offset request with {type(reply).__name__}")
        return reply.offset

    async def ask_subjects(
        self, what: str, pattern: str, offset: int = 0, *, index: int = 0, limit: int = SUBJECTS_PAGE_MAX
    ) -> SubjectReply:
        """S1: a question of the leader about subjects, see `SubjectRequest`. Raises RequestFailed, at once
        with code ERR_INDEX_RENEWED.
        """
        request = SubjectRequest(
            partition=self._id,
            what=what,
            pattern=pattern,
            offset=offset,
            limit=limit,
            index=index,
            wait_ms=max(1, min(INDEX_WAIT_MS, int(self._timeout_s * 1000) // 2)),
        )
        reply = await self.ask_leader(request, SubjectReply)
        self.has_heard(reply.journal)
        return reply

    async def ask_leader(self, request: ClientMessage, kind: type[T]) -> T:
        """What the partition's leader answers, of this kind. Raises RequestFailed, Unreachable."""
        reply = await self._call(request, True)
        if not isinstance(reply, kind):
            raise LiftlogError(f"a server answered {type(request).__name__} with {type(reply).__name__}")
        return reply

    def has_seen(self, epoch: int, hw: int) -> None:
        """R3: another answer of this partition has told these."""
        self.seen_epoch, self.seen_hw = max(self.seen_epoch, epoch), max(self.seen_hw, hw)

    def has_heard(self, journal: int) -> None:
        """Somebody was told of deletions up to this offset of the partition's journal."""
        self.seen_journal = max(self.seen_journal, journal)

    def mind_deletions(self) -> None:
        """From here on this reader keeps what it sees, so it must miss no deletion.

        For readers from the front. `fetch` raises RequestFailed with code ERR_COMPACTED if it might (C4).
        A stream that is not compacted drops none, but may be altered while it is read (R19).
        """
        self._minds_deletions = True
        self._seen_dropped = -1

    async def fetch(
        self,
        offset: int,
        *,
        max_bytes: int = 1024 * 1024,
        wait_ms: int = 500,
        subjects: Sequence[str] = (),
        keys: Sequence[bytes] = (),
    ) -> list[Record]:
        """Committed records from `offset` on; go on at `position`.

        Empty if none came within `wait_ms`, or where there are none: then `position` has moved all the same.
        With `subjects` or `keys` those alone that match are sent (S2); but a node of an earlier release sends
        others, too.
        """
        for verify in (False, True):
            request = self._request(offset, max_bytes, wait_ms, verify)
            try:
                if subjects or keys:
                    try:
                        return await self._fetch_filtered(request, subjects, keys)
                    except NodeTooOld:
                        pass
                return await self._fetch(request)
            except CorruptBatch as error:
                problem = str(error)
        raise LiftlogError(f"partition {self._id}: a server sent a damaged batch, twice: {problem}")

    async def _fetch_filtered(
        self, request: ReadRequest, subjects: Sequence[str], keys: Sequence[bytes]
    ) -> list[Record]:
        """S2: the server has looked further than to the last batch. Raises NodeTooOld, CorruptBatch."""
        fields = {name: getattr(request, name) for name in request.__struct_fields__}
        fields["seen_journal"] = self.seen_journal
        asked = FilteredReadRequest(**fields, subjects=list(subjects), keys=list(keys))
        reply = await self._call(asked, False)
        if not isinstance(reply, VisibleReadReply):
            raise LiftlogError(f"a server answered a filtered read with {type(reply).__name__}")
        offset = request.offset
        records: list[Record] = []
        epochs: list[tuple[int, int]] = []
        for batch in filtered_batches_of(reply):
            records += decode_records(batch)
            epochs.append((batch.epoch, batch.base_offset))
        self._has_answered(reply, epochs)
        self.position = min(max(reply.next_offset, offset), max(reply.hw, offset))
        return [record for record in records if offset <= record.offset < self.position]

    def _request(self, offset: int, max_bytes: int, wait_ms: int, verify: bool) -> ReadRequest:
        request = ReadRequest(
            partition=self._id,
            offset=offset,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            seen_epoch=self.seen_epoch,
            seen_hw=self.seen_hw,
            seen_dropped=self._seen_dropped,
            verify=verify,
        )
        if self._stream.config.has_journal:
            fields = {name: getattr(request, name) for name in request.__struct_fields__}
            request = VisibleReadRequest(**fields, seen_journal=self.seen_journal)
        return request

    async def _fetch(self, request: ReadRequest) -> list[Record]:
        """What is good before a damaged batch. Raises CorruptBatch if the first one is damaged."""
        offset = request.offset
        reply = await self._call(request, False)
        if not isinstance(reply, ReadReply):
            raise LiftlogError(f"a server answered a read with {type(reply).__name__}")
        records: list[Record] = []
        epochs: list[tuple[int, int]] = []
        expected = offset
        try:
            for batch in batches_of(reply, offset):
                if batch.end_offset > expected:
                    # What the system writes for itself is nobody's message.
                    records += [] if read_header(batch.data).control else decode_records(batch)
                    epochs.append((batch.epoch, batch.base_offset))
                    expected = batch.end_offset
        except CorruptBatch:
            if expected == offset:
                raise
        self._has_answered(reply, epochs)
        self.position = min(expected, max(reply.hw, offset))
        return [record for record in records if offset <= record.offset < self.position]

    def _has_answered(self, reply: ReadReply, epochs: Sequence[tuple[int, int]]) -> None:
        """R3, R21, C4: what the next request says to have been seen."""
        self.answer = ReadAnswer(reply.epoch, reply.hw, tuple(epochs))
        self.seen_epoch = max(self.seen_epoch, reply.epoch)
        self.seen_hw = max(self.seen_hw, reply.hw)
        if isinstance(reply, VisibleReadReply):
            self.seen_journal = max(self.seen_journal, reply.journal)
        if self._minds_deletions and self._seen_dropped < 0:
            self._seen_dropped = reply.dropped_below

    async def records(self, start: str | int, *, follow: bool = False) -> AsyncIterator[Record]:
        """Records from `start` (EARLIEST, LATEST, NEW or an offset) to the present end; for ever if
        `follow`."""
        end = await self.offset(NEW) if not follow else None
        if start in (EARLIEST, 0):
            self.mind_deletions()
        offset = start if isinstance(start, int) else await self.offset(start)
        while end is None or offset < end:
            for record in await self.fetch(offset):
                if end is not None and record.offset >= end:
                    return
                yield record
            offset = self.position

    # -- which server --------------------------------------------------------------------------------------

    async def _call(self, request: ClientMessage, to_leader: bool) -> ClientReply:
        """Ask the right server; turn to the next one on errors that allow it, until the time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        hint = 0
        while True:
            node, followed = hint or self._choose(to_leader), bool(hint)
            hint, found = 0, True
            try:
                address = await self._address(node)
                left_s = min(max(0.05, deadline - loop.time()), ATTEMPT_TIMEOUT_S)
                return await self._transport.call(node, address, request, left_s)
            except RequestFailed as error:
                if error.code == ERR_NOT_ALLOWED:
                    # The node says the stream's number alone, since not everybody may hear its name.
                    raise RequestFailed(error.code, f"'{self._stream.config.name}': {error}") from None
                if not error.retryable or loop.time() + RETRY_PAUSE_S > deadline:
                    raise
                stuck = self._only and not to_leader
                # A word about who leads is followed at once, but not from one to the next: two may name each
                # other until they hear of the third.
                hint = error.leader if not stuck and not followed and error.leader != node else 0
            except Unreachable:
                if loop.time() + RETRY_PAUSE_S > deadline:
                    raise
                found = False
            self._turn += 1
            if not hint:
                await asyncio.sleep(RETRY_PAUSE_S)
                await self._refresh(found)

    def _choose(self, to_leader: bool) -> int:
        """The node to ask: the given one; else the leader first, then the others in turn; or, if reads are to
        be spread, those in sync first, from one that was drawn on.
        """
        record = self._stream.partitions[self._index]
        if self._only and not to_leader:
            if self._only not in record.replicas:
                where = f"partition {self._index} of '{self._stream.config.name}'"
                replicas = ", ".join(map(str, record.replicas))
                raise LiftlogError(f"node {self._only} holds no copy of {where}; its replicas: {replicas}")
            return self._only
        if self._spread and not to_leader:
            # Who is not in sync serves what is committed as well, as far as it has come.
            candidates = record.isr + [node for node in record.replicas if node not in record.isr]
            return candidates[self._turn % len(candidates)]
        candidates = [record.leader] if record.leader else []
        if not to_leader or not candidates:
            candidates += [node for node in record.replicas if node != record.leader]
        return candidates[self._turn % len(candidates)]

    async def _address(self, node: int) -> str:
        addresses = await self._transport.addresses()
        if node not in addresses:
            addresses = await self._transport.addresses(refresh=True)
        if node not in addresses:
            raise Unreachable(f"the cluster knows no address of node {node}")
        return addresses[node]

    async def _refresh(self, found: bool) -> None:
        """Learn who leads now, and where the nodes are if one was not `found` where it should be: it may have
        come back at another address. If nobody can say, go on with what we know.
        """
        try:
            stream = await self._transport.stream(self._stream.config.name, timeout_ms=REFRESH_TIMEOUT_MS)
            if not found:
                await self._transport.addresses(refresh=True, timeout_ms=REFRESH_TIMEOUT_MS)
        except Unreachable:
            return
        except RequestFailed as error:
            if error.retryable:
                return
            raise
        if stream.id != self._stream.id:
            raise LiftlogError(
                f"stream '{stream.config.name}' was deleted and created anew; open a new reader"
            )
        self._stream = stream
