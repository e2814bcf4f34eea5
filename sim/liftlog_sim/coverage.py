"""Which guards of the rules were decisive in a sweep: what the generator of worlds is tuned by.

`liftlog/core/guards.py` names the guards. One that never decided in `GUARD_SEEDS` seeds is a hole: either a
profile is missing in which it does, or it says here why no world that is drawn can need it.
"""

from __future__ import annotations

from collections.abc import Mapping

from liftlog.core.guards import GUARDS

GUARD_SEEDS = 3000
"""From so many seeds on, with all faults, a sweep fails for a guard that never decided, unexplained."""

EXPLAINED: dict[str, str] = {
    "I2.other-disk": "a replaced disk has forgotten its run as well, so that I2.rolled-back says no too",
    "I2.superseded": "the simulator runs one process for each disk, as its lock does",
    "R1.other-incarnation": "registering takes the office away first: a second line of defence",
    "R1.barred": "a failed log is opened once the group has heard of it, which ends the epoch: a second line",
    "R6.committed": "no honest leader asks for it",
    "N5.nobody-else": "a race: all others in sync restart between asking and arrival; none in 0:3000",
    "R9.leader": "an election raises the version, so that R9.version says no as well",
}
"""Why no simulated world makes this guard decide. tests/core/test_second_lines.py does."""


def undecided(marks: Mapping[str, int]) -> list[str]:
    """Guards that were never decisive, and nobody says why."""
    return [name for name in GUARDS if not marks.get(name) and name not in EXPLAINED]


def table(marks: Mapping[str, int]) -> list[str]:
    """A line for each guard: how often it decided, and what would have happened without it."""
    lines = [f"{'guard':<26} {'decisive':>10}  without it"]
    for name, without in GUARDS.items():
        number = marks.get(name, 0)
        if number:
            why = " [decided after all: strike the explanation]" if name in EXPLAINED else ""
        else:
            why = f" [{EXPLAINED[name]}]" if name in EXPLAINED else " [NEVER]"
        lines.append(f"{name:<26} {number:>10,}  {without}{why}")
    decided = sum(1 for name in GUARDS if marks.get(name))
    never = len(undecided(marks))
    lines.append(f"{decided} of {len(GUARDS)} guards were decisive; {never} never, unexplained")
    return lines
