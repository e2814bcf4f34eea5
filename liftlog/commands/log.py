"""`liftlog log dump|verify|repair`: look at the files of a stopped node or a closed queue, and mend them.

Verify reads every byte and writes none. Repair does only what the next start would do as well, and what can
be derived from bytes that verified: it removes unfinished files and makes indexes anew. It never cuts data,
whatever is wrong with it: bytes that are lost here are a peer's to give back, or a person's to give up.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

from liftlog.commands.common import print_json
from liftlog.commands.logdump import add_dump_parser
from liftlog.commands.logfolder import Folder, add_folder_options, open_folder
from liftlog.commands.loginspect import SETTLED, Inspection, inspect_folder
from liftlog.storage.index import write_index
from liftlog.storage.inspect import INDEX, LEFTOVER, TORN, LogFinding
from liftlog.storage.layout import CLEAN, HW, IDENTITY, LOGS, RAFT, VOTE, index_path, parent
from liftlog.terminal import Activity
from liftlog.types import LiftlogError

_QUIET_S = 2.0
_EVERY_S = 0.5


def add_parser(subparsers: Any) -> None:
    log = subparsers.add_parser("log", help="look at the files of a stopped node or a closed queue")
    kinds = log.add_subparsers(dest="kind", required=True)
    add_dump_parser(kinds)
    verify = kinds.add_parser(
        "verify",
        help="read every byte and name each damage by file and byte",
        description="Writes nothing and needs no encryption key. Exit code 1 if anything is damaged, else 0. "
        "What a crash left unfinished is named but is no damage.",
    )
    add_folder_options(verify)
    verify.set_defaults(run=run_verify)
    repair = kinds.add_parser(
        "repair",
        help="make indexes anew and remove unfinished files",
        description="Does only what cannot lose anything, and never cuts data. Exit code 1 if something is "
        "left that needs a peer, the next start, or a person.",
    )
    add_folder_options(repair)
    repair.add_argument("--dry-run", action="store_true", help="only say what would be done")
    repair.set_defaults(run=run_repair)


def run_verify(options: argparse.Namespace) -> int:
    with _inspected(options, writable=False) as (folder, found):
        if options.json:
            print_json(_summary(folder, found))
        else:
            _print_logs(found)
            for finding in found.findings:
                print(_line(finding))
            bad = len(found.bad)
            print(f"{folder.path}: {'no damage' if not bad else f'{bad} damaged'}{_and_leftovers(found)}")
        return 1 if found.bad else 0


def run_repair(options: argparse.Namespace) -> int:
    with _inspected(options, writable=not options.dry_run) as (folder, found):
        done = mend(folder, found, dry_run=options.dry_run)
        left = [finding for finding in found.bad if finding.kind != INDEX]
        if options.json:
            print_json(_summary(folder, found) | {"done": done, "left": [_json(one) for one in left]})
        else:
            for line in done:
                print(("would have " if options.dry_run else "") + line)
            for finding in left:
                print(f"left: {_line(finding)}")
                print(f"      {_remedy(finding)}")
            if not done and not left:
                print(f"{folder.path}: nothing to repair")
        return 1 if left else 0


class _inspected:
    """Opens and inspects the folder, with progress on the terminal; as a context manager."""

    def __init__(self, options: argparse.Namespace, *, writable: bool) -> None:
        self._options = options
        self._writable = writable
        self._folder: Folder | None = None

    def __enter__(self) -> tuple[Folder, Inspection]:
        options = self._options
        folder = open_folder(options.folder, options.stream, options.partition, writable=self._writable)
        self._folder = folder
        try:
            with _Progress(folder.path) as progress:
                return folder, inspect_folder(folder, progress.add)
        except OSError as error:
            folder.close()
            raise LiftlogError(f"cannot read {options.folder}: {error}") from error
        except BaseException:
            folder.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.close()
        if isinstance(error, OSError):
            raise LiftlogError(f"cannot repair {self._options.folder}: {error}") from error


class _Progress:
    """Says on a terminal how far it is, once it takes more than two seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._activity: Activity | None = None
        self._begun_s = monotonic()
        self._shown_s = 0.0
        self._done = 0
        self._total = 0

    def __enter__(self) -> _Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._activity is not None:
            self._activity.__exit__(kind, error, trace)

    def add(self, read: int) -> None:
        self._done += read
        now_s = monotonic()
        if now_s - self._begun_s < _QUIET_S or now_s - self._shown_s < _EVERY_S or not sys.stderr.isatty():
            return
        self._shown_s = now_s
        if self._activity is None:
            self._total = sum(path.stat().st_size for path in self._path.rglob("*") if path.is_file())
            self._activity = Activity().__enter__()
        self._activity.show(f"read {self._done >> 20} of {self._total >> 20} MiB")


