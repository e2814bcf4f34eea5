"""Publishing under numbers: what has no answer is sent again, and is stored once and in order (L2).

Each subject has a row of its own: a producer, `NAME/SUBJECT`, whose messages are numbered in the order of
`send`, whichever partition takes them. What is in flight is sent again from the oldest on, in order, when a
leader refuses one of them for now, or says nothing for a while. Since leaders take only the number that is
due, and answer for what they have, that does no harm.

A number that was used is never given to another message. Where one is refused for good, or nobody says in
time what became of it, the row goes on in a new run, with 0: late copies of the old run are refused then.
What was sent in the old run and may be stored is `info`, and is not sent in the new one.

A run is the time at which it begins, in ms, and five random digits: greater than earlier ones, and nobody
else's. A process whose clock is behind is told the newest run, and begins above it; that is allowed before it
has stored anything, and not later, when another process has taken its place.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection

import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from liftlog.bounds import PRODUCER_BYTES_MAX
from liftlog.client.errors import forbids
from liftlog.client.publisher import (
    FAIL,
    INFO,
    LATE,
    LEADER,
    NOBODY,
    OK,
    SWEEP_S,
    Publisher,
    PublishResult,
    Unanswered,
    result_of,
)
from liftlog.types import LiftlogError

IN_FLIGHT_MAX = 1000
"""A leader remembers the places of a few more messages of a producer (`producer_table.PLACES`)."""
AGAIN_S, PAUSE_S = 1.0, 0.1
"""For so long a message waits for an answer, and after a refusal, until it is sent again."""
RUN_DIGITS = 100_000


def begin_run(above: int) -> int:
    """A number for a run that begins now, greater than `above`."""
    chosen = random.SystemRandom().randrange(RUN_DIGITS)
    return max(time.time_ns() // 1_000_000 * RUN_DIGITS + chosen, above + 1 + chosen)


def producer_name(name: str) -> str:
    """The name, or for an empty one a name that nobody else has. Raises LiftlogError for one that is none."""
    if not name:
        return f"once-{random.SystemRandom().randrange(10**18)}"
    if not name.isprintable() or name != name.strip():
        raise LiftlogError(f"producer name {name[:64]!r} cannot travel in a NATS header; use printable text")
    return name


class _Numbered:
    """A message of a row. `refused`: the result of one that no leader will store under this number."""

    __slots__ = ("attempts", "refused", "sequence", "waiting")

    def __init__(self, sequence: int, waiting: Unanswered) -> None:
        self.sequence = sequence
        self.waiting = waiting
        self.attempts = 0
        self.refused: PublishResult | None = None


class _Row:
    """What is sent on one subject. `turn`: counts the times at which all in flight was sent again, so that an
    answer to an earlier time is known as one. `again_s`: when that is due next.
    """

    __slots__ = ("again_s", "ended", "next", "numbered", "producer", "run", "stored", "turn")

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.run = begin_run(0)
        self.next = 0
        self.turn = 0
        self.numbered: dict[int, _Numbered] = {}
        """In flight, by tag, in the order of their numbers."""
        self.stored = False
        """Something of ours is, or may be, so that a newer run is another process's, which began later."""
        self.again_s: float | None = None
        self.ended = ""
        """Why nothing more is sent here."""

    def renew(self, above: int = 0) -> None:
        """Go on in a new run: what is in flight gets the first numbers of it."""
        self.run = begin_run(max(above, self.run))
        self.next = 0
        self.turn += 1
        for one in self.numbered.values():
            one.sequence, one.attempts = self.next, 0
            self.next += 1

    @property
    def sent_once(self) -> bool:
        """Nothing in flight was sent a second time, so that a refusal says all of it."""
        return all(one.attempts <= 1 for one in self.numbered.values())


