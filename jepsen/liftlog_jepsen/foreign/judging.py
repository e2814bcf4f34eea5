"""Judges rows of histories of other tools: what runs on Spark's workers, over Arrow batches.

`assign` names the part of its history that each operation belongs to; rows are then brought together by file
and part, in the order of their invocations, and `judge` checks part after part. Its answers are small: a
verdict, counts, the first problems of each kind and the operations around them.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from liftlog.types import LiftlogError
from liftlog_jepsen.events import BadHistory, Operation
from liftlog_jepsen.foreign.reading import Conventions
from liftlog_jepsen.foreign.rows import (
    OPERATION_COLUMNS,
    broken_batch,
    operation_batches,
    operations_of,
    options_of,
    value_of,
)
from liftlog_jepsen.formats import edn
from liftlog_jepsen.formats.options import Options
from liftlog_jepsen.judgement import Budget, Judgement, Problem, merge
from liftlog_jepsen.models import TRANSACTIONS, Checker, NamedModel, checker_of, is_settled, settle

PART = "part"
PART_COLUMNS = OPERATION_COLUMNS.append(pa.field(PART, pa.string()))

_PROBLEM = pa.struct(
    [
        ("anomaly", pa.string()),
        ("key", pa.string()),
        ("operations", pa.list_(pa.int64())),
        ("words", pa.string()),
        ("detail", pa.string()),
    ]
)
_SHOWN_NAMES = tuple(name for name in OPERATION_COLUMNS.names if name not in ("file", "format", "broken"))
_SHOWN = pa.struct([OPERATION_COLUMNS.field(name) for name in _SHOWN_NAMES])
JUDGED_COLUMNS = pa.schema(
    [
        ("file", pa.string()),
        ("format", pa.string()),
        ("model", pa.string()),
        ("key", pa.string()),
        ("valid", pa.bool_()),
        ("operations", pa.int64()),
        ("seconds", pa.float64()),
        ("problems", pa.list_(_PROBLEM)),
        ("totals", pa.map_(pa.string(), pa.int64())),
        ("reasons", pa.list_(pa.string())),
        ("allowed", pa.list_(_PROBLEM)),
        ("shown", pa.list_(_SHOWN)),
        ("broken", pa.string()),
    ]
)
PROBLEM_DDL = "struct<anomaly:string,key:string,operations:array<bigint>,words:string,detail:string>"
SHOWN_DDL = (
    "struct<number:bigint,process:bigint,f:string,key:string,argument:string,result:string,outcome:string,"
    "start:bigint,end:bigint,time:bigint,end_time:bigint,error:string>"
)
JUDGED_DDL = (
    "file string, format string, model string, key string, valid boolean, operations bigint, seconds double, "
    f"problems array<{PROBLEM_DDL}>, totals map<string,bigint>, reasons array<string>, "
    f"allowed array<{PROBLEM_DDL}>, shown array<{SHOWN_DDL}>, broken string"
)

PROBLEMS_MAX = 20
"""Problems of one kind that an answer names; all are counted."""
SHOWN_MAX = 300
"""Operations around the problems of one part that an answer carries along, for the report."""
SHOWN_PARTS_MAX = 3
"""Parts of one file whose operations a summary carries along."""
JUDGED_ROWS_MAX = 64


class Task(NamedTuple):
    """How to judge. `plain` and `task_of` turn it into plain data and back, for the way to a worker.

    `independent`: values are `[key value]`, as jepsen.independent has them, and each key is a history.
    `summary`: one answer per file and task, without the parts that are valid; else one per part.
    """

    model: NamedModel
    conventions: Conventions = Conventions()
    budget: Budget = Budget()
    independent: bool = False
    summary: bool = False

    def plain(self) -> tuple[Any, ...]:
        return (
            tuple(self.model),
            tuple(self.conventions),
            tuple(self.budget),
            self.independent,
            self.summary,
        )

    def checker(self, model: NamedModel | None = None) -> Checker:
        """The checker of the model, or of what it was settled to be."""
        chosen = model or self.model
        settings = self.conventions.checked_settings()
        if chosen.name in TRANSACTIONS and self.conventions.consistency_model is not None:
            settings["consistency_model"] = self.conventions.consistency_model
        if chosen.name == "rw-register" and self.conventions.initial is not None:
            settings.setdefault("initial", self.conventions.options(None).initial)
        return checker_of(chosen, settings)

    @property
    def splits(self) -> bool:
        """Whether parts are smaller than files, so that `assign` is worth its while."""
        return self.independent or (is_settled(self.model) and self.checker().key_of is not None)


def task_of(plain: tuple[Any, ...]) -> Task:
    model, conventions, budget, independent, summary = plain
    return Task(NamedModel(*model), Conventions(*conventions), Budget(*budget), independent, summary)


class Tasks:
    """One task for all files, or one for each. `plain` and `tasks_of` are the way to a worker and back."""

    def __init__(self, tasks: Task | Mapping[str, Task]) -> None:
        self._by_file = {} if isinstance(tasks, Task) else dict(tasks)
        self._any = tasks if isinstance(tasks, Task) else next(iter(tasks.values()))
        self._keys: dict[Task, Callable[[Operation], str | None] | None] = {}

    def of(self, file: str) -> Task:
        return self._by_file.get(file, self._any)

    @property
    def summary(self) -> bool:
        return self._any.summary

    @property
    def splits(self) -> bool:
        return any(task.splits for task in {self._any, *self._by_file.values()})

    def key_of(self, file: str) -> Callable[[Operation], str | None] | None:
        """What names the part of one operation of this file; None = all operations are one part."""
        task = self.of(file)
        if task not in self._keys:
            asked = _unpaired if task.independent else task.checker().key_of if task.splits else None
            self._keys[task] = asked
        return self._keys[task]

    def with_summary(self) -> Tasks:
        """The same, with one answer per file and task of Spark."""
        summed = {file: task._replace(summary=True) for file, task in self._by_file.items()}
        return Tasks(summed or self._any._replace(summary=True))

    def plain(self) -> tuple[Any, ...]:
        listed = list(dict.fromkeys((self._any, *self._by_file.values())))
        numbers = {task: number for number, task in enumerate(listed)}
        which = {file: numbers[task] for file, task in self._by_file.items()}
        return tuple(task.plain() for task in listed), which


def tasks_of(plain: tuple[Any, ...]) -> Tasks:
    listed, which = plain
    tasks = [task_of(each) for each in listed]
    return Tasks({file: tasks[number] for file, number in which.items()} if which else tasks[0])


class JudgedPart(NamedTuple):
    """The answer on one part of a file, or (key None) on all that a task saw of it."""

    file: str
    format: str
    model: str
    key: str | None
    judgement: Judgement
    operations: int
    seconds: float
    shown: tuple[Operation, ...]
    broken: str | None


# -- which part each operation belongs to --------------------------------------------------------------------


def assign(batches: Iterable[pa.RecordBatch], plain: tuple[Any, ...]) -> Iterator[pa.RecordBatch]:
    """Rows of operations with the column `part`. A file whose operations name no part becomes broken."""
    tasks = tasks_of(plain)
    for batch in batches:
        for file, format, broken, some in _files(batch):
            parts: list[str | None] = [None] * some.num_rows
            if broken is None:
                try:
                    key_of = tasks.key_of(file)
                    if key_of is not None:
                        parts = [key_of(one) for one in operations_of(some)]
                except Exception as error:  # a model of the caller's own, or values that it was not made for
                    some = broken_batch(file, format, _problem(file, error), OPERATION_COLUMNS)
                    parts = [None]
            column = pa.array(parts, pa.string())
            yield pa.RecordBatch.from_arrays([*some.columns, column], schema=PART_COLUMNS)


def _unpaired(one: Operation) -> str | None:
    """The key in an operation's values."""
    asked = one.argument if _is_pair(one.argument) else one.result
    if not _is_pair(asked):
        found = edn.cut(edn.write(asked))
        raise BadHistory(
            f"--independent: expected [key value] in operation {one.number} ({one.f}), found {found}"
        )
    return edn.write(asked[0])


