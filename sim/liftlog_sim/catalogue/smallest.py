"""The smallest world in which each planted bug still shows: caught, shrunk, and told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from liftlog_sim.explain.failures import keep
from liftlog_sim.explain.shrink import in_words
from liftlog_sim.explain.shrinking import ShrinkResult, shrink
from liftlog_sim.explain.words import many
from liftlog_sim.profiles.mutants import mutant_named
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.sweeps.catching import Caught, KnownCatch, catch

MOST_ENTRIES = 12
"""So many faults and operations at most are to be left of each."""
MOST_S = 60.0
"""So much processor time shrinking may take,"""
LATE_S = 1.0
"""and the run during which that is over."""


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """A planted bug that is to be caught, and its world to be shrunk."""

    name: str
    seconds: float
    folder: Path
    known: int
    """A seed that is tried before the others; -1 = none."""


class Smallest(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `shrunk` None: it survived."""

    caught: Caught
    shrunk: ShrinkResult | None = None
    story: list[str] = []

    @property
    def good(self) -> bool:
        """Whether it was caught, and what is left of its world is small, soon, and the bug's alone."""
        if self.shrunk is None:
            return False
        return self.shrunk.clean_without and self.entries <= MOST_ENTRIES and self.seconds <= MOST_S + LATE_S

    @property
    def entries(self) -> int:
        """Faults and operations that are left."""
        return self.shrunk.faults + self.shrunk.operations if self.shrunk is not None else 0

    @property
    def seconds(self) -> float:
        """Processor time that shrinking took."""
        return self.shrunk.seconds if self.shrunk is not None else 0.0

    def known(self, known: KnownCatch) -> KnownCatch:
        """What a record keeps of it: `known` of the search, and how small it has become."""
        if self.shrunk is None:
            return known
        return msgspec.structs.replace(
            known, shrunk=self.entries, fates=self.shrunk.fates, shrink_cpu_s=self.shrunk.seconds
        )


def smallest(sought: Sought) -> Smallest:
    """Catch a planted bug and shrink its world; the files go into the folder. Raises LiftlogError."""
    mutant = mutant_named(sought.name)
    caught = catch(mutant, known=sought.known)
    if not caught.caught:
        return Smallest(caught=caught)
    options = RunOptions(seed=caught.seed, mutant=mutant.name, refine=mutant.refine)
    _, path = keep(options, run_seed(options), sought.folder)
    result, bundle = shrink(path, sought.seconds, None, lambda line: None)
    return Smallest(caught=caught, shrunk=result, story=bundle.story)


def told(one: Smallest) -> list[str]:
    """A line on one of them, and its story."""
    name, result = f"{one.caught.name:<36}", one.shrunk
    if result is None:
        return [f"{name} SURVIVED {one.caught.searched} seeds"]
    what = f"{in_words(result.faults, result.operations, result.fates)} among {many(result.nodes, 'node')}"
    how = "" if result.done else ", the time was up"
    how += "" if result.clean_without else ", NOT CLEAN WITHOUT IT"
    return [f"{name} {result.violation}: {what}; {result.seconds:.1f} s of CPU{how}", *one.story]


def summary(found: Sequence[Smallest]) -> list[str]:
    """How small all of them have become, and at what cost; which of them miss what they should reach."""
    shrunk = [one for one in found if one.shrunk is not None]
    if not shrunk:
        return ["none was caught"]
    seconds = [one.seconds for one in shrunk]
    lines = [
        f"{len(shrunk)} of {len(found)} caught and shrunk: faults and operations at most "
        f"{max(one.entries for one in shrunk)}, median {median(one.entries for one in shrunk):g}; "
        f"CPU time at most {max(seconds):.1f} s, median {median(seconds):.1f} s"
    ]
    missed = [one.caught.name for one in found if not one.good]
    if missed:
        lines.append(f"missed ({MOST_ENTRIES} entries, {MOST_S:g} s, clean without it): {', '.join(missed)}")
    return lines
