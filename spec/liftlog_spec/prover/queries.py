"""How each query gets its answer: quickly if z3 sees it at once, else with the help of small universes.

Theory. Asked with all conjuncts, z3 mostly answers in a few hundredths of a second, and sometimes loses its
way among them for minutes. Then the query is asked in a universe of two elements of each sort. Either there
is a counterexample; or z3 names the few conjuncts for which there is none, and with only these the question
for all universes is easy. Where they do not suffice, a universe with three elements of a sort names others.

Counterexamples are sought there too: they are smaller, and are found sooner, than among all universes.
"""

from __future__ import annotations

from liftlog_spec.prover.finite import Finite, Sizes
from liftlog_spec.prover.induction import BEGINNING, Induction, QueryAnswer

QUICK_S = 1.0
GUIDED_S = 8.0
"""For one query, quick: with all conjuncts; guided: with those that mattered in a small universe."""
FEW = 2
MOST_ELEMENTS = 4
"""Elements of each sort in the first universe, and in the largest for which z3 is asked for a picture."""


class Queries:
    """Of one induction. `timeout_s`: for the last try, with everything."""

    def __init__(self, induction: Induction, timeout_s: float) -> None:
        self.induction = induction
        self.timeout_s = timeout_s
        self._universes: dict[tuple[tuple[str, int], ...], Finite] = {}

    def answer(self, action: str, conjunct: str, given: list[str]) -> QueryAnswer:
        """Proved, refuted, or unknown when nothing helped."""
        ask = self.induction.ask
        first = ask(action, conjunct, given, timeout_s=min(QUICK_S, self.timeout_s))
        if first.verdict != "unknown" or action == BEGINNING or self.timeout_s <= QUICK_S:
            return first
        spent, mattered = first.seconds, set[str]()
        for sizes in self._growing():
            small = self.finite(sizes).ask(action, conjunct, given, self.timeout_s)
            spent += small.seconds
            if small.verdict == "refuted":
                return small
            mattered |= small.core
            guided = ask(action, conjunct, sorted(mattered), timeout_s=min(GUIDED_S, self.timeout_s))
            spent += guided.seconds
            if guided.verdict == "proved":
                return QueryAnswer(action, conjunct, "proved", spent, guided.core)
        return ask(action, conjunct, given, timeout_s=self.timeout_s)

    def _growing(self) -> list[Sizes]:
        """Two of each sort; then three of one, those in an order first: most arguments go along an order."""
        few = dict.fromkeys(self.induction.sorts, FEW)
        ordered = sorted(self.induction.sorts.values(), key=lambda sort: sort.symmetric)
        return [few, *({**few, sort.name: FEW + 1} for sort in ordered)]

    def finite(self, sizes: Sizes) -> Finite:
        """The queries in a universe of this size."""
        key = tuple(sorted(sizes.items()))
        if key not in self._universes:
            self._universes[key] = Finite(self.induction, sizes)
        return self._universes[key]

    # -- counterexamples -----------------------------------------------------------------------------------

    def counterexample(self, action: str, conjunct: str, given: list[str]) -> QueryAnswer | None:
        """A small one: of each sort as few as will do, if few of all will do."""
        few = dict.fromkeys(self.induction.sorts, FEW)
        found = self.finite(few).ask(action, conjunct, given, self.timeout_s)
        if found.verdict == "refuted":
            return self.smaller(found, given)
        return self.large(action, conjunct, given)

    def smaller(self, found: QueryAnswer, given: list[str]) -> QueryAnswer:
        """The same with one element in place of two wherever that is possible."""
        finite = self.finite(dict.fromkeys(self.induction.sorts, FEW))
        one: frozenset[str] = frozenset()
        for name in self.induction.sorts:
            again = finite.ask(found.action, found.conjunct, given, self.timeout_s, one | {name})
            if again.verdict == "refuted":
                found, one = again, one | {name}
        return found

    def large(self, action: str, conjunct: str, given: list[str]) -> QueryAnswer | None:
        """With more than two elements of some sort."""
        quick = min(self.timeout_s, GUIDED_S)
        for number in range(1, MOST_ELEMENTS + 1):
            most = dict.fromkeys(self.induction.sorts, number)
            found = self.induction.ask(action, conjunct, given, most, quick)
            if found.verdict != "refuted":
                continue
            for name in self.induction.sorts:
                for fewer in range(1, number):
                    less = {**most, name: fewer}
                    again = self.induction.ask(action, conjunct, given, less, quick)
                    if again.verdict == "refuted":
                        found, most = again, less
                        break
            return found
        return None
