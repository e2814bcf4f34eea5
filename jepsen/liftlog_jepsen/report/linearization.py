"""The longest partial linearization of a problem, as far as a check told, in a shape that is easy to draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from liftlog_jepsen.judgement import Problem
from liftlog_jepsen.report.operation_text import plural, sentence


class PossibleNext(NamedTuple):
    """What could come next in time, and why it does not help. `possible`: the object would allow it."""

    number: int
    words: str
    possible: bool


class Linearization(NamedTuple):
    """`order`: numbers of operations. `states`: what is so after them, as far as it is known, by number.

    `alone`: it is about the operations that contradict each other and no others.
    """

    order: tuple[int, ...]
    state: str
    states: Mapping[int, str]
    stuck: tuple[PossibleNext, ...]
    alone: bool

    def how_far(self) -> str:
        """How many operations are in order, as a sentence without its end."""
        count = plural(len(self.order), "operation")
        if self.alone:
            return f"Of the operations that contradict each other, taken alone, {count} can be put in order"
        return f"An order was found for {count}" if self.order else "Not one operation could come first"

    def after(self) -> str:
        """Introduces the state."""
        return "After that" if self.order else "At the beginning"


def linearization_of(problem: Problem) -> Linearization | None:
    """What `Problem.detail` has, if anything.

    Algorithms that do not search name the few operations that contradict each other, and what is known is
    an order of these alone. If not even one of them could come first, others matter, and there is nothing
    to learn from it.
    """
    known = problem.detail.get("linearization")
    if not known:
        return None
    order = tuple(known["linearized"])
    stuck = tuple(
        PossibleNext(each["operation"], sentence(str(each["words"])), bool(each.get("possible")))
        for each in known["stuck"]
    )
    named = {*order, *(each.number for each in stuck)}
    alone = named <= set(problem.operations)
    if alone and not order:
        return None
    state = sentence(str(known["state"]))
    states = {
        number: sentence(str(each)) for number, each in zip(order, known.get("states") or (), strict=False)
    }
    if order:
        states[order[-1]] = state
    return Linearization(order, state, states, stuck, alone)
