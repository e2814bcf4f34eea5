"""A benchmark's results for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from liftlog_jepsen.bench.plan import Case
from liftlog_jepsen.bench.stage import BenchStage

MIB = 1024**2
DIFFERENCES_SHOWN = 10


class Measured(NamedTuple):
    """One stage on one history. `shuffles`: how many times as long as the plain shuffle of the same rows."""

    case: Case
    stage: BenchStage
    shuffles: float


def as_json(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """One object for each stage of each history."""
    return [
        {
            "operations": one.case.operations,
            "streams": one.case.streams,
            "sends_per_op": one.case.sends_per_op,
            "check": one.stage.name,
            "rows": one.stage.rows,
            "seconds": round(one.stage.usage.seconds, 2),
            "cpu_seconds": round(one.stage.usage.cpu_seconds, 2),
            "java_peak_mib": one.stage.usage.java_bytes // MIB,
            "python_peak_mib": one.stage.usage.python_bytes // MIB,
            "rows_per_second": round(one.stage.rows / max(one.stage.usage.seconds, 1e-9)),
            "plain_shuffles": round(one.shuffles, 2),
            "phases": {text: round(seconds, 2) for text, seconds in one.stage.phases},
            "found_exactly": None if one.stage.differences is None else not one.stage.differences,
            "differences": list(one.stage.differences or ())[:DIFFERENCES_SHOWN],
        }
        for one in measured
    ]


def growth(measured: Sequence[Measured]) -> list[tuple[str, str, list[tuple[int, float]]]]:
    """For each check and kind of history that was measured at several sizes: (size, seconds)."""
    lines: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for one in measured:
        kind = one.case.name.partition(", ")[2]
        lines.setdefault((one.stage.name, kind), []).append((one.stage.rows, one.stage.usage.seconds))
    return [(name, kind, sizes) for (name, kind), sizes in lines.items() if len(sizes) > 1]


def print_table(console: Console, measured: Sequence[Measured]) -> None:
    """The table, the growth from size to size, and every difference from what was planted."""
    table = Table(title="liftlog jepsen bench", title_justify="left")
    for name in ("history", "check"):
        table.add_column(name)
    for name in ("seconds", "CPU s", "rows/s", "shuffles", "Java MiB", "Python MiB", "planted"):
        table.add_column(name, justify="right")
    for one in measured:
        usage, differences = one.stage.usage, one.stage.differences
        table.add_row(
            one.case.name,
            one.stage.name,
            f"{usage.seconds:.1f}",
            f"{usage.cpu_seconds:.1f}",
            f"{one.stage.rows / max(usage.seconds, 1e-9):,.0f}",
            f"{one.shuffles:.2f}",
            f"{usage.java_bytes // MIB:,}",
            f"{usage.python_bytes // MIB:,}",
            "" if differences is None else "exactly" if not differences else f"{len(differences)} differ",
        )
    console.print(table)
    for name, kind, sizes in growth(measured):
        steps = [
            f"{rows / before:.1f} times the rows, {seconds / max(earlier, 1e-9):.1f} times the seconds"
            for (before, earlier), (rows, seconds) in pairwise(sizes)
        ]
        console.print(f"{name}, {kind}: {'; then '.join(steps)}", soft_wrap=True)
    for one in measured:
        for line in (one.stage.differences or ())[:DIFFERENCES_SHOWN]:
            console.print(f"{one.case.name}, {one.stage.name}: {line}", soft_wrap=True)
