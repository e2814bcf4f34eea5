"""What SANY or TLC would refuse in a printed module, found without them.

The text is read with the parser of another project (`tla`), not by what printed it, and three things are
looked for, each of which once kept exported models from being checked by anybody else:

- a name that is bound again inside its own scope, or that the module has already;
- a disjunction whose right side may have no value where the left side is true: TLC evaluates both in actions;
- a set that TLC writes out although it is large: a set of sets, of functions or of records that something
  runs through or that stands inside another written-out set, or a long interval.

What may have no value is told from the text: an element of a sequence (its index has one added), MinOf and
MaxOf of a set that may be empty, a part of a sequence, a field of what the module compares with None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import tla

MOST_ELEMENTS = 10_000
"""Of an interval that something runs through."""

_WRITTEN_OUT = {"SetOfFunctions": "of functions", "SetOfRecords": "of records"}


def lint(module: str, config: str = "") -> list[str]:
    """What is wrong with a module, one line each. `config`: the .cfg, for the constants' values."""
    tree = tla.parse(module)
    return list(dict.fromkeys(_Linter(tree, _constants(config)).module()))


def _constants(config: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"^    (\w+) = (-?\d+)$", config, re.MULTILINE)}


def _kind(node: Any) -> str:
    return type(node).__name__


def _parts(node: Any) -> Iterator[Any]:
    """The nodes right below one."""
    for name in getattr(node, "_fields", ()):
        if name in ("symbol", "start", "end"):
            continue
        held = getattr(node, name)
        for part in held if isinstance(held, list | tuple) and not hasattr(held, "_fields") else [held]:
            if hasattr(part, "_fields"):
                yield part


def _below(node: Any) -> Iterator[Any]:
    """The node and all under it."""
    yield node
    for part in _parts(node):
        yield from _below(part)


def _bare(node: Any) -> Any:
    """Without brackets around it."""
    while _kind(node) == "Parentheses":
        node = node.expression
    return node


def _operator(node: Any) -> str:
    return str(node.operator) if _kind(node) == "OperatorApplication" else ""


def _arguments(node: Any) -> list[Any]:
    return list(node.arguments or ())


