"""A process that runs seeds of one checkout (`bench/worker.py`), waiting while others have the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import msgspec

import liftlog
import liftlog_sim
from liftlog.types import LiftlogError

WORKER = Path(__file__).with_name("worker.py")
PACKAGES = {"liftlog": ".", "liftlog_sim": "sim", "liftlog_spec": "spec", "liftlog_jepsen": "jepsen"}
"""Where a checkout has them."""


class BenchRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `minutes`: also the memory at each simulated minute; `parts`: also the time by part."""

    seed: int
    nodes: int
    gear: str = "step"
    duration_s: float = 0
    refine: bool = True
    parts: bool = False
    minutes: bool = False


class RunCost(msgspec.Struct, frozen=True):
    """What a run took. Memory in MB: of the process before it, and at its greatest so far."""

    cpu_s: float
    simulated_s: float
    steps: int
    committed: int
    trace_hash: str
    violated: str
    parts: dict[str, float]
    before_mb: float
    peak_mb: float
    minutes: list[tuple[float, float, int]]


class BenchWorker:
    """One process. `checkout`: whose code it runs; None = ours. Use it as a context manager."""

    def __init__(self, checkout: Path | None = None) -> None:
        """Raises LiftlogError if the checkout has no simulator, or none that can be measured."""
        environment = dict(os.environ)
        if checkout is not None:
            roots = checkout_roots(checkout)
            environment["PYTHONPATH"] = os.pathsep.join(map(str, roots))
        self._checkout = checkout
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        wanted = [str(Path(package.__file__ or "").parent) for package in (liftlog, liftlog_sim)]
        if checkout is not None:
            wanted = [str(root / name) for name, root in zip(("liftlog", "liftlog_sim"), roots, strict=False)]
        found = msgspec.json.decode(self._answer(), type=list[str])
        if found != wanted:
            self.close()
            raise LiftlogError(f"Python finds {' and '.join(found)} instead of {' and '.join(wanted)}")

    def run(self, wanted: BenchRun) -> RunCost:
        """Raises LiftlogError if the process ends, or the seed violates an invariant."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(wanted).decode() + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise LiftlogError(f"the process that runs {self._of()} has ended") from None
        took = msgspec.json.decode(self._answer(), type=RunCost)
        if took.violated:
            text = f"seed {wanted.seed} of {self._of()} violates {took.violated}"
            raise LiftlogError(f"{text}; its time says nothing")
        return took

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise LiftlogError(f"{self._of()} cannot be measured; what its process said stands above")
        return line

    def _of(self) -> str:
        return "liftlog" if self._checkout is None else str(self._checkout)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> BenchWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def checkout_roots(checkout: Path) -> list[Path]:
    """Where the packages of a checkout lie, or of a copy that has them side by side (`scripts/compile.py`).
    Raises LiftlogError.
    """
    side_by_side = (checkout / "liftlog_sim").is_dir()
    roots = [(checkout / ("." if side_by_side else folder)).resolve() for folder in PACKAGES.values()]
    for root, package in zip(roots, PACKAGES, strict=True):
        if not (root / package).is_dir():
            raise LiftlogError(f"--vs {checkout}: there is no {root / package}; name a checkout of liftlog")
    return roots
