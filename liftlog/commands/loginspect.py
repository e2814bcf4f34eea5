"""Everything below a folder, inspected: its logs byte by byte, and the state files beside them.

State files contradict the logs where something was lost without a bad byte: a clean-stop marker that names a
longer log, an HW checkpoint or a queue's front above a log's end.
"""

from __future__ import annotations

from typing import cast

import msgspec

from liftlog.commands.logfolder import LOG, NODE, Folder
from liftlog.queue.fronts import FRONTS, SavedFronts
from liftlog.storage.inspect import (
    DAMAGE,
    LEFTOVER,
    MISSING,
    RESET,
    LogFinding,
    LogReport,
    Progress,
    inspect_log,
    inspect_state,
    leftovers,
)
from liftlog.storage.layout import (
    CLEAN,
    ENCRYPTION,
    HW,
    IDENTITY,
    LOGS,
    QUARANTINE,
    ROOT,
    VOTE,
    log_directory,
)
from liftlog.storage.logstate import CleanLog
from liftlog.storage.openlogs import EVERYTHING_OPEN
from liftlog.storage.sealing import noted_open_logs
from liftlog.storage.segment import Segment
from liftlog.types import RAFT_LOG, HardState, Identity, OffsetRange, PartitionId

SETTLED = (MISSING, LEFTOVER, RESET)
"""What a crash may leave and the next start settles: no damage."""


class Inspection(msgspec.Struct):
    """What was found below a folder."""

    reports: list[LogReport] = []
    findings: list[LogFinding] = []
    rebuildable: list[Segment] = []
    quarantined: int = 0

    @property
    def bad(self) -> list[LogFinding]:
        """What no crash leaves, and torn writes."""
        return [finding for finding in self.findings if finding.kind not in SETTLED]


def inspect_folder(folder: Folder, progress: Progress) -> Inspection:
    """Read everything. Raises UnsupportedBatch, DiskError."""
    found = Inspection()
    clean = _read_marker(folder, found)
    if folder.whole:
        if folder.kind == NODE:
            _inspect_identity(folder, found)
            _inspect_inventory(folder, clean, found)
        inspect_state(folder.disk, ENCRYPTION, None, found.findings)
        found.findings += leftovers(folder.disk, ROOT) + leftovers(folder.disk, QUARANTINE)
        found.quarantined = len(folder.disk.list(QUARANTINE))
        for log, marked in clean.items():
            if log not in folder.logs:
                what = "the log is missing; the last stop, a clean one, recorded it"
                lost = OffsetRange(0, marked.leo) if marked.leo else None
                found.findings.append(LogFinding(DAMAGE, log_directory(log), 0, what, lost))
    open_logs = EVERYTHING_OPEN if folder.kind == LOG else noted_open_logs(folder.disk)
    for log in folder.logs:
        inspected = inspect_log(folder.disk, log, clean.get(log), progress, open_logs)
        found.reports.append(inspected.report)
        found.findings += inspected.report.findings
        found.rebuildable += inspected.rebuildable
    _compare_checkpoints(folder, found)
    return found


def _read_marker(folder: Folder, found: Inspection) -> dict[PartitionId, CleanLog]:
    """What the clean-stop marker says; nothing after an unclean stop."""
    if folder.kind == LOG:
        return {}
    kind = list[CleanLog] if folder.kind == NODE else CleanLog
    content = inspect_state(folder.disk, CLEAN, kind, found.findings)
    if content is None:
        return {}
    logs = cast(list[CleanLog], content if folder.kind == NODE else [content])
    return {one.log: one for one in logs}


def _inspect_identity(folder: Folder, found: Inspection) -> None:
    used = RAFT_LOG in folder.logs
    for path, kind in ((IDENTITY, Identity), (VOTE, HardState)):
        inspect_state(folder.disk, path, kind, found.findings)
        if used and not folder.disk.exists(path):
            found.findings.append(
                LogFinding(DAMAGE, path, 0, "the file is missing although this disk was in use")
            )


def _inspect_inventory(folder: Folder, clean: dict[PartitionId, CleanLog], found: Inspection) -> None:
    """M4: what the disk is known to hold, beside what the clean-stop marker tells of."""
    content = inspect_state(folder.disk, LOGS, list[PartitionId], found.findings)
    for log in cast(list[PartitionId], content or []):
        if log not in folder.logs and log not in clean:
            what = "the log is missing; this disk is known to have held it"
            found.findings.append(LogFinding(DAMAGE, log_directory(log), 0, what))


def _compare_checkpoints(folder: Folder, found: Inspection) -> None:
    ends = {report.log: report for report in found.reports}
    if folder.kind == NODE:
        content = inspect_state(folder.disk, HW, list[tuple[PartitionId, int]], found.findings)
        for log, hw in cast(list[tuple[PartitionId, int]], content or []):
            if log in ends and hw > ends[log].end:
                _note_short(found, ends[log], hw, f"the HW checkpoint is {hw}")
    elif folder.kind != LOG:
        saved = cast(SavedFronts | None, inspect_state(folder.disk, FRONTS, SavedFronts, found.findings))
        if not folder.disk.exists(FRONTS) and any(report.end for report in found.reports):
            found.findings.append(LogFinding(DAMAGE, FRONTS, 0, "the file is missing"))
        for group, front in sorted(saved.fronts.items() if saved is not None else ()):
            for report in found.reports:
                if front > report.end:
                    _note_short(found, report, front, f"the front of group {group!r} is {front}")


def _note_short(found: Inspection, report: LogReport, due: int, why: str) -> None:
    what = f"the log ends at {report.end}, but {why}"
    found.findings.append(LogFinding(DAMAGE, report.directory, 0, what, OffsetRange(report.end, due)))
