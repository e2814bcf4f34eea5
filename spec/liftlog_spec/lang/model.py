"""Models: constants, variables, actions and properties, written as a Python class.

    class Counter(Model):
        Limit = Constant(3)
        Client = Sort(2)
        value = Var(Range(0, Limit), init=0)

        @action
        def add(s, c: Client):
            when(s.value < s.Limit)
            s.value = s.value + 1

        @invariant
        def Bounded(s):
            return s.value <= s.Limit

A function gets `s`, the state, and for each of its other parameters one value of the type that the annotation
names: the action exists once for each choice. Reading `s.x` gives the value *before* the step, wherever it
stands; assigning to `s.x`, `s.x[i]` or `s.x[i].field` says what it is after. What is not assigned stays. The
same place may be assigned once. `some(S)` chooses an element of a set that depends on the state.

Settings are plain Python values that choose between variants while the model is read: `if s.variant == "a":`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from liftlog_spec.lang import types
from liftlog_spec.lang.build import VARIABLES, domain_of
from liftlog_spec.lang.terms import (
    Recording,
    Term,
    bound_variable,
    caller,
    caller_line,
    coerce,
    constant,
    make,
    term,
    truth,
)
from liftlog_spec.lang.types import Bindings, Bool, Constant, Fn, Record, Sort, SpecError, Type


class Var:
    """A variable. `init`: its first value; a function of the state if it depends on constants."""

    def __init__(self, kind: Type, init: object = ...) -> None:
        self.kind = kind
        self.init = init


class Rigid(Var):
    """A relation, function or element that no step changes: an order, who is in which quorum.

    Proofs know of it what the axioms say. When states are explored, `instance` gives it, as a plain Python
    function of the elements' numbers: `Rigid(Fn(Epoch, Epoch, Bool), lambda a, b: a <= b)`.
    """

    def __init__(self, kind: Type, instance: Callable[..., Any]) -> None:
        super().__init__(kind)
        self.instance = instance

    def value(self, kind: Type, *given: int) -> Any:
        """As it is held in a state; `kind` is bound."""
        if isinstance(kind, Fn):
            return tuple(self.value(kind.to, *given, element) for element in kind.domain.values())
        return self.instance(*given)


class Setting:
    """A choice between variants of a model; the first is the default."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices


class Action:
    """A recorded action. `steps`: ("choose", variable, domain) and ("guard", term), in the order written.

    `places`: for each step (file, line of the call, which of the call's arguments), to show its text.
    """

    def __init__(self, name: str, line: str, doc: str, fair: bool) -> None:
        self.name = name
        self.line = line
        self.doc = doc
        self.fair = fair
        self.parameters: list[Term] = []
        self.steps: list[tuple[Any, ...]] = []
        self.places: list[tuple[str, int, int]] = []
        self.updates: dict[str, Term] = {}


class Property:
    """A recorded invariant, or a "sometimes" property that some reachable state must have."""

    def __init__(self, name: str, line: str, doc: str, body: Term) -> None:
        self.name = name
        self.line = line
        self.doc = doc
        self.body = body


class Definition:
    """A named operator with its parameters, for printing; where it is used its body stands in its place."""

    def __init__(self, name: str, doc: str, parameters: list[Term], body: Term) -> None:
        self.name = name
        self.doc = doc
        self.parameters = parameters
        self.body = body


def _mark(function: Any, kind: str) -> Any:
    function.spec_kind = kind
    return function


def action(function: Any) -> Any:
    """A step that the system may take."""
    return _mark(function, "action")


def fair(function: Any) -> Any:
    """An action that is taken at last if it stays possible (weak fairness)."""
    function.spec_fair = True
    return function


def initial(function: Any) -> Any:
    """Chooses among first states: an action that is taken once, before all others."""
    return _mark(function, "initial")


def invariant(function: Any) -> Any:
    """True in every reachable state."""
    return _mark(function, "invariant")


def sometimes(function: Any) -> Any:
    """True in at least one reachable state: shows that the model is not empty talk."""
    return _mark(function, "sometimes")


def axiom(function: Any) -> Any:
    """What proofs may assume of the rigid parts of a model."""
    return _mark(function, "axiom")


def constraint(function: Any) -> Any:
    """States where it is false are not explored further (TLC's CONSTRAINT)."""
    return _mark(function, "constraint")


def terminal(function: Any) -> Any:
    """States in which the system has done all that it is for: there may be no further step."""
    return _mark(function, "terminal")


def definition(function: Any) -> Any:
    """A named operator: `s.Name(arguments)` in other functions."""
    return _mark(function, "definition")


