"""What a subject index answers, the port behind which its chunks are kept, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from liftlog.subjects.grammar import PatternRefused, pattern_tokens
from liftlog.types import NUMBER_MAX, LiftlogError

Run = tuple[int, int]
"""Offsets [first, end)."""


class ChunkDamaged(LiftlogError):
    """A sealed chunk is not what was written: it is made again from the log, never believed."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(
            f"chunk {number} of the subject index is damaged: {problem}; make it again from the log"
        )
        self.number = number


class SlabDamaged(LiftlogError):
    """A slab of a subject file is not what was written: the log is read instead."""


class SubjectIndexFull(LiftlogError):
    """More subjects than the index may hold in memory. Nothing of what was being entered is in it."""


class Page(NamedTuple):
    """Some of the subjects that a filter matches."""

    subjects: tuple[tuple[bytes, int], ...]
    """Each with the number of its messages, at least 1."""
    place: int | None
    """Where the next page begins; None: this was the last."""


class SubjectIndex(Protocol):
    """The messages of one partition by subject: those of offsets [first, next) that are not removed.

    Filters are patterns of `liftlog.subjects.grammar`; one that means nothing raises PatternRefused. Subjects
    are bytes, as they came: wildcards in them stand for themselves.
    """

    @property
    def first(self) -> int:
        """Where the log starts."""
        ...

    @property
    def next(self) -> int:
        """The offset behind the last one that was appended."""
        ...

    @property
    def messages(self) -> int:
        """How many there are."""
        ...

    def append(self, base_offset: int, subjects: Sequence[bytes]) -> None:
        """Messages of these subjects have been appended at `base_offset` and behind it.

        Offsets between `next` and `base_offset` have no message. The sequence is kept: it must not change any
        more. Raises ValueError if `base_offset` is below `next`.
        """
        ...

    def cut(self, leo: int) -> None:
        """The log has been cut: nothing at `leo` or above has ever been. Raises ValueError outside of
        [first, next].
        """
        ...

    def remove(self, runs: Iterable[Run]) -> int:
        """These messages are gone. Returns how many there were; offsets without one change nothing."""
        ...

    def start(self, first: int) -> None:
        """The log starts at `first` now. Raises ValueError outside of [first, next]."""
        ...

    def last(self, subject: bytes) -> int | None:
        """The greatest offset of a subject."""
        ...

    def count(self, subject: bytes) -> int:
        """How many messages a subject has."""
        ...

    def subjects(self, pattern: str, place: int = 0, limit: int = 1000) -> Page:
        """Subjects that a filter matches and that have messages, from a place on, at most `limit` of them.

        Whoever goes from page to page is told each subject that has messages all the while exactly once, as
        long as the log is not cut and the index not made anew meanwhile.
        """
        ...

    def next_match(self, pattern: str, at: int, until: int | None = None) -> int | None:
        """The least offset at `at` or above, and below `until`, whose subject a filter matches."""
        ...

    def last_match(self, pattern: str, below: int | None = None) -> int | None:
        """The greatest offset below `below` whose subject a filter matches."""
        ...

    def lasts(self, pattern: str, until: int, most: int) -> list[int]:
        """The greatest offset below `until` of each subject that a filter matches, rising; of `most` subjects
        if there are more.
        """
        ...

    def runs(self, pattern: str, at: int, until: int) -> list[Run]:
        """The offsets at `at` or above, and below `until`, whose subject a filter matches: those without a
        gap together, in rising order.
        """
        ...

    def beyond(self, keep: int, at: int, until: int, end: int) -> list[Run]:
        """Of the offsets below `end`: those in [at, until) that are not among the newest `keep` of their
        subject, in rising order, those without a gap together. All such ones below `at` are to be removed.
        """
        ...

    def count_from(self, pattern: str, at: int) -> int:
        """How many messages at `at` or above have a subject that a filter matches."""
        ...


class ChunkStore(Protocol):
    """Where sealed chunks lie: files, memory, or files mapped into memory."""

    def numbers(self) -> Sequence[int]:
        """Of all chunks that there are, in rising order."""
        ...

    def read(self, number: int) -> bytes | memoryview:
        """The bytes of a chunk. Raises KeyError if it is not there."""
        ...

    def write(self, number: int, data: bytes) -> None:
        """Put these bytes in place of those that there were."""
        ...

    def drop(self, number: int) -> None:
        """Remove a chunk, if it is there."""
        ...


def filter_tokens(pattern: str) -> list[str]:
    """The tokens of a filter. Raises PatternRefused for one that means nothing, or is no text."""
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise PatternRefused(f"{pattern!r} is no pattern: it is no text that UTF-8 has") from None
    return pattern_tokens(pattern)


def check_appended(base_offset: int, count: int, next_offset: int) -> None:
    if base_offset < next_offset or base_offset + count > NUMBER_MAX:
        problem = f"do not follow what is indexed, which ends at {next_offset}"
        raise ValueError(f"messages at {base_offset} {problem}")


def check_within(what: str, offset: int, first: int, next_offset: int) -> None:
    if not first <= offset <= next_offset:
        raise ValueError(f"{what} {offset} is not within the indexed offsets [{first}, {next_offset}]")


def check_page(place: int, limit: int) -> None:
    if place < 0 or limit < 1:
        raise ValueError(f"no page begins at {place} and has {limit} subjects")
