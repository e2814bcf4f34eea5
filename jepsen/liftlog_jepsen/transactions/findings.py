"""From anomalies to a judgement: what was found, and what the consistency model says to that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from liftlog_jepsen.events import FAIL
from liftlog_jepsen.judgement import Judgement, Problem
from liftlog_jepsen.transactions.classify import (
    CYCLES,
    PROCESS,
    REALTIME,
    Cycle,
    Edge,
    components,
    search_cycles,
    shorten,
    split,
)
from liftlog_jepsen.transactions.consistency import ANOMALIES, forbidden, impossible, models
from liftlog_jepsen.transactions.options import Options
from liftlog_jepsen.transactions.reading import Transaction, name, names, text
from liftlog_jepsen.transactions.time_order import (
    Triple,
    every_pair,
    process_edges,
    realtime_edges,
    stretches,
)

EVERY_PAIR_MAX = 64
"""In a component of up to this many transactions all edges of time are drawn, not only their reduction."""


class Reason(NamedTuple):
    """Why an edge of data is there: the key, and a sentence."""

    key: Any
    words: str


class Findings:
    """Anomalies as they are found: all are counted, the first few of each kind described."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.models = models(options.consistency_model)
        self.forbidden = forbidden(self.models, options.anomalies)
        self.totals: dict[str, int] = {}
        self.problems: dict[str, list[Problem]] = {}
        self.unsure: list[str] = []
        """Reasons why finding nothing would prove nothing."""
        self.doubted = 0
        """Keys with values that were written more than once."""

    def add(
        self,
        anomaly: str,
        key: Any,
        operations: Iterable[int],
        words: Callable[[], str],
        *,
        of_all: bool = False,
    ) -> None:
        """One more anomaly about a key, or (`of_all`) none. `words` is called only if it is described."""
        self.totals[anomaly] = self.totals.get(anomaly, 0) + 1
        listed = self.problems.setdefault(anomaly, [])
        if len(listed) < self.options.examples:
            numbers = tuple(dict.fromkeys(operations))
            listed.append(Problem(anomaly, None if of_all else text(key), numbers, words()))

    def doubt_reused(self, key: Any, reused: Mapping[Any, Sequence[int]], what: str) -> None:
        """Note a key with values that were written more than once, and where several are, only how many."""
        self.doubted += 1
        if self.doubted == 1:
            value, writers = next(iter(reused.items()))
            self.unsure.insert(
                0,
                f"{text(value)} was {what} to {text(key)} by {names(writers)}, so reads of it prove nothing; "
                "every write needs a value of its own",
            )
        else:
            self.unsure[0] = (
                f"{self.unsure[0].partition(' (also')[0]} (also in {self.doubted - 1} other keys)"
            )

    def add_cycles(
        self,
        transactions: Sequence[Transaction],
        edges: Sequence[Triple],
        explain: Callable[[Edge], Reason],
    ) -> None:
        """Search edges of data, whose nodes are places in `transactions`, together with time for cycles."""
        kinds = [kind for kind in CYCLES if not split(kind)[1] or kind in self.forbidden]
        timed = any(split(kind)[1] for kind in kinds)
        if not edges and not (timed and _ordered_in_time(transactions)):
            self.unsure.append(
                "no transaction depends on another, so the history cannot contradict any order; "
                "histories that prove something have reads of values that others wrote"
            )
        group: dict[int, int] = {}
        numbered: list[Triple] = []
        for at, stretch in enumerate(stretches(transactions, edges)):
            group.update((each.number, at) for each in stretch)
            if timed:
                numbered.extend(process_edges(stretch))
                numbered.extend(realtime_edges(stretch))
        for source, target, kind in edges:
            first, second = transactions[source].number, transactions[target].number
            if first in group and group[first] == group.get(second):
                numbered.append((first, second, kind))
        by_number = {each.number: each for each in transactions}
        if timed:
            numbered = _with_every_pair(numbered, by_number)
        found = search_cycles(numbered, kinds, self.options.steps)
        for cycle in found.cycles:
            self._add_cycle(shorten(cycle), by_number, explain)
        cut = [kind for kind in found.cut if kind in self.forbidden]
        if cut:
            self.unsure.append(
                f"the search for {', '.join(cut)} stopped after {self.options.steps} steps: there may be "
                "such cycles, or smaller ones than those shown; a higher limit of steps finds them"
            )

    def _add_cycle(
        self, cycle: Cycle, by_number: Mapping[int, Transaction], explain: Callable[[Edge], Reason]
    ) -> None:
        self.totals[cycle.anomaly] = self.totals.get(cycle.anomaly, 0) + 1
        listed = self.problems.setdefault(cycle.anomaly, [])
        if len(listed) >= self.options.examples:
            return
        steps: list[dict[str, Any]] = []
        for edge in cycle.edges:
            first, second = name(edge.source), name(edge.target)
            key = None
            if edge.kind == PROCESS:
                words = f"process {by_number[edge.source].process} ran {first} before {second}"
            elif edge.kind == REALTIME:
                words = f"{first} ended before {second} began"
            else:
                reason = explain(edge)
                key, words = text(reason.key), reason.words
            steps.append(
                {"from": edge.source, "to": edge.target, "edge": edge.kind, "key": key, "words": words}
            )
        listed.append(
            Problem(
                cycle.anomaly,
                None,
                tuple(edge.source for edge in cycle.edges),
                _cycle_words(steps),
                {"cycle": steps},
            )
        )

    def judgement(self, harmless: Iterable[str] = ()) -> Judgement:
        """The verdict. `harmless`: anomalies that do not count, unless the options name them."""
        spared = frozenset(harmless) - frozenset(self.options.anomalies)
        found = [anomaly for anomaly in ANOMALIES if anomaly in self.totals]
        bad = [anomaly for anomaly in found if anomaly in self.forbidden and anomaly not in spared]
        weakest, stronger = impossible(anomaly for anomaly in found if anomaly not in spared)
        reasons = list(self.unsure)
        if weakest:
            also = f", and hence not {', '.join(stronger)}" if stronger else ""
            reasons.append(f"the history is not {', '.join(weakest)}{also}")
        return Judgement(
            False if bad else None if self.unsure else True,
            tuple(problem for anomaly in bad for problem in self.problems[anomaly]),
            {anomaly: self.totals[anomaly] for anomaly in found},
            tuple(reasons),
            tuple(problem for anomaly in found if anomaly not in bad for problem in self.problems[anomaly]),
        )


def _with_every_pair(edges: list[Triple], by_number: Mapping[int, Transaction]) -> list[Triple]:
    """The edges inside strong components; small ones have all edges of time, so that cycles are smallest."""
    found: list[Triple] = []
    for part in components(edges):
        found.extend(part)
        nodes = sorted({node for source, target, _ in part for node in (source, target)})
        if len(nodes) <= EVERY_PAIR_MAX:
            found.extend(every_pair([by_number[node] for node in nodes]))
    return found


def _cycle_words(steps: Sequence[Mapping[str, Any]]) -> str:
    """Each step in words, and the contradiction."""
    lines = [f"{name(step['from'])} is before {name(step['to'])}: {step['words']}" for step in steps]
    first = name(steps[0]["from"])
    return f"{'; '.join(lines)}. So {first} would be before itself."


def _ordered_in_time(transactions: Sequence[Transaction]) -> bool:
    """Whether any transaction ended before another began."""
    listed = [each for each in transactions if each.outcome != FAIL]
    ends = [each.end for each in listed if each.end is not None]
    return bool(ends) and min(ends) < max(each.start for each in listed)
