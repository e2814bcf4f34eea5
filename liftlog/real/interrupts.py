"""Holding back SIGINT and SIGTERM over the few steps that must not be torn apart."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Inside, SIGINT and SIGTERM wait; the first that came is delivered at the end of the block.

    For starting a process and keeping its handle: an interrupt between the two would leave a process that
    nobody knows. Handlers, unlike a signal mask, are not inherited by what is started. Does nothing outside
    the main thread, where Python runs no handlers anyway.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    previous = {number: signal.signal(number, hold) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextlib.contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that does not outlive the block, however the block ends. `options` are those of Popen."""
    process: subprocess.Popen[Any] | None = None
    try:
        with held():
            process = subprocess.Popen(command, **options)
        yield process
    finally:
        if process is not None:
            process.kill()
            process.wait()
