"""What tests of the subject index share: a store in memory, questions that two indexes must answer alike."""

from __future__ import annotations

from collections.abc import Iterable

from liftlog.subjects.index.interface import SubjectIndex
from liftlog.subjects.index.plain import PlainIndex

BITS = 4
"""Of an offset within its chunk: chunks are small enough for a few messages to fill them."""
IDENTITY = b"stream 7, partition 0"
FILTERS = (
    "a",
    "a.b",
    "b.a.a",
    "*",
    "a.*",
    "*.b",
    "*.*",
    ">",
    "a.>",
    "*.>",
    "a.*.>",
    "a*.b",
    "z",
    "a.b.c.d.>",
)


class MemoryStore:
    """A ChunkStore. `fail`: the next write raises."""

    def __init__(self) -> None:
        self.chunks: dict[int, bytes] = {}
        self.fail = False

    def numbers(self) -> list[int]:
        return sorted(self.chunks)

    def read(self, number: int) -> bytes:
        return self.chunks[number]

    def write(self, number: int, data: bytes) -> None:
        if self.fail:
            self.fail = False
            raise OSError("no space left")
        self.chunks[number] = data

    def drop(self, number: int) -> None:
        self.chunks.pop(number, None)


def all_pages(index: SubjectIndex, pattern: str, limit: int) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    place: int | None = 0
    while place is not None:
        page = index.subjects(pattern, place, limit)
        assert len(page.subjects) <= limit and (page.subjects or page.place is None)
        assert not found.keys() & {subject for subject, _ in page.subjects}, "told twice"
        found.update(page.subjects)
        place = page.place
    return found


def assert_alike(real: SubjectIndex, plain: PlainIndex, subjects: Iterable[bytes]) -> None:
    """The two answer all questions alike, at each end and at some places between."""
    assert (real.first, real.next, real.messages) == (plain.first, plain.next, plain.messages)
    for subject in subjects:
        assert (real.last(subject), real.count(subject)) == (plain.last(subject), plain.count(subject)), (
            subject
        )
    span = plain.next - plain.first
    places = sorted({plain.first + span * part // 5 for part in range(6)} | {plain.first - 1, plain.next + 1})
    for pattern in FILTERS:
        for place in places:
            asked = pattern, place
            assert real.next_match(pattern, place) == plain.next_match(pattern, place), asked
            until = place + span // 3
            assert real.next_match(pattern, place, until) == plain.next_match(pattern, place, until), asked
            assert real.last_match(pattern, place) == plain.last_match(pattern, place), asked
            assert real.count_from(pattern, place) == plain.count_from(pattern, place), asked
            assert real.lasts(pattern, place, 9999) == plain.lasts(pattern, place, 9999), asked
            for until in (place, (place + plain.next) // 2, plain.next + 3):
                assert real.runs(pattern, place, until) == plain.runs(pattern, place, until), asked
        assert real.last_match(pattern) == plain.last_match(pattern), pattern
        assert all_pages(real, pattern, 3) == all_pages(plain, pattern, 1000), pattern
    assert_beyond_alike(real, plain)


def assert_beyond_alike(real: SubjectIndex, plain: PlainIndex) -> None:
    """What is too much of its subject, for some limits, from some places on and up to some."""
    span = plain.next - plain.first
    places = sorted({plain.first + span * part // 3 for part in range(4)} | {plain.first - 1, plain.next + 1})
    for keep in (1, 2, 5):
        for at in places:
            for until in places:
                for end in (until, plain.next):
                    asked = keep, at, until, end
                    assert real.beyond(*asked) == plain.beyond(*asked), asked


def runs_of(plain: PlainIndex, low: int, high: int) -> list[tuple[int, list[bytes]]]:
    """What the log has of [low, high): runs of offsets, with their subjects."""
    runs: list[tuple[int, list[bytes]]] = []
    for offset in range(max(low, plain.first), min(high, plain.next)):
        subject = plain.at(offset)
        if subject is None:
            continue
        if runs and runs[-1][0] + len(runs[-1][1]) == offset:
            runs[-1][1].append(subject)
        else:
            runs.append((offset, [subject]))
    return runs


def removed_of(plain: PlainIndex) -> list[tuple[int, int]]:
    """Offsets of [first, next) that have no message."""
    return [(offset, offset + 1) for offset in range(plain.first, plain.next) if plain.at(offset) is None]
