"""The words of the language beside Python's operators: quantifiers, sets, sequences, options, conditions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from liftlog_spec.lang.terms import (
    Term,
    bound,
    bound_variable,
    caller_line,
    coerce,
    const,
    make,
    number,
    term,
    truth,
)
from liftlog_spec.lang.types import Bool, Fn, Int, Option, Record, Seq, Set, SpecError, Type

Body = Callable[..., Any]
VARIABLES: dict[int, Term] = {}
"""Bound variables by number, for whoever walks a tree."""

# -- domains: what a variable may run through ----------------------------------------------------------------


def numbers(lo: object, hi: object) -> Term:
    """The whole numbers from `lo` to below `hi`."""
    return make("numbers", (number(lo), number(hi)), Set(Int))


def domain_of(domain: object) -> tuple[Term, Type]:
    """A domain as a term, and the type of its elements: a type, a set, `numbers(lo, hi)`."""
    if isinstance(domain, Type):
        domain = bound(domain)
        if not domain.whole:
            raise SpecError(f"{caller_line()}: {domain} has too many values to go through")
        return make("all", (), Set(domain)), domain
    if isinstance(domain, Term) and isinstance(domain.type, Set):
        return domain, domain.type.of
    raise SpecError(f"{caller_line()}: {domain!r} is no domain: a type, a set or numbers(lo, hi)")


def _names(body: Body) -> list[str]:
    return [parameter.name for parameter in inspect.signature(body).parameters.values()]


def _quantify(op: str, parts: tuple[object, ...]) -> Term:
    *domains, body = parts
    if not domains or not callable(body):
        raise SpecError(f"{caller_line()}: write Forall(Domain, lambda x: ...)")
    names = _names(body)
    if len(names) != len(domains):
        raise SpecError(f"{caller_line()}: {len(domains)} domains for {len(names)} variables")
    found = [domain_of(domain) for domain in domains]
    variables = [bound_variable(kind, name) for (_, kind), name in zip(found, names, strict=True)]
    result = truth(body(*variables))
    for (domain, _), variable in zip(reversed(found), reversed(variables), strict=True):
        result = make(op, (domain, result), Bool, variable.data[0])
        VARIABLES[variable.data[0]] = variable
    return result


def Forall(*parts: object) -> Term:
    """`Forall(A, B, lambda a, b: ...)`: true for all."""
    return _quantify("forall", parts)


def Exists(*parts: object) -> Term:
    """`Exists(A, lambda a: ...)`: true for at least one."""
    return _quantify("exists", parts)


def _one(op: str, domain: object, body: Body, kind: Type | None) -> Term:
    where, element = domain_of(domain)
    variable = bound_variable(element, _names(body)[0])
    VARIABLES[variable.data[0]] = variable
    inner = body(variable)
    inner = truth(inner) if op in ("filter", "count") else term(inner)
    result = kind or (Set(inner.type) if op == "collect" else Set(element))
    return make(op, (where, inner), result, variable.data[0])


def count(domain: object, body: Body) -> Term:
    """For how many elements of the domain it is true."""
    return _one("count", domain, body, Int)


def least(domain: object, body: Body) -> Term:
    """The least value of `body` over a domain that is not empty."""
    return _one("least", domain, body, Int)


def greatest(domain: object, body: Body) -> Term:
    """The greatest value of `body` over a domain that is not empty."""
    return _one("greatest", domain, body, Int)


# -- truth ---------------------------------------------------------------------------------------------------


def Not(value: object) -> Term:
    return make("not", (truth(value),), Bool)


def And(*values: object) -> Term:
    result = const(True, Bool)
    for position, value in enumerate(values):
        result = truth(value) if position == 0 else make("and", (result, truth(value)), Bool)
    return result


def Or(*values: object) -> Term:
    result = const(False, Bool)
    for position, value in enumerate(values):
        result = truth(value) if position == 0 else make("or", (result, truth(value)), Bool)
    return result


def Implies(left: object, right: object) -> Term:
    return make("implies", (truth(left), truth(right)), Bool)


def If(condition: object, then: object, otherwise: object) -> Term:
    """`None` on one side makes both Options."""
    if not isinstance(then, Term) and not isinstance(otherwise, Term):
        first, second = term(then), term(otherwise)
    elif isinstance(then, Term):
        first, second = _alike(then, otherwise)
    else:
        assert isinstance(otherwise, Term)
        second, first = _alike(otherwise, then)
    return make("if", (truth(condition), first, second), second.type if first.type is Int else first.type)


def _alike(known: Term, other: object) -> tuple[Term, Term]:
    """Two terms of one type, of which the first says what it is."""
    kind = known.type
    if other is None and not isinstance(kind, Option):
        return coerce(known, Option(kind)), coerce(None, Option(kind))
    if isinstance(other, Term) and isinstance(other.type, Option) and not isinstance(kind, Option):
        return coerce(known, other.type), other
    return known, coerce(other, kind)


def minimum(left: object, right: object) -> Term:
    return make("min", (number(left), number(right)), Int)


def maximum(left: object, right: object) -> Term:
    return make("max", (number(left), number(right)), Int)


# -- functions and records -----------------------------------------------------------------------------------


def function(domain: Type, body: Body) -> Term:
    """`[x \\in domain |-> body]`."""
    domain = bound(domain)
    variable = bound_variable(domain, _names(body)[0])
    VARIABLES[variable.data[0]] = variable
    inner = term(body(variable))
    return make("lambda", (inner,), Fn(domain, inner.type), variable.data[0])


def record(kind: Record, **fields: object) -> Term:
    return coerce(fields, bound(kind))


def having(value: Term, **fields: object) -> Term:
    """The record with some fields changed."""
    kind = value.type
    if not isinstance(kind, Record):
        raise SpecError(f"{caller_line()}: a {kind} has no fields")
    for name, new in fields.items():
        if name not in kind.fields:
            raise SpecError(f"{caller_line()}: no field {name!r}; there are {', '.join(kind.fields)}")
        value = make("with", (value, coerce(new, kind.fields[name])), kind, name)
    return value


# -- options -------------------------------------------------------------------------------------------------


def is_none(value: Term) -> Term:
    return make("eq", (value, coerce(None, _option(value))), Bool)


def is_some(value: Term) -> Term:
    return ~is_none(value)


def get(value: Term) -> Term:
    """The value of an option that has one."""
    return make("get", (value,), _option(value).of)


def _option(value: Term) -> Option:
    if not isinstance(value.type, Option):
        raise SpecError(f"{caller_line()}: a {value.type} is no Option")
    return value.type


# -- sets ----------------------------------------------------------------------------------------------------


def _set(value: Term) -> Set:
    if not isinstance(value, Term) or not isinstance(value.type, Set):
        raise SpecError(f"{caller_line()}: {value!r} is no set")
    return value.type


def member(item: object, of: Term) -> Term:
    return make("member", (coerce(item, _set(of).of), of), Bool)


def with_member(of: Term, *items: object) -> Term:
    """The set and these elements."""
    return make("union", (of, coerce(list(items), _set(of))), of.type)


def without(of: Term, *items: object) -> Term:
    """The set less these elements."""
    return make("difference", (of, coerce(list(items), _set(of))), of.type)


def union(left: Term, right: Term) -> Term:
    return make("union", (left, coerce(right, _set(left))), left.type)


def intersection(left: Term, right: Term) -> Term:
    return make("intersection", (left, coerce(right, _set(left))), left.type)


def difference(left: Term, right: Term) -> Term:
    return make("difference", (left, coerce(right, _set(left))), left.type)


def subset(left: Term, right: Term) -> Term:
    return make("subset", (left, coerce(right, _set(left))), Bool)


def size(of: Term) -> Term:
    """Number of elements of a set, or length of a sequence."""
    if isinstance(of.type, Seq):
        return make("length", (of,), Int)
    _set(of)
    return make("size", (of,), Int)


def elements(domain: Type) -> Term:
    """The set of all values of a type."""
    return domain_of(domain)[0]


def such_that(domain: object, body: Body) -> Term:
    """`{x \\in domain : body}`."""
    return _one("filter", domain, body, None)


def collect(domain: object, body: Body) -> Term:
    """`{body : x \\in domain}`."""
    return _one("collect", domain, body, None)


# -- sequences -----------------------------------------------------------------------------------------------


def _seq(value: Term) -> Seq:
    if not isinstance(value, Term) or not isinstance(value.type, Seq):
        raise SpecError(f"{caller_line()}: {value!r} is no sequence")
    return value.type


def append(sequence: Term, item: object) -> Term:
    return make("append", (sequence, coerce(item, _seq(sequence).of)), sequence.type)


def prefix(sequence: Term, length: object) -> Term:
    """The first `length` elements, or all if there are fewer."""
    _seq(sequence)
    return make("prefix", (sequence, number(length)), sequence.type)


def rest(sequence: Term, start: object) -> Term:
    """What comes behind the first `start` elements."""
    _seq(sequence)
    return make("rest", (sequence, number(start)), sequence.type)


def concat(left: Term, right: Term) -> Term:
    """One sequence and then the other."""
    return make("concat", (left, coerce(right, _seq(left))), left.type)


def last(sequence: Term) -> Term:
    """The last element of a sequence that is not empty."""
    _seq(sequence)
    return sequence[size(sequence) - 1]


def indexes(sequence: Term) -> Term:
    """The numbers of the elements, from 0."""
    return numbers(0, size(sequence))
