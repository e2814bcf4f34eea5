"""Choices between two orders of two moments: what is forced, why there is no way, and z3 for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from liftlog_jepsen.transactions.order_facts import Edge, Facts, OrderAnswer, Read, Rule, time_edges

MOMENTS_MAX = 6_000
CHOICES_MAX = 1_000_000
BLAMED_MAX = 120
"""Reads among which those are looked for that contradict each other."""


# -- choices -------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """One moment comes before another. `read`: which read says so, -1 = none. `against`: it is the rest of a
    choice, since this other edge would close a circle of the first `upto` edges.
    """

    edge: Edge
    read: int = -1
    against: Edge | None = None
    upto: int = 0


class Choice(NamedTuple):
    """One of two moments comes before another: `first` or `second`. `read`: whose; -1 = two writers'."""

    first: Edge
    second: Edge
    read: int


class Puzzle(NamedTuple):
    moments: int
    known: list[Known]
    choices: list[Choice]


def puzzle_of(facts: Facts, rule: Rule) -> Puzzle | None:
    """What is known and what is open, of reads with one possible writer; None if it is too much. The initial
    state is no moment: it comes before all."""
    count = len(facts.transactions)
    moments = 2 * count if rule.snapshots else count
    if moments > MOMENTS_MAX:
        return None
    ends = count if rule.snapshots else 0
    known = [Known(edge) for edge in _outside(facts, rule)]
    choices: list[Choice] = []
    for number, read in enumerate(facts.reads):
        if len(read.writers) == 1:
            certain, open_ = _of_read(facts, read, read.writers[0], number, ends)
            known += [Known(edge, number) for edge in certain]
            choices += open_
            if len(choices) > CHOICES_MAX:
                return None
    if rule.snapshots:
        for writers in facts.writers.values():
            for place, first in enumerate(writers):
                for second in writers[place + 1 :]:
                    choices.append(Choice((first + ends, second), (second + ends, first), -1))
            if len(choices) > CHOICES_MAX:
                return None
    return Puzzle(moments, known, choices)


def _outside(facts: Facts, rule: Rule) -> list[Edge]:
    """What is known without any read: that transactions begin before they end, and time."""
    count = len(facts.transactions)
    ends = count if rule.snapshots else 0
    inner = [(at, at + ends) for at in range(count)] if rule.snapshots else []
    return inner + [(first + ends, second) for first, second in time_edges(facts, rule.time)]


def _of_read(
    facts: Facts, read: Read, writer: int | None, number: int, ends: int
) -> tuple[list[Edge], list[Choice]]:
    """What follows if `writer` wrote what was read: it is before, and no other writer between."""
    others = [each for each in facts.writers.get(read.key, ()) if each not in (writer, read.reader)]
    if writer is None:
        return [(read.reader, other + ends) for other in others], []
    choices = [Choice((other + ends, writer + ends), (read.reader, other + ends), number) for other in others]
    return [(writer + ends, read.reader)], choices


def force(puzzle: Puzzle) -> tuple[Puzzle, list[Known]]:
    """The puzzle with everything that follows, and the circle that contradicts it, if there is one."""
    known, choices = list(puzzle.known), puzzle.choices
    while True:
        behind = _behind(puzzle.moments, known)
        if behind is None:
            return Puzzle(puzzle.moments, known, choices), _circle(puzzle.moments, known)
        left: list[Choice] = []
        more: list[Known] = []
        for choice in choices:
            (a, b), (c, d) = choice.first, choice.second
            if behind[a] >> b & 1 or behind[c] >> d & 1:
                continue
            if behind[b] >> a & 1:
                more.append(Known(choice.second, choice.read, choice.first, len(known)))
            elif behind[d] >> c & 1:
                more.append(Known(choice.first, choice.read, choice.second, len(known)))
            else:
                left.append(choice)
        if not more:
            return Puzzle(puzzle.moments, known, left), []
        known += more
        choices = left


