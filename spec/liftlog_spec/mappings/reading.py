"""States as mappings read them: plain Python values with names in place of numbers and places.

    Option(T)   None or the value       Enum     its name        Set, Seq   a frozenset, a tuple
    Fn(D, T)    a dict                  Record   an object with the fields' names
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from liftlog_spec.lang.types import Enum, Fn, Option, Record, Seq, Set, Type

Reader = Callable[[Any], Any]
REMEMBERED = 20_000
"""Values of each type that are read once only."""


class NamedItem:
    """A record; equal to another with the same fields, and fit for sets."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedItem) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"({', '.join(f'{name}: {value}' for name, value in vars(self).items())})"


class NamedState:
    """A whole state, of which each variable is read when first asked for."""

    def __init__(self, readers: Mapping[str, tuple[int, Reader]], state: tuple[Any, ...]) -> None:
        self._readers = readers
        self._state = state

    def __getattr__(self, name: str) -> Any:
        if name not in self._readers:
            raise AttributeError(name)
        place, read = self._readers[name]
        value = read(self._state[place])
        setattr(self, name, value)
        return value


def reader_of(types: Mapping[str, Type]) -> Callable[[tuple[Any, ...]], NamedState]:
    """Reads whole states."""
    readers = {name: (place, value_reader(kind)) for place, (name, kind) in enumerate(types.items())}
    return lambda state: NamedState(readers, state)


def value_reader(kind: Type) -> Reader:
    """Reads values of a type."""
    match kind:
        case Option(of=of):
            inner, none, flat = value_reader(of), kind.none, kind.flat
            return lambda held: None if held == none else inner(held if flat else held[0])
        case Enum(names=names):
            return lambda held: names[held]
        case Fn(domain=domain, to=to):
            inner, keys = value_reader(to), [value_reader(domain)(key) for key in domain.values()]
            return _remembered(lambda held: dict(zip(keys, map(inner, held), strict=True)))
        case Set(of=of):
            inner = value_reader(of)
            return _remembered(lambda held: frozenset(inner(member) for member in kind.members(held)))
        case Seq(of=of):
            inner = value_reader(of)
            return lambda held: tuple(inner(item) for item in held)
        case Record(fields=fields):
            parts = [(name, value_reader(field)) for name, field in fields.items()]
            return _remembered(
                lambda held: NamedItem(**{name: f(part) for (name, f), part in zip(parts, held, strict=True)})
            )
    return lambda held: held


def _remembered(read: Reader) -> Reader:
    """Most values of a state are those of the state before."""
    return lru_cache(REMEMBERED)(read)


def facts_of(kind: Type, held: Any, keys: tuple[str, ...] = ()) -> list[str]:
    """What holds, as short as in the pictures of proofs: a relation is a list of what it holds for."""
    if isinstance(kind, Fn):
        found = []
        for key, item in zip(kind.domain.values(), held, strict=True):
            found += facts_of(kind.to, item, (*keys, str(kind.domain.show(key))))
        return found
    where = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
    shown = kind.show(held)
    if isinstance(shown, bool) and keys:
        return [where] if shown else []
    return [f"{where}: {shown}" if keys else str(shown)]
