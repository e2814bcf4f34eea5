"""Makes scenarios: walks a model at each choice of bounds, chooses paths, and says what they cover."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence

from liftlog_spec.cover.limits import Limits
from liftlog_spec.cover.paths import Path, choose_paths
from liftlog_spec.cover.plans import LIMITS, PLANS, BoundsChoice
from liftlog_spec.cover.reading import StateNames
from liftlog_spec.cover.scenario import (
    Index,
    NotDriven,
    ScenarioBounds,
    ScenarioFile,
    encode,
    encode_index,
    file_of,
)
from liftlog_spec.cover.walk import Pair, Walk
from liftlog_spec.cover.wander import random_paths
from liftlog_spec.lang.model import Model
from liftlog_spec.lang.types import SpecError
from liftlog_spec.registry import MODELS, build
from liftlog_spec.run.compiled import compile_model

INDEX = "index.json"
SUFFIX = ".jsonl"
WALK_STEPS = 50


class Coverage:
    """What the choices of bounds so far have, and the scenarios for it."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.limits = LIMITS.get(model, Limits)
        self.files: dict[str, ScenarioFile] = {}
        self.bounds: dict[str, ScenarioBounds] = {}
        self.every_action: dict[str, None] = {}
        self.actions: dict[str, None] = {}
        self.pairs: dict[Pair, None] = {}
        self.driven_actions: dict[str, None] = {}
        self.driven_pairs: dict[Pair, None] = {}
        self.refused_actions: dict[str, str] = {}
        self.refused_pairs: dict[Pair, str] = {}

    def add(self, part: BoundsChoice, progress: Callable[[str], None] = lambda text: None) -> None:
        """Walk at one more choice of bounds. Raises SpecError if the model makes no sense with it."""
        model = build(self.model, "", part.constants)
        compiled = compile_model(model)
        if part.walks:
            progress(f"{part.name}: {part.walks} random paths")
            self._add_walks(part, model, StateNames(compiled))
            return
        progress(f"{part.name}: walking through {model.name}")
        every = Walk(compiled, most=part.most)
        progress(f"{part.name}: {every.states:,} states, {len(every.pairs)} pairs; now as the core goes")
        driven = Walk(compiled, self.limits, most=part.most)
        self.every_action.update(dict.fromkeys(compiled.actions))
        self.actions.update(dict.fromkeys(every.actions))
        self.pairs.update(dict.fromkeys(every.pairs))
        self._explain(every, driven)
        progress(f"{part.name}: choosing paths for {len(driven.pairs)} pairs")
        ways = choose_paths(driven, set(self.driven_pairs), set(self.driven_actions))
        self.driven_actions.update(dict.fromkeys(driven.actions))
        self.driven_pairs.update(dict.fromkeys(driven.pairs))
        name = f"{self.model}-{part.name}{SUFFIX}"
        complete = every.complete and driven.complete
        self.bounds[name] = ScenarioBounds(part.constants, every.states, complete, len(ways))
        if ways:
            self.files[name] = file_of(self.model, model, driven.reader, ways)

    def _add_walks(self, part: BoundsChoice, model: Model, reader: StateNames) -> None:
        """Of random paths always the one with the most new pairs, up to the last of these."""
        paths = list(random_paths(reader, self.model, part.walks, WALK_STEPS, 0))
        kept = []
        while True:
            news = [set(path.pairs) - set(self.driven_pairs) for path in paths]
            best = max(range(len(paths)), key=lambda place: (len(news[place]), -place))
            if not news[best]:
                break
            kept.append(_up_to_last(paths[best], news[best]))
            for pair in sorted(news[best]):
                self.driven_pairs[pair] = self.pairs[pair] = None
            self.actions.update(dict.fromkeys(kept[-1].actions))
            self.driven_actions.update(dict.fromkeys(kept[-1].actions))
        name = f"{self.model}-{part.name}{SUFFIX}"
        self.bounds[name] = ScenarioBounds(part.constants, 0, False, len(kept))
        if kept:
            self.files[name] = file_of(self.model, model, reader, kept)

    def _explain(self, every: Walk, driven: Walk) -> None:
        """Why what is there cannot be driven, as far as this choice of bounds tells."""
        for action, reason in driven.refused_actions.items():
            self.refused_actions.setdefault(action, reason)
        for pair in every.pairs:
            if pair not in driven.pairs and pair not in self.refused_pairs:
                direct = self.limits.rides.get(pair[1]) or driven.refusals.get(pair)
                self.refused_pairs[pair] = direct or _obstacle(every, driven, pair)

    def index(self) -> Index:
        """What there is, what is driven, and why the rest is not."""
        lacking = sorted(set(self.pairs) - set(self.driven_pairs))
        reasons = {pair: self.refused_pairs[pair] for pair in lacking}
        actions = sorted(set(self.actions) - set(self.driven_actions))
        refused = {action: self.refused_actions.get(action, "") for action in actions}
        used = sorted({*reasons.values(), *refused.values()} - {""})
        return Index(
            model=self.model,
            unreached=sorted(set(self.every_action) - set(self.actions)),
            files=self.bounds,
            steps=sum(len(one.steps) for file in self.files.values() for one in file.scenarios),
            actions=sorted(self.driven_actions),
            pairs=sorted(self.driven_pairs),
            not_driven_actions=refused,
            not_driven_pairs=[NotDriven(*pair, reason) for pair, reason in reasons.items()],
            reasons={reason: self.limits.reasons[reason] for reason in used},
        )


def _up_to_last(path: Path, wanted: set[Pair]) -> Path:
    """As much of the path as has all of these pairs."""
    for length in range(1, len(path.moves) + 1):
        shorter = Path(path.start, path.moves[:length])
        if wanted <= set(shorter.pairs):
            return shorter
    raise AssertionError("the path does not have what it has")


def _obstacle(every: Walk, driven: Walk, pair: Pair) -> str:
    """The first thing on a shortest way to the pair that the core does not do."""
    place = every.pairs[pair]
    start, moves = every.walked(every.way(*place))
    steps = [move[0] for move in moves]
    state, position = start, 0
    while position < len(steps):
        wanted = steps[position:]
        found, reason = driven.follow(state, wanted)
        if not found:
            return reason
        position += len(found)
        state = found[-1].after
    raise AssertionError(f"{pair} can be driven along {[step.action for step in steps]}")


def cover(
    model: str, parts: Sequence[BoundsChoice] = (), progress: Callable[[str], None] = lambda text: None
) -> Coverage:
    """Scenarios for a model at these bounds, or at those of its plan. Raises SpecError."""
    chosen = parts or PLANS.get(model, ())
    if not chosen:
        raise SpecError(f"there is no plan for model {model!r}: give bounds")
    coverage = Coverage(model)
    for part in chosen:
        coverage.add(part, progress)
    return coverage


def model_of(name: str) -> str:
    """Whose scenarios or index a file of this name holds: one model's name may begin with another's."""
    return max((model for model in MODELS if name.startswith(f"{model}-")), key=len, default="")


def write(coverage: Coverage, folder: pathlib.Path) -> list[pathlib.Path]:
    """Write all files of a folder; scenarios of this model that are no longer made are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"*{SUFFIX}"):
        if model_of(old.name) == coverage.model:
            old.unlink()
    paths = []
    for name, content in contents(coverage).items():
        path = folder / name
        path.write_bytes(content)
        paths.append(path)
    return paths


def contents(coverage: Coverage) -> dict[str, bytes]:
    """File name -> bytes."""
    files = {name: encode(file) for name, file in coverage.files.items()}
    return files | {f"{coverage.model}-{INDEX}": encode_index(coverage.index())}
