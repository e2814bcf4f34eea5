"""`liftlog jepsen check` and `convert` for other tools' files: what is refused before Spark starts, what is
converted without Spark, memory, progress, and failures in one line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from liftlog.cli import main
from liftlog.types import LiftlogError
from liftlog_jepsen.commands.foreign import as_json, exit_code
from liftlog_jepsen.jsonl import read_jsonl
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.report.foreign import ForeignResult
from liftlog_jepsen.spark import session
from liftlog_jepsen.spark.run import failure, tasks_done

GOOD = """{:process 0, :type :invoke, :f :write, :value 1, :time 0}
{:process 0, :type :ok, :f :write, :value 1, :time 1000}
{:process 0, :type :invoke, :f :read, :value nil, :time 2000}
{:process 0, :type :ok, :f :read, :value 1, :time 3000}
"""
KAFKA = """{:process 0, :type :invoke, :f :send, :value [[:send :x 1]]}
{:process 0, :type :ok, :f :send, :value [[:send :x [0 1]]]}
{:process 0, :type :invoke, :f :send, :value [[:send :x 2]]}
{:process 0, :type :ok, :f :send, :value [[:send :x [1 2]]]}
{:process 1, :type :invoke, :f :poll, :value [[:poll]]}
{:process 1, :type :ok, :f :poll, :value [[:poll {:x [[0 1] [1 2]]}]]}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "good.edn").write_text(GOOD)
    (tmp_path / "bad.edn").write_text(GOOD.replace(":read, :value 1", ":read, :value 2"))
    (tmp_path / "broken.edn").write_text(GOOD + "{:process 0, :type :done}\n")
    return tmp_path


# -- what is refused before Spark starts ---------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["jepsen", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()[-1].removeprefix("liftlog: ")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--format", "edn"], "--format needs a --model, too"),
        (
            ["--format", "edn", "--model", "register"],
            "--format edn: there is no such format; there are edn-lines",
        ),
        (["--format", "json", "--model", "registers"], "--model registers: there is no such model"),
        (["--model", "bank", "--set", "totals=1"], "bank has no setting totals; there are total"),
        (["--model", "bank", "--set", "total"], "--set total: write it like total=100"),
        (["--model", "bank", "--set", "total=]"], "setting total line 1, column 1: expected a value"),
        (["--model", "register", "--initial", "]"], "--initial ] line 1, column 1: expected"),
        (["--model", "list-append", "--consistency-model", "strong"], "strong"),
        (
            ["--model", "register", "--budget-states", "0"],
            "--budget-seconds and --budget-states: give positive",
        ),
        (["--model", "register", "--html", "/none/r.html"], "cannot write the report /none/r.html"),
        (["--initial", "0"], "--initial is for histories of other tools: give --format, too"),
        (["--ww-deps"], "--ww-deps is about cycles: give --cycles, too"),
    ],
)
def test_wrong_options_are_refused_with_the_remedy(
    options: list[str], expected: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in refused(capsys, "check", files / "good.edn", *options)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[]", "line 1: expected an object"),
        ('{"file": "good.edn"}', "line 1: --format needs a --model, too"),
        (
            '{"file": "good.edn", "model": "register", "speed": 1}',
            "line 1: there is no option speed; there are",
        ),
        ('{"file": "good.edn", "model": "register", "initial": 0}', "line 1: option initial cannot be 0"),
    ],
)
def test_wrong_lines_of_a_batch_are_named(
    line: str, expected: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "list").write_text(line + "\n")
    assert expected in refused(capsys, "check", "--batch", files / "list")


@pytest.mark.real
@pytest.mark.usefixtures("shared_session")
def test_a_wrong_line_of_a_batch_keeps_no_other_from_being_checked(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (
        '{"file": "good.edn", "model": "register"}',
        '{"file": "bad.edn", "model": "register", "speed": 1}',
        "nonsense",
        '{"file": "broken.edn", "model": "registers"}',
    )
    (files / "list").write_text("\n".join(lines))
    assert main(["jepsen", "check", "--json", "--batch", str(files / "list")]) == 2
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(Path(one["file"]).name, one["verdict"]) for one in found] == [
        ("good.edn", True),
        ("bad.edn", "unknown"),
        ("list line 3", "unknown"),
        ("broken.edn", "unknown"),
    ]
    assert "list line 2: there is no option speed" in found[1]["error"]
    assert "list line 3: expected an object" in found[2]["error"]
    assert "list line 4: --model registers: there is no such model" in found[3]["error"]


