"""Terms: what a model says, as a tree that can be run, proved with and printed.

Theory. A model's actions and invariants are Python functions, but they are called once, with terms in place
of values. Operators then build a tree instead of computing: `s.log[n] == other` is a term of type Bool, not a
truth. Everything that is done with a model later walks these trees. A term has no truth value of its own,
therefore `if`, `and`, `or`, `not` and chained comparisons do not work on it; `when`, `&`, `|`, `~`, `If` and
`Implies` do, and trying says so, with the line.

Terms are interned: equal terms are one object, which is how the compiler finds what is computed twice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from liftlog_spec.lang.types import (
    Bindings,
    Bool,
    Constant,
    Enum,
    Fn,
    Int,
    Option,
    Record,
    Seq,
    Set,
    Sort,
    SpecError,
    Type,
)

_LANGUAGE = __file__.rpartition("/")[0] + "/"


def caller() -> tuple[str, int]:
    """(file, line) of the innermost frame outside the language. Of a call over several lines, the first."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LANGUAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def caller_line() -> str:
    """file:line of the innermost frame outside the language."""
    path, line = caller()
    return f"{path.rpartition('/')[2]}:{line}"


class Term:
    """One node of the tree. `op` says what it is, `data` what `op` needs beside `args`."""

    __slots__ = ("args", "data", "free", "line", "number", "op", "type")

    op: str
    args: tuple[Term, ...]
    type: Type
    data: Any
    line: str
    number: int
    free: frozenset[int]

    def __init__(self, op: str, args: tuple[Term, ...], kind: Type, data: Any, number: int) -> None:
        put = object.__setattr__
        put(self, "op", op)
        put(self, "args", args)
        put(self, "type", kind)
        put(self, "data", data)
        put(self, "line", caller_line())
        put(self, "number", number)
        free: frozenset[int] = frozenset().union(*(arg.free for arg in args)) if args else frozenset()
        if op == "bound":
            free = frozenset((data[0],))
        elif op in BINDERS:
            free -= frozenset(data if isinstance(data, tuple) else (data,))
        put(self, "free", free)

    # -- what Python's syntax means ------------------------------------------------------------------------

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return compare("eq", self, other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return compare("ne", self, other)

    def __hash__(self) -> int:
        return self.number

    def __lt__(self, other: object) -> Term:
        return compare("lt", self, other)

    def __le__(self, other: object) -> Term:
        return compare("le", self, other)

    def __gt__(self, other: object) -> Term:
        return compare("lt", self, other, swap=True)

    def __ge__(self, other: object) -> Term:
        return compare("le", self, other, swap=True)

    def __and__(self, other: object) -> Term:
        return make("and", (truth(self), truth(other)), Bool)

    __rand__ = __and__

    def __or__(self, other: object) -> Term:
        return make("or", (truth(self), truth(other)), Bool)

    __ror__ = __or__

    def __invert__(self) -> Term:
        return make("not", (truth(self),), Bool)

    def __add__(self, other: object) -> Term:
        return make("add", (number(self), number(other)), Int)

    def __radd__(self, other: object) -> Term:
        return make("add", (number(other), number(self)), Int)

    def __sub__(self, other: object) -> Term:
        return make("sub", (number(self), number(other)), Int)

    def __rsub__(self, other: object) -> Term:
        return make("sub", (number(other), number(self)), Int)

    def __getitem__(self, key: object) -> Term:
        kind = self.type
        if isinstance(key, tuple):
            found = self
            for part in key:
                found = found[part]
            return found
        if isinstance(kind, Fn):
            return make("index", (self, coerce(key, kind.domain)), kind.to)
        if isinstance(kind, Seq):
            return make("item", (self, number(key)), kind.of)
        raise SpecError(f"{caller_line()}: a {kind} cannot be indexed")

    def __getattr__(self, name: str) -> Term:
        kind = self.type
        if isinstance(kind, Record) and name in kind.fields:
            return make("field", (self,), kind.fields[name], name)
        if isinstance(kind, Record):
            raise SpecError(f"{caller_line()}: no field {name!r}; there are {', '.join(kind.fields)}")
        raise AttributeError(f"{caller_line()}: a {kind} has no {name!r}")

    def __setitem__(self, key: object, value: object) -> None:
        target = self[key]
        assign(target, value)

    def __setattr__(self, name: str, value: object) -> None:
        assign(getattr(self, name), value)

    def __contains__(self, item: object) -> bool:
        raise SpecError(f"{caller_line()}: 'in' gives no term; write member(x, S)")

    def __bool__(self) -> bool:
        raise SpecError(
            f"{caller_line()}: a term has no truth value while the model is read: "
            "use & | ~, If, Implies, Forall, Exists, or when(...)"
        )

    def __iter__(self) -> Any:
        raise SpecError(f"{caller_line()}: a term cannot be walked through: use Forall, Exists or some")

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.args))
        return f"{self.op}({inner})" if self.data is None else f"{self.op}[{self.data}]({inner})"


BINDERS = frozenset(("forall", "exists", "filter", "collect", "lambda", "least", "greatest", "count"))

_interned: dict[tuple[Any, ...], Term] = {}
_bound_numbers = 0


def make(op: str, args: tuple[Term, ...], kind: Type, data: Any = None) -> Term:
    """The one term that is this, of a type that is written so: equal types may have bounds of other names,
    and what is printed must not depend on which model was read first.
    """
    key = (op, kind.key(), kind.tla(), data, *(arg.number for arg in args))
    found = _interned.get(key)
    if found is None:
        found = _interned[key] = Term(op, args, kind, data, len(_interned) + 1)
    return found


def bound_variable(kind: Type, name: str) -> Term:
    """A variable that no other term mentions yet."""
    global _bound_numbers
    _bound_numbers += 1
    return make("bound", (), kind, (_bound_numbers, name))


