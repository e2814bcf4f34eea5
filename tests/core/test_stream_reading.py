"""A stream is read within bounds: all of its partitions, and those that it gets meanwhile (R19)."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable
from typing import Any

import pytest

from liftlog.api.ackgroups import ACKS_A_REQUEST, share_of
from liftlog.client import EARLIEST, END, FOREVER, LATEST, NEW, At, Gap, RecordsGone, nodes
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.reading import BUFFER_BYTES_MIN, ByteBudget, StreamReading
from liftlog.messages import (
    ERR_COMPACTED,
    ERR_NOT_FOUND,
    ClientMessage,
    OffsetRequest,
    SettleRequest,
    StreamInfoRequest,
)
from liftlog.types import LiftlogError, PartitionId
from tests.core.client_fakes import FakeCluster, batches, settled

Found = list[tuple[int, int]]


class Opened:
    """A connection that answers with its number."""

    usable = True
    in_work = 0
    made = 0

    @classmethod
    async def open(cls, node: int, address: str, access: object, timeout_s: float) -> Opened:
        cls.made += 1
        await asyncio.sleep(0.02)
        if address == "gone:1":
            raise Unreachable("gone")
        return cls()

    async def call(self, request: object, timeout_s: float) -> int:
        return self.made

    async def close(self) -> None:
        pass


def test_many_readers_open_one_connection_to_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are read at the same time; whoever finds an attempt under way waits for that one."""
    monkeypatch.setattr(nodes, "NodeConnection", Opened)
    monkeypatch.setattr(Opened, "made", 0)

    async def story() -> list[object]:
        pool = nodes.NodePool(lambda: nodes.Access("c"), 1.0)
        asked = [pool.call(1, "h:1", StreamInfoRequest(), 1.0) for _ in range(5)]
        lost = [pool.call(2, "gone:1", StreamInfoRequest(), 1.0) for _ in range(3)]
        found = await asyncio.gather(*asked, *lost, return_exceptions=True)
        forgotten = asyncio.create_task(pool.call(3, "gone:1", StreamInfoRequest(), 1.0))
        await asyncio.sleep(0)
        forgotten.cancel()
        await pool.close()
        return found

    found = asyncio.run(story())
    assert found[:5] == [2] * 5
    assert [str(error) for error in found[5:]] == ["gone"] * 3


class Waits(Opened):
    """A connection whose requests wait."""

    open_to = 10**6
    over: asyncio.Event

    @classmethod
    async def open(cls, node: int, address: str, access: object, timeout_s: float) -> Waits:
        if cls.made == cls.open_to:
            raise Unreachable("no more connections")
        cls.made += 1
        return cls()

    async def call(self, request: ClientMessage, timeout_s: float) -> float:
        self.in_work += share_of(request)
        await self.over.wait()
        return self.in_work / ACKS_A_REQUEST


ASKS = StreamInfoRequest()
ACKS = SettleRequest(PartitionId(7, 0), 1, "ack", [(5, 1)])


@pytest.mark.parametrize(
    ("request_", "requests", "open_to", "connections", "most"),
    [
        (ASKS, 100, 99, 3, 48),
        (ASKS, 900, 99, 16, 57),
        (ASKS, 100, 2, 2, 50),
        (ACKS, 384, 99, 1, 48),
        (ACKS, 385, 99, 2, 48),
    ],
)
def test_requests_that_wait_do_not_hold_up_others_of_a_client(
    monkeypatch: pytest.MonkeyPatch,
    request_: ClientMessage,
    requests: int,
    open_to: int,
    connections: int,
    most: int,
) -> None:
    """A node takes 64 of a connection: a member of a group that read 100 partitions could not ask for
    anything else, and was taken for dead."""
    monkeypatch.setattr(nodes, "NodeConnection", Waits)
    monkeypatch.setattr(Waits, "made", 0)
    monkeypatch.setattr(Waits, "open_to", open_to)

    async def story() -> list[object]:
        Waits.over = asyncio.Event()
        pool = nodes.NodePool(lambda: nodes.Access("c"), 1.0)
        asked = [
            asyncio.create_task(pool.call(1, "h:1", request_, 1.0)) for _ in range(requests)
        ]
        whole = requests * share_of(request_)
        while sum(one.in_work for one in pool._connections.get("h:1", ())) < whole:
            await asyncio.sleep(0)
        Waits.over.set()
        found = await asyncio.gather(*asked)
        await pool.close()
        return list(found)

    assert max(asyncio.run(story())) <= most  # type: ignore[type-var]
    assert Waits.made == connections


async def take(reading: StreamReading, count: int = 10**9) -> Found:
    """(Partition, offset) of all records, or of so many."""
    found: Found = []
    async with asyncio.timeout(10), reading:
        async for partition, record in reading:
            found.append((partition, record.offset))
            if len(found) == count:
                break
    return found


