"""Checks on every explored state that a model does nothing that its proof's model does not do.

Theory. Beside each state of the concrete model walks a state of the abstract one: the first of both belong
together, and for each step that the concrete model can take a mapping names steps of the abstract one, none,
one or several. Each must be possible there, guard by guard, and afterwards the two states must agree: what
the abstract one says of logs, votes or epochs is what the concrete one holds. So every concrete behaviour
within bounds is one of the abstract model, for which the proof holds without bounds. What the abstract
state remembers of the past (who was elected by whom) is carried along, and needs no place in the concrete
model.

Explored are pairs of states. A step for which there is nothing in the proof is either a failure, or its
action stands in `outside` with the reason; it is counted, and not followed.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, ClassVar

import msgspec

from liftlog_spec.lang.model import Model, Rigid
from liftlog_spec.lang.types import Fn, Type
from liftlog_spec.mappings.reading import NamedState, facts_of, reader_of, value_reader
from liftlog_spec.run.compiled import CompiledModel, State, compile_model
from liftlog_spec.run.stepwise import Refused, Stepper

AbstractStep = tuple[str, dict[str, Any]]
"""An action of the proof's model, with its parameters by name."""
Steps = Generator[AbstractStep, NamedState, None]
"""Yields steps; is sent the abstract state that each leads to."""
Pair = tuple[State, State]


class Mapping:
    """Base of mappings."""

    outside: ClassVar[dict[str, str]] = {}
    """Actions of the concrete model that the proof does not speak of, and why."""
    concrete: Model
    abstract: Model

    def __init__(self, variant: str, constants: dict[str, Any]) -> None:
        """Sets `concrete` and `abstract`. Raises SpecError for bounds that the mapping is not made for."""
        raise NotImplementedError

    def begin(self, state: NamedState, abstract: NamedState) -> Steps:
        """From the abstract model's first state to the one that belongs to this first state."""
        raise NotImplementedError

    def steps(
        self, action: str, given: dict[str, Any], before: NamedState, after: NamedState, abstract: NamedState
    ) -> Steps:
        """What the abstract model does while the concrete one takes this step."""
        raise NotImplementedError

    def disagreements(self, state: NamedState, abstract: NamedState) -> Iterator[str]:
        """Where the two states do not belong together, in words."""
        raise NotImplementedError


class UnmatchedStep(msgspec.Struct):
    """A step without a counterpart. `trace`: the steps that lead there, the last one is the culprit."""

    trace: list[str]
    why: str
    concrete: list[str]
    abstract_before: list[str]
    abstract_after: list[str]


class MappingReport(msgspec.Struct):
    """`taken`: how often each abstract action was; `outside`: steps that were not followed, by action."""

    mapping: str
    model: str
    settings: dict[str, str]
    constants: dict[str, int]
    verdict: str
    states: int
    pairs: int
    steps: int
    stutters: int
    depth: int
    taken: dict[str, int]
    never: list[str]
    outside: dict[str, int]
    seconds: float
    failure: UnmatchedStep | None = None


class _Wrong(Exception):
    """No counterpart: why, and the abstract state in which that turned out."""

    def __init__(self, why: str, abstract: State) -> None:
        super().__init__(why)
        self.why = why
        self.abstract = abstract