class ModelRecorder:
    """Takes down the guards, choices and assignments of one action."""

    def __init__(self, into: Action) -> None:
        self.into = into
        self.assigned: list[Term] = []

    def guard(self, condition: object, argument: int) -> None:
        self.into.steps.append(("guard", truth(condition)))
        self.into.places.append((*caller(), argument))

    def choose(self, domain: object, name: str) -> Term:
        where, kind = domain_of(domain)
        variable = bound_variable(kind, name)
        VARIABLES[variable.data[0]] = variable
        self.into.steps.append(("choose", variable, where))
        self.into.places.append((*caller(), 0))
        return variable

    def assign(self, target: Term, value: object) -> None:
        if any(target is other for other in self.assigned):
            raise SpecError(f"{caller_line()}: {self.into.name} assigns the same place twice")
        self.assigned.append(target)
        new = coerce(value, target.type)
        path: list[Term] = []
        root = target
        while root.op != "var":
            path.append(root)
            root = root.args[0]
        name = root.data
        self.into.updates[name] = _put(self.into.updates.get(name, root), list(reversed(path)), new)


def _put(whole: Term, path: list[Term], value: Term) -> Term:
    """`whole` with the place at the end of the path changed."""
    if not path:
        return value
    step = path[0]
    if step.op == "field":
        inner = make("field", (whole,), step.type, step.data)
        return make("with", (whole, _put(inner, path[1:], value)), whole.type, step.data)
    key = step.args[1]
    inner = make("index", (whole, key), step.type)
    return make("except", (whole, key, _put(inner, path[1:], value)), whole.type)


_recorders: list[ModelRecorder] = []


def _recorder(word: str) -> ModelRecorder:
    if not _recorders:
        raise SpecError(f"{caller_line()}: {word} belongs into an action")
    return _recorders[-1]


def when(*conditions: object) -> None:
    """The action is possible only if all of these hold."""
    recorder = _recorder("when")
    for argument, condition in enumerate(conditions):
        recorder.guard(condition, argument)


def some(domain: object, name: str = "chosen") -> Term:
    """Any one element of the domain: the action exists once for each."""
    return _recorder("some").choose(domain, name)