def offsets(index: int, *wanted: int) -> Found:
    return [(index, offset) for offset in wanted]


def run(work: Awaitable[Any]) -> Any:
    async def story() -> Any:
        return await work

    return asyncio.run(story())


# -- bounds ------------------------------------------------------------------------------------------------

ALL = (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("start", "until", "wanted"),
    [
        (EARLIEST, END, ALL),
        (LATEST, END, (5,)),
        (NEW, END, ()),
        (2, END, (2, 3, 4, 5)),
        (6, END, ()),
        (At(3), END, (3, 4, 5)),
        ({0: 4}, END, (4, 5)),
        ({}, END, ALL),
        (EARLIEST, 3, (0, 1, 2)),
        (1, 1, ()),
        (1, {0: 4}, (1, 2, 3)),
        (EARLIEST, {}, ()),
        (EARLIEST, At(4), (0, 1, 2, 3)),
        (At(1), At(3), (1, 2)),
        (EARLIEST, At(1000), ALL),
    ],
)
def test_one_partition_within_bounds(start: Any, until: Any, wanted: tuple[int, ...]) -> None:
    server = FakeCluster(batches(0, 2, 3, 1))
    assert run(take(server.reading(start, until))) == offsets(0, *wanted)
    server.add(batches(1, 1))
    assert run(take(server.reading(start, until, partition=0))) == offsets(0, *wanted)


def test_the_end_is_where_it_was_when_the_reading_began() -> None:
    async def story() -> Found:
        server = FakeCluster(batches(0, 2))
        found: Found = []
        async with server.reading(EARLIEST, END) as reading:
            async for partition, record in reading:
                server.logs[0] = batches(0, 2, 2)
                found.append((partition, record.offset))
        return found

    assert run(story()) == offsets(0, 0, 1)


def test_an_offset_that_is_not_there_yet_is_waited_for_and_so_is_a_time() -> None:
    async def story(until: Any) -> Found:
        server = FakeCluster(batches(0, 2))
        reading = asyncio.create_task(take(server.reading(EARLIEST, until, clock=lambda: 0.0)))
        await settled(lambda: len(server.requests) > 3)
        assert not reading.done()
        server.logs[0] = batches(0, 2, 4)
        return await reading

    assert run(story(4)) == offsets(0, 0, 1, 2, 3)
    assert run(story(At(4))) == offsets(0, 0, 1, 2, 3)


def test_a_time_is_over_when_no_leaders_clock_can_be_before_it_any_more() -> None:
    async def story() -> None:
        now_s = 50.0
        server = FakeCluster(batches(0, 2))
        reading = asyncio.create_task(take(server.reading(EARLIEST, At(50_000), clock=lambda: now_s)))
        await settled(lambda: len(server.requests) > 3)
        assert not reading.done()
        server.logs[0] = batches(0, 2, 1)
        server.add(batches(1, 1))
        now_s = 51.0
        assert sorted(await reading) == [*offsets(0, 0, 1, 2), (1, 0)]

    run(story())


@pytest.mark.parametrize(
    ("bounds", "options", "said"),
    [
        (("oldest",), {}, "use 'earliest', 'latest', 'new', an offset"),
        ((EARLIEST, "never"), {}, "use 'end', 'forever', an offset"),
        ((-1,), {}, "start: offset -1 is negative; offsets begin at 0"),
        (({3: 1},), {}, "start names partition 3; stream 's' has partitions 0 to 1"),
        ((EARLIEST, {2: 1}), {}, "until names partition 2"),
        ((), {"partition": 2}, "stream 's' has partitions 0 to 1, not 2"),
        ((), {"buffer_bytes": 10}, "buffer_bytes=10 is too little; give at least 65536"),
    ],
)
def test_bounds_that_cannot_be_are_refused(bounds: Any, options: Any, said: str) -> None:
    with pytest.raises(LiftlogError, match=said):
        FakeCluster(batches(0, 1), batches(1, 1)).reading(*bounds, **options)


def test_a_time_needs_a_zone() -> None:
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    assert At.of(moment) == At(1000)
    with pytest.raises(LiftlogError, match="names no time zone; use"):
        At.of(moment.replace(tzinfo=None))


def test_a_place_behind_the_end_is_told_and_not_waited_at() -> None:
    server = FakeCluster(batches(0, 2), batches(1, 5))
    with pytest.raises(LiftlogError, match="partition 0 of 's' ends at offset 2, and is to be read from 3"):
        run(take(server.reading({0: 3})))
    # Of all partitions from one offset on, the shorter ones have none.
    assert run(take(server.reading(3))) == offsets(1, 3, 4)


