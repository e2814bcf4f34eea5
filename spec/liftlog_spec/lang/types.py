"""Types of a model's values, and how each is held in a state.

A state is a tuple with one entry for each variable, and each entry is built of integers and tuples alone, so
that states can be hashed, compared and copied cheaply. What a value looks like is decided by its type:

    Bool                   False, True
    Range(lo, hi)          an integer, both ends included
    Enum("a", "b")         the number of the name
    Sort                   the number of the element
    Option(T)              T whole numbers: -1 for none; else () for none and (value,) for some
    Fn(D, T)               a tuple with one T for each element of D; several D are nested (see sparse.py)
    Set(T)                 T whole numbers: a bit mask; else a sorted tuple
    Seq(T, n)              a tuple of at most n
    Record(a=A, b=B)       a tuple in the order of the fields

"Whole numbers" are the types `Bool`, `Range`, `Enum` and `Sort`: finite, and counted from `low`. Bounds may
be constants of the model; `bind` puts their values in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from liftlog_spec.lang.sparse import WRITTEN_OUT, Sparse

Bindings = Mapping[str, int]


class SpecError(Exception):
    """A model that does not make sense. The text names the model, the action and the line where it can."""


class Constant:
    """A named whole number of a model, given when the model is checked; `shift` is added to it."""

    __slots__ = ("default", "name", "shift")

    def __init__(self, default: int, name: str = "", shift: int = 0) -> None:
        self.default = default
        self.name = name
        self.shift = shift

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def __add__(self, other: int) -> Constant:
        return _Shifted(self, other)

    def __sub__(self, other: int) -> Constant:
        return _Shifted(self, -other)

    def value(self, bindings: Bindings) -> int:
        return bindings.get(self.name, self.default) + self.shift

    def text(self) -> str:
        """As in TLA+."""
        if not self.shift:
            return self.name
        return f"{self.name} {'+' if self.shift > 0 else '-'} {abs(self.shift)}"


class _Shifted(Constant):
    """A constant plus a number: named after the constant, whatever it is assigned to."""

    __slots__ = ("_of",)

    def __init__(self, of: Constant, shift: int) -> None:
        super().__init__(of.default, "", of.shift + shift)
        self._of = of

    def __set_name__(self, owner: type, name: str) -> None:
        """It has the name of what it shifts."""

    def __add__(self, other: int) -> Constant:
        return _Shifted(self._of, self.shift - self._of.shift + other)

    def __sub__(self, other: int) -> Constant:
        return self + -other

    def value(self, bindings: Bindings) -> int:
        return bindings.get(self._of.name, self._of.default) + self.shift

    def text(self) -> str:
        self.name = self._of.name
        return super().text()


def _value(bound: int | Constant, bindings: Bindings) -> int:
    return bound if isinstance(bound, int) else bound.value(bindings)


def _text(bound: int | Constant) -> str:
    return str(bound) if isinstance(bound, int) else bound.text()


class Type:
    """Base of all types. `low` and `size` are there for whole numbers once the type is bound."""

    __slots__ = ("low", "size")
    whole = False

    def __init__(self) -> None:
        self.low = 0
        self.size = 0

    def bind(self, bindings: Bindings) -> Type:
        """The same type with the constants' values in its bounds."""
        raise NotImplementedError

    def key(self) -> tuple[object, ...]:
        """Equal for equal types."""
        raise NotImplementedError

    def show(self, value: Any) -> Any:
        """A value as a person reads it."""
        raise NotImplementedError

    def holds(self, value: Any) -> bool:
        """Whether a held value is one of this type."""
        raise NotImplementedError

    def values(self) -> list[Any]:
        """Every value, for whole numbers. Raises SpecError for other types."""
        if not self.whole:
            raise SpecError(f"{self} has too many values to go through")
        return list(range(self.low, self.low + self.size))

    def initial(self) -> Any:
        """A plain first value: the lowest, nothing, empty."""
        return self.low

    def __str__(self) -> str:
        return self.tla()

    def tla(self) -> str:
        """As a set of TLA+."""
        raise NotImplementedError


class _Bool(Type):
    __slots__ = ()
    whole = True

    def __init__(self) -> None:
        super().__init__()
        self.size = 2

    def bind(self, bindings: Bindings) -> Type:
        return self

    def key(self) -> tuple[object, ...]:
        return ("bool",)

    def show(self, value: Any) -> Any:
        return bool(value)

    def holds(self, value: Any) -> bool:
        return value is True or value is False

    def values(self) -> list[Any]:
        return [False, True]

    def initial(self) -> Any:
        return False

    def tla(self) -> str:
        return "BOOLEAN"


