"""Runs the log checks and brings home what is bounded: counts, a few examples of each anomaly, the plots'
points.

`check` is the library's entry: it takes DataFrames and the caller's session and returns results; `check_log`
in `jepsen.spark.log_checks` is the level below, DataFrame in and anomalies DataFrame out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from jepsen.history import FINAL_POLL
from jepsen.log_kernel import Gaps, anomaly_order
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
from jepsen.spark.log_checks import check_log_summary

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
    findings = _findings(
        check_log_summary(frames, chosen.gaps, chosen.examples, transactions=transactions), chosen, incomplete
    )
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
            )
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
    """What each history holds: a handful of rows per history, whatever its size. One job."""
    nothing = F.lit(None).cast("bigint")
    ops = frames.ops.groupBy("history_id", "f", "outcome").agg(
        F.count("*").alias("ops"),
        F.min("t_inv").alias("t_first"),
        F.max(F.greatest("t_inv", "t_ret")).alias("t_last"),
        nothing.alias("sent"),
        nothing.alias("read"),
        F.lit(False).alias("transactions"),
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
    collected = ops.unionByName(mops, allowMissingColumns=True).collect()
    records = {row.history_id: row for row in collected if row.f is None}
    by_history: dict[str, list[Row]] = defaultdict(list)
    for row in sorted((row for row in collected if row.f is not None), key=lambda row: (row.f, row.outcome)):
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
    summary: DataFrame, options: CheckOptions, incomplete: frozenset[str]
) -> dict[str, tuple[Finding, ...]]:
    """Put together what the tasks found."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in summary.collect():
        rows[row.history_id, row.anomaly].append(row.asDict(recursive=True))
    ranks = {name: rank for rank, name in enumerate(MEANINGS)}
    findings: dict[str, tuple[Finding, ...]] = {}
    for history, name in sorted(rows, key=lambda pair: (pair[0], ranks[pair[1]])):
        some = sorted(rows[history, name], key=anomaly_order)
        proven = not (name in NEEDS_COMPLETE and history in incomplete)
        failing = name not in options.allow and name not in INCONCLUSIVE and proven
        examples = tuple(
            Anomaly(name, row["key"], tuple(row["ops"]), Evidence(**row["evidence"]))
            for row in some[: options.examples]
        )
        count, keys = sum(row["count"] for row in some), sum(row["keys"] for row in some)
        findings[history] = (*findings.get(history, ()), Finding(name, count, keys, failing, examples))
    return findings
