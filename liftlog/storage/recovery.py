"""What a starting node does with a log it finds on its disk (R7, R14, D2, D4, M4).

First it looks, and changes nothing. Of each complete segment it reads the head of the index and the size of
the file; only a segment whose index does not describe it is scanned. The last segment is scanned, unless the
last stop was a clean one and its index describes it too. So a clean start costs time by the number of
segments, and any other one by the length of the last segment.

Then the question is how bad bytes came there:

- in a complete segment: it was synced before the next one was created, so they are damage. They stay where
  they are, the offsets in question are a *damaged range* (D2), and everything else can be read;
- in the last segment after a clean stop: damage as well; the segment ends there;
- in the last segment after an unclean stop: if a later batch says, by its `synced_below`, that the bad bytes
  were once durable, *damage*; else they lie in the last group, where a torn write and a lost sector look
  alike: the tail is *suspect* (R14).

What is bad in the last segment is copied to quarantine/, synced, and only then cut off. Before anything is
cut the verdict itself is made durable (see `liftlog.storage.verdict`). After an unclean stop the last segment
is made durable before it is reported, by a copy (see `liftlog.storage.copying`).

Left-overs of changes that were cut short are recognised by what made the change durable: files below the log
start, segments that lie wholly inside the one before them, an unfinished reset. They are finished.

The Raft log is never repaired beyond its last group: a voter that forgot what it promised must not vote, so
damage there is an error that tells to wipe the node (M4).
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from liftlog.epochs import EpochHistory
from liftlog.mutants import Mutants
from liftlog.ports import Disk, DiskFile
from liftlog.storage.copying import create_empty, replace_segment
from liftlog.storage.creation import create_log
from liftlog.storage.index import CorruptIndex, IndexHead, read_head, write_index
from liftlog.storage.indexes import Indexes
from liftlog.storage.layout import (
    DERIVED_SUFFIXES,
    TEMPORARY_SUFFIX,
    index_path,
    is_folder,
    log_directory,
    make_directory_durable,
    segment_bases,
    segment_path,
)
from liftlog.storage.log import Log
from liftlog.storage.logfiles import finish_reset, remove_derived
from liftlog.storage.logstate import (
    NO_DAMAGE,
    OS,
    CleanLog,
    DamageNote,
    LogStart,
    read_damage,
    read_start,
    start_path,
    united,
    write_damage,
    write_start,
)
from liftlog.storage.quarantine import quarantine
from liftlog.storage.reading import Damage, up_to
from liftlog.storage.sealing import Sealer
from liftlog.storage.segment import BadBytes, Segment, scan, scan_past_damage, synced_evidence
from liftlog.storage.statefile import CorruptState
from liftlog.storage.verdict import remember_verdict
from liftlog.types import RAFT_LOG, LiftlogError, LogOptions, OffsetRange, PartitionId, TailState


class _Found:
    """What lies in a log's folder. To look changes nothing."""

    __slots__ = (
        "bad",
        "damage",
        "last",
        "left_over",
        "lost",
        "rebuilt",
        "sealed",
        "start",
        "start_lost",
    )

    def __init__(self, start: LogStart, start_lost: str) -> None:
        self.start = start
        self.start_lost = start_lost
        """Why the `start` file had to be guessed; empty = it was good."""
        self.sealed: list[Segment] = []
        self.last: Segment | None = None
        self.bad: BadBytes | None = None
        """What ends the last segment before its file does."""
        self.lost: Damage = []
        """Damage that was found in complete segments."""
        self.damage = NO_DAMAGE
        """The same, and what had been known of before."""
        self.rebuilt: list[Segment] = []
        """Complete segments whose index has to be written again."""
        self.left_over: list[int] = []
        """Base offsets of segments that a change would have removed."""

    @property
    def segments(self) -> list[Segment]:
        return self.sealed if self.last is None else [*self.sealed, self.last]

    @property
    def leo(self) -> int:
        segments = self.segments
        return segments[-1].end_offset if segments else self.start.log_start

    def epoch_before(self, base: int) -> int:
        """The epoch before a segment, as far as the ones before it tell."""
        for segment in reversed(self.sealed):
            if segment.epochs:
                return segment.epochs[-1].epoch
        return EpochHistory(self.start.epochs).epoch_before(base)

    def first_bad(self) -> str:
        """The first damage, in words; empty if there is none."""
        if self.start_lost:
            return self.start_lost
        return str(self.lost[0][1] if self.lost else self.bad or "")

    def matches(self, clean: CleanLog) -> bool:
        """Whether this is the log of a clean stop, but for damage that is known by its range."""
        if self.start_lost or self.bad is not None or self.leo != clean.leo:
            return False
        history = EpochHistory(self.start.epochs)
        for segment in self.segments:
            for epoch, start in segment.epochs:
                if epoch > history.last() or not history.entries:
                    history.note(epoch, start)
        self.damage.tell(history)
        same = history.as_tuple() == clean.epochs and len(self.segments) == clean.segments
        return same or bool(self.lost)


