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
from jepsen.log_kernel import EVIDENCE, Gaps
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
from jepsen.spark.frames import Frames, has_value
from jepsen.spark.log_checks import check_log

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
    options: CheckOptions | None = None,
    *,
    source: str = "",
    incomplete: frozenset[str] = frozenset(),
) -> list[CheckResult]:
    """Check every history of `frames`; one result each, sorted by name.

    `source` is where the frames came from, for the reports; `incomplete` names the histories whose recorder
    stopped early (`HistoryInfo.complete`). Two Spark jobs: one counts, one checks.
    """
    chosen = options or CheckOptions()
    started = time.monotonic()
    summaries = _summaries(frames)
    transactions = any(summary.transactions for summary in summaries.values())
    findings = _findings(check_log(frames, chosen.gaps, transactions=transactions), chosen, incomplete)
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
    transactions: bool
    t_first_ns: int
    t_last_ns: int


def _summaries(frames: Frames) -> dict[str, _Summary]:
    """What each history holds: a handful of rows per history, whatever its size."""
    ops = frames.ops.groupBy("history_id", "f", "outcome").agg(
        F.count("*").alias("ops"),
        F.min("t_inv").alias("t_first"),
        F.max(F.greatest("t_inv", "t_ret")).alias("t_last"),
    )
    sends = F.col("f") == "send"
    mops = (
        frames.mops.where(has_value())
        .groupBy("history_id")
        .agg(
            F.sum(sends.cast("bigint")).alias("sent"),
            F.sum((F.col("f") == "poll").cast("bigint")).alias("read"),
            F.max(sends & (F.col("pos") > 0)).alias("transactions"),
        )
    )
    # An info operation with a known offset needs the same care as a transaction.
    records = {row.history_id: row for row in mops.collect()}
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
        record = records.get(history)
        summaries[history] = _Summary(
            counts,
            reasons,
            acknowledged=sum(c.ops for c in counts if c.f in ("send", "txn") and c.outcome == "ok"),
            records_sent=record.sent if record else 0,
            records_read=record.read if record else 0,
            transactions=bool(record and record.transactions),
            t_first_ns=min(row.t_first for row in rows),
            t_last_ns=max(row.t_last for row in rows),
        )
    return summaries


def _findings(
    anomalies: DataFrame, options: CheckOptions, incomplete: frozenset[str]
) -> dict[str, tuple[Finding, ...]]:
    """Counts and the first examples of every kind, in one job."""
    kind = Window.partitionBy("history_id", "anomaly")
    ordered = kind.orderBy(*evidence_order())
    first = (
        anomalies.withColumns(
            {
                "count": F.count("*").over(kind),
                "place": F.row_number().over(ordered),
                "key_place": F.dense_rank().over(kind.orderBy("key")),
            }
        )
        .withColumn("keys", F.max("key_place").over(kind))
        .where(F.col("place") <= max(options.examples, 1))
    )
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in first.orderBy("history_id", "anomaly", "place").collect():
        rows[row.history_id, row.anomaly].append(row)
    ranks = {name: rank for rank, name in enumerate(MEANINGS)}
    findings: dict[str, tuple[Finding, ...]] = {}
    for history, name in sorted(rows, key=lambda pair: (pair[0], ranks[pair[1]])):
        some = rows[history, name]
        proven = not (name in NEEDS_COMPLETE and history in incomplete)
        failing = name not in options.allow and name not in INCONCLUSIVE and proven
        examples = tuple(
            Anomaly(name, row.key, tuple(row.ops), Evidence(**row.evidence.asDict()))
            for row in some[: options.examples]
        )
        finding = Finding(name, some[0]["count"], some[0]["keys"], failing, examples)
        findings[history] = (*findings.get(history, ()), finding)
    return findings


def evidence_order() -> list[str]:
    """Columns that put anomalies of one kind into one order, always the same."""
    names = sorted(EVIDENCE, key=lambda name: name != "offset")
    return ["key", *(f"evidence.{name}" for name in names), "ops"]
