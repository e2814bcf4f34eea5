"""An event loop of asyncio on simulated time: what JetStream's door runs on in a simulated world.

The door is a program of asyncio. Each of its callbacks is an entry of the kernel's heap, so that tasks,
sleeps and timeouts come in the order of simulated time, and the same in every run. A door that dies is not
called any more, and what it had under way never ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from math import ceil
from typing import Any, TypeVar, TypeVarTuple

from liftlog_sim.kernel import SECOND, Kernel

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SimLoop(asyncio.BaseEventLoop):
    """Of one process of a door."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._dead = False

    def __del__(self) -> None:
        """There is nothing to close: it holds no sockets, and no threads."""

    def time(self) -> float:
        """Seconds of simulated time."""
        return self._kernel.now_us / SECOND

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """From outside: have it run as a task."""
        return self.create_task(work)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._kernel.after(0, self._call, handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        due_us = ceil(when * SECOND)
        # Not before: who looks at the clock then finds that the time has come.
        self._kernel.at(due_us if due_us / SECOND >= when else due_us + 1, self._call, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when it is due."""

    def call_exception_handler(self, context: Any) -> None:
        """Errors of a callback are errors of the run; a task that is left when its door dies is none."""
        error = context.get("exception")
        if error is not None and not self._dead:
            raise error

    def die(self) -> None:
        """The process is gone."""
        self._dead = True
        while self._tasks:
            task, _ = self._tasks.popitem()
            if not task.done():
                self._within(partial(_close, task.get_coro()))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def _call(self, handle: asyncio.Handle, second: object) -> None:
        if not self._dead and not handle.cancelled():
            self._within(handle._run)

    def _within(self, call: Callable[[], Any]) -> None:
        """Call it as what runs in this loop."""
        asyncio._set_running_loop(self)
        try:
            call()
        finally:
            asyncio._set_running_loop(None)


def _close(coroutine: Any) -> None:
    """It would be closed when memory is tidied up, some time. What has not begun begins, so that Python does
    not take it for forgotten; a dead door does nothing.
    """
    try:
        if getcoroutinestate(coroutine) == CORO_CREATED:
            coroutine.send(None)
    except (StopIteration, Exception):
        return
    coroutine.close()