def test_a_replica_that_is_behind_places_a_time_too_early_and_no_record_before_it_is_given() -> None:
    server = FakeCluster(batches(0, 3, 3), nodes=(1, 2))
    server.behind = {1: 2}

    async def story() -> Found:
        reading = asyncio.create_task(take(server.reading(At(4), FOREVER), 2))
        await settled(lambda: len(server.requests) > 2)
        server.behind = {}
        return await reading

    assert run(story()) == offsets(0, 4, 5)


# -- more partitions ---------------------------------------------------------------------------------------


def test_r19_all_partitions_are_followed_and_those_that_are_added() -> None:
    async def story() -> Found:
        server = FakeCluster(batches(0, 2), batches(1, 1))
        following = asyncio.create_task(take(server.reading(EARLIEST, FOREVER), 6))
        await settled(lambda: len(server.requests) > 5)
        server.failures = [Unreachable("away"), RequestFailed("not-ready", "later", True)]
        server.add([])
        server.add(batches(3, 2))
        await settled(lambda: any(request.partition.index == 3 for request in server.requests))
        server.logs[2] = batches(2, 1)
        return await following

    assert sorted(run(story())) == [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0), (3, 1)]


@pytest.mark.parametrize(("start", "later"), [(NEW, "earliest"), (At(1), "time"), (3, "earliest")])
def test_r19_what_is_added_is_read_from_its_front(start: Any, later: str) -> None:
    """Its records came later than what was asked for; only a time can be later still."""

    async def story() -> FakeCluster:
        server = FakeCluster(batches(0, 3))
        following = asyncio.create_task(take(server.reading(start, FOREVER), 2 if later != "time" else 3))
        await settled(lambda: len(server.requests) > 1)
        server.add(batches(1, 2))
        await following
        return server

    asked = [request for _, request in run(story()).asked if isinstance(request, OffsetRequest)]
    assert [request.what for request in asked if request.partition.index == 1] == [later]


def test_a_stream_that_is_gone_ends_the_following() -> None:
    async def story(*failures: Exception) -> None:
        server = FakeCluster(batches(0, 1))
        reading = server.reading(EARLIEST, FOREVER)
        server.failures = list(failures)
        server.id = 6
        await take(reading, 2)

    with pytest.raises(LiftlogError, match="was deleted and created anew; read it again from its front"):
        run(story())
    with pytest.raises(RequestFailed, match="does not exist"):
        run(story(RequestFailed(ERR_NOT_FOUND, "does not exist")))


def test_a_mistake_of_ours_is_not_kept_from_who_reads() -> None:
    async def story() -> None:
        server = FakeCluster(batches(0, 1))
        server.failures = [ZeroDivisionError("ours")]
        await take(server.reading(EARLIEST, FOREVER), 2)

    with pytest.raises(ZeroDivisionError):
        run(story())


# -- nothing twice, nothing skipped ------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [False, True])
def test_R3_no_record_is_missed_or_seen_twice_when_nodes_fail(spread: bool) -> None:
    async def story() -> Found:
        server = FakeCluster(batches(0, 1, 2, 3, 4), nodes=(1, 2, 3))
        found: Found = []
        async with asyncio.timeout(10), server.reading(EARLIEST, spread=spread) as reading:
            async for partition, record in reading:
                found.append((partition, record.offset))
                if record.offset == 0:
                    server.down = {1}
                    server.leader = 2
                    server.behind = {3: 1}
                elif record.offset == 4:
                    server.down, server.behind = {2}, {}
        return found

    assert run(story()) == offsets(0, *range(10))


def test_a_later_reading_goes_on_where_one_has_ended() -> None:
    async def story() -> None:
        server = FakeCluster(batches(0, 3, 3), batches(1, 2), [])
        positions: dict[int, int] = {}
        found: Found = []
        for _ in range(9):
            reading = server.reading(positions)
            found += await take(reading, 1)
            positions = reading.positions
        assert sorted(found) == [*offsets(0, *range(6)), *offsets(1, 0, 1)]
        assert positions == {0: 6, 1: 2, 2: 0}

    run(story())


