"""The client's reader: holes, batches in files, damage that is asked for again, and C4's memory."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from liftlog.client import EARLIEST
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.reader import Reader
from liftlog.format import encode_records, encode_sparse
from liftlog.messages import (
    ERR_COMPACTED,
    OffsetReply,
    OffsetRequest,
    PartitionInfo,
    ReadReply,
    ReadRequest,
    StreamInfo,
)
from liftlog.types import Batch, LiftlogError, PartitionId, Record, StreamConfig

LOG = PartitionId(5, 0)


def record(offset: int) -> Record:
    return Record(offset, 1, b"s", b"", b"", b"k%d" % offset, b"%d" % offset)


class Server:
    """One node that holds `batches`; keeps the requests. The transport of a reader."""

    def __init__(self, *batches: Batch, hw: int = 0, compact: bool = True) -> None:
        self.batches = list(batches)
        self.hw = hw or batches[-1].end_offset
        self.dropped_below = 0
        self.damaged: set[bool] = set()
        self.requests: list[ReadRequest] = []
        self.known = self.address = "h:1"
        """Where it is, and where its client takes it to be."""
        config = StreamConfig("s", "s", compact=compact)
        self.info = StreamInfo(5, config, [PartitionInfo(0, 1, 1, 1, [1], [1], [], True)])

    async def addresses(self, refresh: bool = False, timeout_ms: int = 0) -> dict[int, str]:
        if refresh:
            self.known = self.address
        return {1: self.known}

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        return self.info

    async def call(self, node: int, address: str, request: Any, timeout_s: float) -> Any:
        if address != self.address:
            raise Unreachable(f"nobody is at {address}")
        if isinstance(request, OffsetRequest):
            return OffsetReply(LOG, 0 if request.what == "earliest" else self.hw, 1)
        self.requests.append(request)
        dropped = self.dropped_below
        if 0 <= request.seen_dropped < dropped and request.offset < dropped:
            raise RequestFailed(ERR_COMPACTED, "compacted past your start, restart")
        found = [batch for batch in self.batches if batch.end_offset > request.offset][:1]
        frames = [batch.data for batch in found]
        if request.verify in self.damaged:
            frames = [frame[:-1] + bytes([frame[-1] ^ 1]) for frame in frames]
        end = found[-1].end_offset if found else request.offset
        return ReadReply(LOG, 1, self.hw, 0, end, frames, dropped)

    def reader(self) -> Reader:
        return Reader(self, self.info, 0, 0, 500)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def offsets(reader: Reader, start: str | int = EARLIEST) -> list[int]:
    return [found.offset async for found in reader.records(start)]


def test_C5_a_reader_passes_holes_and_batches_without_records() -> None:
    server = Server(
        encode_sparse(LOG, 1, 0, 5, [record(1), record(3)]),
        encode_sparse(LOG, 1, 5, 9, []),
        encode_sparse(LOG, 1, 9, 12, [record(9)]),
    )
    assert run(offsets(server.reader())) == [1, 3, 9]
    assert [request.offset for request in server.requests] == [0, 5, 9]
    assert run(offsets(server.reader(), 4)) == [9]


def test_a_node_that_came_back_at_another_address_is_found() -> None:
    """The client had the old one from a status that the node answered before it had registered anew."""
    server = Server(encode_records(LOG, 1, [record(0)]))
    server.address = "h:2"
    assert run(offsets(server.reader())) == [0]
    assert server.known == "h:2"


def test_several_frames_may_come_in_one_piece_and_lie_below_the_asked_offset() -> None:
    batches = [encode_records(LOG, 1, [record(at), record(at + 1)]) for at in (0, 2, 4)]
    server = Server(*batches)

    async def glued(node: int, address: str, request: Any, timeout_s: float) -> Any:
        return ReadReply(LOG, 1, 6, 0, 6, [b"".join(batch.data for batch in batches)])

    server.call = glued  # type: ignore[method-assign]
    reader = server.reader()
    assert [found.offset for found in run(reader.fetch(3))] == [3, 4, 5]
    assert reader.position == 6


@pytest.mark.parametrize("place", [0, 1])
def test_D1_a_batch_of_this_log_in_the_place_of_one_below_the_asked_offset_is_damage(place: int) -> None:
    """What was misdirected below the offset, then cut off and written anew, is not taken for the new one."""
    batches = [encode_records(LOG, 1, [record(at), record(at + 1)]) for at in (0, 2, 4)]
    stale = encode_records(LOG, 1, [record(4), record(5)])
    frames = [batch.data for batch in batches]
    frames[place] = stale.data
    server = Server(*batches)
    asked: list[bool] = []

    async def misdirected(node: int, address: str, request: Any, timeout_s: float) -> Any:
        asked.append(request.verify)
        found = batches[2:] if request.verify else []
        data = b"".join(batch.data for batch in found) or b"".join(frames)
        return ReadReply(LOG, 2, 6, 0, 6, [data], first_offset=4 if found else 0)

    server.call = misdirected  # type: ignore[method-assign]
    reader = server.reader()
    assert [found.offset for found in run(reader.fetch(4))] == [4, 5]
    assert asked == [False, True]


def test_nothing_at_or_above_the_hw_is_returned() -> None:
    server = Server(encode_records(LOG, 1, [record(0), record(1), record(2)]), hw=2)
    reader = server.reader()
    assert [found.offset for found in run(reader.fetch(0))] == [0, 1]
    assert reader.position == 2


def test_D2_a_damaged_answer_is_asked_for_again_to_be_verified() -> None:
    server = Server(encode_records(LOG, 1, [record(0)]))
    server.damaged = {False}
    assert [found.offset for found in run(server.reader().fetch(0))] == [0]
    assert [request.verify for request in server.requests] == [False, True]
    server.damaged = {False, True}
    with pytest.raises(LiftlogError, match="damaged batch"):
        run(server.reader().fetch(0))


def test_C4_a_reader_from_the_front_repeats_the_first_answers_mark_and_hears_when_it_is_too_slow() -> None:
    server = Server(*[encode_records(LOG, 1, [record(at)]) for at in range(4)])
    server.dropped_below = 1

    async def slow() -> list[int]:
        seen = []
        async for found in server.reader().records(EARLIEST):
            seen.append(found.offset)
            if found.offset == 1:
                server.dropped_below = 3
        return seen

    with pytest.raises(RequestFailed, match="compacted past your start, restart") as caught:
        run(slow())
    assert caught.value.code == ERR_COMPACTED
    assert [request.seen_dropped for request in server.requests] == [-1, 1, 1]
    server.requests.clear()
    assert run(offsets(server.reader())) == [0, 1, 2, 3], "it has begun again"


def test_C4_readers_in_the_middle_do_not_mind() -> None:
    server = Server(*[encode_records(LOG, 1, [record(at)]) for at in range(4)])
    assert run(offsets(server.reader(), 1)) == [1, 2, 3]
    assert {request.seen_dropped for request in server.requests} == {-1}


def test_C4_a_reader_from_the_front_minds_deletions_of_a_stream_that_is_compacted_only_later() -> None:
    """R19: whether a stream is compacted may be altered after the reader was opened."""
    server = Server(*[encode_records(LOG, 1, [record(at)]) for at in range(4)], compact=False)

    async def slow() -> None:
        async for found in server.reader().records(EARLIEST):
            if found.offset == 1:
                server.dropped_below = 3

    with pytest.raises(RequestFailed, match="compacted past your start, restart"):
        run(slow())
    assert [request.seen_dropped for request in server.requests] == [-1, 0, 0]
