"""The tail cache: the newest batches of one log, kept in memory for followers and readers that keep up.

What is here was appended by this replica as it stands. So what the log has compacted must go from here: a
follower that got an older record of a key from memory would bring it back (C2). Bounded in bytes; the oldest
batches go first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import suppress

from liftlog.batchparts import slice_batch
from liftlog.types import Batch, LiftlogError, PartitionId

SLACK = 4
"""Trimmed when it exceeds its limit by 1/SLACK, so that trimming is amortised."""


class TailCache:
    """A run of batches without a gap, up to the log's LEO; perhaps none."""

    __slots__ = ("batches", "limit_bytes", "size_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.batches: list[Batch] = []
        self.size_bytes = 0

    def add(self, batches: list[Batch]) -> None:
        """Take in what was appended at the LEO."""
        if self.batches and batches and self.batches[-1].end_offset != batches[0].base_offset:
            self.clear()  # A cut inside a batch took the batch away, and the log goes on behind its rest.
        for batch in batches:
            self.size_bytes += len(batch.data)
        self.batches.extend(batches)
        if self.size_bytes > self.limit_bytes + self.limit_bytes // SLACK:
            self._trim()

    def _trim(self) -> None:
        drop = 0
        while self.size_bytes > self.limit_bytes and drop < len(self.batches) - 1:
            self.size_bytes -= len(self.batches[drop].data)
            drop += 1
        del self.batches[:drop]

    def cut(self, offset: int) -> None:
        """The log was cut at `offset`: forget every batch that reaches beyond it."""
        while self.batches and self.batches[-1].end_offset > offset:
            self.size_bytes -= len(self.batches.pop().data)

    def forget_below(self, offset: int) -> None:
        """The log was compacted below `offset`: what is here is what it was before."""
        drop = bisect_left(self.batches, offset, key=lambda batch: batch.base_offset)
        self.size_bytes -= sum(len(batch.data) for batch in self.batches[:drop])
        del self.batches[:drop]

    def clear(self) -> None:
        self.batches.clear()
        self.size_bytes = 0

    def read(self, offset: int, limit: int, max_bytes: int) -> list[Batch] | None:
        """Batches from the one that holds `offset` to the last that begins below `limit`, at least one if
        there is one, else about `max_bytes`. None if `offset` is no longer, or not yet, in memory.
        """
        if not self.batches or offset < self.batches[0].base_offset:
            return None
        position = bisect_right(self.batches, offset, key=lambda batch: batch.base_offset) - 1
        found: list[Batch] = []
        size = 0
        for place in range(position, len(self.batches)):
            batch = self.batches[place]
            if batch.base_offset >= limit or (found and size + len(batch.data) > max_bytes):
                break
            found.append(batch)
            size += len(batch.data)
        return found


def cut_batches(log: PartitionId, batches: list[Batch], limit: int) -> list[Batch]:
    """The batches as far as they lie below `limit`: one that reaches beyond it is cut there (C5).

    One that cannot be cut, since its codec is not installed here, is left out.
    """
    if not batches or batches[-1].end_offset <= limit:
        return batches
    whole = [batch for batch in batches if batch.end_offset <= limit]
    last = batches[len(whole)]
    if last.base_offset < limit:
        with suppress(LiftlogError):
            whole.append(slice_batch(log, last, last.base_offset, limit))
    return whole
