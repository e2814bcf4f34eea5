"""The record of the last whole sweep: which seeds were clean, and of exactly which code.

`tests/golden/sweep.json` is committed with the code. It is written by a sweep that found nothing, and by
nothing else, and holds a hash of every source that a sweep can run: whatever `liftlog_sim.sweeps.sweep`
imports of this project, directly or through others, the models of the specification among it. Whoever changes
one of them sweeps again; a command line or a benchmark is no part of a world.
`tests/sim/test_record.py` compares the two.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

import liftlog
import liftlog_sim
import liftlog_spec
from liftlog.types import LiftlogError
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.sweeps.sweep import SweepResult

RECORD = "tests/golden/sweep.json"
COMMAND = "make sweep-record"
SWEEP = "liftlog_sim.sweeps.sweep"
PACKAGES = {
    package.__name__: Path(package.__file__ or "").resolve().parent
    for package in (liftlog, liftlog_sim, liftlog_spec)
}
"""The project's packages by name, wherever they are installed."""


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


def swept_sources(start: str = SWEEP, packages: Mapping[str, Path] = PACKAGES) -> dict[str, Path]:
    """By module name, the source of `start` and of all that it imports from `packages`, at whatever depth.

    Imports within functions count, and so does the package around each module.
    """
    found: dict[str, Path] = {}
    left = [start]
    while left:
        name = left.pop()
        source = _source_of(name, packages)
        if source is None or name in found:
            continue
        found[name] = source
        left.append(name.rpartition(".")[0])
        left += _imports(source)
    return found


def _source_of(module: str, packages: Mapping[str, Path]) -> Path | None:
    """None if it is no module of `packages`: of somebody else, or a name within a module."""
    package, *inner = module.split(".")
    if package not in packages:
        return None
    place = packages[package].joinpath(*inner)
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def _imports(source: Path) -> Iterator[str]:
    """Names of what may be modules; `from a import b` may mean one of the name a.b."""
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def sources_hash(start: str = SWEEP, packages: Mapping[str, Path] = PACKAGES) -> str:
    """SHA-256 over name and content of every swept source, by name: the same on every machine."""
    total = hashlib.sha256()
    sources = swept_sources(start, packages)
    for name in sorted(sources):
        content = sources[name].read_bytes()
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
