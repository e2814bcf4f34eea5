"""Logs of the metadata group: as the trace says them, in runs of terms, and as the model holds them."""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.trace.raft_lines import RaftState


def expanded(runs: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """(term, number) runs as one term for each entry."""
    terms: tuple[int, ...] = ()
    for term, number in runs:
        terms += (term,) * number
    return terms


def log_of(memory: RaftState) -> tuple[int, ...]:
    """The term of each entry."""
    terms: tuple[int, ...] = ()
    ends = [*(first for _, first in memory.history[1:]), memory.last + 1]
    for place, (term, first) in enumerate(memory.history):
        terms += (term,) * (ends[place] - first)
    return terms


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
