"""`liftlog cluster recover`: a new quorum out of the disks that a total loss has left (M5).

It works on the data folders of stopped nodes. Disks of other machines take part by reports, which the same
command writes there: all that is decided follows from the reports and from what the operator states, so that
each machine decides the same.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from liftlog.commands.common import add_json_option, node_number, print_json
from liftlog.commands.logfolder import NODE, Folder, open_folder
from liftlog.commands.recoverview import losses, print_survey
from liftlog.commands.survivors import SurvivingDisk, examined, joined, recovered
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.total_loss.plan import needed_statement
from liftlog.core.total_loss.reports import DiskReport, Survivors, surveyed
from liftlog.diskkey import encryption_key
from liftlog.storage.sealing import NONCE_BYTES, Sealer
from liftlog.types import LiftlogError


def add_recover(actions: Any) -> None:
    recover = actions.add_parser(
        "recover",
        help="form a new quorum out of the disks that a total loss has left",
        description="For a cluster that decides nothing since the disks of most voters are lost. Give "
        "the data folders of all nodes whose disks are left, stopped, or reports of those on other machines. "
        "Without --yes it only says what each holds and what may be lost.",
    )
    recover.add_argument(
        "folders", metavar="FOLDER", nargs="*", type=Path, help="data folder of a stopped node"
    )
    recover.add_argument(
        "--report",
        metavar="FILE",
        action="append",
        default=[],
        type=Path,
        help="what a disk on another machine holds, as --write-report has written it there",
    )
    recover.add_argument(
        "--write-report", metavar="FILE", type=Path, help="write what the disk holds, for --report"
    )
    recover.add_argument(
        "--destroyed",
        metavar="NODE",
        action="append",
        default=[],
        type=node_number,
        help="the disk of this node is destroyed and never comes back",
    )
    how = recover.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_true", help="do it")
    how.add_argument("--dry-run", action="store_true", help="only say what would be done")
    recover.add_argument("--key-file", metavar="F", type=Path, help="key of encrypted folders")
    add_json_option(recover)
    recover.set_defaults(run=run_recover)


def run_recover(options: argparse.Namespace) -> int:
    if not options.folders and not options.report:
        raise LiftlogError("name the data folders of the nodes whose disks are left")
    if options.write_report and (len(options.folders) != 1 or options.yes):
        raise LiftlogError("--write-report takes one data folder, and changes nothing: leave --yes out")
    key = encryption_key(options.key_file, os.environ)
    sealer = None if key is None else Sealer(key, lambda: os.urandom(NONCE_BYTES))
    with ExitStack() as stack:
        disks = [_opened(folder, sealer, options.yes, stack) for folder in options.folders]
        if options.write_report:
            _write_report(options.write_report, disks[0].report)
            print(f"{options.write_report}: what {disks[0].report.name} holds, for --report elsewhere")
            return 0
        survivors = surveyed([*(disk.report for disk in disks), *map(_read_report, options.report)])
        try:
            return _carry_out(options, disks, survivors)
        except OSError as error:
            raise LiftlogError(
                f"a disk cannot be changed: {error}; make room, then say the same again"
            ) from error


def _carry_out(options: argparse.Namespace, disks: Sequence[SurvivingDisk], survivors: Survivors) -> int:
    chosen = next((disk for disk in disks if disk.report is survivors.chosen), None)
    metadata = None if chosen is None else chosen.metadata
    destroyed = sorted(set(options.destroyed))
    problem = "" if survivors.behind else needed_statement(survivors, destroyed)
    number = survivors.chosen.epoch.number
    if not options.json:
        print_survey(survivors, metadata)
    if _is_done(survivors, destroyed):
        return _say(options, survivors, metadata, f"epoch {number} has begun: start the nodes")
    if problem:
        raise LiftlogError(problem)
    if not options.yes and not options.dry_run:
        raise LiftlogError("nothing was changed: say the same with --yes to do it, with --dry-run to look")
    if survivors.behind:
        behind = ", ".join(str(disk.node) for disk in survivors.behind)
        text = f"epoch {number} has begun, and the disks of nodes {behind} follow it"
        if options.yes:
            joined(disks, survivors)
        return _say(options, survivors, metadata, text if options.yes else f"would do: {text}")
    text = f"epoch {number + 1} of the cluster begins with the disk of node {survivors.chosen.node}"
    if not options.yes:
        return _say(options, survivors, metadata, f"would do: {text}")
    recovered(disks, survivors, destroyed)
    return _say(
        options, survivors, metadata, f"{text}: start all nodes, destroyed disks replaced by empty ones"
    )


def _is_done(survivors: Survivors, destroyed: Sequence[int]) -> bool:
    """The same was said before, and all of it was done."""
    known = [survivors.chosen.knows(node) for node in destroyed]
    stated_before = all(node is not None and not node.disk for node in known)
    return (
        survivors.chosen.epoch.name != "" and survivors.has_quorum and stated_before and not survivors.behind
    )


def _say(options: argparse.Namespace, survivors: Survivors, metadata: Metadata | None, text: str) -> int:
    if options.json:
        print_json(
            {
                "chosen": survivors.chosen.node,
                "epoch": survivors.chosen.epoch.number,
                "missing": [node.node for node in survivors.missing],
                "disks": msgspec.to_builtins(survivors.disks),
                "may_be_lost": losses(survivors, metadata),
                "said": text,
            }
        )
    else:
        print(text)
    return 0


def _opened(path: Path, sealer: Sealer | None, writable: bool, stack: ExitStack) -> SurvivingDisk:
    folder = _data_folder(path, writable)
    stack.callback(folder.close)
    try:
        return examined(folder.disk, sealer, name=str(path), finish=writable)
    except OSError as error:
        raise LiftlogError(f"cannot read {path}: {error}") from error


def _data_folder(path: Path, writable: bool) -> Folder:
    folder = open_folder(path, None, None, writable=writable)
    if folder.kind != NODE:
        folder.close()
        raise LiftlogError(f"{path} is no node's data folder")
    return folder


def _write_report(path: Path, report: DiskReport) -> None:
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    except OSError as error:
        raise LiftlogError(f"cannot write {path}: {error.strerror}") from error


def _read_report(path: Path) -> DiskReport:
    try:
        return msgspec.json.decode(path.read_bytes(), type=DiskReport)
    except OSError as error:
        raise LiftlogError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LiftlogError(
            f"{path} is no report of 'liftlog cluster recover --write-report': {error}"
        ) from None
