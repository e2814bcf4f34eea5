"""Publishing with acks, many in flight.

Each message gets its own reply subject under one inbox; one subscription collects the answers. What an answer
means, in the terms of a history (N4):

    ok     stored at `offset`, committed, and it will stay
    leader stored at `offset` by the partition's leader, and durable there: who asked for its word alone is
           told no more. It stays unless another node leads that lacks it
    sent   handed to NATS by who asked for no answer
    fail   certainly not stored: refused by configuration, or nobody listened on the subject
    info   unknown: no answer in time, or an error that says no more than "not by this epoch"
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple

import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from liftlog.bounds import ID_BYTES_MAX, TTL_LEAST_MS, TTL_MOST_MS
from liftlog.client.batches import BatchRecord, batch_message
from liftlog.client.errors import Unreachable, forbids
from liftlog.subjects.grammar import publish_problem
from liftlog.types import NO_OFFSET, NUMBER_MAX, LiftlogError

OK, FAIL, INFO = "ok", "fail", "info"
LEADER, SENT = "leader", "sent"
POLICIES = ("all", "leader", "none")
"""Whose word an ack is (R4)."""
SWEEP_S = 0.05
"""How often is looked for what is late, and how long a message waits that found nobody and is sent again."""
NOBODY = "no stream listens on this subject"
LATE = "no answer in time, so it may be stored"
FULL_ACK = {"Liftlog-Ack": "full"}
"""Header of a message whose answer shall say offset, partition, epoch and incarnation."""
POLICY_HEADER = "Liftlog-Ack-Policy"
EXPECTED_HEADER = "Liftlog-Expected-Offset"
EXPECTED_LAST_HEADER = "Liftlog-Expected-Last-Subject-Offset"
ID_HEADER = "Nats-Msg-Id"
ROLLUP_HEADER = "Nats-Rollup"
ROLLUPS = ("sub", "all")
TTL_HEADER = "Nats-TTL"


_subject_problem = functools.lru_cache(maxsize=4096)(publish_problem)
"""A publisher says the same subjects over and over."""


class PublishResult(NamedTuple):
    """What became of one message. `tag` is the caller's; no offset is known unless it was stored."""

    tag: int
    outcome: str
    stream: str = ""
    partition: int = -1
    offset: int = -1
    epoch: int = -1
    incarnation: int = -1
    error: str = ""
    next_offset: int = -1
    """Of a message that expected an offset, and was refused: where it would have come to lie (L6)."""
    last_offset: int | None = None
    """Of a message that expected another last message of its subject, and was refused: that one's offset, -1
    if there is none (L9); None: it was not refused for that."""
    duplicate: bool = False
    """It was not stored, since the first one with its id is, at `offset` (L7). `epoch` and `incarnation` are
    of the leader that says so."""
    next_sequence: int = -1
    """Of a message with a number, which was refused: which one of its run is due (L2)."""
    newest_run: int = -1
    """The same: its producer has this run, which is newer."""
    records: int = 0
    """Of a batch that was stored: how many it has, the first of which lies at `offset` (L8); 0: none."""
    code: str = ""
    """Of a message that a leader refused: our own code (docs/wire.md)."""


