"""Logs of the metadata group: as the trace says them, in runs of terms, and as the model holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from liftlog.trace.raft_lines import RaftLetter, RaftState


def expanded(runs: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """(term, number) runs as one term for each entry."""
    terms: tuple[int, ...] = ()
    for term, number in runs:
        terms += (term,) * number
    return terms


def log_of(memory: RaftState, whole: tuple[int, ...] = ()) -> tuple[int, ...]:
    """The term of each entry. A log that begins behind a snapshot says of what lies below it one thing, the
    term of the last: `whole` is what has that entry, and so everything before it. If it does not have it,
    that is seen in the log that comes out.
    """
    terms: tuple[int, ...] = ()
    if memory.start:
        agrees = len(whole) >= memory.start and whole[memory.start - 1] == memory.start_term
        terms = whole[: memory.start] if agrees else (memory.start_term,) * memory.start
    ends = [*(first for _, first in memory.history[1:]), memory.last + 1]
    for place, (term, first) in enumerate(memory.history):
        terms += (term,) * (ends[place] - first)
    return terms


class SentSnapshots:
    """What snapshots that were sent stand for: their leader's log up to their end, which is committed."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[int, ...]] = {}
        """By the term of who sent it and its end: a leader's log only grows."""

    def stand_for(self, letter: RaftLetter, log: tuple[int, ...]) -> tuple[int, ...]:
        """`log`: the sender's, when it is sent."""
        key = letter.term, letter.index
        entries = self._known.get(key)
        if entries is None:
            entries = log[: letter.index]
            if len(entries) < letter.index or entries[-1] != letter.index_term:
                entries = (letter.index_term,) * letter.index
            self._known[key] = entries
        return entries


def may_end(disks: list[Any], number: int, length: int) -> bool:
    """Whether a write may have got so far: whole, or in its own part. `disks`: the images of a disk, in
    order.
    """
    whole = disks[number][2]
    if length == len(whole):
        return True
    if number == 0:
        return False
    before = disks[number - 1][2]
    return length >= len(before) or before[length] != whole[length]


def runs_text(log: tuple[int, ...]) -> str:
    """A log for people: how many entries of which terms."""
    if not log:
        return "an empty log"
    runs: list[list[int]] = []
    for term in log:
        if runs and runs[-1][0] == term:
            runs[-1][1] += 1
        else:
            runs.append([term, 1])
    return f"{len(log)} entries (" + ", ".join(f"{number} of term {term}" for term, number in runs) + ")"