class State:
    """`s` in a model's functions."""

    def __init__(self, model: Model) -> None:
        object.__setattr__(self, "_model", model)

    def __getattr__(self, name: str) -> Any:
        model: Model = object.__getattribute__(self, "_model")
        if name in model.types:
            return make("var", (), model.types[name], name)
        if name in model.settings:
            return model.settings[name]
        found: Any = getattr(type(model), name, None)
        if isinstance(found, Constant):
            return constant(found)
        if isinstance(found, Type):
            return found.bind(model.bindings)
        kind = getattr(found, "spec_kind", "")
        if kind == "definition":
            return lambda *arguments: model.call(name, arguments)
        if kind in ("invariant", "sometimes"):
            return lambda: truth(found(self))
        if callable(found) and not kind:
            return lambda *arguments, **named: found(self, *arguments, **named)
        raise SpecError(f"{caller_line()}: model {type(model).__name__} has no {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        target = getattr(self, name)
        if not isinstance(target, Term) or target.op != "var":
            raise SpecError(f"{caller_line()}: {name} is no variable")
        _recorder("an assignment").assign(target, value)


class Model:
    """Base of models. `Model(Limit=5, variant="b")` sets constants and settings. Raises SpecError."""

    declared: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        for name in ("call", "declared"):
            if name in vars(cls):
                raise SpecError(
                    f"model {cls.__name__}: {name!r} is a word of the language; choose another name"
                )
        found: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if issubclass(base, Model):
                found.update({name: value for name, value in vars(base).items() if name[0] != "_"})
        cls.declared = found

    def __init__(self, **given: object) -> None:
        self.name = type(self).__name__
        constants = {name: item for name, item in self.declared.items() if isinstance(item, Constant)}
        choices = {name: item for name, item in self.declared.items() if isinstance(item, Setting)}
        for name in given:
            if name not in constants and name not in choices:
                known = ", ".join([*constants, *choices])
                raise SpecError(f"model {self.name} has no constant or setting {name!r}; it has: {known}")
        self.bindings: Bindings = {
            name: _whole(name, given.get(name, c.default)) for name, c in constants.items()
        }
        self.settings: dict[str, str] = {}
        for name, setting in choices.items():
            value = str(given.get(name, setting.choices[0]))
            if value not in setting.choices:
                raise SpecError(f"{name} is {value!r}; choose one of: {', '.join(setting.choices)}")
            self.settings[name] = value
        self.sorts = [item for item in self.declared.values() if isinstance(item, Sort)]
        self.vars = {name: item for name, item in self.declared.items() if isinstance(item, Var)}
        self.types = {name: item.kind.bind(self.bindings) for name, item in self.vars.items()}
        self._depth = 0
        self.first = {name: self._initial(name, item) for name, item in self.vars.items()}
        self.definitions = [self._definition(name, f) for name, f in self._functions("definition")]
        self.initials = [self._action(name, f) for name, f in self._functions("initial")]
        self.actions = [self._action(name, f) for name, f in self._functions("action") if self._on(f)]
        self.invariants = [self._property(name, f) for name, f in self._functions("invariant")]
        self.sometimes = [self._property(name, f) for name, f in self._functions("sometimes")]
        self.constraints = [self._property(name, f) for name, f in self._functions("constraint")]
        self.terminals = [self._property(name, f) for name, f in self._functions("terminal")]
        self.axioms = [self._property(name, f) for name, f in self._functions("axiom")]
        for changed in (*self.initials, *self.actions):
            for name in changed.updates:
                if isinstance(self.vars[name], Rigid):
                    raise SpecError(f"model {self.name}, {changed.name} ({changed.line}): {name} is rigid")

    def _functions(self, kind: str) -> list[tuple[str, Any]]:
        return [(name, f) for name, f in self.declared.items() if getattr(f, "spec_kind", "") == kind]

    def _on(self, function: Any) -> bool:
        """An action with `only = ("setting", "value", ...)` belongs to some variants alone."""
        only = getattr(function, "spec_only", None)
        return only is None or self.settings[only[0]] in only[1]

    def _initial(self, name: str, var: Var) -> Term:
        kind = self.types[name]
        with Recording(self.bindings):
            if isinstance(var, Rigid):
                return make("const", (), kind, var.value(kind))
            if var.init is ...:
                return make("const", (), kind, kind.initial())
            given: Any = var.init
            return coerce(given(State(self)) if callable(given) else given, kind)

    def _action(self, name: str, function: Any) -> Action:
        line = f"{function.__code__.co_filename.rpartition('/')[2]}:{function.__code__.co_firstlineno}"
        recorded = Action(name, line, inspect.getdoc(function) or "", getattr(function, "spec_fair", False))
        recorder = ModelRecorder(recorded)
        _recorders.append(recorder)
        try:
            with Recording(self.bindings, recorder.assign):
                arguments = []
                for parameter in list(inspect.signature(function).parameters.values())[1:]:
                    variable = recorder.choose(self._annotation(parameter, name), parameter.name)
                    recorded.parameters.append(variable)
                    arguments.append(variable)
                function(State(self), *arguments)
        except SpecError as error:
            raise SpecError(f"model {self.name}, {name} ({line}): {error}") from None
        finally:
            _recorders.pop()
        return recorded

    def _annotation(self, parameter: inspect.Parameter, action: str) -> Type:
        found = parameter.annotation
        if isinstance(found, str):
            # As the class body would read it: with the model's own names and the language's types.
            with suppress(NameError):
                found = eval(found, dict(vars(types)), dict(self.declared))
        if not isinstance(found, Type):
            raise SpecError(
                f"parameter {parameter.name} of {action} needs a type of the model after its colon"
            )
        return found

    def _property(self, name: str, function: Any) -> Property:
        line = f"{function.__code__.co_filename.rpartition('/')[2]}:{function.__code__.co_firstlineno}"
        try:
            with Recording(self.bindings):
                body = truth(function(State(self)))
        except SpecError as error:
            raise SpecError(f"model {self.name}, {name} ({line}): {error}") from None
        return Property(name, line, inspect.getdoc(function) or "", body)

    def _definition(self, name: str, function: Any) -> Definition:
        parameters: list[Term] = []
        with Recording(self.bindings):
            for parameter in list(inspect.signature(function).parameters.values())[1:]:
                kind = self._annotation(parameter, name).bind(self.bindings)
                parameters.append(bound_variable(kind, parameter.name))
            body = term(function(State(self), *parameters))
        return Definition(name, inspect.getdoc(function) or "", parameters, body)

    def call(self, name: str, arguments: tuple[object, ...]) -> Term:
        """A definition applied: its body, under its name."""
        function = self.declared[name]
        parameters = list(inspect.signature(function).parameters.values())[1:]
        if len(parameters) != len(arguments):
            raise SpecError(
                f"{caller_line()}: {name} takes {len(parameters)} arguments, not {len(arguments)}"
            )
        given = []
        for parameter, argument in zip(parameters, arguments, strict=True):
            given.append(coerce(argument, self._annotation(parameter, name).bind(self.bindings)))
        self._depth += 1
        if self._depth > 50:
            raise SpecError(f"{caller_line()}: {name} calls itself without end")
        try:
            body = term(function(State(self), *given))
        finally:
            self._depth -= 1
        return make("call", (*given, body), body.type, name)


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError(f"constant {name} is {value!r}; give a whole number")
    return value


def only(setting: str, *values: str) -> Callable[[Any], Any]:
    """The action exists only in these variants."""

    def mark(function: Any) -> Any:
        function.spec_only = (setting, values)
        return function

    return mark


__all__ = [
    "Action",
    "Bool",
    "Model",
    "Property",
    "Record",
    "Rigid",
    "Setting",
    "Var",
    "action",
    "axiom",
    "constraint",
    "definition",
    "fair",
    "initial",
    "invariant",
    "only",
    "some",
    "sometimes",
    "terminal",
    "when",
]
