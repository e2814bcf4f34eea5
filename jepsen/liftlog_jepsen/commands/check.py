"""`liftlog jepsen check`: judge recorded histories on Spark.

Exit codes: 0 valid; 1 invalid; 2 unknown, or the check could not run, with one line that says why.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from liftlog.terminal import Activity
from liftlog.types import LiftlogError
from liftlog_jepsen.commands import foreign
from liftlog_jepsen.commands.logs import Source, run, with_pictures
from liftlog_jepsen.commands.shared import (
    add_judging,
    add_session,
    require_allowed,
    require_master,
    stdout_console,
)
from liftlog_jepsen.jsonl import read_jsonl
from liftlog_jepsen.report.page import write_html
from liftlog_jepsen.report.text import overall_exit_code, overall_verdict, print_results
from liftlog_jepsen.result import CheckResult
from liftlog_jepsen.store import JSONL_NAME, PARQUET_NAME, find_history

REPORT_NAME = "report.html"


def add_parser(verbs: Any) -> None:
    """Add the verb `check`."""
    check = verbs.add_parser(
        "check",
        help="judge a recorded history",
        description="Judge a recorded history of a log on Spark. Exit code 0 valid, 1 invalid, 2 unknown.",
    )
    check.add_argument(
        "history",
        type=Path,
        nargs="*",
        metavar="HISTORY",
        help="a .jsonl file, a Parquet folder, or a run folder of the store; files of other tools",
    )
    add_session(check)
    check.add_argument(
        "--json", action="store_true", help="JSON instead of text: for other tools' files one line each"
    )
    html = check.add_mutually_exclusive_group()
    html.add_argument(
        "--html", type=Path, metavar="FILE", help="the HTML report (default: beside the history)"
    )
    html.add_argument("--no-html", action="store_true", help="write no HTML report")
    add_judging(check)
    check.add_argument(
        "--examples", type=int, default=5, metavar="N", help="examples of each anomaly (default 5)"
    )
    check.add_argument(
        "--unseen",
        choices=("final", "all"),
        default="final",
        help="which acknowledged values must have been read: those before a final read (default), or all",
    )
    check.add_argument(
        "--sub-via",
        choices=("assign", "subscribe", "both"),
        default="assign",
        help="how readers got their logs (default assign); with the others, a rebalance may skip or go back",
    )
    check.add_argument(
        "--cycles", action="store_true", help="search for cycles between the operations, too: G0 and G1c"
    )
    check.add_argument(
        "--ww-deps", action="store_true", help="with --cycles, the order of offsets is a dependency"
    )
    check.add_argument(
        "--salvage",
        action="store_true",
        help="drop a torn last line, which a dying recorder left, instead of refusing",
    )
    foreign.add_arguments(check)
    check.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    _require_options(arguments)
    if foreign.is_foreign(arguments):
        return foreign.check_foreign(arguments)
    foreign.refuse_options(arguments)
    if len(arguments.history) != 1:
        raise LiftlogError("one history of our own at a time; for files of other tools, give --format")
    found = find_history(arguments.history[0])
    report = None if arguments.no_html else _report_path(arguments.html, found)
    from liftlog_jepsen.spark.session import require_spark

    require_spark(arguments.master)
    with tempfile.TemporaryDirectory(prefix="liftlog-jepsen-") as temporary, Activity() as activity:
        activity.show("reading the history")
        source = _as_parquet(found, arguments.salvage, Path(temporary))
        results = run(source, arguments, str(found), Path(temporary), activity)
        if report is not None:
            activity.show("writing the report")
            results = with_pictures(results, source)
            write_html(results, report)
    if arguments.json:
        print(json.dumps(_as_json(results, report), ensure_ascii=False, indent=2))
    else:
        print_results(stdout_console(), results, report)
    return overall_exit_code(results)


def _require_options(arguments: argparse.Namespace) -> None:
    require_allowed(arguments)
    if arguments.ww_deps and not arguments.cycles:
        raise LiftlogError("--ww-deps is about cycles: give --cycles, too")
    require_master(arguments)
    if not 1 <= arguments.examples <= 1000:
        raise LiftlogError(f"--examples {arguments.examples}: give a number from 1 to 1000")


def _report_path(asked: Path | None, history: Path) -> Path:
    """Where the report goes: as asked, into the run folder, or beside the history. It must be writable."""
    if asked is not None:
        path = asked
    elif history.name in (JSONL_NAME, PARQUET_NAME):
        path = history.parent / REPORT_NAME
    else:
        path = history.with_suffix(".html")
    folder = path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or path.is_dir():
        raise LiftlogError(
            f"cannot write the report {path}: choose another place with --html, or give --no-html"
        )
    return path


def _as_parquet(found: Path, salvage: bool, temporary: Path) -> Source:
    """The history as a Parquet folder; a JSONL file is converted into one below `temporary`."""
    from liftlog_jepsen.parquet import read_info, write_parquet
    from liftlog_jepsen.validation import validate_folder

    if found.is_dir():
        return Source(found, validate_folder(found))
    folder = temporary / PARQUET_NAME
    write_parquet(read_jsonl(found, salvage=salvage), folder)
    return Source(folder, read_info(folder))


def _as_json(results: Sequence[CheckResult], report: Path | None) -> dict[str, object]:
    """One history: its result. Several: the worst verdict and all results."""
    place = None if report is None else str(report)
    if len(results) == 1:
        return {**results[0].as_json(), "report": place}
    return {
        "verdict": overall_verdict(results),
        "histories": [result.as_json() for result in results],
        "report": place,
    }