def mend(folder: Folder, found: Inspection, *, dry_run: bool) -> list[str]:
    """What was done, or would be. Raises DiskError, SyncFailed."""
    disk, done = folder.disk, []
    for finding in found.findings:
        if finding.kind == LEFTOVER:
            done.append(f"removed {finding.path}: {finding.what}")
            if not dry_run and disk.exists(finding.path):
                # What took its place may have been put there by a process that died before that was durable.
                disk.sync_directory(parent(finding.path))
                for path in (index_path(finding.path), finding.path):
                    if disk.exists(path):
                        disk.remove(path)
                disk.sync_directory(parent(finding.path))
    for segment in found.rebuildable:
        done.append(f"made {segment.index_path} anew from {segment.path}")
        if not dry_run:
            write_index(disk, segment.log, segment.index_path, segment.head, segment.index)
            disk.sync_directory(parent(segment.path))
    return done


def _print_logs(found: Inspection) -> None:
    for report in found.reports:
        print(
            f"{report.directory}: offsets [{report.log_start}, {report.end}), {report.records} records, "
            f"{report.segments} segments, {report.bytes} bytes"
        )


def _line(finding: LogFinding) -> str:
    lost = f"; offsets {finding.offsets} cannot be read" if finding.offsets is not None else ""
    return f"{finding.kind}: {finding.path} byte {finding.byte}: {finding.what}{lost}"


def _remedy(finding: LogFinding) -> str:
    if finding.kind == TORN:
        return "a torn write: the next start cuts it off and keeps a copy"
    if finding.path in (HW, CLEAN):
        return "only a convenience: the next start does without it"
    if finding.path in (IDENTITY, LOGS, VOTE) or finding.path.startswith(RAFT):
        return "a node's memory: move the data folder away and start with an empty one, so that it rejoins"
    return "a node copies it from its peers after the next start; a queue opens with accept_loss=True"


def _and_leftovers(found: Inspection) -> str:
    count = sum(finding.kind in SETTLED for finding in found.findings)
    quarantined = f"; {found.quarantined} files of earlier damage in quarantine/" if found.quarantined else ""
    return (f"; {count} unfinished, which the next start settles" if count else "") + quarantined


def _summary(folder: Folder, found: Inspection) -> dict[str, object]:
    return {
        "folder": str(folder.path),
        "kind": folder.kind,
        "damaged": len(found.bad),
        "quarantined": found.quarantined,
        "logs": [
            {
                "log": report.directory,
                "log_start": report.log_start,
                "end_offset": report.end,
                "records": report.records,
                "segments": report.segments,
                "bytes": report.bytes,
                "epochs": [list(epoch) for epoch in report.epochs],
            }
            for report in found.reports
        ],
        "findings": [_json(finding) for finding in found.findings],
    }


def _json(finding: LogFinding) -> dict[str, object]:
    return {
        "kind": finding.kind,
        "file": finding.path,
        "byte": finding.byte,
        "what": finding.what,
        "offsets": None if finding.offsets is None else list(finding.offsets),
    }