def test_what_retention_removed_is_told() -> None:
    async def story(start: Any, gaps: list[Gap] | None, until: Any = END) -> tuple[Found, FakeCluster]:
        server = FakeCluster(batches(0, 2, 2, 2))
        reading = server.reading(start, until, on_gap=gaps.append if gaps is not None else None)
        found: Found = []

        async def late(node: int, address: str, request: Any, timeout_s: float) -> Any:
            if not isinstance(request, OffsetRequest) and request.offset == (2 if start == EARLIEST else 1):
                server.log_start[0] = 4
            return await call(node, address, request, timeout_s)

        call = server.call
        server.call = late  # type: ignore[method-assign]
        async with reading:
            async for partition, record in reading:
                found.append((partition, record.offset))
        return found, server

    gaps: list[Gap] = []
    found, _ = run(story(EARLIEST, gaps))
    assert found == offsets(0, 0, 1, 4, 5)
    assert gaps == [Gap("s", 0, 2, 4)]
    with pytest.raises(RecordsGone, match="partition 0 of 's': records 2 to 3 were removed") as caught:
        run(story(EARLIEST, None))
    assert caught.value.gap == Gap("s", 0, 2, 4)
    # An offset is a promise from the first record on.
    gaps.clear()
    assert run(story(1, gaps))[0] == offsets(0, 4, 5)
    assert gaps == [Gap("s", 0, 1, 4)]
    # What is missed ends where the reading would have.
    gaps.clear()
    assert run(story(1, gaps, 3))[0] == []
    assert gaps == [Gap("s", 0, 1, 3)]


def test_what_was_gone_before_a_reading_from_the_front_came_to_it_is_not_missed() -> None:
    server = FakeCluster(batches(0, 2, 2, 2))
    told = iter([0, 0])

    async def early(node: int, address: str, request: Any, timeout_s: float) -> Any:
        reply = await call(node, address, request, timeout_s)
        if isinstance(request, OffsetRequest) and request.what == "earliest":
            server.log_start[0] = 4
            reply.offset = next(told, reply.offset)
        return reply

    call = server.call
    server.call = early  # type: ignore[method-assign]
    assert run(take(server.reading(EARLIEST))) == offsets(0, 4, 5)


def test_C4_a_reading_from_the_front_is_told_of_deletions_that_it_missed() -> None:
    async def story() -> None:
        server = FakeCluster(batches(0, *[1] * 50))
        async with server.reading(EARLIEST) as reading:
            async for _ in reading:
                server.dropped_below = 49

    with pytest.raises(RequestFailed, match="compacted past your start, restart") as caught:
        run(story())
    assert caught.value.code == ERR_COMPACTED


# -- back-pressure -----------------------------------------------------------------------------------------


def test_who_is_slow_makes_the_servers_wait_and_a_bounded_number_of_bytes_is_held() -> None:
    async def story() -> None:
        one = 2_000
        server = FakeCluster(*[batches(index, *[5] * 40, size=one) for index in range(3)])
        seen = 0
        async with server.reading(EARLIEST, buffer_bytes=BUFFER_BYTES_MIN) as reading:
            async for _ in reading:
                seen += 1
                if seen % 50 == 1:
                    for _ in range(200):
                        await asyncio.sleep(0)
                    before = len(server.requests)
                    for _ in range(200):
                        await asyncio.sleep(0)
                    assert len(server.requests) == before
                    assert reading.held_bytes <= BUFFER_BYTES_MIN // 2
                    # Each partition has one answer more, that waits for room.
                    answered = len(server.requests) * 5
                    assert answered - seen <= (BUFFER_BYTES_MIN // 2) // one + 3 * 5 + 5
            assert reading.held_bytes == 0
        assert seen == 3 * 40 * 5
        assert max(request.max_bytes for request in server.requests) == BUFFER_BYTES_MIN // 2 // 3

    run(story())


def test_lists_are_the_same_records() -> None:
    async def story() -> Found:
        server = FakeCluster(batches(0, 2, 3))
        found = server.reading(EARLIEST)
        return [(index, len(records)) async for index, records in found.lists()]

    assert run(story()) == [(0, 2), (0, 3)]


def test_a_budget_is_given_in_the_order_of_asking_and_to_nobody_who_has_left() -> None:
    async def story() -> None:
        budget = ByteBudget(10)
        await budget.take(25)
        order: list[int] = []

        async def ask(number: int, size: int) -> None:
            await budget.take(size)
            order.append(number)

        asking = [asyncio.create_task(ask(number, size)) for number, size in enumerate((6, 7, 1, 4))]
        await asyncio.sleep(0)
        asking[1].cancel()
        budget.give(25)
        asking[2].cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert (order, budget.used) == ([0, 3], 10)

    run(story())


def test_nothing_goes_on_when_a_reading_is_left_or_cancelled() -> None:
    async def story() -> None:
        server = FakeCluster(batches(0, 2), batches(1, 2))
        assert len(await take(server.reading(EARLIEST, FOREVER), 1)) == 1
        following = asyncio.create_task(take(server.reading(EARLIEST, FOREVER)))
        await settled(lambda: len(server.requests) > 9)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        assert asyncio.all_tasks() == {asyncio.current_task()}
        reading = server.reading(EARLIEST, FOREVER)
        await anext(reading)
        await reading.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(reading)

    run(story())
