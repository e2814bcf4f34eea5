"""Induction: what holds at first and is kept by every action holds always.

Theory. An invariant worth having ("no two leaders in a term") is seldom inductive by itself: from a state
that is safe but could never arise, one action may lead into harm. Such a state is a counterexample to
induction. The cure is to say more about the states that do arise: further conjuncts, until all of them
together are kept by every action. Then nothing was explored and nothing is bounded; the claim holds for
any number of elements.

Each query asks z3 for a state where all conjuncts hold, parameters for which one action is possible
there, and one conjunct that fails afterwards. `unsat` proves that case. z3 also says which conjuncts it
needed, so that only few queries must be asked again when one is left out.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
import z3

from liftlog_spec.lang.model import Model
from liftlog_spec.lang.types import Sort, SpecError
from liftlog_spec.prover.translate import Moment, SymbolicStep, Translator, mentions, sorts_of
from liftlog_spec.prover.values import Elements

BEGINNING = "(first state)"
FOLLOWS = "(any state)"
"""In place of an action: a conjunct that the others imply needs no induction of its own."""


class QueryAnswer(msgspec.Struct, frozen=True):
    """Of one query. `core`: the conjuncts that the proof needed; `model`: z3's counterexample, and what there
    is in it, and the step, if it was sought in a finite universe.
    """

    action: str
    conjunct: str
    verdict: str
    seconds: float
    core: frozenset[str] = frozenset()
    model: Any = None
    elements: Elements | None = None
    step: SymbolicStep | None = None


class Induction:
    """The queries of one model. Its conjuncts are its invariants."""

    def __init__(self, model: Model, timeout_s: float, follows: tuple[str, ...] = ()) -> None:
        self.follows = follows
        check_names(model, self.follows)
        self.model = model
        self.timeout_s = timeout_s
        self.translator = Translator(model)
        self.conjuncts = {found.name: found for found in model.invariants}
        self.sorts: dict[str, Sort] = sorts_of(model)
        self.before = self.translator.unknown()
        for found in model.axioms:
            if loose := mentions(found.body) - set(self.translator.rigid):
                raise SpecError(
                    f"model {model.name}, {found.name} ({found.line}): an axiom speaks of rigid parts only, "
                    f"not of {', '.join(sorted(loose))}"
                )
        self.axioms = [self.translator.property(found, self.before) for found in model.axioms]
        self.assumed = {n: self.translator.property(p, self.before) for n, p in self.conjuncts.items()}
        self.steps: dict[str, SymbolicStep] = {}
        for action in model.actions:
            self.steps[action.name] = self.translator.step(action, self.before)
        self.first_guards, self.first = self._begin()

    def _begin(self) -> tuple[list[Any], Moment]:
        moment, guards = self.translator.first(), []
        for action in self.model.initials:
            step = self.translator.step(action, moment)
            guards += step.guards
            moment = step.after
        return guards, moment

    def cases(self, conjuncts: list[str]) -> list[tuple[str, str]]:
        """(action, conjunct) of every query; actions that touch nothing of a conjunct keep it anyway."""
        found = [(FOLLOWS, name) for name in conjuncts if name in self.follows]
        conjuncts = [name for name in conjuncts if name not in self.follows]
        found += [(BEGINNING, name) for name in conjuncts]
        for action in self.model.actions:
            changed = action.updates.keys()
            found += [(action.name, n) for n in conjuncts if changed & mentions(self.conjuncts[n].body)]
        return found

    def ask(
        self,
        action: str,
        conjunct: str,
        given: list[str],
        most: dict[str, int] | None = None,
        timeout_s: float = 0,
    ) -> QueryAnswer:
        """One query. `most`: at most so many elements of these sorts."""
        solver = z3.Solver()
        solver.set("timeout", int((timeout_s or self.timeout_s) * 1000))
        solver.add(*self.axioms)
        for name, number in (most or {}).items():
            solver.add(self._at_most(self.sorts[name], number))
        if action == BEGINNING:
            solver.add(*self.first_guards)
            after = self.first
        else:
            for name in self.usable(action, conjunct, given):
                solver.assert_and_track(self.assumed[name], f"given {name}")
            after = self.before
            if action != FOLLOWS:
                solver.add(*self.steps[action].guards)
                after = self.steps[action].after
        solver.add(z3.Not(self.translator.property(self.conjuncts[conjunct], after)))
        started = time.monotonic()
        result = solver.check()
        seconds = time.monotonic() - started
        if result == z3.unsat:
            core = frozenset(str(name).removeprefix("given ") for name in solver.unsat_core())
            return QueryAnswer(action, conjunct, "proved", seconds, core)
        if result == z3.sat:
            return QueryAnswer(action, conjunct, "refuted", seconds, model=solver.model())
        return QueryAnswer(action, conjunct, "unknown", seconds)

    def usable(self, action: str, conjunct: str, given: list[str]) -> list[str]:
        """What follows is not needed, except for what follows later."""
        first = self.follows.index(conjunct) if action == FOLLOWS else 0
        later = self.follows[first:]
        return [name for name in given if name not in later]

    def _at_most(self, sort: Sort, number: int) -> Any:
        kind = self.translator.values.sort(sort)
        names = [z3.Const(f"{sort.name} {position + 1}", kind) for position in range(number)]
        anyone = z3.Const(f"any {sort.name}", kind)
        return z3.ForAll([anyone], z3.Or(*(anyone == name for name in names)))


def check_names(model: Model, names: tuple[str, ...]) -> None:
    """Raises SpecError for a conjunct that is not there."""
    known = [found.name for found in model.invariants]
    for name in names:
        if name not in known:
            raise SpecError(f"model {model.name} has no invariant {name!r}; it has: {', '.join(known)}")
