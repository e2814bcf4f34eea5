"""What a starting node does with a log it finds on its disk (R7, R14, D2, D4, M4).

Each log is scanned. The first byte that does not continue the log ends its good part, and the question is
how it came there:

- after a clean stop nothing may be bad: *damage*;
- in a segment that is not the last: it was synced before the next one was created: *damage*;
- in the last segment after an unclean stop: if a later batch says, by its `synced_below`, that the bad
  bytes were once durable: *damage*; else they lie in the last group, where a torn write and a lost sector
  look alike: the tail is *suspect*.

What is bad is copied to quarantine/, synced, and only then cut off. Before anything is cut the verdict itself
is made durable (see `liftlog.storage.verdict`).

After an unclean stop everything that is kept is made durable before it is reported, by a copy of the last
segment (see `liftlog.storage.copying`). The Raft log is never repaired beyond its last group: a voter that
forgot what it promised must not vote, so damage there is an error that tells to wipe the node (M4).
"""

from __future__ import annotations

import msgspec

from liftlog.epochs import EpochHistory
from liftlog.ports import Disk
from liftlog.storage.copying import copy_bytes, create_empty, replace_segment
from liftlog.storage.layout import (
    QUARANTINE,
    TEMPORARY_SUFFIX,
    log_directory,
    make_directory_durable,
    next_number,
    segment_bases,
    segment_name,
)
from liftlog.storage.log import Log, StorageOptions, create_log
from liftlog.storage.segment import BadBytes, Segment, scan, synced_evidence
from liftlog.storage.verdict import remember_verdict
from liftlog.types import RAFT_LOG, EpochStart, LiftlogError, Mutants, PartitionId, TailState


class CleanLog(msgspec.Struct, frozen=True, array_like=True):
    """What the clean-stop marker says about one log: a clean open must find exactly this."""

    log: PartitionId
    leo: int
    epochs: tuple[EpochStart, ...]


class _Scanned:
    """The good part of a log, and what ended it."""

    __slots__ = ("bad", "bases", "epochs", "segments")

    def __init__(self, bases: list[int]) -> None:
        self.bases = bases
        self.segments: list[Segment] = []
        self.epochs = EpochHistory()
        self.bad: BadBytes | None = None

    @property
    def leo(self) -> int:
        return self.segments[-1].end_offset if self.segments else 0

    def matches(self, clean: CleanLog) -> bool:
        return self.bad is None and self.leo == clean.leo and self.epochs.as_tuple() == clean.epochs


def recover_log(
    disk: Disk,
    log: PartitionId,
    options: StorageOptions,
    clean: CleanLog | None,
    mutants: Mutants,
) -> Log:
    """Open a log, cut what is bad, make durable what is kept. `clean`: what the clean-stop marker says of it.

    Raises DiskError, SyncFailed; LiftlogError if the Raft log is damaged.
    """
    directory = log_directory(log)
    remove_temporary_files(disk, directory)
    found = _scan_all(disk, log, clean)
    verdict = _verdict(disk, log, found, clean)
    cut = found.bad is not None or not found.segments
    if mutants.damage_as_torn_tail and verdict is TailState.DAMAGED:
        verdict = TailState.INTACT
    if log == RAFT_LOG and verdict is TailState.DAMAGED:
        raise damaged_metadata(str(found.bad or f"{directory}: entries are gone that the last stop recorded"))
    if log != RAFT_LOG:
        verdict = remember_verdict(disk, log, verdict, rewrite=clean is None)
    if found.bad is not None:
        _quarantine_and_drop(disk, log, found)
    if not found.segments:
        fresh = create_log(disk, log, options)
        fresh.tail = verdict
        return fresh
    last = found.segments[-1]
    if mutants.recovery_reports_unsynced:
        file = disk.open(last.path)
        file.truncate(last.size)
    elif cut or clean is None:
        file = replace_segment(disk, last.path, last.size, checksum=last.checksum)
    else:
        file = disk.open(last.path)
    return Log(disk, log, options, found.segments, file, found.epochs, verdict)


