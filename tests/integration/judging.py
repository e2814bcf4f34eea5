"""Histories of real nodes, judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog_jepsen.history import History
from liftlog_jepsen.parquet import write_parquet
from tests.jepsen.promise_stories import broken

COMPACTED = ("lost-write", "unseen", "missing-in-final-read", "poll-skip", "int-poll-skip")
"""What a compacted log shows by design."""


def judge(
    history: History, folder: Path, capsys: pytest.CaptureFixture[str], allowed: Sequence[str] = ()
) -> None:
    """On Spark, and without."""
    assert broken(history) == []
    write_parquet(history, folder / "history")
    capsys.readouterr()
    allow = [word for anomaly in allowed for word in ("--allow", anomaly)]
    assert main(["jepsen", "check", str(folder / "history"), "--json", *allow]) == 0
    result = json.loads(capsys.readouterr().out)
    found = [anomaly for anomaly in result["anomalies"] if anomaly["failing"]]
    assert (result["verdict"], found) == ("valid", [])
