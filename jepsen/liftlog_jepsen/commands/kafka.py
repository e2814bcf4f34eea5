"""`liftlog jepsen check --model kafka`: logs that jepsen.tests.kafka, or what writes like it, has recorded.

They become histories of our own form (docs/history-format.md), and the log checks judge them all at once.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from liftlog.terminal import Activity
from liftlog_jepsen.commands.convert import is_converted, read_converted
from liftlog_jepsen.commands.logs import Source, run, with_pictures
from liftlog_jepsen.commands.shared import stdout_console
from liftlog_jepsen.events import BadHistory
from liftlog_jepsen.foreign.reading import Conventions, read_events
from liftlog_jepsen.models import KAFKA
from liftlog_jepsen.result import INVALID, VALID, CheckResult

VERDICTS: Mapping[str, bool | str] = {VALID: True, INVALID: False}


class Asked(Protocol):
    """A file, or a folder that `convert` wrote, and the name of its format."""

    @property
    def file(self) -> str: ...

    @property
    def format(self) -> str: ...


class FileResult(NamedTuple):
    """What there is to say about one file: a result, or why there is none."""

    file: str
    format: str
    result: CheckResult | None
    error: str | None

    @property
    def exit_code(self) -> int:
        return 2 if self.result is None else self.result.exit_code


def check_logs(arguments: argparse.Namespace, asked: Sequence[Asked]) -> int:
    """The command for logs. Exit codes are those of `check`."""
    with tempfile.TemporaryDirectory(prefix="liftlog-jepsen-") as temporary, Activity() as activity:
        told = _judge(arguments, asked, Path(temporary), activity)
    if arguments.json:
        for one in told:
            print(json.dumps(as_json(one), ensure_ascii=False))
    else:
        _print(told, arguments.html)
    codes = {one.exit_code for one in told}
    return 1 if 1 in codes else max(codes)


def as_json(told: FileResult) -> dict[str, Any]:
    """One line of `--json`, as other models have it."""
    line: dict[str, Any] = {"file": told.file, "format": told.format, "model": KAFKA}
    if told.result is None:
        return line | {
            "verdict": "unknown",
            "anomalies": [],
            "operations": 0,
            "seconds": 0.0,
            "error": told.error,
        }
    whole = told.result.as_json()
    found: Any = whole["anomalies"]
    line |= {
        "verdict": VERDICTS.get(told.result.verdict, "unknown"),
        "anomalies": [finding for finding in found if finding["failing"]],
        "operations": told.result.operations,
        "seconds": round(told.result.check_s, 3),
    }
    allowed = sorted(finding["anomaly"] for finding in found if not finding["failing"])
    if allowed:
        line["allowed"] = allowed
    if told.result.reasons:
        line["reasons"] = list(told.result.reasons)
    return line


def _judge(
    arguments: argparse.Namespace, asked: Sequence[Asked], temporary: Path, activity: Activity
) -> list[FileResult]:
    from liftlog_jepsen.log.from_events import to_history
    from liftlog_jepsen.parquet import read_info, write_parquet

    histories = {}
    told: dict[str, FileResult] = {}
    names: dict[str, str] = {}
    for job in asked:
        activity.show(f"reading {job.file}")
        try:
            if is_converted(job.file):
                read = list(read_converted(Path(job.file)))
            else:
                read = [(job.file, *read_events(job.file, job.format, Conventions()))]
            for file, format, events in read:
                histories[file] = to_history(events, file)
                names[file] = format
        except BadHistory as problem:
            words = str(problem)
            said = words if words.startswith((job.file, "cannot read")) else f"{job.file}: {words}"
            told[job.file] = FileResult(job.file, job.format, None, said)
    results: list[CheckResult] = []
    if histories:
        folder = temporary / "histories"
        write_parquet(list(histories.values()), folder)
        source = Source(folder, read_info(folder))
        first, *others = histories
        name = f"{first} and {len(others)} more" if others else first
        results = run(source, arguments, name, temporary, activity)
        if arguments.html is not None:
            from liftlog_jepsen.report.page import write_html

            activity.show("writing the report")
            results = with_pictures(results, source)
            write_html(results, arguments.html)
    for result in results:
        told[result.history] = FileResult(result.history, names[result.history], result, None)
    for file in histories:
        if file not in told:
            told[file] = FileResult(
                file, names[file], None, f"{file}: expected operations of clients, found none"
            )
    order = [*(job.file for job in asked), *histories]
    return [told[file] for file in dict.fromkeys(order) if file in told]


def _print(told: Sequence[FileResult], report: Path | None) -> None:

    from liftlog_jepsen.report.text import print_results

    console = stdout_console()
    results = [one.result for one in told if one.result is not None]
    if results:
        print_results(console, results, report)
    for one in told:
        if one.error is not None:
            console.print(f"BROKEN  {one.error}", markup=False, soft_wrap=True)
