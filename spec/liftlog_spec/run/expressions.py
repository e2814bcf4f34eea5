"""Terms as Python expressions over values as a state holds them.

Quantifiers over a few known values are written out, so that most of what remains is indexing with constants.
What is constant is computed here and now. Nothing that is partial (an element of a sequence, the value of an
option, the least of nothing) is moved to where a guard does not protect it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from liftlog_spec.lang.sparse import WRITTEN_OUT
from liftlog_spec.lang.terms import Term
from liftlog_spec.lang.types import Bindings, Fn, Option, Record, Set, SpecError, Type

UNROLL_VALUES = 5
"""Domains of at most so many values are written out."""
CANDIDATES = 100
"""A domain of more values is never taken apart: it becomes a loop."""
TABLE_VALUES = 12
"""Sets of at most so many values find their members in a table."""
SIMPLE_CHARACTERS = 40
"""An expression so short may be written several times."""

_NAME = re.compile(r"\b(?!True\b|False\b|and\b|or\b|not\b|if\b|else\b)[A-Za-z_]\w*")

RUNTIME = """
from bisect import bisect_left

def put(values, position, value):
    if values[position] is value:
        return values
    return values[:position] + (value,) + values[position + 1:]

def set_add(members, item):
    position = bisect_left(members, item)
    if position < len(members) and members[position] == item:
        return members
    return members[:position] + (item,) + members[position:]

def set_union(left, right):
    return tuple(sorted({*left, *right}))

def set_difference(left, right):
    return tuple([item for item in left if item not in right])

def set_intersection(left, right):
    return tuple([item for item in left if item in right])

def mask_of(numbers):
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask

def once(compute):
    kept = []
    def value():
        if not kept:
            kept.append(compute())
        return kept[0]
    return value

def members(mask):
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest

def members_table(size):
    return tuple(tuple(i for i in range(size) if mask >> i & 1) for mask in range(1 << size))
"""
"""What generated code may call."""
RUNTIME_SPARSE = """
def put(values, position, value):
    if values[position] is value:
        return values
    if type(values) is not tuple:
        return values.put(position, value)
    return values[:position] + (value,) + values[position + 1:]
