"""A run that shows that a model is not empty talk: z3 finds parameters for a given sequence of actions.

A guard that is never true makes every invariant inductive. A proof therefore names a `sometimes` property
and actions that lead to it; who takes part, and which quorums and orders there are, is for z3 to find, in
an instance of the size that `check` explores.
"""

from __future__ import annotations

from typing import Any

import z3

from liftlog_spec.lang.model import Action, Property
from liftlog_spec.lang.types import SpecError
from liftlog_spec.prover.induction import Induction
from liftlog_spec.prover.picture import Counterexample, changes, lines_of
from liftlog_spec.prover.translate import Moment, SymbolicStep
from liftlog_spec.prover.universe import Universe


def find_run(
    induction: Induction, actions: tuple[str, ...], reaches: str, timeout_s: float
) -> tuple[str, list[str]]:
    """("found", the run as text), ("none", []) or ("unknown", [])."""
    goal = next((p for p in induction.model.sometimes if p.name == reaches), None)
    if goal is None:
        raise SpecError(f"model {induction.model.name} has no sometimes property {reaches!r}")
    known = {action.name: action for action in induction.model.actions}
    for name in actions:
        if name not in known:
            raise SpecError(
                f"model {induction.model.name} has no action {name!r}; it has: {', '.join(known)}"
            )
    run = _Run(induction)
    for number, name in enumerate(actions):
        run.take(known[name], number + 1)
    run.demand(goal)
    run.solver.set("timeout", int(timeout_s * 1000))
    result = run.solver.check()
    if result == z3.sat:
        return "found", run.text(run.solver.model())
    return ("none" if result == z3.unsat else "unknown"), []


class _Run:
    """Moments one after the other, in a finite universe: no quantifier is left."""

    def __init__(self, induction: Induction) -> None:
        self.translator = induction.translator
        self.values = induction.translator.values
        self.solver = z3.Solver()
        self.universe = Universe(
            self.values, induction.sorts, {name: sort.size for name, sort in induction.sorts.items()}
        )
        with self.universe:
            self._begin(induction)
        self.steps: list[SymbolicStep] = []

    def _begin(self, induction: Induction) -> None:
        model = induction.model
        self.solver.add(*self.universe.differ())
        first = self.translator.first()
        for action in model.initials:
            step = self.translator.step(action, first)
            for variable, value in zip(step.chosen, step.parameters, strict=True):
                self.solver.add(*self.universe.inside(variable.type, value))
            self.solver.add(*step.guards)
            first = step.after
        self.moments: list[Moment] = [self._named(first, list(model.types), 0)]
        self.solver.add(*(self.translator.property(found, self.moments[0]) for found in model.axioms))

    def take(self, action: Action, number: int) -> None:
        with self.universe:
            step = self.translator.step(action, self.moments[-1])
            self.solver.add(*step.guards)
            for variable, value in zip(step.chosen, step.parameters, strict=True):
                self.solver.add(*self.universe.inside(variable.type, value))
            self.steps.append(step)
            self.moments.append(self._named(step.after, list(action.updates), number))

    def demand(self, goal: Property) -> None:
        """It holds at the end."""
        with self.universe:
            self.solver.add(self.translator.property(goal, self.moments[-1]))

    def _named(self, moment: Moment, names: list[str], number: int) -> Moment:
        """The moment with new symbols for these variables, defined by what they were."""
        named = dict(moment)
        for name, symbol in self.translator.unknown(f"@{number}").items():
            if name in names:
                kind = self.translator.model.types[name]
                self.solver.add(*self.universe.inside(kind, symbol))
                if name not in self.translator.rigid:
                    self.solver.add(self.values.equal(kind, symbol, moment[name]))
                named[name] = symbol
        return named

    def text(self, found: Any) -> list[str]:
        with self.universe:
            picture = Counterexample(self.translator, found, self.universe.elements)
            facts = [picture.facts(moment) for moment in self.moments]
            rigid = {n: f for n, f in facts[0].items() if n in self.translator.rigid}
            lines = lines_of(rigid)
            for step, before, after in zip(self.steps, facts, facts[1:], strict=False):
                lines += [picture.step(step), *(f"  {line}" for line in changes(before, after))]
        return lines
