"""States that differ only by the names of a symmetric sort's elements: one stands for all of them."""

from __future__ import annotations

from itertools import permutations, product
from math import factorial, prod

from liftlog_spec.lang.model import Model
from liftlog_spec.lang.types import Fn, Option, Record, Seq, Set, Sort, SpecError, Type
from liftlog_spec.run.writer import Writer

PERMUTATIONS = 1000
"""More would make more code than anybody wants to wait for."""


class Symmetry:
    """Writes `canonical`: the least of a state's images under permutations of the symmetric sorts.

    An image is computed one variable after the other, and given up as soon as it is greater than the least.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tables: dict[str, str] = {}
        used: dict[str, Sort] = {}
        for kind in model.types.values():
            for sort in _sorts(kind):
                if sort.symmetric and sort.size > 1:
                    used[sort.name] = sort
        self.sorts = list(used.values())

    def source(self) -> str:
        """A module with the function. Raises SpecError if there are too many permutations."""
        total = prod(factorial(sort.size) for sort in self.sorts)
        if total > PERMUTATIONS:
            sizes = ", ".join(f"{sort.name} {sort.size}" for sort in self.sorts)
            raise SpecError(
                f"model {self.model.name} has {total:,} permutations of its sorts ({sizes}); symmetry goes "
                f"up to {PERMUTATIONS:,}: make a sort smaller, or do without"
            )
        out = Writer()
        self._write(out)
        return "\n".join([*(f"{name} = {text}" for name, text in self.tables.items()), *out.lines]) + "\n"

    def _write(self, out: Writer) -> None:
        out.add(0, "def canonical(state):")
        if not self.sorts:
            out.add(1, "return state")
            out.add(0, "")
            return
        names = [f"v_{name}" for name in self.model.vars]
        out.add(1, f"({', '.join(names)},) = state")
        moved = [(name, kind) for name, kind in self.model.types.items() if self._moves(kind)]
        least = ", ".join(f"l_{name}" for name, _ in moved) + ","
        out.add(1, f"{least} = " + ", ".join(f"v_{name}" for name, _ in moved) + ",")
        choices = [list(permutations(range(sort.size))) for sort in self.sorts]
        for number, combination in enumerate(product(*choices)):
            if all(list(p) == sorted(p) for p in combination):
                continue
            chosen = {sort.name: p for sort, p in zip(self.sorts, combination, strict=True)}
            out.add(1, "while True:")
            out.add(2, "less = False")
            for name, kind in moved:
                out.add(2, f"i_{name} = {self._image(kind, f'v_{name}', chosen, number)}")
                out.add(2, f"if not less and i_{name} != l_{name}:")
                out.add(3, f"if i_{name} > l_{name}: break")
                out.add(3, "less = True")
            out.add(2, f"if less: {least} = " + ", ".join(f"i_{name}" for name, _ in moved) + ",")
            out.add(2, "break")
        places = {name: f"l_{name}" for name, _ in moved}
        out.add(1, "return (" + "".join(f"{places.get(n, f'v_{n}')}, " for n in self.model.vars) + ")")
        out.add(0, "")

    def _moves(self, kind: Type) -> bool:
        return any(sort.name == used.name for sort in _sorts(kind) for used in self.sorts)

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
    return []
