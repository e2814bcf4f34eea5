"""Plays scenarios that were made from a model's state graph (`liftlog_spec/cover`) on real nodes.

Each scenario is a path through a model. After each step of the core the nodes' state is shown as the model's
and compared: the first difference is the finding, and names file, step and variable. A step of the core may
be several steps of the model, which the scenario marks.

    liftlog sim cover
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import InvariantViolation, LiftlogError
from liftlog_sim.cover.isr import IsrStage, Version
from liftlog_sim.cover.manual_node import ScenarioRefused
from liftlog_sim.cover.raft import Many, Promises, RaftStage
from liftlog_sim.cover.raft_snapshots import AtMost, RaftSnapshotsStage
from liftlog_spec.cover.scenario import CoverScenario, Head, ScenarioStep, apply_changes, load
from liftlog_spec.lang.types import SpecError

FOLDER = Path(__file__).parent
SUFFIX = ".jsonl"


class Stage(Protocol):
    """Real nodes that can be driven along a model's path."""

    def play(self, chain: Sequence[ScenarioStep]) -> None: ...

    def shown(self) -> dict[str, Any]: ...


STAGES: dict[str, Callable[[Head, Mutants], Stage]] = {
    "isr": IsrStage,
    "raft": RaftStage,
    "raft-snapshots": RaftSnapshotsStage,
}


class Played(msgspec.Struct, frozen=True):
    """How one scenario went. `finding` empty: as the model says. `step` counts from 1; 0 = at first."""

    scenario: str
    model: str
    steps: int
    finding: str = ""
    step: int = 0
    action: str = ""
    variable: str = ""


def files_of(place: Path) -> list[Path]:
    """The scenario files in and below a folder, or the file itself; a name alone may be one of `FOLDER`.

    Raises LiftlogError if there is none.
    """
    if not place.exists() and (FOLDER / place.name).is_file() and place.name == str(place):
        place = FOLDER / place
    if place.is_file():
        return [place]
    found = sorted(place.rglob(f"*{SUFFIX}"))
    if not found:
        raise LiftlogError(f"there are no scenarios in {place}; make some with 'liftlog spec cover --out'")
    return found


def play_file(path: Path, mutants: Mutants = NO_MUTANTS, only: str = "") -> Iterator[Played]:
    """Play the scenarios of a file, or the one of this name. Raises LiftlogError if there is none such."""
    try:
        file = load(path)
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    chosen = [one for one in file.scenarios if only in ("", one.name)]
    if not chosen:
        raise LiftlogError(f"{path} has no scenario {only}; the last is {file.scenarios[-1].name}")
    for scenario in chosen:
        yield play(file.head, scenario, path.name, mutants)


def play(head: Head, scenario: CoverScenario, path: str = "", mutants: Mutants = NO_MUTANTS) -> Played:
    """Drive the core along the scenario until it ends or something differs."""
    make = STAGES.get(head.model)
    if make is None:
        raise LiftlogError(f"nothing drives model '{head.model}'; there are {', '.join(STAGES)}")
    name = f"{path}:{scenario.name}" if path else scenario.name
    played = Played(name, head.model, len(scenario.steps))
    done = 0
    expected = head.first
    versions: dict[int, int] = {}
    label = "the first state"
    try:
        stage = make(head, mutants)
        for chain in [[], *chains_of(scenario.steps)]:
            if chain:
                label = ", ".join(step.action for step in chain)
                stage.play(chain)
            for step in chain:
                expected = apply_changes(expected, step.changes)
            done += len(chain)
            found = next(differences(expected, stage.shown(), versions), None)
            if found is not None:
                variable, text = found
                return _with(played, finding=text, step=done, action=label, variable=variable)
    except InvariantViolation as error:
        return _with(played, finding=f"the node stops: {error}", step=done + 1, action=label)
    except ScenarioRefused as error:
        return _with(played, finding=str(error), step=done + 1, action=label)
    return played


def _with(played: Played, **changes: Any) -> Played:
    return msgspec.structs.replace(played, **changes)


def chains_of(steps: Sequence[ScenarioStep]) -> Iterator[list[ScenarioStep]]:
    """Steps of the model that are one step of the core."""
    chain: list[ScenarioStep] = []
    for step in steps:
        chain.append(step)
        if step.rest:
            yield chain
            chain = []
    if chain:
        raise LiftlogError("the scenario ends between two states at rest; make it again")


def differences(
    expected: dict[str, Any], shown: dict[str, Any], versions: dict[int, int]
) -> Iterator[tuple[str, str]]:
    """(variable, what differs). Only what `shown` has is compared.

    `versions`: real version -> the model's, as far as both were seen together; filled here.
    """
    for name, value in shown.items():
        yield from _differ(name, expected[name], value, versions)


def _differ(path: str, wanted: Any, found: Any, versions: dict[int, int]) -> Iterator[tuple[str, str]]:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key, value in found.items():
            yield from _differ(f"{path}[{key}]", wanted[key], value, versions)
    elif isinstance(found, Promises):
        if text := found.differs(wanted):
            yield path, f"{path} {text}"
    elif isinstance(found, Many):
        if found != len(wanted):
            yield path, f"{path} has {found} elements, the model {_text(wanted)}"
    elif isinstance(found, AtMost):
        if found > wanted:
            yield path, f"{path} is {found}, the model has only {wanted}"
    elif isinstance(found, Version):
        if versions.setdefault(found, wanted) != wanted:
            yield path, f"{path} is {versions[found]} (as {found} was before), the model has {wanted}"
        elif list(versions.values()).count(wanted) > 1:
            yield path, f"{path} has grown to {found}, the model's is still {wanted}"
    elif found != wanted:
        yield path, f"{path} is {_text(found)}, the model has {_text(wanted)}"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