"""
"""Instead, where functions may be held as Sparse."""

Env = dict[int, str]


class KnownTerms(dict[int, str]):
    """Terms that a local holds, by number. `texts`: what was written with just these, to write it once."""

    def __init__(self, held: dict[int, str] | None = None) -> None:
        super().__init__(held or {})
        self.texts: dict[tuple[object, ...], str] = {}


def literal(text: str) -> bool:
    """Whether the expression mentions no name."""
    return _NAME.search(text) is None and "'" not in text


def fold(text: str) -> str:
    """An expression without names, computed."""
    return repr(eval(text)) if literal(text) else text


class Expressions:
    """Writes terms of one model. `tables` collects the constants that the expressions use, by name."""

    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings
        self.tables: dict[str, str] = {}
        self._temporaries = 0
        self._writers: dict[str, Callable[[Term, Env, KnownTerms], str]] = {
            "forall": self._forall,
            "exists": self._exists,
            "count": self._count,
            "least": lambda t, e, c: self._extreme("min", t, e, c),
            "greatest": lambda t, e, c: self._extreme("max", t, e, c),
            "filter": self._filter,
            "collect": self._collect,
            "lambda": self._lambda,
            "index": self._index,
            "except": self._except,
            "with": self._with,
            "set": self._set,
            "member": self._member,
            "all": self._all,
            "numbers": lambda t, e, c: f"tuple({self.loop(t, e, c)})",
        }

    def write(self, term: Term, env: Env, cached: KnownTerms) -> str:
        """The expression. `env`: names or literals of bound variables; `cached`: locals that hold a term."""
        known = cached.get(term.number)
        if known is not None:
            return known
        if not term.args:
            return fold(self._write(term, env, cached))
        key = (term.number, *(env[variable] for variable in sorted(term.free)))
        text = cached.texts.get(key)
        if text is None:
            text = cached.texts[key] = fold(self._write(term, env, cached))
        return text

    def _write(self, term: Term, env: Env, cached: KnownTerms) -> str:
        writer = self._writers.get(term.op)
        return writer(term, env, cached) if writer is not None else self._plain(term, env, cached)

    def _plain(self, term: Term, env: Env, cached: KnownTerms) -> str:
        match term.op:
            case "const":
                return repr(term.data)
            case "constant":
                return repr(term.data.value(self.bindings))
            case "var":
                return f"v_{term.data}"
            case "bound":
                return env[term.data[0]]
            case "call":
                return self.write(term.args[-1], env, cached)
            case "and" | "or" | "implies" | "not" | "if":
                return self._logic(term, env, cached)
        parts = [self.write(arg, env, cached) for arg in term.args]
        return self._operation(term, parts)

    def _operation(self, term: Term, parts: list[str]) -> str:
        mask = bool(term.args) and isinstance(term.args[0].type, Set) and term.args[0].type.mask
        match term.op:
            case "eq":
                return f"({parts[0]} == {parts[1]})"
            case "lt":
                return f"({parts[0]} < {parts[1]})"
            case "le":
                return f"({parts[0]} <= {parts[1]})"
            case "add":
                return f"({parts[0]} + {parts[1]})"
            case "sub":
                return f"({parts[0]} - {parts[1]})"
            case "min" | "max":
                return f"{term.op}({parts[0]}, {parts[1]})"
            case "field":
                kind = term.args[0].type
                assert isinstance(kind, Record)
                return f"{parts[0]}[{kind.position(term.data)}]"
            case "record" | "sequence":
                return "(" + "".join(f"{part}, " for part in parts) + ")"
            case "some":
                assert isinstance(term.type, Option)
                return parts[0] if term.type.flat else f"({parts[0]},)"
            case "get":
                kind = term.args[0].type
                assert isinstance(kind, Option)
                return parts[0] if kind.flat else f"{parts[0]}[0]"
            case "length":
                return f"len({parts[0]})"
            case "item":
                return f"{parts[0]}[{parts[1]}]"
            case "append":
                return f"({parts[0]} + ({parts[1]},))"
            case "prefix":
                return f"{parts[0]}[:{parts[1]}]"
            case "rest":
                return f"{parts[0]}[{parts[1]}:]"
            case "concat":
                return f"({parts[0]} + {parts[1]})"
            case "size":
                return f"({parts[0]}).bit_count()" if mask else f"len({parts[0]})"
            case "union":
                return self._union(term, parts, mask)
            case "difference":
                return f"({parts[0]} & ~{parts[1]})" if mask else f"set_difference({parts[0]}, {parts[1]})"
            case "intersection":
                return f"({parts[0]} & {parts[1]})" if mask else f"set_intersection({parts[0]}, {parts[1]})"
            case "subset":
                return f"({parts[0]} & ~{parts[1]} == 0)" if mask else f"({{*{parts[0]}}} <= {{*{parts[1]}}})"
        raise SpecError(f"{term.line}: {term.op} cannot be run")

    def _union(self, term: Term, parts: list[str], mask: bool) -> str:
        if mask:
            return f"({parts[0]} | {parts[1]})"
        other = term.args[1]
        if other.op == "set" and len(other.args) == 1:
            return f"set_add({parts[0]}, {parts[1].strip()[1:-2]})"
        return f"set_union({parts[0]}, {parts[1]})"

    def _logic(self, term: Term, env: Env, cached: KnownTerms) -> str:
        parts = [self.write(arg, env, cached) for arg in term.args]
        match term.op:
            case "not":
                return f"(not {parts[0]})"
            case "if":
                if literal(parts[0]):
                    return parts[1] if eval(parts[0]) else parts[2]
                return f"({parts[1]} if {parts[0]} else {parts[2]})"
            case "implies":
                return _either([fold(f"(not {parts[0]})"), parts[1]])
            case "or":
                return _either(parts)
        return _both(parts)

    # -- domains -------------------------------------------------------------------------------------------

    def known_values(self, domain: Term, env: Env, cached: KnownTerms) -> list[tuple[str, str]] | None:
        """(value, condition) of a domain's candidates if they are few and known; None if they are not."""
        if domain.op == "all":
            assert isinstance(domain.type, Set)
            if domain.type.of.size > CANDIDATES:
                return None
            return [(repr(value), "True") for value in domain.type.of.values()]
        if domain.op == "numbers":
            lo, hi = (self.write(arg, env, cached) for arg in domain.args)
            if literal(lo) and literal(hi) and int(hi) - int(lo) <= CANDIDATES:
                return [(str(value), "True") for value in range(int(lo), int(hi))]
            return None
        kind = domain.type
        assert isinstance(kind, Set)
        if not kind.mask or domain.op == "filter" or kind.of.size > CANDIDATES:
            return None
        text = self.write(domain, env, cached)
        if len(text) > SIMPLE_CHARACTERS:
            return None
        return [
            (repr(value), fold(f"({text} >> {int(value) - kind.of.low} & 1 != 0)"))
            for value in kind.of.values()
        ]

    def loop(self, domain: Term, env: Env, cached: KnownTerms) -> str:
        """An expression to iterate over."""
        if domain.op == "numbers":
            lo, hi = (self.write(arg, env, cached) for arg in domain.args)
            return f"range({lo}, {hi})"
        kind = domain.type
        assert isinstance(kind, Set)
        if domain.op == "all":
            return _values_text(kind.of)
        text = self.write(domain, env, cached)
        if not kind.mask:
            return text
        if kind.of.low:
            raise SpecError(f"{domain.line}: sets of {kind.of} to go through must count from 0")
        if kind.of.size > TABLE_VALUES:
            return f"members({text})"
        self.tables[f"MEMBERS_{kind.of.size}"] = f"members_table({kind.of.size})"
        return f"MEMBERS_{kind.of.size}[{text}]"

    def _few(self, term: Term, env: Env, cached: KnownTerms) -> list[tuple[str, str]] | None:
        known = self.known_values(term.args[0], env, cached)
        return known if known is not None and len(known) <= UNROLL_VALUES else None

    def fresh(self, prefix: str) -> str:
        self._temporaries += 1
        return f"{prefix}{self._temporaries}"

    def _body(self, term: Term, env: Env, cached: KnownTerms) -> tuple[str, str]:
        """(name of the variable, body) for a comprehension."""
        name = self.fresh("x")
        return name, self.write(term.args[-1], {**env, term.data: name}, cached)

    # -- binders -------------------------------------------------------------------------------------------

    def _forall(self, term: Term, env: Env, cached: KnownTerms) -> str:
        known = self._few(term, env, cached)
        if known is not None:
            bodies = []
            for value, condition in known:
                body = self.write(term.args[1], {**env, term.data: value}, cached)
                bodies.append(_either([fold(f"(not {condition})"), body]))
            return _both(bodies)
        name, body = self._body(term, env, cached)
        return f"all({body} for {name} in {self.loop(term.args[0], env, cached)})"

    def _exists(self, term: Term, env: Env, cached: KnownTerms) -> str:
        known = self._few(term, env, cached)
        if known is not None:
            bodies = []
            for value, condition in known:
                body = self.write(term.args[1], {**env, term.data: value}, cached)
                bodies.append(_both([condition, body]))
            return _either(bodies)
        name, body = self._body(term, env, cached)
        return f"any({body} for {name} in {self.loop(term.args[0], env, cached)})"

    def _count(self, term: Term, env: Env, cached: KnownTerms) -> str:
        name, body = self._body(term, env, cached)
        return f"sum(1 for {name} in {self.loop(term.args[0], env, cached)} if {body})"

    def _extreme(self, function: str, term: Term, env: Env, cached: KnownTerms) -> str:
        known = self._few(term, env, cached)
        if known is not None and len(known) > 1 and all(condition == "True" for _, condition in known):
            bodies = [self.write(term.args[1], {**env, term.data: value}, cached) for value, _ in known]
            return f"{function}({', '.join(bodies)})"
        name, body = self._body(term, env, cached)
        return f"{function}([{body} for {name} in {self.loop(term.args[0], env, cached)}])"

    def _filter(self, term: Term, env: Env, cached: KnownTerms) -> str:
        name, body = self._body(term, env, cached)
        inner = f"{name} for {name} in {self.loop(term.args[0], env, cached)} if {body}"
        kind = term.type
        assert isinstance(kind, Set)
        return f"mask_of({_lowered(inner, name, kind.of)})" if kind.mask else f"tuple({inner})"

    def _collect(self, term: Term, env: Env, cached: KnownTerms) -> str:
        name, body = self._body(term, env, cached)
        inner = f"{body} for {name} in {self.loop(term.args[0], env, cached)}"
        kind = term.type
        assert isinstance(kind, Set)
        if not kind.mask:
            return f"tuple(sorted({{{inner}}}))"
        return f"mask_of({_lowered(inner, body, kind.of)})"

    def _lambda(self, term: Term, env: Env, cached: KnownTerms) -> str:
        kind = term.type
        assert isinstance(kind, Fn)
        if kind.domain.size > WRITTEN_OUT:
            return self._large_lambda(term, kind, env, cached)
        if kind.domain.size > CANDIDATES:
            name, body = self._body(term, env, cached)
            return f"tuple([{body} for {name} in {_values_text(kind.domain)}])"
        values = kind.domain.values()
        parts = [self.write(term.args[0], {**env, term.data: repr(value)}, cached) for value in values]
        return "(" + "".join(f"{part}, " for part in parts) + ")"

    def _large_lambda(self, term: Term, kind: Fn, env: Env, cached: KnownTerms) -> str:
        if term.data in term.args[0].free:
            raise SpecError(
                f"{term.line}: a function over the {kind.domain.size:,} values of {kind.domain} would have "
                f"to be written out; lower the bound to {WRITTEN_OUT:,}, or use a Seq"
            )
        return f"Sparse({kind.domain.size}, {self.write(term.args[0], env, cached)})"

    def _all(self, term: Term, env: Env, cached: KnownTerms) -> str:
        kind = term.type
        assert isinstance(kind, Set)
        if kind.of.size > WRITTEN_OUT:
            raise SpecError(f"{term.line}: the set of all {kind.of.size:,} values of {kind.of} is too large")
        return str((1 << kind.of.size) - 1)

    # -- functions, records, sets --------------------------------------------------------------------------

    def _index(self, term: Term, env: Env, cached: KnownTerms) -> str:
        kind = term.args[0].type
        assert isinstance(kind, Fn)
        key = self._position(self.write(term.args[1], env, cached), kind.domain)
        return f"{self.write(term.args[0], env, cached)}[{key}]"

    def _position(self, key: str, domain: Type) -> str:
        return (
            fold(f"({key} - {domain.low})")
            if domain.low
            else fold(f"int({key})" if key in ("True", "False") else key)
        )

    def _except(self, term: Term, env: Env, cached: KnownTerms) -> str:
        kind = term.type
        assert isinstance(kind, Fn)
        whole = self.write(term.args[0], env, cached)
        key = self._position(self.write(term.args[1], env, cached), kind.domain)
        value = self.write(term.args[2], env, cached)
        return _replaced(whole, key, value, kind.domain.size)

    def _with(self, term: Term, env: Env, cached: KnownTerms) -> str:
        kind = term.type
        assert isinstance(kind, Record)
        whole = self.write(term.args[0], env, cached)
        value = self.write(term.args[1], env, cached)
        return _replaced(whole, str(kind.position(term.data)), value, len(kind.fields))

    def _set(self, term: Term, env: Env, cached: KnownTerms) -> str:
        kind = term.type
        assert isinstance(kind, Set)
        parts = [self.write(arg, env, cached) for arg in term.args]
        if kind.mask:
            if not parts:
                return "0"
            return "(" + " | ".join(f"1 << {self._position(part, kind.of)}" for part in parts) + ")"
        if len(parts) <= 1:
            return "(" + "".join(f"{part}, " for part in parts) + ")"
        return "tuple(sorted({" + ", ".join(parts) + "}))"

    def _member(self, term: Term, env: Env, cached: KnownTerms) -> str:
        item = self.write(term.args[0], env, cached)
        kind = term.args[1].type
        assert isinstance(kind, Set)
        if term.args[1].op == "all":
            return f"({kind.of.low} <= {item} < {kind.of.low + kind.of.size})"
        if term.args[1].op == "numbers":
            lo, hi = (self.write(arg, env, cached) for arg in term.args[1].args)
            return f"({lo} <= {item} < {hi})"
        within = self.write(term.args[1], env, cached)
        if not kind.mask:
            return f"({item} in {within})"
        return f"({within} >> {self._position(item, kind.of)} & 1 != 0)"


