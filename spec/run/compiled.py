"""A model as generated Python: first states, successors, invariants, symmetry.

    compiled = compile_model(Kip320(replicas=3))
    frontier = compiled.initial()
    compiled.next_states(frontier[0])

The generated source stands in `source`. Every action becomes straight-line code: its parameters' values are
written out where they are few, each guard stands as soon as what it mentions is chosen, and a term that is
needed twice is computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

from spec.lang.model import Action, Model, Property
from spec.lang.terms import Term
from spec.lang.types import Enum, Fn, Option, Record, Seq, Set, Sort, SpecError, Type
from spec.run.expressions import (
    CACHED,
    RUNTIME,
    Env,
    Expressions,
    everywhere,
    literal,
    partial,
    unconditional,
)

State = tuple[Any, ...]
WRITTEN_OUT = 100
"""Combinations of parameters of one action that are written out; more become loops."""


class CompiledModel:
    """See the module's text. All functions are plain Python functions of a state."""

    def __init__(self, model: Model, source: str, namespace: dict[str, Any]) -> None:
        self.model = model
        self.name = model.name
        self.source = source
        self.variables = tuple(model.vars)
        self.actions = tuple(action.name for action in model.actions)
        self.initial: Callable[[], list[State]] = namespace["initial"]
        self.next_states: Callable[[State], list[State]] = namespace["next_states"]
        self.successors: Callable[[State], list[tuple[int, tuple[Any, ...], State]]] = namespace["successors"]
        self.canonical: Callable[[State], State] = namespace["canonical"]
        self.allowed: Callable[[State], bool] = namespace["allowed"]
        self.invariants = tuple((p.name, namespace[f"invariant_{p.name}"]) for p in model.invariants)
        self.sometimes = tuple((p.name, namespace[f"sometimes_{p.name}"]) for p in model.sometimes)
        self._types = list(model.types.values())

    def show(self, state: State) -> dict[str, Any]:
        """The state as a person reads it."""
        return {
            name: kind.show(value)
            for name, kind, value in zip(self.variables, self._types, state, strict=True)
        }

    def wrong_type(self, state: State) -> str:
        """The first variable whose value is none of its type; empty if all are right."""
        for name, kind, value in zip(self.variables, self._types, state, strict=True):
            if not kind.holds(value):
                return f"{name} = {value!r} is no {kind}"
        return ""

    def show_step(self, action: int, parameters: tuple[Any, ...]) -> str:
        """`Name(a, b)`."""
        recorded = self.model.actions[action]
        chosen = [step[1] for step in recorded.steps if step[0] == "choose"]
        values = [str(v.type.show(value)) for v, value in zip(chosen, parameters, strict=True)]
        return f"{recorded.name}({', '.join(values)})"


