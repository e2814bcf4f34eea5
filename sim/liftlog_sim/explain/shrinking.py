"""From a bundle to the smallest world that fails in the same way: a bundle, a plan and a test, as files."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.chance.plan import encode
from liftlog_sim.explain.bundle import Bundle, read, write
from liftlog_sim.explain.candidates import Fingerprint
from liftlog_sim.explain.emit_test import file_of
from liftlog_sim.explain.failures import check_folder
from liftlog_sim.explain.recording import bundle_of
from liftlog_sim.explain.shrink import Report, Shrinker, sizes
from liftlog_sim.explain.words import many
from liftlog_sim.kernel import SECOND

FINDS = 3
"""So many other violations that were met on the way are kept."""


class ShrinkResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `liftlog sim shrink` did, and where it is."""

    violation: str
    faults: int
    operations: int
    fates: int
    nodes: int
    at_s: float
    runs: int
    seconds: float
    done: bool
    """False: the time was up before nothing helped any more."""
    clean_without: bool
    """Whether the world is clean without the mutant; true where none is planted, since nobody can know."""
    bundle: str
    plan: str
    test: str
    replay: str
    finds: dict[str, str]
    """Other violations met on the way, and the bundle of each."""


def shrink(path: Path, seconds: float, folder: Path | None, report: Report) -> tuple[ShrinkResult, Bundle]:
    """Shrink a bundle's world; write bundle, plan and test beside it, or into `folder`. Raises
    LiftlogError.
    """
    bundle = read(path)
    folder = folder or path.parent
    check_folder(folder)
    shrinker = Shrinker(bundle, seconds, report)
    found = shrinker.run()
    court, candidate = shrinker.court, found.candidate
    options = candidate.options(court.options)
    stem = re.sub(r"(\.shrunk)?\.json(\.gz)?$", "", path.name)
    small = folder / f"{stem}.shrunk.json.gz"
    replay = f"liftlog sim replay {small}"
    smallest = bundle_of(options, candidate.knobs, candidate.plan, replay=replay)
    write(smallest, small)
    plan = folder / f"{stem}.plan.json"
    test = folder / f"test_{re.sub(r'[^a-z0-9]+', '_', stem.lower())}.py"
    try:
        plan.write_bytes(encode(candidate.plan))
        source = file_of(options, candidate, court.wanted, smallest.violation.finding, bundle.seed)
        test.write_text(source, encoding="utf-8")
    except OSError as error:
        raise LiftlogError(f"cannot write into {folder}: {error.strerror}; choose another folder") from error
    result = ShrinkResult(
        violation=str(court.wanted),
        faults=found.faults,
        operations=found.operations,
        fates=found.fates,
        nodes=candidate.knobs.nodes,
        at_s=found.at_us / SECOND,
        runs=court.runs,
        seconds=round(found.seconds, 1),
        done=found.done,
        clean_without=court.is_clean(candidate),
        bundle=str(small),
        plan=str(plan),
        test=str(test),
        replay=replay,
        finds=_keep_finds(shrinker, folder, stem),
    )
    return result, smallest


def _keep_finds(shrinker: Shrinker, folder: Path, stem: str) -> dict[str, str]:
    """Bundles of the first other violations that were met."""
    court = shrinker.court
    kept: dict[Fingerprint, Path] = {}
    for fingerprint, (candidate, _) in court.finds.items():
        if len(kept) == FINDS:
            break
        name = "-".join(part for part in (fingerprint.invariant, *fingerprint.action.split()) if part)
        path = folder / f"{stem}.find-{name}.json.gz"
        replay = f"liftlog sim replay {path}"
        options = candidate.options(court.options)
        write(bundle_of(options, candidate.knobs, candidate.plan, replay=replay), path)
        kept[fingerprint] = path
    return {str(fingerprint): str(path) for fingerprint, path in kept.items()}


def summary_of(result: ShrinkResult, smallest: Bundle) -> list[str]:
    """What came of it, for people."""
    how = "nothing smaller fails" if result.done else "the time was up"
    lines = [
        f"{result.violation} with {sizes(smallest.plan)} among {many(result.nodes, 'node')}, "
        f"after {result.runs} runs in {result.seconds:.1f} s ({how})",
        "",
        *smallest.story,
        "",
        f"bundle: {result.bundle}",
        f"plan:   {result.plan}",
        f"test:   {result.test}",
        f"replay with: {result.replay}",
    ]
    if not result.clean_without:
        lines.append("this world is not clean without the mutant either: the test would not pass")
    for name, path in result.finds.items():
        lines.append(f"met on the way, and kept as a find of its own: {name}: {path}")
    return lines
