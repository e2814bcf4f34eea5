"""`liftlog demo` tells the whole story, also to those without Java, and says plainly what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from liftlog import cli

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
