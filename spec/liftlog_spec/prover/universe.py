"""A universe of given size, in which no quantifier is left.

    with Universe(translator.values, sorts, {"Node": 2, "Term": 3}) as universe:
        ...     # formulas that are made here go through the elements instead of "for all"

Its elements are constants that differ; `inside` says that nothing else exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import z3

from liftlog_spec.lang.types import Fn, Option, Record, Sort, Type
from liftlog_spec.prover.values import Elements, SymbolicValues, Value


class Universe:
    """The elements of each sort, by its name."""

    def __init__(self, values: SymbolicValues, sorts: Mapping[str, Sort], sizes: Mapping[str, int]) -> None:
        self._values = values
        self._outer: list[Elements | None] = []
        self.elements: Elements = {
            name: [z3.Const(f"{name} {number + 1}", values.sort(sort)) for number in range(sizes[name])]
            for name, sort in sorts.items()
        }

    def __enter__(self) -> Universe:
        self._outer.append(self._values.universe)
        self._values.universe = self.elements
        return self

    def __exit__(self, *_raised: object) -> None:
        self._values.universe = self._outer.pop()

    def differ(self) -> list[Any]:
        """There are as many elements as names, and nothing else."""
        return [*(self.differs(name) for name in self.elements), *self.nothing()]

    def differs(self, sort: str) -> Any:
        """Two names, two elements."""
        return z3.Distinct(*self.elements[sort])

    def same(self, sort: str) -> Any:
        """All names of this sort are for one and the same element."""
        first, *others = self.elements[sort]
        return z3.And(*(other == first for other in others))

    def nothing(self) -> list[Any]:
        """The elements that stand where an Option has nothing are among the others."""
        found = []
        for members in self.elements.values():
            sort = members[0].sort()
            found.append(_one_of(z3.Const(f"no_{sort.name()}", sort), members))
        return found

    def inside(self, kind: Type, value: Value) -> Iterator[Any]:
        """Every element that the value gives is one of the universe."""
        match kind:
            case Fn(domain=domain, to=to):
                for key in self._values.every(domain):
                    yield from self.inside(to, value(key))
            case Option(of=of):
                yield from self.inside(of, value.value)
            case Record(fields=fields):
                for name, field in fields.items():
                    yield from self.inside(field, value[name])
            case Sort(name=name):
                yield _one_of(value, self.elements[name])


def _one_of(value: Any, members: list[Any]) -> Any:
    return z3.Or(*(value == member for member in members))
