"""Random paths through a model at bounds that are far too large to be walked through.

At each state one of the possible actions is drawn, then one of its steps. Paths are the same for the same
seed on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from liftlog_spec.cover.limits import Limits, Moves
from liftlog_spec.cover.paths import Path
from liftlog_spec.cover.plans import LIMITS, WIDE, BoundsChoice
from liftlog_spec.cover.reading import StateNames, Taken
from liftlog_spec.cover.scenario import ScenarioFile, file_of
from liftlog_spec.lang.types import SpecError
from liftlog_spec.registry import build
from liftlog_spec.run.compiled import compile_model


def wander(model: str, part: BoundsChoice | None, count: int, steps: int, seed: int) -> ScenarioFile:
    """`count` random paths of `steps` steps, or a few more. Raises SpecError."""
    chosen = part or WIDE.get(model)
    if chosen is None:
        raise SpecError(f"there are no wide bounds for model {model!r}: give bounds")
    built = build(model, "", chosen.constants)
    reader = StateNames(compile_model(built))
    return file_of(model, built, reader, list(random_paths(reader, model, count, steps, seed)))


def random_paths(reader: StateNames, model: str, count: int, steps: int, seed: int) -> Iterator[Path]:
    """Paths that the core may take, by the limits of the model."""
    limits = LIMITS.get(model, Limits)(reader)
    moves = Moves(reader, limits)
    start = reader.compiled.initial()[0]
    for number in range(count):
        draws = random.Random(f"{seed}/{number}")
        path = Path(start)
        while len(path.actions) < steps:
            found = moves.of(path.end).moves
            if not found:
                break
            path.moves.append(_draw(found, limits.weights, draws))
        yield path


def _draw(moves: list[list[Taken]], weights: Mapping[str, float], draws: random.Random) -> list[Taken]:
    by_action: dict[str, list[list[Taken]]] = {}
    for move in moves:
        by_action.setdefault(move[0].action, []).append(move)
    names = sorted(by_action)
    name = draws.choices(names, [weights.get(name, 1.0) for name in names])[0]
    return draws.choice(by_action[name])
