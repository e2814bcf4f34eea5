"""What storage answers without changing a log: records, times, and questions about subjects (R3, S1).

Nothing here raises for a disk that fails or for what cannot be read: the answer says so, and damage that was
met is remembered durably before it is told (D2).
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.format import CorruptBatch
from liftlog.messages import (
    AskLasts,
    AskSubjects,
    FoldSubjects,
    LastsTold,
    LogRead,
    LookupTime,
    Picked,
    ReadLog,
    SubjectsFolded,
    SubjectsTold,
    TimeFound,
)
from liftlog.mutants import Mutants
from liftlog.picking import Gathering, RecordFilter
from liftlog.ports import Disk, SyncFailed
from liftlog.storage.log import Failure, Log
from liftlog.storage.segment import BadBytes
from liftlog.storage.spans import find_spans
from liftlog.storage.subjectindexes import IndexProgress, SubjectIndexes
from liftlog.subjects.index.interface import SubjectIndexFull
from liftlog.types import NO_OFFSET, LiftlogError, OffsetRange, PartitionId

SCAN_BYTES = 1024 * 1024
"""S2: so much of a log is looked at for one answer, however little of it is wanted."""
SLICE_BYTES = 128 * 1024
"""So much of it at once."""


class LogAnswers:
    """For all logs of one engine. `log`: the open log of a partition, or why it cannot be used."""

    __slots__ = ("_disk", "_gives_spans", "_log", "_mutants", "_subjects")

    def __init__(
        self,
        disk: Disk,
        log: Callable[[PartitionId], Log | Failure],
        subjects: SubjectIndexes,
        gives_spans: bool,
        mutants: Mutants,
    ) -> None:
        """`gives_spans`: what lies on disk may be sent as it is."""
        self._mutants = mutants
        self._disk = disk
        self._log = log
        self._subjects = subjects
        self._gives_spans = gives_spans

    def read(self, job: ReadLog) -> LogRead:
        log = self._log(job.log)
        if isinstance(log, Failure):
            return LogRead(job.log, job.request, [], log.error)
        try:
            if job.picked is not None:
                return self._pick(log, job, job.picked)
            if job.spans and self._gives_spans:
                spans = find_spans(self._disk, log, job.offset, job.limit, job.max_bytes)
                if spans:
                    return LogRead(job.log, job.request, [], spans=spans)
            return LogRead(job.log, job.request, log.read(job.offset, job.limit, job.max_bytes))
        except BadBytes as damage:
            return LogRead(job.log, job.request, [], *noted(log, damage))
        except (OSError, CorruptBatch, LiftlogError) as error:
            return LogRead(job.log, job.request, [], str(error))

    def _pick(self, log: Log, job: ReadLog, picked: Picked) -> LogRead:
        """S2: slice by slice, up to where there is enough, or that is enough for once. Raises as `Log.read`
        where nothing could be looked at; else the next question meets it.
        """
        wanted = RecordFilter(picked.subjects, picked.keys)
        below = min(job.limit, picked.below)
        found = Gathering(job.log, wanted, job.offset, below, job.max_bytes, self._mutants)
        scanned = 0
        try:
            while not found.done and scanned < SCAN_BYTES:
                batches = log.read(found.looked, job.limit, min(SLICE_BYTES, job.max_bytes))
                if not batches:
                    break
                scanned += sum(len(batch.data) for batch in batches)
                found.take(batches)
        except (BadBytes, OSError, CorruptBatch, LiftlogError):
            if found.looked == job.offset:
                raise
        return LogRead(job.log, job.request, found.parts, looked=found.looked)

    def lookup_time(self, job: LookupTime) -> TimeFound:
        log = self._log(job.log)
        if isinstance(log, Failure):
            return TimeFound(job.log, job.request, 0, log.error)
        try:
            return TimeFound(job.log, job.request, log.find_time(job.timestamp_ms))
        except BadBytes as damage:
            return TimeFound(job.log, job.request, 0, *noted(log, damage))
        except (OSError, LiftlogError) as error:
            return TimeFound(job.log, job.request, 0, str(error))

    def fold(self, job: FoldSubjects) -> SubjectsFolded:
        log = self._log(job.log)
        if isinstance(log, Failure):
            return _not_folded(job.log, log.error)
        try:
            progress = self._subjects.fold(log, job)
            return SubjectsFolded(job.log, progress.folded, progress.ready, filed=progress.filed)
        except SubjectIndexFull as full:
            return _not_folded(job.log, str(full), full=True)
        except BadBytes as damage:
            return _not_folded(job.log, *noted(log, damage))
        except (OSError, CorruptBatch, LiftlogError) as error:
            return _not_folded(job.log, str(error))

    def ask(self, job: AskSubjects) -> SubjectsTold | SubjectsFolded:
        log = self._log(job.log)
        if isinstance(log, Failure):
            return _not_told(job, log.error)
        try:
            answer = self._subjects.ask(log, job)
        except LiftlogError as error:
            return _not_told(job, str(error))
        if isinstance(answer, IndexProgress):
            return SubjectsFolded(job.log, answer.folded, answer.ready, request=job.request)
        return SubjectsTold(
            log=job.log,
            request=job.request,
            folded=answer.folded,
            first=answer.first,
            offset=answer.offset,
            subjects=list(answer.subjects),
            messages=answer.messages,
            place=answer.place,
            index=answer.number,
            runs=answer.runs,
            size=answer.size,
        )

    def lasts(self, job: AskLasts) -> LastsTold | SubjectsFolded:
        log = self._log(job.log)
        if isinstance(log, Failure):
            return LastsTold(job.log, job.request, 0, [], [], log.error)
        try:
            answer = self._subjects.lasts(log, job)
        except LiftlogError as error:
            return LastsTold(job.log, job.request, 0, [], [], str(error))
        if isinstance(answer, IndexProgress):
            return SubjectsFolded(job.log, answer.folded, answer.ready, request=job.request)
        return answer


def _not_folded(
    log: PartitionId, error: str, damage: OffsetRange | None = None, full: bool = False
) -> SubjectsFolded:
    return SubjectsFolded(log, 0, False, error=error, damage=damage, full=full)


def _not_told(job: AskSubjects, error: str) -> SubjectsTold:
    return SubjectsTold(
        log=job.log,
        request=job.request,
        folded=0,
        first=0,
        offset=NO_OFFSET,
        subjects=[],
        messages=0,
        place=NO_OFFSET,
        index=0,
        error=error,
    )


def noted(log: Log, error: BadBytes) -> tuple[str, OffsetRange | None]:
    """The error in words, and the damaged range once that is remembered durably (D2)."""
    if error.range is None:
        return str(error), None
    try:
        log.note_damage(error.range)
    except SyncFailed as unsynced:
        log.fail(Failure(True, str(unsynced)))
        return f"{error}; that cannot be remembered: {unsynced}", None
    except OSError as failed:
        return f"{error}; that cannot be remembered: {failed}", None
    return str(error), error.range