class Unanswered:
    """A message in flight."""

    __slots__ = ("deadline_s", "headers", "refused", "sent_s", "subject", "value")

    def __init__(self, subject: str, value: bytes, headers: dict[str, str] | None, deadline_s: float) -> None:
        self.subject = subject
        self.value = value
        self.headers = headers
        self.deadline_s = deadline_s
        self.sent_s = 0.0
        """When it was sent last, where that counts."""
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
        ack: str = "all",
    ) -> None:
        """`insist`: send again, until its time is over, what found nobody who listens.

        `complaints`: what NATS says against us, as it comes. `ack`: one of POLICIES. Raises LiftlogError for
        another one. What `on_result` raises ends the publishing: `send` and `drain` raise it.
        """
        if ack not in POLICIES:
            raise LiftlogError(f"there is no ack policy {ack!r}; use {', '.join(POLICIES)}")
        self._ack = ack
        self._wishes = FULL_ACK if ack == "all" else {**FULL_ACK, POLICY_HEADER: ack}
        self._insist = insist
        self._complaints = complaints
        self._nats = connection
        self._on_result = on_result
        self._window = max(1, window)
        self._ack_timeout_s = ack_timeout_ms / 1000
        self._inbox = ""
        self._prefix_length = 0
        self._subscription: Subscription | None = None
        self._pending: dict[int, Unanswered] = {}
        self._again: list[int] = []
        self._moved = asyncio.Event()
        self._broken: Exception | None = None
        """What `on_result` raised, to be raised again where somebody waits."""
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
                if self._ack == "none":
                    await self._nats.flush()
        finally:
            if self._sweeper is not None:
                self._sweeper.cancel()
            if self._subscription is not None and not self._nats.is_closed:
                await self._subscription.unsubscribe()

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    async def send(self, tag: int, subject: str, value: bytes, headers: dict[str, str] | None = None) -> None:
        """Publish, asking for the full ack, or for none; waits while the window is full. `tag` must be unique
        among the messages in flight.

        Raises LiftlogError for what no server will take, and for a subject that is none to publish to.
        """
        if problem := _subject_problem(subject):
            raise LiftlogError(f"subject {subject!r} cannot be published to: {problem}")
        while len(self._pending) >= self._window and self._broken is None:
            self._moved.clear()
            await self._moved.wait()
        if self._broken is not None:
            raise self._broken
        deadline_s = asyncio.get_running_loop().time() + self._ack_timeout_s
        self._pending[tag] = Unanswered(subject, value, headers, deadline_s)
        try:
            await self._publish(tag, self._pending[tag])
        except nats.errors.MaxPayloadError:
            del self._pending[tag]
            limit = self._nats.max_payload
            raise LiftlogError(
                f"message of {len(value)} bytes exceeds the NATS server's limit of {limit}; "
                "split it, or raise max_payload of the server"
            ) from None
        except nats.errors.Error as error:
            del self._pending[tag]
            raise Unreachable(f"NATS took no message: {error}") from None
        if self._ack == "none":
            del self._pending[tag]
            self._on_result(PublishResult(tag, SENT))

    async def send_batch(
        self,
        tag: int,
        subject: str,
        records: Sequence[BatchRecord | bytes],
        headers: Mapping[str, str] | None = None,
        *,
        codec: str = "none",
    ) -> None:
        """Publish these records in one message, to be stored together or not at all (L8); one result tells of
        all of them. See `batch_message`. Raises LiftlogError for what cannot be sent.
        """
        value, wanted = batch_message(records, headers, codec)
        await self.send(tag, subject, value, wanted)

    async def drain(self) -> None:
        """Wait until every message has its result; those without an answer in time get `info`."""
        while self._pending and self._broken is None:
            self._moved.clear()
            await self._moved.wait()
        if self._broken is not None:
            raise self._broken

    def _tell(self, result: PublishResult) -> None:
        """Hand a result to the caller, who is not in this task: what he raises waits until he is."""
        try:
            self._on_result(result)
        except Exception as error:
            self._broken = self._broken or error
        self._moved.set()

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
        self._tell(result)

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
                why = LATE
                if waiting.subject in forbidden:
                    why = f"this NATS user may not publish to {waiting.subject!r}"
                self._tell(waiting.refused or PublishResult(tag, INFO, error=why))
            again, self._again = self._again, []
            for tag in again:
                await self._send_again(tag)

    async def _publish(self, tag: int, waiting: Unanswered) -> None:
        headers = {**self._wishes, **(waiting.headers or {})}
        reply = "" if self._ack == "none" else f"{self._inbox}{tag}"
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


