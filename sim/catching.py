"""How the simulator catches planted bugs (`sim/mutants.py`).

One counts as caught when a *named* invariant is violated, not when the node merely raises, in a seed that is
clean without it. Seeds are those of the default sweep, from 0 on, restricted to the profiles that stress what
the bug breaks; so each is found within the first seeds that everybody sweeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from sim.invariants import OWN_CHECKS
from sim.lying import LIES_GROUP, with_lies
from sim.mutants import Mutant
from sim.profiles import profile_of
from sim.runner import Options, run_seed

SEARCH_SEEDS = 1000


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
    profile: str
    finding: str
    replay: str


def catch(mutant: Mutant, seeds: Sequence[int] = range(SEARCH_SEEDS)) -> Caught:
    """Search the seeds of the mutant's profiles until one catches it."""
    started = time.monotonic()
    searched = 0
    for seed in seeds:
        lies = LIES_GROUP in mutant.profiles and with_lies(seed)
        if mutant.profiles and not lies and profile_of(seed) not in mutant.profiles:
            continue
        searched += 1
        result = run_seed(Options(seed=seed, mutant=mutant.name, refine=mutant.refine))
        clean = Options(seed=seed, refine=mutant.refine)
        if result.good or result.invariant in OWN_CHECKS or not run_seed(clean).good:
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
        profile="",
        finding="",
        replay="",
    )


def catch_all(
    mutants: Sequence[Mutant], jobs: int, progress: Callable[[Caught], None] | None = None
) -> list[Caught]:
    """`catch` for each, `jobs` at a time; results in the order of `mutants`."""
    import multiprocessing

    found: list[Caught] = []
    if jobs <= 1 or len(mutants) <= 1:
        for mutant in mutants:
            found.append(catch(mutant))
            if progress is not None:
                progress(found[-1])
        return found
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(mutants))) as pool:
        for caught in pool.imap(catch, mutants, chunksize=1):
            found.append(caught)
            if progress is not None:
                progress(caught)
    return found
