"""SubjectAnswersTrue: what a client is told of subjects is what the committed log says (S1).

An answer names the offsets [log start, HW) that it is about. They must be committed, and what it says of them
must be so: to the message, or, where the stream is compacted, but for messages that compaction may have taken
from the copy that was asked. Who asked for an answer that knows everything must be told of all that had been
acknowledged when it asked, and of nothing that a purge had removed. What the answer says to be deleted by the
journal that it heeds is in none (R21).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from liftlog.messages import LAST_OF_SUBJECT, NEXT_MATCH, SubjectReply, SubjectRequest
from liftlog.subjects.grammar import pattern_tokens, tokens_match
from liftlog.types import NO_OFFSET
from liftlog_sim.truth.contents import Contents
from liftlog_sim.truth.fronts import size_of

NOTHING_NAMED: Mapping[tuple[int, int], int] = {}


class AskedMoment(NamedTuple):
    """What held when the question was asked: acknowledged up to there, purged up to there."""

    acked_end: int
    purged: int
    had: Set[int] | None = None
    """Offsets of the records that the copy had then, of a compacted stream; None: not known, or more may have
    come to it since than what was committed."""
    end: int = 0
    """Up to where that was looked at: what was committed then."""
    journal: int = 0
    """Deletions were answered then of so much of the journal."""


class SubjectJudge:
    """Answers of one partition. `compact`: whether the copy may lack what compaction takes. `named`: what is
    deleted, each record by the journal below which offset.
    """

    __slots__ = ("_compact", "_contents", "_hw", "_named")

    def __init__(
        self,
        contents: Contents,
        hw: int,
        compact: bool,
        named: Mapping[tuple[int, int], int] = NOTHING_NAMED,
    ) -> None:
        self._named = named
        self._contents = contents
        self._hw = hw
        self._compact = compact

    def problem(self, request: SubjectRequest, reply: SubjectReply, asked: AskedMoment) -> str:
        """What is wrong with an answer; empty if nothing is."""
        start, end = reply.log_start, reply.hw
        if not start <= end <= self._hw:
            return f"is about offsets [{start}, {end}), and {self._hw} are committed"
        if not request.known and end < asked.acked_end:
            return f"knows offsets below {end}, and {asked.acked_end} had been acknowledged before"
        if not request.known and start < asked.purged:
            return f"begins at {start}, and everything below {asked.purged} was purged before"
        if not request.known and reply.journal < asked.journal:
            return f"heeds the journal below {reply.journal}, and {asked.journal} had been told of before"
        deleted = {offset for (offset, _), by in self._named.items() if by <= reply.journal}
        tokens = pattern_tokens(request.pattern)
        matching: dict[int, bytes] = {}
        for offset in range(start, end):
            record = self._contents.committed[offset]
            gone = asked.had is not None and offset < asked.end and offset not in asked.had
            if record is None or gone or offset in deleted:
                continue
            if tokens_match(tokens, record.subject.decode().split(".")):
                matching[offset] = record.subject
        if request.what == LAST_OF_SUBJECT:
            return self._one(reply.offset, list(reversed(matching)))
        if request.what == NEXT_MATCH:
            return self._one(reply.offset, [offset for offset in matching if offset >= request.offset])
        return self._counts(reply, matching) or self._size(reply, deleted)

    def _size(self, reply: SubjectReply, deleted: Set[int]) -> str:
        """What all messages count for, where none may be missing."""
        if self._compact:
            return ""
        there = self._contents.committed[reply.log_start : reply.hw]
        records = (one for offset, one in enumerate(there, reply.log_start) if offset not in deleted)
        size = sum(size_of(record) for record in records if record is not None)
        return "" if reply.size == size else f"says that all are {reply.size} bytes, and they are {size}"

    def _one(self, told: int, candidates: list[int]) -> str:
        """The first one of these that there is was asked for."""
        for offset in candidates:
            if offset == told:
                return ""
            if not self._may_be_missing(offset):
                return f"names {_named(told)}, and offset {offset} is there"
        return "" if told == NO_OFFSET else f"names {_named(told)}, where no such message is committed"

    def _counts(self, reply: SubjectReply, matching: dict[int, bytes]) -> str:
        most: dict[bytes, int] = {}
        least: dict[bytes, int] = {}
        for offset, subject in matching.items():
            most[subject] = most.get(subject, 0) + 1
            least[subject] = least.get(subject, 0) + (not self._may_be_missing(offset))
        told = dict(reply.subjects)
        for subject in {**most, **told}:
            count = told.get(subject, 0)
            if not least.get(subject, 0) <= count <= most.get(subject, 0):
                bounds = f"{least.get(subject, 0)} to {most.get(subject, 0)}"
                return f"counts {count} messages of {subject.decode()}, and there are {bounds}"
        if reply.messages != sum(told.values()):
            return f"counts {reply.messages} messages in all, and {sum(told.values())} by subject"
        return ""

    def _may_be_missing(self, offset: int) -> bool:
        return self._compact and self._contents.may_be_missing(offset)


def _named(offset: int) -> str:
    return "no message" if offset == NO_OFFSET else f"offset {offset}"