def _values_text(kind: Type) -> str:
    """All values of a type, to iterate over."""
    if kind.size <= CANDIDATES:
        return repr(tuple(kind.values()))
    return f"range({kind.low}, {kind.low + kind.size})"


def _lowered(inner: str, element: str, kind: Type) -> str:
    return inner if not kind.low else inner.replace(f"{element} for", f"{element} - {kind.low} for", 1)


def _replaced(whole: str, position: str, value: str, length: int) -> str:
    if literal(position) and len(whole) <= SIMPLE_CHARACTERS and length <= 8:
        parts = [value if i == int(position) else f"{whole}[{i}]" for i in range(length)]
        return "(" + "".join(f"{part}, " for part in parts) + ")"
    return f"put({whole}, {position}, {value})"


def _both(parts: list[str]) -> str:
    kept = [part for part in parts if part != "True"]
    if "False" in kept:
        return "False"
    if not kept:
        return "True"
    return kept[0] if len(kept) == 1 else "(" + " and ".join(kept) + ")"


def _either(parts: list[str]) -> str:
    kept = [part for part in parts if part != "False"]
    if "True" in kept:
        return "True"
    if not kept:
        return "False"
    return kept[0] if len(kept) == 1 else "(" + " or ".join(kept) + ")"


def unconditional(term: Term) -> list[Term]:
    """Subterms that are computed whenever this one is, each once, the innermost first."""
    found: dict[int, Term] = {}
    _walk(term, found, _surely)
    return list(found.values())


