"""One log of the node harness's pretended disk: a list of batches, and the storage jobs that change it.

Each batch but the last counts as a sealed segment of its own. Compaction does all there is to do in one slice
and merges what is left of an epoch into one batch, so that batch boundaries differ between replicas (C5).
"""

from __future__ import annotations

from collections import Counter

from liftlog.batchparts import slice_batch
from liftlog.format import decode_records, encode_sparse, last_timestamp_ms
from liftlog.messages import (
    BEYOND_NEWEST,
    LAST_OF_EACH,
    MATCHES_FROM,
    MATCHING_RUNS,
    NEWEST_BYTES,
    NEWEST_MATCHES,
    AskLasts,
    AskSubjects,
    Compacted,
    CompactLog,
    FoldSubjects,
    LastsTold,
    LogRead,
    LogRepaired,
    LogStartMoved,
    LookupTime,
    MoveLogStart,
    ReadLog,
    RepairLog,
    ResetLog,
    RetainLog,
    Scrubbed,
    ScrubLog,
    SubjectsFolded,
    SubjectsTold,
    TimeFound,
)
from liftlog.mutants import NO_MUTANTS
from liftlog.picking import Gathering, RecordFilter
from liftlog.sizes import message_bytes
from liftlog.subjects.index.interface import Page
from liftlog.subjects.index.plain import PlainIndex
from liftlog.types import (
    NO_OFFSET,
    Batch,
    EpochStart,
    LogSummary,
    OffsetRange,
    PartitionId,
    Record,
    TailState,
)


