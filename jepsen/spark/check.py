"""Runs the log checks and brings home what is bounded: counts, a few examples of each anomaly, the plots'
points.

`check` is the library's entry: it takes DataFrames and the caller's session and returns results; `check_log`
in `jepsen.spark.log_checks` is the level below, DataFrame in and anomalies DataFrame out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from jepsen.history import FINAL_POLL
from jepsen.result import (
    INCONCLUSIVE,
    MEANINGS,
    NEEDS_COMPLETE,
    Anomaly,
    CheckResult,
    Count,
    Evidence,
    Finding,
    decide,
)
from jepsen.spark.frames import Frames
from jepsen.spark.log_checks import EVIDENCE_SCHEMA, Gaps, check_log

EXAMPLES_DEFAULT = 5


class CheckOptions(NamedTuple):
    """How to judge."""

    gaps: Gaps = "known"
    """What a reader must not pass over: offsets that are known to exist, or "any" offset at all."""
    allow: frozenset[str] = frozenset()
    """Anomalies that are reported but do not make a history invalid."""
    examples: int = EXAMPLES_DEFAULT
    """How many examples of each anomaly to bring home, per history."""


def check(
    frames: Frames,
    options: CheckOptions = CheckOptions(),  # noqa: B008  # immutable
    *,
    source: str = "",
    incomplete: frozenset[str] = frozenset(),
) -> list[CheckResult]:
    """Check every history of `frames`; one result each, sorted by name.

    `incomplete` names the histories whose recorder stopped early (`HistoryInfo.complete`).
    """
    started = time.monotonic()
    summaries = _summaries(frames)
    checks = check_log(frames, options.gaps)
    anomalies = checks.anomalies.persist()
    try:
        findings = _findings(anomalies, options, incomplete)
    finally:
        anomalies.unpersist()
        checks.release()
    check_s = time.monotonic() - started
    results = []
    for history, summary in sorted(summaries.items()):
        reasons = list(summary.reasons)
        if history in incomplete:
            reasons.append("the recorder stopped early: operations may be missing at the end of this history")
        found = findings.get(history, ())
        read = summary.records_read
        verdict, why = decide(found, tuple(reasons), summary.acknowledged, read)
        results.append(
            CheckResult(
                history,
                source,
                verdict,
                why,
                found,
                summary.counts,
                summary.records_sent,
                read,
                summary.t_first_ns,
                summary.t_last_ns,
                check_s,
            )  # fmt: skip
        )
    return results


class _Summary(NamedTuple):
    counts: tuple[Count, ...]
    reasons: tuple[str, ...]
    acknowledged: int
    records_sent: int
    records_read: int
    t_first_ns: int
    t_last_ns: int


def _summaries(frames: Frames) -> dict[str, _Summary]:
    """What each history holds: a handful of rows per history, whatever its size."""
    ops = frames.ops.groupBy("history_id", "f", "outcome").agg(
        F.count("*").alias("ops"),
        F.min("t_inv").alias("t_first"),
        F.max(F.greatest("t_inv", "t_ret")).alias("t_last"),
    )
    has_record = F.col("value").isNotNull() | F.col("value_s").isNotNull()
    mops = frames.mops.where(has_record).groupBy("history_id", "f").count()
    records: dict[tuple[str, str], int] = {(r.history_id, r.f): r["count"] for r in mops.collect()}
    by_history: dict[str, list[Row]] = defaultdict(list)
    for row in ops.orderBy("history_id", "f", "outcome").collect():
        by_history[row.history_id].append(row)
    summaries = {}
    for history, rows in by_history.items():
        counts = tuple(Count(row.f, row.outcome, row.ops) for row in rows)
        reasons = tuple(
            f"{count.ops} final reads ended in {count.outcome}: these readers' final reads prove nothing"
            for count in counts
            if count.f == FINAL_POLL and count.outcome != "ok"
        )
        acknowledged = sum(c.ops for c in counts if c.f in ("send", "txn") and c.outcome == "ok")
        summaries[history] = _Summary(
            counts,
            reasons,
            acknowledged,
            records.get((history, "send"), 0),
            records.get((history, "poll"), 0),
            min(row.t_first for row in rows),
            max(row.t_last for row in rows),
        )
    return summaries


def _findings(
    anomalies: DataFrame, options: CheckOptions, incomplete: frozenset[str]
) -> dict[str, tuple[Finding, ...]]:
    totals = anomalies.groupBy("history_id", "anomaly").agg(
        F.count("*").alias("count"), F.count_distinct("key").alias("keys")
    )
    counted = {(row.history_id, row.anomaly): row for row in totals.collect()}
    if not counted:
        return {}
    place = Window.partitionBy("history_id", "anomaly").orderBy(*evidence_order())
    first = anomalies.withColumn("place", F.row_number().over(place)).where(
        F.col("place") <= options.examples
    )
    examples: dict[tuple[str, str], list[Anomaly]] = defaultdict(list)
    for row in first.orderBy("history_id", "anomaly", "place").collect():
        evidence = Evidence(**row.evidence.asDict())
        examples[row.history_id, row.anomaly].append(Anomaly(row.anomaly, row.key, tuple(row.ops), evidence))
    ranks = {name: rank for rank, name in enumerate(MEANINGS)}
    findings: dict[str, tuple[Finding, ...]] = {}
    for history, name in sorted(counted, key=lambda pair: (pair[0], ranks[pair[1]])):
        total = counted[history, name]
        proven = not (name in NEEDS_COMPLETE and history in incomplete)
        failing = name not in options.allow and name not in INCONCLUSIVE and proven
        finding = Finding(name, total["count"], total["keys"], failing, tuple(examples[history, name]))
        findings[history] = (*findings.get(history, ()), finding)
    return findings


def evidence_order() -> list[str]:
    """Columns that put anomalies of one kind into one order, always the same."""
    fields = EVIDENCE_SCHEMA.removeprefix("struct<").removesuffix(">").split(",")
    names = [field.split(":")[0] for field in fields]
    names.sort(key=lambda name: name != "offset")
    return ["key", *(f"evidence.{name}" for name in names), "ops"]
