"""A model as generated Python: first states, successors, invariants, symmetry.

    compiled = compile_model(Kip320(replicas=3))
    frontier = compiled.initial()
    compiled.next_states(frontier[0])

The generated source stands in `source`. Every action becomes straight-line code: its parameters' values are
written out where they are few, each guard stands as soon as what it mentions is chosen, and a term that is
needed twice is computed once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from liftlog_spec.lang.model import Action, Model, Property, Rigid
from liftlog_spec.lang.terms import Term
from liftlog_spec.lang.types import SpecError
from liftlog_spec.run.expressions import (
    CACHED,
    RUNTIME,
    Env,
    Expressions,
    KnownTerms,
    everywhere,
    literal,
    partial,
    subterms,
    unconditional,
)
from liftlog_spec.run.symmetry import Symmetry
from liftlog_spec.run.writer import Writer

State = tuple[Any, ...]
LONG_CHARACTERS = 2000
"""An expression so long is not written twice."""
_PART = re.compile(r" *# (\w+ \(.*\))$|def (?:invariant|sometimes)_(\w+)")
"""How the part of an action or of a property begins in generated code."""
WRITTEN_OUT = 100
"""Combinations of parameters of one action that are written out; more become loops."""


def as_text(value: Any) -> str:
    """A shown value on one line."""
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name}: {as_text(item)}" for name, item in value.items()) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_text, value)) + "]"
    return "none" if value is None else str(value)


class CompiledModel:
    """See the module's text. All functions are plain Python functions of a state."""

    def __init__(self, model: Model, source: str, namespace: dict[str, Any]) -> None:
        self.model = model
        self.name = model.name
        self.source = source
        self.variables = tuple(model.vars)
        self.actions = tuple(action.name for action in model.actions)
        self.first: Callable[[], State] = namespace["first"]
        """Every variable's own first value, before any `@initial`."""
        self.initial: Callable[[], list[State]] = namespace["initial"]
        self.next_states: Callable[[State], list[State]] = namespace["next_states"]
        self.successors: Callable[[State], list[tuple[int, tuple[Any, ...], State]]] = namespace["successors"]
        self._canonical: Callable[[State], State] | None = None
        self.final: Callable[[State], bool] = namespace["final"]
        """Whether some `@terminal` property allows that nothing follows."""
        self.taken: list[int] = namespace["taken"]
        """How many steps each action has made in `next_states` so far."""
        self.allowed: Callable[[State], bool] = namespace["allowed"]
        self.invariants = tuple((p.name, namespace[f"invariant_{p.name}"]) for p in model.invariants)
        self.sometimes = tuple((p.name, namespace[f"sometimes_{p.name}"]) for p in model.sometimes)
        self._types = list(model.types.values())

    @property
    def canonical(self) -> Callable[[State], State]:
        """The one state that stands for all that differ from a state by names only. Raises SpecError."""
        if self._canonical is None:
            symmetry = Symmetry(self.model)
            namespace: dict[str, Any] = {}
            exec(compile(symmetry.source(), f"<symmetry of {self.name}>", "exec"), namespace)
            self._canonical = namespace["canonical"]
        return self._canonical

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

    def blame(self, error: Exception, state: State) -> str:
        """What to say when generated code fails: the action or property, and the state."""
        number = 0
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == f"<model {self.name}>":
                number = trace.tb_lineno
            trace = trace.tb_next
        where = ""
        for line in reversed(self.source.splitlines()[:number]):
            found = _PART.match(line)
            if found is not None:
                where = ", " + (found[1] or found[2])
                break
        return (
            f"model {self.name}{where}: a term has no value ({type(error).__name__}: {error}), "
            f"in {self.show(state)}"
        )

    def show_step(self, action: int, parameters: tuple[Any, ...]) -> str:
        """`Name(a, b)`."""
        recorded = self.model.actions[action]
        chosen = [step[1] for step in recorded.steps if step[0] == "choose"]
        values = [as_text(v.type.show(value)) for v, value in zip(chosen, parameters, strict=True)]
        return f"{recorded.name}({', '.join(values)})"


