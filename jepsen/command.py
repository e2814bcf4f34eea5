"""`liftlog jepsen`: check recorded histories on Spark.

Exit codes: 0 valid; 1 invalid; 2 unknown, or the check could not run, with one line that says why.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from jepsen.generate import PLANTABLE, fill, plant
from jepsen.history import HistoryWriter
from jepsen.html_report import write_html
from jepsen.jsonl import read_jsonl, write_jsonl
from jepsen.report import overall_exit_code, overall_verdict, print_results
from jepsen.result import MEANINGS, CheckResult
from jepsen.store import JSONL_NAME, PARQUET_NAME, find_history
from liftlog.terminal import Activity
from liftlog.types import LiftlogError

if TYPE_CHECKING:
    from jepsen.parquet import FolderInfo

REPORT_NAME = "report.html"
MASTER = re.compile(r"local(-cluster)?(\[.+\])?$|spark://.+|k8s://.+|yarn$")
LARGE_MOPS = 10_000_000
"""From here on a Java process that takes longer to start but runs faster pays off."""
WIDTH_WITHOUT_TERMINAL = 140
PICTURES_MAX = 8
"""Histories of one folder that the HTML report shows with plots and a timeline."""
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
    _add_generate(verbs)


def _add_generate(verbs: Any) -> None:
    generate = verbs.add_parser(
        "generate",
        help="make up a history, valid or with planted anomalies",
        description="Make up the history of a correct log, or one with anomalies, to try or measure checks.",
    )
    generate.add_argument("path", type=Path, metavar="PATH", help="a new FILE.jsonl, or a new Parquet folder")
    for name, default, words in (
        ("sends", 1000, "values sent"),
        ("keys", 2, "logs"),
        ("readers", 3, "processes that read everything at the end"),
        ("batch", 100, "records of a poll, and sends that are open at a time"),
    ):
        generate.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{words} (default {default})"
        )
    generate.add_argument(
        "--plant",
        action="append",
        default=[],
        metavar="ANOMALY",
        help="plant this anomaly on a log of its own, or 'all' of them; may be given several times",
    )
    generate.set_defaults(run=_generate)


def _generate(arguments: argparse.Namespace) -> int:
    for name in ("sends", "keys", "readers", "batch"):
        if getattr(arguments, name) < 1:
            raise LiftlogError(f"--{name} {getattr(arguments, name)}: give a number of 1 or more")
    planted = list(PLANTABLE) if "all" in arguments.plant else arguments.plant
    for name in planted:
        if name not in PLANTABLE:
            raise LiftlogError(f"--plant {name}: there is no such anomaly; there are {', '.join(PLANTABLE)}")
    milliseconds = itertools.count(0, 1_000_000)
    writer = HistoryWriter(
        arguments.path.stem, clock_ns=lambda: next(milliseconds), meta={"planted": ", ".join(planted)}
    )
    with Activity() as activity:
        activity.show(f"generating {arguments.sends:,} sends")
        keys = [f"log/{number}" for number in range(arguments.keys)]
        fill(writer, keys, arguments.sends, arguments.readers, arguments.batch)
        for name in planted:
            plant(writer, name, f"planted/{name}")
        history = writer.close()
        activity.show(f"writing {arguments.path}")
        if arguments.path.suffix == ".jsonl":
            write_jsonl(history, arguments.path)
        else:
            from jepsen.parquet import write_parquet

            write_parquet(history, arguments.path)
    print(f"wrote {arguments.path}: {len(history):,} operations")
    return 0


class Source(NamedTuple):
    """A validated history as Spark will read it."""

    folder: Path
    info: FolderInfo

    @property
    def incomplete(self) -> frozenset[str]:
        return frozenset(one.name for one in self.info.histories if not one.complete)


def _check(arguments: argparse.Namespace) -> int:
    _require_options(arguments)
    found = find_history(arguments.history)
    report = None if arguments.no_html else _report_path(arguments.html, found)
    from jepsen.spark.session import require_java, require_packages

    require_packages()
    if arguments.master.startswith("local"):
        require_java()
    with tempfile.TemporaryDirectory(prefix="liftlog-jepsen-") as temporary, Activity() as activity:
        activity.show("reading the history")
        source = _as_parquet(found, arguments.salvage, Path(temporary))
        results = _run(source, arguments, str(found), Path(temporary), activity)
        if report is not None:
            activity.show("writing the report")
            results = _with_pictures(results, source)
            write_html(results, report)
    if arguments.json:
        print(json.dumps(_as_json(results, report), ensure_ascii=False, indent=2))
    else:
        width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
        print_results(Console(highlight=False, width=width), results, report)
    return overall_exit_code(results)


def _require_options(arguments: argparse.Namespace) -> None:
    for name in arguments.allow:
        if name not in MEANINGS:
            raise LiftlogError(f"--allow {name}: there is no such anomaly; there are {', '.join(MEANINGS)}")
    if not MASTER.match(arguments.master):
        raise LiftlogError(
            f"--master {arguments.master} is no Spark master: give local[2], spark://HOST:PORT, yarn or k8s://URL"
        )
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
    from jepsen.parquet import read_info, write_parquet
    from jepsen.validation import validate_folder

    if found.is_dir():
        return Source(found, validate_folder(found))
    folder = temporary / PARQUET_NAME
    write_parquet(read_jsonl(found, salvage=salvage), folder)
    return Source(folder, read_info(folder))


def _run(
    source: Source, arguments: argparse.Namespace, name: str, temporary: Path, activity: Activity
) -> list[CheckResult]:
    from jepsen.parquet import count_mops
    from jepsen.spark.check import CheckOptions
    from jepsen.spark.run import check_folder

    return check_folder(
        source.folder,
        CheckOptions(arguments.gaps, frozenset(arguments.allow), arguments.examples),
        master=arguments.master,
        driver_memory=arguments.driver_memory,
        source=name,
        incomplete=source.incomplete,
        java_log=temporary / "java.log",
        show=activity.show,
        quick=count_mops(source.folder) < LARGE_MOPS,
    )


def _with_pictures(results: list[CheckResult], source: Source) -> list[CheckResult]:
    """Add the pictures of the first few histories, those that are not valid first."""
    from jepsen.picture import draw

    meta = {one.name: one.meta for one in source.info.histories}
    worst_first = sorted(results, key=lambda one: one.exit_code == 0)
    drawn = {one.history for one in worst_first[:PICTURES_MAX]}
    return [
        one._replace(picture=draw(source.folder, one, meta.get(one.history, {})))
        if one.history in drawn
        else one
        for one in results
    ]


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