class _Writer:
    """Writes one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)


class Generator:
    """Writes the source of one model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.write = Expressions(model.bindings)
        self.out = _Writer()
        self._named = False

    def source(self) -> str:
        out = self.out
        self._initial()
        for named in (False, True):
            self._named = named
            out.add(0, f"def {'successors' if named else 'next_states'}(state):")
            self._unpack(1)
            out.add(1, "out = []")
            for number, action in enumerate(self.model.actions):
                out.add(1, f"# {action.name} ({action.line})")
                self._action(number, action)
            out.add(1, "return out")
            out.add(0, "")
        for kind, properties in (("invariant", self.model.invariants), ("sometimes", self.model.sometimes)):
            for found in properties:
                self._property(f"{kind}_{found.name}", [found])
        self._property("allowed", self.model.constraints)
        symmetry = Symmetry(self.model)
        symmetry.write(out)
        tables = {**self.write.tables, **symmetry.tables}
        head = [RUNTIME, *(f"{name} = {text}" for name, text in tables.items()), ""]
        return "\n".join(head + out.lines) + "\n"

    def _unpack(self, depth: int) -> None:
        names = ", ".join(f"v_{name}" for name in self.model.vars)
        self.out.add(depth, f"({names},) = state")

    def _property(self, name: str, properties: list[Property]) -> None:
        self.out.add(0, f"def {name}(state):")
        self._unpack(1)
        bodies = [self.write.write(found.body, {}, {}) for found in properties]
        self.out.add(1, "return " + (" and ".join(bodies) or "True"))
        self.out.add(0, "")

    def _initial(self) -> None:
        """First states: the variables' own first values, then every way through each initial function."""
        out = self.out
        first = [self.write.write(term, {}, {}) for term in self.model.first.values()]
        out.add(0, "def initial():")
        out.add(1, "states = [(" + "".join(f"{text}, " for text in first) + ")]")
        for action in self.model.initials:
            out.add(1, "found, states = states, []")
            out.add(1, "for state in found:")
            self._unpack(2)
            out.add(2, "out = states")
            self._steps(0, action, self._ordered(action), {}, {}, 2, [])
        out.add(1, "return states")
        out.add(0, "")

    # -- actions -------------------------------------------------------------------------------------------

    def _action(self, number: int, action: Action) -> None:
        self._steps(number, action, self._ordered(action), {}, {}, 1, [])

    def _ordered(self, action: Action) -> list[tuple[Any, ...]]:
        """Guards split into their conjuncts, each as early as its variables allow."""
        ordered: list[tuple[Any, ...]] = []
        for step in action.steps:
            if step[0] == "choose":
                ordered.append(step)
                continue
            for guard in _conjuncts(step[1]):
                place = len(ordered)
                if not partial(guard):
                    while place and not (
                        ordered[place - 1][0] == "choose" and ordered[place - 1][1].data[0] in guard.free
                    ):
                        if ordered[place - 1][0] == "guard":
                            break
                        place -= 1
                    place = self._before_later_choices(ordered, guard)
                ordered.insert(place, ("guard", guard))
        return ordered

    @staticmethod
    def _before_later_choices(ordered: list[tuple[Any, ...]], guard: Term) -> int:
        """Right behind the last choice that the guard mentions, and behind the guards that stand there."""
        place = 0
        for position, step in enumerate(ordered):
            if step[0] == "choose" and step[1].data[0] in guard.free:
                place = position + 1
        while place < len(ordered) and ordered[place][0] == "guard":
            place += 1
        return place

    def _combinations(self, steps: list[tuple[Any, ...]]) -> int:
        total = 1
        for step in steps:
            if step[0] == "choose":
                known = self.write.known_values(step[2], {}, {}) if not step[2].free else None
                total *= len(known) if known is not None else 1
        return total

    def _steps(
        self,
        number: int,
        action: Action,
        steps: list[tuple[Any, ...]],
        env: Env,
        cached: Env,
        depth: int,
        chosen: list[str],
    ) -> None:
        if not steps:
            self._emit(number, action, env, cached, depth, chosen)
            return
        step, rest = steps[0], steps[1:]
        out = self.out
        if step[0] == "guard":
            cached = self._cache([step[1]], action, env, cached, depth)
            condition = self.write.write(step[1], env, cached)
            if condition == "False":
                return
            if condition != "True":
                out.add(depth, f"if {condition}:")
                depth += 1
            self._steps(number, action, rest, env, cached, depth, chosen)
            return
        variable, domain = step[1], step[2]
        known = self.write.known_values(domain, env, cached)
        if known is not None and self._combinations(action.steps) <= WRITTEN_OUT:
            for value, condition in known:
                inner = depth
                if condition == "False":
                    continue
                if condition != "True":
                    out.add(depth, f"if {condition}:")
                    inner += 1
                before = len(out.lines)
                self._steps(
                    number, action, rest, {**env, variable.data[0]: value}, cached, inner, [*chosen, value]
                )
                if inner > depth and len(out.lines) == before:
                    out.lines.pop()
            return
        name = self.write.fresh("p")
        out.add(depth, f"for {name} in {self.write.loop(domain, env, cached)}:")
        before = len(out.lines)
        self._steps(number, action, rest, {**env, variable.data[0]: name}, cached, depth + 1, [*chosen, name])
        if len(out.lines) == before:
            out.lines.pop()

    def _cache(self, terms: list[Term], action: Action, env: Env, cached: Env, depth: int) -> Env:
        """Put what these terms surely compute, and what is needed again, into locals."""
        uses: dict[int, int] = {}
        for step in action.steps:
            everywhere(step[-1], uses)
        for update in action.updates.values():
            everywhere(update, uses)
        cached = dict(cached)
        for term in terms:
            for part in unconditional(term):
                if part.op not in CACHED or uses.get(part.number, 0) < 2 or part.number in cached:
                    continue
                if not part.free <= set(env):
                    continue
                text = self.write.write(part, env, cached)
                if literal(text) or text.isidentifier():
                    continue
                name = self.write.fresh("c")
                self.out.add(depth, f"{name} = {text}")
                cached[part.number] = name
        return cached

    def _emit(
        self, number: int, action: Action, env: Env, cached: Env, depth: int, chosen: list[str]
    ) -> None:
        cached = self._cache(list(action.updates.values()), action, env, cached, depth)
        parts = []
        for name in self.model.vars:
            update = action.updates.get(name)
            parts.append(f"v_{name}" if update is None else self.write.write(update, env, cached))
        state = "(" + "".join(f"{part}, " for part in parts) + ")"
        if self._named:
            parameters = "(" + "".join(f"{value}, " for value in chosen) + ")"
            state = f"({number}, {parameters}, {state})"
        self.out.add(depth, f"out.append({state})")