class CodeGenerator:
    """Writes the source of one model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.write = Expressions(model.bindings)
        self.out = Writer()
        self._named = False
        self._counted = False

    def source(self) -> str:
        out = self.out
        self._initial()
        for named in (False, True):
            self._named, self._counted = named, not named
            out.add(0, f"def {'successors' if named else 'next_states'}(state):")
            self.unpack(1)
            out.add(1, "out = []")
            for number, action in enumerate(self.model.actions):
                out.add(1, f"# {action.name} ({action.line})")
                self._action(number, action)
            out.add(1, "return out")
            out.add(0, "")
        for kind, properties in (
            ("invariant", self.model.invariants),
            ("sometimes", self.model.sometimes),
            ("axiom", self.model.axioms),
        ):
            for found in properties:
                self._property(f"{kind}_{found.name}", [found])
        self._property("allowed", self.model.constraints)
        self._property("final", self.model.terminals, enough=True)
        tables = dict(self.write.tables)
        head = [
            RUNTIME,
            f"taken = [0] * {len(self.model.actions)}",
            *(f"{name} = {text}" for name, text in tables.items()),
            "",
        ]
        return "\n".join(head + out.lines) + "\n"

    def unpack(self, depth: int) -> None:
        """Write the state's variables into locals."""
        names = ", ".join(f"v_{name}" for name in self.model.vars)
        self.out.add(depth, f"({names},) = state")

    def _property(self, name: str, properties: list[Property], enough: bool = False) -> None:
        """Whether all of them are true; with `enough`, whether one is."""
        self.out.add(0, f"def {name}(state):")
        self.unpack(1)
        for found in properties:
            cached = self.cache([found.body], [found.body], {}, KnownTerms(), 1)
            text = self.write.write(found.body, {}, cached)
            self.out.add(1, f"if {'' if enough else 'not '}{text}:")
            self.out.add(2, f"return {enough}")
        self.out.add(1, f"return {not enough}")
        self.out.add(0, "")

    def _initial(self) -> None:
        """First states: the variables' own first values, then every way through each initial function."""
        out = self.out
        first = [self.write.write(term, {}, KnownTerms()) for term in self.model.first.values()]
        out.add(0, "def first():")
        out.add(1, "return (" + "".join(f"{text}, " for text in first) + ")")
        out.add(0, "")
        out.add(0, "def initial():")
        out.add(1, "states = [first()]")
        for action in self.model.initials:
            out.add(1, "found, states = states, []")
            out.add(1, "for state in found:")
            self.unpack(2)
            out.add(2, "out = states")
            self._steps(0, action, self._ordered(action), {}, KnownTerms(), 2, [])
        out.add(1, "return states")
        out.add(0, "")

    # -- actions -------------------------------------------------------------------------------------------

    def _action(self, number: int, action: Action) -> None:
        self._steps(number, action, self._ordered(action), {}, KnownTerms(), 1, [])

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
                known = self.write.known_values(step[2], {}, KnownTerms()) if not step[2].free else None
                total *= len(known) if known is not None else 1
        return total

    def _steps(
        self,
        number: int,
        action: Action,
        steps: list[tuple[Any, ...]],
        env: Env,
        cached: KnownTerms,
        depth: int,
        chosen: list[str],
    ) -> None:
        if not steps:
            self._emit(number, action, env, cached, depth, chosen)
            return
        step, rest = steps[0], steps[1:]
        out = self.out
        if step[0] == "guard":
            cached = self.cache([step[1]], _terms(action), env, cached, depth)
            condition = self.write.write(step[1], env, cached)
            if condition == "False":
                return
            if condition == "True":
                self._steps(number, action, rest, env, cached, depth, chosen)
                return
            out.add(depth, f"if {condition}:")
            before = len(out.lines)
            self._steps(number, action, rest, env, cached, depth + 1, chosen)
            if len(out.lines) == before:
                # A later guard can never be true here.
                out.lines.pop()
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

    def cache(
        self, terms: list[Term], of: list[Term], env: Env, cached: KnownTerms, depth: int
    ) -> KnownTerms:
        """Put what these terms surely compute, and what is needed again in all these, into locals."""
        uses: dict[int, int] = {}
        for term in of:
            everywhere(term, uses)
        cached = KnownTerms(cached)
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
                cached.texts.clear()
        for term in terms:
            self._name_long_parts(term, uses, env, cached, depth)
        return cached

    def _name_long_parts(
        self, term: Term, uses: dict[int, int], env: Env, cached: KnownTerms, depth: int
    ) -> None:
        """What is long, needed often and not surely computed is written, and computed, once at most."""
        for part in subterms(term):
            if uses.get(part.number, 0) < 2 or part.number in cached or not part.free <= set(env):
                continue
            text = self.write.write(part, env, cached)
            if len(text) > LONG_CHARACTERS:
                name = self.write.fresh("f")
                self.out.add(depth, f"{name} = once(lambda: {text})")
                cached[part.number] = f"{name}()"
                cached.texts.clear()

    def _emit(
        self, number: int, action: Action, env: Env, cached: KnownTerms, depth: int, chosen: list[str]
    ) -> None:
        cached = self.cache(list(action.updates.values()), _terms(action), env, cached, depth)
        parts = []
        for name in self.model.vars:
            update = action.updates.get(name)
            parts.append(f"v_{name}" if update is None else self.write.write(update, env, cached))
        state = "(" + "".join(f"{part}, " for part in parts) + ")"
        if self._named:
            parameters = "(" + "".join(f"{value}, " for value in chosen) + ")"
            state = f"({number}, {parameters}, {state})"
        if self._counted:
            self.out.add(depth, f"taken[{number}] += 1")
        self.out.add(depth, f"out.append({state})")


def _terms(action: Action) -> list[Term]:
    return [*(step[-1] for step in action.steps), *action.updates.values()]


def _conjuncts(term: Term) -> list[Term]:
    if term.op == "and":
        return _conjuncts(term.args[0]) + _conjuncts(term.args[1])
    return [term]


def compile_model(model: Model) -> CompiledModel:
    """Generate and load a model's Python. Raises SpecError."""
    source = CodeGenerator(model).source()
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<model {model.name}>", "exec"), namespace)
    compiled = CompiledModel(model, source, namespace)
    if model.axioms:
        check_axioms(model, lambda name: bool(namespace[f"axiom_{name}"](compiled.first())))
    return compiled


def check_axioms(model: Model, holds: Callable[[str], bool]) -> None:
    """Raises SpecError if the instance of the model's rigid parts is none that the axioms speak of."""
    for found in model.axioms:
        if not holds(found.name):
            rigid = ", ".join(name for name, var in model.vars.items() if isinstance(var, Rigid))
            raise SpecError(
                f"model {model.name}: the instance of its rigid parts ({rigid}) is against the axiom "
                f"{found.name} ({found.line}): correct the function in Rigid(...), or the axiom"
            )
