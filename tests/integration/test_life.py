"""Years of a cluster in minutes, by `liftlog bench life`: from the first release on, nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from liftlog.bench.life import EPISODES
from tests.releases import check_out, releases

pytestmark = [pytest.mark.real, pytest.mark.nightly]


def test_a_cluster_of_the_first_release_is_upgraded_goes_through_everything_and_loses_nothing(
    tmp_path: Path,
) -> None:
    release = tmp_path / "release"
    check_out(releases()[0], release)
    command = ["bench", "life", "--rounds", "1", "--older", str(release), "--store", str(tmp_path / "store")]
    done = subprocess.run(
        [sys.executable, "-m", "liftlog", *command, "--json"],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    lived = found["lived"]
    assert lived["lost"] == 0 and lived["copies"] == 3
    assert found["spark"]["verdict"] == "valid"
    kinds = [stop["episode"] for stop in lived["stops"]]
    for kind, times in (
        ("upgrade", 3),
        ("level raised", 1),
        ("kill", 2),
        ("rolling restart", 3),
        ("disk replaced", 3),
        ("node added", 2),
        ("copies moved", 1),
        ("node drained", 2),
        ("node removed", 2),
    ):
        assert kinds.count(kind) == times, kinds
    assert len(dict.fromkeys(kinds)) > len(EPISODES)
