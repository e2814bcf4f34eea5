"""Runs a stated world: what the tests do that `liftlog sim shrink` writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from liftlog_sim.chance.plan import decode
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.runs.runner import run_world
from liftlog_sim.runs.runs import RunOptions, RunResult
from liftlog_sim.study.loading import load_study


def stated(knobs: Knobs) -> dict[str, Any]:
    """What of a world's parameters is not as it is by default, as plain data."""
    return _unlike(msgspec.to_builtins(knobs), msgspec.to_builtins(Knobs()))


def _unlike(found: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for name, value in found.items():
        usual: Any = default.get(name)
        if value == usual:
            continue
        if name == "streams":
            value = [_unlike(each, usual[0] | {"name": "", "subject": ""}) for each in value]
        elif isinstance(value, dict) and isinstance(usual, dict):
            value = _unlike(value, usual)
        changed[name] = value
    return changed


def knobs_from(changed: dict[str, Any]) -> Knobs:
    """The world that `stated` speaks of. Raises msgspec.ValidationError."""
    default = msgspec.to_builtins(Knobs())
    return msgspec.convert(_over(default, changed), Knobs)


def _over(default: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    merged = dict(default)
    for name, value in changed.items():
        usual: Any = default.get(name)
        if name == "streams":
            merged[name] = [{**usual[0], **each} for each in value] if usual else value
        elif isinstance(value, dict) and isinstance(usual, dict):
            merged[name] = _over(usual, value)
        else:
            merged[name] = value
    return merged


def run_again(
    seed: int,
    knobs: dict[str, Any],
    plan: str,
    *,
    mutant: str = "",
    refine: bool = False,
    gear: str = "step",
    studies: Sequence[str] = (),
) -> RunResult:
    """Run a world that is stated as plain data. Raises LiftlogError."""
    options = RunOptions(seed=seed, mutant=mutant, refine=refine, gear=gear, studies=tuple(studies))
    own = load_study(options.studies).names
    return run_world(options, knobs_from(knobs), decode(plan.encode(), own=own))
