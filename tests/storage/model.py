"""A log as a dictionary: the simplest thing that `liftlog.storage` may not be told apart from.

The model knows every record that was ever appended and not cut off, and for each number that storage
reports (log start, LEO, HW, clean point, dropped_below) the *lowest* and the *highest* value that a crash may
leave. Three moments move them:

    submitted(job)    what the job is to reach becomes possible: one end of a range moves
    written(job)      truncation and reset are durable before the next job: the other end follows
    answered(job)     what was reported durable is certain

`problem(found)` holds against the model what a process finds after a crash: nothing certain is missing,
nothing appears that was never appended, what is there is one run of offsets without a gap, and nothing that
was reported goes back. `adopt(found)` then takes what was found for certain: recovery makes it durable.

Compaction leaves the dictionary alone. A record may be missing if a later one of its key lies below the
point to which compaction was allowed to go (C1), or if it is a tombstone that was allowed to be dropped (C2);
and it *must* be missing once the clean point that was reported says so. Without a later record of its key
a missing tombstone leaves no earlier record of that key behind, else the dead would rise.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.format import decode_records, encode_records, encode_sparse
from liftlog.messages import (
    AppendLog,
    CheckpointHw,
    Compacted,
    CompactLog,
    Durable,
    Event,
    LogOpened,
    LogRepaired,
    LogStartMoved,
    MoveLogStart,
    OpenLog,
    RebuildLog,
    RepairLog,
    ResetLog,
    RetainLog,
    StorageFailed,
    StorageJob,
    TrashLog,
    TruncateLog,
)
from liftlog.types import Batch, EpochStart, LogSummary, OffsetRange, Record, TailState
from tests.storage.storage_harness import LOG


class Line(NamedTuple):
    """One record and the epoch that wrote it."""

    epoch: int
    record: Record


class Found(NamedTuple):
    """What a process sees of one log: the summary that storage gave, and every record that it could read."""

    summary: LogSummary
    lines: dict[int, Line]
    unreadable: tuple[OffsetRange, ...] = ()
    """Ranges that reads refused as damaged."""


class Span:
    """The values between which a crash may leave a number."""

    __slots__ = ("high", "low")

    def __init__(self, value: int = 0) -> None:
        self.low = value
        self.high = value

    def fix(self, value: int) -> None:
        self.low = self.high = value

    def raise_to(self, value: int) -> None:
        """It may grow to `value`."""
        self.high = max(self.high, value)

    def lower_to(self, value: int) -> None:
        """It may shrink to `value`."""
        self.low = min(self.low, value)

    def holds(self, value: int) -> bool:
        return self.low <= value <= self.high

    def __repr__(self) -> str:
        return f"{self.low}..{self.high}"


class LogModel:
    """What one log holds, must hold and may hold."""

    def __init__(self) -> None:
        self.lines: dict[int, Line] = {}
        self.start = Span()
        self.leo = Span()
        self.hw = Span()
        self.clean_point = Span()
        self.dropped_below = Span()
        self.before: tuple[EpochStart, ...] = ()
        """Epochs of what lies below all `lines`."""
        self.damaged: set[int] = set()
        """Offsets that storage has reported as damaged and that were not repaired since."""
        self.decayed: tuple[int, ...] = ()
        """Offsets whose bytes the test has destroyed."""
        self.repairing: OffsetRange | None = None
        """A range for which a repair was submitted: it may be whole again."""
        self.compactable_below = 0
        """Greatest limit that a compaction was ever given."""
        self.clean_everywhere = 0
        """Every replica has compacted past this, as the core said."""
        self.droppable_below = 0
        """Tombstones below this may be gone."""
        self.passed: list[tuple[int, int]] = []
        """(clean point, wall ms) of every advance: when a tombstone was compacted past."""
        self.torn = False
        """A write may have been torn: the tail is suspect until the metadata group has heard of it."""
        self.exists = False
        self.other: LogModel | None = None
        """The log as it was before a reset, a trashing or a fresh opening that has not been answered."""

    # ----- what the running process reads -----

    @property
    def log_start(self) -> int:
        return self.start.high

    @property
    def end(self) -> int:
        """LEO as the running process sees it."""
        return self.leo.high

    def epoch_starts(self, below: int) -> list[EpochStart]:
        """The epoch history of the records below an offset."""
        starts = [one for one in self.before if one.start < below]
        for offset in sorted(self.lines):
            epoch = self.lines[offset].epoch
            if offset < below and (not starts or starts[-1].epoch != epoch):
                starts.append(EpochStart(epoch, offset))
        return starts

    def last_epoch(self) -> int:
        starts = self.epoch_starts(self.end)
        return starts[-1].epoch if starts else 0

    # ----- jobs -----

    def submitted(self, job: StorageJob) -> None:
        """The job may have any part of its effect from now on."""
        if isinstance(job, AppendLog):
            for batch in job.batches:
                for record in decode_records(batch):
                    self.lines[record.offset] = Line(batch.epoch, record)
                self.leo.raise_to(batch.end_offset)
        elif isinstance(job, TruncateLog):
            self._may_shrink(job.offset)
        elif isinstance(job, RebuildLog):
            self._may_shrink(job.keep_below)
        elif isinstance(job, MoveLogStart):
            self.start.raise_to(min(job.offset, self.end))
        elif isinstance(job, RetainLog):
            self.start.raise_to(min(job.limit, self.end))
        elif isinstance(job, CheckpointHw):
            self.hw.raise_to(job.hw)
        elif isinstance(job, CompactLog):
            self._may_compact(job)
        elif isinstance(job, ResetLog):
            self._begin_anew(job.start, job.epochs)
        elif isinstance(job, RepairLog):
            self.repairing = job.range
            # What a peer sends may lack tombstones that it has dropped. After a crash it is only known in
            # which segment that is: wherever it ends.
            self.dropped_below.raise_to(self.end)
            self.clean_point.lower_to(job.range.start)
        elif isinstance(job, TrashLog) or (isinstance(job, OpenLog) and (job.fresh or not self.exists)):
            self._begin_anew(0, ())
            self.exists = not isinstance(job, TrashLog)

    def _may_shrink(self, offset: int) -> None:
        self.leo.lower_to(max(offset, self.start.low))
        self.hw.lower_to(offset)

    def _may_compact(self, job: CompactLog) -> None:
        self.compactable_below = max(self.compactable_below, job.below)
        self.clean_point.raise_to(job.below)
        self.clean_everywhere = max(self.clean_everywhere, job.tombstones_below)
        since = job.now_ms - job.policy.tombstone_retention_ms
        passed = max((point for point, at_ms in self.passed if at_ms <= since), default=0)
        self.droppable_below = max(self.droppable_below, min(job.tombstones_below, passed))
        # How far it reports is its own business, as long as it covers what is gone and nothing not reached.
        self.dropped_below.raise_to(self.clean_point.high)

    def _begin_anew(self, start: int, epochs: tuple[EpochStart, ...]) -> None:
        """Another log takes this one's place; until the answer either may be found."""
        earlier = LogModel()
        for name in vars(self):
            setattr(earlier, name, getattr(self, name))
        earlier.leo.lower_to(earlier.start.low)
        earlier.hw.lower_to(0)
        fresh = LogModel()
        for span in (fresh.start, fresh.leo):
            span.fix(start)
        fresh.before = epochs
        fresh.exists = True
        if start:
            # A verdict that nobody has heard of outlives a reset, and so does the checkpoint.
            fresh.torn = self.torn or self.leo.low < self.leo.high
            fresh.hw.high = self.hw.high
        for name in vars(fresh):
            setattr(self, name, getattr(fresh, name))
        self.other = earlier

    def written(self, job: StorageJob) -> None:
        """The write phase is over without a failure."""
        if isinstance(job, TruncateLog):
            self._shrink(max(job.offset, self.start.high))
        elif isinstance(job, ResetLog | TrashLog):
            self.other = None

    def _shrink(self, offset: int) -> None:
        if offset < self.leo.high:
            self.lines = {at: line for at, line in self.lines.items() if at < offset}
            self.leo.fix(offset)
        self.hw.low = min(self.hw.low, offset)
        self.hw.high = min(self.hw.high, offset)

    def answered(self, job: StorageJob, event: Event) -> None:
        """Storage has answered: what it says is durable."""
        if isinstance(event, StorageFailed):
            self._failed(job, event)
        elif isinstance(event, Durable) and isinstance(job, AppendLog):
            # What was cut again before the sync is not meant.
            self.leo.low = max(self.leo.low, min(self.leo.high, job.batches[-1].end_offset))
        elif isinstance(event, LogOpened):
            assert isinstance(job, OpenLog | RebuildLog)
            self.other = None
            if isinstance(job, RebuildLog):
                self._shrink(event.summary.leo)
            self.leo.fix(event.summary.leo)
        elif isinstance(event, LogStartMoved):
            self.start.fix(event.log_start)
        elif isinstance(event, Compacted):
            assert isinstance(job, CompactLog)
            self._compacted(job, event)
        elif isinstance(event, LogRepaired) and not event.error and event.next_offset >= event.range.end:
            self._repaired(event.range)

    @property
    def damage(self) -> tuple[OffsetRange, ...]:
        """The damaged offsets as ranges, ascending."""
        found: list[OffsetRange] = []
        for offset in sorted(self.damaged):
            if found and found[-1].end == offset:
                found[-1] = OffsetRange(found[-1].start, offset + 1)
            else:
                found.append(OffsetRange(offset, offset + 1))
        return tuple(found)

    def note_damage(self, damage: OffsetRange) -> None:
        """A job has reported a damaged range, which is durable by then."""
        self.damaged.update(range(damage.start, damage.end))

    def _repaired(self, whole: OffsetRange) -> None:
        self.repairing = None
        self.damaged.difference_update(range(whole.start, whole.end))
        self.decayed = tuple(offset for offset in self.decayed if not whole.start <= offset < whole.end)

    def _failed(self, job: StorageJob, event: StorageFailed) -> None:
        if isinstance(job, AppendLog) and not event.sync:
            # Refused (D5): what it had written was cut off again.
            first = job.batches[0].base_offset
            if first <= self.leo.high:
                self._shrink(first)

    def _compacted(self, job: CompactLog, event: Compacted) -> None:
        if event.clean_point > max((point for point, _ in self.passed), default=0):
            self.passed.append((event.clean_point, job.now_ms))
        self.clean_point.low = max(self.clean_point.low, event.clean_point)
        self.dropped_below.low = max(self.dropped_below.low, event.dropped_below)

    def checkpointed(self, hw: int) -> None:
        """The group of a checkpoint was synced."""
        self.hw.low = min(hw, self.leo.low, self.hw.high)

    def batches(self, wanted: OffsetRange, *, compacted: bool) -> list[Batch]:
        """What a peer would send for a range: a batch of two records each, the first from before the range.

        `compacted`: as a peer that has compacted all that may be compacted; any has compacted as far as
        tombstones were allowed to go (C2).
        """
        found: list[Batch] = []
        last = self._last_of_keys(self.compactable_below if compacted else self.clean_everywhere)
        offset = max(self.log_start, wanted.start - 1)
        while offset < wanted.end:
            line = self.lines[offset]
            end = offset + 1
            if end < self.end and self.lines[end].epoch == line.epoch:
                end += 1
            records = [self.lines[at].record for at in range(offset, end)]
            kept = [one for one in records if one.key is None or one.offset >= last.get(one.key, 0)]
            if len(kept) < len(records):
                found.append(encode_sparse(LOG, line.epoch, offset, end, kept))
            else:
                found.append(encode_records(LOG, line.epoch, records))
            offset = end
        return found

    # ----- what a crash may leave -----

    def possible_tails(self) -> tuple[TailState, ...]:
        """R14: only a write that was not durable can be torn, and no crash looks like damage."""
        self.torn = self.torn or self.leo.low < self.leo.high
        good = (TailState.CLEAN, TailState.INTACT)
        return (*good, TailState.SUSPECT) if self.torn else good

    def problem(self, found: Found) -> str:
        """What cannot be explained; empty if all is well."""
        trouble = self._problem(found)
        if trouble and self.other is not None:
            earlier = self.other.problem(found)
            return earlier and f"neither the new log ({trouble}) nor the earlier one ({earlier})"
        return trouble

    def _problem(self, found: Found) -> str:
        summary = found.summary
        # Of what lies below the log start nobody is told anything.
        dropped_below = max(summary.dropped_below, min(self.dropped_below.low, summary.log_start))
        for name, span, value in (
            ("log start", self.start, summary.log_start),
            ("LEO", self.leo, summary.leo),
            ("clean point", self.clean_point, summary.clean_point),
            ("dropped_below", self.dropped_below, dropped_below),
        ):
            if not span.holds(value):
                return f"{name} is {value}, possible is {span}"
        if not min(self.hw.low, summary.leo) <= summary.hw <= min(self.hw.high, summary.leo):
            return f"HW is {summary.hw} with LEO {summary.leo}, possible is {self.hw}"
        return self.damage_problem(found) or self.content_problem(found) or self._epoch_problem(summary)

    def damage_problem(self, found: Found) -> str:
        reported = found.summary.damage
        for offset in sorted(self.damaged):
            mended = self.repairing is not None and self.repairing.start <= offset < self.repairing.end
            inside = found.summary.log_start <= offset < found.summary.leo
            if inside and not mended and not _within(offset, (*reported, *found.unreadable)):
                return f"the damage at offset {offset} is forgotten, reported is {reported}"
        for one in (*reported, *found.unreadable):
            if not any(at in self.damaged or at in self.decayed for at in range(one.start, one.end)):
                return f"damage {one}, where nothing was destroyed"
        return ""

    def content_problem(self, found: Found) -> str:
        """Whether the records are what the summary promises."""
        summary, lines, _ = found
        for offset, line in lines.items():
            if not summary.log_start <= offset < summary.leo:
                return f"offset {offset} lies outside of [{summary.log_start}, {summary.leo})"
            if line != self.lines.get(offset):
                return f"offset {offset} holds {line}, appended was {self.lines.get(offset)}"
        missing = [
            offset
            for offset in range(summary.log_start, summary.leo)
            if offset not in lines and not _within(offset, found.unreadable)
        ]
        if not missing and not summary.clean_point:
            return ""
        return self._missing_problem(missing, found) or self._clean_problem(found)

    def _missing_problem(self, missing: list[int], found: Found) -> str:
        last = self._last_of_keys(self.compactable_below)
        for offset in missing:
            line = self.lines.get(offset)
            key = None if line is None else line.record.key
            if line is None or key is None or offset >= self.compactable_below:
                return f"offset {offset} is missing, appended was {line}"
            if offset < last[key]:
                continue
            if line.record.value is not None:
                return f"offset {offset} is missing, the last record of its key: {line}"
            if offset >= self.droppable_below:
                return f"the tombstone at {offset} was dropped, allowed is below {self.droppable_below}"
            if offset >= found.summary.dropped_below:
                return f"the tombstone at {offset} is gone, dropped_below is {found.summary.dropped_below}"
            for earlier in found.lines.values():
                if earlier.record.key == key and earlier.record.offset < offset:
                    return f"{earlier} has risen: its tombstone at offset {offset} is gone"
        return ""

    def _clean_problem(self, found: Found) -> str:
        last = self._last_of_keys(found.summary.clean_point)
        for offset, line in found.lines.items():
            key = line.record.key
            if key is not None and offset < last.get(key, 0):
                return f"offset {offset} is there below the clean point, although {last[key]} has its key"
        return ""

    def _last_of_keys(self, below: int) -> dict[bytes, int]:
        last: dict[bytes, int] = {}
        for offset in sorted(self.lines):
            key = self.lines[offset].record.key
            if key is not None and offset < below:
                last[key] = offset
        return last

    def _epoch_problem(self, summary: LogSummary) -> str:
        """Exact from the log start on, with the epoch before it (R6); what is older may be forgotten."""
        true = self.epoch_starts(summary.leo)
        found = list(summary.epochs)
        needed = [i for i, one in enumerate(true) if one.start >= summary.log_start]
        first = max(0, needed[0] - 1) if needed else max(0, len(true) - 1)
        holes = {
            place: lost.start
            for place in summary.late_epochs
            for lost in summary.damage
            if lost.start < place <= lost.end
        }
        # Storage may know an epoch that begins within damage from the damage's end on only: it says where.
        found = [
            next(
                (one for one in true if one.epoch == epoch and holes.get(start, start) <= one.start <= start),
                EpochStart(epoch, start),
            )
            for epoch, start in found
        ]
        if found[len(found) - len(true[first:]) :] != true[first:] or any(one not in true for one in found):
            return f"epoch history {found}, written was {true} with log start {summary.log_start}"
        return ""

    def adopt(self, found: Found) -> None:
        """What a recovery has reported is durable: from now on it is certain."""
        if self.other is not None:
            if self._problem(found):
                earlier = self.other
                for name in vars(earlier):
                    setattr(self, name, getattr(earlier, name))
            self.other = None
        summary = found.summary
        self.lines = {at: line for at, line in self.lines.items() if at < summary.leo}
        self.start.fix(summary.log_start)
        self.leo.fix(summary.leo)
        self.hw.fix(summary.hw)
        self.clean_point.fix(summary.clean_point)
        self.dropped_below.fix(summary.dropped_below)
        self.repairing = None
        damage = (*summary.damage, *found.unreadable)
        self.damaged = {at for one in damage for at in range(one.start, one.end)}


def _within(offset: int, ranges: tuple[OffsetRange, ...]) -> bool:
    return any(one.start <= offset < one.end for one in ranges)
