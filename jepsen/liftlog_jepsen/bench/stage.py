"""One measured piece of work of a benchmark."""

from __future__ import annotations

from typing import NamedTuple

from liftlog_jepsen.bench.usage import WorkUsage


class BenchStage(NamedTuple):
    """What one stage took. `differences` is None for a stage that finds nothing."""

    name: str
    rows: int
    usage: WorkUsage
    phases: tuple[tuple[str, float], ...] = ()
    """Seconds of its parts, in order."""
    differences: tuple[str, ...] | None = None
    """Between what was planted and what was found."""
