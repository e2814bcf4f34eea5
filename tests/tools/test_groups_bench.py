"""`liftlog bench groups`: members of a group die, and their partitions are worked on by others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from liftlog.cli import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--members", "1"), "--members 1 is out of range; choose 2 to 64"),
        (("--session-ms", "999"), "--session-ms 999 is out of range"),
        (("--members", "8", "--partitions", "7"), "a member that dies would have none; take as many"),
        (("--dir", "/no/such/folder"), "/no/such/folder is not a folder"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "groups", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.real
def test_a_death_among_a_few_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ("--members", "3", "--partitions", "6", "--session-ms", "1000", "--deaths", "1", "--seconds", "1")
    assert main(["bench", "groups", *quick, "--dir", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (death,) = told["deaths"]
    assert death["partitions"] == 2 and 0 < death["first_s"] <= death["last_s"]
    assert told["writes"] > 0 and told["formed_s"] > 0 and told["aim_s"] == 1.0
    assert list(tmp_path.iterdir()) == []
