"""`liftlog bench` measures what it says, and leaves nothing behind, however it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from liftlog import cli
from liftlog.bench.publish import Summary, comparison

ROOT = Path(__file__).resolve().parents[2]


def command(folder: Path, *more: str) -> list[str]:
    quick = ["--count", "3000", "--rounds", "1", "--window", "500", "--dir", str(folder)]
    return [sys.executable, "-m", "liftlog", "bench", "publish", *quick, *more]


def left_behind(folder: Path) -> list[str]:
    """Command lines of running processes that name the folder, and what is still in it."""
    found = [path.name for path in folder.iterdir()]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # ended meanwhile
        if str(folder) in line:
            found.append(line)
    return found


def a_summary(rate: float, **costs: float) -> Summary:
    settings = {
        "latency_p50_ms": 1.0,
        "latency_p99_ms": 2.0,
        "server_cpu_us_per_message": 3.0,
        "memory_peak_mb": 4.0,
        "disk_bytes_per_message": 5.0,
    }
    return Summary(rate=rate, rate_min=rate, rate_max=rate, rounds=[], **(settings | costs))


def test_the_comparison_names_what_is_worse_and_only_that() -> None:
    summaries = {
        "liftlog": a_summary(100, memory_peak_mb=8.0, latency_p50_ms=0.5),
        "slower": a_summary(50),
        "faster": a_summary(200),
    }
    assert comparison(summaries, "liftlog") == {
        "slower": {"rate_ratio": 2.0, "worse": {"memory_peak_mb": 2.0}},
        "faster": {"rate_ratio": 0.5, "worse": {"memory_peak_mb": 2.0, "rate": 0.5}},
    }


@pytest.mark.parametrize(
    ("option", "value"), [("--size", "0"), ("--window", "0"), ("--rounds", "0"), ("--dir", "/no/such/folder")]
)
def test_a_value_out_of_range_is_one_line(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "publish", option, value]) == 2
    error = capsys.readouterr().err
    assert option in error and error.count("\n") == 1


@pytest.mark.real
@pytest.mark.slow
def test_both_systems_are_measured_and_everything_is_removed(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, "--vs", "jetstream", "--json"),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document["systems"]) == ["liftlog", "jetstream-default", "jetstream-always"]
    for system in document["systems"].values():
        assert system["rate"] > 0 and system["disk_bytes_per_message"] > 128
        assert [round_["messages"] for round_ in system["rounds"]] == [3000]
    assert set(document["liftlog_over"]) == {"jetstream-default", "jetstream-always"}
    assert left_behind(tmp_path) == []


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_stops_everything_it_started(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        command(tmp_path, "--count", "10000000", "--seconds", "60"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stderr is not None
    with process.stderr as lines:
        for line in lines:
            if "round 1 of 1" in line:
                process.send_signal(number)
                break
        rest = lines.read()
    assert process.wait(timeout=60) == 130, rest
    assert left_behind(tmp_path) == []
