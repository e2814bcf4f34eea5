"""A thread with an asyncio event loop, and calls into it from a trio program (docs/adr/0054-client.md)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, NoReturn, TypeVar

import trio

from liftlog.types import LiftlogError

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class TrioBridge:
    """An asyncio event loop in a thread of its own, for one trio run. Use as an async context manager."""

    def __init__(self, name: str = "liftlog-client") -> None:
        """`name`: the thread's."""
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.token: trio.lowlevel.TrioToken = trio.lowlevel.current_trio_token()

    async def __aenter__(self) -> TrioBridge:
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """What still runs there is cancelled, and waited for."""
        self._closed = True
        self._loop.call_soon_threadsafe(self._over.set)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join)

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._over.wait()

    async def run(self, work: Work[T]) -> T:
        """What the coroutine of `work` returns or raises, in the loop's thread. A checkpoint of trio.

        Raises LiftlogError if the client is closed, before or meanwhile.
        """
        loop, token = self._loop, self.token
        call = BridgedCall(work, trio.lowlevel.current_task(), token)
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise LiftlogError("this client is closed; connect again")
        loop.call_soon_threadsafe(call.begin, loop)

        def abort(raise_cancel: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
            call.interrupt = raise_cancel
            # A loop that is closed has cancelled it already.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(call.cancel)
            return trio.lowlevel.Abort.FAILED

        await trio.lowlevel.wait_task_rescheduled(abort)
        return call.result()


class BridgedCall(Generic[T]):
    """One call over a bridge, and what becomes of it."""

    def __init__(self, work: Work[T], waiting: trio.lowlevel.Task, token: trio.lowlevel.TrioToken) -> None:
        self._work = work
        self._waiting = waiting
        self._token = token
        self._task: asyncio.Task[T] | None = None
        self._problem: BaseException | None = None
        self.interrupt: Callable[[], NoReturn] | None = None
        """Set when trio wants the call to end: raises trio's Cancelled."""

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the loop's thread."""
        try:
            self._task = loop.create_task(self._work())
        except Exception as error:
            self._problem = error
            self._wake()
        else:
            self._task.add_done_callback(self._wake)

    def cancel(self) -> None:
        """In the loop's thread."""
        if self._task is not None:
            self._task.cancel()

    def _wake(self, _: object = None) -> None:
        # A run that is over has nobody who waits.
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(trio.lowlevel.reschedule, self._waiting)

    def result(self) -> T:
        """In trio's thread, when it is there."""
        if self._task is None:
            assert self._problem is not None
            raise self._problem
        if self._task.cancelled():
            if self.interrupt is not None:
                self.interrupt()
            raise LiftlogError("the client was closed before the call was over; keep it open for its calls")
        return self._task.result()
