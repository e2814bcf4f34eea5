"""Messages with ids, or with numbers of their producers: for the length of a window each is stored once, and
a repetition is answered (L7, L2).

The leader keeps tables of what is in its log, to its end, and younger than the window: of the ids, and of
each producer its newest run and the number that is due. What is there already is not stored. The window is
measured by the *stamps* that stand in the log, and they never go back: a leader stamps with its clock or the
last record's time, whichever is later. The models are `message-ids` and `producers`.

A new leader reads them out of its log, a slice at a time, from the first record that is younger than the
window to where its epoch began; a message with an id or a number is refused meanwhile, and all others are
taken. So is it when a table is full: nothing is ever forgotten before its time. While the log cannot be read,
such messages are refused too, until it can be, or what cannot be read is older than the window.

What leaves the log at its front is kept for as long (C3): `LeaderState.needed_from` says from where on. That
goes by the newest time that is *committed*: whoever leads next may not have a later one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from liftlog.bounds import PRODUCERS_MAX
from liftlog.core.replica.publishing.expecting import ExpectedPlaces, Unfit, Unknown
from liftlog.core.replica.publishing.holding import NotNow
from liftlog.core.replica.publishing.id_table import UNKNOWN, IdTable
from liftlog.core.replica.publishing.processors import granted, misfit
from liftlog.core.replica.publishing.producer_table import Fenced, Lies, NotDue, ProducerTable, TooOld
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.format import CorruptBatch, decode_records, last_timestamp_ms, plain_payload, read_header
from liftlog.messages import (
    ERR_BATCH_DUPLICATE,
    ERR_EXPECTED_ID,
    ERR_FENCED,
    ERR_LONG_STORED,
    ERR_NOT_DUE,
    ERR_NOT_READY,
    ERR_OVERLOAD,
    LogRead,
    LookupTime,
    ReadLog,
    TimeFound,
)
from liftlog.options.batches import WholeBatch
from liftlog.options.headers import ID_LINE, stored_id
from liftlog.options.numbered import Numbered, StoredNumber, may_have_numbers, stored_number
from liftlog.options.wishes import Wishes
from liftlog.types import NO_OFFSET, Batch, LiftlogError, Record

SLICE_BYTES = 128 * 1024
"""What a leader reads at once of its log, about: a few milliseconds of its step."""
PAUSE_MS = 1000
"""For so long a leader waits that could not read its log."""
LONG_PAUSE_MS = 30_000
"""And one whose log has more ids than it may remember."""


class Again(NamedTuple):
    """The `number`-th of the messages that came is there already, at `offset`. `records`: of a parcel, how
    many it has there. `cursor`: of one that opened a run, where that begins (L10).
    """

    number: int
    offset: int
    records: int = 0
    cursor: int = NO_OFFSET


class NotNext(NamedTuple):
    """The `number`-th of them is not due in its producer's run, or its run is replaced.
    The refusal rests on all before `place`. `next_sequence`, `newest_run`: what is due, or -1.
    """

    number: int
    place: int
    code: str
    text: str
    next_sequence: int = -1
    newest_run: int = -1


class RememberedIds:
    """Of one leadership. `on`: whether the stream has a window; without one nothing here is asked."""

    __slots__ = (
        "_began_ms",
        "_committed_ms",
        "_ctx",
        "_end",
        "_ends",
        "_floor_ms",
        "_folded",
        "_leading",
        "_log",
        "_next",
        "_now_ms",
        "_pause_ticks",
        "_producers",
        "_table",
        "_too_many",
        "request",
        "whole",
    )

    def __init__(self, log: LogState, leading: LeaderState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._leading = leading
        self._table = IdTable(0)
        self._producers = ProducerTable(0)
        self.whole = False
        """The table has all ids to the end of the log."""
        self.request = 0
        """Number of the read that storage works on for us; 0 = none."""
        self._next = UNKNOWN
        """Where to read on; UNKNOWN: that has to be found by its time."""
        self._end = 0
        """Up to where the log is read: what follows was stored when the table was asked."""
        self._began_ms = 0
        """The newest time when the log was read: what is a window older was left out."""
        self._pause_ticks = 0
        self._too_many = False
        """The log has more of them than the stream may remember: its window, or this bound, was altered."""
        self._floor_ms = 0
        """No later stamp is lower than this one."""
        self._now_ms = 0
        """The last stamp, by which the window is measured."""
        self._committed_ms = 0
        """The newest time that is known to be committed."""
        self._ends: deque[tuple[int, int]] = deque()
        """(end, time) of what is not known to be committed."""
        self._folded: list[tuple[int, int]] = []
        """The same of what was there before, while it is read."""

    @property
    def on(self) -> bool:
        return self._table.window_ms > 0

    def configure(self) -> None:
        """The stream has this window now, or none. For another one the log is read anew."""
        config = self._log.config
        window_ms = config.remembers_ms if config is not None else 0
        if window_ms == self._table.window_ms:
            return
        self._table = IdTable(window_ms)
        self._producers = ProducerTable(window_ms)
        self._ends.clear()
        self._folded.clear()
        self._committed_ms = self._pause_ticks = self.request = 0
        self._next, self._end, self._began_ms = UNKNOWN, self._log.leo, 0
        self._leading.needs_from(0 if window_ms else None)
        self.whole = self._too_many = False
        if self._ctx.mutants.ids_of_own_epoch and window_ms:
            self._read_all()
        self._read()

    # -- taking messages ------------------------------------------------------------------------------

    def stamp(self, clock_ms: int) -> int:
        """The time of what is stored now: never earlier than what stands in the log."""
        newest = max(self._floor_ms, self._log.newest_ms)
        if not self._ctx.decides(("L7.further-back", clock_ms >= newest)):
            self._now_ms = clock_ms if self._ctx.mutants.ids_by_arrival else newest
            return newest
        self._floor_ms = max(self._floor_ms, clock_ms)
        self._now_ms = clock_ms
        return clock_ms

    def sort_out(
        self, places: ExpectedPlaces, wishes: list[Wishes]
    ) -> Iterator[Unfit | Unknown | Again | NotNow | NotNext]:
        """Which of these messages, to be stored one after the other with the stamp that was given last, are
        not stored; the others are in the tables then, and what opens a run is completed (L10). What is
        known comes before what is expected (L6, L9), as in JetStream.
        """
        now_ms = self._now_ms
        self._table.pass_to(now_ms)
        self._producers.pass_to(now_ms)
        for number, wish in enumerate(wishes):
            not_new = self._not_new(number, wish, places.place)
            if not_new is not None:
                yield not_new
            elif (elsewhere := self._not_behind(number, wish, places.place)) is not None:
                yield elsewhere
            elif (misfit := places.misfit(number, wish)) is not None:
                yield misfit
            elif not self._has_room(wish):
                yield NotNow(number, ERR_OVERLOAD, self._full())
            elif wish.numbered is not None and not self._has_room_for(wish.numbered):
                yield NotNow(number, ERR_OVERLOAD, self._full_of_producers())
            else:
                if wish.opens and wish.numbered is not None and wish.cursor is not None:
                    made = granted(
                        self._ctx, self._producers, wish.numbered, wish, wish.cursor, self._log.hw
                    )
                    wish = wishes[number] = made
                number_of = StoredNumber(wish.numbered, wish.span, wish.cursor) if wish.numbered else None
                self._remember(wish.id, number_of, places.place, now_ms)
                for id, place in wish.whole.ids if wish.whole is not None else ():
                    self._remember(id, None, places.place + place, now_ms)
                places.take(number, wish)

    def _not_new(self, number: int, wish: Wishes, place: int) -> Again | NotNow | NotNext | None:
        """What is to be said of one that is there, or must not be before others are; None: it is new."""
        ctx, id, numbered = self._ctx, wish.id, wish.numbered
        if wish.whole is not None:
            return self._not_new_whole(number, wish.whole)
        if id is not None:
            if not ctx.decides(("L7.unread", self.whole)):
                return self._not_read(number)
            found = self._table.find(id, self._now_ms)
            if not ctx.decides(("L7.known", found == UNKNOWN)):
                return Again(number, place if ctx.mutants.repeat_gets_own_place else found)
        if numbered is not None:
            if not ctx.decides(("L2.unread", self.whole)):
                return self._not_read(number)
            return self._not_due(number, numbered, place, wish)
        return None

    def _not_new_whole(self, number: int, batch: WholeBatch) -> NotNow | NotNext | None:
        """L11: the same of a batch, of which nothing is stored if a message of it is there."""
        if batch.ids and not self._ctx.decides(("L7.unread", self.whole)):
            return self._not_read(number)
        for id, _ in batch.ids:
            found = self._table.find(id, self._now_ms)
            if not self._ctx.decides(("L7.known", found == UNKNOWN)):
                shown = id.decode("ascii", "backslashreplace")[:64]
                text = f"message id {shown!r} is that of the message at offset {found}: nothing is stored"
                return NotNext(number, found + 1, ERR_BATCH_DUPLICATE, text)
        return None

    def _not_behind(self, number: int, wish: Wishes, place: int) -> NotNow | NotNext | None:
        """What is to be said of one that expects another id on the message before it; None: nothing."""
        if wish.after is None:
            return None
        if not self.whole:
            return self._not_read(number)
        last = self._table.find(wish.after, self._now_ms)
        if self._ctx.decides(("L7.last-id", last != UNKNOWN and last == place - 1)):
            return None
        where = "is not remembered" if last == UNKNOWN else f"is that of the message at offset {last}"
        text = f"wrong last msg ID: the next message gets offset {place}, and the id {where}"
        return NotNext(number, place, ERR_EXPECTED_ID, text)

    def _not_due(self, number: int, numbered: Numbered, place: int, wish: Wishes) -> Again | NotNext | None:
        """L2: the same of a message that its producer has numbered."""
        decides, name = self._ctx.decides, numbered.producer.decode("ascii", "backslashreplace")[:64]
        verdict = self._producers.verdict(numbered)
        if not decides(("L2.stored", not isinstance(verdict, Lies | TooOld))):
            if isinstance(verdict, Lies):
                offset = place if self._ctx.mutants.repeat_gets_own_place else verdict.offset
                begins = self._producers.begins_at(numbered.producer) if wish.opens else None
                cursor = NO_OFFSET if begins is None else begins.position
                return Again(number, offset, verdict.span if wish.parcel is not None else 0, cursor)
            text = (
                f"message {numbered.sequence} of producer {name!r}, run {numbered.run}, is stored, and it is "
                "not remembered any more where: read the stream for it"
            )
            return NotNext(number, place, ERR_LONG_STORED, text)
        if isinstance(verdict, Fenced) and not decides(("L2.fenced", False)):
            text = (
                f"producer {name!r} has run {verdict.run}, which is newer than {numbered.run}: another "
                f"process goes on with its work; end this one, or begin a run above {verdict.run}"
            )
            return NotNext(number, place, ERR_FENCED, text, newest_run=verdict.run)
        if isinstance(verdict, NotDue) and not decides(("L2.due", False)):
            text = f"of producer {name!r}, run {numbered.run}, message {verdict.due} is due; send it first"
            if not verdict.known:
                text = (
                    f"run {numbered.run} of producer {name!r} is not known here: it has not begun, or was "
                    f"silent for longer than the stream remembers ({self._table.window_ms} ms): begin a new "
                    "run, with 0"
                )
            return NotNext(number, place, ERR_NOT_DUE, text, next_sequence=verdict.due)
        bad = misfit(self._ctx, self._producers, numbered, wish, self._producers.window_ms)
        return None if bad is None else NotNext(number, place, bad.code, bad.text)

    def _remember(
        self, id: bytes | None, number: StoredNumber | None, place: int, stamp_ms: int
    ) -> None:
        """A message with this id, or number, lies there and has this time."""
        if id is not None:
            self._table.add(id, place, stamp_ms)
        if number is not None:
            self._table.keep(place, stamp_ms)
            self._producers.add(number.numbered, place, number.span, stamp_ms, number.cursor)

    def _has_room_for(self, numbered: Numbered) -> bool:
        producers, most = self._producers, self._most_producers
        if producers.knows(numbered.producer):
            return True
        if self._ctx.mutants.full_table_forgets:
            while len(producers) >= most:
                producers.drop_oldest()
        return self._ctx.decides(("L2.full", len(producers) < most))

    def _full_of_producers(self) -> str:
        return (
            f"{len(self._producers)} producers are remembered here, which is all that may be; try again "
            f"later, use fewer names, or allow more, up to {PRODUCERS_MAX}: liftlog stream alter "
            f"{self._name} --dedupe-ids-max N"
        )

    def _has_room(self, wish: Wishes) -> bool:
        """For the ids of a message, or of a batch."""
        more = len(wish.whole.ids) if wish.whole is not None else int(wish.id is not None)
        if not more:
            return True
        table, most = self._table, self._most
        if self._ctx.mutants.full_table_forgets:
            while len(table) + more > most and len(table):
                table.drop_oldest()
        return self._ctx.decides(("L7.full", len(table) + more <= most))

    @property
    def _most(self) -> int:
        config = self._log.config
        return config.remembers_max if config is not None else 0

    @property
    def _most_producers(self) -> int:
        return min(self._most, PRODUCERS_MAX)

    @property
    def _name(self) -> str:
        config = self._log.config
        return config.name if config is not None else ""

    def _full(self) -> str:
        return (
            f"{len(self._table)} message ids are remembered here, which is all that may be; try again "
            f"later, or allow more: liftlog stream alter {self._name} --dedupe-ids-max N"
        )

    def _not_read(self, number: int) -> NotNow:
        if not self._too_many:
            text = "this leader still reads which ids and producers its log has; try again"
            return NotNow(number, ERR_NOT_READY, text)
        text = (
            f"the log has more message ids or producers within the window than may be remembered "
            f"({self._most}): allow more, or make the window shorter: liftlog stream alter {self._name} "
            "--dedupe-ids-max N"
        )
        return NotNow(number, ERR_OVERLOAD, text)

    def appended(self, stamp_ms: int) -> None:
        """Up to the end of the log records have times up to this one."""
        self._ends.append((self._log.leo, stamp_ms))

    # -- what the log must keep -----------------------------------------------------------------------

    def committed(self) -> None:
        """The HW has moved. Until what was the newest is committed, what was left out may be needed."""
        if not self.on:
            return
        ends, hw = self._ends, self._log.hw
        while ends and ends[0][0] <= hw:
            self._committed_ms = max(self._committed_ms, ends.popleft()[1])
        if self.whole and self._committed_ms >= self._began_ms:
            self._leading.needs_from(self._table.needed_from(self._committed_ms))

    # -- reading the log ------------------------------------------------------------------------------

    def tick(self) -> None:
        if self.on and not self.whole:
            self._pause_ticks = max(0, self._pause_ticks - 1)
            self._read()

    def _read(self) -> None:
        """Have storage find where to begin, or read on, if it does not yet and a place is free (L3)."""
        log = self._log
        if self.whole or self.request or self._pause_ticks or not self.on:
            return
        if self._end <= max(self._next, log.log_start):
            self._read_all()
            return
        request = self._ctx.new_ticket()
        if not self._ctx.reads.begin_fold(log.id, request):
            return
        self.request = request
        if self._next == UNKNOWN:
            self._began_ms = max(self._floor_ms, log.newest_ms)
            since_ms = self._began_ms - self._table.window_ms + 1
            self._ctx.effects.append(LookupTime(log.id, request, since_ms))
        else:
            offset = max(self._next, log.log_start)
            self._ctx.effects.append(ReadLog(log.id, request, offset, self._end, SLICE_BYTES))

    def on_time(self, event: TimeFound) -> None:
        """Storage has found the first record that is young enough."""
        self.request = 0
        if event.error:
            self._unreadable()
        else:
            self._next = event.offset
            self._read()

    def on_read(self, event: LogRead) -> None:
        """Storage has read a slice."""
        self.request = 0
        if event.error:
            self._unreadable()
            return
        try:
            for batch in event.batches:
                self._fold(batch)
        except (CorruptBatch, LiftlogError):
            self._unreadable()
            return
        if not event.batches and self._next >= self._log.log_start:
            self._unreadable()
        elif len(self._table) > self._most or len(self._producers) > self._most_producers:
            self._ctx.mark("L7.too-many")
            self._begin_anew(LONG_PAUSE_MS)
            self._too_many = True
        else:
            self._read()

    def _fold(self, batch: Batch) -> None:
        records = _remembered(batch)
        newest_ms = last_timestamp_ms(batch.data)
        if batch.end_offset <= self._log.hw:
            self._committed_ms = max(self._committed_ms, newest_ms)
        else:
            self._folded.append((batch.end_offset, newest_ms))
        end = self._log.hw if self._ctx.mutants.ids_read_to_hw else self._end
        for record in records:
            id, number = stored_id(record.headers), stored_number(record.headers)
            if self._next <= record.offset < end:
                self._remember(id, number, record.offset, record.timestamp_ms)
        self._next = batch.end_offset

    def _unreadable(self) -> None:
        """What is damaged is mended (D2), or too old some time: begin anew, and not at once."""
        self._ctx.mark("L7.unreadable")
        self._begin_anew(PAUSE_MS)

    def _begin_anew(self, pause_ms: int) -> None:
        """Forget what was read, and read again after a while, when less of it is young enough."""
        self._table = IdTable(self._table.window_ms)
        self._producers = ProducerTable(self._table.window_ms)
        self._folded.clear()
        self._next = UNKNOWN
        self._pause_ticks = self._ctx.ticks_of(pause_ms)
        self.stamp(self._ctx.wall_ms)

    def _read_all(self) -> None:
        self._ctx.mark("L7.read")
        self.whole = True
        self._too_many = False
        self._ends.extendleft(reversed(self._folded))
        self._folded.clear()
        self.committed()


def _remembered(batch: Batch) -> list[Record]:
    """The records of a batch, none if no header of theirs is an id or a number. Raises CorruptBatch,
    LiftlogError.
    """
    header = read_header(batch.data)
    payload = batch.data if header.codec == "none" else plain_payload(header, batch.data)
    return decode_records(batch) if ID_LINE in payload or may_have_numbers(payload) else []
