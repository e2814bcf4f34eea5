"""Holds what readers with a filter are sent against their model while a world runs (S2): Refinement.

Told by a reader (`workload/filtered.py`) after FilteredExactly has looked at an answer; a world without such
readers pays nothing. What the model is told of the log is what the account knows to be committed.
"""

from __future__ import annotations

from liftlog_sim.refine.raft import NAME
from liftlog_sim.truth.filtered import AnswerSeen, lets_through
from liftlog_sim.truth.invariants import Violation
from liftlog_spec.refine.abstract import Disagreement
from liftlog_spec.refine.filtered import AnswerHeld, ReaderRefinement

READER = "Reader"
WHO = "a reader with a filter"
"""So a finding names it."""
READER_ACTIONS = ("Write", "Commit", "Delete", "Hear", "Thin", "Ask", "Take")
"""What a full sweep must have taken. The others are of what no simulated reader does: it uses no index, and
begins anew where a log begins later; or of what none can tell: a tail that was never committed, an answer
that did not come. `FetchAnew` is seldom: a copy that a reader has seen compacted begins again meanwhile."""


class HeldReader:
    """One reader of one partition, with one filter."""

    __slots__ = ("_checks", "_known", "_reader")

    def __init__(self, first: int, checks: dict[str, int], counts: dict[str, int]) -> None:
        self._reader = ReaderRefinement(first, counts)
        self._known = first
        self._checks = checks

    def answered(self, seen: AnswerSeen) -> None:
        """Raises Violation."""
        node, (request, reply, records, _), truth, compact, gone = seen
        contents, known = truth.contents, self._known
        new = enumerate(contents.committed[known : truth.hw], known)
        wanted = [offset for offset, record in new if record is not None and lets_through(request, record)]
        self._known = max(known, truth.hw)
        self._checks[NAME] += 1

        def spare(offset: int) -> bool:
            return offset in gone or (compact and contents.may_be_missing(offset))

        try:
            self._reader.committed(truth.hw, wanted)
            self._reader.deleted(gone)
            found = frozenset(record.offset for record in records)
            looked, hw, journal = reply.next_offset, reply.hw, seen.answer.heeded
            self._reader.answered(AnswerHeld(node, request.offset, looked, found, hw, journal, spare))
        except Disagreement as disagreement:
            text = f"node {node}, partition {truth.id}, {WHO}: {disagreement}"
            raise Violation(NAME, text) from None


class HeldClients:
    """Who holds clients of a run against models."""

    def __init__(self, checks: dict[str, int]) -> None:
        self._checks = checks
        self._counts: dict[str, int] = {}

    def reader(self, first: int) -> HeldReader:
        """A reader with a filter begins at this offset."""
        return HeldReader(first, self._checks, self._counts)

    def counters(self) -> dict[str, int]:
        """For the run's result: actions by name."""
        return {f"{READER} {name}": number for name, number in sorted(self._counts.items())}
