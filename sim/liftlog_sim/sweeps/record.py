"""The record of the last whole sweep: which seeds were clean, and of exactly which code.

`tests/golden/sweep.json` is committed with the code. It is written by a sweep that found nothing, and by
nothing else, and holds a hash of every Python source of `liftlog` and `liftlog_sim`: whoever changes one of
them sweeps again. `tests/sim/test_record.py` compares the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

import liftlog
import liftlog_sim
from liftlog.types import LiftlogError
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.sweeps.sweep import SweepResult

RECORD = "tests/golden/sweep.json"
COMMAND = "make sweep-record"
SWEPT = tuple(Path(package.__file__ or "").resolve().parent for package in (liftlog, liftlog_sim))
"""The packages, wherever they are installed."""


class SweepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was swept, what came of it, and of which code. `options`: the command line without `--jobs`."""

    seeds: str
    options: str
    verdict: str
    sources: str
    """`sources_hash` of the code that was swept."""
    simulated_s: int
    events: int
    acks: int
    elections: int
    checks: int
    """How often an invariant was checked."""
    marks: int
    """How often a case of a rule was reached."""


def sources_hash(packages: Sequence[Path] = SWEPT) -> str:
    """SHA-256 over path and content of every Python source, by path: the same on every machine."""
    total = hashlib.sha256()
    for package in packages:
        paths = {path.relative_to(package.parent).as_posix(): path for path in package.rglob("*.py")}
        for name in sorted(paths):
            content = paths[name].read_bytes()
            total.update(f"{name}\0{len(content)}\0".encode())
            total.update(content)
    return total.hexdigest()


def check_place(path: Path) -> None:
    """Whether a record can be written there, before hours are spent on it. Raises LiftlogError."""
    if path.is_dir() or not path.parent.is_dir():
        text = "it is a folder, or in none that exists"
        raise LiftlogError(f"cannot write the record {path}: {text}; choose another path")


def write_record(
    path: Path, seeds: str, options: RunOptions, result: SweepResult, sources: str
) -> SweepRecord:
    """Write the record of a clean sweep of `sources`, the hash when it began. Raises LiftlogError."""
    if not result.good:
        raise LiftlogError(f"{path} is not written: the sweep was not clean")
    if sources != sources_hash():
        raise LiftlogError(f"{path} is not written: the code was changed during the sweep; sweep again")
    found = SweepRecord(
        seeds=seeds,
        options=_command_of(options),
        verdict="clean",
        sources=sources,
        simulated_s=round(result.simulated_s),
        events=result.events,
        acks=result.counters.get("acks", 0),
        elections=result.counters.get("elections", 0),
        checks=sum(result.checks.values()),
        marks=sum(result.marks.values()),
    )
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    except OSError as error:
        raise LiftlogError(
            f"cannot write the record {path}: {error.strerror}; choose another path"
        ) from error
    return found


def read_record(path: Path) -> SweepRecord:
    """Raises LiftlogError if there is none or it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=SweepRecord)
    except (OSError, msgspec.MsgspecError) as error:
        raise LiftlogError(f"cannot read the record {path}: {error}; write it with '{COMMAND}'") from error


def _command_of(options: RunOptions) -> str:
    """What the command line says of every seed alike."""
    return options.replay_command().partition(f"--seed {options.seed} ")[2]
