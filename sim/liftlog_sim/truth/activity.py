"""The truth about activity streams (N12).

    ActivityInOrder    what is committed in an activity stream is what the metadata group has done; before
                       each event stands the one before it, or that some are missing; what comes again begins
                       where an epoch does
    TrimmedIsTold      what has left the outbox is committed in the stream, or is told there to be missing
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import msgspec

from liftlog.core.metadata.activity import EVENTS_MISSING
from liftlog.core.metadata.metadata import Metadata
from liftlog.types import PartitionId
from liftlog_sim.truth.invariants import PartitionTruth, Violation


class ActivityTruth:
    """Of one activity stream: what is to be told in it, and what is."""

    def __init__(self, stream: int, counts: dict[str, int]) -> None:
        self.stream = stream
        self._counts = counts
        self._ids: list[int] = []
        self._kinds: dict[int, str] = {}
        self._told = 0
        """All up to this event is told, in what is committed, or told to be missing."""
        self._last = 0
        """The number of the last record that is committed."""

    def happened(self, metadata: Metadata) -> None:
        """A command was applied. Raises Violation(TrimmedIsTold)."""
        outbox = metadata.outbox
        self._counts["TrimmedIsTold"] = self._counts.get("TrimmedIsTold", 0) + 1
        if outbox.events and outbox.events[-1].id == metadata.applied:
            event = outbox.events[-1]
            self._ids.append(event.id)
            self._kinds[event.id] = event.event
        if self._ids and self._ids[0] <= outbox.trimmed and outbox.trimmed > self._told:
            raise Violation(
                "TrimmedIsTold",
                f"what has happened up to {outbox.trimmed} has left the outbox, and stream {self.stream} "
                f"tells what has up to {self._told}",
            )

    def grown(self, truth: PartitionTruth, before: int) -> None:
        """More of the stream is committed than what lies below offset `before`. Raises
        Violation(ActivityInOrder).
        """
        contents = truth.contents
        for offset in range(before, truth.hw):
            record = contents.committed[offset]
            if record is None:
                continue
            problem = self._problem(record.value or b"", offset == 0 or _begins(contents.epochs, offset))
            if problem:
                raise Violation("ActivityInOrder", f"partition {truth.id}: offset {offset} {problem}")

    def _problem(self, value: bytes, begins: bool) -> str:
        """What is wrong with the record that comes next; empty if nothing is."""
        try:
            body: dict[str, Any] = msgspec.json.decode(value)
            number, kind = body["id"], body["event"]
        except (msgspec.DecodeError, KeyError, TypeError):
            return f"holds {value!r}, which is no event"
        if self._kinds.get(number) != kind and not (kind == EVENTS_MISSING and number in self._kinds):
            return f"tells {kind} {number}, which the group has not done"
        if number <= self._last and not begins:
            return f"tells {kind} {number} behind {self._last}, in one epoch"
        self._last = number
        if kind != EVENTS_MISSING:
            place = bisect_left(self._ids, number)
            former = self._ids[place - 1] if place else 0
            if former > self._told:
                return f"tells {kind} {number}, and {self._kinds[former]} {former} before it is not told"
        self._told = max(self._told, number)
        return ""

    def lacks(self) -> str:
        """What is not told yet; empty if all is."""
        if not self._ids or self._ids[-1] <= self._told:
            return ""
        return f"activity stream {self.stream} tells what has happened up to {self._told} of {self._ids[-1]}"


def _begins(epochs: list[int], offset: int) -> bool:
    return epochs[offset] != epochs[offset - 1]


def is_data(partition: PartitionId, known: dict[int, ActivityTruth]) -> bool:
    """Whether a partition is an activity stream's."""
    return not partition.is_journal and partition.stream in known
