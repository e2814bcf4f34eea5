"""Looks at a log that nobody has open, byte by byte, and says what is wrong where. Never writes.

A start decides what becomes of bad bytes and acts on it (`liftlog.storage.recovery`); this only reports, from
the same scan and by the same rules, so that a person knows before a start does. There are these kinds:

- *damage*: bytes or files that are lost here; a peer has them, or a person decides (D2).
- *torn*: bad bytes in the last group before an unclean stop, where a torn write leaves them: the next start
  copies them to quarantine/ and cuts them off (R14).
- *index*: an index file that is not that of its segment; it can be made again (D3).
- *missing*: an index that is not there, which a crash may leave behind; the next start makes it again.
- *leftover*: what a crash left of unfinished work, and subject files that are not of their segment (S1); the
  next start, or the next index, removes it, and it harms nobody. A reset
  that is not finished is one too, of all segments; only a start should finish that (*reset*).

An index is compared with the one that a scan of its segment gives, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import msgspec

from liftlog.format import Header
from liftlog.ports import Disk, DiskFile
from liftlog.storage.cleanstate import CleanState
from liftlog.storage.index import CorruptIndex, encode_index, read_index
from liftlog.storage.indexes import Indexes
from liftlog.storage.layout import (
    COMPACTED,
    INDEX_SUFFIX,
    SUBJECTS_SUFFIX,
    TAIL,
    TEMPORARY_SUFFIX,
    log_directory,
    segment_bases,
    segment_path,
    subjects_path,
)
from liftlog.storage.layout import DAMAGE as DAMAGE_FILE
from liftlog.storage.logstate import CleanLog, LogStart, read_damage, read_start, start_path
from liftlog.storage.openlogs import EVERYTHING_OPEN, OpenLogs
from liftlog.storage.sectors import read_sturdily
from liftlog.storage.segment import BadBytes, Cursor, Segment, scan, scan_past_damage, synced_evidence
from liftlog.storage.statefile import CorruptState, read_state
from liftlog.types import EpochStart, OffsetRange, PartitionId, TailState

DAMAGE = "damage"
TORN = "torn"
INDEX = "index"
MISSING = "missing"
LEFTOVER = "leftover"
RESET = "reset"

Progress = Callable[[int], None]
"""Called with the number of bytes just read."""


class LogFinding(msgspec.Struct, frozen=True):
    """One thing that is not as it should be: which file, which byte, and what about it."""

    kind: str
    path: str
    byte: int
    what: str
    offsets: OffsetRange | None = None
    """What cannot be read because of it, as far as that is known."""


class LogReport(msgspec.Struct):
    """All that is known of one log after every byte of it was read."""

    log: PartitionId
    directory: str
    log_start: int = 0
    end: int = 0
    records: int = 0
    bytes: int = 0
    segments: int = 0
    epochs: list[EpochStart] = []
    findings: list[LogFinding] = []


class Inspected(msgspec.Struct):
    """A report, and what a repair needs of it."""

    report: LogReport
    rebuildable: list[Segment]
    """Undamaged segments whose index is missing or bad."""


def inspect_log(
    disk: Disk,
    log: PartitionId,
    clean: CleanLog | None,
    progress: Progress,
    open_logs: OpenLogs = EVERYTHING_OPEN,
) -> Inspected:
    """Read every byte of a log. `clean`: what the clean-stop marker says of it, None after an unclean stop;
    `open_logs`: where a batch may lie open, any other one is damage (V8).

    Raises UnsupportedBatch if a newer program wrote it, DiskError.
    """
    directory = log_directory(log)
    inspected = Inspected(LogReport(log, directory), [])
    report = inspected.report
    bases = segment_bases(disk, directory)
    if clean is None and _is_unborn(disk, log, bases):
        report.findings.append(LogFinding(RESET, directory, 0, "the log's creation is not finished"))
        report.findings += leftovers(disk, directory)
        return inspected
    start = _inspect_states(disk, log, report.findings)
    report.log_start = start.log_start
    report.epochs = list(start.epochs)
    indexes = Indexes(disk)
    indexes.open_logs = open_logs
    walk = _Walk(
        disk=disk,
        log=log,
        inspected=inspected,
        start=start,
        unclean=clean is None,
        progress=progress,
        indexes=indexes,
    )
    for number, base in enumerate(bases):
        walk.segment(base, bases[number + 1] if number + 1 < len(bases) else None)
    walk.finish(clean)
    _inspect_known_damage(disk, log, report.findings)
    report.findings += leftovers(disk, directory)
    for suffix, what in ((INDEX_SUFFIX, "the index"), (SUBJECTS_SUFFIX, "the subject file")):
        for base in segment_bases(disk, directory, suffix):
            if base not in bases:
                path = f"{directory}/{base:020d}{suffix}"
                problem = f"{what} of a segment that is not there"
                report.findings.append(LogFinding(LEFTOVER, path, 0, problem))
    return inspected


def _is_unborn(disk: Disk, log: PartitionId, bases: list[int]) -> bool:
    """Whether this is what a creation that was cut short leaves."""
    if disk.exists(start_path(log)) or bases not in ([], [0]):
        return False
    if not bases:
        return True
    file = disk.open(segment_path(log, 0))
    try:
        return file.size() == 0
    finally:
        file.close()


def leftovers(disk: Disk, directory: str) -> list[LogFinding]:
    """Files that were not finished. Raises DiskError."""
    return [
        LogFinding(LEFTOVER, f"{directory}/{name}" if directory else name, 0, "a file that was not finished")
        for name in disk.list(directory)
        if name.endswith(TEMPORARY_SUFFIX)
    ]


def inspect_state(disk: Disk, path: str, kind: type | None, findings: list[LogFinding]) -> object | None:
    """The content of a state file, decoded if `kind` is given; None if there is none or it is bad: noted."""
    try:
        content = read_state(disk, path)
        return content if content is None or kind is None else msgspec.msgpack.decode(content, type=kind)
    except CorruptState as error:
        findings.append(_of_state(error))
    except msgspec.MsgspecError as error:
        findings.append(LogFinding(DAMAGE, path, 16, str(error)))
    return None


def _of_state(error: CorruptState) -> LogFinding:
    """A state file's error names file and byte in its text."""
    found = re.fullmatch(r"(\S+) byte (\d+): (.*)", str(error))
    if found is None:
        return LogFinding(DAMAGE, "", 0, str(error))
    return LogFinding(DAMAGE, found[1], int(found[2]), found[3])


