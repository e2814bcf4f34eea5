"""Holds what one reader with a filter is sent against the model of filtered reads.

    reader = ReaderRefinement(first)      # the offset that it asks for first
    reader.committed(end, wanted)         # what is committed now, and which offsets of it match
    reader.deleted({offset: entry, ...})  # what the journal names, and below which of its own offsets
    reader.answered(AnswerHeld(...))        # raises Disagreement

The model's log begins where the reader does. A journal's entry counts if it deletes something that lies
there. What an answer leaves out without having heeded why, compaction must have taken, or a deletion that the
copy has heeded since: whoever calls says of which offsets that may be (`spare`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from liftlog_spec.lang.types import SpecError
from liftlog_spec.models.filtered_reads import FilteredReads
from liftlog_spec.refine.abstract import UNBOUNDED, Disagreement
from liftlog_spec.run.stepwise import Refused, Stepper

NODES = 64
"""A node's number is its place among the model's copies."""


class AnswerHeld(NamedTuple):
    """An answer as the reader has it. `hw` and `journal`: of the copy, under which it was given. `spare`:
    which offsets a copy need not have, or need not show.
    """

    node: int
    at: int
    looked: int
    found: frozenset[int]
    hw: int
    journal: int
    spare: Callable[[int], bool]


@cache
def stepper() -> Stepper:
    """The model without bounds."""
    bounds = ("Records", "Room", "Elections", "Deletes", "Trims", "Thinned")
    given: dict[str, Any] = dict.fromkeys(bounds, UNBOUNDED)
    return Stepper(FilteredReads(Copies=NODES, **given))


class ReaderRefinement:
    """One reader, from where it begins. `counts`: how often each action was taken."""

    __slots__ = ("_counts", "_entries", "_first", "_steps", "state")

    def __init__(self, first: int, counts: dict[str, int]) -> None:
        self._first = first
        self._counts = counts
        self._steps = stepper()
        self.state = self._steps.first()
        self._entries: list[tuple[int, int]] = []
        """The journal's, as (entry, offset), in the order of the model's journal."""

    def value(self, name: str) -> Any:
        return self._steps.value(name, self.state)

    def committed(self, end: int, wanted: Iterable[int]) -> None:
        """The log is committed up to `end`; `wanted`: the offsets that match, ascending, from where it was
        before on.
        """
        matching = set(wanted)
        known = self.value("hw") + self._first
        if end <= known:
            return
        for offset in range(known, end):
            self._do("Write", offset in matching)
        self._do("Commit", end - self._first)

    def deleted(self, named: Mapping[int, int]) -> None:
        """What the journal names of what is committed, all of it each time."""
        end = self.value("hw") + self._first
        entries = sorted((by, offset) for offset, by in named.items() if self._first <= offset < end)
        known = len(self._entries)
        if entries[:known] != self._entries:
            # One is known now that lies before others.
            seen = self.value("seen")
            by = self._entries[seen - 1][0] if seen else 0
            none = (0,) * NODES
            fresh = {"journal": (), "heeds": none, "seen": bisect_right(entries, (by, UNBOUNDED))}
            self.state = self._steps.with_values(self.state, fresh)
            known = 0
        for _, offset in entries[known:]:
            self._do("Delete", offset - self._first)
        self._entries = entries

    def answered(self, answer: AnswerHeld) -> None:
        """The reader has an answer, and goes on where was looked. Raises Disagreement."""
        copy, first = answer.node - 1, self._first
        if answer.at != self.value("position") + first:
            text = f"asked from {answer.at}, and has come to {self.value('position') + first}"
            raise Disagreement("Ask", text)
        heard = max(0, answer.hw - first), bisect_right(self._entries, (answer.journal, UNBOUNDED))
        if heard != (self.value("known")[copy], self.value("heeds")[copy]):
            self._do("Hear", copy, *heard)
        self._thin(copy, answer, heard[1])
        self._do("Ask", copy, answer.looked - first)
        _, _, found, _, _ = self.value("answer")[0]
        sent = sum(1 << offset - first for offset in answer.found)
        if sent != found:
            text = f"node {answer.node} sends {shown(sent, first)}, in the model {shown(found, first)}"
            raise Disagreement("Ask", f"{text}, of offsets {answer.at} up to {answer.looked}")
        self._do("Take")

    def _thin(self, copy: int, answer: AnswerHeld, heeds: int) -> None:
        """What the copy has not, and what it has again."""
        first = self._first
        if any(self.value("thinned")[copy] >> offset - first & 1 for offset in answer.found):
            self._do("FetchAnew", copy)
        wanted, gone = self.value("wanted"), self.value("journal")[heeds - 1] if heeds else 0
        thinned = self.value("thinned")[copy]
        due = wanted & ~gone & ~thinned
        for offset in range(answer.at, answer.looked):
            if due >> offset - first & 1 and offset not in answer.found and answer.spare(offset):
                self._do("Thin", copy, offset - first)

    def _do(self, action: str, *given: Any) -> None:
        try:
            after = self._steps.apply(action, given, self.state)
        except SpecError as error:
            raise Disagreement(action, str(error)) from None
        if isinstance(after, Refused):
            text = ", ".join(map(str, given))
            raise Disagreement(f"{action}({text})", f"refused by {after.line}: {after.text}")
        self.state = after
        self._counts[action] = self._counts.get(action, 0) + 1


def shown(offsets: int, first: int) -> str:
    """A set of the model's as the program's offsets."""
    found = [first + place for place in range(offsets.bit_length()) if offsets >> place & 1]
    return ", ".join(map(str, found)) or "nothing"
