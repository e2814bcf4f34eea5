"""A walk through a model's reachable states that finds every action and every pair of consecutive actions.

A pair (a, b) is reachable if some state can be reached by a step of a, and has a step of b. So the walk is
through nodes (state, action that led there); each state is expanded once, and nodes come in the order of
their distance, so that the first place where a pair is found is one of the nearest.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import NamedTuple

from liftlog_spec.cover.limits import Limits, Moves
from liftlog_spec.cover.reading import StateNames, Taken
from liftlog_spec.explore.visited import fingerprint
from liftlog_spec.run.compiled import CompiledModel, State

Pair = tuple[str, str]
FIRST = ""
"""In place of the action that led to a first state."""


class Hop(NamedTuple):
    """A move as the walk remembers it: its actions and the fingerprint of the state at its end."""

    actions: tuple[str, ...]
    mark: int


class WalkNode(NamedTuple):
    mark: int
    action: str


class Walk:
    """All nodes that are reachable, or the nearest `most` states of them.

    `actions` and `pairs`: name or pair -> the node from which the hop that has it starts, and the hop.
    """

    def __init__(
        self, compiled: CompiledModel, limits: type[Limits] = Limits, symmetry: bool = True, most: int = 0
    ) -> None:
        self.reader = StateNames(compiled)
        self.limits = limits(self.reader)
        self._moves = Moves(self.reader, self.limits)
        self._image = compiled.canonical if symmetry else _same
        self._most = most
        self.actions: dict[str, tuple[WalkNode, Hop]] = {}
        self.pairs: dict[Pair, tuple[WalkNode, Hop]] = {}
        self.refusals: dict[Pair, str] = {}
        """Pair of which the second action was refused, or did not follow, -> the first reason found."""
        self.refused_actions: dict[str, str] = {}
        self.parents: dict[WalkNode, tuple[WalkNode, Hop] | None] = {}
        self._waiting: dict[int, State] = {}
        self._hops: dict[int, list[Hop]] = {}
        self._refused: dict[int, list[tuple[str, str]]] = {}
        self.complete = True
        self._first = [self.canonical(state) for state in compiled.initial()]
        self._go()

    @property
    def states(self) -> int:
        return len(self._hops)

    def canonical(self, state: State) -> State:
        """The one state that stands for all that differ from it only by names."""
        return self._image(state)

    def mark(self, state: State) -> int:
        return fingerprint(self.canonical(state))

    def moves(self, state: State) -> list[list[Taken]]:
        """What the core may do from here."""
        return self._moves.of(state).moves

    def first(self) -> list[State]:
        """First states, with names as the model gives them."""
        return self.reader.compiled.initial()

    def _go(self) -> None:
        queue: deque[WalkNode] = deque()
        for state in self._first:
            node = WalkNode(fingerprint(state), FIRST)
            if node not in self.parents:
                self.parents[node] = None
                self._waiting[node.mark] = state
                queue.append(node)
        while queue:
            node = queue.popleft()
            if node.mark not in self._hops:
                if self._most and self.states >= self._most:
                    self.complete = False
                    continue
                self._expand(node.mark)
            for action, reason in self._refused[node.mark]:
                self.refusals.setdefault((node.action, action), reason)
            for hop in self._hops[node.mark]:
                self._note(node, hop)
                following = WalkNode(hop.mark, hop.actions[-1])
                if following not in self.parents:
                    self.parents[following] = (node, hop)
                    queue.append(following)

    def _expand(self, mark: int) -> None:
        state = self._waiting.pop(mark)
        moves, refused, cut = self._moves.of(state)
        hops: dict[Hop, None] = {}
        for move in moves:
            end = self.canonical(move[-1].after)
            hop = Hop(tuple(step.action for step in move), fingerprint(end))
            hops[hop] = None
            if hop.mark not in self._hops and hop.mark != mark:
                self._waiting.setdefault(hop.mark, end)
        self._hops[mark] = list(hops)
        self._refused[mark] = list(dict.fromkeys(refused))
        for action, reason in refused:
            self.refused_actions.setdefault(action, reason)
        for first, second, reason in cut:
            self.refusals.setdefault((first, second), reason)

    def _note(self, node: WalkNode, hop: Hop) -> None:
        for action in hop.actions:
            self.actions.setdefault(action, (node, hop))
        for pair in pairs_of(node.action, hop.actions):
            self.pairs.setdefault(pair, (node, hop))

    def way(self, node: WalkNode, hop: Hop) -> list[Hop]:
        """Hops from a first state through `node` to the end of `hop`."""
        hops = [hop]
        step = self.parents[node]
        while step is not None:
            node, hop = step
            hops.append(hop)
            step = self.parents[node]
        return list(reversed(hops))

    def walked(self, way: list[Hop]) -> tuple[State, list[list[Taken]]]:
        """The way again as steps from a first state, with names as the model gives them."""
        start = self._start(way)
        state, found = start, []
        for hop in way:
            move = next(
                move
                for move in self.moves(state)
                if tuple(step.action for step in move) == hop.actions
                and self.mark(move[-1].after) == hop.mark
            )
            found.append(move)
            state = move[-1].after
        return start, found

    def follow(self, state: State, wanted: list[Taken]) -> tuple[list[Taken], str]:
        """The move from here that goes along these steps; or none, and why."""
        return self._moves.along(state, wanted)

    def _start(self, way: list[Hop]) -> State:
        for state in self.first():
            hops = self._hops[self.mark(state)]
            if way[0] in hops:
                return state
        raise AssertionError(f"no first state has {way[0].actions}")


def pairs_of(before: str, actions: tuple[str, ...]) -> list[Pair]:
    """Consecutive actions, with the one before."""
    every = (before, *actions) if before else actions
    return list(pairwise(every))


def _same(state: State) -> State:
    return state