class MappingChecker:
    """One exploration."""

    def __init__(self, mapping: Mapping, name: str) -> None:
        self.mapping = mapping
        self.name = name
        self._compiled: CompiledModel = compile_model(mapping.concrete)
        self._given = Stepper(mapping.concrete)
        self._abstract = Stepper(mapping.abstract)
        self._read = reader_of(mapping.concrete.types)
        self._parameters = {
            action: [(name, value_reader(kind)) for name, kind in self._given.parameters(action)]
            for action in self._compiled.actions
        }
        self._read_abstract = reader_of(mapping.abstract.types)
        self._parents: dict[Pair, tuple[Pair | None, str]] = {}
        self._taken: Counter[str] = Counter()
        self._outside: Counter[str] = Counter()
        self._steps = 0
        self._stutters = 0

    def run(self, most_states: int = 0, progress: Callable[[str], None] = lambda text: None) -> MappingReport:
        """Breadth first; `most_states`: stop after so many pairs (0: none)."""
        started = time.monotonic()
        verdict, failure, depth = "holds", None, 0
        frontier: deque[Pair] = deque()
        try:
            self._begin(frontier)
            while frontier and verdict == "holds":
                depth += 1
                for _ in range(len(frontier)):
                    pair = frontier.popleft()
                    self._expand(pair, frontier)
                    if most_states and len(self._parents) >= most_states:
                        verdict = "bounded"
                        break
                progress(f"depth {depth}: {len(self._parents):,} pairs, {len(frontier):,} to expand")
        except _Failed as found:
            verdict, failure = "violated", found.failure
        return self._report(verdict, depth, failure, started)

    def _report(
        self, verdict: str, depth: int, failure: UnmatchedStep | None, started: float
    ) -> MappingReport:
        actions = [action.name for action in self.mapping.abstract.actions]
        return MappingReport(
            mapping=self.name,
            model=self.mapping.concrete.name,
            settings=self.mapping.concrete.settings,
            constants=dict(self.mapping.concrete.bindings),
            verdict=verdict,
            states=len({state for state, _ in self._parents}),
            pairs=len(self._parents),
            steps=self._steps,
            stutters=self._stutters,
            depth=depth,
            taken={name: self._taken[name] for name in actions},
            never=[name for name in actions if not self._taken[name]],
            outside={name: self._outside[name] for name in self.mapping.outside},
            seconds=round(time.monotonic() - started, 3),
            failure=failure,
        )

    def walk(self, walks: int, most_steps: int, seed: int) -> MappingReport:
        """So many random walks instead, the same ones for the same seed: less far, but deep."""
        started = time.monotonic()
        chance = random.Random(seed)
        failure: UnmatchedStep | None = None
        first: deque[Pair] = deque()
        try:
            self._begin(first)
            for _ in range(walks):
                pair = chance.choice(list(first))
                for _ in range(most_steps):
                    following: deque[Pair] = deque()
                    self._expand(pair, following, chance)
                    if not following:
                        break
                    pair = following[0]
        except _Failed as found:
            failure = found.failure
        return self._report("bounded" if failure is None else "violated", most_steps, failure, started)

    def _begin(self, frontier: deque[Pair]) -> None:
        first = self._abstract.first()
        for action in self.mapping.abstract.initials:
            found = self._abstract.apply(action.name, {}, first)
            assert isinstance(found, tuple), str(found)
            first = found
        for state in self._compiled.initial():
            read = self._read(state)
            try:
                steps = self.mapping.begin(read, self._read_abstract(first))
                abstract = self._follow(steps, first)
                self._agree(read, abstract)
            except _Wrong as wrong:
                raise _Failed(self._failure(None, "a first state", state, state, first, wrong)) from None
            self._keep((state, abstract), None, "", frontier)

    def _expand(self, pair: Pair, frontier: deque[Pair], chance: random.Random | None = None) -> None:
        """All successors that are new, or with `chance` a random one, new or not."""
        state, abstract = pair
        before, abstractly = self._read(state), self._read_abstract(abstract)
        successors = []
        for number, parameters, following in self._compiled.successors(state):
            action = self._compiled.actions[number]
            if chance is not None and following == state:
                continue
            if action in self.mapping.outside:
                self._outside[action] += 1
            else:
                successors.append((number, action, parameters, following))
        if chance is not None and successors:
            successors = [chance.choice(successors)]
        for number, action, parameters, following in successors:
            self._steps += 1
            readers = self._parameters[action]
            given = {name: read(v) for (name, read), v in zip(readers, parameters, strict=True)}
            after = self._read(following)
            try:
                steps = self.mapping.steps(action, given, before, after, abstractly)
                now = self._follow(steps, abstract)
                self._agree(after, now)
            except _Wrong as wrong:
                label = self._compiled.show_step(number, parameters)
                raise _Failed(self._failure(pair, label, state, following, abstract, wrong)) from None
            reached = (following, now)
            if reached not in self._parents:
                self._keep(reached, pair, self._compiled.show_step(number, parameters), frontier)
            elif chance is not None:
                frontier.append(reached)

    def _keep(self, pair: Pair, parent: Pair | None, label: str, frontier: deque[Pair]) -> None:
        if pair not in self._parents:
            self._parents[pair] = (parent, label)
            frontier.append(pair)

    def _follow(self, steps: Steps, abstract: State) -> State:
        """Take the steps that the mapping names."""
        count = 0
        try:
            action, given = next(steps)
            while True:
                found = self._abstract.apply(action, given, abstract)
                if isinstance(found, Refused):
                    kinds = dict(self._abstract.parameters(action))
                    values = ", ".join(f"{n} = {kinds[n].show(value)}" for n, value in given.items())
                    raise _Wrong(f"{action}({values}): {found}", abstract)
                abstract = found
                self._taken[action] += 1
                count += 1
                action, given = steps.send(self._read_abstract(abstract))
        except StopIteration:
            self._stutters += not count
        return abstract

    def _agree(self, state: NamedState, abstract: State) -> None:
        for text in self.mapping.disagreements(state, self._read_abstract(abstract)):
            raise _Wrong(text, abstract)

    def _failure(
        self, pair: Pair | None, label: str, state: State, after: State, abstract: State, wrong: _Wrong
    ) -> UnmatchedStep:
        trace = [label]
        while pair is not None:
            pair, step = self._parents[pair]
            if step:
                trace.insert(0, step)
        changes = [f"{path}: {one} -> {other}" for path, one, other in self._given.differences(state, after)]
        return UnmatchedStep(trace, wrong.why, changes, self._facts(abstract), self._facts(wrong.abstract))

    def _facts(self, abstract: State) -> list[str]:
        """One line for each variable that says anything; orders are told by the elements' numbers."""
        lines = []
        for name, value in self._abstract.named(abstract).items():
            kind = self._abstract.types[name]
            if isinstance(self.mapping.abstract.vars[name], Rigid) and _is_order(kind):
                continue
            if found := facts_of(kind, value):
                lines.append(f"{name}  {', '.join(found)}")
        return lines


def _is_order(kind: Type) -> bool:
    """A relation of a sort with itself."""
    return isinstance(kind, Fn) and isinstance(kind.to, Fn) and kind.domain.key() == kind.to.domain.key()


class _Failed(Exception):
    """The exploration ends here."""

    def __init__(self, failure: UnmatchedStep) -> None:
        super().__init__(failure.why)
        self.failure = failure


def check_mapping(
    mapping: Mapping,
    name: str,
    most_states: int = 0,
    progress: Callable[[str], None] = lambda text: None,
    *,
    walks: int = 0,
    walk_steps: int = 60,
    seed: int = 0,
) -> MappingReport:
    """Explore, or walk at random. Raises SpecError if a model makes no sense."""
    checker = MappingChecker(mapping, name)
    return checker.walk(walks, walk_steps, seed) if walks else checker.run(most_states, progress)
