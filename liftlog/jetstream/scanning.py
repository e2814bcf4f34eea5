"""Reading on through a stream, and counting in it: what one question of the index brings, and one fetch.

Answers know everything that was acknowledged when they were asked for, as those of the subject index (S1).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from liftlog.client.client import Client
from liftlog.client.errors import RequestFailed
from liftlog.client.filtering import ReadingFilter
from liftlog.client.reader import Reader
from liftlog.messages import ERR_OFFSET_RANGE, MATCHING_SUBJECTS, NEXT_MATCH, StreamInfo
from liftlog.types import NO_OFFSET, PartitionId, Record

TO_THE_END = sys.maxsize
ALL_SUBJECTS = ">"
ROUNDS_MAX = 16
"""How often a reading begins anew since what comes next is gone by now."""
COUNTED_MAX = 10_000
"""Streams whose subjects are remembered."""
FIRST_BYTES = 32 * 1024
MOST_BYTES = 1024 * 1024
"""The first fetch brings little, for most questions are about few messages; each other one twice as much."""


async def matching(
    reader: Reader, pattern: str, first: int = 1, last: int = TO_THE_END
) -> AsyncGenerator[Record, None]:
    """The messages of these sequences, both ends included, that a filter matches. Close it if it is left
    before its end. Raises LiftlogError, RequestFailed, Unreachable.
    """
    wanted = ReadingFilter(pattern)
    # What has all messages is read as a whole: those that match are not looked for (S2).
    named = () if pattern == ALL_SUBJECTS else wanted.subjects
    offset, end, size = first - 1, last, FIRST_BYTES
    for left in reversed(range(ROUNDS_MAX)):
        reply = await reader.ask_subjects(NEXT_MATCH, pattern, offset)
        reader.has_seen(reply.epoch, reply.hw)
        if reply.offset == NO_OFFSET:
            return
        offset, end = max(offset, reply.offset), min(end, reply.hw)
        try:
            while offset < end:
                records = await reader.fetch(offset, max_bytes=size, subjects=named)
                position = reader.position
                for record in wanted.pick(records, position - offset):
                    if record.offset >= end:
                        return
                    offset = record.offset + 1
                    yield record
                size = min(2 * size, MOST_BYTES)
                offset = await wanted.place_behind(reader, position)
            return
        except RequestFailed as error:
            if error.code != ERR_OFFSET_RANGE or not left:
                raise


async def count_from(reader: Reader, pattern: str, seq: int) -> int:
    """How many messages from a sequence on a filter matches: of all that the index counts, without those
    below; or those above, if there are fewer to look at.
    """
    told = await reader.ask_subjects(MATCHING_SUBJECTS, pattern, limit=1)
    below, above = seq - 1 - told.log_start, told.hw - seq + 1
    if below <= 0 or not told.messages:
        return told.messages
    if above <= below:
        return await _counted(reader, pattern, seq, TO_THE_END)
    return told.messages - await _counted(reader, pattern, 1, seq - 1)


async def _counted(reader: Reader, pattern: str, first: int, last: int) -> int:
    count = 0
    async with aclosing(matching(reader, pattern, first, last)) as found:
        async for _ in found:
            count += 1
    return count


class StreamTotals(NamedTuple):
    """What is in a stream at one moment: `messages` at offsets [log_start, hw), of so many `subjects`; `size`
    in bytes; `behind`: how many messages of its sources are to come, by those of which its leader hears.
    """

    messages: int
    subjects: int
    log_start: int
    hw: int
    size: int
    behind: dict[str, int]


class CountedStreams:
    """How many subjects streams have, which takes a list of all: it is kept as long as nothing changes."""

    def __init__(self) -> None:
        self._subjects: dict[PartitionId, tuple[tuple[int, ...], int]] = {}

    async def totals(self, client: Client, info: StreamInfo) -> StreamTotals:
        """Raises LiftlogError, RequestFailed, Unreachable."""
        reader = client.reader(info, 0)
        told = await reader.ask_subjects(MATCHING_SUBJECTS, ">", limit=1)
        # What there is is a function of these, and each only grows as long as the index is the same.
        moment = told.epoch, told.hw, told.log_start, told.journal, told.index
        known = self._subjects.get(reader.partition)
        if known is None or known[0] != moment:
            if len(self._subjects) >= COUNTED_MAX:
                self._subjects.clear()
            known = self._subjects[reader.partition] = moment, len(await client.subjects(info))
        # All but the subjects is of one moment: a list of them may be of a later one.
        return StreamTotals(
            messages=told.messages,
            subjects=known[1],
            log_start=told.log_start,
            hw=told.hw,
            size=told.size,
            behind=dict(told.behind),
        )
