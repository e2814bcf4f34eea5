"""A model's terms, actions and properties as formulas.

A `Moment` says what each variable is in one state. A property becomes a formula about a moment. An action
becomes its parameters (unknown elements), its guards about the moment before, and the moment after. Nothing
is guessed: a word that has no translation raises SpecError with the model, the action or property, and the
line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from liftlog_spec.lang.build import VARIABLES
from liftlog_spec.lang.model import Action, Model, Property, Rigid
from liftlog_spec.lang.terms import Term
from liftlog_spec.lang.types import Fn, Option, Record, Set, Sort, SpecError, Type
from liftlog_spec.prover.values import Maybe, SymbolicValues, Value

Moment = dict[str, Value]
Env = dict[int, Value]


class SymbolicStep:
    """One action at a moment: possible under `guards`, for these parameters, and what it leads to."""

    def __init__(self, action: Action, parameters: list[Value], guards: list[Any], after: Moment) -> None:
        self.action = action
        self.parameters = parameters
        self.guards = guards
        self.after = after

    @property
    def chosen(self) -> list[Term]:
        return [step[1] for step in self.action.steps if step[0] == "choose"]


class Translator:
    """Formulas of one model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.values = SymbolicValues()
        self.rigid = [name for name, var in model.vars.items() if isinstance(var, Rigid)]
        self._where = f"model {model.name}"
        self._words: dict[str, Callable[[Term, Env, Moment], Value]] = {
            "and": lambda t, e, m: z3.And(*(self.term(arg, e, m) for arg in t.args)),
            "or": lambda t, e, m: z3.Or(*(self.term(arg, e, m) for arg in t.args)),
            "not": lambda t, e, m: z3.Not(self.term(t.args[0], e, m)),
            "implies": lambda t, e, m: z3.Implies(self.term(t.args[0], e, m), self.term(t.args[1], e, m)),
            "eq": self._equal,
            "lt": self._less,
            "if": self._if,
            "const": lambda t, e, m: self.values.constant(t.type, t.data),
            "var": lambda t, e, m: m[t.data],
            "bound": lambda t, e, m: e[t.data[0]],
            "call": lambda t, e, m: self.term(t.args[-1], e, m),
            "forall": self._quantifier,
            "exists": self._quantifier,
            "index": lambda t, e, m: self.term(t.args[0], e, m)(self.term(t.args[1], e, m)),
            "except": self._except,
            "lambda": self._lambda,
            "some": lambda t, e, m: Maybe(z3.BoolVal(True), self.term(t.args[0], e, m)),
            "get": lambda t, e, m: self.term(t.args[0], e, m).value,
            "record": self._record,
            "field": lambda t, e, m: self.term(t.args[0], e, m)[t.data],
            "with": lambda t, e, m: {
                **self.term(t.args[0], e, m),
                t.data: self.term(t.args[1], e, m),
            },
            "all": lambda t, e, m: lambda _key: z3.BoolVal(True),
            "set": self._set,
            "member": lambda t, e, m: self.term(t.args[1], e, m)(self.term(t.args[0], e, m)),
            "union": lambda t, e, m: self._sets(z3.Or, t, e, m),
            "intersection": lambda t, e, m: self._sets(z3.And, t, e, m),
            "difference": lambda t, e, m: self._sets(lambda a, b: z3.And(a, z3.Not(b)), t, e, m),
            "subset": self._subset,
            "filter": self._filter,
        }
        for name, kind in model.types.items():
            try:
                self.values.check(kind)
            except SpecError as error:
                raise SpecError(f"model {model.name}, variable {name}: {error}") from None

    # -- moments -------------------------------------------------------------------------------------------

    def unknown(self, suffix: str = "") -> Moment:
        """Any state. What is rigid has the same name at every moment."""
        return {
            name: self.values.variable(kind, name if name in self.rigid else name + suffix)
            for name, kind in self.model.types.items()
        }

    def first(self) -> Moment:
        """The variables' own first values, plain ones: a lowest element of a sort is any element."""
        moment = self.unknown("@first")
        for name, term in self.model.first.items():
            if name not in self.rigid and not _some_element(term):
                moment[name] = self._at(f"first value of {name}", term, {}, moment)
        return moment

    def property(self, found: Property, moment: Moment) -> Any:
        return self._at(f"{found.name} ({found.line})", found.body, {}, moment)

    def step(self, action: Action, moment: Moment) -> SymbolicStep:
        """The action's parameters are new unknown elements."""
        where = f"{action.name} ({action.line})"
        for chosen in (step[1] for step in action.steps if step[0] == "choose"):
            try:
                self.values.check(chosen.type)
            except SpecError as error:
                raise SpecError(f"model {self.model.name}, {where}: {chosen.data[1]}: {error}") from None
        env: Env = {}
        parameters: list[Value] = []
        guards: list[Any] = []
        for step in action.steps:
            if step[0] == "choose":
                variable, domain = step[1], step[2]
                value = self.values.fresh(variable.type, variable.data[1])
                env[variable.data[0]] = value
                parameters.append(value)
                if domain.op != "all":
                    guards.append(self._at(where, domain, env, moment)(value))
            else:
                guards.append(self._at(where, step[1], env, moment))
        after = dict(moment)
        for name, update in action.updates.items():
            after[name] = self._at(where, update, env, moment)
        return SymbolicStep(action, parameters, guards, after)

    def _at(self, where: str, term: Term, env: Env, moment: Moment) -> Value:
        self._where = f"model {self.model.name}, {where}"
        self._check(term)
        return self.term(term, env, moment)

    def _check(self, term: Term) -> None:
        """Refuse what has no translation now: functions are asked later, when nobody knows who wrote them."""
        if term.op not in self._words:
            raise self._error(
                term, f"{term.op!r} has no translation to logic: proofs do not count or compute"
            )
        if term.op == "lt":
            if not _is_any(term):
                raise self._error(term, "a proof compares no numbers: use a Sort with an order")
            term = term.args[1].args[0]
        for arg in term.args:
            self._check(arg)

    # -- terms ---------------------------------------------------------------------------------------------

    def term(self, term: Term, env: Env, moment: Moment) -> Value:
        return self._words[term.op](term, env, moment)

    def _error(self, term: Term, text: str) -> SpecError:
        return SpecError(f"{self._where}: {term.line}: {text}")

    def _equal(self, term: Term, env: Env, moment: Moment) -> Any:
        left, right = term.args
        return self.values.equal(left.type, self.term(left, env, moment), self.term(right, env, moment))

    def _less(self, term: Term, env: Env, moment: Moment) -> Any:
        """Of numbers there is one: a set has more than 0 elements."""
        of = term.args[1].args[0]
        assert isinstance(of.type, Set)
        return self.values.quantify("exists", of.type.of, "x", self.term(of, env, moment))

    def _if(self, term: Term, env: Env, moment: Moment) -> Value:
        condition, then, otherwise = (self.term(arg, env, moment) for arg in term.args)
        return self.values.merge(term.type, condition, then, otherwise)

    def _quantifier(self, term: Term, env: Env, moment: Moment) -> Any:
        domain, body = term.args
        kind = domain.type
        assert isinstance(kind, Set)
        within = None if domain.op == "all" else self.term(domain, env, moment)

        def instance(value: Value) -> Any:
            inner = self.term(body, {**env, term.data: value}, moment)
            if within is None:
                return inner
            join = z3.Implies if term.op == "forall" else z3.And
            return join(within(value), inner)

        return self.values.quantify(term.op, kind.of, self._name(term.data), instance)

    @staticmethod
    def _name(number: int) -> str:
        return str(VARIABLES[number].data[1]) if number in VARIABLES else "x"

    def _except(self, term: Term, env: Env, moment: Moment) -> Value:
        old, place, new = (self.term(arg, env, moment) for arg in term.args)
        kind = term.type
        assert isinstance(kind, Fn)
        return lambda key: self.values.merge(
            kind.to, self.values.equal(kind.domain, key, place), new, old(key)
        )

    def _lambda(self, term: Term, env: Env, moment: Moment) -> Value:
        return lambda key: self.term(term.args[0], {**env, term.data: key}, moment)

    def _record(self, term: Term, env: Env, moment: Moment) -> Value:
        assert isinstance(term.type, Record)
        parts = [self.term(arg, env, moment) for arg in term.args]
        return dict(zip(term.type.fields, parts, strict=True))

    def _set(self, term: Term, env: Env, moment: Moment) -> Value:
        assert isinstance(term.type, Set)
        of = term.type.of
        members = [self.term(arg, env, moment) for arg in term.args]
        return lambda key: z3.Or(*(self.values.equal(of, key, other) for other in members))

    def _sets(self, join: Callable[[Any, Any], Any], term: Term, env: Env, moment: Moment) -> Value:
        left, right = (self.term(arg, env, moment) for arg in term.args)
        return lambda key: join(left(key), right(key))

    def _subset(self, term: Term, env: Env, moment: Moment) -> Any:
        left, right = (self.term(arg, env, moment) for arg in term.args)
        kind = term.args[0].type
        assert isinstance(kind, Set)
        return self.values.quantify("forall", kind.of, "x", lambda x: z3.Implies(left(x), right(x)))

    def _filter(self, term: Term, env: Env, moment: Moment) -> Value:
        within = self.term(term.args[0], env, moment)
        return lambda key: z3.And(within(key), self.term(term.args[1], {**env, term.data: key}, moment))