class Log:
    """`batches` in order, the first `durable` of them synced. `bad`: damage that nobody has met yet."""

    def __init__(self, first: int = 0) -> None:
        self.batches: list[Batch] = []
        self.durable = 0
        self.hw = 0
        self.base = self.log_start = first
        self.before: tuple[EpochStart, ...] = ()
        self.clean_point = 0
        self.dropped_below = 0
        self.bad: list[OffsetRange] = []
        self.damage: list[OffsetRange] = []
        self.repaired: list[Batch] = []
        self.refuse_repairs = False
        self.folded = -1
        """Up to where the subject index goes; -1 = there is none."""
        self.fold_slice = 1 << 30
        """How many offsets one job enters."""

    @property
    def leo(self) -> int:
        return self.batches[-1].end_offset if self.batches else max(self.base, self.log_start)

    def summary(self, log: PartitionId, tail: TailState) -> LogSummary:
        epochs = list(self.before)
        for batch in self.batches:
            if not epochs or epochs[-1].epoch != batch.epoch:
                epochs.append(EpochStart(batch.epoch, batch.base_offset))
        return LogSummary(
            log,
            self.log_start,
            self.leo,
            min(self.hw, self.leo),
            tuple(epochs),
            tail,
            tuple(self.damage),
            self.clean_point,
            self.dropped_below,
            newest_ms=max((last_timestamp_ms(batch.data) for batch in self.batches), default=0),
        )

    def lose_unsynced(self) -> None:
        self.batches = self.batches[: self.durable]

    def truncate(self, log: PartitionId, offset: int) -> None:
        kept = [batch for batch in self.batches if batch.base_offset < offset]
        if kept and kept[-1].end_offset > offset:
            kept[-1] = slice_batch(log, kept[-1], kept[-1].base_offset, offset)
        self.batches = kept
        self.durable = len(kept)
        self.clean_point = min(self.clean_point, offset)
        self.damage = [one for one in self.damage if one.start < offset]
        self.bad = [one for one in self.bad if one.start < offset]

    def reset(self, job: ResetLog) -> None:
        self.__init__()  # type: ignore[misc]
        self.base = self.log_start = job.start
        self.before = job.epochs

    # -- front ---------------------------------------------------------------------------------------

    def move_start(self, job: MoveLogStart) -> LogStartMoved:
        self._begin_at(job.offset)
        return LogStartMoved(job.log, self.log_start)

    def retain(self, job: RetainLog) -> LogStartMoved:
        for batch in self.batches[:-1]:
            follow = self.leo - batch.end_offset
            limit = min(job.limit, job.needed_from)
            kept = follow < (job.policy.retention_messages or self.leo)
            if batch.end_offset > limit or (kept and batch.end_offset > job.gone_below):
                break
            self._begin_at(batch.end_offset)
        return LogStartMoved(job.log, self.log_start)

    def _begin_at(self, offset: int) -> None:
        assert offset <= self.leo
        self.log_start = max(self.log_start, offset)
        epochs = self.summary(PartitionId(1, 0), TailState.CLEAN).epochs
        gone = [batch for batch in self.batches[:-1] if batch.end_offset <= self.log_start]
        self.batches = self.batches[len(gone) :]
        self.durable = max(0, self.durable - len(gone))
        first = self.batches[0].base_offset if self.batches else self.leo
        self.before = tuple(entry for entry in epochs if entry.start < first)
        kept = [one for one in self.damage if one.end > self.log_start]
        self.damage = [OffsetRange(max(one.start, self.log_start), one.end) for one in kept]

    # -- reading -------------------------------------------------------------------------------------

    def read(self, job: ReadLog) -> LogRead:
        found: list[Batch] = []
        for batch in self.batches:
            if batch.end_offset <= job.offset or batch.end_offset > job.limit:
                continue
            bad = self._meet(batch)
            if bad is not None:
                if not found:
                    return LogRead(job.log, job.request, [], f"file of {batch.base_offset}, byte 0", bad)
                break
            found.append(batch)
        if job.picked is not None:
            wanted = RecordFilter(job.picked.subjects, job.picked.keys)
            below = min(job.limit, job.picked.below)
            gathered = Gathering(job.log, wanted, job.offset, below, job.max_bytes, NO_MUTANTS)
            gathered.take(found)
            return LogRead(job.log, job.request, gathered.parts, looked=gathered.looked)
        return LogRead(job.log, job.request, found)

    def find_time(self, job: LookupTime) -> TimeFound:
        for batch in self.batches:
            bad = self._meet(batch)
            if bad is not None:
                return TimeFound(job.log, job.request, 0, "bad bytes", bad)
            for record in decode_records(batch):
                if record.offset >= self.log_start and record.timestamp_ms >= job.timestamp_ms:
                    return TimeFound(job.log, job.request, record.offset)
        return TimeFound(job.log, job.request, self.leo)

    def fold(self, job: FoldSubjects) -> SubjectsFolded:
        if self.bad:
            return SubjectsFolded(job.log, 0, False, error="bad bytes", damage=self.bad[0])
        if self.folded < 0 and not job.begin:
            return SubjectsFolded(job.log, -1, False)
        self.folded = min(max(self.folded, self.log_start) + self.fold_slice, job.below)
        return SubjectsFolded(job.log, self.folded, True)

    def ask(self, job: AskSubjects) -> SubjectsTold | SubjectsFolded:
        if self.folded < job.least:
            return SubjectsFolded(job.log, max(self.folded, 0), self.folded >= 0, request=job.request)
        index, sizes = PlainIndex(self.log_start), dict[int, int]()
        for batch in self.batches:
            for record in decode_records(batch):
                if index.next <= record.offset < self.folded:
                    index.append(record.offset, [record.subject])
                    parts = len(record.subject), len(record.headers), len(record.value or b"")
                    if job.gone is None or record.offset not in job.gone:
                        sizes[record.offset] = message_bytes(*parts)
        found, place, counted = None, -1, 0
        runs: list[OffsetRange] = []
        if job.gone is not None:
            index.remove(job.gone.runs(0, self.folded))
        page = Page((), None)
        if job.what == "last":
            found = index.last(job.pattern.encode())
        elif job.what == "next":
            until = job.offset + 2
            found = index.next_match(job.pattern, job.offset, until)
            place = until if found is None and until < index.next else -1
        elif job.what == MATCHING_RUNS:
            # Two offsets at a time.
            until = min(job.until, max(job.offset, self.log_start) + 2)
            patterns = job.patterns or (job.pattern,)
            found_runs = [run for pattern in patterns for run in index.runs(pattern, job.offset, until)]
            runs = [OffsetRange(*run) for run in sorted(found_runs)]
            place = until if until < job.until else -1
        elif job.what == BEYOND_NEWEST:
            until = min(job.until, max(job.offset, self.log_start) + 2)
            runs = [OffsetRange(*run) for run in index.beyond(job.keep, job.offset, until, job.until)]
            place = until if until < job.until else -1
        elif job.what == MATCHES_FROM:
            counted = sum(index.count_from(pattern, job.offset) for pattern in job.patterns)
        elif job.what == NEWEST_BYTES:
            sizes = {offset: size for offset, size in sizes.items() if offset < job.until}
            while sum(size for offset, size in sizes.items() if offset >= max(place, 0)) > job.limit:
                place = max(place, 0) + 1
            place = max(place, 0)
        elif job.what == NEWEST_MATCHES:
            low = max(self.log_start, job.until - 2)
            matching = [offset for run in index.runs(job.pattern, low, job.until) for offset in range(*run)]
            found = matching[-job.limit] if len(matching) >= job.limit else None
            counted, place = len(matching), low if low > self.log_start else -1
        elif job.what == LAST_OF_EACH:
            lasts = [last for each in job.patterns for last in index.lasts(each, job.until, job.limit + 1)]
            counted = len(lasts)
            runs = [OffsetRange(last, last + 1) for last in sorted(lasts)] if counted <= job.limit else []
        else:
            page = index.subjects(job.pattern, job.offset, job.limit)
            place = -1 if page.place is None else page.place
        return SubjectsTold(
            log=job.log,
            request=job.request,
            folded=self.folded,
            first=self.log_start,
            offset=-1 if found is None else found,
            subjects=list(page.subjects),
            messages=sum(count for _, count in page.subjects) + counted,
            place=place,
            index=7,
            runs=tuple(runs),
            size=sum(sizes.values()),
        )

    def lasts(self, job: AskLasts) -> LastsTold | SubjectsFolded:
        if self.folded < job.least:
            return SubjectsFolded(job.log, max(self.folded, 0), self.folded >= 0, request=job.request)
        there = [
            (record.subject, record.offset)
            for batch in self.batches
            for record in decode_records(batch)
            if self.log_start <= record.offset < self.folded
            and (job.gone is None or record.offset not in job.gone)
        ]
        found, numbers = dict(there), Counter(subject for subject, _ in there)
        offsets = [found.get(subject, NO_OFFSET) for subject in job.subjects]
        counts = [numbers[subject] for subject in job.subjects] if job.counted else []
        return LastsTold(job.log, job.request, self.folded, job.subjects, offsets, counts=counts)

    def scrub(self, job: ScrubLog) -> Scrubbed:
        for batch in self.batches:
            if batch.end_offset > job.offset and self._meet(batch) is not None:
                return Scrubbed(job.log, batch.end_offset, self._meet(batch))
        return Scrubbed(job.log, self.log_start)

    def _meet(self, batch: Batch) -> OffsetRange | None:
        """The damage that a reader of this batch meets; it is on record from now on."""
        for one in [*self.damage, *self.bad]:
            if one.start < batch.end_offset and batch.base_offset < one.end:
                if one not in self.damage:
                    self.bad.remove(one)
                    self.damage = sorted([*self.damage, one])
                return one
        return None

    # -- repair (D2) ---------------------------------------------------------------------------------

    def repair(self, job: RepairLog) -> LogRepaired:
        start, end = job.range
        if self.refuse_repairs:
            return LogRepaired(job.log, job.range, start, "no space left on device")
        if job.batches[0].base_offset == start:
            self.repaired = []
        self.repaired += job.batches
        reached = self.repaired[-1].end_offset
        assert self.repaired[0].base_offset == start and reached <= end
        if reached == end:
            kept: list[Batch] = []
            for batch in self.batches:
                for low, high in ((batch.base_offset, start), (end, batch.end_offset)):
                    if max(low, batch.base_offset) < min(high, batch.end_offset):
                        kept.append(slice_batch(job.log, batch, low, high))
            self.batches = sorted([*kept, *self.repaired], key=lambda batch: batch.base_offset)
            self.durable = len(self.batches)
            self.damage.remove(job.range)
            self.clean_point = min(self.clean_point, start)
            return LogRepaired(job.log, job.range, reached, damage=self._meet_all())
        return LogRepaired(job.log, job.range, reached)

    def _meet_all(self) -> tuple[OffsetRange, ...]:
        """A repair looks at all that lies in the same file."""
        found, self.bad = tuple(self.bad), []
        self.damage = sorted([*self.damage, *found])
        return found

    # -- compaction (C1, C2) -------------------------------------------------------------------------

    def compact(self, job: CompactLog) -> Compacted:
        sealed = [batch for batch in self.batches[:-1] if batch.end_offset <= job.below]
        if any(self._meet(batch) is not None for batch in sealed):
            damage = next(found for batch in sealed if (found := self._meet(batch)) is not None)
            return Compacted(job.log, True, self.clean_point, self.dropped_below, "bad bytes", damage)
        if not sealed:
            return Compacted(job.log, True, self.clean_point, self.dropped_below)
        records = [record for batch in sealed for record in decode_records(batch)]
        last = {record.key: record.offset for record in records if record.key is not None}
        kept: list[Record] = []
        for record in records:
            if record.key is not None and last[record.key] != record.offset:
                continue
            old = record.timestamp_ms + job.policy.tombstone_retention_ms <= job.now_ms
            if record.value is None and old and record.offset < job.tombstones_below:
                self.dropped_below = max(self.dropped_below, record.offset + 1)
            else:
                kept.append(record)
        merged: list[Batch] = []
        spans: list[tuple[int, int, int]] = []
        for batch in sealed:
            if spans and spans[-1][0] == batch.epoch:
                spans[-1] = (batch.epoch, spans[-1][1], batch.end_offset)
            else:
                spans.append((batch.epoch, batch.base_offset, batch.end_offset))
        for epoch, low, high in spans:
            inside = [record for record in kept if low <= record.offset < high]
            merged.append(encode_sparse(job.log, epoch, low, high, inside))
        self.durable += len(merged) - len(sealed)
        self.batches = merged + self.batches[len(sealed) :]
        self.clean_point = sealed[-1].end_offset
        return Compacted(job.log, True, self.clean_point, self.dropped_below)
