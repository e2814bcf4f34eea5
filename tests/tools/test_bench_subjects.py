"""`liftlog bench subjects`: a small run tells every table, and what makes no sense is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from liftlog.bench import subjects as bench
from liftlog.bench.subjects_command import STEP_ROWS
from liftlog.cli import main


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.bench.subjects_command.ROUND_MESSAGES", 1000)
    monkeypatch.setattr("liftlog.bench.subjects_command.QUESTIONS", 50)


ARGUMENTS = ["bench", "subjects", "--messages", "70k", "--subjects", "500", "--rounds", "1"]


def test_a_small_run_tells_every_figure_as_json(
    small: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*ARGUMENTS, "--dir", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["messages"], document["subjects"]) == (70_000, 500)
    assert document["cost_ns"].keys() == {"ingest", "append", "seal", "ratio", "ratio_with_sealing"}
    assert 0 < document["cost_ns"]["ratio"] <= document["cost_ns"]["ratio_with_sealing"]
    for values in document["lookups_us"].values():
        assert 0 < values["p50"] <= values["p99"] <= values["most"]
    assert document["memory"]["chunks_for_each_message"] > 2
    # What the process holds may be less than before (pages are given back): both are told, neither is judged.
    assert document["memory"]["process_mb"] > 0 and document["memory"]["process_before_mb"] > 0
    assert document["rebuild_s"]["chunks"] == 1 and document["rebuild_s"]["from_subjects"] > 0
    assert not list(tmp_path.iterdir())


def test_a_small_run_prints_tables(small: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ARGUMENTS) == 0
    printed = capsys.readouterr().out
    for words in (
        "70,000 messages over 500 subjects",
        "append to the index",
        "p99",
        "rebuild from sealed chunks",
    ):
        assert words in printed


def test_the_figures_of_a_node_are_told_by_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = {step: dict.fromkeys(STEP_ROWS, 1.5) for step in ("first", "again", "read")}
    monkeypatch.setattr("liftlog.bench.subjects_node.measure_node", lambda *asked: steps)
    assert main([*ARGUMENTS, "--node"]) == 0
    printed = capsys.readouterr().out
    for words in ("70,000 messages over 500 subjects, one node", "again", *STEP_ROWS.values()):
        assert words in printed
    assert main([*ARGUMENTS, "--node", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["node"] == steps


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--messages", "10", "--messages 10 is out of range; choose 1000 to 100000000"),
        ("--subjects", "20M", "--subjects 20000000 is out of range"),
        ("--rounds", "0", "--rounds 0 is out of range"),
        ("--messages", "many", "--messages: 'many' is not a number such as 1000, 250k"),
        ("--dir", "/no/such/folder", "is not a folder; create it or name another"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], option: str, value: str, words: str
) -> None:
    assert main(["bench", "subjects", option, value]) == 2
    assert words in capsys.readouterr().err


def test_the_questions_are_about_subjects_that_there_are(tmp_path: Path) -> None:
    """A filter of the bench that matched nothing would measure nothing."""
    index = bench.empty(bench.FolderStore(tmp_path))
    index.append(0, [bench.subject_of(number) for number in range(1000)])
    for pattern in bench.FILTERS:
        assert index.count_from(pattern, 0) > 0
    assert len(set(map(bench.subject_of, range(1000)))) == 1000


def test_the_store_is_a_folder(tmp_path: Path) -> None:
    store = bench.FolderStore(tmp_path)
    store.write(12, b"abc")
    store.write(3, b"x")
    store.write(3, b"yz")
    assert (store.numbers(), store.read(3), store.bytes) == ([3, 12], b"yz", 5)
    store.drop(3)
    store.drop(3)
    with pytest.raises(KeyError):
        store.read(3)
