"""How the simulator catches planted bugs (`profiles/mutants.py`).

One counts as caught when a *named* invariant is violated, not when the node merely raises, in a seed that is
clean without it. Seeds are those of the default sweep, from 0 on, restricted to the profiles that stress what
the bug breaks; so each is found within the first thousands that everybody sweeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.profiles.lying import LIES_GROUP, with_lies
from liftlog_sim.profiles.mutants import Mutant
from liftlog_sim.profiles.profiles import profile_of
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.names import OWN_CHECKS

SEARCH_SEEDS = 2000
MEDIAN_SEEDS = 50
"""Half of all mutants are caught within so many seeds of their profiles."""


class KnownCatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which seed caught a mutant when all were searched, and after how many of its profiles.

    What a record does not hold yet is not known.
    """

    seed: int
    searched: int
    invariant: str
    simulated_s: float | None = None
    """Simulated time of all these seeds, up to the violation."""
    cpu_s: float | None = None
    """Processor time that they took, on the machine of the record."""
    shrunk: int | None = None
    """Operations and faults that are left when the plan of that seed is shrunk."""
    fates: int | None = None
    """Messages to which something else than usual has to happen there."""
    shrink_cpu_s: float | None = None
    """Processor time that shrinking took."""
    sources: str | None = None
    """Of which code it was when it was caught there last (`sources_hash`)."""


class Caught(msgspec.Struct, kw_only=True):
    """How one mutant fared. `invariant` empty = it survived `searched` seeds."""

    name: str
    rule: str
    breaks: str
    caught: bool
    invariant: str
    seed: int
    seconds: float
    searched: int
    simulated_s: float
    cpu_s: float
    profile: str
    finding: str
    replay: str


def catch(
    mutant: Mutant,
    seeds: Sequence[int] = range(SEARCH_SEEDS),
    known: int = -1,
    swept: Sequence[int] = (),
) -> Caught:
    """Search the seeds of the mutant's profiles until one catches it; `known` >= 0 is tried before them.

    `swept`: seeds that a sweep of this code has found clean, which are not run again without the mutant.
    """
    started = time.monotonic()
    searched = 0
    simulated_s = cpu_s = 0.0
    for seed in seeds if known < 0 else (known, *seeds):
        if seed != known and not _stresses(mutant, seed):
            continue
        searched += 1
        result = run_seed(RunOptions(seed=seed, mutant=mutant.name, refine=mutant.refine))
        simulated_s += result.simulated_s
        cpu_s += result.seconds
        if result.good or result.invariant in OWN_CHECKS:
            continue
        if seed not in swept and not run_seed(RunOptions(seed=seed, refine=mutant.refine)).good:
            continue
        return Caught(
            name=mutant.name,
            rule=mutant.rule,
            breaks=mutant.breaks,
            caught=True,
            invariant=result.invariant,
            seed=seed,
            seconds=round(time.monotonic() - started, 3),
            searched=searched,
            simulated_s=round(simulated_s, 1),
            cpu_s=round(cpu_s, 2),
            profile=result.profile,
            finding=result.finding,
            replay=result.replay,
        )
    return Caught(
        name=mutant.name,
        rule=mutant.rule,
        breaks=mutant.breaks,
        caught=False,
        invariant="",
        seed=-1,
        seconds=round(time.monotonic() - started, 3),
        searched=searched,
        simulated_s=round(simulated_s, 1),
        cpu_s=round(cpu_s, 2),
        profile="",
        finding="",
        replay="",
    )


def _stresses(mutant: Mutant, seed: int) -> bool:
    """Whether the world of a seed is one of those that are searched for this mutant."""
    lies = LIES_GROUP in mutant.profiles and with_lies(seed)
    return lies or not mutant.profiles or profile_of(seed) in mutant.profiles


Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


def each_of(
    asked: Sequence[Asked],
    answer: Callable[[Asked], Answered],
    jobs: int,
    progress: Callable[[Answered], None] | None = None,
) -> list[Answered]:
    """The answer to each, on `jobs` processes; in the order in which they were asked."""
    import multiprocessing

    found: list[Answered] = []
    if jobs <= 1 or len(asked) <= 1:
        for one in asked:
            found.append(answer(one))
            if progress is not None:
                progress(found[-1])
        return found
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(asked))) as pool:
        for answered in pool.imap(answer, asked, chunksize=1):
            found.append(answered)
            if progress is not None:
                progress(answered)
    return found


def known_seeds(path: Path) -> dict[str, KnownCatch]:
    """What `record` wrote, by mutant: where to look first, since a seed's world changes."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, KnownCatch])


def known_of(caught: Caught) -> KnownCatch:
    """What a record keeps of it."""
    return KnownCatch(caught.seed, caught.searched, caught.invariant, caught.simulated_s, caught.cpu_s)


def record(path: Path, known: Mapping[str, KnownCatch]) -> None:
    """Write down which seeds caught them. Raises LiftlogError."""
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")
    except OSError as error:
        raise LiftlogError(f"cannot write {path}: {error.strerror}") from None
