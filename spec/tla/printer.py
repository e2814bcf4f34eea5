"""Terms and values as TLA+ text.

Two things differ. Our sequences count from 0, TLA+'s from 1: an index gets one added. An `Option` is a set
with one more element, the constant `None`: what is there needs no wrapping.
"""

from __future__ import annotations

from typing import Any

from spec.lang.build import VARIABLES
from spec.lang.terms import Term
from spec.lang.types import Bool, Enum, Fn, Int, Option, Record, Seq, Set, Sort, SpecError, Type

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


def value(kind: Type, held: Any, depth: int = 0) -> str:
    """A value as it is held in a state. `depth`: functions around it, whose variable is taken."""
    match kind:
        case Enum(names=names):
            return f'"{names[held]}"'
        case Option(of=of):
            if held == kind.none:
                return "None"
            return value(of, held if kind.flat else held[0], depth)
        case Fn(domain=domain, to=to):
            if len(set(held)) == 1:
                name = f"x{depth}" if depth else "x"
                return f"[{name} \\in {type_text(domain)} |-> {value(to, held[0], depth + 1)}]"
            raise SpecError(f"a constant function of {kind} with several values cannot be printed")
        case Set():
            members = [value(kind.of, item, depth) for item in kind.members(held)]
            return "{" + ", ".join(members) + "}"
        case Seq(of=of):
            return "<<" + ", ".join(value(of, item, depth) for item in held) + ">>"
        case Record(fields=fields):
            pairs = zip(fields.items(), held, strict=True)
            parts = [f"{name} |-> {value(k, v, depth)}" for (name, k), v in pairs]
            return "[" + ", ".join(parts) + "]"
        case Sort():
            raise SpecError(f"an element of {kind} has no name in TLA+")
    if kind is Bool:
        return "TRUE" if held else "FALSE"
    return str(held)


def type_text(kind: Type) -> str:
    """A type as a set that TLC can enumerate or test membership of."""
    match kind:
        case Option(of=of):
            return f"({type_text(of)} \\cup {{None}})"
        case Fn(domain=domain, to=to):
            return f"[{type_text(domain)} -> {type_text(to)}]"
        case Set(of=of):
            return f"SUBSET {type_text(of)}"
        case Seq(of=of):
            return f"UNION {{[1..n -> {type_text(of)}] : n \\in 0..{kind.length_text()}}}"
        case Record(fields=fields):
            return "[" + ", ".join(f"{name}: {type_text(k)}" for name, k in fields.items()) + "]"
    if kind is Int:
        return "Int"
    text = kind.tla()
    return f"({text})" if ".." in text else text


class Printer:
    """Writes terms of one model. A bound variable keeps its name unless the module or this text has it."""

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._names: dict[int, str] = {}
        self._reserved = reserved

    def bind(self, number: int, name: str) -> str:
        """A name that no other variable in this definition has."""
        if number not in self._names:
            taken = self._reserved | set(self._names.values())
            new, attempt = name, 1
            while new in taken:
                attempt += 1
                new = f"{name}{attempt}"
            self._names[number] = new
        return self._names[number]

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
        if op in _BETWEEN:
            return f"({self.text(args[0])} {_BETWEEN[op]} {self.text(args[1])})"
        if op in ("forall", "exists", "filter", "collect", "least", "greatest", "count", "lambda"):
            return self._binder(term)
        match op:
            case "const":
                return value(term.type, term.data)
            case "constant":
                shifted = term.data.text()
                return f"({shifted})" if " " in shifted else str(shifted)
            case "var":
                return str(term.data)
            case "bound":
                return self.bind(*term.data)
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
        name = self.bind(term.data, variable.data[1] if variable is not None else "x")
        if term.op == "lambda":
            kind = term.type
            assert isinstance(kind, Fn)
            return f"[{name} \\in {type_text(kind.domain)} |-> {self.text(term.args[0])}]"
        domain, body = self.domain(term.args[0]), self.text(term.args[1])
        match term.op:
            case "forall":
                return f"(\\A {name} \\in {domain} : {body})"
            case "exists":
                return f"(\\E {name} \\in {domain} : {body})"
            case "filter":
                return f"{{{name} \\in {domain} : {body}}}"
            case "collect":
                return f"{{{body} : {name} \\in {domain}}}"
            case "least":
                return f"MinOf({{{body} : {name} \\in {domain}}})"
            case "greatest":
                return f"MaxOf({{{body} : {name} \\in {domain}}})"
        return f"Cardinality({{{name} \\in {domain} : {body}}})"
