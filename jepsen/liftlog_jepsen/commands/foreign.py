"""`liftlog jepsen check --format … --model …`: histories of other tools, many in one Spark session.

Exit codes: 0 all valid; 1 some invalid; 2 none invalid, but some unknown or not checked.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from liftlog.terminal import Activity
from liftlog.types import LiftlogError
from liftlog_jepsen.commands.convert import OPERATIONS_FILE, is_converted
from liftlog_jepsen.commands.kafka import check_logs
from liftlog_jepsen.commands.shared import stdout_console
from liftlog_jepsen.events import INTERVALS, BadHistory, pair
from liftlog_jepsen.foreign.reading import Conventions, read_events
from liftlog_jepsen.formats import AUTO, FORMATS, find_format
from liftlog_jepsen.formats.options import FAIL_CASES, NIL_READS
from liftlog_jepsen.judgement import Budget, Judgement
from liftlog_jepsen.models import KAFKA, NAMES, find_model, is_settled
from liftlog_jepsen.report.foreign import ForeignResult, from_history

if TYPE_CHECKING:
    from liftlog_jepsen.foreign.judging import JudgedPart, Task

WHOLE_BYTES = 8 << 20
"""Files up to this size are read once more for the HTML report, which then shows the whole run."""
WHOLE_FILES = 8
CONVENTIONS = ("initial", "nil_read", "fail_cas", "intervals", "consistency_model")


def add_arguments(check: argparse.ArgumentParser) -> None:
    """Add the options of histories of other tools to the verb `check`."""
    group = check.add_argument_group(
        "histories of other tools", "see docs/checking.md; conventions default to those of the format"
    )
    group.add_argument("--format", metavar="F", help=f"{AUTO} (find out), or one of {', '.join(FORMATS)}")
    group.add_argument(
        "--model",
        metavar="M",
        help=f"auto (if the functions leave no doubt), FILE.py:NAME, or one of {', '.join(NAMES)}",
    )
    group.add_argument("--initial", metavar="EDN", help="the value of a register before anybody wrote")
    group.add_argument("--nil-read", choices=NIL_READS, help="what a read of nil says")
    group.add_argument("--fail-cas", choices=FAIL_CASES, help="what a failed compare-and-set says")
    group.add_argument("--intervals", choices=INTERVALS, help="whether operations that touch overlap")
    group.add_argument("--consistency-model", metavar="M", help="what transactions are held against")
    group.add_argument(
        "--independent", action="store_true", help="values are [key value], each key is a history"
    )
    group.add_argument(
        "--whole", action="store_true", help="read a large file in one piece: events need not be one a line"
    )
    group.add_argument(
        "--batch",
        type=Path,
        metavar="LIST",
        help="check the files of a list, each with options of its own, as one: see docs/checking.md",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=EDN",
        help="a setting of the check, such as total=100 for bank; may be given several times",
    )
    seconds, states = Budget()
    group.add_argument(
        "--budget-seconds",
        type=float,
        default=seconds,
        metavar="S",
        help=f"time for one search, then unknown; 0 = no limit (default {seconds:g})",
    )
    group.add_argument(
        "--budget-states",
        type=int,
        default=states,
        metavar="N",
        help=f"states that one search may keep, about 200 bytes each (default {states:,})",
    )


def is_foreign(arguments: argparse.Namespace) -> bool:
    """Whether the command line is about histories of other tools."""
    return arguments.format is not None or arguments.model is not None or arguments.batch is not None


def refuse_options(arguments: argparse.Namespace) -> None:
    """Raise LiftlogError if an option was given that only histories of other tools have."""
    for name in (
        "initial",
        "nil_read",
        "fail_cas",
        "intervals",
        "consistency_model",
        "independent",
        "whole",
        "set",
    ):
        if getattr(arguments, name):
            option = name.replace("_", "-")
            raise LiftlogError(f"--{option} is for histories of other tools: give --format, too")


def check_foreign(arguments: argparse.Namespace) -> int:
    """The command."""
    from liftlog_jepsen.spark.session import require_spark

    jobs, refused = _jobs(arguments)
    if arguments.html is not None:
        _require_writable(arguments.html)
    logs = [job for job in jobs if job.task.model.name == KAFKA]
    if refused and (logs or not jobs):
        raise LiftlogError(refused[0].error or "")
    require_spark(arguments.master)
    if logs:
        if len(logs) < len(jobs):
            raise LiftlogError(f"--model {KAFKA} is a check of its own: check its files in another call")
        return check_logs(arguments, logs)
    with tempfile.TemporaryDirectory(prefix="liftlog-jepsen-") as temporary, Activity() as activity:
        results = [*_judge(arguments, jobs, Path(temporary), activity.show), *refused]
        if arguments.html is not None:
            from liftlog_jepsen.report.foreign_page import write_foreign_html

            activity.show("writing the report")
            write_foreign_html(_with_whole_runs(results, jobs), arguments.html)
    if arguments.json:
        asked = {job.file: job.task.model.name for job in jobs}
        for result in results:
            print(json.dumps(as_json(result, asked.get(result.file, AUTO)), ensure_ascii=False))
    else:
        from liftlog_jepsen.report.foreign_text import print_foreign

        print_foreign(stdout_console(), results)
        if arguments.html is not None:
            print(f"report: {arguments.html}")
    return exit_code(results)


def exit_code(results: Sequence[ForeignResult]) -> int:
    """1 with any invalid history, else 2 with any that is unknown or was not checked, else 0."""
    if any(one.judgement.valid is False and one.error is None for one in results):
        return 1
    return 0 if all(one.judgement.valid and one.error is None for one in results) else 2


def as_json(result: ForeignResult, asked: str = AUTO) -> dict[str, Any]:
    """One line of `--json`. `asked`: the model that the caller named; of a name with two meanings, `checker`
    says which was meant.
    """
    judgement = result.judgement
    known = result.error is None and judgement.valid is not None
    line: dict[str, Any] = {
        "file": result.file,
        "format": result.format,
        "model": result.model if asked == AUTO else asked,
        "verdict": judgement.valid if known else "unknown",
        "anomalies": _anomalies(judgement),
        "operations": result.total,
        "seconds": round(result.seconds, 3),
    }
    if line["model"] != result.model:
        line["checker"] = result.model
    if judgement.allowed:
        line["allowed"] = sorted({problem.anomaly for problem in judgement.allowed})
    if judgement.reasons:
        line["reasons"] = list(judgement.reasons)
    if result.error is not None:
        line["error"] = result.error
    return line


def _anomalies(judgement: Judgement) -> list[dict[str, Any]]:
    by_name = {
        name: list(some)
        for name, some in groupby(
            sorted(judgement.problems, key=lambda one: one.anomaly), key=lambda one: one.anomaly
        )
    }
    return [
        {
            "anomaly": name,
            "count": max(len(some), judgement.totals.get(name, 0)),
            "examples": [
                {
                    "key": problem.key,
                    "operations": list(problem.operations),
                    "words": problem.words,
                    **({"detail": problem.detail} if problem.detail else {}),
                }
                for problem in some
            ],
        }
        for name, some in by_name.items()
    ]


class Job(NamedTuple):
    """One file, or a folder that `convert` wrote, and how to judge it."""

    file: str
    format: str
    task: Task


BATCH_KINDS: dict[str, type | tuple[type, ...]] = {
    "independent": bool,
    "set": list,
    "budget_seconds": (int, float),
    "budget_states": int,
}
"""What options of a batch are, if not text."""
BATCH_NAMES = frozenset(("file", "format", "model", *CONVENTIONS, *BATCH_KINDS))


def _jobs(arguments: argparse.Namespace) -> tuple[list[Job], list[ForeignResult]]:
    """What to do, refused before Spark starts if the command line is wrong; and the files of a batch whose
    own options are wrong, each with what is: they do not keep the others from being checked.
    """
    said = vars(arguments)
    jobs = [_job(str(path), said) for path in arguments.history]
    refused = []
    if arguments.batch is not None:
        for number, line in enumerate(_lines(arguments.batch), 1):
            where = f"{arguments.batch} line {number}"
            file = where
            try:
                own = _own_options(line)
                file = str(arguments.batch.parent / own["file"])
                _require_known(own)
                jobs.append(_job(file, said | own))
            except LiftlogError as error:
                refused.append(
                    ForeignResult(file, AUTO, "", Judgement(None), (), 0, 0.0, error=f"{where}: {error}")
                )
    if not jobs and not refused:
        raise LiftlogError("which histories? give their files, or a list of them with --batch")
    seen: dict[str, Job] = {}
    for job in jobs:
        if seen.setdefault(job.file, job) != job:
            raise LiftlogError(f"{job.file} is there twice, with different options: check it twice")
    return jobs, refused


def _own_options(line: str) -> dict[str, Any]:
    """What a line of a batch says."""
    try:
        own = json.loads(line)
    except ValueError:
        own = None
    if not isinstance(own, dict) or not isinstance(own.get("file"), str):
        raise LiftlogError('expected an object {"file": …, "format": …, "model": …}')
    return own


def _require_known(own: Mapping[str, Any]) -> None:
    unknown = sorted(own.keys() - BATCH_NAMES)
    if unknown:
        known = ", ".join(sorted(BATCH_NAMES))
        raise LiftlogError(f"there is no option {unknown[0]}; there are {known}")
    wrong = [name for name in own if not isinstance(own[name], BATCH_KINDS.get(name, str))]
    if wrong:
        raise LiftlogError(f"option {wrong[0]} cannot be {json.dumps(own[wrong[0]])}")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LiftlogError(f"cannot read {path}: {error}") from None


def _job(file: str, said: Mapping[str, Any]) -> Job:
    from liftlog_jepsen.foreign.judging import Task

    if said["model"] is None:
        raise LiftlogError("--format needs a --model, too: what is it a history of? --help has the names")
    format = said["format"] or AUTO
    if format != AUTO:
        find_format(format)
    settings = []
    for each in said["set"]:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise LiftlogError(f"--set {each}: write it like total=100")
        settings.append((name.replace("-", "_"), value))
    conventions = Conventions(settings=tuple(settings), **{name: said[name] for name in CONVENTIONS})
    conventions.options(None)
    conventions.checked_settings()
    if said["budget_seconds"] < 0 or said["budget_states"] < 1:
        raise LiftlogError("--budget-seconds and --budget-states: give positive numbers")
    budget = Budget(said["budget_seconds"] or None, said["budget_states"])
    task = Task(find_model(said["model"]), conventions, budget, said["independent"], summary=True)
    if task.model.name != KAFKA and is_settled(task.model):
        task.checker()  # refuses settings that it does not know
    return Job(file, format, task)


def _require_writable(path: Path) -> None:
    if not path.parent.is_dir() or path.is_dir():
        raise LiftlogError(f"cannot write the report {path}: choose another place with --html")


def _judge(
    arguments: argparse.Namespace, jobs: Sequence[Job], temporary: Path, show: Callable[[str], None]
) -> list[ForeignResult]:
    """The results in the order of the jobs; a converted folder has one for each of its histories."""
    from liftlog_jepsen.spark.foreign import check_files, partitions_for, read_foreign
    from liftlog_jepsen.spark.run import running

    files = {job.file: job for job in jobs if not is_converted(job.file)}
    folders = {job.file: job for job in jobs if is_converted(job.file)}
    several = f"{jobs[0].file} and {len(jobs) - 1} more" if len(jobs) > 1 else jobs[0].file
    found: dict[str, list[ForeignResult]] = {}
    with running(
        arguments.master,
        arguments.driver_memory,
        source=several,
        java_log=temporary / "java.log",
        show=show,
    ) as (session, tell):
        tell(f"checking {len(jobs):,} {'file' if len(jobs) == 1 else 'files'}")
        if files:
            how = {file: (job.format, job.task.conventions.intervals) for file, job in files.items()}
            rows = read_foreign(session, how, keep_broken=True, whole=arguments.whole)
            tasks = {file: job.task for file, job in files.items()}
            judged = check_files(rows, tasks, partitions_for(sum(map(_size, files))))
            for file, job in files.items():
                found[file] = [_result(file, judged.get(file), job.task)]
        for folder, job in folders.items():
            rows = session.read.parquet(str(Path(folder, OPERATIONS_FILE)))
            judged = check_files(rows, job.task)
            found[folder] = [_result(file, one, job.task) for file, one in judged.items()]
    return [result for job in jobs for result in found[job.file]]


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError:
        return 0


def _result(file: str, judged: JudgedPart | None, task: Task) -> ForeignResult:
    if judged is None:
        error = f"{file}: expected operations, found none"
        return ForeignResult(file, task.model.name, "", Judgement(None), (), 0, 0.0, error=error)
    return ForeignResult(
        file,
        judged.model,
        judged.format,
        judged.judgement,
        judged.shown,
        judged.operations,
        judged.seconds,
        error=judged.broken,
    )


def _with_whole_runs(results: Sequence[ForeignResult], jobs: Sequence[Job]) -> list[ForeignResult]:
    """The results for the report: small histories that are not valid are read again, for the whole run."""
    conventions = {job.file: job.task.conventions for job in jobs}
    told = []
    read = 0
    for result in results:
        wanted = result.error is None and (result.judgement.valid is not True or len(results) == 1)
        if wanted and read < WHOLE_FILES and result.file in conventions and _size(result.file) <= WHOLE_BYTES:
            read += 1
            result = _with_whole_run(result, conventions[result.file])
        told.append(result)
    return told


def _with_whole_run(result: ForeignResult, conventions: Conventions) -> ForeignResult:
    try:
        _, events = read_events(result.file, result.format, conventions)
        operations = pair(events, result.file)
    except BadHistory:  # it was readable a moment ago
        return result
    return from_history(
        result.file, result.model, result.format, result.judgement, events, result.seconds, operations
    )
