"""Adds the broken promises of `liftlog_jepsen.spark.promises` to the results of the log checks."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F

from liftlog_jepsen.judgement import Judgement, Problem
from liftlog_jepsen.promises import FUNCTIONS, PROMISES
from liftlog_jepsen.promises.columns import POLL, SEND
from liftlog_jepsen.result import INVALID, Anomaly, CheckResult, Evidence, Finding
from liftlog_jepsen.spark.check import CheckOptions
from liftlog_jepsen.spark.frames import HistoryFrames
from liftlog_jepsen.spark.promises import judge_promises

FACTS = tuple(name for code, name in enumerate(FUNCTIONS) if code not in (SEND, POLL))


def with_promises(
    results: Sequence[CheckResult], frames: HistoryFrames, options: CheckOptions
) -> list[CheckResult]:
    """The results with the broken promises of each history. Without facts (docs/promises.md) there is nothing
    to do, which one look at one column tells.
    """
    if frames.mops.where(F.col("f").isin(*FACTS)).isEmpty():
        return list(results)
    judgements = judge_promises(frames, options.examples)
    return [_with(result, judgements.get(result.history), options.allow) for result in results]


def _with(result: CheckResult, judgement: Judgement | None, allow: frozenset[str]) -> CheckResult:
    if judgement is None or not judgement.totals:
        return result
    findings = []
    for name in (name for name in PROMISES if name in judgement.totals):
        examples = tuple(_anomaly(problem) for problem in judgement.problems if problem.anomaly == name)
        keys = len({example.key for example in examples})
        findings.append(Finding(name, judgement.totals[name], keys, name not in allow, examples))
    failing = any(finding.failing for finding in findings)
    return result._replace(
        findings=(*result.findings, *findings), verdict=INVALID if failing else result.verdict
    )


def _anomaly(problem: Problem) -> Anomaly:
    evidence = Evidence(**{name: problem.detail.get(name) for name in Evidence._fields})
    return Anomaly(problem.anomaly, problem.key or "", problem.operations, evidence, problem.words)