class _Int(Type):
    """Whole numbers without bounds: what arithmetic gives. No variable has this type."""

    __slots__ = ()

    def bind(self, bindings: Bindings) -> Type:
        return self

    def key(self) -> tuple[object, ...]:
        return ("int",)

    def show(self, value: Any) -> Any:
        return value

    def holds(self, value: Any) -> bool:
        return isinstance(value, int)

    def tla(self) -> str:
        return "Int"


class Range(Type):
    """Whole numbers from `lo` to `hi`, both included."""

    __slots__ = ("hi", "lo")
    whole = True

    def __init__(self, lo: int | Constant, hi: int | Constant) -> None:
        super().__init__()
        self.lo = lo
        self.hi = hi

    def bind(self, bindings: Bindings) -> Type:
        bound = Range(self.lo, self.hi)
        bound.low = _value(self.lo, bindings)
        bound.size = _value(self.hi, bindings) - bound.low + 1
        if bound.size < 1:
            raise SpecError(f"{self.tla()} is empty: raise the constant")
        if bound.low < -1:
            # Python hashes -1 and -2 alike: two states would have one fingerprint.
            raise SpecError(f"{self.tla()} begins below -1: shift it")
        return bound

    def key(self) -> tuple[object, ...]:
        return ("range", self.low, self.size)

    def show(self, value: Any) -> Any:
        return value

    def holds(self, value: Any) -> bool:
        return isinstance(value, int) and self.low <= value < self.low + self.size

    def tla(self) -> str:
        return f"{_text(self.lo)}..{_text(self.hi)}"


class Enum(Type):
    """One of a few names."""

    __slots__ = ("names",)
    whole = True

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        self.size = len(names)

    def bind(self, bindings: Bindings) -> Type:
        return self

    def key(self) -> tuple[object, ...]:
        return ("enum", self.names)

    def show(self, value: Any) -> Any:
        return self.names[value]

    def holds(self, value: Any) -> bool:
        return isinstance(value, int) and 0 <= value < self.size

    def tla(self) -> str:
        return "{" + ", ".join(f'"{name}"' for name in self.names) + "}"


class Sort(Type):
    """Elements that can only be told apart: nodes, clients, keys.

    As many as `count` when states are explored, any number in proofs. `symmetric`: exchanging two of them
    changes nothing.
    """

    __slots__ = ("count", "name", "symmetric")
    whole = True

    def __init__(self, count: int | Constant, symmetric: bool = True, name: str = "") -> None:
        super().__init__()
        self.count = count
        self.symmetric = symmetric
        self.name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def bind(self, bindings: Bindings) -> Type:
        bound = Sort(self.count, self.symmetric, self.name)
        bound.size = _value(self.count, bindings)
        return bound

    def key(self) -> tuple[object, ...]:
        return ("sort", self.name, self.size)

    def show(self, value: Any) -> Any:
        return f"{self.name.lower()}{value + 1}"

    def holds(self, value: Any) -> bool:
        return isinstance(value, int) and 0 <= value < self.size

    def tla(self) -> str:
        return self.name


class Option(Type):
    """A value or none."""

    __slots__ = ("of",)

    def __init__(self, of: Type) -> None:
        super().__init__()
        self.of = of

    @property
    def flat(self) -> bool:
        """Held as a whole number, with -1 for none."""
        return self.of.whole

    def bind(self, bindings: Bindings) -> Type:
        bound = Option(self.of.bind(bindings))
        if bound.flat and bound.of.low < 0:
            raise SpecError(f"Option of {self.of} needs numbers from 0 on")
        return bound

    def key(self) -> tuple[object, ...]:
        return ("option", self.of.key())

    def show(self, value: Any) -> Any:
        if value == self.none:
            return None
        return self.of.show(value if self.flat else value[0])

    @property
    def none(self) -> Any:
        return -1 if self.flat else ()

    def holds(self, value: Any) -> bool:
        return value == self.none or self.of.holds(value if self.flat else value[0])

    def initial(self) -> Any:
        return self.none

    def tla(self) -> str:
        return f"({self.of.tla()} \\cup {{None}})"


