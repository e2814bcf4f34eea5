"""Which messages of a partition are gone: a function of the committed part of its journal (R21).

Every copy folds the same entries in the same order, as far as it knows them to be committed, and so all
copies hide the same at the same HW of the journal. Nothing uncommitted is folded, so that no election takes a
deletion back. What was folded before a start is read from the log again; until then this copy gives readers
nothing, since it would show what it has hidden before. Where the log does not begin with the journal's first
entry, it is to come to one that says that all is said again (`restating.py`), and its data begin no lower
than those of who said it again: it may have been silent about what lay below.

Bytes stay: readers get a batch without the records that are gone, followers get it as it lies there. The
subject index answers without them: it is given what is gone with each question (S1).
"""

from __future__ import annotations

from collections.abc import Iterator

from liftlog.core.consumers.entries import is_consumers
from liftlog.core.consumers.state import Consumers
from liftlog.core.replica.removal.entries import Named, Outlived, Restated, RolledUp, decode_entry
from liftlog.core.replica.state.log import READY, LogState
from liftlog.epochs import EpochHistory
from liftlog.format import CorruptBatch, decode_records, decode_values, encode_sparse
from liftlog.messages import LogRead, ReadLog
from liftlog.offsets import OffsetSet
from liftlog.types import NUMBER_MAX, Batch, EpochStart, LiftlogError, PartitionId

SLICE_BYTES = 256 * 1024
"""So much of the journal is read at once."""