class Recording:
    """What is being recorded: the constants' values, and who takes assignments, if anybody does."""

    def __init__(self, bindings: Bindings, on_assign: Callable[[Term, object], None] | None = None) -> None:
        self.bindings = bindings
        self.on_assign = on_assign

    def __enter__(self) -> None:
        _recordings.append(self)

    def __exit__(self, *exception: object) -> None:
        _recordings.pop()


_recordings: list[Recording] = []


def bound(kind: Type) -> Type:
    """The type with the constants of the model that is being recorded."""
    if not _recordings:
        raise SpecError(f"{caller_line()}: terms are written inside a model's functions")
    return kind.bind(_recordings[-1].bindings)


def assign(target: Term, value: object) -> None:
    """`target = value` in an action: target is a variable or a place inside one."""
    root = target
    while root.op in ("index", "field"):
        root = root.args[0]
    take = _recordings[-1].on_assign if _recordings else None
    if root.op != "var" or take is None:
        raise SpecError(f"{caller_line()}: only variables, and places in them, are assigned to, in actions")
    take(target, value)


# -- from plain values to terms ------------------------------------------------------------------------------


def const(value: Any, kind: Type) -> Term:
    """A value as it is held in a state."""
    return make("const", (), kind, value)


def coerce(value: object, kind: Type) -> Term:
    """`value` as a term of this type: an Enum's name, an Option's None, a list, a dict. Raises SpecError."""
    if isinstance(value, Term):
        return _convert(value, kind)
    if isinstance(value, Constant):
        return coerce(constant(value), kind)
    if isinstance(kind, Option):
        if value is None:
            return const(kind.none, kind)
        return make("some", (coerce(value, kind.of),), kind)
    if isinstance(kind, Enum) and isinstance(value, str):
        if value not in kind.names:
            raise SpecError(f"{caller_line()}: {value!r} is not one of {', '.join(kind.names)}")
        return const(kind.names.index(value), kind)
    if isinstance(kind, Record) and isinstance(value, dict):
        if list(value) != list(kind.fields):
            raise SpecError(f"{caller_line()}: fields {list(value)}, wanted {list(kind.fields)}")
        parts = tuple(coerce(value[name], field) for name, field in kind.fields.items())
        return make("record", parts, kind)
    if isinstance(kind, Seq) and isinstance(value, list | tuple):
        return make("sequence", tuple(coerce(item, kind.of) for item in value), kind)
    if isinstance(kind, Set) and isinstance(value, set | list | tuple):
        return make("set", tuple(coerce(item, kind.of) for item in value), kind)
    if isinstance(kind, Fn):
        # One value for all arguments.
        return make("lambda", (coerce(value, kind.to),), kind, bound_variable(kind.domain, "x").data[0])
    if kind is Bool and isinstance(value, bool):
        return const(value, Bool)
    if _numeric(kind) and isinstance(value, int) and not isinstance(value, bool):
        return const(value, kind)
    raise SpecError(f"{caller_line()}: {value!r} is no {kind}")


def constant(named: Constant) -> Term:
    """A constant of the model; its value is put in when the model is compiled."""
    return make("constant", (), Int, named)


def _convert(term: Term, kind: Type) -> Term:
    have = term.type
    if have.key() == kind.key():
        return term
    if isinstance(kind, Option) and not isinstance(have, Option):
        return make("some", (_convert(term, kind.of),), kind)
    if _held_alike(have, kind):
        return term
    raise SpecError(f"{caller_line()}: a {have} where a {kind} is wanted")


def _held_alike(have: Type, kind: Type) -> bool:
    """Whether a value of one may stand for the other: bounds are checked when states are explored."""
    if isinstance(have, Fn) and isinstance(kind, Fn):
        return have.domain.key() == kind.domain.key() and _held_alike(have.to, kind.to)
    if isinstance(have, Seq) and isinstance(kind, Seq):
        return _held_alike(have.of, kind.of)
    return have.key() == kind.key() or (_numeric(have) and _numeric(kind))


def _numeric(kind: Type) -> bool:
    return kind is Int or (kind.whole and kind is not Bool and not isinstance(kind, Enum | Sort))


def truth(value: object) -> Term:
    return coerce(value, Bool)


def number(value: object) -> Term:
    return coerce(value, Int)


def term(value: object) -> Term:
    """A term of whatever type the value suggests."""
    if isinstance(value, Term):
        return value
    if isinstance(value, Constant):
        return constant(value)
    if isinstance(value, bool):
        return const(value, Bool)
    if isinstance(value, int):
        return const(value, Int)
    raise SpecError(
        f"{caller_line()}: {value!r} needs a type: compare or assign it to something that has one"
    )


def compare(op: str, left: object, right: object, swap: bool = False) -> Term:
    """A comparison; a plain value takes the type of the other side."""
    if not isinstance(left, Term):
        left, right, swap = right, left, not swap
    assert isinstance(left, Term)
    other = coerce(right, left.type) if not _loose(left, right) else term(right)
    if op in ("lt", "le") and not (_numeric(left.type) and _numeric(other.type)):
        raise SpecError(f"{caller_line()}: {left.type} and {other.type} have no order")
    first, second = (other, left) if swap else (left, other)
    if op == "ne":
        return ~make("eq", (first, second), Bool)
    return make(op, (first, second), Bool)


def _loose(left: Term, right: object) -> bool:
    """Numbers of different ranges may be compared; so may an Option with a value."""
    if isinstance(left.type, Option):
        return False
    return _numeric(left.type) and (
        isinstance(right, Constant)
        or (isinstance(right, int) and not isinstance(right, bool))
        or (isinstance(right, Term) and _numeric(right.type))
    )
