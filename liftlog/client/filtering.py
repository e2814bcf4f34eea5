"""Which records of a partition a reader wants, by subject, and what it need not read (S1).

Each record is looked at here. But where few have matched of the last fetch, the leader is asked for the
next match: its subject index passes over what would only be thrown away. That is a hint for speed alone. Who
has no index, or no time, or is of an earlier release, is not asked again for a while, or ever, and everything
is read.

A compacted stream is never passed over: its reader has to hear of deletions that were dropped (C4).
"""

from __future__ import annotations

import asyncio

from liftlog.client.errors import RequestFailed
from liftlog.client.reader import Reader
from liftlog.messages import NEXT_MATCH
from liftlog.subjects.grammar import pattern_tokens, tokens_match
from liftlog.types import NO_OFFSET, LiftlogError, Record

PATIENCE_S = 2.0
"""For so long the leader is waited for that makes its index."""
PAUSE_FETCHES = 50
"""So many fetches are made before one is asked again that could not say."""
SELDOM = 8
"""Fewer than one in so many is few."""
BEHIND_JUMP_BYTES = 32 * 1024
"""So much is asked for at once where the next match is known to lie."""


class SubjectFilter:
    """Of one partition's reading. Raises PatternRefused for a pattern that means nothing."""

    def __init__(self, pattern: str, *, may_skip: bool = True) -> None:
        self.pattern = pattern
        self._tokens = pattern_tokens(pattern)
        self._may_skip = may_skip
        self._known: dict[bytes, bool] = {}
        self._pause = 0
        self._seldom = False
        """Of the last fetch few records matched, or none."""
        self.jumped = False
        """A match lies at the place that is read next, or nothing is committed there yet."""

    def pick(self, records: list[Record]) -> list[Record]:
        """Those that match."""
        if len(self._known) > 4096:
            self._known.clear()
        found = [record for record in records if self._matches(record.subject)]
        self._seldom = len(found) * SELDOM < len(records)
        return found

    def _matches(self, subject: bytes) -> bool:
        known = self._known.get(subject)
        if known is None:
            words = subject.decode("utf-8", "surrogateescape").split(".")
            known = self._known[subject] = tokens_match(self._tokens, words)
        return known

    async def place_behind(self, reader: Reader, offset: int) -> int:
        """Where to read next: nothing between `offset` and there matches."""
        self.jumped = False
        if not self._seldom or not self._may_skip:
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
