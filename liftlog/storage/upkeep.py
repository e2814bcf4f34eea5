"""The jobs that keep a log in order while others write and read it: compaction, scrub, repair (C1, C2, D2).

One `Compactor` and one `Repairer` per open log live here, because their work is spread over many jobs. Both
write beside the log and swap in what they wrote; they meet only where a repair brings in records that this
replica has not compacted. So before a repair begins, the clean point goes down to where it begins: a record
that comes from a peer which compacted less must not count as clean, or a tombstone above it might be dropped
(C2). And where the peer compacted more, its tombstones may be missing (C4).
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from liftlog.format import CorruptBatch
from liftlog.messages import Compacted, CompactLog, LogRepaired, RepairLog, Scrubbed, ScrubLog
from liftlog.mutants import Mutants
from liftlog.ports import Disk
from liftlog.storage.compaction import Compactor
from liftlog.storage.log import Log
from liftlog.storage.repair import Repairer
from liftlog.storage.scrub import scrub
from liftlog.storage.segment import BadBytes
from liftlog.storage.subjectindexes import SubjectIndexes
from liftlog.types import LiftlogError, LogSummary, PartitionId

_REFUSED = (OSError, BadBytes, CorruptBatch, LiftlogError)
"""What ends one of these jobs and nothing else: the log goes on."""


class SegmentUpkeep:
    """For all logs of one engine."""

    __slots__ = ("_compactors", "_disk", "_mutants", "_repairers", "_subjects")

    def __init__(self, disk: Disk, mutants: Mutants, subjects: SubjectIndexes) -> None:
        """`subjects`: what is derived of the logs, and has to hear of all this (S1)."""
        self._disk = disk
        self._mutants = mutants
        self._subjects = subjects
        self._compactors: dict[PartitionId, tuple[Log, Compactor]] = {}
        self._repairers: dict[PartitionId, tuple[Log, Repairer]] = {}

    def described(self, log: Log, hw: int) -> LogSummary:
        """What the core is told of a log, with what its compactions have reached. Raises DiskError."""
        compactor = self._compactor(log)
        segments = (*log.sealed, log.segment_of(log.leo))
        return msgspec.structs.replace(
            log.summary(hw),
            clean_point=compactor.clean_point,
            dropped_below=compactor.dropped_below,
            newest_ms=max(0, *(segment.greatest_ms for segment in segments)),
        )

    def copied(self, log: Log, dropped_below: int) -> None:
        """Before batches are appended that others have thinned (C4). Raises DiskError, SyncFailed."""
        self._compactor(log).note_copied(dropped_below)

    def cut(self, log: Log, offset: int) -> None:
        """Before what lies at or above `offset` is cut off. Raises DiskError, SyncFailed."""
        self._abandon_repair(log.id)
        self._subjects.cut(log.id, offset)
        self._compactor(log).lower(offset, cut=True)

    def forget(self, log: PartitionId) -> None:
        """The log is no longer what it was."""
        self._abandon_repair(log)
        self._subjects.forget(log)
        found = self._compactors.pop(log, None)
        if found is not None:
            with suppress(OSError):
                found[1].abandon()

    def close(self) -> None:
        """Throw away what is half done."""
        for log in list(self._compactors):
            self.forget(log)
        for log in list(self._repairers):
            self.forget(log)

    def compact(self, log: Log, job: CompactLog) -> Compacted:
        """One slice. Damage that it meets is noted."""
        compactor = self._compactor(log)
        done, error = True, ""
        damage = None
        try:
            done = compactor.step(job.policy, job.below, job.tombstones_below, job.now_ms, job.max_bytes)
        except _REFUSED as refused:
            error = str(refused)
            if isinstance(refused, BadBytes) and refused.range is not None:
                with suppress(OSError):
                    # If it cannot be remembered now, whoever reads it next finds it again.
                    log.note_damage(refused.range)
                    damage = refused.range
        thinned = compactor.take_thinned()
        if thinned is not None:
            self._subjects.thinned(log.id, thinned)
        return Compacted(log.id, done, compactor.clean_point, compactor.dropped_below, error, damage)

    def scrub(self, log: Log, job: ScrubLog) -> Scrubbed:
        """One slice. What cannot be verified for another reason than damage is passed over, with an error."""
        try:
            next_offset, damage = scrub(log, self._disk, job.offset, job.max_bytes)
        except _REFUSED as refused:
            ends = (segment.end_offset for segment in log.sealed if segment.end_offset > job.offset)
            return Scrubbed(log.id, next(ends, log.log_start), None, str(refused))
        return Scrubbed(log.id, next_offset, damage)

    def repair(self, log: Log, job: RepairLog) -> LogRepaired:
        """Take the next batches of a range; on an error it is to be sent again from its start."""
        repairer = self._repairer(log)
        try:
            compactor = self._compactor(log)
            if repairer.begins(job.range):
                compactor.lower(job.range.start, cut=False)
            if job.dropped_below >= 0:
                compactor.note_copied(job.dropped_below)
            self._subjects.mended(log.id, job.range.start)
            reached = repairer.repair(job.range, job.batches)
            return LogRepaired(log.id, job.range, reached, damage=repairer.take_found())
        except _REFUSED as refused:
            return LogRepaired(log.id, job.range, job.range.start, str(refused), repairer.take_found())

    def _compactor(self, log: Log) -> Compactor:
        found = self._compactors.get(log.id)
        if found is None or found[0] is not log:
            self.forget(log.id)
            found = log, Compactor(log, self._disk, self._mutants)
            self._compactors[log.id] = found
        return found[1]

    def _repairer(self, log: Log) -> Repairer:
        found = self._repairers.get(log.id)
        if found is None or found[0] is not log:
            self._abandon_repair(log.id)
            found = log, Repairer(log, self._disk)
            self._repairers[log.id] = found
        return found[1]

    def _abandon_repair(self, log: PartitionId) -> None:
        found = self._repairers.pop(log, None)
        if found is not None:
            with suppress(OSError):
                found[1].abandon()