def subterms(term: Term) -> list[Term]:
    """All subterms that are computed at all, each once, the innermost first."""
    found: dict[int, Term] = {}
    _walk(term, found, lambda whole: whole.args[-1:] if whole.op == "call" else whole.args)
    return list(found.values())


def _walk(term: Term, found: dict[int, Term], parts: Callable[[Term], tuple[Term, ...]]) -> None:
    if term.number in found:
        return
    for part in parts(term):
        _walk(part, found, parts)
    found[term.number] = term


def _surely(term: Term) -> tuple[Term, ...]:
    if term.op in ("and", "or", "implies", "if"):
        return term.args[:1]
    if term.op in ("forall", "exists", "filter", "collect", "least", "greatest", "count"):
        return term.args[:1]
    if term.op == "lambda":
        return ()
    return term.args[-1:] if term.op == "call" else term.args


def everywhere(term: Term, seen: dict[int, int]) -> None:
    """Count how often each subterm is written."""
    seen[term.number] = seen.get(term.number, 0) + 1
    if seen[term.number] == 1:
        for part in term.args[-1:] if term.op == "call" else term.args:
            everywhere(part, seen)


def partial(term: Term) -> bool:
    """Whether computing it can fail where no guard protects it."""
    return any(part.op in ("item", "get", "least", "greatest") for part in subterms(term))


CACHED = frozenset(
    (
        "index",
        "item",
        "field",
        "prefix",
        "rest",
        "concat",
        "append",
        "length",
        "least",
        "greatest",
        "count",
        "forall",
        "exists",
        "filter",
        "collect",
        "union",
        "difference",
        "intersection",
        "except",
        "with",
        "lambda",
        "min",
        "max",
        "if",
    )
)
