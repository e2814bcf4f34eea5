"""Terms and values as TLA+ text.

Two things differ. Our sequences count from 0, TLA+'s from 1: an index gets one added. An `Option` is a set
with one more element, the constant `None`: what is there needs no wrapping.

Three things are so because of TLA+'s tools, and `liftlog_spec/tla/lint.py` looks for them in what was
printed:

- SANY refuses a bound name that is bound again inside its own scope. Every name comes from `Printer.bound`,
  which knows the scope, so that two variables of one scope cannot share one.
- TLC makes a successor for each side of a disjunction in an action, so that the right side is evaluated
  where the left one is true. One that need not make sense then is printed as `IF left THEN TRUE ELSE right`.
- TLC writes out a set of sets before it tests membership, and sequences of bounded length are such a set.
  That a value is of its type is therefore said as a condition: `Printer.holds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from liftlog_spec.lang.build import VARIABLES
from liftlog_spec.lang.terms import Term
from liftlog_spec.lang.types import Bool, Enum, Fn, Int, Option, Record, Seq, Set, Sort, SpecError, Type

HELPERS = """\
MinOf(S) == CHOOSE x \\in S : \\A y \\in S : x <= y
MaxOf(S) == CHOOSE x \\in S : \\A y \\in S : x >= y
"""

_BETWEEN = {
    "eq": "=",
    "lt": "<",
    "le": "<=",
    "add": "+",
    "sub": "-",
    "and": "/\\",
    "or": "\\/",
    "implies": "=>",
    "member": "\\in",
    "union": "\\cup",
    "difference": "\\",
    "intersection": "\\cap",
    "subset": "\\subseteq",
}


def type_text(kind: Type) -> str:
    """A type as a set that TLC can enumerate or test membership of. Raises SpecError for sequences."""
    match kind:
        case Option(of=of):
            return f"({type_text(of)} \\cup {{None}})"
        case Fn(domain=domain, to=to):
            return f"[{type_text(domain)} -> {type_text(to)}]"
        case Set(of=of):
            return f"SUBSET {type_text(of)}"
        case Seq():
            raise SpecError(f"{kind} is no set in TLA+ that TLC can test: use Printer.holds")
        case Record(fields=fields):
            return "[" + ", ".join(f"{name}: {type_text(k)}" for name, k in fields.items()) + "]"
    if kind is Int:
        return "Int"
    text = kind.tla()
    return f"({text})" if ".." in text else text


def has_sequences(kind: Type) -> bool:
    """Whether values of the type have sequences in them."""
    match kind:
        case Seq():
            return True
        case Option(of=of) | Set(of=of) | Fn(to=of):
            return has_sequences(of)
        case Record(fields=fields):
            return any(has_sequences(field) for field in fields.values())
    return False


_PARTIAL = frozenset(("item", "get", "least", "greatest", "prefix", "rest"))
_partial: dict[Term, bool] = {}


def partial(term: Term) -> bool:
    """Whether a term may have no value in some state: an index out of range, the value of nothing."""
    found = _partial.get(term)
    if found is None:
        found = term.op in _PARTIAL or any(partial(arg) for arg in term.args)
        if term.op in ("index", "except"):
            function, key = term.args[0].type, term.args[1]
            assert isinstance(function, Fn)
            found = found or key.type.key() != function.domain.key()
        _partial[term] = found
    return found


class Printer:
    """Writes terms of one model. `reserved`: names that no bound variable may take."""

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._scope: dict[int, str] = {}
        self._reserved = reserved
        self._unnamed = 0

    def bind(self, number: int, name: str) -> str:
        """A name for a variable of this whole text: of an action, or a parameter."""
        taken = self._reserved | set(self._scope.values())
        new, attempt = name, 1
        while new in taken:
            attempt += 1
            new = f"{name}{attempt}"
        self._scope[number] = new
        return new

    @contextmanager
    def bound(self, name: str, number: int = 0) -> Iterator[str]:
        """A name for a variable within what is printed meanwhile. Without a number no term mentions it."""
        if not number:
            self._unnamed -= 1
            number = self._unnamed
        yield self.bind(number, name)
        del self._scope[number]

    def value(self, kind: Type, held: Any) -> str:
        """A value as it is held in a state."""
        match kind:
            case Enum(names=names):
                return f'"{names[held]}"'
            case Option(of=of):
                return "None" if held == kind.none else self.value(of, held if kind.flat else held[0])
            case Fn(domain=domain, to=to):
                if len(set(held)) > 1:
                    raise SpecError(f"a constant function of {kind} with several values cannot be printed")
                with self.bound("x") as name:
                    return f"[{name} \\in {type_text(domain)} |-> {self.value(to, held[0])}]"
            case Set():
                return "{" + ", ".join(self.value(kind.of, item) for item in kind.members(held)) + "}"
            case Seq(of=of):
                return "<<" + ", ".join(self.value(of, item) for item in held) + ">>"
            case Record(fields=fields):
                pairs = zip(fields.items(), held, strict=True)
                return "[" + ", ".join(f"{name} |-> {self.value(k, v)}" for (name, k), v in pairs) + "]"
            case Sort():
                raise SpecError(f"an element of {kind} has no name in TLA+")
        if kind is Bool:
            return "TRUE" if held else "FALSE"
        return str(held)

    def holds(self, kind: Type, text: str) -> str:
        """That the value of `text` is of this type. No set is written out whose elements have sequences."""
        if not has_sequences(kind):
            return f"{text} \\in {type_text(kind)}"
        match kind:
            case Option(of=of):
                return f"(IF {text} = None THEN TRUE ELSE {self.holds(of, text)})"
            case Fn(domain=domain, to=to):
                with self.bound("x") as name:
                    every = f"\\A {name} \\in {type_text(domain)} : {self.holds(to, f'{text}[{name}]')}"
                return f"((DOMAIN {text} = {type_text(domain)}) /\\ ({every}))"
            case Set(of=of):
                with self.bound("x") as name:
                    return f"(\\A {name} \\in {text} : {self.holds(of, name)})"
            case Seq(of=of):
                short = f"(Len({text}) <= {kind.length_text()})"
                if not has_sequences(of):
                    return f"(({text} \\in Seq({type_text(of)})) /\\ {short})"
                with self.bound("i") as name:
                    every = f"\\A {name} \\in 1..Len({text}) : {self.holds(of, f'{text}[{name}]')}"
                return f"({short} /\\ ({every}))"
            case Record(fields=fields):
                names = ", ".join(f'"{name}"' for name in fields)
                each = [self.holds(of, f"{text}.{name}") for name, of in fields.items()]
                return " /\\ ".join([f"((DOMAIN {text} = {{{names}}})", *each]) + ")"
        raise SpecError(f"{kind} cannot be printed as TLA+")

    def domain(self, term: Term) -> str:
        if term.op == "all":
            kind = term.type
            assert isinstance(kind, Set)
            return type_text(kind.of)
        if term.op == "numbers":
            return f"({self.text(term.args[0])})..({self.text(term.args[1])} - 1)"
        return self.text(term)

    def text(self, term: Term) -> str:
        """The expression, in brackets where it needs them."""
        op, args = term.op, term.args
        if op == "or" and partial(args[1]):
            return f"(IF {self.text(args[0])} THEN TRUE ELSE {self.text(args[1])})"
        if op in _BETWEEN:
            return f"({self.text(args[0])} {_BETWEEN[op]} {self.text(args[1])})"
        if op in ("forall", "exists", "filter", "collect", "least", "greatest", "count", "lambda"):
            return self._binder(term)
        match op:
            case "const":
                return self.value(term.type, term.data)
            case "constant":
                shifted = term.data.text()
                return f"({shifted})" if " " in shifted else str(shifted)
            case "var":
                return str(term.data)
            case "bound":
                return self._scope[term.data[0]]
            case "call":
                given = [self.text(arg) for arg in args[:-1]]
                return f"{term.data}({', '.join(given)})" if given else str(term.data)
            case "not":
                return self._negated(args[0])
            case "if":
                return f"(IF {self.text(args[0])} THEN {self.text(args[1])} ELSE {self.text(args[2])})"
            case "min" | "max":
                return f"{op.title()}Of({{{self.text(args[0])}, {self.text(args[1])}}})"
            case "some" | "get":
                return self.text(args[0])
            case "all" | "numbers":
                return self.domain(term)
        return self._structure(term)

    def _negated(self, term: Term) -> str:
        if term.op == "eq":
            return f"({self.text(term.args[0])} # {self.text(term.args[1])})"
        return f"~{self.text(term)}" if term.op in ("call", "var") else f"~({self.text(term)})"

    def _structure(self, term: Term) -> str:
        op, parts = term.op, [self.text(arg) for arg in term.args]
        match op:
            case "index":
                return f"{parts[0]}[{parts[1]}]"
            case "except":
                return f"[{parts[0]} EXCEPT ![{parts[1]}] = {parts[2]}]"
            case "field":
                return f"{parts[0]}.{term.data}"
            case "with":
                return f"[{parts[0]} EXCEPT !.{term.data} = {parts[1]}]"
            case "record":
                kind = term.type
                assert isinstance(kind, Record)
                inner = [f"{name} |-> {part}" for name, part in zip(kind.fields, parts, strict=True)]
                return "[" + ", ".join(inner) + "]"
            case "sequence":
                return "<<" + ", ".join(parts) + ">>"
            case "set":
                return "{" + ", ".join(parts) + "}"
            case "length":
                return f"Len({parts[0]})"
            case "size":
                return f"Cardinality({parts[0]})"
            case "item":
                return f"{parts[0]}[{parts[1]} + 1]"
            case "append":
                return f"Append({parts[0]}, {parts[1]})"
            case "prefix":
                return f"SubSeq({parts[0]}, 1, MinOf({{{parts[1]}, Len({parts[0]})}}))"
            case "rest":
                return f"SubSeq({parts[0]}, {parts[1]} + 1, Len({parts[0]}))"
            case "concat":
                return f"({parts[0]} \\o {parts[1]})"
        raise SpecError(f"{term.line}: {op} cannot be printed as TLA+")

    def _binder(self, term: Term) -> str:
        variable = VARIABLES.get(term.data)
        with self.bound(variable.data[1] if variable is not None else "x", term.data) as name:
            over = "" if term.op == "lambda" else self.domain(term.args[0])
            body = self.text(term.args[-1])
        if term.op == "lambda":
            kind = term.type
            assert isinstance(kind, Fn)
            return f"[{name} \\in {type_text(kind.domain)} |-> {body}]"
        match term.op:
            case "forall":
                return f"(\\A {name} \\in {over} : {body})"
            case "exists":
                return f"(\\E {name} \\in {over} : {body})"
            case "filter":
                return f"{{{name} \\in {over} : {body}}}"
            case "collect":
                return f"{{{body} : {name} \\in {over}}}"
            case "least":
                return f"MinOf({{{body} : {name} \\in {over}}})"
            case "greatest":
                return f"MaxOf({{{body} : {name} \\in {over}}})"
        return f"Cardinality({{{name} \\in {over} : {body}}})"
