"""Runs whole checks for the command line: starts Spark, shows how far it is, stops it, and turns whatever it
throws into one clear line.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark import StatusTracker
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from liftlog.types import LiftlogError
from liftlog_jepsen.result import CheckResult
from liftlog_jepsen.spark.check import CheckOptions, check
from liftlog_jepsen.spark.cycles import CycleOptions
from liftlog_jepsen.spark.frames import read_frames
from liftlog_jepsen.spark.run_cycles import with_cycles
from liftlog_jepsen.spark.run_promises import with_promises
from liftlog_jepsen.spark.session import start_session, stop_session

UNREADABLE = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE|not a Parquet file|Could not read|ParquetDecodingException"
)
REASON = re.compile(r"Reason: (.+)")
"""How Spark's log says why it gave up on a cluster; the exception says only that it did."""
WORKER_DIED = re.compile(r"Python worker exited unexpectedly|MemoryError\b")
OWN_WORDS = re.compile(r"^(?:jepsen\.events\.BadHistory|liftlog\.types\.LiftlogError): (.+)$", re.MULTILINE)
"""What a task of ours said, at the end of a Python stack trace within Spark's message."""
POLL_SECONDS = 0.5
FILE_NAME = re.compile(r"(?:ops|mops|faults)\.parquet")


class Running(NamedTuple):
    """A session, and whom to tell what it does: on a terminal, the tasks that are done are added."""

    session: SparkSession
    show: Callable[[str], None]


@contextlib.contextmanager
def running(
    master: str,
    driver_memory: str | None,
    *,
    source: str,
    java_log: Path,
    show: Callable[[str], None],
    quick: bool = True,
) -> Iterator[Running]:
    """A session that is stopped afterwards. What Java writes to stderr at the start goes to `java_log`.

    `show` is told what is being done, and while Spark's jobs run, on a terminal, how far they are; `source`
    names what is being checked; `quick` is for histories that fit few tasks, see `start_session`.
    Raises LiftlogError if Spark cannot start, and for whatever Spark throws inside of the block.
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
        with watched(session, show) as tell:
            yield Running(session, tell)
    except (PySparkException, Py4JError) as error:
        raise failure(error, source) from None
    finally:
        stop_session(session)


def check_folder(
    folder: Path,
    options: CheckOptions,
    *,
    master: str,
    driver_memory: str | None,
    source: str,
    incomplete: frozenset[str],
    java_log: Path,
    show: Callable[[str], None],
    quick: bool = True,
    cycles: CycleOptions | None = None,
) -> list[CheckResult]:
    """Check every history of a validated Parquet folder, in a session of its own: see `running`.

    `cycles`: search for cycles, too.
    """
    with running(master, driver_memory, source=source, java_log=java_log, show=show, quick=quick) as (
        session,
        tell,
    ):
        frames = read_frames(session, folder)
        results = check(frames, options, source=source, incomplete=incomplete, show=tell)
        results = with_promises(results, frames, options)
        if cycles is not None:
            tell("searching for cycles")
            results = with_cycles(results, frames, options, cycles)
        return results


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
    if WORKER_DIED.search(text):
        return LiftlogError(
            f"a Python worker of Spark died on {source}, most likely for want of memory: free some, give "
            "Spark less of it with --driver-memory, or run fewer tasks at a time with --master 'local[1]'"
        )
    own = OWN_WORDS.search(text)
    if own is not None:
        return LiftlogError(own[1].strip())
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    return LiftlogError(f"Spark failed on {source}: {lines[0]}")


@contextlib.contextmanager
def watched(session: SparkSession, show: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Whom to tell what is being done; `show` hears of it, and meanwhile how many tasks are done.

    Tasks only where somebody watches (stderr is a terminal) and Spark tells (no Spark Connect session does).
    """
    if not sys.stderr.isatty():
        yield show
        return
    tracker = session.sparkContext.statusTracker()
    done = threading.Event()
    words = ["checking"]

    def tell(said: str) -> None:
        words[0] = said
        show(said)

    def look() -> None:
        while not done.wait(POLL_SECONDS):
            with contextlib.suppress(Exception):  # a picture of progress is worth no failure
                tasks = tasks_done(tracker)
                if tasks and not done.is_set():
                    show(f"{words[0]}: {tasks}")

    watcher = threading.Thread(target=look, name="progress", daemon=True)
    watcher.start()
    try:
        yield tell
    finally:
        done.set()
        watcher.join()


def tasks_done(tracker: StatusTracker) -> str:
    """`12 of 48 tasks done` over the stages of the jobs that run now; nothing if none does."""
    stages = [
        tracker.getStageInfo(stage)
        for job in tracker.getActiveJobsIds()
        for stage in getattr(tracker.getJobInfo(job), "stageIds", ())
    ]
    known = [stage for stage in stages if stage is not None]
    total = sum(stage.numTasks for stage in known)
    if not total:
        return ""
    finished = sum(stage.numCompletedTasks for stage in known)
    return f"{finished} of {total} tasks done"


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