def _inspect_states(disk: Disk, log: PartitionId, findings: list[LogFinding]) -> LogStart:
    directory = log_directory(log)
    start: LogStart | None = None
    try:
        start = read_start(disk, log)
        if start is None:
            findings.append(LogFinding(DAMAGE, start_path(log), 0, "the file is missing"))
    except CorruptState as error:
        findings.append(_of_state(error))
    inspect_state(disk, f"{directory}/{COMPACTED}", CleanState, findings)
    try:
        verdict = read_state(disk, f"{directory}/{TAIL}")
        if verdict is not None:
            TailState(verdict.decode())
    except CorruptState as error:
        findings.append(_of_state(error))
    except ValueError as error:
        findings.append(LogFinding(DAMAGE, f"{directory}/{TAIL}", 16, str(error)))
    return start or LogStart()


def _inspect_known_damage(disk: Disk, log: PartitionId, findings: list[LogFinding]) -> None:
    """Ranges that an earlier run noted and that this scan did not find: they are still to be copied again."""
    try:
        known = read_damage(disk, log)
    except CorruptState as error:
        findings.append(_of_state(error))
        return
    found = [finding.offsets for finding in findings if finding.offsets is not None]
    for lost in known.ranges:
        if not any(one.start <= lost.start and lost.end <= one.end for one in found):
            path = f"{log_directory(log)}/{DAMAGE_FILE}"
            findings.append(LogFinding(DAMAGE, path, 16, "noted as damaged by an earlier run", lost))


class Stretch(NamedTuple):
    """One good batch of a segment file, or bad bytes up to the next good one."""

    byte: int
    header: Header | None
    frame: bytes
    """As it lies on disk; empty for bad bytes."""
    problem: str = ""


def stretches(disk: Disk, log: PartitionId, base: int, offset: int) -> Iterator[Stretch]:
    """Every batch of a segment that ends above `offset`, in order, verified; bad bytes in between.

    Raises UnsupportedBatch, DiskError.
    """
    path = segment_path(log, base)
    file = disk.open(path)
    try:
        size = file.size()
        segment = Segment(log, path, base, Indexes(disk))
        cursor = Cursor(file, segment, 0, base, size)
        while not cursor.at_end:
            try:
                header = cursor.header()
                frame = cursor.verify(header) if header.end_offset > offset else b""
            except BadBytes as error:
                yield Stretch(error.position, None, b"", error.reason)
                resumed = _behind(file, log, path, cursor, disk)
                if resumed is None:
                    return
                cursor = Cursor(file, segment, *resumed, size)
                continue
            if frame:
                yield Stretch(cursor.position, header, frame)
            cursor.advance(header)
    finally:
        file.close()


