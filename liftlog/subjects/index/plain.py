"""A dictionary from offsets to subjects, looked at from end to end: the definition of a subject index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from liftlog.subjects.grammar import SEPARATOR, tokens_match
from liftlog.subjects.index.interface import (
    Page,
    Run,
    check_appended,
    check_page,
    check_within,
    filter_tokens,
)


class PlainIndex:
    """What every index answers, written down without a thought for time or memory."""

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._next = first
        self._at: dict[int, bytes] = {}
        """By offset, in rising order: the messages that are there."""
        self._seen: dict[bytes, int] = {}
        """Each subject that has come, with the offset of its first message, removed or not."""

    @property
    def first(self) -> int:
        return self._first

    @property
    def next(self) -> int:
        return self._next

    @property
    def messages(self) -> int:
        return len(self._at)

    def at(self, offset: int) -> bytes | None:
        """The subject of a message; None: it is not there."""
        return self._at.get(offset)

    def append(self, base_offset: int, subjects: Sequence[bytes]) -> None:
        check_appended(base_offset, len(subjects), self._next)
        for offset, subject in enumerate(subjects, base_offset):
            self._at[offset] = subject
            self._seen.setdefault(subject, offset)
        self._next = base_offset + len(subjects)

    def cut(self, leo: int) -> None:
        check_within("a cut at", leo, self._first, self._next)
        self._at = {offset: subject for offset, subject in self._at.items() if offset < leo}
        self._seen = {subject: offset for subject, offset in self._seen.items() if offset < leo}
        self._next = leo

    def remove(self, runs: Iterable[Run]) -> int:
        before = len(self._at)
        for first, end in runs:
            for offset in [offset for offset in self._at if first <= offset < end]:
                del self._at[offset]
        return before - len(self._at)

    def start(self, first: int) -> None:
        check_within("a start at", first, self._first, self._next)
        self.remove([(0, first)])
        self._first = first

    def last(self, subject: bytes) -> int | None:
        return max((offset for offset, its in self._at.items() if its == subject), default=None)

    def count(self, subject: bytes) -> int:
        return sum(its == subject for its in self._at.values())

    def subjects(self, pattern: str, place: int = 0, limit: int = 1000) -> Page:
        check_page(place, limit)
        counts: dict[bytes, int] = {}
        for offset in self._matches(pattern):
            counts[self._at[offset]] = counts.get(self._at[offset], 0) + 1
        seen = list(self._seen)
        places = [number for number in range(place, len(seen)) if seen[number] in counts]
        told = tuple((seen[number], counts[seen[number]]) for number in places[:limit])
        return Page(told, places[limit] if len(places) > limit else None)

    def next_match(self, pattern: str, at: int, until: int | None = None) -> int | None:
        end = self._next if until is None else until
        return next((offset for offset in self._matches(pattern) if at <= offset < end), None)

    def last_match(self, pattern: str, below: int | None = None) -> int | None:
        end = self._next if below is None else below
        return max((offset for offset in self._matches(pattern) if offset < end), default=None)

    def runs(self, pattern: str, at: int, until: int) -> list[Run]:
        found: list[Run] = []
        for offset in self._matches(pattern):
            if at <= offset < until:
                if found and found[-1][1] == offset:
                    found[-1] = (found[-1][0], offset + 1)
                else:
                    found.append((offset, offset + 1))
        return found

    def lasts(self, pattern: str, until: int, most: int) -> list[int]:
        found = {self._at[offset]: offset for offset in self._matches(pattern) if offset < until}
        return sorted(found.values())[:most]

    def beyond(self, keep: int, at: int, until: int, end: int) -> list[Run]:
        excess: dict[bytes, int] = {}
        for offset, subject in self._at.items():
            if offset < end:
                excess[subject] = excess.get(subject, -keep) + 1
        found: list[Run] = []
        for offset, subject in self._at.items():
            if at <= offset < min(until, end) and excess[subject] > 0:
                excess[subject] -= 1
                if found and found[-1][1] == offset:
                    found[-1] = (found[-1][0], offset + 1)
                else:
                    found.append((offset, offset + 1))
        return found

    def count_from(self, pattern: str, at: int) -> int:
        return sum(offset >= at for offset in self._matches(pattern))

    def _matches(self, pattern: str) -> Iterator[int]:
        """Offsets whose subject a filter matches, in rising order."""
        tokens = filter_tokens(pattern)
        return (offset for offset, subject in self._at.items() if tokens_match(tokens, tokens_of(subject)))


def tokens_of(subject: bytes) -> list[str]:
    """A subject as it came, which need not be text, split as the grammar has it."""
    return subject.decode("utf-8", "surrogateescape").split(SEPARATOR)
