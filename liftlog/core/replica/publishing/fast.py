"""Fast batches: messages that are stored as they come, and acked by the number, many at a time (L12).

Each is a plain message of the log. Its publisher numbers it, and hears of every so many that all up to there
are committed; how many that are its leader says, by what else it has to do. A number that is missing is told
at once. A batch that takes gaps goes on behind it; of another one nothing more is stored.

Kept is how far each batch is, and nothing of its messages: they wait in the log as others do. Another leader
knows none of it, and says so. The model is `fast_batches`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from liftlog.core.replica.state.log import LogState
from liftlog.messages import ERR_FAST_MANY, ERR_FAST_UNKNOWN, TellFast
from liftlog.options.wishes import FastPart, Refusal, Wishes
from liftlog.types import NO_OFFSET, Message

OF_STREAM_MAX = 1000
"""So many fast batches one partition has at most, as in nats-server."""
SILENT_MS = 10_000
"""A batch is given up that had no message for so long."""
FLOW_MOST = 500
"""The batches of a partition share so many messages between two acks."""
SHARE = 4
"""And so much of `inflight_max_bytes`: a publisher has two acks' worth under way, and there are others."""


class FastBatch:
    """How far one is."""

    __slots__ = (
        "ended",
        "flow",
        "id",
        "last",
        "most",
        "offset",
        "pending",
        "reply",
        "size",
        "stored",
        "told",
        "until",
    )

    def __init__(self, part: FastPart, message: Message) -> None:
        self.id = part.id
        self.most = part.flow
        """So many messages its publisher wants between two acks at most."""
        self.flow = 1
        """And so many there are."""
        self.last = part.number - 1
        """The number of the last one that came."""
        self.stored = self.last
        """Of the last one that is committed."""
        self.told = self.last
        """Of the last one that was acked."""
        self.offset = NO_OFFSET
        """Where the last one lies that is committed."""
        self.pending = 0
        """So many are not committed yet."""
        self.size = len(message.value) + len(message.headers)
        """Of the last message, in bytes."""
        self.reply = message.reply
        """Where it is told what becomes of it: as the last message said, or the one that ended it."""
        self.ended = False
        """Nothing more is stored, and its last answer is due."""
        self.until = 0
        """The tick at which it is given up."""

    @property
    def done(self) -> int:
        """All up to this number are committed, but for gaps."""
        return self.stored if self.pending else self.last

    def live(self, until: int) -> None:
        """Its publisher is there."""
        self.until = until

    def answer_at(self, reply: bytes) -> None:
        """What follows is told there."""
        self.reply = reply

    def pass_to(self, number: int) -> None:
        """Nothing more comes up to this one."""
        self.last = number

    def take(self, message: Message, part: FastPart) -> None:
        """This one is to be stored."""
        self.last = part.number
        self.pending += 1
        self.size = len(message.value) + len(message.headers)
        self.ended = part.ends

    def end(self) -> None:
        """Nothing more is stored."""
        self.ended = True

    def committed(self, one: _Appended) -> None:
        """These are."""
        self.pending -= one.messages
        self.stored, self.offset = one.number, one.offset

    def is_due(self) -> bool:
        """Whether so many are committed that it is time for an ack, of which it is told then."""
        steps = (self.done - self.told) // self.flow
        self.told += max(0, steps) * self.flow
        return steps > 0

    def pace(self, most: int) -> None:
        """So many may lie between two acks."""
        self.flow = min(self.flow * 2, most) if self.flow < most else max(self.flow // 2, most)

    def begin_with(self, flow: int) -> None:
        """So many do at first."""
        self.flow = flow


class _Appended(NamedTuple):
    """So many messages of a batch, of which the last one has this number, lie up to this offset."""

    offset: int
    number: int
    messages: int
    batch: FastBatch


class FastBatches:
    """Of one leadership."""

    __slots__ = ("_ctx", "_log", "_open", "_waiting")

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._open: dict[bytes, FastBatch] = {}
        self._waiting: deque[_Appended] = deque()
        """What is not committed yet, in the order of the log."""

    # -- messages ---------------------------------------------------------------------------------------

    def take(self, messages: list[Message], wishes: list[Wishes]) -> tuple[list[Message], list[Wishes]]:
        """Those that are to be stored, and those that are refused. Of the former none has a reply subject
        any more: they are answered for by their batch.
        """
        if not any(wish.fast is not None for wish in wishes):
            return messages, wishes
        rest: list[Message] = []
        wished: list[Wishes] = []
        for message, wish in zip(messages, wishes, strict=True):
            if wish.fast is not None:
                found = self._part(message, wish, wish.fast)
                if found is None:
                    continue
                wish = found
                if wish.refusal is None:
                    message = Message(message.subject, b"", message.headers, message.value)
            rest.append(message)
            wished.append(wish)
        return rest, wished

    def _part(self, message: Message, wish: Wishes, part: FastPart) -> Wishes | None:
        """What is to be done about a message of a batch; None: nothing, or no more than was done."""
        batch = self._open.get(part.id)
        if batch is None:
            refusal = self._not_begun(part) or (None if part.gap_ok else wish.refusal)
            if refusal is not None:
                return wish._replace(refusal=refusal, fast=None)
            batch = self._begin(message, part)
        batch.live(self._ctx.ticks + self._ctx.ticks_of(SILENT_MS))
        if not part.kept and not part.ends:
            self._ask(batch, message, part)
            return None
        if batch.ended or not self._follows(batch, message, part):
            return None
        batch.answer_at(message.reply)
        if not part.kept:
            self._end(batch)
            return None
        if wish.refusal is not None:
            self._refuse(batch, part, wish.refusal)
            return None
        batch.take(message, part)
        return wish

    def _not_begun(self, part: FastPart) -> Refusal | None:
        """Why no batch begins with this message; None if one does."""
        shown = part.id.decode("ascii", "backslashreplace")
        begins = part.kept and (part.number == 1 or self._ctx.mutants.fast_begins_anywhere)
        if not begins:
            self._ctx.mark("L12.unknown")
            text = (
                f"fast batch {shown!r} is not known here: it has ended, was silent for {SILENT_MS} ms, or "
                "began at another leader; begin another one, with what was not acked"
            )
            return Refusal(ERR_FAST_UNKNOWN, text)
        if len(self._open) >= OF_STREAM_MAX or self._ctx.batches.full_of_fast:
            self._ctx.mark("L12.many")
            text = (
                f"a partition has {OF_STREAM_MAX} fast batches at most, a node {self._ctx.batches.fast} at "
                "present; try again later, or publish one by one"
            )
            return Refusal(ERR_FAST_MANY, text)
        return None

    def _begin(self, message: Message, part: FastPart) -> FastBatch:
        batch = self._open[part.id] = FastBatch(part, message)
        self._ctx.batches.begin_fast()
        self._ctx.mark("L12.begun")
        if len(self._open) == 1:
            batch.begin_with(self._most(batch))
        if not part.ends:
            self._tell(batch, "ack", 0, batch.flow)
        return batch

    def _follows(self, batch: FastBatch, message: Message, part: FastPart) -> bool:
        """Whether the batch has all before this message, or does without."""
        due = batch.last + 1
        if part.number != due:
            self._ctx.mark("L12.gap")
            batch.answer_at(message.reply)
            self._tell(batch, "gap", part.number, due)
        if part.number > due and part.gap_ok:
            batch.pass_to(part.number - 1)
        elif not self._ctx.decides(("L12.due", part.number == due)):
            self._ctx.mark("L12.broken")
            batch.answer_at(message.reply)
            self._end(batch)
            return False
        return True

    def _ask(self, batch: FastBatch, message: Message, part: FastPart) -> None:
        """Its publisher asks how far it is, and says up to where it has sent."""
        self._ctx.mark("L12.asked")
        reply = message.reply
        if part.number > batch.last and not batch.ended:
            self._tell(batch, "gap", part.number + 1, batch.last + 1, reply)
            if not part.gap_ok:
                batch.answer_at(reply)
                self._end(batch)
                return
            batch.pass_to(part.number)
        self._tell(batch, "ack", batch.told, batch.flow, reply)

    def _refuse(self, batch: FastBatch, part: FastPart, refusal: Refusal) -> None:
        """This message is not stored. Nor is any behind it, if there are to be no gaps."""
        self._ctx.mark("L12.refused")
        self._tell(batch, "err", part.number, refusal=refusal)
        if part.gap_ok and not part.ends:
            batch.pass_to(part.number)
            self._ack(batch)
        else:
            self._end(batch)

    # -- answers ----------------------------------------------------------------------------------------

    def appended(self, wishes: Sequence[Wishes] | None, base: int) -> None:
        """These messages lie from `base` on."""
        if wishes is None or not self._open:
            return
        found: dict[bytes, tuple[int, int, int]] = {}
        offset = base
        for wish in wishes:
            part = wish.fast
            if part is not None:
                count = found[part.id][2] if part.id in found else 0
                found[part.id] = offset, part.number, count + 1
            offset += wish.span
        for id, (last, number, count) in found.items():
            self._waiting.append(_Appended(last, number, count, self._open[id]))
        if self._ctx.mutants.fast_acked_at_append:
            self.committed(offset)

    def committed(self, hw: int) -> None:
        """What lies below is committed: ack it."""
        while self._waiting and self._waiting[0].offset < hw:
            one = self._waiting.popleft()
            one.batch.committed(one)
            self._ack(one.batch)

    def _ack(self, batch: FastBatch) -> None:
        """If so many are committed that it is time."""
        if batch.ended:
            self._finish(batch)
            return
        if batch.is_due():
            self._ctx.mark("L12.acked")
            batch.pace(self._most(batch))
            self._tell(batch, "ack", batch.told, batch.flow)

    def _most(self, batch: FastBatch) -> int:
        """So many messages it may send between two acks."""
        batches = len(self._open)
        room = self._ctx.config.inflight_max_bytes // (SHARE * batches)
        return max(1, min(FLOW_MOST // batches, batch.most, room // max(1, batch.size)))

    def _end(self, batch: FastBatch) -> None:
        """Nothing more is stored of it."""
        batch.end()
        self._finish(batch)

    def _finish(self, batch: FastBatch) -> None:
        """Its last answer, once all that is stored of it is committed."""
        if not batch.pending and self._drop(batch):
            self._ctx.mark("L12.ended")
            self._tell(batch, "end", batch.last, batch.offset)

    def _tell(
        self,
        batch: FastBatch,
        word: str,
        number: int,
        other: int = 0,
        reply: bytes = b"",
        refusal: Refusal | None = None,
    ) -> None:
        stream = self._ctx.metadata.by_id.get(self._log.id.stream)
        code, text = refusal or ("", "")
        name = stream.config.name if stream is not None else ""
        told = TellFast(
            partition=self._log.id,
            stream=name,
            batch=batch.id,
            reply=reply or batch.reply,
            word=word,
            number=number,
            other=other,
            code=code,
            text=text,
        )
        self._ctx.effects.append(told)

    # -- ends -------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """The stream may take none any more."""
        config = self._log.config
        if config is not None and config.allow_fast_batches is not True:
            self.forget()

    def tick(self) -> None:
        """Give up those that have been silent for too long, and have nothing under way."""
        for batch in [batch for batch in self._open.values() if batch.until <= self._ctx.ticks]:
            if not batch.pending:
                self._ctx.mark("L12.silent")
                self._drop(batch)

    def forget(self) -> None:
        """This leader answers no more. What is stored stays."""
        for batch in list(self._open.values()):
            self._ctx.mark("L12.forgotten")
            self._drop(batch)
        self._waiting.clear()

    def _drop(self, batch: FastBatch) -> bool:
        """Whether it was there."""
        if self._open.get(batch.id) is not batch:
            return False
        del self._open[batch.id]
        self._ctx.batches.end_fast()
        return True
