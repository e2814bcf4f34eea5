"""Publishing with acks, many in flight.

Each message gets its own reply subject under one inbox; one subscription collects the answers. What an answer
means, in the terms of a history (N4):

    ok     stored at `offset`, and it will stay (acknowledged at the stream's policy)
    fail   certainly not stored: refused by configuration, or nobody listened on the subject
    info   unknown: no answer in time, or an error that says no more than "not by this epoch"
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection
from types import TracebackType
from typing import NamedTuple

import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from liftlog.client.errors import Unreachable, forbids
from liftlog.types import LiftlogError

OK, FAIL, INFO = "ok", "fail", "info"
SWEEP_S = 0.05
"""How often is looked for what is late, and how long a message waits that found nobody and is sent again."""
NOBODY = "no stream listens on this subject"
FULL_ACK = {"Liftlog-Ack": "full"}
"""Header of a message whose answer shall say offset, partition, epoch and incarnation."""


class PublishResult(NamedTuple):
    """What became of one message. `tag` is the caller's; offsets are -1 unless the outcome is ok."""

    tag: int
    outcome: str
    stream: str = ""
    partition: int = -1
    offset: int = -1
    epoch: int = -1
    incarnation: int = -1
    error: str = ""


class _Waiting:
    """A message in flight."""

    __slots__ = ("deadline_s", "headers", "refused", "subject", "value")

    def __init__(self, subject: str, value: bytes, headers: dict[str, str] | None, deadline_s: float) -> None:
        self.subject = subject
        self.value = value
        self.headers = headers
        self.deadline_s = deadline_s
        self.refused: PublishResult | None = None
        """Its last attempt was certainly not stored, and the next one has not been made."""


class Publisher:
    """Up to `window` messages in flight; use as an async context manager, which waits for the last
    answers."""

    def __init__(
        self,
        connection: NatsConnection,
        on_result: Callable[[PublishResult], object],
        window: int,
        ack_timeout_ms: int,
        insist: bool = False,
        complaints: Collection[Exception] = (),
    ) -> None:
        """`insist`: send again, until its time is over, what found nobody who listens.

        `complaints`: what NATS says against us, as it comes.
        """
        self._insist = insist
        self._complaints = complaints
        self._nats = connection
        self._on_result = on_result
        self._window = max(1, window)
        self._ack_timeout_s = ack_timeout_ms / 1000
        self._inbox = ""
        self._prefix_length = 0
        self._subscription: Subscription | None = None
        self._pending: dict[int, _Waiting] = {}
        self._again: list[int] = []
        self._moved = asyncio.Event()
        self._sweeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Publisher:
        self._inbox = self._nats.new_inbox() + "."
        self._prefix_length = len(self._inbox)
        self._subscription = await self._nats.subscribe(
            self._inbox + "*", cb=self._on_answer, pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        await self._nats.flush()
        self._sweeper = asyncio.create_task(self._sweep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self.drain()
        finally:
            if self._sweeper is not None:
                self._sweeper.cancel()
            if self._subscription is not None and not self._nats.is_closed:
                await self._subscription.unsubscribe()

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    async def send(self, tag: int, subject: str, value: bytes, headers: dict[str, str] | None = None) -> None:
        """Publish, asking for the full ack; waits while the window is full. `tag` must be unique among the
        messages in flight.

        Raises LiftlogError for what no server will take: an invalid subject, a payload above the limit.
        """
        while len(self._pending) >= self._window:
            self._moved.clear()
            await self._moved.wait()
        deadline_s = asyncio.get_running_loop().time() + self._ack_timeout_s
        self._pending[tag] = _Waiting(subject, value, headers, deadline_s)
        try:
            await self._publish(tag, self._pending[tag])
        except nats.errors.MaxPayloadError:
            del self._pending[tag]
            limit = self._nats.max_payload
            raise LiftlogError(
                f"message of {len(value)} bytes exceeds the NATS server's limit of {limit}; "
                "split it, or raise max_payload of the server"
            ) from None
        except nats.errors.BadSubjectError:
            del self._pending[tag]
            raise LiftlogError(
                f"subject {subject!r} cannot be published to; use tokens joined by dots"
            ) from None
        except nats.errors.Error as error:
            del self._pending[tag]
            raise Unreachable(f"NATS took no message: {error}") from None

    async def drain(self) -> None:
        """Wait until every message has its result; those without an answer in time get `info`."""
        while self._pending:
            self._moved.clear()
            await self._moved.wait()

    async def _on_answer(self, message: Msg) -> None:
        tag = int(message.subject[self._prefix_length :])
        waiting = self._pending.get(tag)
        if waiting is None:
            return
        result = result_of(tag, message)
        if self._insist and result.error == NOBODY:
            waiting.refused = result
            self._again.append(tag)
            return
        del self._pending[tag]
        self._on_result(result)
        self._moved.set()

    async def _sweep(self) -> None:
        """Give up on what was not answered in time; the oldest come first."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now_s = asyncio.get_running_loop().time()
            late = []
            subjects = {waiting.subject for waiting in self._pending.values()} if self._complaints else set()
            forbidden = {subject for subject in subjects if forbids(self._complaints, subject)}
            for tag, waiting in self._pending.items():
                if waiting.deadline_s > now_s and not forbidden:
                    break
                if waiting.deadline_s <= now_s or waiting.subject in forbidden:
                    late.append(tag)
            for tag in late:
                waiting = self._pending.pop(tag)
                why = "no answer in time"
                if waiting.subject in forbidden:
                    why = f"this NATS user may not publish to {waiting.subject!r}"
                self._on_result(waiting.refused or PublishResult(tag, INFO, error=why))
            if late:
                self._moved.set()
            again, self._again = self._again, []
            for tag in again:
                await self._send_again(tag)

    async def _publish(self, tag: int, waiting: _Waiting) -> None:
        headers = {**FULL_ACK, **(waiting.headers or {})}
        reply = f"{self._inbox}{tag}"
        await self._nats.publish(waiting.subject, waiting.value, reply=reply, headers=headers)

    async def _send_again(self, tag: int) -> None:
        waiting = self._pending.get(tag)
        if waiting is None:
            return
        waiting.refused = None
        try:
            await self._publish(tag, waiting)
        except nats.errors.Error:
            # Not even sent: the connection may come back in time.
            waiting.refused = PublishResult(tag, FAIL, error=NOBODY)
            self._again.append(tag)


def result_of(tag: int, message: Msg) -> PublishResult:
    """Read one answer."""
    if message.headers and message.headers.get("Status") == "503":
        return PublishResult(tag, FAIL, error=NOBODY)
    try:
        body = json.loads(message.data)
        if "error" in body:
            ours = body.get("liftlog", {})
            return PublishResult(tag, ours.get("outcome", INFO), error=str(body["error"]["description"]))
        numbers = (body["partition"], body["offset"], body["epoch"], body["incarnation"])
        if not all(type(number) is int for number in numbers):
            raise TypeError(numbers)
        return PublishResult(tag, OK, body["stream"], *numbers)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return PublishResult(tag, INFO, error=f"an answer that is not liftlog's: {message.data[:100]!r}")
