"""`liftlog bench tls`: two clusters are measured, and everything is removed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from liftlog import cli
from tests.tools.test_bench import left_behind


def test_a_value_out_of_range_is_one_line_here_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "tls", "--rounds", "0"]) == 2
    assert capsys.readouterr().err == "liftlog: --rounds 0 is out of range; choose 1 to 1000\n"


@pytest.mark.real
@pytest.mark.slow
def test_tls_is_measured_beside_none_and_everything_is_removed(tmp_path: Path) -> None:
    quick = ["--count", "3000", "--seconds", "90", "--rounds", "1", "--window", "500", "--replicas", "1"]
    line = [sys.executable, "-m", "liftlog", "bench", "tls", *quick, "--dir", str(tmp_path), "--json"]
    done = subprocess.run(line, capture_output=True, timeout=300, check=False, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told["published"]) == set(told["read"]) == {"plain", "TLS"}
    assert all(one["rate"] > 0 for one in told["published"].values())
    assert all(rounds[0]["mb_per_s"] > 0 for rounds in told["read"].values())
    assert set(told["tls_over_plain"]) == {"rate", "server_cpu", "read_rate", "read_cpu"}
    assert left_behind(tmp_path) == []
