"""Few paths that together have every pair of consecutive actions that a walk has found.

Greedy: begin with the pair that lies deepest, since the shortest way there has many others; where that way
ends, go on to the nearest pair that is still missing, as long as one is near; then begin again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from liftlog_spec.cover.reading import Taken
from liftlog_spec.cover.walk import FIRST, Pair, Walk, pairs_of
from liftlog_spec.run.compiled import State

NEAR_STATES = 150
"""So many states are looked at for the nearest missing pair."""
STEPS_MOST = 60
"""A path that is longer is hard to read."""


class Path:
    """A first state and the moves from there."""

    def __init__(self, start: State, moves: Sequence[list[Taken]] = ()) -> None:
        self.start = start
        self.moves = list(moves)

    @property
    def end(self) -> State:
        return self.moves[-1][-1].after if self.moves else self.start

    @property
    def actions(self) -> list[str]:
        return [step.action for move in self.moves for step in move]

    @property
    def pairs(self) -> list[Pair]:
        return pairs_of(FIRST, tuple(self.actions))


def choose_paths(
    walk: Walk, pairs_before: AbstractSet[Pair] = frozenset(), actions_before: AbstractSet[str] = frozenset()
) -> list[Path]:
    """Paths that have every pair and every action of the walk, less those that others had before."""
    depth = {pair: len(walk.way(*place)) for pair, place in walk.pairs.items() if pair not in pairs_before}
    order = sorted(depth, key=lambda pair: (-depth[pair], pair))
    missing = dict.fromkeys(order)
    alone = dict.fromkeys(sorted(set(walk.actions) - actions_before))
    paths: list[Path] = []
    for pair in order:
        if pair in missing:
            paths.append(_path_to(walk, pair, missing))
            for action in paths[-1].actions:
                alone.pop(action, None)
    for action in list(alone):
        # It is neither preceded nor followed by anything: a path of its own.
        start, moves = walk.walked(walk.way(*walk.actions[action]))
        paths.append(Path(start, moves))
    return paths


def _path_to(walk: Walk, pair: Pair, missing: dict[Pair, None]) -> Path:
    start, moves = walk.walked(walk.way(*walk.pairs[pair]))
    path = Path(start, moves)
    for found in path.pairs:
        missing.pop(found, None)
    while missing and len(path.actions) < STEPS_MOST:
        more = _nearest(walk, path, missing)
        if not more:
            break
        path.moves += more
        for found in path.pairs:
            missing.pop(found, None)
    return path


def _nearest(walk: Walk, path: Path, missing: dict[Pair, None]) -> list[list[Taken]]:
    """Moves from the path's end to the nearest missing pair; none if it is not near."""
    begin = (walk.mark(path.end), path.actions[-1])
    queue: deque[tuple[State, str, list[list[Taken]]]] = deque([(path.end, path.actions[-1], [])])
    seen = {begin}
    looked = 0
    while queue and looked < NEAR_STATES:
        state, last, way = queue.popleft()
        looked += 1
        for move in walk.moves(state):
            actions = tuple(step.action for step in move)
            if any(pair in missing for pair in pairs_of(last, actions)):
                return [*way, move]
            node = (walk.mark(move[-1].after), actions[-1])
            if node not in seen:
                seen.add(node)
                queue.append((move[-1].after, actions[-1], [*way, move]))
    return []