class NumberedPublisher(Publisher):
    """As `Publisher`, whose messages are stored once, and on each subject in the order of `send`, by a stream
    that has a window (`dedupe_window_ms`). A message is sent again until it has an answer, or its time is
    over. At most 1,000 are in flight.
    """

    def __init__(
        self,
        connection: NatsConnection,
        on_result: Callable[[PublishResult], object],
        window: int,
        ack_timeout_ms: int,
        complaints: Collection[Exception] = (),
        ack: str = "all",
        producer: str = "",
    ) -> None:
        """`producer`: the name under which leaders know this publisher; a process that begins under the same
        name replaces it. Empty: a name of its own. The rest is as of `Publisher`.
        """
        if ack == "none":
            raise LiftlogError("who numbers messages needs answers: leave ack='none', or the producer")
        window = min(window, IN_FLIGHT_MAX)
        super().__init__(connection, on_result, window, ack_timeout_ms, complaints=complaints, ack=ack)
        self.producer = producer_name(producer)
        self._rows: dict[str, _Row] = {}

    async def send(self, tag: int, subject: str, value: bytes, headers: dict[str, str] | None = None) -> None:
        """As `Publisher.send`. Raises LiftlogError too when another process has taken this one's place."""
        self._check_size(value)
        row = self._rows.get(subject)
        if row is not None and row.ended:
            raise LiftlogError(row.ended)
        producer = f"{self.producer}/{subject}"
        if len(producer.encode()) > PRODUCER_BYTES_MAX:
            raise LiftlogError(
                f"producer name and subject have {len(producer.encode())} bytes together; they may have "
                f"{PRODUCER_BYTES_MAX}: use a shorter name"
            )
        await super().send(tag, subject, value, headers)

    # -- sending ---------------------------------------------------------------------------------------

    async def _publish(self, tag: int, waiting: Unanswered) -> None:
        """Give it the next number, and send it, if nothing before it waits to be sent again."""
        row = self._rows.get(waiting.subject)
        if row is None:
            row = self._rows[waiting.subject] = _Row(f"{self.producer}/{waiting.subject}")
        one = row.numbered[tag] = _Numbered(row.next, waiting)
        row.next += 1
        if row.again_s is None:
            await self._put(row, tag, one)

    async def _put(self, row: _Row, tag: int, one: _Numbered) -> None:
        numbers = {
            "Liftlog-Producer": row.producer,
            "Liftlog-Run": str(row.run),
            "Liftlog-Sequence": str(one.sequence),
        }
        headers = {**self._wishes, **(one.waiting.headers or {}), **numbers}
        one.attempts += 1
        one.waiting.sent_s = asyncio.get_running_loop().time()
        reply = f"{self._inbox}{tag}-{row.turn}"
        try:
            await self._nats.publish(one.waiting.subject, one.waiting.value, reply=reply, headers=headers)
        except nats.errors.Error:
            self._plan(row, PAUSE_S)

    async def _put_all(self, row: _Row) -> None:
        """Send what is in flight, from the oldest on, up to one that is refused for good."""
        row.again_s = None
        row.turn += 1
        turn = row.turn
        for tag, one in list(row.numbered.items()):
            if one.refused is not None or row.turn != turn or row.again_s is not None:
                return
            if tag in row.numbered:
                await self._put(row, tag, one)

    def _plan(self, row: _Row, pause_s: float) -> None:
        if row.again_s is None:
            row.again_s = asyncio.get_running_loop().time() + pause_s

    # -- answers ---------------------------------------------------------------------------------------

    async def _on_answer(self, message: Msg) -> None:
        tag_text, _, turn = message.subject[self._prefix_length :].partition("-")
        tag = int(tag_text)
        waiting = self._pending.get(tag)
        row = self._rows[waiting.subject] if waiting is not None else None
        if row is None or tag not in row.numbered:
            return
        result = result_of(tag, message)
        if result.outcome in (OK, LEADER):
            row.stored = True
            self._end(row, tag, result)
        elif int(turn) == row.turn:
            self._refused(row, tag, result)
        self._advance(row)

    def _refused(self, row: _Row, tag: int, result: PublishResult) -> None:
        """What is to be done about a message that a leader has not stored."""
        one = row.numbered[tag]
        oldest = next(iter(row.numbered)) == tag
        if result.error == NOBODY:
            self._plan(row, PAUSE_S)
        elif result.newest_run >= 0:
            if row.stored or not row.sent_once or result.newest_run <= row.run:
                row.ended = f"{result.error}: nothing more is sent as {row.producer!r}"
                self._doubt(row, result.error)
            else:
                row.renew(result.newest_run)
                self._plan(row, 0.0)
        elif result.outcome == FAIL or result.next_offset >= 0 or result.last_offset is not None:
            one.refused = result if one.attempts <= 1 else result._replace(outcome=INFO)
        elif result.next_sequence < 0 or not oldest:
            self._plan(row, PAUSE_S)
        elif result.next_sequence < one.sequence:
            # What was stored before it is forgotten, or lost.
            if not row.sent_once:
                self._doubt(row, result.error)
            row.renew()
            self._plan(row, 0.0)
        else:
            self._plan(row, PAUSE_S)

    def _advance(self, row: _Row) -> None:
        """The oldest may be one that no leader will store: what follows gets other numbers."""
        while row.numbered:
            tag, one = next(iter(row.numbered.items()))
            if one.refused is None:
                return
            doubtful = one.refused.outcome != FAIL and one.attempts > 1
            self._end(row, tag, one.refused)
            if doubtful:
                self._doubt(row, one.refused.error)
            row.renew()
            self._plan(row, 0.0)

    def _doubt(self, row: _Row, why: str) -> None:
        """Nobody knows whether what is in flight is stored."""
        row.stored = True
        for tag in list(row.numbered):
            self._end(row, tag, PublishResult(tag, INFO, error=why))

    def _end(self, row: _Row, tag: int, result: PublishResult) -> None:
        del row.numbered[tag]
        self._pending.pop(tag, None)
        self._tell(result)

    # -- time ------------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """Send again what has no answer, and give up on what is late."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now_s = asyncio.get_running_loop().time()
            for row in list(self._rows.values()):
                self._give_up(row, now_s)
                self._advance(row)
                if not row.numbered:
                    row.again_s = None
                    continue
                oldest = next(iter(row.numbered.values()))
                if row.again_s is None and oldest.attempts and now_s >= oldest.waiting.sent_s + AGAIN_S:
                    row.again_s = now_s
                if row.again_s is not None and now_s >= row.again_s:
                    await self._put_all(row)

    def _give_up(self, row: _Row, now_s: float) -> None:
        """The oldest is late: so is all that follows it, in this run, unless nothing of it was ever sent."""
        if not row.numbered:
            return
        oldest = next(iter(row.numbered.values()))
        why = LATE
        if forbids(self._complaints, oldest.waiting.subject):
            why = f"this NATS user may not publish to {oldest.waiting.subject!r}"
        elif now_s < oldest.waiting.deadline_s:
            return
        self._doubt(row, why)
        row.renew()

    def _check_size(self, value: bytes) -> None:
        limit = self._nats.max_payload
        if len(value) > limit:
            raise LiftlogError(
                f"message of {len(value)} bytes exceeds the NATS server's limit of {limit}; "
                "split it, or raise max_payload of the server"
            )
