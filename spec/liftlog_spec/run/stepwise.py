"""One step of a model at a time: whoever knows which action happened has it checked and gets the next state.

    steps = Stepper(Isr(Records=10**9, Epochs=10**9, Changes=1000))   # or of compiled.model
    state = steps.apply("Begin", (0,), steps.first())
    after = steps.apply("Fetch", {"f": 1, "lead": 0}, state)
    if isinstance(after, Refused):
        print(after)              # Fetch is refused at isr.py:157: s.Agrees(f, lead)

States and values are as a state *holds* them (see liftlog_spec/lang/types.py): a state is a tuple in the
order of `steps.variables`, an element of a Sort its number, a name of an Enum its number, none of an Option
-1 or ().

    steps.apply(action, parameters, state)     -> the next state, or Refused. Actions, and `@initial` ones
    steps.parameters(action)                   -> ((name, type), ...), in the order that is wanted
    steps.evaluate(name, arguments, state)     -> value of a definition, an invariant, a sometimes, an axiom
    steps.first()                              -> the variables' own first values, before any `@initial`
    steps.state_of({"hw": (0, 0)})             -> a state by names; what is left out has its first value
    steps.with_values(state, {"hw": (1, 0)})   -> the state with some values replaced
    steps.named(state), steps.show(state)      -> {name: value as held}, {name: value for people}
    steps.read({"hw": {"replica1": 0, ...}})   -> the inverse of show: a state
    held(type, shown)                          -> one value as it is held, from what a person writes
    steps.differences(one, other)              -> [(path, value in one, value in the other)], for people

The parameters of an action are those of its function and then what `some` chooses, in the order written; give
them as a tuple in that order or as a dict by name. Nothing is searched or enumerated, so bounds may be as
large as one likes. A function over more than 10,000 values is held as a `Sparse`, which is indexed like a
tuple; `function(D, ...)` over so many is refused unless it is the same for all. Where a tuple of a Seq would
be too long, any class with `len`, `[i]`, `[:n]`, `+ (item,)`, `==` and hash may stand in its place. Types
are not checked in each step: `steps.wrong_type(state)` does.

Each action becomes a Python function when it is first used. Guards are tried in the order written, so that
what protects a partial term stands before it. A term that has no value, such as an element behind the end of
a sequence, raises SpecError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from liftlog_spec.lang.model import Action, Definition, Model
from liftlog_spec.lang.places import source_of
from liftlog_spec.lang.sparse import Sparse
from liftlog_spec.lang.terms import Term
from liftlog_spec.lang.types import Bool, Enum, Fn, Option, Record, Seq, Set, Sort, SpecError, Type
from liftlog_spec.run.compiled import CodeGenerator, State, check_axioms
from liftlog_spec.run.expressions import RUNTIME, RUNTIME_SPARSE, Env, KnownTerms

Arguments = Sequence[Any] | Mapping[str, Any]
NO_VALUE = (IndexError, KeyError, TypeError, ValueError)
"""What generated code raises where a term has no value."""


class Refused(msgspec.Struct, frozen=True):
    """A step that the model does not allow. `line`: file:line of the guard; `text`: what it says there."""

    action: str
    line: str
    text: str

    def __str__(self) -> str:
        return f"{self.action} is refused at {self.line}: {self.text}"


class Stepper:
    """See the module's text. Raises SpecError for names, counts and values that do not fit the model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.variables = tuple(model.vars)
        self.types = dict(model.types)
        self._places = {name: place for place, name in enumerate(self.variables)}
        self._actions = {action.name: action for action in (*model.initials, *model.actions)}
        self._formulas = {found.name: found for found in model.definitions}
        for found in (
            *model.invariants,
            *model.sometimes,
            *model.constraints,
            *model.terminals,
            *model.axioms,
        ):
            self._formulas[found.name] = Definition(found.name, found.doc, [], found.body)
        self._steps: dict[str, tuple[Callable[[State, tuple[Any, ...]], Any], int]] = {}
        """By action that has been used: its function, and how many parameters it takes."""
        self._values: dict[str, Callable[[State, tuple[Any, ...]], Any]] = {}
        self._first: State | None = None
        self.sources: dict[str, str] = {}
        """The generated Python, by name of what it is for."""

    # -- steps ---------------------------------------------------------------------------------------------

    def parameters(self, action: str) -> tuple[tuple[str, Type], ...]:
        """Names and types of what an action is given."""
        return tuple((variable.data[1], variable.type) for variable in _chosen(self._action(action)))

    def apply(self, action: str, parameters: Arguments, state: State) -> State | Refused:
        """The state after this step, or which guard refuses it."""
        function, wanted = self._steps.get(action) or self._ready(action)
        if type(parameters) is tuple and len(parameters) == wanted:
            given = parameters
        else:
            given = self._given(action, parameters)
        try:
            found = function(state, given)
        except NO_VALUE as error:
            raise SpecError(self._failed(action, given, error)) from error
        return found if type(found) is tuple else self._refused(action, found, given)

    def function(self, action: str) -> Callable[[State, tuple[Any, ...]], Any]:
        """For who takes many steps: from a state and as many parameters as the action has, in their order, to
        the next state, or to no tuple where the action is refused. Raises one of `NO_VALUE` where a term has
        no value. What is wrong in either case, `apply` tells.
        """
        return (self._steps.get(action) or self._ready(action))[0]

    def _ready(self, action: str) -> tuple[Callable[[State, tuple[Any, ...]], Any], int]:
        recorded = self._action(action)
        ready = self._steps[action] = self._load(action, _step_source, recorded), len(_chosen(recorded))
        return ready

    def _failed(self, action: str, given: tuple[Any, ...], error: Exception) -> str:
        recorded = self._action(action)
        return (
            f"model {self.model.name}, {action}({', '.join(map(repr, given))}) ({recorded.line}): "
            f"a term has no value: {type(error).__name__}: {error}"
        )

    def _given(self, action: str, parameters: Arguments) -> tuple[Any, ...]:
        names = [variable.data[1] for variable in _chosen(self._action(action))]
        if isinstance(parameters, Mapping):
            if sorted(parameters) != sorted(names):
                wanted = ", ".join(names) or "nothing"
                raise SpecError(f"{action} takes {wanted}, not {', '.join(parameters) or 'nothing'}")
            return tuple(parameters[name] for name in names)
        if len(parameters) != len(names):
            raise SpecError(
                f"{action} takes {len(names)} parameters ({', '.join(names)}), not {len(parameters)}"
            )
        return tuple(parameters)

    def _refused(self, action: str, step: int, given: tuple[Any, ...]) -> Refused:
        recorded = self._action(action)
        kind, term, *_ = recorded.steps[step]
        line, text = source_of(recorded.places[step])
        if kind == "guard":
            return Refused(action, line, text or repr(term))
        place = [variable.number for variable in _chosen(recorded)].index(term.number)
        shown = given[place]
        if term.type.holds(shown):
            shown = term.type.show(shown)
        domain = text or str(term.type)
        if any(term.number == parameter.number for parameter in recorded.parameters):
            line, domain = recorded.line, str(term.type)
        return Refused(action, line, f"{term.data[1]} = {shown} is none of {domain}")

    def _action(self, name: str) -> Action:
        found = self._actions.get(name)
        if found is None:
            known = ", ".join(self._actions)
            raise SpecError(f"model {self.model.name} has no action {name!r}; it has {known}")
        return found

    # -- values --------------------------------------------------------------------------------------------

    def evaluate(self, name: str, arguments: Sequence[Any], state: State) -> Any:
        """The value of a definition or a property in a state."""
        function = self._values.get(name)
        formula = self._formulas.get(name)
        if formula is None:
            known = ", ".join(self._formulas)
            raise SpecError(f"model {self.model.name} has no definition or property {name!r}; it has {known}")
        if len(arguments) != len(formula.parameters):
            raise SpecError(f"{name} takes {len(formula.parameters)} arguments, not {len(arguments)}")
        if function is None:
            function = self._values[name] = self._load(name, _value_source, formula)
        return function(state, tuple(arguments))

    def first(self) -> State:
        """Every variable's own first value."""
        if self._first is None:
            self._first = self._load("first values", _first_source, self.model)((), ())
            check_axioms(self.model, lambda name: bool(self.evaluate(name, (), self.first())))
        return self._first

    def state_of(self, values: Mapping[str, Any]) -> State:
        """A state by the names of its variables; what is left out has its first value."""
        return self.with_values(self.first(), values)

    def with_values(self, state: State, values: Mapping[str, Any]) -> State:
        """The state with these variables replaced."""
        found = list(state)
        for name, value in values.items():
            if name not in self._places:
                known = ", ".join(self.variables)
                raise SpecError(f"model {self.model.name} has no variable {name!r}; it has {known}")
            found[self._places[name]] = value
        return tuple(found)

    def value(self, name: str, state: State) -> Any:
        """One variable of a state."""
        return state[self._places[name]]

    def named(self, state: State) -> dict[str, Any]:
        """Values as they are held, by name."""
        return dict(zip(self.variables, state, strict=True))

    def show(self, state: State) -> dict[str, Any]:
        """Values as a person reads them, by name."""
        return {name: self.types[name].show(value) for name, value in self.named(state).items()}

    def read(self, shown: Mapping[str, Any]) -> State:
        """The inverse of `show`; what is left out has its first value."""
        unknown = [name for name in shown if name not in self.types]
        if unknown:
            raise SpecError(f"model {self.model.name} has no variable {unknown[0]!r}")
        return self.state_of({name: held(self.types[name], value) for name, value in shown.items()})

    def wrong_type(self, state: State) -> str:
        """The first variable whose value is none of its type; empty if all are right."""
        for name, value in self.named(state).items():
            if not self.types[name].holds(value):
                return f"{name} = {value!r} is no {self.types[name]}"
        return ""

    def differences(self, one: State, other: State) -> list[tuple[str, Any, Any]]:
        """Where two states differ, for people: `progress[node1][node2]`, and both values."""
        found: list[tuple[str, Any, Any]] = []
        for name, kind in self.types.items():
            first, second = self.value(name, one), self.value(name, other)
            if first != second:
                _differences(name, kind.show(first), kind.show(second), found)
        return found

    # -- generated code ------------------------------------------------------------------------------------

    def _load(self, name: str, write: Callable[[CodeGenerator, Any], None], of: Any) -> Any:
        generator = CodeGenerator(self.model)
        try:
            write(generator, of)
        except SpecError as error:
            raise SpecError(f"model {self.model.name}, {name}: {error}") from None
        tables = [f"{table} = {text}" for table, text in generator.write.tables.items()]
        source = "\n".join([RUNTIME, RUNTIME_SPARSE, *tables, "", *generator.out.lines]) + "\n"
        self.sources[name] = source
        namespace: dict[str, Any] = {"Sparse": Sparse}
        exec(compile(source, f"<model {self.model.name}, {name}>", "exec"), namespace)
        return namespace["function"]