def _some_element(term: Term) -> bool:
    """A constant that names elements of a sort by number: in a proof they have none."""
    return term.op == "const" and isinstance(_leaf(term.type), Sort)


def _leaf(kind: Type) -> Type:
    return _leaf(kind.to) if isinstance(kind, Fn) else kind


def _is_any(term: Term) -> bool:
    """0 < size(S)."""
    low, of = term.args
    return of.op == "size" and low.op == "const" and low.data == 0 and isinstance(of.args[0].type, Set)


def mentions(term: Term) -> frozenset[str]:
    """The variables that a term speaks of."""
    if term.op == "var":
        return frozenset((term.data,))
    return frozenset().union(*(mentions(arg) for arg in term.args)) if term.args else frozenset()


def sorts_of(model: Model) -> dict[str, Sort]:
    """The sorts that the model's variables are built of, by name."""
    found: dict[str, Sort] = {}

    def walk(kind: Type) -> None:
        match kind:
            case Sort(name=name):
                found[name] = kind
            case Option(of=of) | Set(of=of):
                walk(of)
            case Fn(domain=domain, to=to):
                walk(domain)
                walk(to)
            case Record(fields=fields):
                for field in fields.values():
                    walk(field)

    for kind in model.types.values():
        walk(kind)
    return found