class Fn(Type):
    """A total function from a whole-number type (several: `Fn(A, B, T)` takes an A, then a B)."""

    __slots__ = ("domain", "to")

    def __init__(self, domain: Type, *rest: Type) -> None:
        super().__init__()
        self.domain = domain
        self.to: Type = rest[0] if len(rest) == 1 else Fn(*rest)

    def bind(self, bindings: Bindings) -> Type:
        return Fn(self.domain.bind(bindings), self.to.bind(bindings))

    def key(self) -> tuple[object, ...]:
        return ("fn", self.domain.key(), self.to.key())

    def show(self, value: Any) -> Any:
        if isinstance(value, Sparse):
            low = self.domain.low
            return {
                self.domain.show(low + place): self.to.show(found)
                for place, found in sorted(value.changed.items())
            }
        return {
            self.domain.show(element): self.to.show(value[position])
            for position, element in enumerate(self.domain.values())
        }

    def holds(self, value: Any) -> bool:
        if isinstance(value, Sparse):
            within = all(0 <= place < self.domain.size for place in value.changed)
            return within and all(self.to.holds(item) for item in (value.default, *value.changed.values()))
        return (
            isinstance(value, tuple)
            and len(value) == self.domain.size
            and all(self.to.holds(item) for item in value)
        )

    def initial(self) -> Any:
        if self.domain.size > WRITTEN_OUT:
            return Sparse(self.domain.size, self.to.initial())
        return (self.to.initial(),) * self.domain.size

    def tla(self) -> str:
        return f"[{self.domain.tla()} -> {self.to.tla()}]"


class Set(Type):
    """A finite set."""

    __slots__ = ("of",)

    def __init__(self, of: Type) -> None:
        super().__init__()
        self.of = of

    @property
    def mask(self) -> bool:
        """Held as a bit mask."""
        return self.of.whole

    def bind(self, bindings: Bindings) -> Type:
        return Set(self.of.bind(bindings))

    def key(self) -> tuple[object, ...]:
        return ("set", self.of.key())

    def members(self, value: Any) -> list[Any]:
        if not self.mask:
            return list(value)
        return [element for element in self.of.values() if value >> (element - self.of.low) & 1]

    def show(self, value: Any) -> Any:
        return [self.of.show(element) for element in self.members(value)]

    def holds(self, value: Any) -> bool:
        if self.mask:
            return isinstance(value, int) and 0 <= value < 1 << self.of.size
        return isinstance(value, tuple) and all(self.of.holds(item) for item in value)

    def initial(self) -> Any:
        return 0 if self.mask else ()

    def tla(self) -> str:
        return f"SUBSET {self.of.tla()}"


class Seq(Type):
    """A sequence of at most `most` elements, numbered from 0."""

    __slots__ = ("length", "most", "of")

    def __init__(self, of: Type, most: int | Constant) -> None:
        super().__init__()
        self.of = of
        self.most = most
        self.length = 0

    def bind(self, bindings: Bindings) -> Type:
        bound = Seq(self.of.bind(bindings), self.most)
        bound.length = _value(self.most, bindings)
        return bound

    def key(self) -> tuple[object, ...]:
        return ("seq", self.of.key(), self.length)

    def show(self, value: Any) -> Any:
        return [self.of.show(item) for item in value]

    def holds(self, value: Any) -> bool:
        return (
            isinstance(value, tuple)
            and len(value) <= self.length
            and all(self.of.holds(item) for item in value)
        )

    def initial(self) -> Any:
        return ()

    def length_text(self) -> str:
        """The bound, as in TLA+."""
        return _text(self.most)

    def tla(self) -> str:
        return f"Seq({self.of.tla()})"


class Record(Type):
    """Named fields."""

    __slots__ = ("fields",)

    def __init__(self, **fields: Type) -> None:
        super().__init__()
        self.fields = fields

    def bind(self, bindings: Bindings) -> Type:
        return Record(**{name: kind.bind(bindings) for name, kind in self.fields.items()})

    def key(self) -> tuple[object, ...]:
        return ("record", *((name, kind.key()) for name, kind in self.fields.items()))

    def position(self, name: str) -> int:
        return list(self.fields).index(name)

    def show(self, value: Any) -> Any:
        return {name: kind.show(item) for (name, kind), item in zip(self.fields.items(), value, strict=True)}

    def holds(self, value: Any) -> bool:
        return (
            isinstance(value, tuple)
            and len(value) == len(self.fields)
            and all(kind.holds(item) for kind, item in zip(self.fields.values(), value, strict=True))
        )

    def initial(self) -> Any:
        return tuple(kind.initial() for kind in self.fields.values())

    def tla(self) -> str:
        return "[" + ", ".join(f"{name}: {kind.tla()}" for name, kind in self.fields.items()) + "]"


Bool = _Bool()
Int = _Int()
