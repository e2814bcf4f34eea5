"""Which guards of the rules were decisive in a sweep: what the generator of worlds is tuned by.

`liftlog/core/guards.py` names the guards. One that never decided in `GUARD_SEEDS` seeds is a hole: either a
profile is missing in which it does, or `audit/never.toml` says why no world that is drawn can need it.
"""

from __future__ import annotations

from collections.abc import Mapping

from liftlog.core.guards import GUARDS
from liftlog_sim.audit.audit import DUE, GUARD, explained

GUARD_SEEDS = DUE[GUARD]
"""From so many seeds on, with all faults, a sweep fails for a guard that never decided, unexplained."""

EXPLAINED: dict[str, str] = explained("guard ")
"""Why no simulated world makes this guard decide. A test of tests/core does."""


def undecided(marks: Mapping[str, int], seeds: int) -> list[str]:
    """Guards that were never decisive in so many seeds, and nobody says why."""
    said = explained("guard ", seeds)
    return [name for name in GUARDS if not marks.get(name) and name not in said]


def table(marks: Mapping[str, int], seeds: int) -> list[str]:
    """A line for each guard: how often it decided in so many seeds, and what would have happened without
    it.
    """
    said = explained("guard ", seeds)
    lines = [f"{'guard':<26} {'decisive':>10}  without it"]
    for name, without in GUARDS.items():
        number = marks.get(name, 0)
        if number:
            why = " [decided after all: strike the explanation]" if name in EXPLAINED else ""
        else:
            why = f" [{said[name]}]" if name in said else " [NEVER]"
        lines.append(f"{name:<26} {number:>10,}  {without}{why}")
    decided = sum(1 for name in GUARDS if marks.get(name))
    never = len(undecided(marks, seeds))
    lines.append(f"{decided} of {len(GUARDS)} guards were decisive; {never} never, unexplained")
    return lines
