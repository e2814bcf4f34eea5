"""What a value of the language is in logic.

Theory. z3 decides formulas about elements, relations and functions. Whatever else a model is built of is
taken apart into these, before z3 sees anything:

    Sort, Enum, Bool       an element: a z3 expression. A sort has any number of elements, at least one
    Option(T)              whether there is one, and a T that counts only if there is
    Record(a=A, b=B)       an A and a B
    Fn(D, T), Set(T)       a Python function that gives the value, or the membership, at any point

A variable `Fn(Node, Option(Term))` thus becomes a relation over Node and a function from Node to Term. A
changed function is a new Python function that asks the old one: what `f[k] = v` leaves alone needs no
frame condition, since f'(x) *is* `If(x == k, v, f(x))`.

Numbers are left out on purpose. Formulas that speak of elements and relations alone, with quantifiers in
which no sort depends on itself (the fragment named EPR), are decidable, and a wrong one has a finite
counterexample that can be shown. Where a model counts, its proof has a sort with an order, which is all
that terms, epochs and offsets need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import z3

from liftlog_spec.lang.types import Bool, Enum, Fn, Option, Record, Set, Sort, SpecError, Type

Value = Any
"""A z3 expression, a `Maybe`, a dict of a record's fields, or a Python function (of a Fn or a Set)."""
Elements = dict[str, list[Any]]
"""A finite universe: the elements of each sort by its name."""


@cache
def _enum(names: tuple[str, ...]) -> tuple[Any, list[Any]]:
    """z3's sort and its values; z3 takes each name once in a process."""
    sort, members = z3.EnumSort("enum " + " ".join(names), list(names))
    return sort, list(members)


class Maybe:
    """An Option: `value` counts only where `present`."""

    def __init__(self, present: Value, value: Value) -> None:
        self.present = present
        self.value = value