def _chosen(action: Action) -> list[Term]:
    return [step[1] for step in action.steps if step[0] == "choose"]


def _begin(generator: CodeGenerator, names: Sequence[str]) -> None:
    out = generator.out
    out.add(0, "def function(state, parameters):")
    generator.unpack(1)
    if names:
        out.add(1, f"({', '.join(names)},) = parameters")


def _first_source(generator: CodeGenerator, model: Model) -> None:
    parts = [generator.write.write(term, {}, KnownTerms()) for term in model.first.values()]
    generator.out.add(0, "def function(state, parameters):")
    generator.out.add(1, "return (" + "".join(f"{part}, " for part in parts) + ")")


def _value_source(generator: CodeGenerator, formula: Definition) -> None:
    names = [f"p{place}" for place in range(len(formula.parameters))]
    _begin(generator, names)
    env = {p.data[0]: name for p, name in zip(formula.parameters, names, strict=True)}
    cached = generator.cache([formula.body], [formula.body], env, KnownTerms(), 1)
    generator.out.add(1, f"return {generator.write.write(formula.body, env, cached)}")


def _step_source(generator: CodeGenerator, action: Action) -> None:
    """A function that returns the number of the step that refuses, or the next state."""
    out = generator.out
    names = [f"p{place}" for place in range(len(_chosen(action)))]
    _begin(generator, names)
    everything = [step[-1] for step in action.steps] + list(action.updates.values())
    env: Env = {}
    cached = KnownTerms()
    left = list(names)
    for number, step in enumerate(action.steps):
        if step[0] == "choose":
            name = left.pop(0)
            condition = _within(generator, step[2], name, env, cached)
            env = {**env, step[1].data[0]: name}
        else:
            cached = generator.cache([step[1]], everything, env, cached, 1)
            condition = generator.write.write(step[1], env, cached)
        if condition != "True":
            out.add(1, f"if not {condition}:")
            out.add(2, f"return {number}")
    cached = generator.cache(list(action.updates.values()), everything, env, cached, 1)
    parts = [
        generator.write.write(action.updates[name], env, cached) if name in action.updates else f"v_{name}"
        for name in generator.model.vars
    ]
    out.add(1, "return (" + "".join(f"{part}, " for part in parts) + ")")