def _order(moments: int, known: Iterable[Known]) -> tuple[list[int], list[set[int]]]:
    """Moments in an order that respects what is known, without those on circles or behind them; and for each
    those right after it.
    """
    after: list[set[int]] = [set() for _ in range(moments)]
    missing = [0] * moments
    for each in known:
        first, second = each.edge
        if second not in after[first]:
            after[first].add(second)
            missing[second] += 1
    order = [at for at in range(moments) if not missing[at]]
    for at in order:
        for other in sorted(after[at]):
            missing[other] -= 1
            if not missing[other]:
                order.append(other)
    return order, after


def _behind(moments: int, known: Iterable[Known]) -> list[int] | None:
    """For each moment those that come after it, as a set of bits; None if there is a circle."""
    order, after = _order(moments, known)
    if len(order) < moments:
        return None
    behind = [0] * moments
    for at in reversed(order):
        found = 0
        for other in sorted(after[at]):
            found |= behind[other] | 1 << other
        behind[at] = found
    return behind


# -- why there is none ---------------------------------------------------------------------------------------


def _circle(moments: int, known: list[Known]) -> list[Known]:
    """The edges of a circle; there is one."""
    order, _ = _order(moments, known)
    inside = set(range(moments)) - set(order)
    before: dict[int, Known] = {}
    for each in known:
        if inside.issuperset(each.edge):
            before.setdefault(each.edge[1], each)
    # Each of these has one before it: whoever goes back long enough is on a circle.
    at = min(inside)
    for _ in range(moments):
        at = before[at].edge[0]
    best: list[Known] = []
    last = at
    while not best or at != last:
        best.append(before[at])
        at = before[at].edge[0]
    return best


def why_not(known: list[Known], circle: list[Known]) -> tuple[set[int], list[Known]]:
    """The reads from which the circle follows, and the choices between two writers that it needs."""
    reads: set[int] = set()
    between: list[Known] = []
    todo, seen = list(circle), set(circle)
    while todo:
        each = todo.pop()
        if each.read >= 0:
            reads.add(each.read)
        if each.against is None:
            continue
        if each.read < 0:
            between.append(each)
        start, goal = each.against[1], each.against[0]
        for step in _path(known[: each.upto], start, goal):
            if step not in seen:
                seen.add(step)
                todo.append(step)
    return reads, between


def _path(known: list[Known], start: int, goal: int) -> list[Known]:
    """A shortest way from one moment to another."""
    out: dict[int, list[Known]] = {}
    for each in known:
        out.setdefault(each.edge[0], []).append(each)
    came: dict[int, Known | None] = {start: None}
    queue = [start]
    for at in queue:
        for each in out.get(at, ()):
            if each.edge[1] not in came:
                came[each.edge[1]] = each
                queue.append(each.edge[1])
        if goal in came:
            break
    path = []
    step = came[goal]
    while step is not None:
        path.append(step)
        step = came[step.edge[0]]
    return path


def fewest(facts: Facts, rule: Rule, reads: set[int], between: list[Known], steps: int) -> tuple[Read, ...]:
    """Of reads that no order explains together, some that none explains and of which none can be left out;
    all of them if there are many, or without z3.
    """
    core = sorted(reads)
    if len(core) <= BLAMED_MAX:
        try:
            solver = _Solver(facts, rule, steps)
        except ImportError:
            return tuple(facts.reads[number] for number in core)
        pairs = [Choice(each.edge, each.against, -1) for each in between if each.against is not None]
        solver.add([Known(edge) for edge in _outside(facts, rule)], pairs)
        for number in core:
            solver.add_read(number)
        for number in sorted(reads):
            fewer = [each for each in core if each != number]
            if number in core and solver.check(fewer) is False:
                core = solver.core()
    return tuple(facts.reads[number] for number in core)


# -- z3 ------------------------------------------------------------------------------------------------------


