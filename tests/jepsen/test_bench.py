"""The benchmark: what it measures is there, what it compares is exact, and its figures come out."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from liftlog.cli import main
from liftlog.types import LiftlogError
from liftlog_jepsen.bench.plan import Case, cases, expected, found_by, short
from liftlog_jepsen.bench.stage import BenchStage
from liftlog_jepsen.bench.table import Measured, as_json, growth, print_table
from liftlog_jepsen.bench.usage import Meter, WorkUsage, processes_below
from liftlog_jepsen.generate import Planted
from liftlog_jepsen.generate.answers import Answer, write_answer
from liftlog_jepsen.result import Anomaly, CheckResult, Evidence, Finding

BUSY = """
import sys, time
block = bytearray(64 * 1024 * 1024)
for place in range(0, len(block), 4096): block[place] = 1
while time.process_time() < 0.3: pass
print("ready", flush=True)
sys.stdin.read()
"""


def result(*findings: Finding) -> CheckResult:
    return CheckResult("h", "", "invalid", (), findings, (), 0, 0, 0, 0, 0.0)


def test_the_meter_sees_what_children_use() -> None:
    with Meter() as meter:
        command = [sys.executable, "-c", BUSY]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            assert child.pid in {each.pid for each in processes_below(meter.root)}
            meter.look()
            used = meter.cpu_so_far()
            child.communicate("")
    assert used >= 0.25
    assert meter.usage.python_bytes >= 64 * 1024 * 1024
    assert meter.usage.java_bytes == 0


def test_cases_grow_and_have_names() -> None:
    chosen = cases([10_000_000, 1_000_000], [100], hot=True, sends_per_op=1)
    assert [case.operations for case in chosen] == [1_000_000, 1_000_000, 10_000_000, 10_000_000]
    assert [case.streams for case in chosen] == [100, 1, 100, 1]
    assert chosen[1].name == "1M operations, 1 hot stream"
    assert len({case.folder for case in chosen}) == 4
    assert [short(number) for number in (999, 1500, 250_000, 2_500_000, 10**9)] == [
        "999", "1.5k", "250k", "2.5M", "1G",
    ]  # fmt: skip


def test_what_a_check_cannot_find_is_not_expected_of_it(tmp_path: Path) -> None:
    planted = [Planted("future-read", "a", (1, 2)), Planted("G1c", None, (3, 4))]
    write_answer(Answer("h", planted), tmp_path)
    assert expected(tmp_path, cycles=False) == [planted[0]]
    assert expected(tmp_path, cycles=True) == [planted[1], Planted("G1c-realtime", None, (1, 2))]


def test_findings_become_answers() -> None:
    example = Anomaly("duplicate", "a", (7, 3), Evidence())
    assert found_by([result(Finding("duplicate", 1, 1, True, (example,)))]) == [
        Planted("duplicate", "a", (3, 7))
    ]
    with pytest.raises(LiftlogError, match="2 times duplicate, but only 1 examples"):
        found_by([result(Finding("duplicate", 2, 1, True, (example,)))])


def measured(rows: int, seconds: float, differences: tuple[str, ...] | None) -> Measured:
    stage = BenchStage("log checks", rows, WorkUsage(seconds, 2 * seconds, 3 << 20, 5 << 20), (), differences)
    return Measured(Case(rows, 100), stage, 1.5)


def test_results_are_shown_and_told_to_machines() -> None:
    some = [measured(1_000_000, 2.0, ()), measured(10_000_000, 18.0, ("not found: duplicate",))]
    first = as_json(some)[0]
    assert (first["rows_per_second"], first["found_exactly"], first["java_peak_mib"]) == (500_000, True, 3)
    assert as_json(some)[1]["differences"] == ["not found: duplicate"]
    assert growth(some) == [("log checks", "100 streams", [(1_000_000, 2.0), (10_000_000, 18.0)])]
    text = io.StringIO()
    print_table(Console(file=text, width=140), some)
    assert "10.0 times the rows, 9.0 times the seconds" in text.getvalue()
    assert "1 differ" in text.getvalue()
    assert "not found: duplicate" in text.getvalue()


def test_sizes_are_read_strictly(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jepsen", "bench", "--operations", "1M,many"]) == 2
    assert "'many' is not a number" in capsys.readouterr().err


@pytest.mark.nightly
def test_a_small_benchmark_finds_exactly_what_was_planted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--operations", "50k", "--streams", "20", "--cycles", "--driver-memory", "1g", "--json"]
    assert main(["jepsen", "bench", *arguments, "--folder", str(tmp_path)]) == 0
    stages = json.loads(capsys.readouterr().out)["measured"]
    assert [stage["check"] for stage in stages] == ["plain shuffle", "log checks", "cycles"]
    assert [stage["found_exactly"] for stage in stages] == [None, True, True]
    assert all(stage["java_peak_mib"] > 100 for stage in stages)
