"""Batches of messages that come one by one, and are stored together or not at all (L11).

The leader keeps the messages of a batch in memory, in the order of their numbers, and answers each with
nothing. The one that ends the batch makes one parcel of them (L8): one batch of the log, under one checksum,
with one ack. What they expect is judged then, against all that lies before the batch (L6, L9).

Nothing is stored before, and nothing is kept for another leader: who leads next has none of it, and takes no
message of a batch whose beginning it lacks. So does this one when a number is missing. The model is
`batches`.
"""

from __future__ import annotations

from liftlog.core.replica.publishing.fast import FastBatches
from liftlog.core.replica.publishing.lasts import LastRecords
from liftlog.core.replica.state.advising import Advisories
from liftlog.core.replica.state.log import LogState
from liftlog.format import HEADER_BYTES, RECORD_HEAD_BYTES
from liftlog.messages import (
    ERR_BATCH_COMMIT,
    ERR_BATCH_DISABLED,
    ERR_BATCH_DUPLICATE,
    ERR_BATCH_HEADER,
    ERR_BATCH_ID,
    ERR_BATCH_INCOMPLETE,
    ERR_BATCH_LARGE,
    ERR_BATCH_MANY,
    ERR_BATCH_SEQUENCE,
    ERR_EXPECTED_WITHIN,
    ERR_OVERLOAD,
    TellStaged,
)
from liftlog.options.batches import COMMIT_LINE, MESSAGES_MAX, BatchPart, WholeBatch
from liftlog.options.wishes import ALL, NO_WISHES, Refusal, Wishes
from liftlog.parcel import Parcel, ParcelRecord, plain_of
from liftlog.types import Message

OF_STREAM_MAX = 50
"""So many batches one partition keeps at most, as in nats-server."""
SILENT_MS = 10_000
"""A batch is given up that had no message for so long."""

ABANDONED = {
    ERR_BATCH_INCOMPLETE: "incomplete",
    ERR_BATCH_LARGE: "large",
    ERR_BATCH_HEADER: "unsupported",
}
"""Why a batch is given up, as whoever listens is told; of what else is refused its author alone hears."""
ENDING = frozenset((ERR_BATCH_DISABLED, ERR_BATCH_ID, ERR_BATCH_SEQUENCE, ERR_BATCH_COMMIT))
"""What is wrong with a message as part of a batch ends the batch; what else is wrong is told at its end."""


class StagedBatch:
    """The messages of a batch, up to now. `due`: the number of the next one."""

    __slots__ = ("due", "expected", "ids", "lasts", "records", "size", "spoiled", "until", "written")

    def __init__(self, due: int) -> None:
        self.due = due
        self.records: list[ParcelRecord] = []
        self.size = 0
        """As they would lie in a batch, in bytes."""
        self.expected: int | None = None
        """L6: the offset of the first one."""
        self.lasts: list[tuple[bytes, int]] = []
        """L9: what they expect of last records."""
        self.ids: dict[bytes, int] = {}
        """L7: of those that have one, and their places."""
        self.written: set[bytes] = set()
        """Their subjects."""
        self.spoiled: Refusal | None = None
        """Why it will not be stored, as its last message is told; nothing more is kept of it."""
        self.until = 0
        """The tick at which it is given up."""

    def heard(self, until: int, problem: Refusal | None) -> None:
        """The message that was due has come, and has this problem."""
        self.due += 1
        self.until = until
        self.spoiled = self.spoiled or problem

    def keep(self, record: ParcelRecord, size: int, id: bytes | None) -> None:
        """And is in it."""
        if id is not None:
            self.ids[id] = len(self.records)
        self.records.append(record)
        self.size += size

    def expect(self, wish: Wishes, subject: bytes) -> None:
        """And expects this."""
        if wish.expected is not None:
            self.expected = wish.expected
        self.lasts.extend(wish.lasts(subject))
        self.written.add(subject)


