"""The subject indexes of one node's logs: who owns them, and how they stay what the logs say (S1).

An index is derived of what is committed in one copy, and lies in memory. It is begun when somebody asks, and
goes forward in slices: the core says up to where the log is committed, `fold` enters a slice of that, `ask`
answers from what is entered. So it never holds what may still be cut.

    the log grows               `fold`
    its start moves             the next slice, or question, has the index begin there too
    compaction thins it         `thinned`: these offsets are looked at again; what is gone is removed
    messages are deleted        each question says what is gone (R21); that is removed, and never comes back:
                                where less is gone than before, the index is begun anew
    a range is repaired         `mended`: a peer may have compacted less, so that records are back: begun anew
    a cut below what is entered, a reset, a new file, the trash        begun anew

Between the first of these and the end of what it causes an index is *behind*, and answers nothing. Bounded:
all indexes together take `memory_max`; beyond, the one that was asked longest ago is given up, to be begun
anew when somebody asks. numpy comes with the first question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from liftlog.messages import (
    BEYOND_NEWEST,
    LAST_OF_EACH,
    LAST_OF_SUBJECT,
    MATCHES_FROM,
    MATCHING_RUNS,
    NEWEST_BYTES,
    NEWEST_MATCHES,
    NEXT_MATCH,
    AskLasts,
    AskSubjects,
    FoldSubjects,
    LastsTold,
    runs_of,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.offsets import OffsetSet
from liftlog.ports import Disk
from liftlog.storage.log import Log
from liftlog.storage.segment import Segment
from liftlog.storage.subjectruns import gaps_between, joined_runs, subject_runs
from liftlog.subjects.index.interface import SubjectIndexFull
from liftlog.types import NO_OFFSET, NUMBER_MAX, OffsetRange, PartitionId

if TYPE_CHECKING:
    from liftlog.storage.subjectfiles import SubjectFiles
    from liftlog.subjects.index.columns import ColumnIndex
    from liftlog.subjects.index.interface import Run
    from liftlog.subjects.index.sizes import MessageSizes

AGAIN_MAX = 256
"""Of thinned ranges that one index remembers."""
CHUNK_OFFSETS = 1 << 16
STEP_OFFSETS = 16 * CHUNK_OFFSETS
"""So far one slice moves an index's start, and one question looks for a match: some 20 ms at the worst."""


class IndexProgress(NamedTuple):
    """`folded`: everything below is entered. `ready`: and nothing of it is to be looked at again. `filed`:
    some of it came out of a subject file just now.
    """

    folded: int
    ready: bool
    filed: bool = False


NO_INDEX = IndexProgress(-1, False)


class SubjectAnswer(NamedTuple):
    """What an index says of the offsets [first, folded). See `SubjectsTold`; `number`: its `index`."""

    folded: int
    first: int
    offset: int = NO_OFFSET
    subjects: tuple[tuple[bytes, int], ...] = ()
    messages: int = 0
    place: int = -1
    number: int = 0
    runs: tuple[OffsetRange, ...] = ()
    size: int = 0


