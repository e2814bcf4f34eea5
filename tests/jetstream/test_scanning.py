"""How the door reads on through a stream, and counts in it, with few questions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from liftlog.client.client import Client
from liftlog.client.errors import RequestFailed
from liftlog.client.reader import Reader
from liftlog.jetstream.scanning import ROUNDS_MAX, CountedStreams, StreamTotals, count_from, matching
from liftlog.messages import ERR_OFFSET_RANGE, MATCHING_SUBJECTS, NEXT_MATCH, StreamInfo, SubjectReply
from liftlog.subjects.grammar import pattern_tokens, tokens_match
from liftlog.types import NO_OFFSET, PartitionId, Record, StreamConfig

PARTITION = PartitionId(7, 0)


class FakeStream:
    """A reader, and a client, of a stream that has a subject at each offset; None: nothing is there."""

    def __init__(self, subjects: list[str | None], log_start: int = 0) -> None:
        self.partition = PARTITION
        self.subjects_at = subjects
        self.log_start = log_start
        self.journal = 0
        self.position = 0
        self.questions: list[str] = []
        self.fetches = 0
        self.named: list[tuple[str, ...]] = []
        self.listed = 0
        self.gone_at: dict[int, int] = {}
        """The fetch of this number finds that the log begins at that offset now."""
        self.a_fetch = 4

    def _matching(self, pattern: str, offset: int) -> list[int]:
        tokens = pattern_tokens(pattern)
        found = enumerate(self.subjects_at)
        there = [(at, subject) for at, subject in found if at >= max(offset, self.log_start)]
        return [at for at, subject in there if subject and tokens_match(tokens, subject.split("."))]

    async def ask_subjects(
        self, what: str, pattern: str, offset: int = 0, *, index: int = 0, limit: int = 1000
    ) -> SubjectReply:
        self.questions.append(what)
        found = self._matching(pattern, offset if what == NEXT_MATCH else 0)
        reply = SubjectReply(PARTITION, 1, len(self.subjects_at), self.log_start, journal=self.journal)
        if what == NEXT_MATCH:
            reply.offset = found[0] if found else NO_OFFSET
        else:
            reply.messages = len(found)
            reply.size = 31 * len(found)
        return reply

    def has_seen(self, epoch: int, hw: int) -> None: ...

    async def fetch(self, offset: int, *, max_bytes: int, subjects: Sequence[str] = ()) -> list[Record]:
        self.fetches += 1
        self.named.append(tuple(subjects))
        self.log_start = self.gone_at.get(self.fetches, self.log_start)
        if offset < self.log_start:
            raise RequestFailed(ERR_OFFSET_RANGE, "below the start")
        self.position = min(offset + self.a_fetch, len(self.subjects_at))
        all_of_it = self._matching(subjects[0] if subjects else ">", offset)
        there = [(at, self.subjects_at[at]) for at in all_of_it if at < self.position]
        return [Record(at, 1, subject.encode(), b"", b"", None, b"") for at, subject in there if subject]

    def reader(self, stream: StreamInfo, partition: int) -> FakeStream:
        return self

    async def subjects(self, stream: StreamInfo) -> dict[bytes, int]:
        self.listed += 1
        names = [self.subjects_at[at] for at in self._matching(">", 0)]
        return {name.encode(): names.count(name) for name in names if name}

    def sequences(self, pattern: str, first: int = 1, last: int = 1000) -> list[int]:
        async def read() -> list[int]:
            return [one.offset + 1 async for one in matching(cast(Reader, self), pattern, first, last)]

        return asyncio.run(read())

    def count(self, pattern: str, seq: int) -> int:
        return asyncio.run(count_from(cast(Reader, self), pattern, seq))

    def totals(self, counted: CountedStreams) -> StreamTotals:
        info = StreamInfo(7, StreamConfig("s", "s"), [])
        return asyncio.run(counted.totals(cast(Client, self), info))


def test_one_question_and_a_fetch_bring_many_messages() -> None:
    stream = FakeStream(["a", "b", "a", None, "a", "a"])
    assert stream.sequences("a") == [1, 3, 5, 6]
    assert stream.questions == [NEXT_MATCH] and stream.fetches == 2


def test_both_ends_belong_to_what_is_read() -> None:
    stream = FakeStream(["a"] * 8)
    assert stream.sequences("a", 2, 6) == [2, 3, 4, 5, 6]
    assert stream.sequences("b") == [] and stream.sequences("a", 9) == []


def test_where_few_match_the_index_is_asked_for_the_next() -> None:
    stream = FakeStream(["a", *["b"] * 100, "a"])
    stream.a_fetch = 10
    assert stream.sequences("a") == [1, 102]
    assert len(stream.questions) == 2 and stream.fetches == 2


def test_S2_the_server_is_asked_for_what_matches_and_for_everything_as_a_whole() -> None:
    stream = FakeStream(["a", "b"])
    assert stream.sequences("a") == [1] and stream.sequences(">") == [1, 2]
    assert stream.named == [("a",), ()]


def test_what_is_gone_meanwhile_is_passed_over() -> None:
    stream = FakeStream(["a"] * 10)
    stream.gone_at = {2: 6}
    assert stream.sequences("a") == [1, 2, 3, 4, 7, 8, 9, 10]
    assert len(stream.questions) == 2


def test_a_log_whose_front_flees_ends_the_reading() -> None:
    stream = FakeStream(["a"] * 100)
    stream.gone_at = {number: number for number in range(1, 100)}
    with pytest.raises(RequestFailed, match="below the start"):
        stream.sequences("a")
    assert len(stream.questions) == ROUNDS_MAX


@pytest.mark.parametrize("seq", range(13))
@pytest.mark.parametrize("log_start", [0, 4])
def test_messages_from_a_sequence_on_are_counted(seq: int, log_start: int) -> None:
    subjects = ["a", "b", "a", None, "a", "a", "b", "a", "a", None, "a"]
    stream = FakeStream(subjects, log_start)
    first = max(seq - 1, log_start)
    assert stream.count("a", seq) == subjects[first:].count("a")
    assert stream.questions[0] == MATCHING_SUBJECTS


def test_the_shorter_side_is_looked_at() -> None:
    stream = FakeStream(["a"] * 100)
    assert stream.count("a", 97) == 4 and stream.fetches == 1
    assert stream.count("a", 5) == 96 and stream.fetches == 2
    assert stream.count("a", 1) == 100 and stream.fetches == 2


def totals(**told: int) -> StreamTotals:
    return StreamTotals(**told, behind={})


def test_subjects_are_listed_again_when_something_has_changed() -> None:
    stream, counted = FakeStream(["a", "b", "a"]), CountedStreams()
    for _ in range(2):
        assert stream.totals(counted) == totals(messages=3, subjects=2, log_start=0, hw=3, size=93)
    assert stream.listed == 1
    stream.subjects_at.append("c")
    assert stream.totals(counted) == totals(messages=4, subjects=3, log_start=0, hw=4, size=124)
    stream.subjects_at[3] = None
    stream.journal = 9
    assert stream.totals(counted) == totals(messages=3, subjects=2, log_start=0, hw=4, size=93)
    assert stream.listed == 3
