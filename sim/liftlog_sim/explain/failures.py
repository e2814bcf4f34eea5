"""Where bundles of failures go: one file each, in one folder, by seed, mutant and invariant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.explain.bundle import Bundle, read, write
from liftlog_sim.explain.recording import bundle_of, code_of, record_world
from liftlog_sim.runs.runner import knobs_of
from liftlog_sim.runs.runs import RunOptions, RunResult

FOLDER = Path("failures")
BUNDLES = 5
"""So many failures of a sweep are bundled; more of one sweep are mostly the same."""


def path_of(bundle: Bundle, folder: Path) -> Path:
    """Where a bundle is written."""
    options = bundle.settings.options
    parts = [f"seed-{options.seed}", options.mutant, bundle.violation.invariant]
    return folder / ("-".join(part for part in parts if part) + ".json.gz")


def check_folder(folder: Path) -> None:
    """Whether bundles can be written there, before a run is spent on them. Raises LiftlogError."""
    if folder.exists() and not folder.is_dir():
        raise LiftlogError(f"bundles cannot be written into {folder}: it is no folder; choose another one")


def keep(options: RunOptions, result: RunResult, folder: Path) -> tuple[Bundle, Path]:
    """Run what failed again and write its bundle. Raises LiftlogError."""
    bundle = bundle_of(options, knobs_of(options), None, result.trace_hash)
    path = path_of(bundle, folder)
    write(bundle, path)
    return bundle, path


def keep_some(
    options: Sequence[RunOptions], failed: Sequence[RunResult], folder: Path, most: int
) -> tuple[list[Path], list[str]]:
    """Bundles of a sweep's first failures, one of each invariant before two of any; and why some of these
    have none, since a sweep's verdict does not depend on them.
    """
    by_seed = {each.seed: each for each in options}
    ranks: list[tuple[int, int]] = []
    seen: dict[str, int] = {}
    for place, result in enumerate(failed):
        seen[result.invariant] = seen.get(result.invariant, 0) + 1
        ranks.append((seen[result.invariant], place))
    chosen = sorted(place for _, place in sorted(ranks)[:most])
    paths: list[Path] = []
    problems: list[str] = []
    for place in chosen:
        result = failed[place]
        try:
            paths.append(keep(by_seed[result.seed], result, folder)[1])
        except LiftlogError as error:
            problems.append(f"seed {result.seed}, {result.invariant}: {error}")
    return paths, problems


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle run again. `same_code`: whether the code is the one that failed."""

    bundle: str
    same: bool
    same_code: bool
    trace_hash: str
    again: str
    invariant: str
    finding: str


def replay(path: Path) -> tuple[Bundle, Replayed]:
    """Run a bundle's world again. Raises LiftlogError."""
    bundle = read(path)
    settings = bundle.settings
    _, result = record_world(settings.options, settings.knobs, bundle.plan)
    return bundle, Replayed(
        bundle=str(path),
        same=result.trace_hash == bundle.trace_hash,
        same_code=code_of(settings.options) == bundle.sources,
        trace_hash=bundle.trace_hash,
        again=result.trace_hash,
        invariant=result.invariant,
        finding=result.finding,
    )


def verdict_of(bundle: Bundle, replayed: Replayed) -> list[str]:
    """What a replay showed, for people."""
    hashes = f"({replayed.trace_hash}, {replayed.again})"
    if replayed.same:
        return [f"replayed: the same {hashes}"]
    lines = [f"replayed: NOT the same {hashes}"]
    if not replayed.same_code:
        lines.append(
            f"  this code is another one than the bundle's ({code_of(bundle.settings.options)[:12]}, "
            f"the bundle's {bundle.sources[:12]}, liftlog {bundle.liftlog}): its worlds run differently"
        )
    else:
        lines.append("  the code is the same: something in it is not determined by the seed")
    if not replayed.invariant:
        lines.append(f"  nothing is violated now; the bundle shows {bundle.violation.invariant}")
    elif replayed.invariant != bundle.violation.invariant:
        lines.append(f"  {replayed.invariant} is violated now; the bundle shows {bundle.violation.invariant}")
    return lines