class _Linter:
    def __init__(self, tree: Any, constants: dict[str, int]) -> None:
        self._constants = constants
        self._definitions = {unit.name: unit for unit in tree.units if _kind(unit) == "OperatorDefinition"}
        self._taken = set(self._definitions)
        for unit in tree.units:
            if _kind(unit) in ("Variables", "Constants"):
                self._taken |= {_operator(name) or str(name) for name in unit.names}
        self._where = ""
        self._optional = {self._shape(side) for side in self._compared_with_none(tree)}

    def module(self) -> Iterator[str]:
        for name, unit in self._definitions.items():
            self._where = name
            parameters = [_operator(parameter) for parameter in unit.arity or ()]
            yield from self._bind(parameters, set())
            yield from self._walk(unit.definiens, set(parameters))

    # -- bound names ---------------------------------------------------------------------------------------

    def _bind(self, names: list[str], scope: set[str]) -> Iterator[str]:
        seen: set[str] = set()
        for name in names:
            if name in scope or name in seen:
                yield f"{self._where}: {name} is bound twice"
            elif name in self._taken:
                yield f"{self._where}: {name} is bound, but the module has a {name}"
            seen.add(name)

    def _declared(self, declarations: Any) -> tuple[list[str], list[Any]]:
        """Names and domains of `x, y \\in S, z \\in T`."""
        held = declarations if isinstance(declarations, list | tuple) else [declarations]
        if hasattr(declarations, "_fields"):
            held = [declarations]
        names, domains = [], []
        for each in held:
            if _operator(each) == "\\in":
                name, domain = _arguments(each)
                names.append(_operator(name))
                domains.append(domain)
            else:
                names.append(_operator(each))
        return names, domains

    def _walk(self, node: Any, scope: set[str]) -> Iterator[str]:
        declared = None
        for field in ("declarations", "declaration"):
            declared = declared or getattr(node, field, None)
        if declared is not None and _kind(node) != "Sequent":
            names, domains = self._declared(declared)
            yield from self._bind(names, scope)
            for domain in domains:
                yield from self._run_through(domain)
                yield from self._walk(domain, scope)
            for part in _parts(node):
                if not any(part is each for each in self._flat(declared)):
                    yield from self._walk(part, scope | set(names))
            return
        if _operator(node) == "\\/":
            yield from self._disjunction(_arguments(node)[1:])
        if _kind(node) == "VerticalList" and node.operator == "\\/" and self._where != "Next":
            yield from self._disjunction([item.expression for item in node.arguments][1:])
        if _operator(node) == "UNION":
            yield from self._run_through(_arguments(node)[0])
        for part in _parts(node):
            yield from self._walk(part, scope)

    def _flat(self, declared: Any) -> list[Any]:
        return [declared] if hasattr(declared, "_fields") else list(declared)

    # -- disjunctions --------------------------------------------------------------------------------------

    def _disjunction(self, sides: list[Any]) -> Iterator[str]:
        for side in sides:
            why = self._partial(side, frozenset())
            if why:
                yield f"{self._where}: the right side of a disjunction has {why}; write IF"

    def _partial(self, node: Any, within: frozenset[str]) -> str:
        """Why a node may have no value, or ""."""
        for each in _below(node):
            match _kind(each):
                case "FunctionApplication":
                    if any(_operator(_bare(index)) in ("+", "-") for index in each.arguments):
                        return "an element of a sequence"
                case "Field":
                    if self._shape(each.expression) in self._optional:
                        return f"a field of {self._shape(each.expression)}, which may be None"
                case "OperatorApplication":
                    called = self._called(each, within)
                    if called:
                        return called
        return ""

    def _called(self, node: Any, within: frozenset[str]) -> str:
        name = _operator(node)
        if name in ("MinOf", "MaxOf") and _kind(_bare(_arguments(node)[0])) != "SetEnumeration":
            return f"{name} of a set that may be empty"
        if name in ("SubSeq", "Head", "Tail"):
            return "a part of a sequence"
        if name in self._definitions and name not in within and name not in ("MinOf", "MaxOf"):
            return self._partial(self._definitions[name].definiens, within | {name})
        return ""

    def _compared_with_none(self, tree: Any) -> Iterator[Any]:
        for node in _below(tree):
            if _operator(node) in ("=", "#"):
                left, right = _arguments(node)
                if _operator(_bare(right)) == "None":
                    yield left

    def _shape(self, node: Any) -> str:
        """An expression without what stands in its indexes: `known[_]`."""
        node = _bare(node)
        match _kind(node):
            case "FunctionApplication":
                return f"{self._shape(node.function)}[_]"
            case "Field":
                return f"{self._shape(node.expression)}.{node.name}"
            case "OperatorApplication":
                return _operator(node)
        return "_"

    # -- large sets ----------------------------------------------------------------------------------------

    def _run_through(self, domain: Any) -> Iterator[str]:
        domain = _bare(domain)
        if _kind(domain) in _WRITTEN_OUT:
            yield f"{self._where}: runs through a set {_WRITTEN_OUT[_kind(domain)]}"
        if _operator(domain) == "SUBSET":
            yield f"{self._where}: runs through a set of sets"
        if _operator(domain) == "..":
            low, high = (self._number(side) for side in _arguments(domain))
            if low is not None and high is not None and high - low >= MOST_ELEMENTS:
                yield f"{self._where}: runs through {high - low + 1:,} numbers"
        if _kind(domain) == "SetComprehension":
            item = _bare(domain.item)
            if _kind(item) in _WRITTEN_OUT or _operator(item) == "SUBSET":
                yield f"{self._where}: writes out a set whose elements are sets"

    def _number(self, node: Any) -> int | None:
        """A number that the constants alone decide."""
        node = _bare(node)
        if _kind(node) == "IntegralNumeral":
            return int(node.value)
        if _operator(node) in ("+", "-") and len(_arguments(node)) == 2:
            left, right = (self._number(side) for side in _arguments(node))
            if left is None or right is None:
                return None
            return left + right if _operator(node) == "+" else left - right
        return self._constants.get(_operator(node))
