"""Epoch history of one log: which epoch wrote from which offset on (R6).

Core and storage each keep one; storage derives its own from the batch headers, so that it cannot contradict
them, and from the `start` file for what lies below the log's start. The history alone answers the two
questions of log reconciliation. Entries are strictly increasing in epoch and in start. An epoch that wrote
nothing has no entry.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from liftlog.types import EpochStart, invariant


class EpochHistory:
    """Mutable history. `entries` is a plain list, kept sorted."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self.entries: list[EpochStart] = list(entries)

    def last(self) -> int:
        """Epoch of the newest record, 0 for an empty log."""
        return self.entries[-1].epoch if self.entries else 0

    def as_tuple(self) -> tuple[EpochStart, ...]:
        return tuple(self.entries)

    def note(self, epoch: int, offset: int) -> None:
        """A batch of `epoch` is appended at `offset`."""
        last = self.last()
        if epoch == last and self.entries:
            return
        forward = epoch > last or not self.entries
        invariant(forward, f"epoch goes backward: {epoch} after {last} at offset {offset}")
        self.entries.append(EpochStart(epoch, offset))

    def learn(self, epoch: int, offset: int) -> None:
        """The record at `offset` is of `epoch`: read past damage, an epoch may seem to begin later (D2)."""
        position = bisect_left(self.entries, epoch, key=lambda entry: entry.epoch)
        found = EpochStart(epoch, offset)
        if position == len(self.entries) or self.entries[position].epoch != epoch:
            self.entries.insert(position, found)
        elif self.entries[position].start > offset:
            self.entries[position] = found

    def admits(self, epoch: int, offset: int) -> bool:
        """Whether a record at `offset` may be of `epoch`: as old as what is before it, or newer, and no newer
        than what begins behind it (D2). Epochs do not fall as offsets grow.
        """
        position = bisect_right(self.entries, offset, key=lambda entry: entry.start)
        least = self.entries[position - 1].epoch if position else 0
        return least <= epoch and (position == len(self.entries) or epoch <= self.entries[position].epoch)

    def truncate(self, offset: int) -> None:
        """Forget every epoch that starts at or above `offset`."""
        while self.entries and self.entries[-1].start >= offset:
            self.entries.pop()

    def epoch_before(self, offset: int) -> int:
        """Epoch of the record at `offset - 1`; 0 if there is none."""
        position = bisect_right(self.entries, offset - 1, key=lambda entry: entry.start) - 1
        return self.entries[position].epoch if position >= 0 else 0

    def epoch_at(self, offset: int) -> int:
        """The epoch that begins at `offset`; 0 if none does."""
        position = bisect_left(self.entries, offset, key=lambda entry: entry.start)
        found = position < len(self.entries) and self.entries[position].start == offset
        return self.entries[position].epoch if found else 0

    def floor(self, epoch: int, leo: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, its end offset); (0, log's first offset) if there is none.

        The end of an epoch is the start of the next one, or `leo` (KIP-101; naming the epoch: KIP-279).
        """
        position = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch) - 1
        if position < 0:
            return 0, (self.entries[0].start if self.entries else leo)
        end = self.entries[position + 1].start if position + 1 < len(self.entries) else leo
        return self.entries[position].epoch, end
