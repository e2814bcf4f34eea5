"""FilteredExactly: what a reader that names subjects or keys is sent (S2).

Of the offsets from the one that it asked for up to where the answer says that was looked, it is sent each
committed record that matches, as it was committed, and no other: none may be missing but those that
compaction may take, or that the journal names (R21) below where the answer says to heed it, and what is named
there, or where the reader has seen it, is not sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from liftlog.messages import FilteredReadRequest, VisibleReadReply
from liftlog.subjects.grammar import matches
from liftlog.types import Record
from liftlog_sim.truth.contents import Contents
from liftlog_sim.truth.invariants import PartitionTruth


class FilteredAnswer(NamedTuple):
    """`records`: those that came, from the asked offset on. `heeded`: the greatest of the journal that the
    reader has seen, or the answer says.
    """

    request: FilteredReadRequest
    reply: VisibleReadReply
    records: Iterable[Record]
    heeded: int


class AnswerSeen(NamedTuple):
    """An answer of a node, with what is true of the partition. `gone`: what the journal names, by offset, and
    below which of its own offsets.
    """

    node: int
    answer: FilteredAnswer
    truth: PartitionTruth
    compact: bool
    gone: dict[int, int]


class ReaderWitness(Protocol):
    """Who holds a reader to more than this (`refine/clients.py`)."""

    def answered(self, seen: AnswerSeen) -> None:
        """Raises Violation."""
        ...


class ClientWitness(Protocol):
    """The same of all such readers."""

    def reader(self, first: int) -> ReaderWitness:
        """One begins at this offset."""
        ...

    def counters(self) -> dict[str, int]:
        """What was done, for the run's result."""
        ...


def problem_of(
    answer: FilteredAnswer, contents: Contents, hw: int, compact: bool, gone: Mapping[int, int]
) -> str:
    """What is wrong with an answer; empty if nothing is. `gone`: what the journal names, by offset, and
    below which of its own offsets.
    """
    request, reply = answer.request, answer.reply
    if not request.offset <= reply.next_offset <= hw:
        return f"says that it looked from {request.offset} up to {reply.next_offset}, and {hw} are committed"
    came = {record.offset: record for record in answer.records}
    if came and max(came) >= reply.next_offset:
        return f"sends offset {max(came)}, and says that it looked up to {reply.next_offset} alone"
    for offset in range(request.offset, reply.next_offset):
        right, record, by = contents.committed[offset], came.get(offset), gone.get(offset, 0)
        if record is not None:
            if record != right:
                return f"sends another record at offset {offset} than the committed one"
            if not lets_through(request, record):
                return f"sends offset {offset}, which does not match"
            if 0 < by <= answer.heeded:
                return f"sends offset {offset}, which was deleted below offset {by} of the journal"
        elif right is not None and lets_through(request, right):
            taken = compact and contents.may_be_missing(offset)
            if not by and not taken:
                return f"says that it looked up to {reply.next_offset}, and leaves out offset {offset}"
            if by > reply.journal and not taken:
                deleted = f"offset {offset}, deleted below journal offset {by}"
                return f"leaves out {deleted}, and says that it heeds {reply.journal}"
    return ""


def lets_through(request: FilteredReadRequest, record: Record) -> bool:
    """The definition: what is asked for."""
    subject = record.subject.decode()
    by_subject = not request.subjects or any(matches(pattern, subject) for pattern in request.subjects)
    return by_subject and (not request.keys or record.key in request.keys)