def _without_key(one: Operation) -> Operation:
    """An operation of `--independent` as its key's own history has it."""
    asked = one.argument if _is_pair(one.argument) else one.result
    argument = one.argument[1] if _is_pair(one.argument) else one.argument
    result = one.result[1] if _is_pair(one.result) else one.result
    return one._replace(key=asked[0], argument=argument, result=result)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _files(batch: pa.RecordBatch) -> Iterator[tuple[str, str, str | None, pa.RecordBatch]]:
    """(file, format, broken, rows) of each run of rows of one file."""
    names, formats, broken = (batch.column(name).to_pylist() for name in ("file", "format", "broken"))
    first = 0
    for place in range(1, len(names) + 1):
        if place == len(names) or names[place] != names[first] or broken[place] != broken[first]:
            yield names[first], formats[first] or "", broken[first], batch.slice(first, place - first)
            first = place


# -- the checks ----------------------------------------------------------------------------------------------


def judge(batches: Iterable[pa.RecordBatch], plain: tuple[Any, ...]) -> Iterator[pa.RecordBatch]:
    """Answers on rows that are sorted by file, part and start; whole parts come to one call."""
    tasks = tasks_of(plain)
    found = _judged(batches, tasks)
    if tasks.summary:
        found = _merged_by_file(found)
    waiting: list[dict[str, Any]] = []
    for one in found:
        waiting.append(_row(one))
        if len(waiting) == JUDGED_ROWS_MAX:
            yield pa.RecordBatch.from_pylist(waiting, schema=JUDGED_COLUMNS)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=JUDGED_COLUMNS)


