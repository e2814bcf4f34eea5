"""Answers that a connection waits for, each until a time of its own; one timer of the event loop for all.

A timer for each would cost a program that acks message by message a good part of what an ack costs it: nearly
all of them are called off again. The one that there is looks when the earliest time has come, and is set anew
to the earliest of those that wait then.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from liftlog.messages import ClientReply


class _Awaited(NamedTuple):
    answer: asyncio.Future[ClientReply]
    until: float


class AwaitedAnswers:
    """By the numbers of calls."""

    def __init__(self) -> None:
        self._awaited: dict[int, _Awaited] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._awaited)

    def expect(self, number: int, timeout_s: float) -> asyncio.Future[ClientReply]:
        """The answer; TimeoutError if there is none in time. To be forgotten by whoever waits for it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        answer: asyncio.Future[ClientReply] = loop.create_future()
        self._awaited[number] = _Awaited(answer, until)
        timer = self._timer
        if timer is None or until < timer.when():
            self._set(loop, until)
        return answer

    def forget(self, number: int) -> None:
        self._awaited.pop(number, None)

    def come(self, number: int, reply: ClientReply) -> None:
        """An answer; perhaps nobody waits for it any more."""
        awaited = self._awaited.get(number)
        if awaited is not None and not awaited.answer.done():
            awaited.answer.set_result(reply)

    def fail(self, error: Exception) -> None:
        """No more answers come."""
        for awaited in self._awaited.values():
            if not awaited.answer.done():
                awaited.answer.set_exception(error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(until, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        timer, self._timer = self._timer, None
        assert timer is not None
        now = max(timer.when(), loop.time())
        for awaited in self._awaited.values():
            if awaited.until <= now and not awaited.answer.done():
                awaited.answer.set_exception(TimeoutError())
        left = [awaited.until for awaited in self._awaited.values() if awaited.until > now]
        if left:
            self._set(loop, min(left))