def test_convert_refuses_what_it_cannot_do(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = files / "good.edn", files / "bad.edn"
    for arguments, expected in (
        ([good, "--to", "avro", files / "x"], "--to avro: there is no such kind; there are parquet, edn"),
        ([good, "--to", "edn", bad], f"{bad} exists already: give a new path"),
        ([good, "--to", "edn", files / "no" / "x"], "there is no folder"),
        ([good, bad, "--to", "edn", files / "x"], "EDN holds one history, but 1 more than"),
        ([files / "broken.edn", "--to", "parquet", files / "x"], "broken.edn line 5: expected a :type"),
        (
            [good, "--model", "kafka", "--to", "edn", files / "x"],
            "--model kafka writes parquet, or one history",
        ),
    ):
        assert expected in refused(capsys, "convert", *arguments)
        assert not (files / "x").exists()


def test_json_lines_have_the_documented_columns(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jepsen", "convert", str(files / "good.edn"), "--to", "jsonl", str(files / "x")]) == 0
    first = json.loads((files / "x").read_text().splitlines()[0])
    assert first == {
        "file": str(files / "good.edn"), "format": "edn-lines", "number": 0, "process": 0, "f": "write",
        "argument": "1", "result": "1", "outcome": "ok", "start": 0, "end": 1, "time": 0, "end_time": 1000,
    }  # fmt: skip


def test_kafka_converts_to_our_own_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.edn").write_text(KAFKA)
    target = tmp_path / "k.jsonl"
    words = ["convert", str(tmp_path / "k.edn"), "--model", "kafka", "--to", "jsonl", str(target)]
    assert main(["jepsen", *words]) == 0
    assert len(read_jsonl(target)) == 3


# -- progress and failures -----------------------------------------------------------------------------------


class Stage:
    def __init__(self, tasks: int, completed: int) -> None:
        self.numTasks, self.numCompletedTasks = tasks, completed


class Tracker:
    """As Spark's tracker: one job of three stages, one of which Spark has forgotten."""

    def __init__(self, jobs: list[int]) -> None:
        self.jobs = jobs

    def getActiveJobsIds(self) -> list[int]:
        return self.jobs

    def getJobInfo(self, job: int) -> object:
        return type("Job", (), {"stageIds": [1, 2, 3]})()

    def getStageInfo(self, stage: int) -> Stage | None:
        return {1: Stage(8, 8), 2: Stage(16, 3)}.get(stage)


def test_progress_counts_the_tasks_of_running_jobs() -> None:
    tracker: Any = Tracker([7])
    assert tasks_done(tracker) == "11 of 24 tasks done"
    idle: Any = Tracker([])
    assert tasks_done(idle) == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("x\nPython worker exited unexpectedly (crashed)", "a Python worker of Spark died on h, most likely"),
        (
            "[PYTHON_DATA_SOURCE_ERROR]\n  File\njepsen.events.BadHistory: h line 3: expected }\n at",
            "h line 3: expected }",
        ),
    ],
)
def test_failures_of_tasks_become_one_line(words: str, expected: str) -> None:
    assert str(failure(RuntimeError(words), "h")).startswith(expected)


@pytest.mark.parametrize("name", ["test.jepsen", "test.fressian"])
def test_jepsens_binary_files_are_refused_with_the_way_around(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"JEPSEN\0\0\0\1")
    line = refused(capsys, "convert", tmp_path / name, "--to", "edn", tmp_path / "x")
    assert line.startswith(f"{tmp_path / name} is in Jepsen's binary form, which only Jepsen reads: give the")


def test_a_damaged_table_is_named(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = files / "table"
    assert main(["jepsen", "convert", str(files / "good.edn"), "--to", "parquet", str(table)]) == 0
    capsys.readouterr()
    (table / "events.parquet").write_bytes(b"PAR1 no")
    line = refused(capsys, "convert", table, "--to", "edn", files / "x")
    assert line.startswith(f"{table}/events.parquet: expected a table that `liftlog jepsen convert` wrote")


def test_a_line_names_the_model_as_it_was_asked_for_and_the_check_that_was_made() -> None:
    result = ForeignResult("h.edn", "jepsen-set", "edn-lines", Judgement(True), (), 0, 0.0)
    told = [
        (line["model"], line.get("checker"))
        for line in (as_json(result), as_json(result, "set"), as_json(result, "jepsen-set"))
    ]
    assert told == [("jepsen-set", None), ("set", "jepsen-set"), ("jepsen-set", None)]


def test_invalid_outweighs_unknown_outweighs_valid() -> None:
    def one(valid: bool | None, error: str | None = None) -> ForeignResult:
        return ForeignResult("f", "m", "edn-lines", Judgement(valid), (), 0, 0.0, error=error)

    assert exit_code([one(True), one(True)]) == 0
    assert exit_code([one(True), one(None)]) == 2
    assert exit_code([one(None, "broken"), one(True)]) == 2
    assert exit_code([one(None, "broken"), one(False), one(None)]) == 1


# -- memory --------------------------------------------------------------------------------------------------


def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available_kb: int, limit: str = "max") -> None:
    (tmp_path / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:   {available_kb} kB\n")
    (tmp_path / "limit").write_text(f"{limit}\n")
    monkeypatch.setattr(session, "MEMORY_INFO", tmp_path / "meminfo")
    monkeypatch.setattr(session, "CONTAINER_LIMIT", tmp_path / "limit")


def test_less_memory_is_the_default_where_less_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096}.get(name, 16 << 18))
    memory(tmp_path, monkeypatch, 12 << 20)
    assert session.fitting_memory(session.memory_available()) == "4g"
    memory(tmp_path, monkeypatch, 3 << 20)
    assert session.fitting_memory(session.memory_available()) == "2048m"
    memory(tmp_path, monkeypatch, 12 << 20, limit=str(3 << 30))
    assert session.fitting_memory(session.memory_available()) == "2048m"
    assert session.fitting_memory(0) == "512m"


def test_more_memory_than_is_free_is_refused_with_what_would_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096}.get(name, 16 << 18))
    memory(tmp_path, monkeypatch, 3 << 20)
    session.require_memory("2g")
    with pytest.raises(LiftlogError, match=r"8g is more than the 3\.0 GiB that are free: .* 2048m"):
        session.require_memory("8g")
    with pytest.raises(LiftlogError, match=r"100m is too small for Spark: give 512m or more"):
        session.require_memory("100m")