def recover_log(
    disk: Disk,
    log: PartitionId,
    options: LogOptions,
    clean: CleanLog | None,
    mutants: Mutants,
    sealer: Sealer | None = None,
    indexes: Indexes | None = None,
    known: bool = False,
) -> Log:
    """Open a log, cut what is bad, make durable what is kept. `clean`: what the clean-stop marker says of it.

    `known`: this disk has held it (M4).
    Raises DiskError, SyncFailed; UnsupportedBatch; LiftlogError if the Raft log is damaged.
    """
    indexes = indexes or Indexes(disk)
    directory = log_directory(log)
    found = _look(disk, log, indexes, clean)
    if found is None:
        # It was being created, or all that was in the folder is gone.
        verdict = TailState.LOST if known or clean is not None else TailState.INTACT
        if mutants.lost_folder_is_empty:
            verdict = TailState.INTACT
        _refuse_raft(log, verdict, f"{directory}: entries are gone that the last stop recorded")
        verdict = remember_verdict(disk, log, verdict, rewrite=clean is None)
        fresh = create_log(disk, log, options, sealer, indexes)
        fresh.tail = verdict
        return fresh
    options = msgspec.structs.replace(options, durability=found.start.durability)
    verdict = _verdict(disk, found, clean)
    if mutants.damage_as_torn_tail and verdict is TailState.DAMAGED:
        verdict = TailState.INTACT
    bad = TailState.DAMAGED if found.damage.ranges else verdict
    _refuse_raft(log, bad, found.first_bad() or f"{directory}: entries are gone that the last stop recorded")
    remove_temporary_files(disk, directory)
    if log != RAFT_LOG:
        verdict = remember_verdict(disk, log, verdict, rewrite=clean is None)
    file = _settle(disk, log, found, indexes, clean, mutants)
    recovered = Log(
        disk=disk,
        log=log,
        options=options,
        sealer=sealer,
        indexes=indexes,
        start=found.start,
        segments=found.segments,
        file=file,
        tail=verdict,
        damage=found.damage,
    )
    if verdict is TailState.LOST and recovered.leo:
        # Nothing is appended before the group has heard of the loss: this verdict could not be removed.
        recovered.tail = TailState.DAMAGED
    ranges = found.damage.ranges
    if ranges and ranges[-1].end > found.segments[-1].base_offset:
        recovered.roll()
    return recovered


def _refuse_raft(log: PartitionId, verdict: TailState, reason: str) -> None:
    if log == RAFT_LOG and verdict in (TailState.DAMAGED, TailState.LOST):
        raise damaged_group_state(reason)


# ---------------------------------------------------------------------------------------------------------
# Looking
# ---------------------------------------------------------------------------------------------------------


def _look(disk: Disk, log: PartitionId, indexes: Indexes, clean: CleanLog | None) -> _Found | None:
    """None if there is nothing, or no more than the beginning of a creation."""
    bases = segment_bases(disk, log_directory(log))
    begun = bases == [] or (clean is None and bases == [0] and _size(disk, log, 0) == 0)
    try:
        start = read_start(disk, log)
        reason = f"{start_path(log)} byte 0: the file is missing"
    except CorruptState as error:
        # A creation that was cut short leaves no `start` file at all.
        start, reason, begun = None, str(error), False
    if start is None:
        if begun:
            return None
        found = _Found(LogStart(bases[0] if bases else 0), reason)
    else:
        found = _Found(start, "")
        if start.unfinished:
            found.left_over = bases
            return found
    first = max((base for base in bases if base <= found.start.log_start), default=0)
    found.left_over = [base for base in bases if base < first]
    bases = [base for base in bases if base >= first]
    known, trusted = _known_damage(disk, log)
    _look_at_sealed(disk, log, indexes, found, bases, trusted)
    if bases:
        _look_at_last(disk, log, indexes, found, bases[-1], clean is not None)
    lost = [one for one, _ in found.lost]
    late = sorted({*known.late, *(one.end for one in lost if not known.covers(one))})
    ranges = united((*known.ranges, *lost), found.start.log_start, found.leo)
    found.damage = DamageNote(late=tuple(late), epochs=known.epochs).within(ranges)
    return found


