"""What a check says: bounds in, report out."""

from __future__ import annotations

from typing import Any

import msgspec


class Bounds(msgspec.Struct, frozen=True):
    """Limits of a search. 0 = none."""

    jobs: int = 1
    symmetry: bool = False
    states: int = 0
    depth: int = 0


class Step(msgspec.Struct, frozen=True):
    """One state of a counterexample and the action that led to it ("" for the first)."""

    action: str
    state: dict[str, Any]


class Report(msgspec.Struct, kw_only=True):
    """`verdict`: "holds", "violated", "vacuous" (nothing was violated, but a "sometimes" property never came
    true), or "bounded" (a limit ended the search before it was complete; nothing was violated so far).
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
    seconds: float = 0.0
    states_per_second: int = 0
    symmetry: bool = False
    jobs: int = 1
    collision_probability: float = 0.0
    trace: list[Step] = []


def show_trace(trace: list[Step]) -> list[str]:
    """Numbered states; after the first only what changed."""
    lines: list[str] = []
    before: dict[str, Any] = {}
    for number, step in enumerate(trace, 1):
        lines.append(f"{number}: {step.action or 'first state'}")
        for path, value in _flat(step.state):
            if before.get(path, _ABSENT) != value:
                lines.append(f"     {path} = {_text(value)}")
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


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name}: {_text(item)}" for name, item in value.items()) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return "none" if value is None else str(value)