def _scan_all(disk: Disk, log: PartitionId, clean: CleanLog | None) -> _Scanned:
    """Scan a log: after a clean stop by headers where that explains everything, else every byte."""
    if clean is not None:
        quick = _scan_segments(disk, log, payloads=False)
        if quick.matches(clean):
            return quick
    return _scan_segments(disk, log, payloads=True)


def _scan_segments(disk: Disk, log: PartitionId, *, payloads: bool) -> _Scanned:
    """Scan segment after segment up to the first bad byte; the last one's payloads are always verified."""
    directory = log_directory(log)
    found = _Scanned(segment_bases(disk, directory))
    for base in found.bases:
        segment = Segment(f"{directory}/{segment_name(base)}", base)
        if base != found.leo:
            found.bad = BadBytes(segment.path, 0, f"the segment does not continue the log at {found.leo}")
            return found
        found.segments.append(segment)
        file = disk.open(segment.path)
        try:
            found.bad = scan(file, log, segment, found.epochs, payloads=payloads or base == found.bases[-1])
        finally:
            file.close()
        if found.bad is not None:
            return found
    return found


def _verdict(disk: Disk, log: PartitionId, found: _Scanned, clean: CleanLog | None) -> TailState:
    """R14: how did the bad bytes, if any, come there?"""
    if clean is not None:
        return TailState.CLEAN if found.matches(clean) else TailState.DAMAGED
    if found.bad is None:
        return TailState.INTACT
    last_path = f"{log_directory(log)}/{segment_name(found.bases[-1])}"
    if found.bad.path != last_path or not found.segments or found.segments[-1].path != last_path:
        return TailState.DAMAGED
    file = disk.open(last_path)
    try:
        evidence = synced_evidence(file, found.bad.position, found.leo)
    finally:
        file.close()
    return TailState.DAMAGED if evidence > found.leo else TailState.SUSPECT


def _quarantine_and_drop(disk: Disk, log: PartitionId, found: _Scanned) -> None:
    """Copy everything from the first bad byte on to quarantine/, then remove segments that are all bad."""
    directory = log_directory(log)
    good = {segment.base_offset: segment.size for segment in found.segments}
    make_directory_durable(disk, QUARANTINE)
    remove_temporary_files(disk, QUARANTINE)
    affected = [base for base in found.bases if base not in good or base == found.segments[-1].base_offset]
    for base in affected:
        _copy_to_quarantine(disk, log, base, good.get(base, 0))
    for base in reversed(affected):
        if base not in good:
            disk.remove(f"{directory}/{segment_name(base)}")
            disk.sync_directory(directory)


def _copy_to_quarantine(disk: Disk, log: PartitionId, base: int, position: int) -> None:
    source = disk.open(f"{log_directory(log)}/{segment_name(base)}")
    size = source.size()
    if position < size:
        number = next_number(disk, QUARANTINE)
        target_path = f"{QUARANTINE}/{number:06d}-{log[0]}-{log[1]}-{base:020d}-{position}.bad"
        target = create_empty(disk, target_path + TEMPORARY_SUFFIX)
        copy_bytes(source, target, position, size)
        target.sync()
        target.close()
        disk.rename(target_path + TEMPORARY_SUFFIX, target_path)
        disk.sync_directory(QUARANTINE)
    source.close()


def remove_temporary_files(disk: Disk, directory: str) -> None:
    """Remove what an earlier run had not finished. Raises DiskError."""
    for name in disk.list(directory):
        if name.endswith(TEMPORARY_SUFFIX):
            disk.remove(f"{directory}/{name}" if directory else name)


def damaged_metadata(what: str) -> LiftlogError:
    """M4: a voter's memory that cannot be read is never taken for empty."""
    return LiftlogError(
        f"damaged metadata: {what}; move this node's data folder away and start it with an empty one, "
        "so that it rejoins the cluster as a new disk"
    )