def _conjuncts(term: Term) -> list[Term]:
    if term.op == "and":
        return _conjuncts(term.args[0]) + _conjuncts(term.args[1])
    return [term]


class Symmetry:
    """Writes `canonical`: the least of a state's images under permutations of the symmetric sorts."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tables: dict[str, str] = {}
        used: dict[str, Sort] = {}
        for kind in model.types.values():
            for sort in _sorts(kind):
                if sort.symmetric and sort.size > 1:
                    used[sort.name] = sort
        self.sorts = list(used.values())

    def write(self, out: _Writer) -> None:
        out.add(0, "def canonical(state):")
        if not self.sorts:
            out.add(1, "return state")
            out.add(0, "")
            return
        names = ", ".join(f"v_{name}" for name in self.model.vars)
        out.add(1, f"({names},) = state")
        out.add(1, "least = state")
        choices = [list(permutations(range(sort.size))) for sort in self.sorts]
        for number, combination in enumerate(product(*choices)):
            if all(list(p) == sorted(p) for p in combination):
                continue
            chosen = {sort.name: p for sort, p in zip(self.sorts, combination, strict=True)}
            parts = [
                self._image(kind, f"v_{name}", chosen, number) for name, kind in self.model.types.items()
            ]
            out.add(1, "image = (" + "".join(f"{part}, " for part in parts) + ")")
            out.add(1, "if image < least: least = image")
        out.add(1, "return least")
        out.add(0, "")

    def _image(self, kind: Type, text: str, chosen: dict[str, tuple[int, ...]], number: int) -> str:
        if not any(sort.name in chosen for sort in _sorts(kind)):
            return text
        match kind:
            case Sort():
                return f"{self._table('P', kind, chosen, number)}[{text}]"
            case Option(of=of):
                if kind.flat:
                    return f"{self._table('P', of, chosen, number)}[{text}]"
                return f"(({self._image(of, f'{text}[0]', chosen, number)},) if {text} else ())"
            case Set(of=of):
                if kind.mask:
                    return f"{self._table('M', of, chosen, number)}[{text}]"
                return f"tuple(sorted([{self._image(of, 'x', chosen, number)} for x in {text}]))"
            case Seq(of=of):
                return f"tuple([{self._image(of, 'x', chosen, number)} for x in {text}])"
            case Fn(domain=domain, to=to):
                order = list(range(domain.size))
                if isinstance(domain, Sort) and domain.name in chosen:
                    order = [chosen[domain.name].index(position) for position in order]
                parts = [self._image(to, f"{text}[{position}]", chosen, number) for position in order]
                return "(" + "".join(f"{part}, " for part in parts) + ")"
            case Record(fields=fields):
                parts = [
                    self._image(field, f"{text}[{position}]", chosen, number)
                    for position, field in enumerate(fields.values())
                ]
                return "(" + "".join(f"{part}, " for part in parts) + ")"
        raise SpecError(f"{kind} has no image")

    def _table(self, prefix: str, sort: Type, chosen: dict[str, tuple[int, ...]], number: int) -> str:
        """P: the permutation, with -1 for itself at the end; M: the images of all sets."""
        assert isinstance(sort, Sort)
        permutation = chosen[sort.name]
        name = f"{prefix}_{sort.name}_{number}"
        if prefix == "P":
            self.tables[name] = repr((*permutation, -1))
        else:
            images = [
                sum(1 << permutation[i] for i in range(sort.size) if mask >> i & 1)
                for mask in range(1 << sort.size)
            ]
            self.tables[name] = repr(tuple(images))
        return name


def _sorts(kind: Type) -> list[Sort]:
    match kind:
        case Sort():
            return [kind]
        case Option(of=of) | Set(of=of) | Seq(of=of):
            return _sorts(of)
        case Fn(domain=domain, to=to):
            return _sorts(domain) + _sorts(to)
        case Record(fields=fields):
            return [sort for field in fields.values() for sort in _sorts(field)]
        case Enum():
            return []
    return []


def compile_model(model: Model) -> CompiledModel:
    """Generate and load a model's Python. Raises SpecError."""
    source = Generator(model).source()
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<model {model.name}>", "exec"), namespace)
    return CompiledModel(model, source, namespace)
