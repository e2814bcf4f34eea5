"""The client's reader: holes, batches in files, damage that is asked for again, and C4's memory."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

import pytest

from liftlog.client import EARLIEST
from liftlog.client.errors import NodeTooOld, RequestFailed
from liftlog.client.reader import ReadAnswer, Reader
from liftlog.format import encode_records, encode_sparse
from liftlog.messages import (
    ERR_COMPACTED,
    ERR_INVALID,
    ERR_NOT_LEADER,
    FilteredReadRequest,
    ReadReply,
    VisibleReadReply,
)
from liftlog.types import Batch, LiftlogError
from tests.core.client_fakes import LOG, FakeCluster, batches, record


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def after(first: int, end: int) -> list[Batch]:
    return [encode_records(LOG, 1, [record(offset) for offset in range(first, end)])]


async def offsets(reader: Reader, start: str | int = EARLIEST) -> list[int]:
    return [found.offset async for found in reader.records(start)]


def test_C5_a_reader_passes_holes_and_batches_without_records() -> None:
    server = FakeCluster(
        [
            encode_sparse(LOG, 1, 0, 5, [record(1), record(3)]),
            encode_sparse(LOG, 1, 5, 9, []),
            encode_sparse(LOG, 1, 9, 12, [record(9)]),
        ]
    )
    assert run(offsets(server.reader())) == [1, 3, 9]
    assert [request.offset for request in server.requests] == [0, 5, 9]
    assert run(offsets(server.reader(), 4)) == [9]


def test_what_the_system_wrote_for_itself_is_skipped_and_its_offsets_are_not() -> None:
    own = [record(2), record(3)]
    server = FakeCluster([*batches(0, 2), encode_records(LOG, 1, own, control=True), *after(4, 5)])
    assert run(offsets(server.reader())) == [0, 1, 4]
    assert [request.offset for request in server.requests] == [0, 2, 4]


def test_two_nodes_that_name_each_other_leader_are_not_asked_in_a_circle() -> None:
    server = FakeCluster(batches(0, 1), nodes=(1, 2, 3))
    reader = server.reader()
    asked: list[int] = []
    waits: list[int] = []

    async def circle(node: int, address: str, request: Any, timeout_s: float) -> Any:
        asked.append(node)
        raise RequestFailed(ERR_NOT_LEADER, "ask the leader", True, 3 - node)

    async def refresh(found: bool) -> None:
        waits.append(len(asked))

    server.call = circle  # type: ignore[method-assign]
    reader._refresh = refresh  # type: ignore[method-assign]
    server.nodes = (1, 2)
    with pytest.raises(RequestFailed):
        run(reader.offset("new"))
    assert asked[:2] == [1, 2]
    # What a node says is followed once; then the reader waits, and asks the cluster.
    assert waits[0] == 2 and all(after - before <= 2 for before, after in pairwise(waits))


def test_a_node_that_came_back_at_another_address_is_found() -> None:
    """The client had the old one from a status that the node answered before it had registered anew."""
    server = FakeCluster(batches(0, 1))
    server.address = "h:2"
    assert run(offsets(server.reader())) == [0]
    assert server.known == "h:2"


def test_several_frames_may_come_in_one_piece_and_lie_below_the_asked_offset() -> None:
    log = batches(0, 2, 2, 2)
    server = FakeCluster(log)

    async def glued(node: int, address: str, request: Any, timeout_s: float) -> Any:
        return ReadReply(LOG, 1, 6, 0, 6, [b"".join(batch.data for batch in log)])

    server.call = glued  # type: ignore[method-assign]
    reader = server.reader()
    assert [found.offset for found in run(reader.fetch(3))] == [3, 4, 5]
    assert reader.position == 6


@pytest.mark.parametrize("place", [0, 1])
def test_D1_a_batch_of_this_log_in_the_place_of_one_below_the_asked_offset_is_damage(place: int) -> None:
    """What was misdirected below the offset, then cut off and written anew, is not taken for the new one."""
    log = batches(0, 2, 2, 2)
    stale = encode_records(LOG, 1, [record(4), record(5)])
    frames = [batch.data for batch in log]
    frames[place] = stale.data
    server = FakeCluster(log)
    asked: list[bool] = []

    async def misdirected(node: int, address: str, request: Any, timeout_s: float) -> Any:
        asked.append(request.verify)
        found = log[2:] if request.verify else []
        data = b"".join(batch.data for batch in found) or b"".join(frames)
        return ReadReply(LOG, 2, 6, 0, 6, [data], first_offset=4 if found else 0)

    server.call = misdirected  # type: ignore[method-assign]
    reader = server.reader()
    assert [found.offset for found in run(reader.fetch(4))] == [4, 5]
    assert asked == [False, True]


def test_nothing_at_or_above_the_hw_is_returned() -> None:
    server = FakeCluster(batches(0, 3), hw=2)
    reader = server.reader()
    assert [found.offset for found in run(reader.fetch(0))] == [0, 1]
    assert reader.position == 2


def test_R3_what_the_last_answer_said_is_told_whatever_was_seen_before() -> None:
    """A recorder writes this down: the greatest HW of all answers would hide a server that forgets."""
    batch = encode_records(LOG, 3, [record(2), record(3)])
    server = FakeCluster([*batches(0, 2), batch])
    reader = server.reader()
    assert reader.answer is None
    run(reader.fetch(3))
    assert reader.answer == ReadAnswer(1, 4, ((3, 2),)) and reader.answer.epoch_of(3) == 3
    server.behind = {1: 2}
    reader.seen_hw = 0
    run(reader.fetch(0))
    assert reader.answer.hw == 2 and reader.answer.epochs[0] == (1, 0)
    reader.has_seen(5, 7)
    assert (reader.seen_epoch, reader.seen_hw, reader.answer.hw) == (5, 7, 2)


def test_D2_a_damaged_answer_is_asked_for_again_to_be_verified() -> None:
    server = FakeCluster(batches(0, 1))
    server.damaged = {False}
    assert [found.offset for found in run(server.reader().fetch(0))] == [0]
    assert [request.verify for request in server.requests] == [False, True]
    server.damaged = {False, True}
    with pytest.raises(LiftlogError, match="damaged batch"):
        run(server.reader().fetch(0))


def test_C4_a_reader_from_the_front_repeats_the_first_answers_mark_and_hears_when_it_is_too_slow() -> None:
    server = FakeCluster(batches(0, 1, 1, 1, 1))
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
    server = FakeCluster(batches(0, 1, 1, 1, 1))
    assert run(offsets(server.reader(), 1)) == [1, 2, 3]
    assert {request.seen_dropped for request in server.requests} == {-1}


def test_C4_a_reader_from_the_front_minds_deletions_of_a_stream_that_is_compacted_only_later() -> None:
    """R19: whether a stream is compacted may be altered after the reader was opened."""
    server = FakeCluster(batches(0, 1, 1, 1, 1), compact=False)

    async def slow() -> None:
        async for found in server.reader().records(EARLIEST):
            if found.offset == 1:
                server.dropped_below = 3

    with pytest.raises(RequestFailed, match="compacted past your start, restart"):
        run(slow())
    assert [request.seen_dropped for request in server.requests] == [-1, 0, 0]


def test_R3_spread_reads_go_to_replicas_in_sync_and_to_the_others_when_they_fail() -> None:
    server = FakeCluster(batches(0, 3), nodes=(1, 2, 3))
    for _ in range(50):
        assert [found.offset for found in run(server.reader(spread=True).fetch(0))] == [0, 1, 2]
    assert {node for node, _ in server.asked} == {1, 2, 3}
    server.asked.clear()
    server.down = {1, 2}
    assert [found.offset for found in run(server.reader(spread=True).fetch(0))] == [0, 1, 2]
    assert {node for node, _ in server.asked} == {3}
    assert run(server.reader(spread=True, node=3).fetch(0)) != []


class Filtering(FakeCluster):
    """Answers filtered reads: of the batches what is at even offsets; or is of an earlier release."""

    def __init__(self, found: list[Batch], old: bool) -> None:
        super().__init__(found)
        self.old = old

    async def call(self, node: int, address: str, request: Any, timeout_s: float) -> Any:
        if not isinstance(request, FilteredReadRequest):
            return await super().call(node, address, request, timeout_s)
        if self.old:
            raise NodeTooOld(ERR_INVALID, "upgrade the node")
        self.requests.append(request)
        end = min(request.offset + 4, self.end(0))
        frames = [
            encode_records(LOG, 1, [record(offset)]).data
            for offset in range(request.offset, end)
            if offset % 2 == 0
        ]
        return VisibleReadReply(LOG, 1, self.end(0), 0, end, frames)


@pytest.mark.parametrize("old", [False, True])
def test_S2_a_reader_goes_on_from_where_was_looked_and_reads_all_at_an_old_node(old: bool) -> None:
    server = Filtering(batches(0, 9), old)
    reader = server.reader()

    async def read() -> tuple[list[int], list[int]]:
        places, came, at = [], [], 0
        while at < 9:
            found = await reader.fetch(at, subjects=["s"])
            came += [one.offset for one in found]
            at = reader.position
            places.append(at)
        return came, places

    came, places = run(read())
    assert came == (list(range(9)) if old else [0, 2, 4, 6, 8])
    assert old or places == [4, 8, 9]
    assert reader.seen_hw == 9


def test_S2_a_filtered_answer_that_goes_back_is_damage() -> None:
    server = Filtering(batches(0, 9), False)

    async def wrong(node: int, address: str, request: Any, timeout_s: float) -> Any:
        frames = [encode_records(LOG, 1, [record(offset)]).data for offset in (2, 1)]
        return VisibleReadReply(LOG, 1, 9, 0, 4, frames)

    server.call = wrong  # type: ignore[method-assign]
    with pytest.raises(LiftlogError, match="damaged batch, twice"):
        run(server.reader().fetch(0, subjects=["s"]))
