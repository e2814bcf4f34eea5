"""Which messages of a partition are gone: a function of the committed part of its journal (R21).

Every copy folds the same entries in the same order, as far as it knows them to be committed, and so all
copies hide the same at the same HW of the journal. Nothing uncommitted is folded, so that no election takes a
deletion back. What was folded before a start is read from the log again; until then this copy gives readers
nothing, since it would show what it has hidden before.

Bytes stay: readers get a batch without the records that are gone, followers get it as it lies there.
"""

from __future__ import annotations

from liftlog.core.consumers.entries import is_consumers
from liftlog.core.consumers.state import Consumers
from liftlog.core.replica.entries import decode_removed
from liftlog.core.replica.state import READY, LogState
from liftlog.format import CorruptBatch, decode_records, decode_values, encode_sparse
from liftlog.messages import LogRead, ReadLog
from liftlog.types import Batch, LiftlogError, PartitionId

SLICE_BYTES = 256 * 1024
"""So much of the journal is read at once."""


class Removed:
    """Of one copy. `log`: the journal. `folded`: what lies below is heeded."""

    __slots__ = ("_ctx", "_epochs", "_log", "_whole", "consumers", "folded", "problem", "request")

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._epochs: dict[int, int] = {}
        """By offset: the epoch of the record that is gone."""
        self._whole = False
        self.consumers = Consumers()
        """What the same entries say of consumers (K2)."""
        self.folded = 0
        self.request = 0
        """The read of storage that is under way; 0 = none."""
        self.problem = ""
        """Why the rest of the journal cannot be heeded; empty if it can."""

    # -- what others look at ----------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """Whether everything is heeded that was known to be committed when the log was opened."""
        return self._whole

    def __len__(self) -> int:
        """How many messages are gone."""
        return len(self._epochs)

    def __contains__(self, named: tuple[int, int]) -> bool:
        """Whether the record at an offset, of an epoch, is gone."""
        offset, epoch = named
        return self._epochs.get(offset) == epoch

    def items(self) -> dict[int, int]:
        """What is gone: the epoch by the offset."""
        return dict(self._epochs)

    def any_in(self, start: int, end: int) -> bool:
        """Whether something may be gone of offsets [start, end)."""
        epochs = self._epochs
        if len(epochs) < end - start:
            return any(start <= offset < end for offset in epochs)
        return any(offset in epochs for offset in range(start, end))

    def visible(self, log: PartitionId, batches: list[Batch]) -> list[Batch]:
        """The batches of the data without the records that are gone. Raises LiftlogError where one of them
        has to be unpacked and cannot.
        """
        return [self._without(log, batch) if self._touches(batch) else batch for batch in batches]

    def _touches(self, batch: Batch) -> bool:
        return bool(self._epochs) and self.any_in(batch.base_offset, batch.end_offset)

    def _without(self, log: PartitionId, batch: Batch) -> Batch:
        kept = [record for record in decode_records(batch) if (record.offset, batch.epoch) not in self]
        return encode_sparse(log, batch.epoch, batch.base_offset, batch.end_offset, kept)

    # -- folding ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The log was opened, or what was known to be committed of it was cut: fold it from its beginning."""
        self._epochs.clear()
        self.consumers.clear()
        self.problem = ""
        self._whole = self._ctx.mutants.removed_read_to_nothing
        self.request = 0
        self.folded = self._log.hw if self._whole else self._log.log_start

    def forget_below(self, offset: int) -> None:
        """The data begin here now."""
        for gone in [gone for gone in self._epochs if gone < offset]:
            del self._epochs[gone]

    def follow(self, anew: bool = False) -> bool:
        """Fold what is committed, from memory, or have storage read it. Whether something has changed."""
        if anew:
            self._begin()
        log, before = self._log, (self.folded, self._whole)
        if log.state != READY or self.request:
            return False
        while self.folded < log.hw and not self.problem:
            batches = log.cached(self.folded, log.hw, SLICE_BYTES)
            if not batches:
                self._read()
                break
            self._take(batches)
        self._whole = not self.problem and (self._whole or self.folded >= log.hw)
        return before != (self.folded, self._whole)

    def _read(self) -> None:
        request = self._ctx.new_ticket()
        if self._ctx.reads.begin_fold(self._log.id, request):
            self.request = request
            self._ctx.effects.append(
                ReadLog(self._log.id, request, self.folded, self._log.hw, SLICE_BYTES)
            )

    def on_read(self, event: LogRead, data_start: int) -> bool:
        """Storage has read a slice, or could not: then it is asked again at a tick. `data_start`: where the
        data begin; nobody asks about what lies before.
        """
        self.request = 0
        if event.error:
            return False
        self._take(event.batches)
        self.forget_below(data_start)
        self.follow()
        return True

    def _take(self, batches: list[Batch]) -> None:
        """An entry that cannot be read, or is of a kind that comes later, ends it: nothing is shown then."""
        for batch in batches:
            if not batch.base_offset <= self.folded < batch.end_offset:
                continue
            end = min(batch.end_offset, self._log.hw)
            try:
                entries = decode_values(batch)[self.folded - batch.base_offset : end - batch.base_offset]
                for entry in entries:
                    if is_consumers(entry):
                        self.consumers.take(self.folded, entry)
                    else:
                        self._epochs.update(decode_removed(entry))
                    self.folded += 1
            except (CorruptBatch, LiftlogError) as error:
                self._ctx.mark("R21.unreadable")
                self.problem = f"offset {self.folded} of the journal cannot be heeded: {error}"
                return
            self.folded = end
