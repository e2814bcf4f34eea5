"""The lock around every queue operation, and what becomes of a failure inside it.

A refused write leaves a queue as it was: the caller is told TRY_LATER and goes on (D5). A failed sync (R5),
or an appending operation that was torn off in its middle by Ctrl-C or by a bug, leaves a queue of which
nobody knows whether memory and file still agree: it is given up, and only a new start may look at its files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from liftlog.ports import SyncFailed
from liftlog.queue.codes import InternalError, ResultCode
from liftlog.storage.segment import BadBytes
from liftlog.types import LiftlogError


class Guard:
    """Use as a context manager: holds the lock, checks that the queue may be used, translates failures."""

    __slots__ = ("_check", "_give_up", "_lock", "_writing")

    def __init__(
        self,
        lock: threading.RLock,
        check: Callable[[], None],
        give_up: Callable[[BaseException], None],
        *,
        writing: bool,
    ) -> None:
        """`check` raises if the queue may not be used; `writing`: what is guarded changes the log."""
        self._lock = lock
        self._check = check
        self._give_up = give_up
        self._writing = writing

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._check()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None or isinstance(error, LiftlogError):
                return
            known = isinstance(error, (OSError, BadBytes))
            if isinstance(error, SyncFailed) or (self._writing and not known):
                self._give_up(error)
            if known:
                raise as_queue_error(error) from error
        finally:
            self._lock.release()


def as_queue_error(error: BaseException) -> InternalError:
    """A refused write may succeed when there is space again (D5); nothing else mends itself."""
    if isinstance(error, InternalError):
        return error
    if isinstance(error, OSError) and not isinstance(error, SyncFailed):
        return InternalError(f"{text_of(error)}; nothing was changed", ResultCode.TRY_LATER)
    return InternalError(text_of(error))


def text_of(error: BaseException) -> str:
    return str(error) or type(error).__name__
