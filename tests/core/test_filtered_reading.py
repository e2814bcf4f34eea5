"""A reading with a filter hands out what matches, all of it, and passes over the rest where it can (S1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.client import EARLIEST, END, FOREVER, Gap, filtering
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.format import encode_records
from liftlog.messages import ERR_INDEX_FULL, ERR_NOT_READY, SubjectReply, SubjectRequest
from liftlog.subjects.grammar import PatternRefused
from liftlog.subjects.index.plain import PlainIndex
from liftlog.types import NO_OFFSET, Batch, PartitionId, Record
from tests.core.client_fakes import STREAM, FakeCluster

RARE = (3, 4, 45, 77)
"""Of a hundred records these are on orders.paid."""


def batch_of(first: int, count: int) -> Batch:
    offsets = range(first, first + count)
    records = [Record(offset, offset, subject_of(offset), b"", b"", None, b"x") for offset in offsets]
    return encode_records(PartitionId(STREAM, 0), 1, records)


def subject_of(offset: int) -> bytes:
    return b"orders.paid" if offset in RARE else b"orders.new"


class Indexed(FakeCluster):
    """Answers for the next match too. `trouble`: what is said instead, as long as there is any."""

    def __init__(self, count: int = 100, **options: Any) -> None:
        options.setdefault("compact", False)
        super().__init__([batch_of(first, 5) for first in range(0, count, 5)], **options)
        self.trouble: list[Exception] = []
        self.questions = 0

    async def call(self, node: int, address: str, request: Any, timeout_s: float) -> Any:
        if not isinstance(request, SubjectRequest):
            return await super().call(node, address, request, timeout_s)
        await asyncio.sleep(0)
        self.questions += 1
        if self.trouble:
            raise self.trouble[0]
        start, hw = self.log_start[0], self.end(0)
        index = PlainIndex(start)
        index.append(start, [subject_of(offset) for offset in range(start, hw)])
        found = index.next_match(request.pattern, request.offset)
        return SubjectReply(request.partition, 1, hw, start, NO_OFFSET if found is None else found)


def read(server: FakeCluster, *bounds: Any, pattern: str = "*.paid", **options: Any) -> list[int]:
    async def story() -> list[int]:
        found = []
        async with asyncio.timeout(20), server.reading(*bounds, filter=pattern, **options) as reading:
            async for _, record in reading:
                found.append(record.offset)
        return found

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("bounds", "pattern", "wanted"),
    [
        ((EARLIEST, END), "*.paid", list(RARE)),
        ((4, END), "orders.paid", [4, 45, 77]),
        ((5, 77), "orders.paid", [45]),
        ((50, 60), "orders.paid", []),
        ((EARLIEST, END), ">", list(range(100))),
        ((EARLIEST, END), "other.>", []),
        ((78, END), "*.paid", []),
    ],
)
def test_what_matches_is_handed_out_and_nothing_else(bounds: Any, pattern: str, wanted: list[int]) -> None:
    for server in (Indexed(), Indexed(compact=True)):
        assert read(server, *bounds, pattern=pattern) == wanted


def test_what_does_not_match_is_passed_over() -> None:
    server = Indexed()
    assert read(server, EARLIEST, END) == list(RARE)
    # Of twenty batches those that have matches, the one behind each of them, and the first.
    assert len(server.requests) <= 8 and server.questions <= 4


def test_a_stream_with_deletions_is_read_as_a_whole() -> None:
    server = Indexed(compact=True)
    assert read(server, EARLIEST, END) == list(RARE)
    assert (len(server.requests), server.questions) == (20, 0)


@pytest.mark.parametrize(
    ("trouble", "questions"),
    [
        (RequestFailed(ERR_INDEX_FULL, "no room", False), 1),
        (Unreachable("of an earlier release"), 1),
        (RequestFailed(ERR_NOT_READY, "it is made", True), 2),
    ],
)
def test_who_cannot_say_is_not_waited_for(
    trouble: Exception, questions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filtering, "PATIENCE_S", 0.05)
    monkeypatch.setattr(filtering, "PAUSE_FETCHES", 12)
    server = Indexed()
    server.trouble.append(trouble)
    assert read(server, EARLIEST, END) == list(RARE)
    assert len(server.requests) == 20 and server.questions >= questions


def test_a_gap_is_told_and_not_passed_over() -> None:
    server = Indexed()
    gaps: list[Gap] = []

    async def story() -> list[int]:
        found = []
        reading = server.reading(5, END, filter="*.paid", on_gap=gaps.append)
        async with asyncio.timeout(20), reading:
            server.log_start[0] = 40
            async for _, record in reading:
                found.append(record.offset)
        return found

    assert asyncio.run(story()) == [45, 77]
    assert [(gap.first, gap.next) for gap in gaps] == [(5, 40)]


def test_what_comes_later_is_found() -> None:
    server = Indexed(50)

    async def story() -> list[int]:
        found = []
        async with asyncio.timeout(20), server.reading(EARLIEST, FOREVER, filter="*.paid") as reading:
            async for _, record in reading:
                found.append(record.offset)
                if record.offset == 45:
                    server.logs[0] = [batch_of(first, 5) for first in range(0, 100, 5)]
                if record.offset == 77:
                    return found
        return found

    assert asyncio.run(story()) == list(RARE)


@settings(max_examples=60, deadline=None)
@given(
    paid=st.frozensets(st.integers(0, 79), max_size=20),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    bounds=st.tuples(st.integers(0, 80), st.integers(0, 90)),
    outages=st.lists(st.booleans(), max_size=6),
    lag=st.integers(0, 20),
)
def test_whatever_the_index_says_or_not_all_that_matches_is_read_once(
    paid: frozenset[int], sizes: list[int], bounds: tuple[int, int], outages: list[bool], lag: int
) -> None:
    """`outages`: whether a question comes to nothing; `lag`: how far behind the index is that answers."""
    log, first = [], 0
    for size in sizes:
        offsets = range(first, first + size)
        records = [
            Record(one, one, b"orders.paid" if one in paid else b"orders.new", b"", b"", None, b"x")
            for one in offsets
        ]
        log.append(encode_records(PartitionId(STREAM, 0), 1, records))
        first += size

    class Behind(Indexed):
        async def call(self, node: int, address: str, request: Any, timeout_s: float) -> Any:
            if not isinstance(request, SubjectRequest):
                return await super().call(node, address, request, timeout_s)
            if outages and outages.pop():
                raise RequestFailed(ERR_NOT_READY, "it is made", True)
            known = max(0, self.end(0) - lag)
            found = min((one for one in paid if request.offset <= one < known), default=NO_OFFSET)
            return SubjectReply(request.partition, 1, known, 0, found)

    server = Behind(1)
    server.logs[0] = log
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(filtering, "PATIENCE_S", 0.01)
        patched.setattr(filtering, "PAUSE_FETCHES", 2)
        start, until = min(bounds[0], first), min(bounds[1], first)
        found = read(server, start, until, pattern="*.paid")
    assert found == sorted(one for one in paid if start <= one < until)


def test_a_pattern_that_means_nothing_is_refused() -> None:
    with pytest.raises(PatternRefused):
        Indexed().reading(EARLIEST, END, filter="orders..paid")
