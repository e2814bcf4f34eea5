"""The epoch history of a log: where each leader epoch begins in it (R6).

Kept in memory while the log is open and derived from the batch headers whenever it is opened: the headers are
the truth, so a history can never contradict the batches it describes. The clean-stop marker carries a copy,
which the next open compares with what the headers say (R14).
"""

from __future__ import annotations

from liftlog.types import EpochStart, invariant


class EpochHistory:
    """Epochs in ascending order, each with the first offset written in it."""

    __slots__ = ("_starts",)

    def __init__(self) -> None:
        self._starts: list[EpochStart] = []

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, 0 for an empty log."""
        return self._starts[-1].epoch if self._starts else 0

    def note(self, epoch: int, base_offset: int) -> None:
        """A batch of `epoch` was appended at `base_offset`."""
        last = self.last_epoch
        if epoch == last and self._starts:
            return
        invariant(epoch > last or not self._starts, f"epoch {epoch} appended after epoch {last}")
        self._starts.append(EpochStart(epoch, base_offset))

    def truncate(self, offset: int) -> None:
        """Everything at or above `offset` is gone."""
        while self._starts and self._starts[-1].start >= offset:
            self._starts.pop()

    def as_tuple(self) -> tuple[EpochStart, ...]:
        return tuple(self._starts)
