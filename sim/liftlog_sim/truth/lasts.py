"""What a message expected to be the last record of a subject, and whether it was so (L9).

A record that expected one lies behind it: between the two is none of that subject. Who is refused is told of
a record that is committed, and at some moment while he waited it was the last one. In both, records do not
count that may be gone: below the log start of some copy, or taken by compaction. Where messages are deleted
(R21) there is a moment of the journal at which it was so: not before what was committed there when the
message was sent. StoredAsExpected, RefusedTruly.

Who is refused since a subject holds as many messages as it may (C6): so many of it are committed, that no
entry deletes which was committed when the message was sent. RefusedTruly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from liftlog.types import NO_OFFSET, NUMBER_MAX
from liftlog_sim.truth.contents import Contents


class ExpectedLast(NamedTuple):
    """`last`: NO_OFFSET for none. `since`: how much was committed when it was sent; `journal`: of that."""

    last: int
    subject: bytes
    since: int
    journal: int = 0


class CrowdedSubject(NamedTuple):
    """`most`: so many messages it may hold. `start`, `journal`: where the log began, and how much of the
    journal was committed, when another one was sent.
    """

    subject: bytes
    most: int
    start: int
    journal: int


def _never(_: int) -> int:
    """No record is ever deleted."""
    return NUMBER_MAX


class LastsJudge(NamedTuple):
    """Of one partition. `start`: where the copy begins that does so last. `compact`: whether a copy may lack
    what compaction takes. `deleted`: by the journal below which offset the record at an offset is.
    """

    contents: Contents
    start: int
    compact: bool
    deleted: Callable[[int], int] = _never

    def stored(self, expected: ExpectedLast, offset: int) -> str:
        """What is wrong with a record that lies there; empty if nothing is."""
        problem = self._problem(expected.last, expected, offset)
        return f", and expected {_named(expected)} to be the last: {problem}" if problem else ""

    def refused(self, expected: ExpectedLast, told: int, hw: int) -> str:
        """What is wrong with the refusal of a message of which nobody says that it is stored."""
        what = f", which expected {_named(expected)} to be the last, for {told}"
        if told >= hw:
            return f"{what}; committed is no more than {hw}"
        if told == expected.last:
            return f"{what}, the very same"
        problem = self._problem(told, expected, max(expected.since, told + 1))
        return f"{what}: {problem}" if problem else ""

    def full(self, crowded: CrowdedSubject) -> str:
        """What is wrong with the refusal of one more message of this subject."""
        subject, most, start, journal = crowded
        known = enumerate(self.contents.committed[start:], start)
        held = [at for at, record in known if record is not None and record.subject == subject]
        left = [offset for offset in held if self.deleted(offset) > journal]
        if len(left) >= most:
            return ""
        return f", since {subject.decode()} holds {most}; committed, and not deleted, are {len(left)}: {left}"

    def seen(self, found: ExpectedLast, hw: int) -> str:
        """What is wrong with the last record that somebody was told of, who asked when `since` was committed,
        and that much of the journal was; empty if nothing is.
        """
        if found.last >= hw:
            return f"committed is no more than {hw}"
        return self._problem(found.last, found, max(found.since, found.last + 1))

    def _problem(self, last: int, expected: ExpectedLast, below: int) -> str:
        """Why that cannot have been the last of the subject among the committed records below an offset."""
        subject, journal = expected.subject, expected.journal
        for offset in range(below - 1, -1, -1):
            record = self.contents.committed[offset]
            if record is None or record.subject != subject:
                continue
            deleted = self.deleted(offset)
            if offset == last:
                gone = f"{offset} is deleted by the journal below {deleted}"
                return f"{gone}, which it is to heed up to {journal}" if deleted <= journal else ""
            if offset < self.start or (self.compact and self.contents.may_be_missing(offset)):
                continue
            if deleted == NUMBER_MAX:
                return f"{subject.decode()} has a record at {offset}"
            # It was gone by then, so that this moment of the journal is no earlier.
            journal = max(journal, deleted)
        return "" if last == NO_OFFSET else f"{subject.decode()} has no record there"


def _named(expected: ExpectedLast) -> str:
    return "none" if expected.last == NO_OFFSET else f"offset {expected.last}"
