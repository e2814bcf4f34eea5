"""What the core does not leave open although a model does.

A model takes apart what the core does in one step: a report arrives, and the high watermark moves in another
step. A model also allows what the core never does, since it does not hurt. Both are stated here, as a table
of reasons by name and two questions about a step. Limits narrow which *paths* are driven; which actions and
pairs of actions exist is counted in the model's whole graph. What a limit takes away for good is listed by
name, with the reason, beside the scenarios.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

from liftlog_spec.cover.reading import Shown, StateNames, Taken
from liftlog_spec.run.compiled import State


class Limits:
    """None: everything that the model allows is a step of its own."""

    reasons: ClassVar[dict[str, str]] = {}
    """Name -> a sentence. `refuses` and `forces` answer with these names."""
    rides: ClassVar[dict[str, str]] = {}
    """Actions that the core takes only in the same breath with what makes them possible -> the reason."""

    undriven: ClassVar[tuple[str, ...]] = ()
    """Actions that the core does not have, and that no plan's bounds allow."""

    weights: ClassVar[dict[str, float]] = {}
    """How often a random path takes an action, beside 1 for the others."""

    def __init__(self, reader: StateNames) -> None:
        self.reader = reader

    def refuses(self, before: Shown, step: Taken, given: dict[str, Any]) -> str:
        """Why the core cannot do this from a state at rest; empty if it can."""
        return ""

    def forces(
        self, after: Shown, done: Sequence[tuple[Taken, dict[str, Any]]], possible: Callable[[], list[Taken]]
    ) -> tuple[str, list[Taken]]:
        """What the core does in the same breath.

        `done`: what it has done since the last state at rest. ("", []): the state is at rest.
        (reason, steps): one of these follows. (reason, []): something would have to follow that the model
        does not allow here; so that all of `done` cannot be driven.
        """
        return "", []


class PossibleMoves(NamedTuple):
    """`refused`: (first action, reason). `cut`: (one, other, reason), pairs that a move has no room for."""

    moves: list[list[Taken]]
    refused: list[tuple[str, str]]
    cut: list[tuple[str, str, str]]


class Moves:
    """What the core may do from a state at rest: one step and what follows from it in the same breath."""

    def __init__(self, reader: StateNames, limits: Limits) -> None:
        self._reader = reader
        self._limits = limits

    def of(self, state: State) -> PossibleMoves:
        """What may be done from here, and what may not."""
        moves: list[list[Taken]] = []
        refused: list[tuple[str, str]] = []
        cut: list[tuple[str, str, str]] = []
        before = self._reader.shown(state)
        for step in self._reader.steps(state):
            given = self._reader.parameters(step)
            reason = self._limits.refuses(before, step, given)
            if reason:
                refused.append((step.action, reason))
                continue
            moves += self._complete(step, given, refused, cut)
        return PossibleMoves(moves, refused, cut)

    def along(self, state: State, wanted: Sequence[Taken]) -> tuple[list[Taken], str]:
        """The move along these steps, as far as it is one; or none, and what the core does not do."""
        first = wanted[0]
        given = self._reader.parameters(first)
        reason = self._limits.refuses(self._reader.shown(state), first, given)
        if reason:
            return [], reason
        done = [(first, given)]
        for following in [*wanted[1:], None]:
            last = done[-1][0]
            possible = partial(self._reader.steps, last.after)
            reason, steps = self._limits.forces(self._reader.shown(last.after), done, possible)
            if not reason:
                break
            if following not in steps:
                return [], reason
            done.append((following, self._reader.parameters(following)))
        return [taken for taken, _ in done], ""

    def _complete(
        self,
        step: Taken,
        given: dict[str, Any],
        refused: list[tuple[str, str]],
        cut: list[tuple[str, str, str]],
    ) -> list[list[Taken]]:
        complete: list[list[Taken]] = []
        open_moves = [[(step, given)]]
        while open_moves:
            done = open_moves.pop()
            last = done[-1][0]
            possible = cache(partial(self._reader.steps, last.after))
            reason, following = self._limits.forces(self._reader.shown(last.after), done, possible)
            if not reason:
                complete.append([taken for taken, _ in done])
                continue
            names = {taken.action for taken in following}
            cut += [(last.action, other.action, reason) for other in possible() if other.action not in names]
            if not following:
                refused.append((step.action, reason))
            for taken in reversed(following):
                open_moves.append([*done, (taken, self._reader.parameters(taken))])
        return complete
