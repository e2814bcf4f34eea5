"""Runs a whole check for the command line: starts Spark, checks a Parquet folder, stops Spark, and turns
whatever Spark throws into one clear line.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jepsen.result import CheckResult
from jepsen.spark.check import CheckOptions, check
from jepsen.spark.frames import read_frames
from jepsen.spark.session import start_session, stop_session
from liftlog.types import LiftlogError

UNREADABLE = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE|not a Parquet file|Could not read|ParquetDecodingException"
)
REASON = re.compile(r"Reason: (.+)")
"""How Spark's log says why it gave up on a cluster; the exception says only that it did."""
FILE_NAME = re.compile(r"(?:ops|mops|faults)\.parquet")


def check_folder(
    folder: Path,
    options: CheckOptions,
    *,
    master: str,
    driver_memory: str,
    source: str,
    incomplete: frozenset[str],
    java_log: Path,
    show: Callable[[str], None],
    quick: bool = True,
) -> list[CheckResult]:
    """Check every history of a validated Parquet folder. What Java writes to stderr goes to `java_log`.

    `show` is told what is being done; `quick` is for histories that fit few tasks, see `start_session`.
    Raises LiftlogError if Spark cannot start or fails.
    """
    show(f"starting Spark on {master}")
    try:
        with stderr_of_children(java_log):
            session = start_session(master, driver_memory, quick=quick)
    except LiftlogError as error:
        given_up = REASON.search(java_log.read_text(errors="replace")) if java_log.exists() else None
        if given_up is None:
            raise
        raise LiftlogError(f"Spark did not start on master {master}: {given_up[1]}") from error
    try:
        show("checking")
        return _check(session, folder, options, source, incomplete)
    finally:
        stop_session(session)


def _check(
    session: SparkSession, folder: Path, options: CheckOptions, source: str, incomplete: frozenset[str]
) -> list[CheckResult]:
    try:
        return check(read_frames(session, folder), options, source=source, incomplete=incomplete)
    except (PySparkException, Py4JError) as error:
        raise failure(error, source) from None


def failure(error: Exception, source: str) -> LiftlogError:
    """What Spark threw, in one line: a file it could not read, memory that ran out, or its own first line."""
    text = str(error)
    if UNREADABLE.search(text):
        named = FILE_NAME.search(text)
        where = f"{source}/{named.group()}" if named else source
        return LiftlogError(
            f"broken history {where}: expected readable Parquet data, but its pages are damaged"
        )
    if "OutOfMemoryError" in text:
        return LiftlogError(f"Spark ran out of memory on {source}: give it more with --driver-memory")
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    return LiftlogError(f"Spark failed on {source}: {lines[0]}")


@contextlib.contextmanager
def stderr_of_children(path: Path) -> Iterator[None]:
    """Processes that are started meanwhile write their stderr to a file; this process keeps its own.

    Java announces its modules and Spark its log settings there before any setting can silence them.
    """
    shown = sys.stderr
    shown.flush()
    own = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        with open(own, "w", encoding="utf-8", buffering=1, closefd=False) as direct:
            sys.stderr = direct
            yield
    finally:
        sys.stderr = shown
        os.dup2(own, 2)
        os.close(own)