class Staging:
    """Of one leadership."""

    __slots__ = ("_advisories", "_ctx", "_judged", "_log", "_open", "fast")

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._advisories = Advisories(log)
        self.fast = FastBatches(log)
        """L12: those of which nothing is kept."""
        self._open: dict[bytes, StagedBatch] = {}
        self._judged: dict[bytes, tuple[Message, Wishes]] = {}
        """Batches that have ended, and wait for what they expect to be known, by the message that ended
        them."""

    # -- messages ---------------------------------------------------------------------------------------

    def take(
        self, messages: list[Message], wishes: list[Wishes]
    ) -> tuple[list[Message], list[Wishes]]:
        """Keep what is part of a batch; returns the rest, and the messages that end a batch, with all of it.
        What is refused stays among them.
        """
        messages, wishes = self.fast.take(messages, wishes)
        if not any(wish.part is not None for wish in wishes):
            return messages, wishes
        rest: list[Message] = []
        wished: list[Wishes] = []
        replies: list[bytes] = []
        for message, wish in zip(messages, wishes, strict=True):
            found = wish if wish.part is None else self._part(message, wish, wish.part)
            if found is not None:
                rest.append(message)
                wished.append(found)
            elif message.reply:
                replies.append(message.reply)
        if replies:
            self._ctx.effects.append(TellStaged(self._log.id, replies))
        return rest, wished

    def _part(self, message: Message, wish: Wishes, part: BatchPart) -> Wishes | None:
        """What is to be done about a message of a batch; None: nothing yet."""
        if self._ctx.mutants.batch_stored_at_once and part.kept and not part.ends and wish.refusal is None:
            return NO_WISHES
        judged = self._judged.get(part.id)
        if judged is not None and judged[0] is message:
            del self._judged[part.id]
            return judged[1]
        record = _record(message, wish)
        refusal = self._refusal(wish, part, record)
        if refusal is not None:
            self._give_up(part.id, ABANDONED.get(refusal.code, ""))
            return wish._replace(refusal=refusal)
        batch = self._open[part.id]
        problem = wish.refusal or _spoils(message, wish, part, batch)
        batch.heard(self._ctx.ticks + self._ctx.ticks_of(SILENT_MS), problem)
        if part.kept and batch.spoiled is None:
            self._keep(batch, record, wish)
        if not part.ends:
            self._ctx.mark("L11.staged")
            return None
        del self._open[part.id]
        self._free(batch)
        if batch.spoiled is not None:
            self._ctx.mark("L11.spoiled")
            if batch.spoiled.code in ABANDONED:
                self._advisories.abandoned(part.id, ABANDONED[batch.spoiled.code])
            return wish._replace(refusal=batch.spoiled)
        self._ctx.mark("L11.whole")
        return _whole(part, wish, batch)

    def _keep(self, batch: StagedBatch, record: ParcelRecord, wish: Wishes) -> None:
        size = _size(record)
        batch.keep(record, size, wish.id)
        self._ctx.batches.add(size)
        if not self._ctx.mutants.batch_expects_nothing:
            batch.expect(wish, record.subject)

    def _refusal(self, wish: Wishes, part: BatchPart, record: ParcelRecord) -> Refusal | None:
        """Why this message, and so its batch, is not taken; None: the batch has all before it."""
        if wish.refusal is not None and wish.refusal.code in ENDING:
            return wish.refusal
        decides, room = self._ctx.decides, self._ctx.batches
        batch = self._open.get(part.id)
        if batch is None:
            begins = part.number == 1 or self._ctx.mutants.batch_begins_anywhere
            if part.id in self._judged or not begins:
                self._ctx.mark("L11.unknown")
                return _incomplete(part, "is not known here")
            few = len(self._open) + len(self._judged) < OF_STREAM_MAX and not room.full
            if not few:
                self._ctx.mark("L11.many")
                text = (
                    f"a partition keeps {OF_STREAM_MAX} batches at most, a node {room.batches} at present; "
                    "try again later"
                )
                return Refusal(ERR_BATCH_MANY, text)
            batch = self._open[part.id] = StagedBatch(part.number)
            room.begin()
        lacks = not (batch.records or batch.spoiled or part.kept)
        if not decides(("L11.due", part.number == batch.due)) or lacks:
            return _incomplete(part, f"has message {batch.due} due")
        return self._no_room(part, batch, _size(record)) if part.kept else None

    def _no_room(self, part: BatchPart, batch: StagedBatch, size: int) -> Refusal | None:
        config = self._ctx.config
        fits = part.number <= MESSAGES_MAX and HEADER_BYTES + batch.size + size <= config.batch_max_bytes
        if not fits:
            self._ctx.mark("L11.large")
            text = (
                f"a batch has at most {MESSAGES_MAX} messages, and here {config.batch_max_bytes} bytes "
                "([protocol] batch_max_bytes); send fewer at once"
            )
            return Refusal(ERR_BATCH_LARGE, text)
        if self._ctx.batches.size + size > config.inflight_max_bytes:
            self._ctx.mark("L11.overload")
            return Refusal(ERR_OVERLOAD, "too much is kept for batches that have not ended; try again later")
        return None

    # -- ends -------------------------------------------------------------------------------------------

    def wait(self, message: Message, wish: Wishes) -> int:
        """What a batch expects is not known yet: it waits until `message` is taken again. Its bytes."""
        if wish.whole is None or wish.parcel is None:
            return 0
        self._judged[wish.whole.id] = message, wish
        return len(wish.parcel.plain)

    def settle(self, lasts: LastRecords) -> None:
        """Those are stored or refused by now whose last messages do not wait any more."""
        for id in [id for id, (ended, _) in self._judged.items() if not lasts.awaits(ended)]:
            del self._judged[id]

    def configure(self) -> None:
        """The stream may take no batches any more."""
        self.fast.configure()
        config = self._log.config
        if config is not None and config.allow_batches is not True:
            self._forget_all()

    def tick(self) -> None:
        """Give up those that have been silent for too long."""
        self.fast.tick()
        for id in [id for id, batch in self._open.items() if batch.until <= self._ctx.ticks]:
            self._ctx.mark("L11.silent")
            self._give_up(id, "timeout")

    def forget(self) -> None:
        """This leader takes no messages any more."""
        self.fast.forget()
        self._forget_all()

    def _forget_all(self) -> None:
        for id in list(self._open):
            self._ctx.mark("L11.forgotten")
            self._give_up(id)
        self._judged.clear()

    def _give_up(self, id: bytes, reason: str = "") -> None:
        """`reason`: what whoever listens is told; empty: nothing."""
        batch = self._open.pop(id, None)
        if batch is not None:
            self._free(batch)
            if reason:
                self._advisories.abandoned(id, reason)

    def _free(self, batch: StagedBatch) -> None:
        self._ctx.batches.end(batch.size)


