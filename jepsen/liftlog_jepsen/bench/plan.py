"""Which histories a benchmark runs on, and what the checks must find in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from liftlog.types import LiftlogError
from liftlog_jepsen.generate import CYCLES, Planted, read_answer
from liftlog_jepsen.generate.large import write_large
from liftlog_jepsen.generate.shape import Shape
from liftlog_jepsen.generate.wanted import Wanted, parse_wanted
from liftlog_jepsen.result import CheckResult

VERSION = 1
"""Goes up when the same options give another history, so that no old one is taken for it."""
EXAMPLES = 1000
"""Of each anomaly; more than are ever planted."""
LOG_PLANTS = ("all:2",)
TRAFFIC_PLANTS = ("all@traffic:2",)
TRAFFIC_MIN = 1_000_000
"""Micro-operations from which on there is room amid the traffic of a hundred streams."""
CYCLE_PLANTS = ("G1c:2", "G1c-process:2", "G1c-realtime:2")


class Case(NamedTuple):
    """One history to measure on."""

    operations: int
    streams: int
    sends_per_op: int = 1

    @property
    def name(self) -> str:
        streams = "1 hot stream" if self.streams == 1 else f"{self.streams:,} streams"
        kind = "" if self.sends_per_op == 1 else f", transactions of {self.sends_per_op} sends"
        return f"{short(self.operations)} operations, {streams}{kind}"

    @property
    def folder(self) -> str:
        return f"{short(self.operations)}-{self.streams}-{self.sends_per_op}-v{VERSION}"

    @property
    def shape(self) -> Shape:
        return Shape(operations=self.operations, streams=self.streams, sends_per_op=self.sends_per_op)

    @property
    def wanted(self) -> list[Wanted]:
        amid = TRAFFIC_PLANTS if self.sends_per_op == 1 and self.operations >= TRAFFIC_MIN else ()
        return parse_wanted([*LOG_PLANTS, *amid, *CYCLE_PLANTS])


def short(number: int) -> str:
    """100M, 250k, or the number."""
    for unit, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= unit and number % (unit // 10) == 0:
            return f"{number / unit:g}{letter}"
    return str(number)


def cases(operations: Sequence[int], streams: Sequence[int], *, hot: bool, sends_per_op: int) -> list[Case]:
    """Small ones first, because memory that a process has had once stays with it."""
    chosen = [*streams, *([1] if hot and 1 not in streams else [])]
    return [Case(size, many, sends_per_op) for size in sorted(operations) for many in chosen]


def require(case: Case, folder: Path, show: Callable[[str], None]) -> Path:
    """The history of this case below `folder`; generated unless it is there already."""
    path = folder / case.folder
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_large(case.shape, path, case.wanted, show=show, name=case.folder)
    return path


def expected(path: Path, *, cycles: bool) -> list[Planted]:
    """What was planted in a history, as far as one check can find it."""
    planted = read_answer(path).planted
    if not cycles:
        return [each for each in planted if each.anomaly not in CYCLES]
    # Who reads what is sent only later reads it before in real time, and after by what it saw: a cycle, too.
    future = [Planted("G1c-realtime", None, each.ops) for each in planted if each.anomaly == "future-read"]
    return [each for each in planted if each.anomaly in CYCLES] + future


def found_by(results: Iterable[CheckResult]) -> list[Planted]:
    """What a check of one history reported. Raises LiftlogError if it found more than it gave examples of."""
    found = []
    for result in results:
        for finding in result.findings:
            if finding.total != len(finding.examples):
                raise LiftlogError(
                    f"{result.history}: {finding.total} times {finding.name}, but only "
                    f"{len(finding.examples)} examples: this is far more than was planted"
                )
            found += [Planted(finding.name, one.key, tuple(sorted(set(one.ops)))) for one in finding.examples]
    return found
