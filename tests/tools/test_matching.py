"""`liftlog bench matching`: its workloads are the article's, and a small run tells every table."""

from __future__ import annotations

import json

import pytest

from liftlog.bench.matching import (
    ARTICLE_OPERATIONS,
    ARTICLE_THROUGHPUT,
    STRUCTURES,
    article_messages,
    article_patterns,
    filled,
    medians,
    memory_of,
    nats_workload,
    writers_of,
)
from liftlog.cli import main
from liftlog.subjects.grammar import matches


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.bench.matching_command.THREADS", (2, 11))
    monkeypatch.setattr("liftlog.bench.matching_command.SIZES", (50,))
    monkeypatch.setattr("liftlog.bench.matching.OPERATIONS_A_THREAD", 20)


def test_a_small_run_tells_every_table_as_json(small: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "matching", "--rounds", "1", "--seconds", "0.001", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    tables = document["tables"]
    assert list(tables) == ["operations", "throughput", "memory", "threads", "sizes"]
    for start in ("cold", "hot"):
        for name, figures in tables["operations"][start].items():
            assert figures.keys() == ARTICLE_OPERATIONS[name][start].keys()
            assert all(value > 0 for value in figures.values())
    assert list(tables["throughput"]) == list(ARTICLE_THROUGHPUT) == list(STRUCTURES)
    assert all(one["bytes"] > 0 for one in tables["memory"].values())
    assert list(tables["threads"]["50-50"]) == list(tables["threads"]["90-10"]) == ["2", "11"]
    assert tables["sizes"]["many"]["50"]["trie"].keys() == {"match_us", "subscribe_us", "bytes"}
    assert document["article"]["throughput"]["trie"] == 248_762.10


def test_a_small_run_prints_the_articles_figures_beside_ours(
    small: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "matching", "--rounds", "1", "--seconds", "0.001"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "ns for each operation",
        "815,787",
        "matches per second: 1,000 subscriptions of 3 words",
        "1,052,315",
        "the article says 4.5",
        "90-10",
        "subjects as with NATS, 50% of the patterns with wildcards",
        "interpreter lock",
    ):
        assert words in printed


def test_one_table_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "matching", "--tables", "memory", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["tables"]) == ["memory"]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--rounds", "0", "--rounds 0 is out of range; choose 1 to 1000"),
        ("--seconds", "0", "--seconds 0.0 is out of range; choose 0.001 to 60"),
        ("--tables", "speed", "invalid choice: 'speed'"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], option: str, value: str, words: str
) -> None:
    assert main(["bench", "matching", option, value]) == 2
    assert words in capsys.readouterr().err


def test_the_articles_workload_has_its_wildcards_and_each_message_is_heard() -> None:
    patterns = article_patterns()
    wildcards = [sum(pattern.split(".")[place] == "*" for pattern in patterns) for place in range(3)]
    assert wildcards == [100, 20, 9]
    messages = article_messages(patterns, 2000)
    for number, message in enumerate(messages):
        assert "*" not in message and matches(patterns[number % 1000], message)


def test_what_is_measured_is_the_same_matches_for_every_structure() -> None:
    workload = nats_workload(200, 0.5)
    subjects = sorted(set(workload.subjects))
    found = {
        name: [filled(name, workload.patterns, subjects).match(subject) for subject in subjects]
        for name in STRUCTURES
    }
    assert all(each == found["naive map"] for each in found.values())
    assert any(found["trie"])


def test_half_of_the_threads_write_or_each_tenth_beginning_with_the_first() -> None:
    assert [number for number in range(12) if writers_of("50-50")(number)] == [1, 3, 5, 7, 9, 11]
    assert [number for number in range(12) if writers_of("90-10")(number)] == [0, 10]


def test_medians_leave_the_first_round_out() -> None:
    values = iter([100.0, 3.0, 1.0, 2.0])
    found = medians({"one": lambda: {"x": next(values)}}, 3, "counting", lambda text: None)
    assert found == {"one": {"x": 2.0}}


def test_memory_is_that_of_the_structure_for_each_subscription() -> None:
    patterns = [f"a.b{number}.c" for number in range(500)]
    for name in STRUCTURES:
        assert 20 < memory_of(name, patterns, ()) < 2000
