"""The truth about interest (R27): which messages some consumer is to be given, by the committed journal.

    InterestHolds   when all is healed nothing is left that no consumer wants

What goes though a consumer wants it is found by NothingElseGone.
"""

from __future__ import annotations

from collections.abc import Collection

from liftlog.core.consumers.state import Consumer, Consumers
from liftlog.subjects.grammar import matches
from liftlog_sim.truth.invariants import PartitionTruth


class WantedMessages:
    """Of one partition, by the entries that were taken so far. Where copies think that consumers stand is
    judged elsewhere (SameConsumerState).
    """

    __slots__ = ("_consumers", "_data")

    def __init__(self, data: PartitionTruth) -> None:
        self._data = data
        self._consumers = Consumers()

    def take(self, offset: int, entry: bytes) -> None:
        """A committed entry about a consumer."""
        self._consumers.take(offset, entry)

    def by(self, offset: int) -> str:
        """The name of a consumer that wants this one; empty if nobody does."""
        there = self._consumers.by_name.values()
        return next((one.name for one in there if self._wants(one, offset)), "")

    def _wants(self, one: Consumer, offset: int) -> bool:
        if offset < one.position:
            return offset in one.pending
        if offset < one.since:
            return offset in one.lasts
        record = self._data.contents.committed[offset]
        subject = record.subject.decode() if record is not None else ""
        patterns = one.config.patterns
        return record is not None and (not patterns or any(matches(each, subject) for each in patterns))

    def unwanted(self, start: int, gone: Collection[int]) -> list[int]:
        """What is there from `start` on, and wanted by nobody."""
        there = [offset for offset in range(start, self._data.hw) if offset not in gone]
        return [offset for offset in there if not self.by(offset)]