def _judged(batches: Iterable[pa.RecordBatch], tasks: Tasks) -> Iterator[JudgedPart]:
    for (file, part), (format, broken, operations) in _groups(batches):
        task = tasks.of(file)
        if broken is not None:
            yield JudgedPart(file, format, task.model.name, None, Judgement(None), 0, 0.0, (), broken)
        else:
            yield judge_part(task, file, format, part, operations)


_Group = tuple[tuple[str, str | None], tuple[str, str | None, list[Operation]]]


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[_Group]:
    here: tuple[str, str | None] | None = None
    format, broken, operations = "", None, []  # type: str, str | None, list[Operation]
    for batch in batches:
        parts = batch.column(PART).to_pylist()
        files = batch.column("file").to_pylist()
        first = 0
        for place in range(1, len(files) + 1):
            if place < len(files) and files[place] == files[first] and parts[place] == parts[first]:
                continue
            key = (files[first], parts[first])
            if key != here:
                if here is not None:
                    yield here, (format, broken, operations)
                here, operations = key, []
                format = batch.column("format")[first].as_py() or ""
                broken = batch.column("broken")[first].as_py()
            if broken is None:
                operations.extend(operations_of(batch.slice(first, place - first)))
            first = place
    if here is not None:
        yield here, (format, broken, operations)


def judge_part(
    task: Task, file: str, format: str, part: str | None, operations: Sequence[Operation]
) -> JudgedPart:
    """The answer on one part. What goes wrong in a check is said of this file and hides no other."""
    started = time.monotonic()
    name, broken, shown = task.model.name, None, ()  # type: str, str | None, tuple[Operation, ...]
    judgement = Judgement(None)
    try:
        if task.independent:
            operations = [_without_key(one) for one in operations]
        model = task.model
        if not is_settled(model):
            model = settle(model, {one.f for one in operations})
            name = model.name
        checker = task.checker(model)
        options = options_of(format, task.conventions)
        judgement = _check(checker, operations, options, task, is_split=part is not None)
        judgement = _in_part(judgement, part if task.independent else None)
        shown = surroundings(operations, judgement)
    except MemoryError:
        judgement = Judgement(
            None, reasons=("the check ran out of memory: give it less with --budget-states",)
        )
    except Exception as error:  # a history that the checker was not made for
        broken = _problem(file, error)
    seconds = time.monotonic() - started
    return JudgedPart(file, format, name, part, cut(judgement), len(operations), seconds, shown, broken)


def _check(
    checker: Checker, operations: Sequence[Operation], options: Options, task: Task, is_split: bool
) -> Judgement:
    if is_split and not task.independent:
        return checker.judge(operations, options, task.budget)
    return checker.check(operations, options, task.budget)


def _in_part(judgement: Judgement, part: str | None) -> Judgement:
    """Problems of one key of many, each of which is a history of its own, name that key."""
    if part is None:
        return judgement

    def named(problems: Iterable[Problem]) -> tuple[Problem, ...]:
        return tuple(
            one._replace(key=part if one.key in (None, part) else f"{part} {one.key}") for one in problems
        )

    return judgement._replace(problems=named(judgement.problems), allowed=named(judgement.allowed))


def _problem(file: str, error: Exception) -> str:
    """What went wrong with one file, in one line."""
    words = (str(error).splitlines() or [""])[0][:300]
    if isinstance(error, LiftlogError):
        return words if words.startswith(file) else f"{file}: {words}"
    return f"{file}: the check failed on a value that it does not know ({type(error).__name__}: {words})"


def cut(judgement: Judgement) -> Judgement:
    """The first problems of each kind, and how many there are of all."""
    totals = dict(judgement.totals)
    counted: dict[str, int] = defaultdict(int)
    kept = []
    for problem in judgement.problems:
        counted[problem.anomaly] += 1
        if counted[problem.anomaly] <= PROBLEMS_MAX:
            kept.append(problem)
    for name, count in counted.items():
        totals[name] = max(count, totals.get(name, 0))
    ordered = dict(sorted(totals.items()))
    allowed = judgement.allowed[:PROBLEMS_MAX]
    return judgement._replace(problems=tuple(kept), totals=ordered, allowed=allowed)


