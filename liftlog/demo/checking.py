"""The demo's last part: the history of the real run, checked on Spark in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from liftlog.demo.display import Display
from liftlog.real.nats_server import find_binary
from liftlog.rooms import room_module
from liftlog.types import LiftlogError

CHECK_TIMEOUT_S = 600.0


class SparkResult(msgspec.Struct):
    """The verdict ("valid", "invalid", "unknown"), what it rests on, and where the report is."""

    verdict: str
    anomalies: list[str]
    reasons: list[str]
    operations: int
    records_read: int
    seconds: float
    report: str


def require_parts() -> None:
    """Raise LiftlogError, with what to install, if something is missing without which there is no demo."""
    find_binary()
    room_module("liftlog_jepsen.spark.session").require_packages()


def java_problem() -> str:
    """Why Spark cannot run here, with what to install; empty if it can."""
    try:
        room_module("liftlog_jepsen.spark.session").require_java()
    except LiftlogError as error:
        return str(error)
    return ""


def check_on_spark(folder: Path, display: Display) -> SparkResult:
    """Run ``liftlog jepsen check`` on the run in `folder`. Raises LiftlogError if it reaches no verdict."""
    command = [sys.executable, "-m", "liftlog", "jepsen", "check", str(folder), "--json"]
    with display.busy("starting Spark and checking"):
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S, check=False)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
        result = SparkResult(
            verdict=answer["verdict"],
            anomalies=[f"{found['anomaly']} x{found['count']}" for found in answer["anomalies"]],
            reasons=answer["reasons"],
            operations=answer["operations"],
            records_read=answer["records_read"],
            seconds=answer["check_s"],
            report=answer["report"],
        )
    except (ValueError, KeyError, TypeError):
        words = done.stderr.strip().splitlines()
        raise LiftlogError(
            f"the check on Spark failed: {words[-1] if words else 'it said nothing'}"
        ) from None
    display.line(
        f"{result.verdict}: {result.operations:,} operations and {result.records_read:,} records read, "
        f"checked in {result.seconds:.0f} s"
    )
    for line in result.anomalies + result.reasons:
        display.line(line)
    return result