def _whole(part: BatchPart, wish: Wishes, batch: StagedBatch) -> Wishes:
    """A batch that has ended, as one parcel."""
    records = batch.records
    if not part.kept:
        last = records[-1]
        records[-1] = last._replace(headers=last.headers[: -len(b"\r\n")] + COMMIT_LINE + b"\r\n")
    return Wishes(
        full_ack=wish.full_ack,
        expected=batch.expected,
        parcel=Parcel(len(records), plain_of(records)),
        whole=WholeBatch(part.id, tuple(batch.lasts), tuple(batch.ids.items())),
    )


def _record(message: Message, wish: Wishes) -> ParcelRecord:
    value = None if wish.tombstone else message.value
    return ParcelRecord(value, wish.key, message.headers, message.subject)


def _size(record: ParcelRecord) -> int:
    strings = (record.value or b"", record.key or b"", record.headers, record.subject)
    return RECORD_HEAD_BYTES + sum(map(len, strings))


def _incomplete(part: BatchPart, why: str) -> Refusal:
    text = (
        f"batch {part.id.decode('ascii', 'backslashreplace')!r} {why}, and message {part.number} came: it is "
        "given up here; look whether it was stored, or send all of it again under another id"
    )
    return Refusal(ERR_BATCH_INCOMPLETE, text)


def _spoils(message: Message, wish: Wishes, part: BatchPart, batch: StagedBatch) -> Refusal | None:
    """Why a batch that has this message behind those that are there will not be stored, whatever comes. Who
    sends it may listen to the last answer alone, so that one says it, as it does what is expected of the log.
    """
    problem = _not_done(message, wish, part)
    if problem:
        return Refusal(ERR_BATCH_HEADER, f"{problem} is not done within a batch; publish without it")
    if part.number > 1 and wish.expected is not None:
        text = "the first message of a batch alone may expect an offset, or a last sequence"
        return Refusal(ERR_EXPECTED_WITHIN, text)
    if wish.id in batch.ids:
        text = "two messages of a batch have one id (Nats-Msg-Id): nothing of it is stored"
        return Refusal(ERR_BATCH_DUPLICATE, text)
    if any(subject in batch.written for subject, _ in wish.lasts(message.subject)):
        text = "a message expects the last record of a subject that its batch has already"
        return Refusal(ERR_EXPECTED_WITHIN, text)
    return None


def _not_done(message: Message, wish: Wishes, part: BatchPart) -> str:
    """What a message of a batch asks for that only a message of its own can; empty if nothing."""
    facts = (
        (part.kept or wish.id is None, "Nats-Msg-Id on eob"),
        (wish.after is None, "Nats-Expected-Last-Msg-Id"),
        (wish.numbered is None, "Liftlog-Producer"),
        (not wish.in_parcel, "Liftlog-Batch"),
        (wish.envelope is None, "Liftbridge's envelope"),
        (wish.policy == ALL, "Liftlog-Ack-Policy"),
        (part.ends or not wish.full_ack, "Liftlog-Ack before the last message"),
        (part.kept or not (wish.compares or wish.key or wish.rolls_up), "what a message is to do, on eob,"),
        (part.kept or not message.value, "a payload of a message that is not stored (eob)"),
    )
    return next((name for holds, name in facts if not holds), "")