def _known_damage(disk: Disk, log: PartitionId) -> tuple[DamageNote, bool]:
    """What the `damage` file says; False if it cannot be read, so that everything has to be looked at."""
    try:
        return read_damage(disk, log), True
    except CorruptState:
        return NO_DAMAGE, False


def _look_at_sealed(
    disk: Disk, log: PartitionId, indexes: Indexes, found: _Found, bases: list[int], trusted: bool
) -> None:
    """All segments but the last, made to follow one another."""
    if bases and bases[0] > found.start.log_start:
        # The first file is gone: an empty one takes its place, all of whose offsets are damaged.
        missing = Segment(log, segment_path(log, found.start.log_start), found.start.log_start, indexes)
        _close_gap(found, missing, bases[0], f"{missing.path}: the file is missing")
        found.sealed.append(missing)
    number = 0
    while number < len(bases) - 1:
        base, following = bases[number], bases[number + 1 :]
        segment = _described(disk, log, indexes, found, base) if trusted else None
        lost: Damage = []
        if segment is None:
            segment, lost = _scanned(disk, log, indexes, found, base, following[-1])
        inside = [other for other in following[:-1] if other < segment.end_offset]
        if inside and following[len(inside)] > segment.end_offset:
            # The last of them reaches beyond this segment: no left-over of a replacement.
            inside.pop()
        found.left_over += inside
        number += 1 + len(inside)
        end = bases[number]
        if segment.end_offset > end:
            segment, lost = _scanned(disk, log, indexes, found, base, end)
        if lost or segment.end_offset != end or segment.holds_index:
            _end_at(found, segment, end, lost)
        found.sealed.append(segment)


def _end_at(found: _Found, segment: Segment, end: int, lost: Damage) -> None:
    """The segment was scanned, or ends before the next one begins."""
    damage = up_to(end, segment, lost)
    segment.end_offset = end
    found.lost += damage
    found.rebuilt.append(segment)


def _close_gap(found: _Found, segment: Segment, end: int, reason: str) -> None:
    lost = OffsetRange(segment.end_offset, end)
    found.lost.append((lost, BadBytes(segment.path, segment.size, reason, lost)))
    segment.end_offset = end
    found.rebuilt.append(segment)


def _described(disk: Disk, log: PartitionId, indexes: Indexes, found: _Found, base: int) -> Segment | None:
    """A complete segment, if the head of its index describes its file."""
    path = segment_path(log, base)
    head = _head(disk, log, path, indexes.mutants.index_trusted)
    if head is None or head.base_offset != base or head.file_bytes != _size(disk, log, base):
        return None
    if head.epochs and head.epochs[0].epoch < found.epoch_before(base):
        return None
    return Segment.described(log, path, head, indexes)


def _head(disk: Disk, log: PartitionId, path: str, trusted: bool) -> IndexHead | None:
    try:
        return read_head(disk, log, index_path(path), trusted)
    except (CorruptIndex, OSError):
        return None


def _scanned(
    disk: Disk, log: PartitionId, indexes: Indexes, found: _Found, base: int, limit: int
) -> tuple[Segment, Damage]:
    segment = Segment(log, segment_path(log, base), base, indexes)
    file = disk.open(segment.path)
    try:
        return segment, scan_past_damage(file, segment, found.epoch_before(base), limit)
    finally:
        file.close()


def _look_at_last(
    disk: Disk, log: PartitionId, indexes: Indexes, found: _Found, base: int, clean: bool
) -> None:
    if clean:
        found.last = _described(disk, log, indexes, found, base)
    if found.last is None:
        found.last = Segment(log, segment_path(log, base), base, indexes)
        file = disk.open(found.last.path)
        try:
            found.bad = scan(file, found.last, found.epoch_before(base))
        finally:
            file.close()


