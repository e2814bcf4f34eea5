"""`liftlog jepsen`: verdicts as exit codes, one clear line for whatever is wrong, reports in place."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError

from liftlog.cli import main
from liftlog_jepsen.generate import fill, plant
from liftlog_jepsen.history import History, HistoryWriter
from liftlog_jepsen.jsonl import write_jsonl
from liftlog_jepsen.parquet import read_info, write_parquet
from liftlog_jepsen.result import MEANINGS
from liftlog_jepsen.spark import run as spark_run
from liftlog_jepsen.store import new_run

ROOT = Path(__file__).resolve().parent.parent.parent


def history(*anomalies: str, name: str = "made-up", acked: bool = True) -> History:
    milliseconds = iter(range(0, 10**12, 1_000_000))
    writer = HistoryWriter(name, clock_ns=milliseconds.__next__)
    if acked:
        fill(writer, ["log/0", "log/1"], 40, readers=2, batch=10)
    else:
        writer.info(writer.invoke(1, "send", "log/0", "a"), "timed out")
    for anomaly in anomalies:
        plant(writer, anomaly, f"planted/{anomaly}")
    writer.fault("kill", "node 1", 5_000_000, 9_000_000)
    return writer.close()


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line with which the command refuses its work."""
    assert main(["jepsen", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("liftlog: ")
    return last.removeprefix("liftlog: ")


# -- verdicts ------------------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.usefixtures("shared_session")
def test_a_valid_run_folder_gives_0_and_leaves_its_report_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = new_run(tmp_path, "demo")
    write_parquet(history(), run / "history")
    assert main(["jepsen", "check", str(tmp_path / "demo" / "latest")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("VALID  made-up: no anomaly was found")
    assert "40 values sent, 80 records read" in out
    assert f"none of {len(MEANINGS)} kinds of anomaly was found" in out
    assert (run / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.real
@pytest.mark.usefixtures("shared_session")
def test_an_invalid_file_gives_1_and_shows_every_anomaly_with_its_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(history(*MEANINGS), tmp_path / "bad.jsonl")
    assert main(["jepsen", "check", str(tmp_path / "bad.jsonl")]) == 1
    out = capsys.readouterr().out
    assert out.startswith("INVALID  made-up: the log broke its promises")
    for anomaly in MEANINGS:
        assert anomaly in out
    assert "but nobody sent it to this log" in " ".join(out.split())
    page = (tmp_path / "bad.html").read_text()
    for anomaly in MEANINGS:
        assert re.search(rf"<h3 id=[^>]*>{anomaly}: [12]</h3>", page), anomaly


@pytest.mark.real
@pytest.mark.usefixtures("shared_session")
def test_several_histories_in_one_folder_answer_with_the_worst_verdict_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = [history(name="good"), history("duplicate", name="bad"), history(name="empty", acked=False)]
    write_parquet(several, tmp_path / "all")
    assert main(["jepsen", "check", str(tmp_path / "all"), "--json", "--html", str(tmp_path / "r.html")]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["report"]) == ("invalid", str(tmp_path / "r.html"))
    verdicts = {one["history"]: one["verdict"] for one in answer["histories"]}
    assert verdicts == {"good": "valid", "bad": "invalid", "empty": "unknown"}
    (bad,) = [one for one in answer["histories"] if one["history"] == "bad"]
    (anomaly,) = bad["anomalies"]
    assert (anomaly["anomaly"], anomaly["count"], anomaly["failing"]) == ("duplicate", 1, True)
    (example,) = anomaly["examples"]
    assert (example["key"], example["value"]) == ("planted/duplicate", "planted/duplicate a")
    assert (example["offset"], example["other_offset"]) == (0, 3)


@pytest.mark.real
@pytest.mark.usefixtures("shared_session")
def test_a_history_that_shows_nothing_gives_2_and_an_allowed_anomaly_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_parquet(history(acked=False), tmp_path / "nothing")
    assert main(["jepsen", "check", str(tmp_path / "nothing"), "--json", "--no-html"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["report"]) == ("unknown", None)
    assert answer["reasons"] == ["no send was acknowledged, so there is nothing that could have been lost"]
    assert not (tmp_path / "nothing.html").exists()
    write_parquet(history("poll-skip"), tmp_path / "skips")
    allowed = ["--allow", "poll-skip", "--no-html", "--json"]
    assert main(["jepsen", "check", str(tmp_path / "skips"), *allowed]) == 0
    (anomaly,) = json.loads(capsys.readouterr().out)["anomalies"]
    assert (anomaly["anomaly"], anomaly["failing"]) == ("poll-skip", False)


@pytest.mark.real
@pytest.mark.slow
def test_as_a_process_it_starts_and_stops_spark_without_a_word_from_java(tmp_path: Path) -> None:
    write_jsonl(history(), tmp_path / "good.jsonl")
    command = [sys.executable, "-m", "liftlog", "jepsen", "check", str(tmp_path / "good.jsonl")]
    done = subprocess.run(
        [*command, "--driver-memory", "1g"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("VALID")
    assert [line.split()[0] for line in done.stderr.splitlines()] == [
        "reading",
        "starting",
        "counting",
        "checking",
        "writing",
    ]


# -- what it refuses -----------------------------------------------------------------------------------------


def test_a_missing_history_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "check", tmp_path / "none.jsonl")
    assert line.startswith(f"no history at {tmp_path / 'none.jsonl'}: give a .jsonl file")


def test_a_broken_line_is_named_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.jsonl"
    write_jsonl(history(), path)
    lines = path.read_text().splitlines()
    lines[3] = lines[3].replace('"ok"', '"okay"')
    path.write_text("\n".join(lines) + "\n")
    line = refused(capsys, "check", path)
    assert line.startswith(f"broken history {path}:4: ")
    assert "okay" in line


def test_a_torn_line_is_refused_with_the_way_around_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "torn.jsonl"
    write_jsonl(history(), path)
    path.write_bytes(path.read_bytes()[:-40])
    line = refused(capsys, "check", path)
    assert line.startswith(f"broken history {path}:")
    assert "pass --salvage" in line


def test_a_damaged_parquet_page_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "damaged"
    write_parquet(history(), folder)
    data = bytearray((folder / "mops.parquet").read_bytes())
    data[4:400] = bytes(396)
    (folder / "mops.parquet").write_bytes(data)
    line = refused(capsys, "check", folder)
    assert line.startswith(f"broken history {folder / 'mops.parquet'}: expected readable columns, but ")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ["--allow", "everything"],
            "--allow everything: there is no such anomaly; there are inconsistent-offsets",
        ),
        (["--master", "nonsense"], "--master nonsense is no Spark master: give local[2], spark://HOST:PORT"),
        (["--examples", "0"], "--examples 0: give a number from 1 to 1000"),
        (
            ["--html", "/nowhere/report.html"],
            "cannot write the report /nowhere/report.html: choose another place",
        ),
        (["--driver-memory", "plenty"], "driver memory 'plenty' is not a size: write it like 4g"),
        (["--driver-memory", "90000g"], "driver memory 90000g is more than this machine's"),
    ],
)
def test_a_wrong_option_is_refused_with_the_remedy(
    options: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(history(), tmp_path / "h.jsonl")
    assert refused(capsys, "check", tmp_path / "h.jsonl", *options).startswith(expected)


def test_without_java_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(history(), tmp_path / "h.jsonl")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    line = refused(capsys, "check", tmp_path / "h.jsonl")
    assert f"need a Java 17 runtime, none found in JAVA_HOME={tmp_path}" in line
    assert "apt-get install openjdk-17-jre-headless" in line


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "An error occurred\n[FAILED_READ_FILE.NO_HINT] reading file:///x/mops.parquet SQLSTATE: KD001",
            "broken history /h/mops.parquet: expected readable Parquet data",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "Spark ran out of memory on /h: give it more"),
        ("\n[INTERNAL] first line\n  at java.lang", "Spark failed on /h: [INTERNAL] first line"),
    ],
)
def test_what_spark_throws_becomes_one_line(words: str, expected: str) -> None:
    line = str(spark_run.failure(Py4JError(words), "/h"))
    assert line.startswith(expected)
    assert "\n" not in line


def test_what_java_writes_to_stderr_goes_to_a_file_and_our_own_words_do_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with spark_run.stderr_of_children(tmp_path / "java.log"):
        subprocess.run([sys.executable, "-c", "import sys; print('WARNING', file=sys.stderr)"], check=True)
        print("our own", file=sys.stderr)
    print("afterwards", file=sys.stderr)
    assert capfd.readouterr().err == "our own\nafterwards\n"
    assert (tmp_path / "java.log").read_text() == "WARNING\n"


# -- generate ------------------------------------------------------------------------------------------------


def test_generate_writes_both_forms_and_never_over_an_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common: list[Any] = ["--sends", "50", "--plant", "phantom"]
    for place in (tmp_path / "made.jsonl", tmp_path / "made"):
        assert main(["jepsen", "generate", str(place), *common]) == 0
        assert capsys.readouterr().out.startswith(f"wrote {place}: ")
        assert "exists already" in refused(capsys, "generate", place)
    (info,) = read_info(tmp_path / "made").histories
    assert info.meta == {"planted": "phantom"}


def test_generate_refuses_what_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no such anomaly" in refused(capsys, "generate", tmp_path / "a", "--plant", "gremlin")
    assert refused(capsys, "generate", tmp_path / "a", "--keys", "0").startswith(
        "--keys 0: give a number of 1"
    )
