"""Runs the log checks and brings home what is bounded: counts, and a few examples of each anomaly.

`check` is the library's entry: it takes DataFrames and the caller's session and returns results; `check_log`
in `liftlog_jepsen.spark.log_checks` is the level below, DataFrame in and anomalies DataFrame out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql import functions as F

from liftlog_jepsen.log import ANOMALIES, Rules
from liftlog_jepsen.log.allowed import ALLOWED_ALWAYS, ALLOWED_WITH_SUBSCRIBE
from liftlog_jepsen.log.found import FACTS
from liftlog_jepsen.result import (
    INCONCLUSIVE,
    MEANINGS,
    NEEDS_COMPLETE,
    Anomaly,
    CheckResult,
    Evidence,
    Finding,
    decide,
)
from liftlog_jepsen.spark.frames import HistoryFrames, log_number
from liftlog_jepsen.spark.leader_words import leader_words
from liftlog_jepsen.spark.log_checks import check_large_sends, check_log_summary, value_text
from liftlog_jepsen.spark.splits import plan_splits
from liftlog_jepsen.spark.survey import Survey, survey

EXAMPLES_DEFAULT = 5
LITERALS_MAX = 1000


class CheckOptions(NamedTuple):
    """How to judge."""

    gaps: str = "known"
    """What a reader must not pass over: offsets that are known to exist, or "any" offset at all."""
    allow: frozenset[str] = frozenset()
    """Anomalies that are reported but do not make a history invalid."""
    examples: int = EXAMPLES_DEFAULT
    """How many examples of each anomaly to bring home, per history."""
    unseen: str = "final"
    """Which acknowledged values must have been read: those acknowledged before a "final" read, or "all"."""
    sub_via: str = "assign"
    """How readers got their logs: with "subscribe" or "both", a rebalance between two polls is normal."""

    @property
    def allowed(self) -> frozenset[str]:
        """All anomalies that do not count."""
        rebalanced = ALLOWED_WITH_SUBSCRIBE if self.sub_via != "assign" else frozenset()
        return self.allow | ALLOWED_ALWAYS | rebalanced


def check(
    frames: HistoryFrames,
    options: CheckOptions | None = None,
    *,
    source: str = "",
    incomplete: frozenset[str] = frozenset(),
    show: Callable[[str], None] | None = None,
) -> list[CheckResult]:
    """Check every history of `frames`; one result each, sorted by name.

    `source` is where the frames came from, for the reports; `incomplete` names the histories whose recorder
    stopped early (`HistoryInfo.complete`). `show` is told what is being done. Three Spark jobs: one counts,
    one checks, one looks for sends with their leader's word alone; others if there are any, or examples.
    """
    chosen = options or CheckOptions()
    tell = show or _silent
    started = time.monotonic()
    tell("counting operations")
    known = survey(frames)
    tell(f"checking {known.mops:,} micro-operations")
    findings = _findings(frames, known, chosen, incomplete, tell)
    words = leader_words(frames)
    check_s = time.monotonic() - started
    results = []
    for history, totals in sorted(known.histories.items()):
        reasons = list(totals.reasons)
        if history in incomplete:
            reasons.append("the recorder stopped early: operations may be missing at the end of this history")
        found = findings.get(history, ())
        verdict, why = decide(found, tuple(reasons), totals.acknowledged, totals.records_read)
        results.append(
            CheckResult(
                history,
                source,
                verdict,
                why,
                found,
                totals.counts,
                totals.records_sent,
                totals.records_read,
                totals.t_first_ns,
                totals.t_last_ns,
                check_s,
                leader_words=words.get(history, (0, 0)),
            )
        )
    return results


def _silent(_: str) -> None:
    """For callers who do not want to be told."""


def _findings(
    frames: HistoryFrames,
    known: Survey,
    options: CheckOptions,
    incomplete: frozenset[str],
    tell: Callable[[str], None],
) -> dict[str, tuple[Finding, ...]]:
    """Put together what the tasks found."""
    rules = Rules(options.gaps, options.unseen)
    splits = plan_splits(frames, known.traits, known.mops, known.large_keys)
    summary = check_log_summary(frames, rules, options.examples, known.traits, known.large, splits)
    rows = summary.collect()
    again = [log for log in known.large if log.several]
    if again:
        tell(f"comparing the sends of {len(again)} large logs")
        rows += check_large_sends(frames, rules, options.examples, known.traits, again).collect()
    kinds: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        kinds[known.names[row.history], ANOMALIES[row.anomaly]].append(row)
    shown = {kind: sorted(rows, key=_earliest)[: options.examples] for kind, rows in kinds.items()}
    if kinds:
        tell("looking up what the anomalies are about")
    texts = _texts(frames, [row for rows in shown.values() for row in rows])
    ranks = {name: rank for rank, name in enumerate(MEANINGS)}
    findings: dict[str, tuple[Finding, ...]] = {}
    for history, name in sorted(kinds, key=lambda kind: (kind[0], ranks[kind[1]])):
        rows = kinds[history, name]
        proven = not (name in NEEDS_COMPLETE and history in incomplete)
        failing = name not in options.allowed and name not in INCONCLUSIVE and proven
        examples = sorted((_example(name, row, texts) for row in shown[history, name]), key=_by_key)
        count = sum(row["count"] for row in rows)
        # Parts of one log report it each: see `liftlog_jepsen.log.summary.summarize`.
        keys = sum(row.keys_ for row in rows) + len(
            {row.log for row in rows if row["count"] and not row.keys_}
        )
        findings[history] = (
            *findings.get(history, ()),
            Finding(name, count, keys, failing, tuple(examples)),
        )
    return findings


def _earliest(row: Row) -> tuple[Any, ...]:
    """The same examples whatever the tasks were: those of the earliest operations."""
    names = ("op_1", "op_2", "value_op", "value_pos", "offset", "other_offset", "process", "other_op", "log")
    return tuple((row[name] is not None, row[name]) for name in names)


def _by_key(anomaly: Anomaly) -> tuple[Any, ...]:
    offset = anomaly.evidence.offset
    return anomaly.key, offset is not None, offset, anomaly.ops


Texts = dict[tuple[int, int, int | None], str]
"""Values by (log, operation, position), and names of logs by (log, operation, None)."""


def _texts(frames: HistoryFrames, rows: list[Row]) -> Texts:
    """The texts that these anomalies refer to. One job, if there are any."""
    ops = sorted(
        {row[name] for row in rows for name in ("op_1", "value_op", "other_op") if row[name] is not None}
    )
    if not ops:
        return {}
    mops = frames.mops
    if len(ops) <= LITERALS_MAX:
        mops = mops.where(F.col("op_id").isin(ops))
    else:
        wanted = mops.sparkSession.createDataFrame([(op,) for op in ops], "op_id bigint")
        mops = mops.join(F.broadcast(wanted), "op_id", "left_semi")
    logs = sorted({row.log for row in rows})
    if len(logs) <= LITERALS_MAX:
        mops = mops.where(log_number().isin(logs))
    texts: Texts = {}
    columns = (log_number().alias("log"), "op_id", "pos", "key", value_text().alias("text"))
    for row in mops.select(*columns).collect():
        texts[row.log, row.op_id, None] = row.key
        if row.text is not None:
            texts[row.log, row.op_id, row.pos] = row.text
    return texts


def _example(name: str, row: Row, texts: Texts) -> Anomaly:
    evidence = Evidence(
        texts.get((row.log, row.value_op, row.value_pos)),
        texts.get((row.log, row.other_op, row.other_pos)),
        **{fact: row[fact] for fact in FACTS},
    )
    ops = tuple(op for op in (row.op_1, row.op_2) if op is not None)
    return Anomaly(name, texts[row.log, row.op_1, None], ops, evidence)
