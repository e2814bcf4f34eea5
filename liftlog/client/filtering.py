"""Which records of a partition a reader wants, by subject and key, and what it need not read (S1, S2).

The server sends what is wanted alone; a node of an earlier release, which cannot, sends everything, and so
each record is looked at here again. And where few have matched of what was looked at, the leader is asked for
the next match: its subject index passes over what would be looked at for nothing. That is a hint for speed
alone. Who has no index, or no time, or is of an earlier release, is not asked again for a while, or ever, and
everything is looked at.

A compacted stream is never passed over: its reader has to hear of deletions that were dropped (C4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from liftlog.client.errors import RequestFailed
from liftlog.client.reader import Reader
from liftlog.messages import KEYS_MAX, NEXT_MATCH
from liftlog.picking import RecordFilter
from liftlog.types import NO_OFFSET, LiftlogError, Record

PATIENCE_S = 2.0
"""For so long the leader is waited for that makes its index."""
PAUSE_FETCHES = 50
"""So many fetches are made before one is asked again that could not say."""
SELDOM = 8
"""Fewer than one in so many is few."""
BEHIND_JUMP_BYTES = 32 * 1024
"""So much is asked for at once where the next match is known to lie."""


class ReadingFilter:
    """Of one partition's reading. Raises PatternRefused for a pattern that means nothing, LiftlogError."""

    def __init__(self, pattern: str | None, keys: Sequence[str] = (), *, may_skip: bool = True) -> None:
        """Without a pattern: of all subjects; without keys: with any or none."""
        if len(keys) > KEYS_MAX:
            raise LiftlogError(f"{len(keys)} keys are too many for a reading: name at most {KEYS_MAX}")
        self.pattern = pattern
        self.subjects = [] if pattern is None else [pattern]
        self.keys = [key.encode() for key in keys]
        self._filter = RecordFilter(self.subjects, self.keys)
        self._may_skip = may_skip and pattern is not None
        self._pause = 0
        self._seldom = False
        """Of the last fetch few records matched, or none."""
        self.jumped = False
        """A match lies at the place that is read next, or nothing is committed there yet."""

    def pick(self, records: list[Record], looked: int = 0) -> list[Record]:
        """Those that match, of a fetch for which so many offsets were looked at."""
        wants = self._filter.wants
        found = [record for record in records if wants(record.subject, record.key)]
        self._seldom = len(found) * SELDOM < max(len(records), looked)
        return found

    async def place_behind(self, reader: Reader, offset: int) -> int:
        """Where to read next: nothing between `offset` and there matches."""
        self.jumped = False
        if not self._seldom or not self._may_skip or self.pattern is None:
            return offset
        if self._pause:
            self._pause -= 1
            return offset
        try:
            async with asyncio.timeout(PATIENCE_S):
                reply = await reader.ask_subjects(NEXT_MATCH, self.pattern, offset)
        except (LiftlogError, TimeoutError) as error:
            # What can be said later is asked for later, what cannot never.
            self._may_skip = isinstance(error, TimeoutError) or (
                isinstance(error, RequestFailed) and error.retryable
            )
            self._pause = PAUSE_FETCHES
            return offset
        if reply.log_start > offset:
            # What was to come next is gone; whoever reads there is told so.
            return offset
        self.jumped = True
        reader.has_seen(reply.epoch, reply.hw)
        return max(offset, reply.hw if reply.offset == NO_OFFSET else reply.offset)
