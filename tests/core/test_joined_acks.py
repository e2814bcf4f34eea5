"""Acks of several tasks go in one request: at any time one is under way, and each task hears of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.client.errors import Unreachable
from liftlog.client.joining import JoinedAcks

from .client_fakes import settled


class Leader:
    """Notes each request; answers when it is let."""

    def __init__(self, unknown: Sequence[int] = ()) -> None:
        self.asked: list[list[int]] = []
        self.answers: list[asyncio.Future[None]] = []
        self.unknown = set(unknown)
        self.under_way = self.most = 0

    async def send(self, offsets: Sequence[int]) -> list[int]:
        self.asked.append(list(offsets))
        self.answers.append(asyncio.get_running_loop().create_future())
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.answers[-1]
        finally:
            self.under_way -= 1
        return [offset for offset in offsets if offset in self.unknown]

    async def let(self, number: int, error: Exception | None = None) -> None:
        """Answer request `number`, once it is there."""
        await settled(lambda: len(self.answers) > number)
        if error is not None:
            self.answers[number].set_exception(error)
        else:
            self.answers[number].set_result(None)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_what_is_asked_for_at_once_is_one_request_and_what_comes_meanwhile_the_next() -> None:
    async def story() -> None:
        leader = Leader(unknown=[2, 5])
        acks = JoinedAcks(leader.send)
        first = [asyncio.create_task(acks.ack([offset])) for offset in (3, 1, 2)]
        await settled(lambda: len(leader.asked) == 1)
        later = [asyncio.create_task(acks.ack(offsets)) for offsets in ([5, 4], [6], [4])]
        await asyncio.sleep(0)
        assert leader.asked == [[1, 2, 3]]
        await leader.let(0)
        assert await asyncio.gather(*first) == [[], [], [2]]
        await leader.let(1)
        assert await asyncio.gather(*later) == [[5], [], []]
        assert leader.asked == [[1, 2, 3], [4, 5, 6]]
        assert leader.most == 1
        assert await acks.ack([]) == [], "nothing is no request"
        assert len(leader.asked) == 2

    run(story())


def test_a_request_that_fails_fails_for_those_in_it_and_the_next_goes_on() -> None:
    async def story() -> None:
        leader = Leader()
        acks = JoinedAcks(leader.send)
        first = [asyncio.create_task(acks.ack([offset])) for offset in (1, 2)]
        await settled(lambda: len(leader.asked) == 1)
        later = asyncio.create_task(acks.ack([3]))
        await leader.let(0, Unreachable("gone"))
        found = await asyncio.gather(*first, return_exceptions=True)
        assert [str(error) for error in found] == ["gone", "gone"]
        await leader.let(1)
        assert await later == []

    run(story())


def test_who_stops_waiting_leaves_it_to_the_others_and_the_last_one_ends_it() -> None:
    async def story() -> None:
        leader = Leader()
        acks = JoinedAcks(leader.send)
        one, other = (asyncio.create_task(acks.ack([offset])) for offset in (1, 2))
        await settled(lambda: len(leader.asked) == 1)
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
        assert leader.under_way == 1
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other
        await settled(lambda: leader.under_way == 0)
        third = asyncio.create_task(acks.ack([3]))
        await leader.let(1)
        assert await third == []
        assert leader.asked == [[1, 2], [3]]

    run(story())


def test_one_that_was_given_up_before_it_was_sent_is_not_sent() -> None:
    async def story() -> None:
        leader = Leader()
        acks = JoinedAcks(leader.send)
        first = asyncio.create_task(acks.ack([1]))
        await settled(lambda: len(leader.asked) == 1)
        second = asyncio.create_task(acks.ack([2]))
        await asyncio.sleep(0)
        second.cancel()
        third = asyncio.create_task(acks.ack([3]))
        await settled(second.done)
        await leader.let(0)
        assert await first == []
        await leader.let(1)
        assert await third == []
        assert leader.asked == [[1], [3]] and leader.most == 1

    run(story())


Steps = st.lists(
    st.one_of(
        st.tuples(st.just("ack"), st.lists(st.integers(0, 30), max_size=4)),
        st.tuples(st.just("answer"), st.booleans()),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
    ),
    max_size=30,
)


@given(Steps, st.sets(st.integers(0, 30)))
def test_every_ack_that_returns_was_in_a_request_that_succeeded(
    steps: list[tuple[str, Any]], unknown: set[int]
) -> None:
    async def story() -> None:
        leader = Leader(sorted(unknown))
        acks = JoinedAcks(leader.send)
        tasks: list[tuple[list[int], asyncio.Task[list[int]]]] = []
        good: set[int] = set()

        def answer(number: int, well: bool) -> None:
            waiting = leader.answers[number]
            if not waiting.done():
                if well:
                    good.update(leader.asked[number])
                    waiting.set_result(None)
                else:
                    waiting.set_exception(Unreachable("gone"))

        for what, value in steps:
            if what == "ack":
                tasks.append((value, asyncio.create_task(acks.ack(value))))
            elif what == "cancel" and value < len(tasks):
                tasks[value][1].cancel()
            elif what == "answer" and leader.answers:
                answer(len(leader.answers) - 1, value)
            for _ in range(5):
                await asyncio.sleep(0)
        while not all(task.done() for _, task in tasks):
            for number in range(len(leader.answers)):
                answer(number, True)
            await asyncio.sleep(0)
        assert leader.most <= 1
        for offsets, task in tasks:
            if not task.cancelled() and task.exception() is None:
                assert set(offsets) <= good
                assert task.result() == [offset for offset in offsets if offset in unknown]

    run(story())
