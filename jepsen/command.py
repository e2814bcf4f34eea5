"""`liftlog jepsen`: check recorded histories on Spark.

Exit codes: 0 valid; 1 invalid; 2 unknown, or the check could not run, with one line that says why.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from jepsen.history import History
from jepsen.html_report import write_html
from jepsen.jsonl import read_jsonl
from jepsen.report import overall_exit_code, overall_verdict, print_results
from jepsen.result import MEANINGS, CheckResult
from jepsen.store import JSONL_NAME, PARQUET_NAME, find_history
from liftlog.terminal import Activity
from liftlog.types import LiftlogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT_NAME = "report.html"
SESSION_DEFAULTS = ("local[2]", "4g")


def add_parser(subparsers: Any) -> None:
    """Add `jepsen` and its verbs."""
    jepsen = subparsers.add_parser("jepsen", help="check histories on Spark")
    verbs = jepsen.add_subparsers(dest="verb", required=True)
    check = verbs.add_parser(
        "check",
        help="judge a recorded history",
        description="Judge a recorded history of a log on Spark. Exit code 0 valid, 1 invalid, 2 unknown.",
    )
    check.add_argument(
        "history",
        type=Path,
        metavar="HISTORY",
        help="a .jsonl file, a Parquet folder, or a run folder of the store",
    )
    master, memory = SESSION_DEFAULTS
    check.add_argument("--master", default=master, metavar="URL", help=f"Spark master (default {master})")
    check.add_argument(
        "--driver-memory", default=memory, metavar="SIZE", help=f"memory of Spark's driver (default {memory})"
    )
    check.add_argument("--json", action="store_true", help="one JSON object instead of text")
    html = check.add_mutually_exclusive_group()
    html.add_argument(
        "--html", type=Path, metavar="FILE", help="the HTML report (default: beside the history)"
    )
    html.add_argument("--no-html", action="store_true", help="write no HTML report")
    check.add_argument(
        "--gaps",
        choices=("known", "any"),
        default="known",
        help="what a reader must not pass over: offsets known to exist (default), or any offset at all",
    )
    check.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="ANOMALY",
        help="report this anomaly, but do not count it; may be given several times",
    )
    check.add_argument(
        "--examples", type=int, default=5, metavar="N", help="examples of each anomaly (default 5)"
    )
    check.add_argument(
        "--salvage",
        action="store_true",
        help="drop a torn last line, which a dying recorder left, instead of refusing",
    )
    check.set_defaults(run=_check)


class Source(NamedTuple):
    """A history as Spark will read it."""

    folder: Path
    incomplete: frozenset[str]


def _check(arguments: argparse.Namespace) -> int:
    _require_options(arguments)
    found = find_history(arguments.history)
    report = None if arguments.no_html else _report_path(arguments.html, found)
    from jepsen.spark.session import require_java, require_packages

    require_packages()
    if arguments.master.startswith("local"):
        require_java()
    with contextlib.ExitStack() as stack:
        activity = stack.enter_context(Activity())
        activity.show("reading the history")
        source = stack.enter_context(_as_parquet(found, arguments.salvage))
        activity.show(f"starting Spark on {arguments.master}")
        session = stack.enter_context(_session(arguments))
        activity.show("checking")
        results = _run(session, source, arguments, str(found), report is not None)
    if report is not None:
        write_html(results, report)
    if arguments.json:
        print(json.dumps(_as_json(results, report), ensure_ascii=False, indent=2))
    else:
        print_results(Console(highlight=False), results, report)
    return overall_exit_code(results)


def _require_options(arguments: argparse.Namespace) -> None:
    for name in arguments.allow:
        if name not in MEANINGS:
            raise LiftlogError(f"--allow {name}: there is no such anomaly; there are {', '.join(MEANINGS)}")
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


@contextlib.contextmanager
def _as_parquet(found: Path, salvage: bool) -> Iterator[Source]:
    """The validated history as a Parquet folder; a JSONL file is converted into a temporary one."""
    from jepsen.parquet import read_info, write_parquet

    if found.is_dir():
        info = read_info(found)
        yield Source(found, frozenset(one.name for one in info.histories if not one.complete))
        return
    history: History = read_jsonl(found, salvage=salvage)
    with tempfile.TemporaryDirectory(prefix="liftlog-jepsen-") as temporary:
        folder = Path(temporary) / PARQUET_NAME
        write_parquet(history, folder)
        yield Source(folder, frozenset() if history.complete else frozenset((history.name,)))


@contextlib.contextmanager
def _session(arguments: argparse.Namespace) -> Iterator[SparkSession]:
    from jepsen.spark.session import start_session, stop_session

    session = start_session(arguments.master, arguments.driver_memory)
    try:
        yield session
    finally:
        stop_session(session)


def _run(
    session: SparkSession, source: Source, arguments: argparse.Namespace, name: str, pictures: bool
) -> list[CheckResult]:
    from jepsen.spark.check import CheckOptions, check
    from jepsen.spark.frames import read_frames

    options = CheckOptions(arguments.gaps, frozenset(arguments.allow), arguments.examples)
    frames = read_frames(session, source.folder)
    return check(frames, options, source=name, incomplete=source.incomplete)


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