def _behind(
    file: DiskFile, log: PartitionId, path: str, cursor: Cursor, disk: Disk
) -> tuple[int, int] | None:
    """Position and offset of the first good batch behind bad bytes; None if there is none."""
    probe = Segment(log, path, cursor.offset, Indexes(disk))
    probe.size = cursor.position
    damage = scan_past_damage(file, probe, 0)
    if not damage or probe.size == cursor.position:
        return None
    offset = damage[0][0].end
    return probe.index.positions[probe.index.find(offset)], offset


class _Walk:
    """Goes through the segments of one log in order and notes what it finds."""

    def __init__(
        self,
        disk: Disk,
        log: PartitionId,
        inspected: Inspected,
        start: LogStart,
        unclean: bool,
        progress: Progress,
        indexes: Indexes,
    ) -> None:
        self._disk = disk
        self._log = log
        self._report = inspected.report
        self._rebuildable = inspected.rebuildable
        self._start = start
        self._unclean = unclean
        self._progress = progress
        self._indexes = indexes
        self._before: Segment | None = None
        self._before_is_whole = True
        self._epoch = start.epochs[-1].epoch if start.epochs else 0

    def segment(self, base: int, following: int | None) -> None:
        """Scan the segment that begins at `base` and place it behind the one before it.

        `following`: where the next segment begins; None for the last one.
        """
        segment = Segment(self._log, segment_path(self._log, base), base, self._indexes)
        opened = self._disk.open(segment.path)
        file = cast(DiskFile, _CountedFile(opened, self._progress))
        try:
            if self._is_leftover(file, segment, following):
                return
            self._place(segment)
            grew = following is None and self._unclean
            whole = self._scan_last(file, segment) if grew else self._scan(file, segment)
        finally:
            opened.close()
        if whole and segment.size and not grew:
            self._check_index(segment)
        self._check_subjects(segment, grew or not whole)
        self._before = segment
        self._before_is_whole = whole
        self._add(segment)

    def finish(self, clean: CleanLog | None) -> None:
        """All segments were seen: is it the log that the last stop left?"""
        report, before = self._report, self._before
        if before is None:
            if not self._start.unfinished:
                self._note(DAMAGE, report.directory, 0, "there is no segment")
        elif clean is not None and clean.leo != before.end_offset:
            end = before.end_offset
            what = f"the log ends at {end}; at the last stop, a clean one, it ended at {clean.leo}"
            self._note_end(before, what, OffsetRange(end, clean.leo) if clean.leo > end else None)
        elif clean is not None and not report.findings:
            for name, there, due in (
                ("segments", report.segments, clean.segments),
                ("epochs", tuple(report.epochs), clean.epochs),
            ):
                if there != due:
                    what = f"its {name} are {there}; at the last stop, a clean one, they were {due}"
                    self._note(DAMAGE, report.directory, 0, what)

    def _is_leftover(self, file: DiskFile, segment: Segment, following: int | None) -> bool:
        """Whether a start would remove this segment because a change was not finished."""
        before, start = self._before, self._start
        if start.unfinished:
            self._note(RESET, segment.path, 0, "a reset of the log is not finished: every segment goes")
            return True
        if following is not None and following <= start.log_start:
            self._note(LEFTOVER, segment.path, 0, f"all of it lies below the log start {start.log_start}")
            return True
        if before is None or following is None or segment.base_offset >= before.end_offset:
            return False
        if not self._before_is_whole:
            # Its records may be the only ones: nothing is said that could have it removed.
            return False
        probe = Segment(self._log, segment.path, segment.base_offset, self._indexes)
        scan_past_damage(file, probe, 0)
        if probe.end_offset > before.end_offset:
            return False
        what = f"{before.path} holds its offsets: the replacement of a segment is not finished"
        self._note(LEFTOVER, segment.path, 0, what)
        return True

    def _place(self, segment: Segment) -> None:
        """Does the segment begin where the log before it ends?"""
        before, base = self._before, segment.base_offset
        if before is None:
            start = self._start.log_start
            if base > start:
                missing = segment_path(self._log, start)
                self._note(DAMAGE, missing, 0, "the file is missing", OffsetRange(start, base))
        elif base > before.end_offset:
            what = f"the segment ends at {before.end_offset}, the next one begins at {base}"
            self._note_end(before, what, OffsetRange(before.end_offset, base))
        elif base < before.end_offset:
            what = f"it begins at {base}, but {before.path} ends at {before.end_offset}"
            self._note(DAMAGE, segment.path, 0, what)

    def _note_end(self, before: Segment, what: str, lost: OffsetRange | None) -> None:
        """Something is missing behind a segment: bad bytes at its end, if there are any, are the reason."""
        findings = self._report.findings
        last = findings[-1] if findings else None
        if last is not None and (last.kind, last.path, last.byte) == (DAMAGE, before.path, before.size):
            findings[-1] = msgspec.structs.replace(last, offsets=lost)
        else:
            self._note(DAMAGE, before.path, before.size, what, lost)

    def _scan(self, file: DiskFile, segment: Segment) -> bool:
        """Scan a segment in which nothing may be bad; False if something is."""
        damage = scan_past_damage(file, segment, self._epoch)
        for lost, bad in damage:
            self._note(DAMAGE, bad.path, bad.position, bad.reason, lost if lost.end > lost.start else None)
        return not damage

    def _scan_last(self, file: DiskFile, segment: Segment) -> bool:
        """Scan what was written to when the process died: the first bad byte ends it (R14)."""
        bad = scan(file, segment, self._epoch)
        if bad is None:
            return True
        end = segment.end_offset
        synced = synced_evidence(file, bad.position, end)
        if synced > end:
            self._note(DAMAGE, bad.path, bad.position, bad.reason, OffsetRange(end, synced))
        else:
            what = f"{bad.reason}; the next start moves the rest of the file to quarantine/"
            self._note(TORN, bad.path, bad.position, what)
        return False

    def _check_index(self, segment: Segment) -> None:
        """Compare the index file with what the scan gave."""
        path = segment.index_path
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            self._note(MISSING, path, 0, "the file is missing")
            self._rebuildable.append(segment)
            return
        try:
            found = read_sturdily(file, 0, file.size())
        finally:
            file.close()
        self._progress(len(found))
        good = encode_index(self._log, segment.head, segment.index)
        if found != good:
            pairs = enumerate(zip(found, good, strict=False))
            byte = next((at for at, (there, due) in pairs if there != due), min(len(found), len(good)))
            self._note(INDEX, path, byte, self._why(path))
            self._rebuildable.append(segment)

    def _check_subjects(self, segment: Segment, changes: bool) -> None:
        """S1: whether its subject file says what the segment does. `changes`: the next start will cut it."""
        path = subjects_path(segment.path)
        if changes or not self._disk.exists(path):
            return
        # numpy comes with it.
        from liftlog.storage.inspectsubjects import problem_of

        found = stretches(self._disk, self._log, segment.base_offset, 0)
        frames = ((one.header, one.frame) for one in found if one.header is not None)
        problem = problem_of(self._disk, segment, frames)
        if problem:
            self._note(LEFTOVER, path, 0, f"a subject file that nobody believes: {problem}")

    def _why(self, path: str) -> str:
        try:
            read_index(self._disk, self._log, path)
        except CorruptIndex as error:
            return str(error).removeprefix(path).lstrip(": ")
        except OSError as error:
            return f"it cannot be read: {error.strerror}"
        return "it does not describe the segment that is there"

    def _add(self, segment: Segment) -> None:
        report = self._report
        report.end = max(report.end, segment.end_offset)
        report.records += segment.records
        report.bytes += segment.size
        report.segments += 1
        for epoch in segment.epochs:
            if not report.epochs or report.epochs[-1].epoch < epoch.epoch:
                report.epochs.append(epoch)
        if segment.epochs:
            self._epoch = segment.epochs[-1].epoch

    def _note(self, kind: str, path: str, byte: int, what: str, lost: OffsetRange | None = None) -> None:
        self._report.findings.append(LogFinding(kind, path, byte, what, lost))


class _CountedFile:
    """A file that tells how much of it was read; only what a scan calls."""

    def __init__(self, file: DiskFile, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def read_at(self, position: int, length: int) -> bytes:
        data = self._file.read_at(position, length)
        self._progress(len(data))
        return data

    def size(self) -> int:
        return self._file.size()
