"""The truth about work queues (R26): what their consumers are done with, by the committed journal.

    WorkQueueHolds   what an entry says to be acked or terminated is gone to who knows the journal up to where
                     an ack of it is answered, and when all is healed; and no two consumers that are there may
                     be given the same message
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from liftlog.core.consumers.entries import ACKED, TERMINATED, Done, decode_entry
from liftlog.core.replica.removal.entries import Named
from liftlog.messages import ConsumerConfig, offsets_of
from liftlog.subjects.grammar import overlap
from liftlog.types import NUMBER_MAX
from liftlog_sim.truth.invariants import PartitionTruth, Violation, epoch_at

EVERY = (">",)


class DoneWith:
    """What consumers of one partition are done with."""

    __slots__ = ("_data", "ends")

    def __init__(self, data: PartitionTruth) -> None:
        self._data = data
        self.ends: dict[Named, int] = {}
        """Of each record: where the entry of the journal ends that says so first."""

    def take(self, data: bytes, end: int) -> None:
        """A committed entry about a consumer."""
        entry = decode_entry(data)
        if isinstance(entry, Done) and entry.how in (ACKED, TERMINATED):
            for offset in offsets_of(entry.runs):
                if offset < self._data.hw:
                    self.ends.setdefault((offset, epoch_at(self._data.history, offset)), end)

    def left(self, gone: Mapping[Named, int], journal: int, start: int) -> list[int]:
        """What is done with by the journal below an offset, is there from `start` on, and is not gone by as
        much of it.
        """
        done = [named for named, end in self.ends.items() if end <= journal and named[0] >= start]
        there = [named for named in done if epoch_at(self._data.history, named[0]) == named[1]]
        return [offset for offset, epoch in there if gone.get((offset, epoch), NUMBER_MAX) > journal]

    def holds(self, gone: Mapping[Named, int], journal: int, start: int) -> None:
        """A client was told of an ack by the journal below this offset. WorkQueueHolds."""
        self._data.checks["WorkQueueHolds"] += 1
        left = self.left(gone, journal, start)
        if left:
            text = f"below {journal} of the journal offsets {left} are done with, and there"
            raise Violation("WorkQueueHolds", f"partition {self._data.id}: {text}")

    def alone(self, name: str, config: ConsumerConfig, others: Iterable[tuple[str, ConsumerConfig]]) -> None:
        """A consumer is made beside these. WorkQueueHolds."""
        self._data.checks["WorkQueueHolds"] += 1
        for other, theirs in others:
            for one in config.patterns or EVERY:
                if any(overlap(one, pattern) for pattern in theirs.patterns or EVERY):
                    text = f"consumer {name!r} is made beside {other!r}, and may be given the same"
                    raise Violation("WorkQueueHolds", f"partition {self._data.id}: {text}")
