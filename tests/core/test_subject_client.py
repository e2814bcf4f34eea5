"""The client's side of questions about subjects: what is asked again, and of whom (S1)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from liftlog.api.handshake import VERSION, SecureSession
from liftlog.api.wire import FrameSplitter
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.nodes import NodeConnection
from liftlog.client.reader import Reader
from liftlog.client.subjects import FETCH_BYTES, ROUNDS_MAX, AsksSubjects
from liftlog.messages import (
    ERR_INDEX_RENEWED,
    ERR_OFFSET_RANGE,
    PartitionInfo,
    StreamInfo,
    SubjectReply,
    SubjectRequest,
)
from liftlog.types import LiftlogError, PartitionId, Record, StreamConfig


def record(offset: int, timestamp_ms: int = 1) -> Record:
    return Record(offset, timestamp_ms, b"s", b"", b"", None, b"%d" % offset)


class FakeReader:
    """`answers`, one for each question; `there`: what a fetch finds from an offset on."""

    is_internal = False

    def __init__(self, answers: list[Any], there: list[Any]) -> None:
        self.partition = PartitionId(7, 0)
        self.answers = answers
        self.there = there
        self.asked: list[tuple[str, str, int, int]] = []

    async def ask_subjects(self, what: str, pattern: str, offset: int = 0, *, index: int = 0) -> SubjectReply:
        self.asked.append((what, pattern, offset, index))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return cast(SubjectReply, answer)

    async def fetch(self, offset: int, *, max_bytes: int, subjects: Sequence[str]) -> list[Record]:
        assert max_bytes == FETCH_BYTES
        assert not subjects, "a client that may read a stream reads all that lies there"
        found = self.there.pop(0) if len(self.there) > 1 else self.there[0]
        if isinstance(found, Exception):
            raise found
        return cast("list[Record]", found)


class Asking(AsksSubjects):
    def __init__(self, *readers: FakeReader) -> None:
        self.readers = readers

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        partitions = [PartitionInfo(n, 1, 1, 1, [1], [1], [], True) for n in range(len(self.readers))]
        return StreamInfo(7, StreamConfig(name, name), partitions)

    def reader(self, stream: StreamInfo, partition: int, **how: Any) -> Reader:
        return cast(Reader, self.readers[partition])


def at(offset: int) -> SubjectReply:
    return SubjectReply(PartitionId(7, 0), 1, 9, 0, offset)


def page(*subjects: tuple[bytes, int], place: int = -1, index: int = 3) -> SubjectReply:
    return SubjectReply(PartitionId(7, 0), 1, 9, 0, -1, list(subjects), 0, place, index)


def test_S1_a_record_that_is_gone_when_it_is_read_is_asked_for_again() -> None:
    gone = RequestFailed(ERR_OFFSET_RANGE, "below the start")
    reader = FakeReader([at(3), at(4), at(6)], [gone, [record(5)], [record(6)]])
    found = asyncio.run(Asking(reader).last("s", "s"))
    assert found is not None and found.record.offset == 6 and len(reader.asked) == 3
    endless = FakeReader([at(3)], [[]])
    with pytest.raises(LiftlogError, match="again and again"):
        asyncio.run(Asking(endless).last("s", "s"))
    assert len(endless.asked) == ROUNDS_MAX
    other = FakeReader([at(3)], [RequestFailed("damaged", "bad bytes")])
    with pytest.raises(RequestFailed, match="bad bytes"):
        asyncio.run(Asking(other).last("s", "s"))


def test_S1_of_several_partitions_the_youngest_record_is_the_last() -> None:
    readers = [FakeReader([at(n)], [[record(n, time)]]) for n, time in ((1, 10), (2, 30), (3, 20))]
    readers.append(FakeReader([at(-1)], [[]]))
    found = asyncio.run(Asking(*readers).last("s", "s"))
    assert found is not None and (found.partition, found.record.offset) == (1, 2)
    found = asyncio.run(Asking(*readers).next_matching("s", "s", 2, partition=3))
    assert found is None and readers[3].asked[-1] == ("next", "s", 2, 0)


def test_S1_pages_of_an_index_that_was_renewed_are_read_anew() -> None:
    renewed = RequestFailed(ERR_INDEX_RENEWED, "begin again")
    answers = [page((b"a", 1), place=1), renewed, page((b"a", 5), place=1, index=4), page((b"b", 2), index=4)]
    reader = FakeReader(answers, [[]])
    other = FakeReader([page((b"b", 3))], [[]])
    assert asyncio.run(Asking(reader, other).subjects("s")) == {b"a": 5, b"b": 5}
    assert [question[2:] for question in reader.asked] == [(0, 0), (1, 3), (0, 0), (1, 4)]
    with pytest.raises(LiftlogError, match="index_memory_bytes"):
        asyncio.run(Asking(FakeReader([renewed], [[]])).subjects("s"))


class PlainWriter:
    """Of a connection without TLS."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def get_extra_info(self, name: str) -> None: ...


def test_requests_of_one_turn_of_the_event_loop_leave_in_one_write() -> None:
    written: list[bytes] = []

    class Writer(PlainWriter):
        def write(self, data: bytes) -> None:
            written.append(data)

    async def ask() -> None:
        session = SecureSession(1, b"k" * 32, b"a" * 32, 1, VERSION)
        connection = NodeConnection(
            "here:1", asyncio.StreamReader(), cast(asyncio.StreamWriter, Writer()), session
        )
        request = SubjectRequest(PartitionId(7, 0), "last", "a")
        calls = [asyncio.ensure_future(connection.call(request, 60)) for _ in range(3)]
        for _ in range(3):
            await asyncio.sleep(0)
        assert [sum(1 for _ in FrameSplitter().feed(data)) for data in written] == [3]
        last = asyncio.ensure_future(connection.call(request, 60))
        await asyncio.sleep(0)
        await connection.close()
        assert [sum(1 for _ in FrameSplitter().feed(data)) for data in written] == [3, 1]
        for one in (*calls, last):
            one.cancel()
        await asyncio.gather(*calls, last, return_exceptions=True)

    asyncio.run(ask())


@pytest.mark.parametrize("version", [VERSION - 1, VERSION])
def test_u1_a_node_of_an_earlier_protocol_is_not_asked_what_it_does_not_know(version: int) -> None:
    async def ask() -> None:
        session = SecureSession(1, b"k" * 32, b"a" * 32, 1, version)
        writer = cast(asyncio.StreamWriter, PlainWriter())
        connection = NodeConnection("here:1", asyncio.StreamReader(), writer, session)
        try:
            await connection.call(SubjectRequest(PartitionId(7, 0), "last", "a"), 0.01)
        finally:
            await connection.close()

    expected = (Unreachable, "did not answer") if version == VERSION else (RequestFailed, "upgrade the node")
    with pytest.raises(expected[0], match=expected[1]):
        asyncio.run(ask())