def _size(disk: Disk, log: PartitionId, base: int) -> int:
    file = disk.open(segment_path(log, base))
    try:
        return file.size()
    finally:
        file.close()


def _verdict(disk: Disk, found: _Found, clean: CleanLog | None) -> TailState:
    """R14: how did the bad bytes at the end, if any, come there?"""
    if clean is not None:
        return TailState.CLEAN if found.matches(clean) else TailState.DAMAGED
    if found.start_lost:
        return TailState.DAMAGED
    if found.last is None:
        return TailState.INTACT if found.start.unfinished else TailState.DAMAGED
    if found.leo < found.start.log_start:
        return TailState.DAMAGED
    if found.bad is None:
        return TailState.SUSPECT if found.start.durability == OS else TailState.INTACT
    file = disk.open(found.last.path)
    try:
        evidence = synced_evidence(file, found.bad.position, found.leo)
    finally:
        file.close()
    return TailState.DAMAGED if evidence > found.leo else TailState.SUSPECT


# ---------------------------------------------------------------------------------------------------------
# Settling
# ---------------------------------------------------------------------------------------------------------


def _settle(
    disk: Disk,
    log: PartitionId,
    found: _Found,
    indexes: Indexes,
    clean: CleanLog | None,
    mutants: Mutants,
) -> DiskFile:
    """Make the folder what `found` says, durably; return the last segment's file."""
    last = found.last
    if last is not None and found.bad is not None:
        quarantine(disk, log, last.base_offset, last.size)
    if last is None or found.leo < found.start.log_start:
        make_directory_durable(disk, log_directory(log))
        found.start, found.last, file = finish_reset(disk, log, found.start, indexes)
        found.sealed, found.rebuilt, found.damage = [], [], NO_DAMAGE
        return file
    directory = log_directory(log)
    if found.start_lost or clean is None:
        # Names too may not be durable yet after a kill: what makes a file a left-over comes before it goes.
        write_start(disk, log, found.start)
    changed = bool(found.left_over)
    for base in found.left_over:
        path = segment_path(log, base)
        remove_derived(disk, path)
        disk.remove(path)
    known = {segment.base_offset for segment in found.segments}
    for suffix in DERIVED_SUFFIXES:
        for base in segment_bases(disk, directory, suffix):
            if base not in known:
                disk.remove(f"{directory}/{base:020d}{suffix}")
                changed = True
    renewed = found.bad is not None or clean is None
    if renewed:
        changed |= remove_derived(disk, last.path)
    if found.damage.ranges or found.rebuilt or clean is None:
        # Before an index is written that knows no better than the scan did (`Damage.late`).
        write_damage(disk, log, found.damage)
    for segment in found.rebuilt:
        if not disk.exists(segment.path):
            create_empty(disk, segment.path).close()
        with suppress(OSError):
            write_index(disk, log, segment.index_path, segment.head, segment.index)
        segment.release_index()
        changed = True
    if changed:
        disk.sync_directory(directory)
    if mutants.recovery_reports_unsynced:
        file = disk.open(last.path)
        file.truncate(last.size)
        return file
    if renewed:
        return replace_segment(disk, last.path, last.size, checksum=last.checksum)
    return disk.open(last.path)


def remove_temporary_files(disk: Disk, directory: str) -> None:
    """Remove the files that an earlier run had not finished; folders are none of ours. Raises DiskError."""
    for name in disk.list(directory):
        path = f"{directory}/{name}" if directory else name
        if name.endswith(TEMPORARY_SUFFIX) and not is_folder(disk, path):
            disk.remove(path)


class GroupStateDamaged(LiftlogError):
    """M4: what this disk had promised in the metadata group cannot be read, or what it had of its log."""


def damaged_group_state(what: str) -> GroupStateDamaged:
    return GroupStateDamaged(str(damaged_metadata(what)))


def damaged_metadata(what: str) -> LiftlogError:
    """M4: a voter's memory that cannot be read is never taken for empty."""
    return LiftlogError(
        f"damaged metadata: {what}; move this node's data folder away and start it with an empty one, "
        "so that it rejoins the cluster as a new disk"
    )
