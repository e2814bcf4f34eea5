"""The smallest cycle of every kind in a graph of transactions.

An edge says why one transaction comes before another: `ww` (it wrote the version before), `wr` (the other
read what it wrote), `rw` (the other overwrote what it read), `process` (one client ran them in this order) or
`realtime` (it ended before the other began). A cycle of such edges is an anomaly, and its kind is decided by
the edges that it needs (Adya, "Weak Consistency", 1999, sections 4.2 and 4.4; Kingsbury and Alvaro, "Elle",
VLDB 2020, section 4):

| kind | edges |
|---|---|
| `G0` | ww only |
| `G1c` | ww and wr, at least one wr |
| `G-single` | the same and exactly one rw |
| `G-nonadjacent` | two or more rw, never two in a row |
| `G2-item` | two or more rw, two of them in a row |

With the suffix `-process` or `-realtime` the cycle also needs at least one edge of that sort (and may, for
`-realtime`, use process edges). The kinds are searched from the most basic to the most subtle. A kind that
one already found implies is left out, since it would say the same again: every `G0` is a `G1c`, and every
cycle is one with realtime edges too.

**Search.** Within a strongly connected component, each kind is a walk through the product of the graph and
a small automaton that counts what the kind is about. The components of that product tell in linear time
which edges a walk can begin with; only then a breadth-first search from each such edge looks for the shortest
one, in growing depths, so that nothing is explored much deeper than the answer lies. The shortest walk visits
no transaction twice, except for some `G-nonadjacent` ones: where it does, it is made of smaller cycles, one
of which is of a kind that the same consistency models forbid. A bounded search then looks for a longer one
that is a cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from liftlog_jepsen.transactions.components import strong_components

WW, WR, RW, PROCESS, REALTIME = KINDS = ("ww", "wr", "rw", "process", "realtime")
G0, G1C, G_SINGLE, G_NONADJACENT, G2_ITEM = BASES = ("G0", "G1c", "G-single", "G-nonadjacent", "G2-item")
SUFFIXES = ("", "-process", "-realtime")
CYCLES = tuple(base + suffix for suffix in SUFFIXES for base in BASES)
"""Every kind, in the order of the search."""
IMPLIED_BASES = {G0: (G1C,), G_SINGLE: (G_NONADJACENT, G2_ITEM), G_NONADJACENT: (G2_ITEM,)}
STEPS = 5_000_000
"""Edges that the search for one kind in one component may follow before it is content with what it has."""


class Edge(NamedTuple):
    """`source` comes before `target` because of `kind`, one of `KINDS`."""

    source: int
    target: int
    kind: str


class Cycle(NamedTuple):
    """One cycle: its anomaly, and its edges. Each edge's target is the next one's source, and the last one's
    the first's. It starts at its smallest node.
    """

    anomaly: str
    edges: tuple[Edge, ...]


class ClassifiedCycles(NamedTuple):
    """`cut`: kinds whose search ran out of steps. There may be a smaller cycle of this kind than the one that
    is shown, or one although none is shown; the component then shows a cycle of another kind.
    """

    cycles: list[Cycle]
    cut: tuple[str, ...]


def find_cycles(
    edges: Iterable[tuple[int, int, str]], kinds: Sequence[str] = CYCLES, steps: int = STEPS
) -> list[Cycle]:
    """The smallest cycle of each of `kinds` in each strongly connected component of the graph `edges`.

    An edge is (source, target, kind); an `Edge` will do. Edges of time must form no cycle by themselves, and
    loops are ignored. Kinds that a found one implies are left out for its component. The cycles come by
    component (ordered by smallest node), then in the order of `CYCLES`. The order of `edges` means nothing.
    """
    return search_cycles(edges, kinds, steps).cycles


def search_cycles(
    edges: Iterable[tuple[int, int, str]], kinds: Sequence[str] = CYCLES, steps: int = STEPS
) -> ClassifiedCycles:
    """As `find_cycles`, and what was cut short."""
    cycles: list[Cycle] = []
    cut: set[str] = set()
    for part in components([edge for edge in edges if edge[0] != edge[1]]):
        component = _Component(sorted(set(part)), steps)
        for cycle in component.search(kinds):
            cycles.append(cycle)
        cut |= component.cut
    return ClassifiedCycles(cycles, tuple(kind for kind in CYCLES if kind in cut))


def components(edges: Sequence[tuple[int, int, str]]) -> list[list[tuple[int, int, str]]]:
    """The edges inside each strongly connected component of two or more nodes, ordered by smallest node.

    Within a component the edges keep their order.
    """
    numbers = sorted({node for source, target, _ in edges for node in (source, target)})
    place = {node: at for at, node in enumerate(numbers)}
    successors: list[list[int]] = [[] for _ in numbers]
    for source, target, _ in edges:
        successors[place[source]].append(place[target])
    component, _ = strong_components(successors)
    found: dict[int, list[tuple[int, int, str]]] = {}
    for edge in edges:
        of = component[place[edge[0]]]
        if of == component[place[edge[1]]]:
            found.setdefault(of, []).append(edge)
    return sorted(found.values(), key=lambda part: min(min(source, target) for source, target, _ in part))


def implies(anomaly: str) -> Iterator[str]:
    """The kinds of cycles that come with `anomaly`, itself included."""
    base, suffix = split(anomaly)
    for weaker in (base, *IMPLIED_BASES.get(base, ())):
        for longer in SUFFIXES[SUFFIXES.index(suffix) :]:
            yield weaker + longer


def split(anomaly: str) -> tuple[str, str]:
    """`G-single-realtime` as (`G-single`, `-realtime`)."""
    for suffix in SUFFIXES[1:]:
        if anomaly.endswith(suffix):
            return anomaly[: -len(suffix)], suffix
    return anomaly, ""


def classify(kinds: Sequence[str]) -> str | None:
    """What a cycle with edges of these kinds, in this order, is; None: none, time alone never forms one."""
    anti = kinds.count(RW)
    if anti == 1:
        base = G_SINGLE
    elif anti:
        adjacent = any(kind == RW == kinds[at - 1] for at, kind in enumerate(kinds))
        base = G2_ITEM if adjacent else G_NONADJACENT
    elif WR in kinds:
        base = G1C
    elif WW in kinds:
        base = G0
    else:
        return None
    return base + ("-realtime" if REALTIME in kinds else "-process" if PROCESS in kinds else "")


def shorten(cycle: Cycle) -> Cycle:
    """The cycle with each run of time edges as one: what came before what came before came before. Where
    edges of time are a transitive reduction, this takes back the detours. The kind stays the same.
    """
    edges = cycle.edges
    first = next(at for at, edge in enumerate(edges) if edge.kind not in (PROCESS, REALTIME))
    merged: list[Edge] = []
    for edge in (*edges[first:], *edges[:first]):
        if merged and {merged[-1].kind, edge.kind} <= {PROCESS, REALTIME}:
            kind = PROCESS if merged[-1].kind == edge.kind == PROCESS else REALTIME
            merged[-1] = Edge(merged[-1].source, edge.target, kind)
        else:
            merged.append(edge)
    start = min(range(len(merged)), key=lambda at: merged[at].source)
    return Cycle(cycle.anomaly, (*merged[start:], *merged[:start]))


_WW, _WR, _RW, _PROCESS, _REALTIME = range(5)
_SEEN, _MANY, _ROW, _LAST = 1, 2, 4, 8
"""What a walk has behind it, added up: the edge that the suffix asks for, a second rw, two rw in a row, an rw
as its latest edge."""
_STATES = 16
_DEPTHS = (1, 2, 3, 4, 6, 9, 14, 21, 32)
_TANGLED_STEPS = 200_000


class _Wanted(NamedTuple):
    """What a cycle of one kind is made of; kinds are places in `KINDS`."""

    base: str
    first: int
    """It has an edge of this kind, with which the search begins."""
    allowed: frozenset[int]
    suffix: int
    """It has an edge of this kind, too; -1 = nothing more."""

    @staticmethod
    def by_name(anomaly: str) -> _Wanted:
        base, suffix = split(anomaly)
        time = {"": (), "-process": (_PROCESS,), "-realtime": (_PROCESS, _REALTIME)}[suffix]
        needed = time[-1] if time else -1
        first = {G0: _WW, G1C: _WR}.get(base, _RW)
        data = {G0: (_WW,), G1C: (_WW, _WR), G_SINGLE: (_WW, _WR)}.get(base, (_WW, _WR, _RW))
        return _Wanted(base, first, frozenset((*data, *time)), needed)

    def begin(self) -> int:
        """The state behind the first edge."""
        seen = _SEEN if self.suffix < 0 else 0
        return seen | (_LAST if self.first == _RW else 0)

    def follow(self, state: int, kind: int) -> int:
        """The state behind one more edge; -1 = it must not follow."""
        if kind not in self.allowed:
            return -1
        if kind == _RW:
            row = state & _LAST
            if row and self.base == G_NONADJACENT:
                return -1
            return state | _MANY | _LAST | (_ROW if row else 0)
        return (state & ~_LAST) | (_SEEN if kind == self.suffix else 0)

    def accepts(self, state: int) -> bool:
        """Whether a closed walk with this state is what is wanted; its first edge follows its last one."""
        if not state & _SEEN:
            return False
        if self.base == G_NONADJACENT:
            return state & (_MANY | _LAST) == _MANY
        return self.base != G2_ITEM or bool(state & _MANY and state & (_ROW | _LAST))


Step = tuple[int, int]
"""(kind, node): an edge of this kind to this node."""
Start = tuple[int, int]
"""(source, target) of the first edge of a search."""


class _Component:
    """One strongly connected component, with nodes counted from 0."""

    def __init__(self, edges: Sequence[tuple[int, int, str]], steps: int) -> None:
        self.steps = steps
        self.numbers = sorted({node for source, target, _ in edges for node in (source, target)})
        place = {node: at for at, node in enumerate(self.numbers)}
        self.out: list[list[Step]] = [[] for _ in self.numbers]
        for source, target, kind in edges:
            self.out[place[source]].append((KINDS.index(kind), place[target]))
        for steps_out in self.out:
            steps_out.sort(key=lambda step: (step[1], step[0]))
        self.present = {kind for out in self.out for kind, _ in out}
        self.cut: set[str] = set()

    def search(self, kinds: Sequence[str]) -> Iterator[Cycle]:
        implied: set[str] = set()
        for anomaly in CYCLES:
            if anomaly in implied or anomaly not in kinds:
                continue
            walk = self._smallest(anomaly)
            if walk is not None:
                implied.update(implies(anomaly))
                yield Cycle(anomaly, self._edges(walk))

    def _edges(self, walk: list[Step]) -> tuple[Edge, ...]:
        """A closed walk, turned so that it starts at its smallest node."""
        sources = [walk[at - 1][1] for at in range(len(walk))]
        first = sources.index(min(sources))
        turned = [(sources[at], *walk[at]) for at in (*range(first, len(walk)), *range(first))]
        return tuple(
            Edge(self.numbers[source], self.numbers[target], KINDS[kind]) for source, kind, target in turned
        )

    def _smallest(self, anomaly: str) -> list[Step] | None:
        """The shortest cycle that is exactly `anomaly`."""
        wanted = _Wanted.by_name(anomaly)
        if wanted.first not in self.present or wanted.suffix not in (-1, *self.present):
            return None
        starts, order = self._starts(wanted)
        if not starts:
            return None
        search = _Search(self.out, wanted, order)
        best: list[Step] | None = None
        tangled: list[Start] = []
        for depth in (*(each for each in _DEPTHS if each < len(self.out)), len(self.out)):
            tangled = []
            for start in starts:
                limit = depth if best is None else len(best) - 2
                walk = search.back(start, limit)
                if walk is not None and _is_simple(walk):
                    best = walk
                elif walk is not None:
                    tangled.append(start)
                if search.used > self.steps:
                    self.cut.add(anomaly)
                    return best if best is not None else self._any(search, starts)
            if best is not None:
                break
        for start in tangled:
            best = search.untangle(start, len(best) - 2 if best is not None else len(self.out), best)
            if search.exhausted:
                self.cut.add(anomaly)
        return best

    def _any(self, search: _Search, starts: list[Start]) -> list[Step] | None:
        """Some cycle, when there was no time to find the smallest."""
        for start in starts[:10]:
            walk = search.back(start, len(self.out))
            if walk is not None and _is_simple(walk):
                return walk
        return None

    def _starts(self, wanted: _Wanted) -> tuple[list[Start], list[int]]:
        """First edges that may lie on a cycle that is wanted, and the order of nodes for `_Search`."""
        if wanted.base in (G_SINGLE, G_NONADJACENT):
            doubled = self._doubled(wanted)
            starts = self._inside(wanted.first, doubled, len(self.out))
            if wanted.base == G_NONADJACENT or not starts:
                return starts, doubled
            order = self._order(wanted.allowed)
            return [start for start in starts if order[start[1]] >= order[start[0]]], order
        order = self._order(wanted.allowed)
        starts = self._inside(wanted.first, order)
        if wanted.suffix >= 0:
            timed = {order[source] for source, _ in self._inside(wanted.suffix, order)}
            starts = [start for start in starts if order[start[0]] in timed]
        return starts, order

    def _order(self, allowed: frozenset[int]) -> list[int]:
        """The component of each node when only `allowed` edges count."""
        return strong_components([[to for kind, to in out if kind in allowed] for out in self.out])[0]

    def _doubled(self, wanted: _Wanted) -> list[int]:
        """As `_order`, in a graph that has every node a second time, behind all others: as reached by an rw,
        where no other rw may leave. Its cycles are those in which no two rw follow each other.
        """
        nodes = len(self.out)
        after: list[list[int]] = [[] for _ in range(2 * nodes)]
        for node, out in enumerate(self.out):
            for kind, target in out:
                if kind == _RW:
                    after[node].append(target + nodes)
                elif kind in wanted.allowed:
                    after[node].append(target)
                    after[node + nodes].append(target)
        return strong_components(after)[0]

    def _inside(self, kind: int, order: list[int], shift: int = 0) -> list[Start]:
        """The edges of one kind inside a component of `order`, where their targets are `shift` further on."""
        return [
            (node, target)
            for node, out in enumerate(self.out)
            for each, target in out
            if each == kind and order[node] == order[target + shift]
        ]


class _Search:
    """Ways back to the source of a first edge.

    `order`: the component of each node (or of each node twice, see `_doubled`). A way back never leaves the
    components between that of the first edge's target and that of its source, for which numbers suffice.
    """

    def __init__(self, out: list[list[Step]], wanted: _Wanted, order: list[int]) -> None:
        self.out = out
        self.wanted = wanted
        self.order = order
        self.second = len(out) if len(order) > len(out) else 0
        self.follow = [[wanted.follow(state, kind) for kind in range(5)] for state in range(_STATES)]
        self.accepts = [wanted.accepts(state) for state in range(_STATES)]
        self.used = 0
        self.exhausted = False

    def back(self, start: Start, limit: int) -> list[Step] | None:
        """The shortest closed walk with `start` and at most `limit` more edges that the automaton accepts."""
        source, target = start
        begin = self.wanted.begin()
        order, second = self.order, self.second
        low = order[source]
        high = order[target + second] if second else order[target]
        origin = {target * _STATES + begin: -1}
        level = [target * _STATES + begin]
        for _ in range(limit):
            following: list[int] = []
            for at in level:
                node, state = divmod(at, _STATES)
                follow = self.follow[state]
                self.used += len(self.out[node])
                for kind, after in self.out[node]:
                    then = follow[kind]
                    if then < 0:
                        continue
                    if after == source:
                        if self.accepts[then]:
                            return self._walk(origin, at, start, kind)
                        continue
                    key = after * _STATES + then
                    if key not in origin and low <= order[after + second * (then >> 3)] <= high:
                        origin[key] = at * 8 + kind
                        following.append(key)
            level = following
            if not level:
                break
        return None

    def _walk(self, origin: dict[int, int], at: int, start: Start, kind: int) -> list[Step]:
        walk = [(kind, start[0])]
        while origin[at] >= 0:
            before, kind = divmod(origin[at], 8)
            walk.append((kind, at // _STATES))
            at = before
        walk.append((self.wanted.first, start[1]))
        walk.reverse()
        return walk

    def untangle(self, start: Start, limit: int, best: list[Step] | None) -> list[Step] | None:
        """A cycle with `start`, shorter than `best`, where the shortest walk is no cycle; else `best`.

        Tries all paths, each depth in turn, for a bounded number of steps: the problem is NP-hard.
        """
        source, target = start
        for depth in range(1, limit + 1):
            path: list[Step] = [(self.wanted.first, target)]
            on_path = {source, target}
            stack = [(self.wanted.begin(), iter(self.out[target]))]
            while stack:
                state, rest = stack[-1]
                for kind, after in rest:
                    self.used += 1
                    then = self.follow[state][kind]
                    if then < 0:
                        continue
                    if after == source and len(stack) == depth and self.accepts[then]:
                        return [*path, (kind, source)]
                    if after not in on_path and len(stack) < depth:
                        path.append((kind, after))
                        on_path.add(after)
                        stack.append((then, iter(self.out[after])))
                        break
                else:
                    stack.pop()
                    on_path.discard(path.pop()[1])
                    if self.used > _TANGLED_STEPS:
                        self.exhausted = True
                        return best
        return best


def _is_simple(walk: list[Step]) -> bool:
    return len({node for _, node in walk}) == len(walk)