class HeldChunks:
    """A `ChunkStore` in memory: subjects of chunks that the log has left behind."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: dict[int, bytes] = {}

    @property
    def memory(self) -> int:
        """Bytes of all chunks."""
        return sum(map(len, self._chunks.values()))

    def numbers(self) -> list[int]:
        return sorted(self._chunks)

    def read(self, number: int) -> bytes:
        return self._chunks[number]

    def write(self, number: int, data: bytes) -> None:
        self._chunks[number] = data

    def drop(self, number: int) -> None:
        self._chunks.pop(number, None)


class HeldIndex:
    """The index of one log. `again`: ranges that compaction has thinned since they were entered. `gone`:
    what was deleted, and is not in it. `files`: None with encryption at rest.
    """

    __slots__ = ("again", "asked", "chunks", "files", "gone", "index", "log", "number", "sizes")

    def __init__(self, log: Log, number: int, key: int, memory_max: int, files: SubjectFiles | None) -> None:
        from liftlog.subjects.index.columns import ColumnIndex
        from liftlog.subjects.index.sizes import MessageSizes

        self.log = log
        self.number = number
        self.files = files
        self.chunks = HeldChunks()
        self.index: ColumnIndex = ColumnIndex(
            self.chunks, str(log.id).encode(), key, first=log.log_start, memory_max=memory_max
        )
        self.sizes: MessageSizes = MessageSizes()
        self.again: list[OffsetRange] = []
        self.gone = OffsetSet()
        self.asked = 0

    @property
    def memory(self) -> int:
        """Bytes."""
        return self.index.memory + self.chunks.memory + self.sizes.memory

    @property
    def has_start(self) -> bool:
        """Whether it begins where its log does."""
        return self.index.first == self.log.log_start

    def remove(self, runs: Iterable[Run]) -> None:
        """These messages are gone. The runs rise, and have nothing in common."""
        runs = list(runs)
        self.index.remove(runs)
        self.sizes.remove(runs)

    def forget(self) -> None:
        """It is given up."""
        if self.files is not None:
            self.files.abandon()

    def start(self, first: int, counts: bool = True) -> None:
        """It begins here now."""
        self.index.start(first)
        if counts:
            self.sizes.start(first)


class SubjectIndexes:
    """For all logs of one engine. Only the storage thread may touch it."""

    __slots__ = ("_asked", "_disk", "_held", "_made", "_mutants", "key")

    def __init__(self, disk: Disk | None, mutants: Mutants = NO_MUTANTS) -> None:
        """`disk`: where subject files lie; None: nowhere, since what lies there is encrypted."""
        self._disk = disk
        self._mutants = mutants
        self.key = 0
        """Of the tables' hashes: a number that publishers do not know."""
        self._held: dict[PartitionId, HeldIndex] = {}
        self._asked = 0
        self._made = 0

    # -- what happens to a log ---------------------------------------------------------------------

    def cut(self, log: PartitionId, offset: int) -> None:
        """What lies at or above `offset` is about to be cut off."""
        held = self._held.get(log)
        if held is not None and held.index.next > offset:
            self.forget(log)

    def mended(self, log: PartitionId, offset: int) -> None:
        """From `offset` on records are about to be put back, by a peer that may have more of them."""
        self.cut(log, offset)

    def thinned(self, log: PartitionId, thinned: OffsetRange) -> None:
        """Compaction has left fewer records in these offsets."""
        held = self._held.get(log)
        if held is None or self._mutants.subjects_not_thinned:
            return
        start, end = max(thinned.start, held.index.first), min(thinned.end, held.index.next)
        if start < end:
            held.again.append(OffsetRange(start, end))
        if len(held.again) > AGAIN_MAX:
            # Nobody asks. One range over all of them is looked at when somebody does.
            held.again = [OffsetRange(min(held.again).start, max(one.end for one in held.again))]

    def forget(self, log: PartitionId) -> None:
        """The log is no longer what it was."""
        held = self._held.pop(log, None)
        if held is not None:
            held.forget()

    @property
    def memory(self) -> int:
        """Bytes of all indexes."""
        return sum(held.memory for held in self._held.values())

    # -- the jobs ----------------------------------------------------------------------------------

    def fold(self, log: Log, job: FoldSubjects) -> IndexProgress:
        """Enter a slice of the log.

        Raises SubjectIndexFull, with the index given up; BadBytes, CorruptBatch, LiftlogError, DiskError.
        """
        held = self._held.get(log.id)
        if held is None or held.log is not log or log.log_start > held.index.next:
            if not job.begin:
                return NO_INDEX
            held = self._begin(log, job.memory_max)
        files = held.files
        taken = files.taken if files is not None else 0
        try:
            self._fold(held, min(job.below, log.leo), job.max_bytes)
            self._make_room(held, job.memory_max)
        except SubjectIndexFull:
            self.forget(log.id)
            raise
        return self._progress(held)._replace(filed=files is not None and files.taken > taken)

    def _fold(self, held: HeldIndex, below: int, max_bytes: int) -> None:
        index = held.index
        self._follow_start(held)
        if held.files is not None:
            held.files.reached(index)
        while max_bytes > 0 and held.again and self._begins_right(held):
            max_bytes -= self._look_again(held, max_bytes)
        while max_bytes > 0 and self._begins_right(held) and index.next < below:
            max_bytes -= self._enter(held, below, max_bytes)
        # What has gathered is entered now, so that no question pays for it.
        index.fold()

    def ask(self, log: Log, job: AskSubjects) -> SubjectAnswer | IndexProgress:
        """The answer, or how far the index is if that is not far enough."""
        held = self._ready(log, job.least, job.gone)
        return held if isinstance(held, IndexProgress) else self._answer(held, job)

    def lasts(self, log: Log, job: AskLasts) -> LastsTold | IndexProgress:
        """The last records of some subjects (L9), or how far the index is if that is not far enough."""
        held = self._ready(log, job.least, job.gone)
        if isinstance(held, IndexProgress):
            return held
        found = [held.index.last(subject) for subject in job.subjects]
        offsets = [NO_OFFSET if offset is None else offset for offset in found]
        counts = [held.index.count(subject) for subject in job.subjects] if job.counted else []
        return LastsTold(log.id, job.request, held.index.next, job.subjects, offsets, counts=counts)

    # -- small parts -------------------------------------------------------------------------------

    def _heed(self, held: HeldIndex, gone: OffsetSet) -> bool:
        """Remove what is gone now. Whether that can be: what was removed before is gone still."""
        if self._mutants.index_ignores_removed:
            return True
        held.gone.forget_below(held.log.log_start)
        if any(True for _ in held.gone.added_since(gone)):
            return False
        held.remove(gone.added_since(held.gone))
        held.gone = gone.copy()
        return True

    def _ready(self, log: Log, least: int, gone: OffsetSet | None) -> HeldIndex | IndexProgress:
        """The index, if it has everything below `least` and nothing of it is to be looked at again. It is
        without what is `gone`.
        """
        held = self._held.get(log.id)
        if held is None or held.log is not log:
            return NO_INDEX
        self._follow_start(held)
        progress = self._progress(held)
        if progress.folded < least or not progress.ready:
            return progress
        self._asked += 1
        held.asked = self._asked
        if gone is not None and not self._heed(held, gone):
            self.forget(log.id)
            return NO_INDEX
        return held

    def _begins_right(self, held: HeldIndex) -> bool:
        return held.has_start or self._mutants.subjects_start_ignored

    def _progress(self, held: HeldIndex) -> IndexProgress:
        return IndexProgress(held.index.next, not held.again and self._begins_right(held))

    def _begin(self, log: Log, memory_max: int) -> HeldIndex:
        self.forget(log.id)
        self._made += 1
        self._asked += 1
        number = (self.key + self._made) % NUMBER_MAX
        held = HeldIndex(log, number, self.key, memory_max, self._files(log))
        held.asked = self._asked
        self._held[log.id] = held
        return held

    def _files(self, log: Log) -> SubjectFiles | None:
        if self._disk is None:
            return None
        from liftlog.storage.subjectfiles import SubjectFiles

        mutants = self._mutants
        stale, unchecked = mutants.subject_file_stale, mutants.subject_file_unchecked
        return SubjectFiles(self._disk, log, stale=stale, unchecked=unchecked)

    def _follow_start(self, held: HeldIndex) -> None:
        """Some chunks at a time: a purge may take many."""
        index, first = held.index, held.log.log_start
        if index.first < first <= index.next and not self._mutants.subjects_start_ignored:
            counts = not self._mutants.bytes_below_start
            held.start(min(first, index.first + STEP_OFFSETS), counts)
            left = [one for one in held.again if one.end > index.first]
            held.again = [OffsetRange(max(one.start, index.first), one.end) for one in left]

    def _enter(self, held: HeldIndex, below: int, max_bytes: int) -> int:
        """Of one segment. Returns how many bytes were read; at least one."""
        log, first = held.log, held.index.next
        segment = log.segment_of(first)
        worked = 0
        if held.files is not None and segment.end_offset <= below and segment is not log.segment_of(log.leo):
            worked = held.files.take(segment, held.index, held.sizes)
        if not worked:
            worked = self._read(held, segment, below, max_bytes)
        elif held.gone:
            held.remove(held.gone.runs(first, held.index.next))
        return worked

    def _read(self, held: HeldIndex, segment: Segment, below: int, max_bytes: int) -> int:
        log, index, files = held.log, held.index, held.files
        first = index.next
        batches = log.read(index.next, min(below, segment.end_offset), max_bytes)
        if not batches:
            # `below` lies inside of a batch that compaction has merged (C5).
            batches = log.read(index.next, log.leo, 1)
        if files is not None:
            files.follow(segment, first)
        for offset, subjects, sizes in joined_runs(batches, first, below):
            index.append(offset, subjects)
            held.sizes.append(offset, sizes)
            if files is not None:
                files.entered(index, offset, subjects, sizes)
        end = min(batches[-1].end_offset, below)
        if held.gone:
            held.remove(held.gone.runs(first, end))
        index.append(max(end, index.next), [])
        if files is not None:
            files.reached(index)
        return 1 + sum(len(batch.data) for batch in batches)

    def _look_again(self, held: HeldIndex, max_bytes: int) -> int:
        """Remove what a thinned range does not have any more. Returns how many bytes were read."""
        thinned = held.again[0]
        worked = 1
        due = thinned.start
        for batch in held.log.read(due, held.log.leo, max_bytes):
            worked += len(batch.data)
            end = min(batch.end_offset, thinned.end)
            if due < end:
                held.remove(gaps_between(subject_runs(batch, due, end), due, end))
                due = end
        held.again[:1] = [OffsetRange(due, thinned.end)] if due < thinned.end else []
        return worked

    def _answer(self, held: HeldIndex, job: AskSubjects) -> SubjectAnswer:
        index = held.index
        answer = SubjectAnswer(index.next, held.log.log_start, number=held.number, size=held.sizes.total)
        if job.what == LAST_OF_SUBJECT:
            found = index.last(job.pattern.encode())
        elif job.what == NEXT_MATCH:
            until = min(max(job.offset, index.first) + STEP_OFFSETS, index.next)
            found = index.next_match(job.pattern, job.offset, until)
            if found is None and until < index.next:
                return answer._replace(place=until)
        elif job.what in (MATCHING_RUNS, BEYOND_NEWEST):
            return _runs(index, job, answer)
        elif job.what == MATCHES_FROM:
            counts = [index.count_from(pattern, job.offset) for pattern in job.patterns]
            return answer._replace(messages=sum(counts))
        elif job.what == LAST_OF_EACH:
            return _lasts(index, job, answer)
        elif job.what == NEWEST_MATCHES:
            return _newest(index, job, answer)
        elif job.what == NEWEST_BYTES:
            place, below = held.sizes.newest(job.limit, job.until), held.sizes.below(job.until)
            return answer._replace(place=place, size=below)
        else:
            page = index.subjects(job.pattern, job.offset, job.limit)
            return answer._replace(
                subjects=page.subjects,
                messages=index.count_from(job.pattern, 0),
                place=-1 if page.place is None else page.place,
            )
        return answer if found is None else answer._replace(offset=found)

    def _make_room(self, held: HeldIndex, memory_max: int) -> None:
        """L3: give up what was asked longest ago until all have room. Raises SubjectIndexFull."""
        if held.memory > memory_max:
            raise SubjectIndexFull(
                f"the subject index of {held.log.id} takes {held.memory:,} bytes, and may take"
                f" {memory_max:,} (index_memory_bytes): let it have more, or do without it"
            )
        while self.memory > memory_max:
            others = [one for one in self._held.values() if one is not held]
            self.forget(min(others, key=lambda one: one.asked).log.id)


