"""Answers that a client waits for end in time, each at its own, though there is one timer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.client.answers import AwaitedAnswers
from liftlog.client.errors import Unreachable
from liftlog.messages import ClientReply, DoneReply

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("expect"), st.integers(1, 9)),
        st.tuples(st.sampled_from(("come", "forget")), st.integers(0, 12)),
        st.tuples(st.just("pass"), st.integers(0, 5)),
    ),
    max_size=40,
)


class ClockedLoop(asyncio.SelectorEventLoop):
    """Its time passes when that is said."""

    now = 1000.0

    def time(self) -> float:
        return self.now


def run(loop: ClockedLoop, work: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


async def settle() -> None:
    """What is due is done."""
    for _ in range(3):
        await asyncio.sleep(0)


def state(answer: asyncio.Future[ClientReply]) -> object:
    if not answer.done():
        return None
    return type(answer.exception()) if answer.exception() is not None else answer.result()


@given(STEPS)
def test_each_ends_at_its_time_unless_it_has_come_or_nobody_waits(steps: list[tuple[str, int]]) -> None:
    loop = ClockedLoop()

    async def work() -> None:
        answers = AwaitedAnswers()
        found: list[asyncio.Future[ClientReply]] = []
        until: list[float] = []
        expected: list[object] = []
        forgotten: set[int] = set()
        for what, value in steps:
            if what == "expect":
                found.append(answers.expect(len(found), float(value)))
                until.append(loop.now + value)
                expected.append(None)
            elif what == "pass":
                loop.now += value
                await settle()
                for number, end in enumerate(until):
                    if expected[number] is None and end <= loop.now and number not in forgotten:
                        expected[number] = TimeoutError
            elif what == "come":
                reply = DoneReply(f"{value}")
                answers.come(value, reply)
                if value < len(found) and expected[value] is None and value not in forgotten:
                    expected[value] = reply
            else:
                answers.forget(value)
                forgotten |= {value} if value < len(found) else set()
            assert [state(one) for one in found] == expected
        assert len(answers) == len(found) - len(forgotten)
        answers.fail(Unreachable("gone"))

    run(loop, work())


def test_of_a_lost_connection_all_that_wait_hear_and_no_timer_is_left() -> None:
    loop = ClockedLoop()

    async def work() -> None:
        answers = AwaitedAnswers()
        waiting = [answers.expect(number, 3.0) for number in range(3)]
        answers.come(1, DoneReply("here"))
        answers.fail(Unreachable("gone"))
        assert [state(one) for one in waiting] == [Unreachable, DoneReply("here"), Unreachable]
        loop.now += 10
        await settle()
        with pytest.raises(Unreachable):
            await waiting[0]

    run(loop, work())
