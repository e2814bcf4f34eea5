"""The file of scenarios: paths through one model at one choice of bounds, as names and plain values.

One JSON object a line. The first is the head: model, settings, constants, the first state. Each other line is
a scenario, a path from there:

    {"name": "017", "steps": [
      {"action": "Write", "given": {"r": "replica1"}, "changes": {"log": {"replica1": [...]}}},
      {"action": "ExpireMember", "given": {"r": "replica1"}, "changes": {...}, "rest": false}, ...]}

`changes` has what the step changed, of functions and records only the places that differ. `rest` false: the
core does the next step in the same breath, so that the state between the two cannot be seen.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import msgspec

from liftlog_spec.cover.paths import Path
from liftlog_spec.cover.reading import StateNames
from liftlog_spec.lang.model import Model
from liftlog_spec.lang.types import SpecError


class ScenarioStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of the model. `given`: its parameters by name."""

    action: str
    given: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    rest: bool = True


class CoverScenario(msgspec.Struct, frozen=True):
    """One path."""

    name: str
    steps: list[ScenarioStep]


class Head(msgspec.Struct, frozen=True):
    """What the scenarios of a file share. `constants` and `settings`: what the model was built with."""

    model: str
    settings: dict[str, str]
    constants: dict[str, int]
    first: dict[str, Any]


class ScenarioFile(msgspec.Struct, frozen=True):
    """A whole file."""

    head: Head
    scenarios: list[CoverScenario]


class NotDriven(msgspec.Struct, frozen=True):
    """A pair of consecutive actions that the model has and the core cannot be driven through."""

    first: str
    second: str
    reason: str


class ScenarioBounds(msgspec.Struct, frozen=True):
    """What a file was made from. `constants`: by flag. `states`: how many were looked at; `complete`: all."""

    constants: dict[str, int]
    states: int
    complete: bool
    scenarios: int


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of a folder cover together. Lists are sorted.

    `unreached`: actions that are possible nowhere within these bounds. What is "not driven" exists in the
    model, and the core does not do it, for the reason named.
    """

    model: str
    unreached: list[str]
    files: dict[str, ScenarioBounds]
    steps: int
    actions: list[str]
    pairs: list[tuple[str, str]]
    not_driven_actions: dict[str, str]
    not_driven_pairs: list[NotDriven]
    reasons: dict[str, str]


def file_of(name: str, model: Model, reader: StateNames, paths: Sequence[Path]) -> ScenarioFile:
    """Paths as scenarios. Raises SpecError if they do not begin in one state."""
    start = paths[0].start
    head = Head(name, dict(model.settings), dict(model.bindings), reader.compiled.show(start))
    scenarios = []
    for place, path in enumerate(paths):
        if path.start != start:
            raise SpecError(f"{model.name} has several first states that differ by more than names")
        steps = []
        state = path.start
        for move in path.moves:
            for number, taken in enumerate(move, 1):
                changes = reader.changes(state, taken.after)
                given = reader.parameters(taken)
                steps.append(ScenarioStep(taken.action, given, changes, number == len(move)))
                state = taken.after
        scenarios.append(CoverScenario(f"{place:03}", steps))
    return ScenarioFile(head, scenarios)


def apply_changes(state: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The state after a step."""
    after = dict(state)
    for name, value in changes.items():
        old = after[name]
        after[name] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return after


def encode(file: ScenarioFile) -> bytes:
    """The bytes of a file; equal files have equal bytes."""
    lines = [file.head, *file.scenarios]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def encode_index(index: Index) -> bytes:
    """For people as well."""
    return msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n"


def load(path: pathlib.Path) -> ScenarioFile:
    """Read scenarios. Raises SpecError that names the file."""
    try:
        head, *lines = path.read_bytes().splitlines()
        return ScenarioFile(
            msgspec.json.decode(head, type=Head),
            [msgspec.json.decode(line, type=CoverScenario) for line in lines],
        )
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error}; make it with 'liftlog spec cover'") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise SpecError(f"{path} holds no scenarios: {error}; make it with 'liftlog spec cover'") from None
