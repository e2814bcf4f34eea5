"""States of a finite counterexample or run, as a person reads them.

A relation is the list of what it holds for, a function the list of its values. Elements are numbered;
those of an ordered sort in their order.
"""

from __future__ import annotations

from typing import Any

import z3

from liftlog_spec.lang.types import Bool, Enum, Fn, Option, Record, Set, Sort, Type
from liftlog_spec.prover.translate import Moment, SymbolicStep, Translator
from liftlog_spec.prover.values import Elements, Value

WIDTH = 100
Facts = dict[str, list[str]]
"""For each variable what is true of it."""


class Counterexample:
    """One z3 model: the names of its elements, and what holds in a moment."""

    def __init__(self, translator: Translator, found: Any, universe: Elements) -> None:
        self._translator = translator
        self._values = translator.values
        self._found = found
        self._universe = {name: list(elements) for name, elements in universe.items()}
        self._names: dict[str, str] = {}
        self.orders: list[str] = []
        self._number()

    def _number(self) -> None:
        """Names for the elements: those of a total order by their place in it."""
        types = self._translator.model.types
        moment = self._translator.unknown()
        for sort, elements in self._universe.items():
            for position, element in enumerate(elements):
                self._names[self._key(element)] = f"{sort.lower()}{position + 1}"
        for name in self._translator.rigid:
            kind = types[name]
            if not (
                isinstance(kind, Fn) and isinstance(kind.domain, Sort) and kind.to.key() == _relation(kind)
            ):
                continue
            elements = self._universe[kind.domain.name]
            below = {e: sum(self._true(moment[name](o)(e)) for o in elements) for e in elements}
            if sorted(below.values()) == list(range(1, len(elements) + 1)):
                ordered = sorted(elements, key=lambda e: below[e])
                for position, element in enumerate(ordered):
                    self._names[self._key(element)] = f"{kind.domain.name.lower()}{position + 1}"
                elements[:] = ordered
                self.orders.append(name)

    def _key(self, element: Any) -> str:
        return str(self._found.eval(element, model_completion=True))

    def _true(self, formula: Any) -> bool:
        return bool(z3.is_true(z3.simplify(self._found.eval(formula, model_completion=True))))

    def element(self, value: Value, kind: Type) -> str:
        """A value's name."""
        match kind:
            case Option(of=of):
                return self.element(value.value, of) if self._true(value.present) else "none"
            case Record(fields=fields):
                return "{" + ", ".join(f"{n}: {self.element(value[n], k)}" for n, k in fields.items()) + "}"
            case Sort() | Enum():
                key = self._key(value)
                return self._names.get(key, key)
        return "true" if self._true(value) else "false"

    def facts(self, moment: Moment) -> Facts:
        """What holds in a moment, by variable. Orders are told by the elements' numbers."""
        found: Facts = {}
        before, self._values.universe = self._values.universe, self._universe
        try:
            for name, kind in self._translator.model.types.items():
                if name not in self.orders:
                    found[name] = self._facts(kind, moment[name], ())
        finally:
            self._values.universe = before
        return found

    def _facts(self, kind: Type, value: Value, keys: tuple[str, ...]) -> list[str]:
        match kind:
            case Fn(domain=domain, to=to):
                every = list(self._values.every(domain))
                return [
                    f
                    for key in every
                    for f in self._facts(to, value(key), (*keys, self.element(key, domain)))
                ]
            case Set(of=of):
                return self._facts(Fn(of, Bool), value, keys)
        text = self.element(value, kind)
        if kind is Bool and keys:
            return [_tuple(keys)] if text == "true" else []
        return [f"{_tuple(keys)}: {text}" if keys else text]

    def step(self, step: SymbolicStep) -> str:
        """`Name(node = node1)`."""
        given = [
            f"{variable.data[1]} = {self.element(value, variable.type)}"
            for variable, value in zip(step.chosen, step.parameters, strict=True)
        ]
        return f"{step.action.name}({', '.join(given)})"


def _relation(kind: Fn) -> tuple[object, ...]:
    return Fn(kind.domain, Bool).key()


def _tuple(keys: tuple[str, ...]) -> str:
    return keys[0] if len(keys) == 1 else f"({', '.join(keys)})"


def universe_of(found: Any, translator: Translator, sorts: dict[str, Sort]) -> Elements:
    """The elements of z3's finite model."""
    universe: Elements = {}
    for name, sort in sorts.items():
        kind = translator.values.sort(sort)
        elements = found.get_universe(kind)
        universe[name] = list(elements or ()) or [
            found.eval(z3.Const(f"{name} 1", kind), model_completion=True)
        ]
    return universe


def lines_of(facts: Facts) -> list[str]:
    """Each variable with what holds of it, wrapped."""
    width = max((len(name) for name in facts), default=0)
    return [
        line for name, items in facts.items() for line in _wrapped(f"  {name:<{width}}  ", items or ["-"])
    ]


def changes(before: Facts, after: Facts) -> list[str]:
    """What one state holds and the other does not."""
    lines: list[str] = []
    for name in before:
        gone = [item for item in before[name] if item not in after[name]]
        new = [item for item in after[name] if item not in before[name]]
        if gone:
            lines += _wrapped(f"  {name}  no longer  ", gone)
        if new:
            lines += _wrapped(f"  {name}  now  ", new)
    return lines


def _wrapped(head: str, items: list[str]) -> list[str]:
    lines, line = [], head
    for position, item in enumerate(items):
        text = item + (", " if position + 1 < len(items) else "")
        if len(line) + len(text) > WIDTH and line.strip() and line != head:
            lines.append(line.rstrip())
            line = " " * len(head)
        line += text
    return [*lines, line.rstrip()]