class SymbolicValues:
    """Values by type. With a finite `universe` quantifiers over sorts are written out."""

    def __init__(self) -> None:
        self.universe: Elements | None = None
        self._fresh = 0
        self._applied: dict[tuple[str, tuple[int, ...]], Any] = {}

    def check(self, kind: Type) -> None:
        """Raises SpecError for a type that has no place in a proof."""
        match kind:
            case Fn(domain=domain, to=to):
                self.check(domain)
                self.check(to)
            case Option(of=of) | Set(of=of):
                self.check(of)
            case Record(fields=fields):
                for field in fields.values():
                    self.check(field)
            case _:
                self.sort(kind)

    # -- elements ------------------------------------------------------------------------------------------

    def sort(self, kind: Type) -> Any:
        """The z3 sort of an element."""
        match kind:
            case Sort(name=name):
                return z3.DeclareSort(name)
            case Enum(names=names):
                return _enum(names)[0]
        if kind is Bool:
            return z3.BoolSort()
        raise SpecError(f"{kind} has no place in a proof: use a Sort with an order instead of numbers")

    def fresh(self, kind: Type, name: str) -> Value:
        """A value that nothing is known about."""
        self._fresh += 1
        return self.variable(kind, f"{name}!{self._fresh}")

    def variable(self, kind: Type, name: str, *given: Any) -> Value:
        """The value of this name, as a function of the elements `given`."""
        match kind:
            case Fn(domain=domain, to=to):
                return lambda key: self.variable(to, name, *given, *self.flat(domain, key))
            case Set(of=of):
                return lambda key: self.variable(Bool, name, *given, *self.flat(of, key))
            case Option(of=of):
                there = self.variable(Bool, f"{name}?", *given)
                return Maybe(there, self.variable(of, name, *given))
            case Record(fields=fields):
                return {part: self.variable(k, f"{name}.{part}", *given) for part, k in fields.items()}
        key = (name, tuple([arg.get_id() for arg in given]))
        found = self._applied.get(key)
        if found is None:
            if given:
                found = z3.Function(name, *(arg.sort() for arg in given), self.sort(kind))(*given)
            else:
                found = z3.Const(name, self.sort(kind))
            self._applied[key] = found
        return found

    def constant(self, kind: Type, held: Any) -> Value:
        """A value as a state holds it."""
        match kind:
            case Enum(names=names):
                return _enum(names)[1][held]
            case Option(of=of):
                if held == kind.none:
                    return Maybe(z3.BoolVal(False), self.anything(of))
                return Maybe(z3.BoolVal(True), self.constant(of, held if kind.flat else held[0]))
            case Record(fields=fields):
                parts = zip(fields.items(), held, strict=True)
                return {name: self.constant(k, part) for (name, k), part in parts}
            case Set() if not held:
                return lambda _key: z3.BoolVal(False)
            case Fn(to=to) if len(set(held)) == 1:
                return lambda _key: self.constant(to, held[0])
        if kind is Bool:
            return z3.BoolVal(bool(held))
        raise SpecError(f"the value {kind.show(held)!r} of {kind} means something in small instances only")

    def anything(self, kind: Type) -> Value:
        """Stands where an Option has nothing: always the same, so that two nothings are one."""
        match kind:
            case Sort(name=name):
                return z3.Const(f"no_{name}", self.sort(kind))
            case Option(of=of):
                return Maybe(z3.BoolVal(False), self.anything(of))
            case Record(fields=fields):
                return {name: self.anything(k) for name, k in fields.items()}
        return self.constant(kind, 0)

    def flat(self, kind: Type, value: Value) -> list[Any]:
        """The elements that a value consists of, as arguments for a relation."""
        match kind:
            case Option(of=of):
                inner = self.merge(of, value.present, value.value, self.anything(of))
                return [value.present, *self.flat(of, inner)]
            case Record(fields=fields):
                return [part for name, k in fields.items() for part in self.flat(k, value[name])]
            case Fn() | Set():
                raise SpecError(f"a {kind} is no argument of a relation")
        return [value]

    # -- operations ----------------------------------------------------------------------------------------

    def merge(self, kind: Type, condition: Any, left: Value, right: Value) -> Value:
        """`left` where the condition holds, else `right`."""
        match kind:
            case Fn(to=to):
                return lambda key: self.merge(to, condition, left(key), right(key))
            case Set():
                return lambda key: z3.If(condition, left(key), right(key))
            case Option(of=of):
                inner = self.merge(of, condition, left.value, right.value)
                return Maybe(z3.If(condition, left.present, right.present), inner)
            case Record(fields=fields):
                return {n: self.merge(k, condition, left[n], right[n]) for n, k in fields.items()}
        return left if left is right else z3.If(condition, left, right)

    def equal(self, kind: Type, left: Value, right: Value) -> Any:
        match kind:
            case Fn(domain=domain, to=to):
                return self.quantify("forall", domain, "x", lambda x: self.equal(to, left(x), right(x)))
            case Set(of=of):
                return self.quantify("forall", of, "x", lambda x: left(x) == right(x))
            case Option(of=of):
                same = z3.Implies(left.present, self.equal(of, left.value, right.value))
                return z3.And(left.present == right.present, same)
            case Record(fields=fields):
                return z3.And(*(self.equal(k, left[name], right[name]) for name, k in fields.items()))
        return left == right

    def quantify(self, op: str, kind: Type, name: str, body: Callable[[Value], Any]) -> Any:
        """For all, or for some value of a type. Only sorts are left to z3; the rest is written out."""
        join = z3.And if op == "forall" else z3.Or
        if isinstance(kind, Sort) and self.universe is None:
            variable = self.fresh(kind, name)
            return (z3.ForAll if op == "forall" else z3.Exists)([variable], body(variable))
        if isinstance(kind, Option) and self.universe is None:
            none = body(Maybe(z3.BoolVal(False), self.anything(kind.of)))
            rest = self.quantify(op, kind.of, name, lambda x: body(Maybe(z3.BoolVal(True), x)))
            return join(none, rest)
        if isinstance(kind, Record) and self.universe is None:
            return self._quantify_fields(op, list(kind.fields.items()), {}, body)
        return join(*(body(value) for value in self.every(kind)))

    def _quantify_fields(
        self, op: str, left: list[tuple[str, Type]], known: dict[str, Value], body: Callable[[Value], Any]
    ) -> Any:
        if not left:
            return body(known)
        (name, kind), rest = left[0], left[1:]
        return self.quantify(
            op, kind, name, lambda x: self._quantify_fields(op, rest, {**known, name: x}, body)
        )

    def every(self, kind: Type) -> Iterator[Value]:
        """All values of a type in the finite universe, if it has one."""
        match kind:
            case Sort(name=name) if self.universe is not None:
                yield from self.universe[name]
            case Enum(names=names):
                yield from _enum(names)[1]
            case Option(of=of):
                yield Maybe(z3.BoolVal(False), self.anything(of))
                yield from (Maybe(z3.BoolVal(True), value) for value in self.every(of))
            case Record(fields=fields):
                for parts in product(*(list(self.every(k)) for k in fields.values())):
                    yield dict(zip(fields, parts, strict=True))
            case _ if kind is Bool:
                yield from (z3.BoolVal(False), z3.BoolVal(True))
            case _:
                raise SpecError(f"a proof cannot go through all of {kind}: use a Sort with an order")
