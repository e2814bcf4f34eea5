"""Whether z3's answer to a query is bound to come: the fragment of logic named EPR.

Theory. z3 refutes a formula by naming elements and trying the "for all" on them. It names an element for each
constant, for each "there is" (one for each choice of what that depends on), and for each function's value.
If elements of A give rise to elements of B, write A -> B. As long as no way leads from a sort back to
itself, only finitely many elements can ever be named, and every query is decided: in the end there is a proof
or a finite counterexample. With a cycle, say "each node has a next one", z3 may name elements without end. It
may still find a proof; but that it does is luck, and `unknown` says nothing.

The edges are read off the very formulas that z3 gets, negated goal included: a "for all" under a negation is
a "there is". What a "there is" depends on are the variables that it mentions, directly or through others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import z3

from liftlog_spec.prover.induction import BEGINNING, FOLLOWS, Induction


class Fragment(msgspec.Struct, frozen=True):
    """`edges`: of all queries together. `cycle`: of one query, from a sort back to itself; empty in EPR."""

    decidable: bool
    edges: dict[str, list[str]]
    cycle: list[str] = []
    action: str = ""
    conjunct: str = ""


def fragment_of(induction: Induction) -> Fragment:
    """Of every query of a proof."""
    graph = _Graph()
    names = list(induction.conjuncts)
    axioms = graph.edges(induction.axioms)
    given = {name: graph.edges([induction.assumed[name]]) for name in names}
    together = set(axioms)
    first: tuple[list[str], str, str] | None = None
    for action, conjunct in induction.cases(names):
        after = induction.before
        edges = set(axioms)
        if action == BEGINNING:
            after = induction.first
            edges |= graph.edges(induction.first_guards)
        else:
            for name in induction.usable(action, conjunct, names):
                edges |= given[name]
            if action != FOLLOWS:
                after = induction.steps[action].after
                edges |= graph.edges(induction.steps[action].guards)
        edges |= graph.edges([z3.Not(induction.translator.property(induction.conjuncts[conjunct], after))])
        together |= edges
        if first is None and (cycle := cycle_in(edges)):
            first = (cycle, action, conjunct)
    shown: dict[str, list[str]] = {}
    for start, end in sorted(together):
        shown.setdefault(start, []).append(end)
    return Fragment(True, shown) if first is None else Fragment(False, shown, *first)


def cycle_in(edges: Iterable[tuple[str, str]]) -> list[str]:
    """A shortest way from a sort back to itself, ends included; empty if there is none."""
    following: dict[str, list[str]] = {}
    for start, end in sorted(set(edges)):
        following.setdefault(start, []).append(end)
    best: list[str] = []
    for start in following:
        ways, seen = [[start]], {start}
        while ways and not (best and len(ways[0]) >= len(best)):
            way = ways.pop(0)
            for end in following.get(way[-1], []):
                if end == start and (not best or len(way) + 1 < len(best)):
                    best = [*way, end]
                elif end not in seen:
                    seen.add(end)
                    ways.append([*way, end])
    return best


Binding = frozenset[str]
"""Of a bound variable: the sorts that its value depends on: its own, of a "for all"."""
Signs = frozenset[bool]
"""How a part of a formula counts: True as it stands, False under a negation."""


class _Graph:
    """Walks formulas, with their sign."""

    def __init__(self) -> None:
        self._found: set[tuple[str, str]] = set()
        self._seen: set[tuple[int, Signs, tuple[Binding, ...]]] = set()

    def edges(self, formulas: Iterable[Any]) -> set[tuple[str, str]]:
        self._found = set()
        self._seen = set()
        for formula in formulas:
            self._walk(formula, frozenset((True,)), ())
        return self._found

    def _walk(self, term: Any, signs: Signs, bound: tuple[Binding, ...]) -> None:
        """Innermost variable last."""
        key = (term.get_id(), signs, bound)
        if key in self._seen:
            return
        self._seen.add(key)
        if z3.is_quantifier(term):
            self._quantifier(term, signs, bound)
        elif z3.is_app(term):
            self._function(term)
            for number, child in enumerate(term.children()):
                self._walk(child, _signs_of(term, number, signs), bound)

    def _function(self, term: Any) -> None:
        """A function of elements gives rise to elements."""
        if term.decl().kind() == z3.Z3_OP_UNINTERPRETED and term.num_args() and _is_sort(term.sort()):
            for child in term.children():
                if _is_sort(child.sort()):
                    self._found.add((child.sort().name(), term.sort().name()))

    def _quantifier(self, term: Any, signs: Signs, bound: tuple[Binding, ...]) -> None:
        sorts = [term.var_sort(number) for number in range(term.num_vars())]
        for sign in signs:
            universal = term.is_forall() == sign
            depends: Binding = frozenset()
            if not universal:
                mentioned = _free(term.body(), len(sorts))
                depends = frozenset().union(*(bound[-1 - number] for number in mentioned))
                self._found |= {(start, s.name()) for start in depends for s in sorts if _is_sort(s)}
            own = [frozenset((s.name(),)) if universal and _is_sort(s) else depends for s in sorts]
            self._walk(term.body(), frozenset((sign,)), (*bound, *own))


def _signs_of(term: Any, number: int, signs: Signs) -> Signs:
    """Of a child: turned round under a negation, both where a truth value is compared or decides."""
    kind = term.decl().kind()
    if kind == z3.Z3_OP_NOT or (kind == z3.Z3_OP_IMPLIES and number == 0):
        return frozenset(not sign for sign in signs)
    if kind in (z3.Z3_OP_AND, z3.Z3_OP_OR, z3.Z3_OP_IMPLIES) or (kind == z3.Z3_OP_ITE and number > 0):
        return signs
    return frozenset((True, False))


def _free(term: Any, inner: int) -> set[int]:
    """Variables that are bound outside, counted from the innermost of those."""
    if z3.is_var(term):
        number = z3.get_var_index(term) - inner
        return {number} if number >= 0 else set()
    if z3.is_quantifier(term):
        return _free(term.body(), inner + term.num_vars())
    return set().union(*(_free(child, inner) for child in term.children()))


def _is_sort(sort: Any) -> bool:
    """One without end: truth values and enumerations are finite."""
    return bool(sort.kind() == z3.Z3_UNINTERPRETED_SORT)