def _runs(index: ColumnIndex, job: AskSubjects, answer: SubjectAnswer) -> SubjectAnswer:
    """What matches, a chunk after the other; or what is too much of its subject (R22)."""
    at, until = max(job.offset, index.first), min(job.until, index.next)
    limit, runs = at + STEP_OFFSETS, list[OffsetRange]()
    while at < min(until, limit) and len(runs) < job.limit:
        step = min((at // CHUNK_OFFSETS + 1) * CHUNK_OFFSETS, until)
        if job.what == BEYOND_NEWEST:
            step = min(until, limit)
            found = index.beyond(job.keep, at, step, until)
        else:
            found = _matching(index, job.patterns or (job.pattern,), at, step)
        runs.extend(OffsetRange(*run) for run in found)
        at = step
    if len(runs) > job.limit:
        at = runs[job.limit].start
        runs = runs[: job.limit]
    return answer._replace(runs=tuple(runs), place=at if at < until else NO_OFFSET)


def _matching(index: ColumnIndex, patterns: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
    """What one of these matches, of [start, end); several of them may match the same."""
    if len(patterns) == 1:
        return index.runs(patterns[0], start, end)
    found = OffsetSet()
    for pattern in patterns:
        for run in index.runs(pattern, start, end):
            found.add(*run)
    return [(run.start, run.end) for run in found.runs(start, end)]


def _lasts(index: ColumnIndex, job: AskSubjects, answer: SubjectAnswer) -> SubjectAnswer:
    """The last message of each subject; none are told if they are too many."""
    found: list[int] = []
    for pattern in job.patterns:
        found += index.lasts(pattern, job.until, job.limit + 1 - len(found))
        if len(found) > job.limit:
            return answer._replace(messages=len(found))
    offsets = [offset for offset in sorted(found) if offset >= job.offset]
    runs = tuple(OffsetRange(start, start + length) for start, length in runs_of(offsets))
    return answer._replace(messages=len(offsets), runs=runs)


def _newest(index: ColumnIndex, job: AskSubjects, answer: SubjectAnswer) -> SubjectAnswer:
    """Where the newest matches begin, a chunk after the other from the end."""
    end, found = min(job.until, index.next), 0
    limit = max(index.first, end - STEP_OFFSETS)
    while end > limit:
        begin = max(limit, (end - 1) // CHUNK_OFFSETS * CHUNK_OFFSETS)
        for start, stop in reversed(index.runs(job.pattern, begin, end)):
            if found + stop - start >= job.limit:
                return answer._replace(offset=stop - (job.limit - found), messages=job.limit)
            found += stop - start
        end = begin
    return answer._replace(messages=found, place=end if end > index.first else NO_OFFSET)