def surroundings(operations: Sequence[Operation], judgement: Judgement) -> tuple[Operation, ...]:
    """The operations that the problems name, and their neighbours, at most `SHOWN_MAX`, in order."""
    if not judgement.problems:
        return ()
    places = {one.number: place for place, one in enumerate(operations)}
    wanted: dict[int, None] = {}
    for problem in judgement.problems[:PROBLEMS_MAX]:
        for number in _named(problem):
            if number in places and len(wanted) < SHOWN_MAX * 2 // 3:
                wanted[places[number]] = None
    anchors = sorted(wanted)
    distance = 1
    while anchors and len(wanted) < min(SHOWN_MAX, len(operations)):
        for anchor in anchors:
            for place in (anchor - distance, anchor + distance):
                if 0 <= place < len(operations) and len(wanted) < SHOWN_MAX:
                    wanted[place] = None
        distance += 1
    return tuple(operations[place] for place in sorted(wanted))


def _named(problem: Problem) -> Iterator[int]:
    """The operations of a problem; of a long linearization its end, where it got stuck."""
    yield from problem.operations[:SHOWN_MAX]
    found = problem.detail.get("linearization")
    if isinstance(found, Mapping):
        yield from (one["operation"] for one in found.get("stuck", ()))
        yield from reversed(found.get("linearized", ())[-SHOWN_MAX // 2 :])


def _merged_by_file(found: Iterable[JudgedPart]) -> Iterator[JudgedPart]:
    """One answer for each run of answers on one file."""
    run: list[JudgedPart] = []
    for one in found:
        if run and one.file != run[0].file:
            yield merge_judged(run)
            run = []
        run.append(one)
        if len(run) > 2 * PROBLEMS_MAX:
            run = [merge_judged(run)]
    if run:
        yield merge_judged(run)


def merge_judged(parts: Sequence[JudgedPart]) -> JudgedPart:
    """The answers on parts of one file as one. Parts come sorted by key."""
    first = parts[0]
    broken = next((one.broken for one in parts if one.broken is not None), None)
    shown: dict[int, Operation] = {}
    with_operations = [one for one in parts if one.shown][:SHOWN_PARTS_MAX]
    for one in with_operations:
        shown.update((operation.number, operation) for operation in one.shown)
    some = sorted(shown)[: SHOWN_MAX * SHOWN_PARTS_MAX]
    return first._replace(
        key=first.key if len(parts) == 1 else None,
        judgement=cut(merge(one.judgement for one in parts)),
        operations=sum(one.operations for one in parts),
        seconds=sum(one.seconds for one in parts),
        shown=tuple(shown[number] for number in some),
        broken=broken,
    )


# -- answers as rows and back --------------------------------------------------------------------------------


def _row(one: JudgedPart) -> dict[str, Any]:
    batches = operation_batches(one.file, one.format, one.shown)
    return {
        "file": one.file,
        "format": one.format,
        "model": one.model,
        "key": one.key,
        "valid": None if one.broken is not None else one.judgement.valid,
        "operations": one.operations,
        "seconds": one.seconds,
        "problems": [_problem_row(problem) for problem in one.judgement.problems],
        "totals": list(one.judgement.totals.items()),
        "reasons": list(one.judgement.reasons),
        "allowed": [_problem_row(problem) for problem in one.judgement.allowed],
        "shown": [row for batch in batches for row in batch.select(list(_SHOWN_NAMES)).to_pylist()],
        "broken": one.broken,
    }


def _problem_row(problem: Problem) -> dict[str, Any]:
    detail = json.dumps(problem.detail, ensure_ascii=False, default=str)
    row = problem._asdict()
    return row | {"operations": list(problem.operations), "detail": detail}


def judged_of(row: Mapping[str, Any]) -> JudgedPart:
    """A row of `JUDGED_COLUMNS` as what it was."""
    judgement = Judgement(
        row["valid"],
        tuple(_problem_of(problem) for problem in row["problems"]),
        dict(row["totals"]),
        tuple(row["reasons"]),
        tuple(_problem_of(problem) for problem in row["allowed"]),
    )
    shown = tuple(
        Operation(
            **dict(one) | {name: value_of(one[name]) for name in ("key", "argument", "result", "error")}
        )
        for one in row["shown"]
    )
    return JudgedPart(
        row["file"], row["format"], row["model"], row["key"], judgement,
        row["operations"], row["seconds"], shown, row["broken"],
    )  # fmt: skip


def _problem_of(row: Mapping[str, Any]) -> Problem:
    return Problem(
        row["anomaly"], row["key"], tuple(row["operations"]), row["words"], json.loads(row["detail"])
    )
