"""Which copies are to move so that all nodes keep as many, to one: a pure function of where they are.

A node that keeps more copies than another one has a partition of which the other has none, so that a copy
can always go straight from a node with too many to one with too few: none moves twice, and none leaves a node
that keeps no more than it is to keep. Where some partitions must stay as they are that may not reach all the
way: then the plan is what can be done around them, and another one may go on from there. Each makes the
counts more even, so that this ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple


class PlacedCopies(NamedTuple):
    """A partition, and who is to have a copy of it once what is under way is over."""

    stream: str
    partition: int
    nodes: tuple[int, ...]
    """The one first that is to lead."""
    stays: bool = False
    """It is counted, and left alone."""
    assignment: int = -1
    """Since which word that is so; -1 = not known."""

    def __str__(self) -> str:
        return f"'{self.stream}' partition {self.partition}"

    @property
    def key(self) -> tuple[str, int]:
        return self.stream, self.partition


class PlannedMove(NamedTuple):
    """A partition that is to have copies on other nodes: `to`, in this order."""

    copies: PlacedCopies
    to: tuple[int, ...]

    def __str__(self) -> str:
        before, after = (", ".join(map(str, nodes)) for nodes in (self.copies.nodes, self.to))
        return f"{self.copies}: nodes {before} -> {after}"

    @property
    def moved(self) -> int:
        """How many copies go to another node."""
        return len(set(self.to) - set(self.copies.nodes))


class Counts(NamedTuple):
    """By node: copies that it keeps, and partitions that it is to lead."""

    kept: dict[int, int]
    first: dict[int, int]


def counts(partitions: Iterable[PlacedCopies], able: Collection[int]) -> Counts:
    """Of the nodes that may have copies, and no others."""
    found = Counts(dict.fromkeys(sorted(able), 0), dict.fromkeys(sorted(able), 0))
    for copies in partitions:
        for node in copies.nodes:
            if node in found.kept:
                found.kept[node] += 1
        if copies.nodes and copies.nodes[0] in found.first:
            found.first[copies.nodes[0]] += 1
    return found


def changed(partitions: Iterable[PlacedCopies], moves: Iterable[PlannedMove]) -> list[PlacedCopies]:
    """Where the copies are when all of this is done."""
    to = {move.copies.key: move.to for move in moves}
    return [copies._replace(nodes=to.get(copies.key, copies.nodes)) for copies in partitions]


def spread(kept: dict[int, int]) -> int:
    """By how many copies two nodes differ at most."""
    return max(kept.values(), default=0) - min(kept.values(), default=0)


def balanced(partitions: Iterable[PlacedCopies], able: Collection[int]) -> list[PlannedMove]:
    """The least number of moved copies after which the nodes of `able` differ by one copy at most, ordered by
    stream and partition. A new copy takes the place in the order that the old one had; of the copies that may
    move those do by which the numbers of partitions that nodes are to lead come near to each other.
    """
    before = sorted(partitions)
    plan = _Plan(before, able)
    while plan.move_one():
        pass
    after = (tuple(nodes) for nodes in plan.nodes)
    return [PlannedMove(copies, to) for copies, to in zip(before, after, strict=True) if copies.nodes != to]


class _Plan:
    """What the moves that were chosen so far come to. `nodes`: of each partition."""

    def __init__(self, partitions: Sequence[PlacedCopies], able: Collection[int]) -> None:
        self.nodes = [list(copies.nodes) for copies in partitions]
        self._kept, self._first = counts(partitions, able)
        self._free: dict[int, dict[int, None]] = {node: {} for node in self._kept}
        """By node: the partitions, by index, of which it has a copy that may leave. Those with few copies
        come first: a single copy is always the first, and other partitions can give either.
        """
        for index, copies in sorted(enumerate(partitions), key=lambda one: len(one[1].nodes)):
            for node in () if copies.stays else copies.nodes:
                if node in self._free:
                    self._free[node][index] = None
        least, more = divmod(sum(self._kept.values()), len(self._kept) or 1)
        by_kept = sorted(self._kept, key=lambda node: (-self._kept[node], self._first[node], node))
        self._wanted = {node: least + (place < more) for place, node in enumerate(by_kept)}
        """How many copies each node is to keep: one more where most are, so that the fewest move; of those
        with as many, where fewer are firsts.
        """

    def move_one(self) -> bool:
        """Choose one more move; False: there is none."""
        kept, first, wanted = self._kept, self._first, self._wanted
        givers = [node for node in kept if kept[node] > wanted[node]]
        takers = [node for node in kept if kept[node] < wanted[node]]
        for giver in sorted(givers, key=lambda node: (-first[node], wanted[node] - kept[node], node)):
            for taker in sorted(takers, key=lambda node: (first[node], kept[node] - wanted[node], node)):
                index = self._choose(giver, taker)
                if index is not None:
                    self._move(index, giver, taker)
                    return True
        return False

    def _choose(self, giver: int, taker: int) -> int | None:
        """A partition whose copy can go: one that the giver is to lead if it is to lead two more than the
        taker, and else another one, where there is one.
        """
        leads = self._first[giver] - self._first[taker] > 1
        other = None
        for index in self._free[giver]:
            nodes = self.nodes[index]
            if taker in nodes:
                continue
            if (nodes[0] == giver) == leads:
                return index
            other = index if other is None else other
        return other

    def _move(self, index: int, giver: int, taker: int) -> None:
        place = self.nodes[index].index(giver)
        self.nodes[index][place] = taker
        del self._free[giver][index]
        for count in (self._kept, self._first) if place == 0 else (self._kept,):
            count[giver] -= 1
            count[taker] += 1
