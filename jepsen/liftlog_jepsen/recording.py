"""What the recorders of clients' doings have in common: who is somebody new, and how an operation ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from liftlog_jepsen.history import HistoryWriter, Mop

T = TypeVar("T")
P = TypeVar("P")


class SendAnswer(Protocol):
    """What became of a message."""

    @property
    def outcome(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def error(self) -> str: ...
    @property
    def duplicate(self) -> bool: ...


def end_send(writer: HistoryWriter, op_id: int, result: SendAnswer) -> bool:
    """Write down what became of a message. Whether that is known."""
    if result.outcome == "ok" and result.duplicate:
        # An earlier attempt is stored; who says so need not be who wrote it.
        writer.ok(op_id, offset=result.offset)
    elif result.outcome == "ok":
        writer.ok(op_id, offset=result.offset, epoch=result.epoch, leader=result.incarnation)
    elif result.outcome == "fail":
        writer.fail(op_id, result.error)
    else:
        writer.info(op_id, result.error)
        return False
    return True


class ClientRecorder:
    """Writes down what clients do, in one thread.

    `first_process`: from here on they are numbered, as processes that nobody else in the history is.
    """

    def __init__(self, writer: HistoryWriter, first_process: int) -> None:
        self.writer = writer
        self._next_process = first_process

    def process(self) -> int:
        """The number of somebody new. One who does not know an outcome goes on as another."""
        self._next_process += 1
        return self._next_process - 1

    async def doing(
        self, f: str, process: int, what: Callable[[], Awaitable[T]], *told: Mop
    ) -> tuple[int, T]:
        """Begin an operation, do it, and leave its end to the caller. `told`: facts, should it not end."""
        op_id = self.writer.invoke(process, f)
        self.writer.mops(op_id, told)
        try:
            return op_id, await what()
        except BaseException as error:
            self.writer.info(op_id, f"{type(error).__name__}: {error}")
            raise


class RecordedClient:
    """One client. It is one process until an outcome is unknown."""

    def __init__(self, recorder: ClientRecorder) -> None:
        self._by = recorder
        self._process = recorder.process()

    async def _doing(self, f: str, what: Callable[[], Awaitable[T]], *told: Mop) -> tuple[int, T]:
        try:
            return await self._by.doing(f, self._process, what, *told)
        except BaseException:
            self._process = self._by.process()
            raise


class RecordedSender(RecordedClient):
    """One who sends a message, hears what became of it, and sends the next."""

    async def send(
        self,
        begin: Callable[[int], int],
        publish: Callable[[], Awaitable[P]],
        end: Callable[[int, P], bool],
    ) -> P:
        """`begin`: writes down that this process sends, and returns the operation. `end`: writes down what
        became of it; whether that is known.
        """
        op_id = begin(self._process)
        try:
            result = await publish()
        except BaseException as error:
            self._by.writer.info(op_id, f"{type(error).__name__}: {error}")
            self._process = self._by.process()
            raise
        if not end(op_id, result):
            self._process = self._by.process()
        return result
