"""`liftlog spec refine`: hold the protocol traces of a real cluster against the specification.

Exit codes: 0 every step is a step of the models; 1 one is not; 2 the traces cannot be used.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from liftlog.terminal import Activity
from liftlog.types import LiftlogError
from liftlog_spec.checking import print_json
from liftlog_spec.lang.types import SpecError
from liftlog_spec.refine.traces import TraceReport, check_traces

MEMORY = "4g"


def add_refine(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "refine",
        help="hold the traces of a real cluster against the models",
        description="Each step in the traces must be an action of the models isr or raft, or change nothing. "
        "Give the traces of all nodes of one cluster (liftlog serve --trace), from their beginning.",
    )
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE", help="one file for each node")
    parser.add_argument("--spark", metavar="MASTER", help="check on Spark, e.g. 'local[2]', for long traces")
    parser.add_argument(
        "--driver-memory", default=MEMORY, metavar="SIZE", help=f"memory of Spark's driver (default {MEMORY})"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=_refine)


def _refine(arguments: argparse.Namespace) -> int:
    try:
        with Activity() as activity:
            activity.show("reading traces")
            report = _on_spark(arguments) if arguments.spark else check_traces(arguments.traces)
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    if arguments.json:
        print_json(report)
    else:
        print("\n".join(lines_of(report)))
    return 0 if report.good else 1


def _on_spark(arguments: argparse.Namespace) -> TraceReport:
    from liftlog_jepsen.spark.session import start_session, stop_session
    from liftlog_spec.refine.spark import check_on_spark

    session = start_session(arguments.spark, arguments.driver_memory)
    try:
        return check_on_spark(arguments.traces, session)
    finally:
        stop_session(session)


def lines_of(report: TraceReport) -> list[str]:
    """The report as text."""
    actions = sum(report.actions.values())
    lines = [
        f"{report.lines:,} lines of {len(report.files)} traces: {actions:,} actions, "
        f"{report.stutters:,} steps that change nothing"
    ]
    for name, number in report.actions.items():
        lines.append(f"  {name:<32} {number:>10,}")
    for name, number in report.outside.items():
        lines.append(f"  outside the models: {name:<12} {number:>10,}")
    lines.append(
        "every step is a step of the models" if report.good else f"NOT a step of the models: {report.finding}"
    )
    return lines