class Removed:
    """Of one copy. `log`: the journal, `data`: the other one. `folded`: what lies below is heeded."""

    __slots__ = (
        *("_ctx", "_data", "_epochs", "_knew", "_log", "_silent_below", "_told", "_told_of", "_unsaid"),
        *("_whole", "consumers", "folded", "others", "outlived", "problem", "request", "rolled_up"),
    )

    def __init__(self, log: LogState, data: LogState) -> None:
        self._log = log
        self._data = data
        self._unsaid = False
        """Entries were before the first one here, and are not known to be said again."""
        self._silent_below = 0
        """Of records of the data below, entries may be silent."""
        self._knew = False
        self._ctx = log.ctx
        self._epochs: dict[int, OffsetSet] = {}
        """By epoch: the offsets of its records that are gone."""
        self._told = OffsetSet()
        self._told_of: tuple[int, int, EpochStart | None] | None = None
        """What `hidden` said last, and of what."""
        self._whole = False
        self.consumers = Consumers()
        """What the same entries say of consumers (K2)."""
        self.rolled_up: RolledUp | None = None
        """What the newest entry says that says how far roll-ups were acted on (R23)."""
        self.outlived: Outlived | None = None
        """And how far nothing is left that is to go after a time (R24)."""
        self.folded = 0
        self.others = 0
        """So many entries were heeded that name messages with which no consumer was done (R26)."""
        self.request = 0
        """The read of storage that is under way; 0 = none."""
        self.problem = ""
        """Why the rest of the journal cannot be heeded; empty if it can."""

    # -- what others look at ----------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """Whether everything is heeded that was known to be committed when the log was opened."""
        return self._whole and not self._unsaid and self._data.log_start >= self._silent_below

    @property
    def heeds_all(self) -> bool:
        """Whether this copy leads, and heeds all that was ever committed of its journal."""
        log, leading = self._log, self._log.leading
        inherited = leading is not None and log.hw >= leading.epoch_start
        return inherited and self.is_known and self.folded >= log.hw

    @property
    def runs(self) -> int:
        """How many runs of offsets are gone."""
        return sum(gone.count_runs() for gone in self._epochs.values())

    def count_epochs(self) -> int:
        """Of how many epochs records are gone."""
        return len(self._epochs)

    def copies(self) -> dict[int, OffsetSet]:
        """What is gone, by epoch: as it is now."""
        return {epoch: gone.copy() for epoch, gone in self._epochs.items()}

    def __len__(self) -> int:
        """How many messages are gone."""
        return sum(map(len, self._epochs.values()))

    @property
    def committed(self) -> int:
        """What is known to be committed of the journal."""
        return self._log.hw

    def __contains__(self, named: tuple[int, int]) -> bool:
        """Whether the record at an offset, of an epoch, is gone."""
        offset, epoch = named
        return offset in self._epochs.get(epoch, ())

    def is_gone(self, offset: int) -> bool:
        """Whether the record that the data have at an offset is."""
        return (offset, self._data.history.epoch_before(offset + 1)) in self

    def named(self) -> Iterator[Named]:
        """Each record that is gone. For tests and watchers: there may be millions."""
        for epoch, gone in self._epochs.items():
            for start, end in gone.runs(0, NUMBER_MAX):
                yield from ((offset, epoch) for offset in range(start, end))

    def any_in(self, start: int, end: int) -> bool:
        """Whether something may be gone of offsets [start, end)."""
        return any(gone.any_in(start, end) for gone in self._epochs.values())

    def hidden(self, history: EpochHistory) -> OffsetSet:
        """Offsets whose record is gone, in a log with this history. It does not change any more."""
        entries = history.entries
        told_of = (self.folded, len(entries), entries[-1] if entries else None)
        if told_of != self._told_of:
            told = OffsetSet()
            end = NUMBER_MAX
            for entry in reversed(entries):
                if entry.epoch in self._epochs:
                    told.add_all(self._epochs[entry.epoch], entry.start, end)
                end = entry.start
            self._told, self._told_of = told, told_of
        return self._told

    def visible(self, log: PartitionId, batches: list[Batch]) -> list[Batch]:
        """The batches of the data without the records that are gone. Raises LiftlogError where one of them
        has to be unpacked and cannot.
        """
        return [self._without(log, batch) if self._touches(batch) else batch for batch in batches]

    def _touches(self, batch: Batch) -> bool:
        gone = self._epochs.get(batch.epoch)
        return gone is not None and gone.any_in(batch.base_offset, batch.end_offset)

    def _without(self, log: PartitionId, batch: Batch) -> Batch:
        gone = self._epochs[batch.epoch]
        kept = [record for record in decode_records(batch) if record.offset not in gone]
        return encode_sparse(log, batch.epoch, batch.base_offset, batch.end_offset, kept)

    # -- folding ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The log was opened, or what was known to be committed of it was cut: fold it from its beginning."""
        self._epochs.clear()
        self.consumers.clear()
        self.rolled_up = self.outlived = None
        self._told_of = None
        self.problem = ""
        self._whole = self._ctx.mutants.removed_read_to_nothing
        self.request = 0
        self._unsaid = self._log.log_start > 0 and not self._ctx.mutants.restated_unseen
        self._silent_below = 0
        self.folded = self._log.hw if self._whole else self._log.log_start

    def forget_below(self, offset: int) -> None:
        """The data begin here now."""
        for epoch in list(self._epochs):
            self._epochs[epoch].forget_below(offset)
            if not self._epochs[epoch]:
                del self._epochs[epoch]

    def follow(self, anew: bool = False) -> bool:
        """Fold what is committed, from memory, or have storage read it. Whether something has changed."""
        if anew:
            self._begin()
        log, before = self._log, (self.folded, self._knew)
        if log.state != READY or self.request:
            return False
        if self.folded < log.log_start:
            # The journal begins later by now than this copy had come.
            self._begin()
        while self.folded < log.hw and not self.problem:
            batches = log.cached(self.folded, log.hw, SLICE_BYTES)
            if not batches:
                self._read()
                break
            self._take(batches)
        self._whole = not self.problem and (self._whole or self.folded >= log.hw)
        if self._data.log_start < self._silent_below:
            self._data.want_start(self._silent_below)
        self._knew = self.is_known
        return before != (self.folded, self._knew)

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
                    self._heed(entry)
                    self.folded += 1
            except (CorruptBatch, LiftlogError) as error:
                self._ctx.mark("R21.unreadable")
                self.problem = f"offset {self.folded} of the journal cannot be heeded: {error}"
                return
            self.folded = end

    def _heed(self, entry: bytes) -> None:
        """The entry at `folded`. Raises LiftlogError."""
        if is_consumers(entry):
            self.consumers.take(self.folded, entry)
            return
        said = decode_entry(entry)
        if isinstance(said, Restated):
            self._said_again(said)
        elif isinstance(said, RolledUp):
            self.rolled_up = said
        elif isinstance(said, Outlived):
            self.outlived = said
        else:
            self.others += not said.done_with
            gone = self._epochs.setdefault(said.epoch, OffsetSet())
            for start, stop in said.runs:
                gone.add(start, stop)

    def _said_again(self, said: Restated) -> None:
        """All that is gone by entries below its beginning is here, if that is not below this log's."""
        if self._unsaid and said.begin >= self._log.log_start:
            self._unsaid = False
            self._silent_below = said.data_start
