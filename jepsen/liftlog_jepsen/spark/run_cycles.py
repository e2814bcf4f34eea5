"""Adds the cycles of `liftlog_jepsen.spark.cycles` to the results of the log checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import Row, Window
from pyspark.sql import functions as F

from liftlog_jepsen.graph.kernels import LIMIT
from liftlog_jepsen.result import INVALID, UNKNOWN, VALID, Anomaly, CheckResult, Evidence, Finding
from liftlog_jepsen.spark.check import CheckOptions
from liftlog_jepsen.spark.cycles import CycleOptions, check_cycles
from liftlog_jepsen.spark.frames import HistoryFrames


def with_cycles(
    results: Sequence[CheckResult], frames: HistoryFrames, options: CheckOptions, cycles: CycleOptions
) -> list[CheckResult]:
    """The results with the cycles of each history. One Spark job; counts and a few examples come home.

    Cycles that jepsen.tests.kafka allows, and those that the caller does, are shown but do not count. Where
    the search had to stop, a history is at best unknown.
    """
    kind = Window.partitionBy("history_id", "anomaly")
    found = check_cycles(frames, cycles).withColumns(
        {
            "total": F.count("*").over(kind),
            "rank": F.row_number().over(kind.orderBy("ops", "key")),
        }
    )
    rows: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in found.where(F.col("rank") <= options.examples).orderBy("rank").collect():
        rows[row.history_id][row.anomaly].append(row)
    allowed = options.allow | cycles.allowed
    return [_with(result, rows.get(result.history, {}), allowed, cycles) for result in results]


def _with(
    result: CheckResult, rows: dict[str, list[Row]], allowed: frozenset[str], cycles: CycleOptions
) -> CheckResult:
    findings = []
    for name in cycles.kinds:
        some = rows.get(name, [])
        if some:
            examples = tuple(_anomaly(row) for row in some)
            keys = len({row.key for row in some})
            findings.append(Finding(name, some[0].total, keys, name not in allowed, examples))
    reasons = tuple(row.words for row in rows.get(LIMIT, []))
    verdict = result.verdict
    if any(finding.failing for finding in findings):
        verdict = INVALID
    elif reasons and verdict == VALID:
        verdict = UNKNOWN
    return result._replace(
        findings=(*result.findings, *findings), reasons=(*result.reasons, *reasons), verdict=verdict
    )


def _anomaly(row: Row) -> Anomaly:
    evidence = Evidence(**{name: row.evidence[name] for name in Evidence._fields if name in row.evidence})
    steps = tuple(step.asDict() for step in row.cycle or ())
    return Anomaly(row.anomaly, row.key, tuple(row.ops), evidence, row.words or "", steps)