def expecting(offset: int | None) -> dict[str, str]:
    """The header of a message that is to be stored at this offset or not at all (L6). Raises LiftlogError."""
    if offset is None:
        return {}
    if offset < 0:
        raise LiftlogError(f"expected offset {offset} is negative; the first record of a partition has 0")
    if offset > NUMBER_MAX:
        raise LiftlogError(f"expected offset {offset} is greater than any: no offset is above {NUMBER_MAX}")
    return {EXPECTED_HEADER: str(offset)}


def expecting_last(offset: int | None) -> dict[str, str]:
    """The header of a message that is to be stored if this is the offset of the last one of its subject, -1:
    if that has none (L9). Raises LiftlogError.
    """
    if offset is None:
        return {}
    if not NO_OFFSET <= offset <= NUMBER_MAX:
        raise LiftlogError(
            f"expected last offset {offset}: use the offset of a message, up to {NUMBER_MAX}, or -1 for none"
        )
    return {EXPECTED_LAST_HEADER: "none" if offset == NO_OFFSET else str(offset)}


def identified(message_id: str | None) -> dict[str, str]:
    """The header of a message that is to be stored once (L7). Raises LiftlogError."""
    if message_id is None:
        return {}
    # What a command line could not decode is no text, and cannot be encoded: it is not printable either.
    size = len(message_id.encode("utf-8", "surrogatepass"))
    if not message_id.isprintable() or message_id != message_id.strip() or not 0 < size <= ID_BYTES_MAX:
        raise LiftlogError(
            f"message id {message_id[:64]!r} cannot travel in a NATS header; use printable text, trimmed, "
            f"of 1 to {ID_BYTES_MAX} bytes"
        )
    return {ID_HEADER: message_id}


def rolling_up(rollup: str | None) -> dict[str, str]:
    """The header of a message that rolls up those before it (R23). Raises LiftlogError."""
    if rollup is None:
        return {}
    if rollup not in ROLLUPS:
        raise LiftlogError(
            f"rollup {rollup[:64]!r}: 'sub' deletes the older messages of the subject, 'all' those of the "
            "partition"
        )
    return {ROLLUP_HEADER: rollup}


def living(ttl_ms: int | None) -> dict[str, str]:
    """The header of a message that goes when it is so old; 0: it stays (R24). Raises LiftlogError."""
    if ttl_ms is None:
        return {}
    if ttl_ms and not TTL_LEAST_MS <= ttl_ms <= TTL_MOST_MS:
        raise LiftlogError(f"ttl_ms={ttl_ms}: it is {TTL_LEAST_MS} to {TTL_MOST_MS}, or 0 for one that stays")
    return {TTL_HEADER: f"{ttl_ms}ms" if ttl_ms else "never"}


def result_of(tag: int, message: Msg) -> PublishResult:
    """Read one answer."""
    if message.headers and message.headers.get("Status") == "503":
        return PublishResult(tag, FAIL, error=NOBODY)
    try:
        body = json.loads(message.data)
        if "error" in body:
            ours = body.get("liftlog", {})
            due = {name: ours.get(name, -1) for name in ("next_offset", "next_sequence", "newest_run")}
            last_offset = ours.get("last_offset")
            if not all(type(number) is int for number in due.values()):
                raise TypeError(due)
            if type(last_offset) not in (int, type(None)):
                raise TypeError(last_offset)
            return PublishResult(
                tag,
                ours.get("outcome", INFO),
                error=str(body["error"]["description"]),
                last_offset=last_offset,
                code=str(ours.get("code", "")),
                **due,
            )
        numbers = (body["partition"], body["offset"], body["epoch"], body["incarnation"])
        records = body.get("count", 0)
        if not all(type(number) is int for number in (*numbers, records)):
            raise TypeError(numbers)
        outcome = LEADER if body.get("policy") == "leader" else OK
        duplicate = body.get("duplicate") is True
        return PublishResult(tag, outcome, body["stream"], *numbers, records=records, duplicate=duplicate)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return PublishResult(tag, INFO, error=f"an answer that is not liftlog's: {message.data[:100]!r}")