class _Solver:
    """A puzzle in z3. Reads are assumptions, so that it can say which of them contradict each other."""

    def __init__(self, facts: Facts, rule: Rule, steps: int) -> None:
        import z3

        self.z3 = z3
        self.facts = facts
        self.ends = len(facts.transactions) if rule.snapshots else 0
        self.solver = z3.SolverFor("QF_IDL")
        self.solver.set("rlimit", steps)
        self.moment = [z3.Int(f"m{at}") for at in range(self.ends + len(facts.transactions))]
        self.named = [z3.Bool(f"r{number}") for number in range(len(facts.reads))]

    def before(self, edge: Edge) -> Any:
        return self.moment[edge[0]] < self.moment[edge[1]]

    def either(self, choice: Choice) -> Any:
        return self.z3.Or(self.before(choice.first), self.before(choice.second))

    def add(self, known: Iterable[Known], choices: Iterable[Choice]) -> None:
        """What is known and open, without saying from which read."""
        self.solver.add(*(self.before(each.edge) for each in known), *map(self.either, choices))

    def add_read(self, number: int) -> None:
        """A read as an assumption: of one of its writers."""
        read = self.facts.reads[number]
        ways = []
        for writer in read.writers:
            known, choices = _of_read(self.facts, read, writer, number, self.ends)
            ways.append(self.z3.And(*map(self.before, known), *map(self.either, choices)))
        self.solver.add(self.z3.Implies(self.named[number], self.z3.Or(*ways)))

    def check(self, assumed: Iterable[int] = ()) -> bool | None:
        found = self.solver.check(*(self.named[number] for number in assumed))
        return True if found == self.z3.sat else False if found == self.z3.unsat else None

    def places(self, moments: Iterable[int]) -> dict[int, int]:
        """Numbers for some moments, after a check that found an order."""
        model = self.solver.model()
        return {at: model.eval(self.moment[at], True).as_long() for at in moments}

    def core(self) -> list[int]:
        """The reads that contradict each other, after a check that found so."""
        return sorted(int(str(each)[1:]) for each in self.solver.unsat_core())


def ask_z3(facts: Facts, rule: Rule, puzzle: Puzzle, steps: int) -> OrderAnswer:
    """What z3 says where it is not known who wrote what was read."""
    try:
        solver = _Solver(facts, rule, steps)
    except ImportError:
        return no_answer(steps)
    solver.add(puzzle.known, puzzle.choices)
    unclear = [number for number, read in enumerate(facts.reads) if len(read.writers) > 1]
    for number in unclear:
        solver.add_read(number)
    found = solver.check(unclear)
    return no_answer(steps) if found is None else OrderAnswer(found)


def choose(facts: Facts, rule: Rule, puzzle: Puzzle, steps: int) -> list[Edge] | bool | None:
    """For each choice that is left one of its edges, so that no circle arises; False if that is impossible,
    None if nobody knows. Only the moments that choices are about matter: what else there is between
    them is known as their order.
    """
    try:
        solver = _Solver(facts, rule, steps)
    except ImportError:
        return None
    behind = _behind(puzzle.moments, puzzle.known)
    assert behind is not None
    inside = sorted({at for choice in puzzle.choices for at in (*choice.first, *choice.second)})
    mask = sum(1 << at for at in inside)
    for at in inside:
        after = behind[at] & mask
        near = after
        for other in inside:
            if after >> other & 1:
                near &= ~behind[other]
        solver.add([Known((at, other)) for other in inside if near >> other & 1], ())
    solver.add((), puzzle.choices)
    found = solver.check()
    if not found:
        return found
    place = solver.places(inside)
    return [
        choice.first if place[choice.first[0]] < place[choice.first[1]] else choice.second
        for choice in puzzle.choices
    ]


def no_answer(steps: int) -> OrderAnswer:
    try:
        import z3  # noqa: F401
    except ImportError:
        return OrderAnswer(None, "the search for an order needs z3: pip install 'liftlog[spec]'")
    return OrderAnswer(None, f"the search stopped after {steps:,} steps of z3")
