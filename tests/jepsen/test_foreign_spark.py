"""Histories of other tools through Spark: the Data Source, the checks as DataFrames, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from liftlog.cli import main
from liftlog_jepsen.judgement import Budget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real


def register_history(*steps: tuple[str, int | None]) -> str:
    """Operations of one process, one after the other, each ok."""
    lines = []
    for number, (f, value) in enumerate(steps):
        said = "nil" if value is None else value
        asked = "nil" if f == "read" else said
        for place, (kind, shown) in enumerate((("invoke", asked), ("ok", said))):
            time = (2 * number + place) * 1000
            lines.append(f"{{:process 0, :type :{kind}, :f :{f}, :value {shown}, :time {time}}}\n")
    return "".join(lines)


GOOD = register_history(("write", 1), ("read", 1), ("write", 2), ("read", 2))
BAD = register_history(("write", 1), ("read", 1), ("write", 2), ("read", 1))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "good.edn").write_text(GOOD)
    (tmp_path / "bad.edn").write_text(BAD)
    (tmp_path / "broken.edn").write_text(GOOD + "{:process 0, :type :done}\n")
    return tmp_path


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[dict[str, Any]]]:
    code = main(["jepsen", "check", *map(str, arguments), "--json"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# -- the library ---------------------------------------------------------------------------------------------


def test_the_data_source_reads_files_in_parallel_and_a_large_one_by_blocks(
    spark: SparkSession, files: Path
) -> None:
    from liftlog_jepsen.spark.source import register

    register(spark)
    read = spark.read.format("jepsen").option("format", "edn-lines")
    rows = read.load(f"{files}/[gb][oa]*d.edn")
    found = rows.where("f = 'read'").orderBy("file", "number").select("file", "number", "result").collect()
    assert [(Path(row.file).name, row.number, row.result) for row in found] == [
        ("bad.edn", 1, "1"), ("bad.edn", 3, "1"), ("good.edn", 1, "1"), ("good.edn", 3, "2"),
    ]  # fmt: skip
    blocks = read.option("block_bytes", "150").load(f"{files}/good.edn")
    assert blocks.count() == 4
    assert blocks.select("number", "start", "end").orderBy("number").collect() == (
        rows.where("file like '%good.edn'").select("number", "start", "end").orderBy("number").collect()
    )
    events = read.option("rows", "events").load(f"{files}/good.edn").orderBy("position")
    assert "\n".join(row.raw for row in events.select("raw").collect()) + "\n" == "".join(
        f"{{:time {number * 1000}, " + line.split("{")[1].rsplit(", :time", 1)[0].replace(
            ":process 0, :type :invoke", ":type :invoke, :process 0"
        ).replace(":process 0, :type :ok", ":type :ok, :process 0") + "}\n"
        for number, line in enumerate(GOOD.splitlines())
    )  # fmt: skip


def test_checks_are_dataframes_of_anomalies_and_of_verdicts(spark: SparkSession, files: Path) -> None:
    from liftlog_jepsen.spark.foreign import check_foreign, read_foreign

    names = [str(files / f"{name}.edn") for name in ("good", "bad", "broken")]
    checks = check_foreign(
        read_foreign(spark, names, "edn-lines", keep_broken=True),
        "register",
        budget=Budget(),
        partitions=2,
    )
    (anomaly,) = checks.anomalies.collect()
    assert (anomaly.file, anomaly.anomaly, anomaly.key) == (names[1], "nonlinearizable", None)
    assert 3 in anomaly.operations
    assert "read" in anomaly.evidence.words
    assert set(json.loads(anomaly.evidence.detail)) >= {"linearization"}
    verdicts = {Path(row.file).stem: row for row in checks.verdicts.collect()}
    assert {name: row.valid for name, row in verdicts.items()} == {"good": True, "bad": False, "broken": None}
    assert verdicts["broken"].broken.startswith(f"{files}/broken.edn line 9: expected a :type of :invoke")
    assert (verdicts["bad"].operations, verdicts["bad"].format) == (4, "edn-lines")


# -- the command ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shared_session")
def test_one_json_line_for_each_file_in_the_order_given(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [files / f"{name}.edn" for name in ("good", "broken", "none", "bad")]
    code, (good, broken, none, bad) = lines_of(capsys, "--format", "edn-lines", "--model", "register", *names)
    assert code == 1
    assert good.pop("seconds") >= 0
    assert good == {
        "file": str(names[0]), "format": "edn-lines", "model": "register", "verdict": True,
        "anomalies": [], "operations": 4,
    }  # fmt: skip
    assert (broken["verdict"], none["verdict"], bad["verdict"]) == ("unknown", "unknown", False)
    assert "line 9: expected a :type" in broken["error"]
    assert none["error"] == f"cannot read {names[2]}: No such file or directory"
    (anomaly,) = bad["anomalies"]
    assert (anomaly["anomaly"], anomaly["count"]) == ("nonlinearizable", 1)
    assert "error" not in bad
    assert lines_of(capsys, "--format", "auto", "--model", "register", names[0])[0] == 0
    assert lines_of(capsys, "--format", "auto", "--model", "register", *names[:2])[0] == 2


@pytest.mark.usefixtures("shared_session")
def test_a_batch_gives_each_file_options_of_its_own(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "stack.hist").write_text("[1] call push(3)\n[1] return\n[2] call pop\n[2] return 4\n")
    (files / "nil.edn").write_text(register_history(("read", None)))
    listed = [
        {"file": "stack.hist", "format": "limo-txt", "model": "stack"},
        {"file": "good.edn", "format": "auto", "model": "cas-register"},
        {"file": "nil.edn", "format": "auto", "model": "register", "nil_read": "observed", "initial": "0"},
    ]
    (files / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in listed))
    code, found = lines_of(capsys, "--batch", files / "list.jsonl")
    assert code == 1
    assert [(Path(one["file"]).name, one["model"], one["verdict"]) for one in found] == [
        ("stack.hist", "stack", False), ("good.edn", "cas-register", True), ("nil.edn", "register", False),
    ]  # fmt: skip


@pytest.mark.usefixtures("shared_session")
def test_a_custom_model_is_a_few_lines_of_python(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "mine.py").write_text(
        "from liftlog_jepsen.objects import Model\n"
        "class Maximum(Model):\n"
        "    name = 'maximum'\n"
        "    def initial(self, options):\n        return 0\n"
        "    def step(self, state, f, argument, result, outcome):\n"
        "        if f == 'write':\n            return max(state, argument)\n"
        "        return state if result == state else None\n"
    )
    model = f"{files}/mine.py:Maximum"
    (files / "falls.edn").write_text(register_history(("write", 2), ("write", 1), ("read", 2)))
    code, (good, falls) = lines_of(
        capsys, "--format", "auto", "--model", model, files / "good.edn", files / "falls.edn"
    )
    assert (code, good["verdict"], falls["verdict"]) == (0, True, True)
    assert good["model"] == model


@pytest.mark.usefixtures("shared_session")
def test_text_and_a_report_with_the_whole_run(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = files / "r.html"
    arguments = ["--format", "auto", "--model", "register", "--html", str(report)]
    assert main(["jepsen", "check", *arguments, str(files / "bad.edn"), str(files / "broken.edn")]) == 1
    out = capsys.readouterr().out
    assert "bad.edn" in out and "broken.edn line 9" in out.replace("\n", " ")
    assert f"report: {report}" in out
    assert report.read_text().startswith("<!doctype html>")


@pytest.mark.usefixtures("shared_session")
def test_a_converted_folder_is_checked_and_gives_the_same_edn_back(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, back = files / "table", files / "back.edn"
    both = [str(files / "good.edn"), str(files / "bad.edn")]
    assert main(["jepsen", "convert", *both, "--to", "parquet", str(table)]) == 0
    assert main(["jepsen", "convert", both[0], "--to", "edn", str(back)]) == 0
    capsys.readouterr()
    code, found = lines_of(capsys, "--model", "register", table)
    assert code == 1
    assert [(one["file"], one["verdict"]) for one in found] == [(both[1], False), (both[0], True)]
    again = files / "again.edn"
    single = files / "single"
    assert main(["jepsen", "convert", both[0], "--to", "parquet", str(single)]) == 0
    assert main(["jepsen", "convert", str(single), "--to", "edn", str(again)]) == 0
    assert again.read_text() == back.read_text()


KAFKA = """{:process 0, :type :invoke, :f :send, :value [[:send :x 1]]}
{:process 0, :type :ok, :f :send, :value [[:send :x [0 1]]]}
{:process 0, :type :invoke, :f :send, :value [[:send :x 2]]}
{:process 0, :type :ok, :f :send, :value [[:send :x [1 2]]]}
{:process 1, :type :invoke, :f :poll, :value [[:poll]]}
{:process 1, :type :ok, :f :poll, :value [[:poll {:x [[0 1] [1 2]]}]]}
"""


@pytest.mark.usefixtures("shared_session")
def test_logs_of_jepsen_are_judged_by_the_log_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.edn").write_text(KAFKA)
    (tmp_path / "bad.edn").write_text(KAFKA.replace("[0 1] [1 2]", "[0 1] [1 1]"))
    (tmp_path / "odd.edn").write_text(KAFKA.replace(":poll {", ":peek {"))
    names = [tmp_path / f"{name}.edn" for name in ("bad", "odd", "good")]
    code, (bad, odd, good) = lines_of(capsys, "--format", "auto", "--model", "kafka", *names)
    assert code == 1
    assert (bad["verdict"], odd["verdict"], good["verdict"]) == (False, "unknown", True)
    assert {"inconsistent-offsets", "duplicate"} <= {one["anomaly"] for one in bad["anomalies"]}
    assert (good["operations"], good["model"]) == (3, "kafka")
    assert odd["error"].startswith(f"{names[1]}: ")


CIRCLE = """{:process 0, :type :invoke, :f :txn, :value [[:send :x 1] [:poll]]}
{:process 1, :type :invoke, :f :txn, :value [[:send :y 2] [:poll]]}
{:process 0, :type :ok, :f :txn, :value [[:send :x [0 1]] [:poll {:y [[0 2]]}]]}
{:process 1, :type :ok, :f :txn, :value [[:send :y [0 2]] [:poll {:x [[0 1]]}]]}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("shared_session")
def test_cycles_are_searched_for_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "circle.edn").write_text(CIRCLE)
    arguments = ["--format", "auto", "--model", "kafka", tmp_path / "circle.edn"]
    code, (without,) = lines_of(capsys, *arguments)
    assert (code, without["verdict"]) == (0, True)
    code, (found,) = lines_of(capsys, *arguments, "--cycles")
    assert (code, found["verdict"]) == (1, False)
    names = {one["anomaly"]: one for one in found["anomalies"]}
    assert names["G1c"]["count"] == 1
    assert names["G1c"]["meaning"] == "information flowed in a circle"
    code, (allowed,) = lines_of(capsys, *arguments, "--cycles", *(f"--allow={name}" for name in names))
    assert (code, allowed["verdict"], allowed["allowed"]) == (0, True, sorted(names))