def _within(generator: CodeGenerator, domain: Term, name: str, env: Env, cached: KnownTerms) -> str:
    """Whether the value is one of the domain, without going through the domain."""
    kind = domain.type
    assert isinstance(kind, Set)
    low, high = kind.of.low, kind.of.low + kind.of.size
    match domain.op:
        case "all":
            return f"({low} <= {name} < {high})"
        case "numbers":
            least, most = (generator.write.write(arg, env, cached) for arg in domain.args)
            return f"({least} <= {name} < {most})"
        case "filter":
            within = _within(generator, domain.args[0], name, env, cached)
            condition = generator.write.write(domain.args[1], {**env, domain.data: name}, cached)
            return f"({within} and {condition})"
    text = generator.write.write(domain, env, cached)
    if kind.mask:
        return f"({low} <= {name} < {high} and {text} >> ({name} - {low}) & 1 != 0)"
    return f"({name} in {text})"


def _differences(path: str, one: Any, other: Any, found: list[tuple[str, Any, Any]]) -> None:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}, key=str):
            if one.get(key) != other.get(key):
                _differences(f"{path}[{key}]", one.get(key), other.get(key), found)
        return
    found.append((path, one, other))


# -- values that people write --------------------------------------------------------------------------------


def held(kind: Type, shown: Any) -> Any:
    """A value as a state holds it: the inverse of `kind.show`, and a little more lenient.

    A function may be given as a dict or as a list in the order of its domain, an element of a sort by its
    number, a record's missing fields have their first values. Raises SpecError.
    """
    match kind:
        case Option(of=of):
            if shown is None:
                return kind.none
            return held(of, shown) if kind.flat else (held(of, shown),)
        case Enum():
            if shown in kind.names:
                return kind.names.index(shown)
        case Sort():
            if isinstance(shown, str):
                names = {kind.show(number): number for number in kind.values()}
                shown = names.get(shown, shown)
        case Fn():
            return _held_function(kind, shown)
        case Record(fields=fields):
            return _held_record(fields, shown)
        case Seq(of=of):
            return tuple(held(of, item) for item in shown)
        case Set(of=of):
            items = {held(of, item) for item in shown}
            return sum(1 << (item - of.low) for item in items) if kind.mask else tuple(sorted(items))
    if (kind is not Bool and isinstance(shown, bool)) or not kind.holds(shown):
        raise SpecError(f"{shown!r} is no {kind}")
    return shown


def _held_function(kind: Fn, shown: Any) -> Any:
    if not isinstance(shown, Mapping):
        if len(shown) != kind.domain.size:
            raise SpecError(f"{len(shown)} values for a {kind}, which has {kind.domain.size}")
        return tuple(held(kind.to, item) for item in shown)
    given = {held(kind.domain, key) - kind.domain.low: held(kind.to, item) for key, item in shown.items()}
    whole = kind.initial()
    if isinstance(whole, Sparse):
        return Sparse(whole.length, whole.default, given)
    if len(given) != kind.domain.size:
        raise SpecError(f"{len(given)} values for a {kind}, which has {kind.domain.size}")
    return tuple(given[place] for place in range(kind.domain.size))


def _held_record(fields: Mapping[str, Type], shown: Any) -> Any:
    unknown = [name for name in shown if name not in fields]
    if unknown:
        raise SpecError(f"no field {unknown[0]!r}; there are {', '.join(fields)}")
    return tuple(
        held(kind, shown[name]) if name in shown else kind.initial() for name, kind in fields.items()
    )
