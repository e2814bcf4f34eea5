"""Histories of other tools as rows, judged part by part: what runs on workers, here without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyspark
import pytest

from liftlog.types import LiftlogError
from liftlog_jepsen.events import BadHistory, Event, Operation, pair
from liftlog_jepsen.foreign.files import plan, read_part
from liftlog_jepsen.foreign.judging import (
    PROBLEMS_MAX,
    SHOWN_MAX,
    JudgedPart,
    Task,
    Tasks,
    assign,
    cut,
    judge,
    judge_part,
    judged_of,
    surroundings,
    task_of,
)
from liftlog_jepsen.foreign.reading import Conventions
from liftlog_jepsen.foreign.rows import (
    EVENT_COLUMNS,
    OPERATION_COLUMNS,
    broken_batch,
    event_batches,
    file_batches,
    operation_batches,
    operations_of,
)
from liftlog_jepsen.formats import FORMATS, read_bytes
from liftlog_jepsen.judgement import Budget, Judgement, Problem
from liftlog_jepsen.models import AUTO, NAMES, NamedModel, checker_of, find_model, is_settled, settle
from liftlog_jepsen.spark import travel

BANK_OK = """{:process 0, :type :invoke, :f :read}
{:process 0, :type :ok, :f :read, :value {1 5, 2 5}}
{:process 1, :type :invoke, :f :transfer, :value {:from 1, :to 2, :amount 5}}
{:process 1, :type :ok, :f :transfer, :value {:from 1, :to 2, :amount 5}}
"""
BANK_BAD = (
    BANK_OK + "{:process 0, :type :invoke, :f :read}\n{:process 0, :type :ok, :f :read, :value {1 5, 2 4}}\n"
)


def operations(text: str, format: str = "edn-lines", file: str = "h") -> list[Operation]:
    return pair(read_bytes(text.encode(), file, FORMATS[format]), file)


def rows(file: str, text: str, format: str = "edn-lines") -> list[pa.RecordBatch]:
    return list(operation_batches(file, format, operations(text, format, file)))


def answers(task: Task | dict[str, Task], batches: Iterable[pa.RecordBatch]) -> list[JudgedPart]:
    """As on Spark: name the parts, sort by file, part and start, judge."""
    plain = Tasks(task).plain()
    assigned = pa.Table.from_batches(list(assign(batches, plain)))
    ordered = assigned.sort_by([("file", "ascending"), ("part", "ascending"), ("start", "ascending")])
    judged = judge(ordered.to_batches(max_chunksize=3), plain)
    return [judged_of(_as_spark(row)) for batch in judged for row in batch.to_pylist()]


def _as_spark(row: dict[str, object]) -> dict[str, object]:
    totals = row["totals"]
    assert isinstance(totals, list)
    return row | {"totals": dict(totals)}


# -- rows ----------------------------------------------------------------------------------------------------


def test_rows_keep_operations_as_they_are() -> None:
    text = """{:process 0, :type :invoke, :f :cas, :key "k", :value [1 nil], :time 7}
    {:process 1, :type :invoke, :f :txn, :value [[:append 1 2] [:r :x #{1 (2)}]]}
    {:process 0, :type :info, :f :cas, :value {:a 1.5M}, :error [:timeout "x"]}
    {:process 1, :type :ok, :f :txn, :value [[:append 1 2] [:r :x "q"]], :time 9}"""
    found = operations(text)
    (batch,) = operation_batches("h", "edn-lines", found)
    assert batch.schema == OPERATION_COLUMNS
    back = list(operations_of(batch))
    assert back == found
    assert type(back[1].argument[0][0]) is type(found[1].argument[0][0])


def test_event_rows_hold_each_line_without_loss() -> None:
    events = read_bytes(BANK_BAD.encode(), "h", FORMATS["edn-lines"])
    (batch,) = event_batches("h", "edn-lines", events)
    assert batch.schema == EVENT_COLUMNS
    raw = "\n".join(batch.column("raw").to_pylist())
    assert read_bytes(raw.encode(), "h", FORMATS["edn-lines"]) == events


def test_large_histories_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog_jepsen.foreign.rows.ROWS_MAX", 2)
    batches = rows("h", BANK_BAD)
    assert [batch.num_rows for batch in batches] == [2, 1]
    assert [one for batch in batches for one in operations_of(batch)] == operations(BANK_BAD)


def test_numbers_beyond_64_bits_are_refused() -> None:
    events = [Event(1 << 70, "invoke", "read")]
    with pytest.raises(BadHistory, match="h: expected processes, times and indexes below"):
        list(operation_batches("h", "x", pair(events, "h")))


def test_a_broken_file_is_an_error_or_a_row(tmp_path: Path) -> None:
    path = tmp_path / "h.edn"
    path.write_text("{:process 0, :type :invoked, :f :read}")
    with pytest.raises(BadHistory, match=r"h\.edn line 1: expected a :type"):
        list(file_batches(str(path), "edn-lines", Conventions(), "operations", False))
    for kind, schema in (("operations", OPERATION_COLUMNS), ("events", EVENT_COLUMNS)):
        (batch,) = file_batches(str(path), "edn-lines", Conventions(), kind, True)
        assert batch.schema == schema
        assert batch.column("broken")[0].as_py().startswith(f"{path} line 1: expected a :type")


def test_a_missing_or_empty_first_file_is_that_files_answer(tmp_path: Path) -> None:
    empty = tmp_path / "empty.edn"
    empty.write_text("")
    for path, expected in ((tmp_path / "none.edn", "cannot read"), (empty, "found no operations")):
        options = {"paths": json.dumps([str(path)]), "format": "edn-lines", "broken": "keep"}
        (part,) = plan(options)
        (batch,) = read_part(part, options)
        assert expected in batch.column("broken")[0].as_py()


# -- which files ---------------------------------------------------------------------------------------------


def test_paths_are_files_and_globs_and_each_file_comes_once(tmp_path: Path) -> None:
    for name in ("a.edn", "b.edn", "c[1].edn"):
        (tmp_path / name).write_text(BANK_OK)
    (part,) = plan({"paths": json.dumps([f"file:{tmp_path}/c[1].edn", f"{tmp_path}/*.edn"])})
    names = ("c[1].edn", "a.edn", "b.edn")
    assert part == ("files", *((str(tmp_path / name), "auto", None) for name in names))
    assert sum(batch.num_rows for batch in read_part(part, {})) == 6


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "which histories"),
        ({"path": "/no/such"}, "cannot read /no/such: there is no such file"),
        ({"path": "/tmp"}, "/tmp is a folder: give its files, such as /tmp/"),
        ({"path": "/tmp", "format": "exe"}, "there is no such format"),
        ({"path": "/tmp", "rows": "cells"}, "option rows cells: give one of operations, events"),
        ({"path": "/tmp", "intervals": "wide"}, "--intervals wide: give one of closed, half-open"),
    ],
)
def test_a_wrong_read_is_refused(options: dict[str, str], expected: str) -> None:
    with pytest.raises(BadHistory, match=expected):
        plan(options)


def test_a_large_file_is_read_by_blocks(tmp_path: Path) -> None:
    path = tmp_path / "h.edn"
    path.write_text(BANK_BAD)
    options = {"path": str(path), "block_bytes": "100"}
    parts = plan(options)
    assert [part[0] for part in parts] == ["block"] * len(parts) and len(parts) > 1
    found = [one for part in parts for batch in read_part(part, options) for one in operations_of(batch)]
    assert found == operations(BANK_BAD)
    assert [part[0] for part in plan(options | {"whole": "true"})] == ["files"]


# -- judging -------------------------------------------------------------------------------------------------


def test_each_file_gets_its_own_answer_and_a_broken_one_hides_no_other() -> None:
    broken = broken_batch("broken", "edn-lines", "broken line 1: no", OPERATION_COLUMNS)
    batches = [*rows("bad", BANK_BAD), broken, *rows("good", BANK_OK)]
    bad, none, good = answers(Task(NamedModel("bank")), batches)
    assert (bad.file, bad.judgement.valid, bad.operations) == ("bad", False, 3)
    assert bad.judgement.totals == {"wrong-total": 1}
    assert [one.number for one in bad.shown] == [0, 1, 2]
    assert list(bad.shown) == operations(BANK_BAD)
    assert (none.file, none.judgement.valid, none.broken) == ("broken", None, "broken line 1: no")
    assert (good.file, good.judgement.valid, good.shown) == ("good", True, ())


def test_settings_of_a_check_reach_it() -> None:
    task = Task(NamedModel("bank"), Conventions(settings=(("total", "11"),)))
    assert task_of(task.plain()) == task
    (one,) = answers(task, rows("good", BANK_OK))
    assert one.judgement.valid is False


def test_what_a_checker_does_not_know_is_said_of_that_file_only(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = "{:process 0, :type :invoke, :f :read}\n{:process 0, :type :ok, :f :read, :value nil}\n"
    batches = [*rows("a", BANK_OK), *rows("b", reads)]
    found = {one.file: one for one in answers(Task(NamedModel("register")), batches)}
    assert found["b"].judgement.valid is True
    assert found["a"].judgement.valid is None
    assert found["a"].broken is not None
    assert found["a"].broken.startswith("a: operation 1 is transfer, which the model register does not know")


def test_a_check_that_fails_or_runs_out_of_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, valid, words in (
        (
            TypeError("no\nlen"),
            "broken",
            "a: the check failed on a value that it does not know (TypeError: no)",
        ),
        (MemoryError(), "reasons", "the check ran out of memory: give it less with --budget-states"),
    ):

        def fails(*_: object, error: BaseException = error, **__: object) -> Judgement:
            raise error

        monkeypatch.setattr("liftlog_jepsen.foreign.judging._check", fails)
        one = judge_part(Task(NamedModel("bank")), "a", "edn-lines", None, operations(BANK_OK))
        assert one.judgement.valid is None
        assert words in (one.broken, *one.judgement.reasons), valid


INDEPENDENT = """{:process 0, :type :invoke, :f :add, :value ["x" 1]}
{:process 0, :type :ok, :f :add, :value ["x" 1]}
{:process 1, :type :invoke, :f :add, :value [7 2]}
{:process 1, :type :ok, :f :add, :value [7 2]}
{:process 0, :type :invoke, :f :read, :value ["x" nil]}
{:process 0, :type :ok, :f :read, :value ["x" #{1}]}
{:process 1, :type :invoke, :f :read, :value [7 nil]}
{:process 1, :type :ok, :f :read, :value [7 #{}]}
"""


def test_independent_keys_are_histories_of_their_own() -> None:
    task = Task(NamedModel("jepsen-set"), independent=True)
    found = {one.key: one for one in answers(task, rows("h", INDEPENDENT))}
    assert {key: one.judgement.valid for key, one in found.items()} == {'"x"': True, "7": False}
    (problem,) = found["7"].judgement.problems
    assert problem.key == "7"
    (merged,) = answers(task._replace(summary=True), rows("h", INDEPENDENT))
    assert (merged.judgement.valid, merged.operations, merged.key) == (False, 4, None)


def test_independent_needs_pairs() -> None:
    (one,) = answers(Task(NamedModel("jepsen-set"), independent=True), rows("h", BANK_OK))
    assert one.broken is not None
    assert one.broken.startswith("h: --independent: expected [key value] in operation 0 (read)")


def test_a_name_with_two_meanings_is_settled_for_each_file() -> None:
    adds = INDEPENDENT.replace('["x" ', "").replace("[7 ", "").replace("]}", "}").replace("#{1}", "#{1 2}")
    found = answers(Task(NamedModel("set"), summary=True), rows("h", adds))
    assert [one.model for one in found] == ["jepsen-set"]


def test_each_file_may_have_a_task_of_its_own() -> None:
    adds = INDEPENDENT.replace("[7 ", '["x" ')
    tasks = {"bad": Task(NamedModel("bank")), "sets": Task(NamedModel("jepsen-set"), independent=True)}
    found = answers(tasks, [*rows("bad", BANK_BAD), *rows("sets", adds)])
    assert [(one.file, one.model, one.judgement.valid) for one in found] == [
        ("bad", "bank", False),
        ("sets", "jepsen-set", False),
    ]


def test_long_lists_of_problems_are_cut_but_counted() -> None:
    problems = tuple(Problem("lost", None, (number,), "gone") for number in range(100))
    small = cut(Judgement(False, problems, {"lost": 200}))
    assert len(small.problems) == PROBLEMS_MAX and small.totals == {"lost": 200}
    assert cut(Judgement(False, problems)).totals == {"lost": 100}


def test_the_operations_around_a_problem_come_along_and_not_all() -> None:
    many = [Operation(number, 0, "read", None, 0, "ok", 2 * number, 2 * number + 1) for number in range(5000)]
    shown = surroundings(many, Judgement(False, (Problem("x", None, (2500,), "w"),)))
    numbers = [one.number for one in shown]
    assert len(numbers) == SHOWN_MAX and numbers == sorted(numbers)
    assert 2500 in numbers and numbers[-1] - numbers[0] == SHOWN_MAX - 1
    assert surroundings(many, Judgement(True)) == ()


# -- models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name != "kafka"])
def test_every_name_has_a_checker(name: str) -> None:
    model = find_model(name)
    if not is_settled(model):
        assert {settle(model, ["add", "read"]).name, settle(model, ["add", "contains"]).name} == {
            f"jepsen-{name}",
            f"linearizable-{name}",
        }
        return
    checker = checker_of(model)
    assert checker.name == name


def test_unknown_models_and_settings_are_refused_with_what_there_is() -> None:
    with pytest.raises(LiftlogError, match="--model bnk: there is no such model; there are bank, cas-reg"):
        find_model("bnk")
    with pytest.raises(LiftlogError, match=r"cannot read /none\.py"):
        find_model("/none.py:Mine")
    with pytest.raises(LiftlogError, match="bank has no setting fee; there are total, accounts"):
        checker_of(NamedModel("bank"), {"fee": 1})
    with pytest.raises(LiftlogError, match="register has no settings"):
        checker_of(NamedModel("register"), {"fee": 1})


@pytest.mark.parametrize(
    ("functions", "model"),
    [
        ({"push", "pop"}, "stack"),
        ({"enq", "deq"}, "queue"),
        ({"read", "write", "cas"}, "cas-register"),
        ({"acquire", "release"}, "mutex"),
        ({"get", "append"}, "kv"),
    ],
)
def test_auto_takes_what_is_certain(functions: set[str], model: str) -> None:
    assert settle(NamedModel(AUTO), functions).name == model


@pytest.mark.parametrize("functions", [{"read"}, {"txn"}, {"add", "read"}, set()])
def test_auto_refuses_what_is_not(functions: set[str]) -> None:
    with pytest.raises(LiftlogError, match="do not say for certain which model is meant: give --model"):
        settle(NamedModel(AUTO), functions)


# -- the way to workers --------------------------------------------------------------------------------------


def test_the_project_travels_with_its_functions(tmp_path: Path) -> None:
    """A Python that cannot import the project gets it from what travels, and judges."""
    sources = tmp_path / "sources"
    sources.write_bytes(travel.bundle())
    assert travel.bundle.__wrapped__() == travel.bundle(), "the same sources are the same bytes"
    module = Path(travel.__file__).read_text()
    program = f"""
import sys, types
travel = types.ModuleType("travel")
exec(compile({module!r}, "travel", "exec"), travel.__dict__)
assert travel.find_spec("liftlog_jepsen") is None
data = open({str(sources)!r}, "rb").read()
travel.unpack(data)
travel.unpack(data)
from liftlog_jepsen.models import NamedModel, checker_of
from liftlog_jepsen.foreign.judging import Task
names = [checker_of(NamedModel(name)).name for name in ("bank", "list-append")]
print(*names, sys.modules["liftlog_jepsen"].__file__)
"""
    # Without `site` nothing is found through links to the checkout; the libraries are named instead.
    libraries = {str(Path(library.__file__).resolve().parents[1]) for library in (pyspark, pa, np)}
    environment = {"TMPDIR": str(tmp_path), "PATH": "", "PYTHONPATH": os.pathsep.join(sorted(libraries))}
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"bank list-append {tmp_path}/liftlog-jepsen-")


def test_a_kernel_calls_the_named_function_on_the_worker() -> None:
    call = travel.kernel("liftlog_jepsen.foreign.judging", "judge", Tasks(Task(NamedModel("bank"))).plain())
    assigned = assign(rows("good", BANK_OK), Tasks(Task(NamedModel("bank"))).plain())
    (batch,) = call(iter(assigned))
    assert batch.column("valid").to_pylist() == [True]


def test_budgets_travel_too() -> None:
    task = Task(NamedModel("register"), Conventions(initial="nil"), Budget(None, 5), True, True)
    assert task_of(task.plain()) == task
    assert task.conventions.options(FORMATS["json"]).initial is None
