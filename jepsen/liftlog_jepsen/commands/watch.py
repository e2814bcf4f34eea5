"""`liftlog jepsen watch`: judge histories while they are being written, and once more when they have ended.

Exit codes are those of `check`: 0 valid; 1 invalid; 2 unknown, or it could not run, with one line that says
why.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from liftlog.terminal import Activity
from liftlog.types import LiftlogError
from liftlog_jepsen.commands.shared import (
    add_judging,
    add_session,
    require_allowed,
    require_master,
    stdout_console,
)
from liftlog_jepsen.jsonl import read_jsonl
from liftlog_jepsen.report.text import overall_exit_code, print_results
from liftlog_jepsen.result import CheckResult

if TYPE_CHECKING:
    from liftlog_jepsen.spark.check import CheckOptions

Counted = Mapping[str, Mapping[str, int]]
"""Anomalies by history and name."""


def add_parser(verbs: Any) -> None:
    """Add the verb `watch`."""
    parser = verbs.add_parser(
        "watch",
        help="judge histories while they are written",
        description=(
            "Follow the histories below a folder, JSONL that grows and Parquet that arrives: say what is "
            "found as it is found, and judge the whole when every history has its end. Exit code 0 valid, "
            "1 invalid, 2 unknown."
        ),
    )
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="the folder that histories are written into"
    )
    add_session(parser)
    add_judging(parser)
    parser.add_argument(
        "--late",
        type=int,
        default=100_000,
        metavar="N",
        help="records of a log after which what is untouched is forgotten until the end (default 100000)",
    )
    parser.add_argument(
        "--every", type=float, default=2.0, metavar="SECONDS", help="pause between two looks (default 2)"
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=float,
        metavar="SECONDS",
        help="stop after this time (default: when every history has its end, or at Ctrl-C)",
    )
    parser.add_argument(
        "--state", type=Path, metavar="DIR", help="keep the state here, to go on later (default: nowhere)"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line: what is found, then results"
    )
    parser.set_defaults(run=_watch)


def _watch(arguments: argparse.Namespace) -> int:
    _require_options(arguments)
    from liftlog_jepsen.spark.check import CheckOptions
    from liftlog_jepsen.spark.run import running
    from liftlog_jepsen.spark.session import require_spark

    require_spark(arguments.master)
    options = CheckOptions(arguments.gaps, frozenset(arguments.allow))
    temporary = Path(tempfile.mkdtemp(prefix="liftlog-watch-"))
    try:
        with (
            Activity() as activity,
            running(
                arguments.master,
                arguments.driver_memory,
                source=str(arguments.folder),
                java_log=temporary / "java.log",
                show=activity.show,
            ) as (session, _),
        ):
            _follow(session, arguments, arguments.state or temporary / "state", activity.show)
            activity.show("checking the whole")
            results = check_all(session, arguments.folder, options, temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if arguments.json:
        for result in results:
            print(json.dumps(result.as_json(), ensure_ascii=False))
    else:
        print_results(stdout_console(), results, None)
    return overall_exit_code(results)


def _require_options(arguments: argparse.Namespace) -> None:
    if not arguments.folder.is_dir():
        raise LiftlogError(f"{arguments.folder} is no folder: give the one that histories are written into")
    require_allowed(arguments)
    require_master(arguments)
    for name, value in (("late", arguments.late), ("every", arguments.every)):
        if value <= 0:
            raise LiftlogError(f"--{name} {value}: give a number above 0")


def _follow(session: Any, arguments: argparse.Namespace, state: Path, show: Callable[[str], None]) -> None:
    """Until the histories have ended, the time is up, or Ctrl-C."""
    from liftlog_jepsen.online.files import is_complete
    from liftlog_jepsen.spark.streaming import progress, so_far, watch

    folder, allowed = arguments.folder, frozenset(arguments.allow)
    query = watch(session, folder, state, late=arguments.late, gaps=arguments.gaps, every_s=arguments.every)
    started = time.monotonic()
    told: Counted = {}
    try:
        ended = False
        while not ended:
            # What is complete now is judged by the time that all that is there has been.
            ended = is_complete(folder)
            ended |= arguments.seconds is not None and time.monotonic() - started >= arguments.seconds
            if ended:
                query.processAllAvailable()
            elif query.awaitTermination(arguments.every):
                break  # it failed: awaitTermination has raised, or somebody stopped it
            now = so_far(session, state)
            if now != told:
                _tell(now, arguments.json)
                told = now
            batches, records = progress(query)
            show(f"batch {batches}, {records:,} records; {in_words(told, allowed)}")
    except KeyboardInterrupt:
        show("stopping")
    finally:
        query.stop()


def _tell(found: Counted, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"so_far": found}, ensure_ascii=False), flush=True)
        return
    for history, names in found.items():
        print(
            f"{history}: so far {', '.join(f'{name} {count}' for name, count in names.items())}", flush=True
        )


def in_words(found: Counted, allowed: frozenset[str]) -> str:
    """The online verdict."""
    counting = {name for names in found.values() for name in names} - allowed
    return f"invalid so far: {', '.join(sorted(counting))}" if counting else "nothing found so far"


def check_all(session: Any, folder: Path, options: CheckOptions, temporary: Path) -> list[CheckResult]:
    """The check of every history below `folder` as it is now; a last line that is not whole is left out.

    Raises LiftlogError if there is none, or two have one name.
    """
    from liftlog_jepsen.online.files import MOPS, sizes
    from liftlog_jepsen.parquet import write_parquet
    from liftlog_jepsen.spark.check import check
    from liftlog_jepsen.spark.frames import read_frames
    from liftlog_jepsen.spark.run_promises import with_promises
    from liftlog_jepsen.validation import validate_folder

    paths = [Path(path) for path, size in sizes(str(folder)).items() if size]
    if not paths:
        raise LiftlogError(f"no history in {folder}: expected *.jsonl files or Parquet histories")
    lines = [read_jsonl(path, salvage=True) for path in paths if path.name != MOPS]
    folders = [path.parent for path in paths if path.name == MOPS]
    if lines:
        write_parquet(lines, temporary / "histories")
        folders.append(temporary / "histories")
    results: list[CheckResult] = []
    for one in folders:
        info = validate_folder(one)
        incomplete = frozenset(each.name for each in info.histories if not each.complete)
        frames = read_frames(session, one)
        judged = check(frames, options, source=str(folder), incomplete=incomplete)
        results += with_promises(judged, frames, options)
    return sorted(results, key=lambda result: result.history)
