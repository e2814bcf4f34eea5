"""The benchmark's work on Spark: each stage on one history, measured one after the other in one session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from liftlog_jepsen.bench.plan import EXAMPLES, Case, expected, found_by
from liftlog_jepsen.bench.stage import BenchStage
from liftlog_jepsen.bench.usage import Meter
from liftlog_jepsen.generate import Planted, check_planted
from liftlog_jepsen.spark.check import CheckOptions, check
from liftlog_jepsen.spark.cycles import check_cycles
from liftlog_jepsen.spark.frames import HistoryFrames, log_rows, read_frames
from liftlog_jepsen.spark.survey import survey

SHUFFLE, CHECKS, CYCLES = "plain shuffle", "log checks", "cycles"


def run_case(
    session: SparkSession, case: Case, path: Path, *, cycles: bool, show: Callable[[str], None]
) -> Iterator[BenchStage]:
    """Measure every stage on one history."""
    frames = read_frames(session, path)
    known = survey(frames)
    show(f"{case.name}: {SHUFFLE}")
    with Meter() as meter:
        to_nothing(log_rows(frames, known.traits).repartition("log"))
    yield BenchStage(SHUFFLE, known.mops, meter.usage)
    phases = _Phases(lambda text: show(f"{case.name}: {text}"))
    with Meter() as meter, phases.timed():
        results = check(frames, CheckOptions(examples=EXAMPLES), show=phases.show)
    found = check_planted(found_by(results), expected(path, cycles=False))
    yield BenchStage(CHECKS, known.mops, meter.usage, phases.seconds(), tuple(found))
    if cycles:
        show(f"{case.name}: {CYCLES}")
        with Meter() as meter:
            found_cycles = cycles_of(frames)
        differences = check_planted(found_cycles, expected(path, cycles=True))
        yield BenchStage(CYCLES, known.mops, meter.usage, (), tuple(differences))


def to_nothing(rows: DataFrame) -> None:
    """Compute every row and throw it away."""
    rows.write.format("noop").mode("overwrite").save()


def cycles_of(frames: HistoryFrames) -> list[Planted]:
    """The cycles of one history, which are as few as were planted."""
    rows = check_cycles(frames).select("anomaly", "ops").limit(EXAMPLES).collect()
    return [Planted(row.anomaly, None, tuple(sorted(set(row.ops)))) for row in rows]


class _Phases:
    """Turns what a check says it is doing into the time that each part took."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._begun: list[tuple[str, float]] = []
        self._end = 0.0

    def show(self, text: str) -> None:
        self._begun.append((text, time.monotonic()))
        self._show(text)

    @contextmanager
    def timed(self) -> Iterator[None]:
        yield
        self._end = time.monotonic()

    def seconds(self) -> tuple[tuple[str, float], ...]:
        ends = [*(moment for _, moment in self._begun[1:]), self._end]
        return tuple((text, end - start) for (text, start), end in zip(self._begun, ends, strict=True))
