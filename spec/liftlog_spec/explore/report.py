"""What a check says: bounds in, report out."""

from __future__ import annotations

from typing import Any

import msgspec

from liftlog_spec.run.compiled import as_text

MEMORY_MB = 2048
DEADLOCK = "Deadlock"
"""Named as the invariant, where a state without a successor is a violation."""


class Bounds(msgspec.Struct, frozen=True):
    """Limits of a search. 0 = none.

    `memory`: MB for what grows with the number of states, in all processes together; what does not fit is
    left on disk. `deadlock`: a state without a successor is a violation, unless a `@terminal` property allows
    it.
    """

    jobs: int = 1
    symmetry: bool = False
    states: int = 0
    depth: int = 0
    memory: int = MEMORY_MB
    deadlock: bool = False


class Walks(msgspec.Struct, frozen=True):
    """A simulation: so many random walks, of at most so many steps each, chosen by the seed."""

    number: int
    depth: int
    seed: int


class TraceStep(msgspec.Struct, frozen=True):
    """One state of a counterexample and the action that led to it ("" for the first)."""

    action: str
    state: dict[str, Any]


class ExplorationReport(msgspec.Struct, kw_only=True):
    """`verdict`: "holds", "violated", "vacuous" (nothing was violated, but a "sometimes" property never came
    true), or "bounded" (a limit ended the search before it was complete; nothing was violated so far).

    `deadlocks`: states without a successor that no `@terminal` property allows. `actions`: how many steps
    each action made, `never`: those that made none. `spills`: how often what was seen was left to the disk
    alone. `walks`: of a simulation, which counts `generated_states` alone; `depth` is its longest walk.
    """

    model: str
    settings: dict[str, str]
    constants: dict[str, int]
    verdict: str
    invariant: str = ""
    depth: int = 0
    distinct_states: int = 0
    generated_states: int = 0
    deadlocks: int = 0
    unreached: list[str] = []
    actions: dict[str, int] = {}
    never: list[str] = []
    seconds: float = 0.0
    states_per_second: int = 0
    symmetry: bool = False
    jobs: int = 1
    memory: int = 0
    spills: int = 0
    walks: int = 0
    seed: int = 0
    collision_probability: float = 0.0
    trace: list[TraceStep] = []


def show_trace(trace: list[TraceStep]) -> list[str]:
    """Numbered states; after the first only what changed."""
    lines: list[str] = []
    before: dict[str, Any] = {}
    for number, step in enumerate(trace, 1):
        lines.append(f"{number}: {step.action or 'first state'}")
        for path, value in _flat(step.state):
            if before.get(path, _ABSENT) != value:
                lines.append(f"     {path} = {as_text(value)}")
        gone = [path for path in before if path not in dict(_flat(step.state))]
        lines += [f"     {path} is gone" for path in gone]
        before = dict(_flat(step.state))
    return lines


_ABSENT = object()


def _flat(state: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """`log[node1]` = ...: functions are taken apart, records and sequences are not."""
    found: list[tuple[str, Any]] = []
    for name, value in state.items():
        path = f"{prefix}[{name}]" if prefix else str(name)
        if isinstance(value, dict) and not prefix:
            found += _flat(value, path)
        else:
            found.append((path, value))
    return found
