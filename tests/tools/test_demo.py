"""`liftlog demo` tells the whole story, also to those without Java, and says plainly what is wrong."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from liftlog import cli
from liftlog.commands.demo import rows
from liftlog.demo.real import RealResult
from liftlog.demo.simulation import PlantedResult, SimulationResult
from liftlog.demo.story import DemoSummary
from liftlog.demo.work import WORK_MESSAGES, ConsumerResult, ProcessorResult
from liftlog_jepsen.store import read_history
from tests.jepsen.promise_stories import broken

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--input", "/no/such/file"], "/no/such/file"),
        (["--messages", "5"], "--messages 5"),
        (["--seeds", "0"], "--seeds 0"),
        (["--jobs", "0"], "--jobs 0"),
    ],
)
def test_wrong_use_is_one_line(
    arguments: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", *arguments, "--store", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert named in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_simulation_that_proves_too_little_is_told_where_the_verdict_is(tmp_path: Path) -> None:
    """It ended in exit code 1 under a summary in which everything was well."""
    simulation = SimulationResult(100, 0, [], ["invariant PendingExact"], 9, {}, 0, {}, 1.0, 1.0)
    planted = PlantedResult("truncate_to_hw", True, 1, "CommittedOnISR", "", "liftlog sim run", True)
    consumer, processor = ConsumerResult(9, 9, 1, 0, 0, 2, 1.0, 1.0), ProcessorResult(9, 9, 0)
    real = RealResult(9, 9, 9, 0, 0, 0, 9, 1, 1.0, 1.0, 9.0, 9.0, 9.0, "", consumer, processor)
    summary = DemoSummary(simulation, planted, real, None, "no Java", 1.0, str(tmp_path), 1)
    told = dict(rows(summary))
    assert "invariant PendingExact" in told["never reached"]
    assert "9 messages" in told["consumer"] and "1 given again, 0 of them after their ack" in told["consumer"]
    assert "9 outputs of 9 messages, 0 missing" in told["processor"]
    path = tmp_path / "summary.json"
    path.write_bytes(msgspec.json.encode(summary))
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "check_demo.py", path], capture_output=True, text=True
    )
    assert done.returncode == 1 and "never reached invariant PendingExact" in done.stderr


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ({"never_acked": 1}, "skipped messages"),
        ({"acked_again": 1}, "skipped messages"),
        ({"messages": 0}, "skipped messages"),
        ({"again": 0}, "no message was given again"),
        ({"failover_ms": 0.0}, "no message was given again"),
        ({"wrong": 1}, "outputs are not those"),
        ({"outputs": 0}, "outputs are not those"),
        ({}, ""),
    ],
)
def test_the_verification_demands_the_consumer_and_the_processor(found: dict[str, float], named: str) -> None:
    consumer = msgspec.to_builtins(ConsumerResult(9, 9, 1, 0, 0, 2, 1.0, 1.0))
    processor = msgspec.to_builtins(ProcessorResult(9, 9, 0))
    for name, value in found.items():
        (consumer if name in consumer else processor)[name] = value
    consumed = runpy.run_path(str(ROOT / "scripts" / "check_demo.py"))["consumed"]
    problems = "\n".join(consumed(consumer, processor))
    assert named in problems if named else not problems


@pytest.mark.real
@pytest.mark.slow
def test_without_java_it_says_what_to_install_and_does_the_rest(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(4000)))
    options = ["--input", str(lines), "--seeds", "2", "--store", str(tmp_path / "store"), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "liftlog", "demo", *options],
        env=os.environ | {"JAVA_HOME": str(tmp_path / "nowhere")},
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
    )
    assert done.returncode == 2, done.stderr
    assert "openjdk-17-jre-headless" in done.stderr
    summary = json.loads(done.stdout)
    assert summary == json.loads((tmp_path / "store" / "demo" / "latest" / "summary.json").read_text())
    assert summary["exit_code"] == 2 and "openjdk-17-jre-headless" in summary["missing"]
    assert summary["spark"] is None
    assert summary["simulation"]["violations"] == 0 and summary["simulation"]["checks"] > 0
    assert summary["planted"]["caught"] and "--mutant truncate_to_hw" in summary["planted"]["replay"]
    real = summary["real"]
    assert (real["messages"], real["acked"], real["lost"]) == (4000, 4000, 0)
    assert real["failover_ms"] > 0 and real["killed_node"] in (1, 2, 3)
    assert real["attempts"] == 4000 + real["unknown"] + real["refused"]
    consumer, processor = real["consumer"], real["processor"]
    assert consumer["messages"] == processor["inputs"] == processor["outputs"] >= WORK_MESSAGES
    assert (consumer["never_acked"], consumer["acked_again"], processor["wrong"]) == (0, 0, 0)
    assert consumer["failover_ms"] > 0 and consumer["killed_node"] in (1, 2, 3)
    assert consumer["again"] >= WORK_MESSAGES // 10
    history = read_history(Path(real["history"]))
    facts = {mop.f for op in history.ops() for mop in op.mops}
    assert facts >= {"send", "poll", "consumer", "pull", "deliver", "settle", "floor"}
    assert [fault.kind for fault in history.faults] == ["kill", "kill"]
    assert broken(history) == []
