"""`liftlog sim report`: the page of a failure bundle, of a trace, or of the traces of real nodes.

Exit codes: 0 the page is written; 2 wrong use.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from liftlog.types import LiftlogError
from liftlog_sim.page.chart import Chart

FIRST_BYTES = 200


def add_report(verbs: Any) -> None:
    """Add `report` to the verbs of `sim`."""
    report = verbs.add_parser("report", help="write what happened in a run as one HTML page")
    report.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="a failure bundle, a trace of 'sim run --trace', or the traces of all real nodes of a cluster",
    )
    report.add_argument(
        "--html",
        type=Path,
        default=None,
        metavar="PAGE",
        help="where to write it; default: beside the first file",
    )
    report.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> int:
    from liftlog_sim.page.writing import write_page

    paths: list[Path] = arguments.files
    target = arguments.html or paths[0].with_name(_stem(paths[0]) + ".html")
    chart = chart_of(paths)
    size = write_page(chart, target)
    print(f"{target}: {len(chart.steps):,} steps of {len(chart.nodes)} nodes, {size / 1e6:.2f} MB")
    for note in chart.notes:
        print(f"  {note}")
    return 0


def chart_of(paths: list[Path]) -> Chart:
    """The chart of what these files hold. Raises LiftlogError."""
    from liftlog_sim.page.from_nodes import chart_of_nodes
    from liftlog_sim.page.from_trace import chart_of_bundle, chart_of_trace

    first = paths[0]
    if first.name.endswith((".json", ".json.gz")):
        from liftlog_sim.explain.bundle import read

        _alone(paths, "a bundle")
        return chart_of_bundle(read(first), first.name)
    try:
        with first.open("rb") as file:
            begin = file.read(FIRST_BYTES)
    except OSError as error:
        raise LiftlogError(f"cannot read {first}: {error.strerror}") from None
    if b'"type":"trace"' in begin:
        return chart_of_nodes(paths)
    _alone(paths, "the trace of a simulated run")
    return chart_of_trace(first)


def _alone(paths: list[Path], what: str) -> None:
    if len(paths) > 1:
        raise LiftlogError(f"{paths[0]} is {what}: give it alone; only traces of real nodes belong together")


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(path.with_name(path.name.removesuffix(".gz")).suffix)
