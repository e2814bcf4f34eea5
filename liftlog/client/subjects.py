"""Questions about the subjects of a stream, which the leaders of its partitions answer from an index (S1).

An answer knows everything that was acknowledged when it was asked for. The first question about a partition
has its leader make the index, which takes time in a long log; the client asks again until `timeout_ms` is up.
"""

from __future__ import annotations

from typing import Protocol

from liftlog.client.errors import RequestFailed
from liftlog.client.reader import Reader
from liftlog.client.reading import PartitionRecord
from liftlog.messages import (
    ERR_INDEX_RENEWED,
    ERR_OFFSET_RANGE,
    LAST_OF_SUBJECT,
    MATCHING_SUBJECTS,
    NEXT_MATCH,
    StreamInfo,
)
from liftlog.types import NO_OFFSET, LiftlogError, Record

FETCH_BYTES = 1024
"""A fetch brings the batch in which a record stands, and no more."""
ROUNDS_MAX = 16
"""How often one call begins anew since what it was told is gone by now."""


class StreamAsker(Protocol):
    """What is asked with: the client."""

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo: ...

    def reader(
        self, stream: StreamInfo, partition: int, *, node: int = 0, spread: bool = False, timeout_ms: int = 0
    ) -> Reader: ...


class AsksSubjects:
    """A client's questions about subjects. All raise LiftlogError, RequestFailed, Unreachable."""

    async def last(
        self: StreamAsker, stream: str | StreamInfo, subject: str, *, timeout_ms: int = 0
    ) -> PartitionRecord | None:
        """The last record with exactly this subject; None: there is none. If several partitions have some,
        the one with the greatest timestamp, which only clocks have set.
        """
        found: PartitionRecord | None = None
        for index, reader in await _readers(self, stream, None, timeout_ms):
            record = await _found(reader, LAST_OF_SUBJECT, subject, 0, reader.is_internal)
            if record is not None and (found is None or record.timestamp_ms > found.record.timestamp_ms):
                found = PartitionRecord(index, record)
        return found

    async def next_matching(
        self: StreamAsker,
        stream: str | StreamInfo,
        filter: str,
        offset: int = 0,
        partition: int = 0,
        *,
        timeout_ms: int = 0,
    ) -> PartitionRecord | None:
        """The next record of one partition, at `offset` or above, whose subject the filter matches; None: so
        far there is none. From the offset behind it the next one is found in the same way.
        """
        ((index, reader),) = await _readers(self, stream, partition, timeout_ms)
        record = await _found(reader, NEXT_MATCH, filter, offset)
        return None if record is None else PartitionRecord(index, record)

    async def subjects(
        self: StreamAsker,
        stream: str | StreamInfo,
        filter: str = ">",
        partition: int | None = None,
        *,
        timeout_ms: int = 0,
    ) -> dict[bytes, int]:
        """The subjects that a filter matches, each with the number of its records, of all partitions or of
        one. Each partition is counted at a moment of its own. All of it is held in memory.
        """
        counts: dict[bytes, int] = {}
        for _, reader in await _readers(self, stream, partition, timeout_ms):
            for subject, count in (await _counted(reader, filter)).items():
                counts[subject] = counts.get(subject, 0) + count
        return counts


async def _readers(
    client: StreamAsker, stream: str | StreamInfo, partition: int | None, timeout_ms: int
) -> list[tuple[int, Reader]]:
    """One for each partition that is asked. Raises LiftlogError for one that the stream does not have."""
    info = stream if isinstance(stream, StreamInfo) else await client.stream(stream, timeout_ms)
    there = len(info.partitions)
    if partition is not None and not 0 <= partition < there:
        name = info.config.name
        raise LiftlogError(f"stream '{name}' has partitions 0 to {there - 1}, not {partition}")
    chosen = range(there) if partition is None else [partition]
    return [(index, client.reader(info, index, timeout_ms=timeout_ms)) for index in chosen]


async def _found(
    reader: Reader, what: str, pattern: str, offset: int, alone: bool = False
) -> Record | None:
    """The record that an answer names. It may be gone when it is read: then the question is asked again.

    `alone`: nothing else of its batch is asked for, which a client may not see that has a group's right to it
    (V9).
    """
    for _ in range(ROUNDS_MAX):
        reply = await reader.ask_subjects(what, pattern, offset)
        if reply.offset == NO_OFFSET:
            return None
        try:
            wanted = [pattern] if alone else []
            records = await reader.fetch(reply.offset, max_bytes=FETCH_BYTES, subjects=wanted)
        except RequestFailed as error:
            if error.code != ERR_OFFSET_RANGE:
                raise
            continue
        if records and records[0].offset == reply.offset:
            return records[0]
    raise LiftlogError(
        f"partition {reader.partition}: what is found for {pattern!r} is removed before it is read, again "
        "and again; does retention keep too little?"
    )


async def _counted(reader: Reader, filter: str) -> dict[bytes, int]:
    """All pages of one index."""
    for _ in range(ROUNDS_MAX):
        counts: dict[bytes, int] = {}
        place = index = 0
        try:
            while place != NO_OFFSET:
                reply = await reader.ask_subjects(MATCHING_SUBJECTS, filter, place, index=index)
                for subject, count in reply.subjects:
                    # One that was counted on an earlier page has had messages since: the first count stays.
                    counts.setdefault(subject, count)
                place, index = reply.place, reply.index
            return counts
        except RequestFailed as error:
            if error.code != ERR_INDEX_RENEWED:
                raise
    raise LiftlogError(
        f"partition {reader.partition}: its subject index is made anew again and again; has the node too "
        "little memory for it (index_memory_bytes)?"
    )
