"""Histories of real nodes, judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog_jepsen.history import History
from liftlog_jepsen.parquet import write_parquet
from tests.jepsen.promise_stories import broken


def judge(history: History, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On Spark, and without."""
    assert broken(history) == []
    write_parquet(history, folder / "history")
    capsys.readouterr()
    assert main(["jepsen", "check", str(folder / "history"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["verdict"], result["anomalies"]) == ("valid", [])
