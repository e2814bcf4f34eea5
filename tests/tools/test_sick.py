"""`liftlog bench sick`: its disk waits when it is told to, and its options are looked at before it starts."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from liftlog import cli
from liftlog.bench import sick_command
from liftlog.bench.sick import CASES, SickCase, SickFinding
from liftlog.bench.sicknode import slow_disk
from liftlog.scratch import Scratch
from liftlog.terminal import Activity
from liftlog.testing import check_disk_conformance

LATENCY = {"p50": 5.0, "p99": 20.0}


def test_a_slow_disk_is_a_disk_whose_syncs_wait_while_the_file_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, waits = tmp_path / "control", []
    monkeypatch.setattr(time, "sleep", waits.append)
    numbers = itertools.count()
    kind = slow_disk(control)
    checks = check_disk_conformance(lambda: kind(str(tmp_path / f"disk-{next(numbers)}")))
    assert checks > 0 and waits == []
    disk = kind(str(tmp_path / "disk"))
    file = disk.open("a", create=True)
    control.write_text("40")
    file.append([b"x"])
    file.sync()
    disk.sync_directory("")
    assert waits == [0.04, 0.04]
    control.unlink()
    file.sync()
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--seconds", "1"], "--seconds 1 is out of range; choose 5 to 3600"),
        (["--sync-ms", "0"], "--sync-ms 0 is out of range"),
        (["--rate", "1"], "--rate 1 is out of range"),
        (["--dir", "/no/such/folder"], "--dir /no/such/folder is not a folder"),
        (["--case", "nobody"], "invalid choice: 'nobody'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_started(
    options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "sick", *options]) == 2
    assert problem in capsys.readouterr().err


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[SickCase]]:
    """In place of clusters: each case is told to have made the p99 three times as long."""
    seen: list[SickCase] = []

    def measure(scratch: Scratch, case: SickCase, number: int, activity: Activity) -> SickFinding:
        seen.append(case)
        during = {"p50": 6.0, "p99": 60.0}
        return SickFinding(
            case=case.name,
            node=2,
            before=LATENCY,
            first=LATENCY,
            during=during,
            after=LATENCY,
            longest_gap_ms=1028.4,
            longest_gap_from_s=0.0,
            unanswered=2,
            refused=1,
            elections=0,
            isr_changes=1,
            history=[(-1.0, 1, [1, 2, 3]), (1.2, 1, [1, 3])],
        )

    monkeypatch.setattr(sick_command, "measure_case", measure)
    return lambda: seen


def test_every_case_is_a_line_with_what_became_of_it(
    measured: Callable[[], list[SickCase]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "sick", "--dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [case.name for case in measured()] == list(CASES)
    for name in CASES:
        (row,) = [line for line in lines if line.strip().startswith(name) and "(node" not in line]
        assert row.split()[-9:] == ["5.0", "20.0", "6.0", "60.0", "3.0", "1028", "0", "1", "3"]
    story = "-1.0 s: node 1 leads, in sync 1, 2, 3; +1.2 s: node 1 leads, in sync 1, 3"
    assert f"follower stops (node 2): {story}" in lines


def test_as_json_there_is_everything(
    measured: Callable[[], list[SickCase]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ["--case", "leader's disk", "--seconds", "7", "--json", "--dir", str(tmp_path)]
    assert cli.main(["bench", "sick", *wanted]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [case.sick_s for case in measured()] == [7.0]
    (case,) = found["cases"]
    assert (case["case"], case["ratio"], case["during"]["p99"]) == ("leader's disk", 3.0, 60.0)
