"""Queries in universes of given size, where z3 answers at once.

A counterexample in a small universe is one in logic too. That there is none proves nothing about larger
universes; but what was needed to see it are few conjuncts, and with only these z3 mostly finds the proof for
all universes, where it may lose its way among all of them.
"""

from __future__ import annotations

import time
from typing import Any

import z3

from liftlog_spec.prover.induction import BEGINNING, FOLLOWS, Induction, QueryAnswer
from liftlog_spec.prover.translate import Moment, SymbolicStep
from liftlog_spec.prover.universe import Universe

Sizes = dict[str, int]


class Finite:
    """The queries of one induction in a universe of one size. Formulas are made once, when first needed."""

    def __init__(self, induction: Induction, sizes: Sizes) -> None:
        self._induction = induction
        self._translator = induction.translator
        self.sizes = sizes
        self.universe = Universe(induction.translator.values, induction.sorts, sizes)
        self._before = induction.before
        self._given: dict[str, Any] = {}
        self._steps: dict[str, SymbolicStep] = {}
        self._solvers: dict[str, tuple[Any, Moment]] = {}
        self._assumed: set[tuple[str, str]] = set()

    def ask(
        self,
        action: str,
        conjunct: str,
        given: list[str],
        timeout_s: float,
        one: frozenset[str] = frozenset(),
    ) -> QueryAnswer:
        """One query. `one`: sorts of which there is a single element, whatever the size.

        `core` are conjuncts that were needed here, as few as is easy to find out.
        """
        started = time.monotonic()
        with self.universe:
            solver, after = self._solver(action)
            goal = z3.Not(self._translator.property(self._induction.conjuncts[conjunct], after))
            names = [] if action == BEGINNING else self._induction.usable(action, conjunct, given)
            marks = [z3.Bool(f"{'one' if sort in one else 'many'} {sort}") for sort in self.sizes]
            marks += [z3.Bool(f"given {name}") for name in names]
            for name in names:
                self._assume(action, solver, name)
        solver.push()
        try:
            solver.add(goal)
            solver.set("timeout", int(timeout_s * 1000))
            result = solver.check(*marks)
            seconds = time.monotonic() - started
            if result == z3.sat:
                elements = {n: e[:1] if n in one else e for n, e in self.universe.elements.items()}
                found = (solver.model(), elements, self._steps.get(action))
                return QueryAnswer(action, conjunct, "refuted", seconds, frozenset(), *found)
            if result == z3.unsat:
                marked = [str(mark).partition(" ") for mark in solver.unsat_core()]
                core = frozenset(name for word, _, name in marked if word == "given")
                return QueryAnswer(action, conjunct, "proved", seconds, core)
            return QueryAnswer(action, conjunct, "unknown", seconds)
        finally:
            solver.pop()

    def _solver(self, action: str) -> tuple[Any, Moment]:
        """With everything but conjuncts: what exists, the axioms, that the action is possible."""
        induction, universe = self._induction, self.universe
        if action in self._solvers:
            return self._solvers[action]
        solver = z3.Solver()
        solver.set("core.minimize", True)
        for sort in self.sizes:
            solver.add(z3.Implies(z3.Bool(f"many {sort}"), universe.differs(sort)))
            solver.add(z3.Implies(z3.Bool(f"one {sort}"), universe.same(sort)))
        solver.add(*universe.nothing())
        types = self._translator.model.types
        moment = induction.first if action == BEGINNING else self._before
        for name, kind in types.items():
            solver.add(*universe.inside(kind, moment[name]))
        solver.add(*(self._translator.property(found, moment) for found in induction.model.axioms))
        if action == BEGINNING:
            for recorded in induction.model.initials:
                moment = self._take(solver, self._translator.step(recorded, moment))
        elif action != FOLLOWS:
            recorded = next(found for found in induction.model.actions if found.name == action)
            self._steps[action] = self._translator.step(recorded, moment)
            moment = self._take(solver, self._steps[action])
        self._solvers[action] = (solver, moment)
        return solver, moment

    def _take(self, solver: Any, step: SymbolicStep) -> Moment:
        solver.add(*step.guards)
        for variable, value in zip(step.chosen, step.parameters, strict=True):
            solver.add(*self.universe.inside(variable.type, value))
        return step.after

    def _assume(self, action: str, solver: Any, name: str) -> None:
        """Once for each solver: the mark means the conjunct."""
        if (action, name) in self._assumed:
            return
        self._assumed.add((action, name))
        if name not in self._given:
            self._given[name] = self._translator.property(self._induction.conjuncts[name], self._before)
        solver.add(z3.Implies(z3.Bool(f"given {name}"), self._given[name]))
