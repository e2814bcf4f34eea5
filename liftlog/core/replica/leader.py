"""The leader's role: order, acknowledge, and take messages from NATS (R4, N1-N6).

What is committed and who is in the ISR is decided in `isr.py`; followers' fetches are answered in
`serving.py`.
"""

from __future__ import annotations

from collections import deque
from itertools import compress

from msgspec.structs import replace

from liftlog.core.metadata.commands import UNSENT, LeaderReady, ReadyAgain, Resign
from liftlog.core.metadata.subjects import listened_to
from liftlog.core.replica.listening import Listening
from liftlog.core.replica.publishing.answers import WantedAnswers, answers_to
from liftlog.core.replica.publishing.expecting import (
    ExpectedPlaces,
    Refusals,
    Unfit,
    Unknown,
    about_us,
    unfit,
)
from liftlog.core.replica.publishing.holding import NotNow, PartitionRoom, is_bounded
from liftlog.core.replica.publishing.inflight import Inflight
from liftlog.core.replica.publishing.lasts import NOBODY, JudgeNow, LastRecords
from liftlog.core.replica.publishing.message_ids import Again, NotNext, RememberedIds
from liftlog.core.replica.publishing.parcels import halves, opened, parcel_of, runs, stored
from liftlog.core.replica.publishing.repeats import Repeats
from liftlog.core.replica.publishing.rolling import wishes_here
from liftlog.core.replica.publishing.sequencer import sequence
from liftlog.core.replica.publishing.staging import Staging
from liftlog.core.replica.state.forbidding import read_only, takes_nothing
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.messages import (
    ERR_ENVELOPE_DAMAGED,
    ERR_EXPECTED_LAST,
    ERR_EXPECTED_OFFSET,
    ERR_FULL,
    ERR_NOT_READY,
    ERR_OVERLOAD,
    ERR_READ_ONLY,
    ERR_TOO_FEW_INSYNC,
    AckPublishes,
    Published,
    RefusePublishes,
    Unsubscribe,
)
from liftlog.options.wishes import NO_WISHES, Refusal, Wishes
from liftlog.types import NO_OFFSET, Batch, ClientRef, Message

RETRY_MIN_MS, RETRY_MAX_MS = 500, 10_000
"""N1: pauses between attempts to subscribe while NATS refuses; they double."""
REFUSED_TURN_MS = 60_000
"""N5: for so long a leader that NATS refuses goes on trying when all the others were refused as well."""
RESIGN_AFTER_MS = 1000
"""N5: for so long a leader waits for NATS before it asks to be relieved."""


def _dropped(one: Unfit | Again | NotNow | NotNext, wish: Wishes) -> str:
    """What is counted for a message that is not stored, and whose publisher asked for no answer."""
    if isinstance(one, Unfit):
        return "L6.dropped"
    if isinstance(one, NotNow) and one.code == ERR_FULL:
        return "C6.dropped"
    return "L7.dropped" if wish.numbered is None else "L2.dropped"


class Leader:
    """Publishing to one partition in one epoch. A new epoch gets a new object."""

    __slots__ = (
        "began_paused",
        "bus_down_ticks",
        "ctx",
        "draining",
        "ids",
        "inflight",
        "inflight_bytes",
        "lasts",
        "leading",
        "listening",
        "log",
        "refusal",
        "refusals",
        "refused_ticks",
        "refusing",
        "repeats",
        "retry_ticks",
        "room",
        "staging",
        "subscribed",
        "syncing",
    )

    def __init__(self, log: LogState, leading: LeaderState) -> None:
        self.log = log
        self.leading = leading
        self.ctx = log.ctx
        self.inflight: deque[Inflight] = deque()
        self.inflight_bytes = 0
        self.syncing: deque[Inflight] = deque()
        """R4: those whose publishers want the leader's word, until it has them durably."""
        self.refusing = Refusals(self.ctx)
        """L6: who is to be refused for what is not committed yet."""
        self.lasts = LastRecords(log)
        """L9: which record is the last of a subject."""
        self.room = PartitionRoom(log)
        self.ids = RememberedIds(log, leading)
        self.repeats = Repeats(log)
        """L7: who is to be told of the first message with his id, which is not committed yet."""
        self.staging = Staging(log)
        """L11: the batches that have not ended."""
        self.listening = Listening(self.ctx, log.id, leading.epoch)
        self.subscribed = False
        """N1: NATS has been asked for all subjects, and has refused none."""
        self.draining = False
        """N1: the stream was paused while this leader had a subscription, which ends."""
        self.began_paused = log.config is not None and bool(log.config.paused)
        self.refusal = ""
        """Why NATS did not let us subscribe when we last tried; empty if it did, or has not said yet."""
        self.refusals = 0
        self.refused_ticks = 0
        self.retry_ticks = 0
        self.bus_down_ticks = 0

    # -- life -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The epoch begins: messages are taken, once what has to be known first is known."""
        self.ids.configure()
        self.subscribe()

    def stop(self) -> None:
        """N3: nothing in flight is answered."""
        if any(inflight.awaited for inflight in (*self.inflight, *self.syncing)):
            self.ctx.mark("N3.unanswered")
        for inflight in self.inflight if self.ctx.mutants.step_down_acks else ():
            self._acknowledge(inflight)
        self.inflight.clear()
        self.syncing.clear()
        self.refusing.silence()
        self.repeats.silence()
        self.lasts.silence()
        self.staging.forget()

    def subscribe(self) -> None:
        """N1, N2: only a leader that has contact to the controller takes messages."""
        ctx = self.ctx
        if self.subscribed or ctx.leaving or not ctx.bus_up or self.retry_ticks > 0 or self.paused:
            return
        if ctx.fenced:
            ctx.mark("N2.fenced-subscribe")
            return
        stream = ctx.metadata.by_id.get(self.log.id.stream)
        if stream is None:
            return
        self.subscribed = True
        self.listening.ask(stream.config)
        if ctx.mutants.ready_before_confirmed:
            self._tell_ready()

    @property
    def paused(self) -> bool:
        """N1: whether the stream is, as far as this leader goes by that."""
        config = self.log.config
        if config is None or (self.ctx.mutants.paused_until_restart and self.began_paused):
            return False
        return bool(config.paused)

    def altered(self) -> None:
        """N1: the stream may be paused now, or not any more. What NATS has sent until it heard of that is
        taken and answered, as in an orderly stop. Or it remembers message ids, or no more (L7).
        """
        self.ids.configure()
        self.staging.configure()
        if not self.paused:
            self._listen_anew()
            self.subscribe()
            return
        self.refusal = ""
        self.refusals = self.refused_ticks = self.retry_ticks = 0
        if self.subscribed and not self.draining:
            self.ctx.mark("N1.pause")
            self.draining = True
            self.drain()

    def _listen_anew(self) -> None:
        """N10: the stream's subjects may be other ones now, or how large a message may be."""
        config = self.log.config
        if config is None or not self.listening.asked_for or self.listening.are_of(config):
            return
        self.refusal = ""
        self.refusals = self.refused_ticks = self.retry_ticks = 0
        if self.subscribed and not self.draining and not self.ctx.leaving:
            self.ctx.mark("N10.altered")
            self.listening.ask(config)

    def _lose(self) -> None:
        """There is no subscription any more."""
        self.subscribed = self.draining = False
        self.listening.forget()

    def unsubscribe(self) -> None:
        if self.subscribed:
            self._lose()
            self.ctx.effects.append(Unsubscribe(self.log.id))

    def drain(self) -> None:
        """N3: an orderly stop. Take in what NATS has sent already, and no more; what commits is answered."""
        if self.subscribed:
            self.listening.drain()

    def drained(self, number: int) -> None:
        """Nothing more comes from NATS of this subscription."""
        if not self.listening.drained(number):
            return
        if not self.listening.gone:
            self._now_ready()
        elif self.ctx.leaving:
            self.ctx.mark("N3.drained")
            # A pause that ends while we leave must not make us say that we are ready (N1).
            self.subscribed = False
        elif self.draining:
            self.unsubscribe()
            # The pause may be over already.
            self.subscribe()

    @property
    def settled(self) -> bool:
        """Nothing more comes, and everything that came has been answered."""
        waiting = self.inflight or self.repeats.waiting or self.refusing.waiting or self.lasts.waiting
        return not self.subscribed and not waiting

    def fence(self) -> None:
        """N2: contact to the controller is too old: take nothing more and answer nothing."""
        self.ctx.mark("N2.fenced")
        self.unsubscribe()
        self.staging.forget()
        for inflight in (*self.inflight, *self.syncing):
            if inflight.awaited:
                self.ctx.mark("N2.fenced-ack")
            if not self.ctx.mutants.fenced_leader_answers:
                inflight.silence()
        if not self.ctx.mutants.fenced_leader_answers:
            self.inflight_bytes -= self.refusing.silence() + self.repeats.silence() + self.lasts.silence()

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone: publishers have none here."""

    def bus_lost(self) -> None:
        self._lose()
        self.retry_ticks = 0

    def on_subscribed(self, number: int) -> None:
        """NATS has confirmed one of our subscriptions (N1)."""
        if self.listening.confirmed(number):
            self._now_ready()

    def _now_ready(self) -> None:
        """N1: if all are confirmed that there are to be."""
        if self.listening.whole:
            self.refusal = ""
            self.refusals = self.refused_ticks = self.retry_ticks = 0
            self.ctx.mark("N1.ready")
            self._tell_ready()

    def on_refused(self, number: int, reason: str) -> None:
        """N1: NATS does not let us subscribe, or no longer. We try again, less and less often. Who may not
        listen on one of several subjects listens on none (N10).
        """
        if self.listening.is_given_up(number):
            self.drained(number)
            return
        if not self.listening.has(number):
            return
        ctx = self.ctx
        if ctx.mutants.refusal_confirms:
            self.on_subscribed(number)
            return
        ctx.mark("N1.refused")
        self.listening.refused(number)
        if self.listening.gone:
            self._lose()
        else:
            self.unsubscribe()
        self.refusal = reason
        self.retry_ticks = ctx.ticks_of(min(RETRY_MIN_MS << min(self.refusals, 10), RETRY_MAX_MS))
        self.refusals += 1
        self._tell_ready()

    def _tell_ready(self) -> None:
        """N1: until the group has heard it."""
        ctx, record = self.ctx, self.leading.record
        config = self.log.config
        if self.draining or self.paused or config is None or not self.listening.are_of(config):
            return
        confirmed = self.listening.whole or (self.subscribed and ctx.mutants.ready_before_confirmed)
        if confirmed and (not record.ready or ctx.node in record.refused):
            if record.paused_at > record.led_since:
                ctx.want(ReadyAgain(UNSENT, self.log.id, self.leading.epoch, record.paused_at))
            else:
                ctx.want(LeaderReady(UNSENT, self.log.id, self.leading.epoch))
        elif self.refusal and (record.ready or record.refused.get(ctx.node) != self.refusal):
            ctx.want(LeaderReady(UNSENT, self.log.id, self.leading.epoch, self.refusal))

    # -- publishing (R4, N4, N6) ------------------------------------------------------------------

    def publish(self, event: Published) -> bool:
        """Give messages their offsets and hand them to storage. Whether there were any to be stored."""
        if self.ctx.fenced or not self.subscribed:
            if self.ctx.fenced:
                self.ctx.mark("N2.fenced-publish")
            return False
        return self._take(event.messages, event.timestamp_ms, event.plain)

    def store_own(self, messages: list[Message]) -> bool:
        """R24: store what this leader has made itself, as if it had come. Whether any was."""
        return not self.ctx.fenced and self._take(messages, self.ctx.wall_ms)

    def _take(self, messages: list[Message], received_ms: int, plain: bool = False) -> bool:
        ctx, log = self.ctx, self.log
        record, config = self.leading.record, log.config
        remembers = self.ids.on
        if remembers:
            received_ms = self.ids.stamp(received_ms)
        wishes = None if plain else wishes_here(log, messages, self._name(), remembers)
        if config is not None and takes_nothing(config, ctx.mutants):
            self._refuse(received_ms, messages, wishes, ERR_READ_ONLY, read_only(config))
            ctx.mark("R19.read-only")
            return False
        if len(record.isr) < record.min_insync:
            ctx.mark("N4.too-few")
            text = f"{len(record.isr)} in sync, {record.min_insync} needed; try again later"
            messages, wishes = self._refuse(received_ms, messages, wishes, ERR_TOO_FEW_INSYNC, text)
        if self.inflight_bytes >= ctx.config.inflight_max_bytes:
            text = "too much waits for replication; try again later"
            dropped, _ = self._refuse(received_ms, messages, wishes, ERR_OVERLOAD, text)
            ctx.mark("N6.overload")
            for _ in dropped:
                ctx.mark("N6.dropped")
            return False
        if wishes is None and is_bounded(log):
            wishes = [NO_WISHES] * len(messages)
        if wishes is not None:
            wishes = opened(ctx, config, log.id.index, messages, wishes)
            messages, wishes = self.staging.take(messages, about_us(log, wishes))
            messages, wishes = self._heed(received_ms, messages, wishes)
            messages, wishes = self._compare(received_ms, messages, wishes)
        if not messages:
            return False
        batches: list[Batch] = []
        for some, wished in runs(messages, wishes):
            end = batches[-1].end_offset if batches else log.leo
            batches += self._sequence(end, received_ms, some, wished)
        self.lasts.appended(messages, wishes, log.leo)
        self.staging.fast.appended(wishes, log.leo)
        log.append(batches)
        self.room.appended(batches)
        if remembers:
            self.ids.appended(received_ms)
        self.synced()
        return True

    def _sequence(
        self, base_offset: int, received_ms: int, messages: list[Message], wishes: list[Wishes] | None
    ) -> list[Batch]:
        """Encode what comes to lie here, and note who waits for it: plain messages, or one parcel (L8)."""
        config, parcel = self.log.config, parcel_of(wishes)
        codec = config.codec if config is not None else "none"
        wanted = self._answers(received_ms, messages, wishes)
        if parcel is not None:
            batch = stored(
                log=self.log.id,
                base_offset=base_offset,
                epoch=self.leading.epoch,
                timestamp_ms=received_ms,
                parcel=parcel,
                codec=codec,
            )
            self._await(batch.base_offset, batch.end_offset, wanted, len(batch.data), batch.count)
            return halves(self.log.id, batch) if self.ctx.mutants.parcel_halved else [batch]
        batches = sequence(
            partition=self.log.id,
            base_offset=base_offset,
            epoch=self.leading.epoch,
            timestamp_ms=received_ms,
            messages=messages,
            wishes=wishes,
            batch_max_bytes=self.ctx.config.batch_max_bytes,
            codec=codec,
        )
        for batch in batches:
            part = wanted
            if len(batches) > 1:
                part = wanted.at(range(batch.base_offset - base_offset, batch.end_offset - base_offset))
            self._await(batch.base_offset, batch.end_offset, part, len(batch.data))
        return batches

    def _answers(
        self, received_ms: int, messages: list[Message], wishes: list[Wishes] | None
    ) -> WantedAnswers:
        """Who wants which answer."""
        config = self.log.config if wishes is not None else None
        subjects = () if config is None else listened_to(config, self.log.id.index)
        return answers_to(self.ctx, messages, wishes, subjects, received_ms)

    def _refuse(
        self, received_ms: int, messages: list[Message], wishes: list[Wishes] | None, code: str, text: str
    ) -> tuple[list[Message], list[Wishes] | None]:
        """N4: tell requesters that this epoch did not store it; return those who did not ask."""
        wanted = self._answers(received_ms, messages, wishes)
        told = [place for place, reply in enumerate(wanted.replies) if reply]
        if told:
            self.ctx.mark("N4.refused")
            self._tell_refused(wanted.at(told), code, text)
        quiet = [place for place, reply in enumerate(wanted.replies) if not reply]
        kept = None if wishes is None else [wishes[place] for place in quiet]
        return [messages[place] for place in quiet], kept

    def _heed(
        self, received_ms: int, messages: list[Message], wishes: list[Wishes]
    ) -> tuple[list[Message], list[Wishes]]:
        """L4: what asks for something that we do not do is not stored; returns the rest."""
        if self.ctx.mutants.header_ignored or all(wish.refusal is None for wish in wishes):
            return messages, wishes
        refused: dict[Refusal, list[tuple[Message, Wishes]]] = {}
        kept = []
        for message, wish in zip(messages, wishes, strict=True):
            refusal = wish.refusal
            damaged = refusal is not None and refusal.code == ERR_ENVELOPE_DAMAGED
            if refusal is None or (damaged and self.ctx.decides(("L1.damaged-envelope", not damaged))):
                kept.append((message, wish))
            else:
                refused.setdefault(refusal, []).append((message, wish))
        for refusal, those in refused.items():
            theirs, wished = [message for message, _ in those], [wish for _, wish in those]
            wanted = self._answers(received_ms, theirs, wished)
            for reply in wanted.replies:
                self.ctx.mark("L4.refused" if reply else "L4.dropped")
            self._tell_refused(wanted, refusal.code, refusal.text)
        return [message for message, _ in kept], [wish for _, wish in kept]

    def _compare(
        self, received_ms: int, messages: list[Message], wishes: list[Wishes]
    ) -> tuple[list[Message], list[Wishes]]:
        """C6, L2, L6, L7, L9, L10: what expects another offset than it would get, or another record before
        it, is not stored, nor what is there already by its id or its number, or is not due, or finds the
        partition full; returns the rest.
        """
        known = any(wish.asks_ids for wish in wishes)
        expecting = any(wish.compares for wish in wishes)
        if not known and not expecting and not is_bounded(self.log):
            return messages, wishes
        gone = set()
        places = ExpectedPlaces(self.log, self.lasts, self.room, messages)
        for one in self.ids.sort_out(places, wishes) if known else unfit(places, wishes):
            gone.add(one.number)
            message, wish = messages[one.number], wishes[one.number]
            size = len(message.value) + len(message.headers) + len(message.reply)
            if isinstance(one, Unknown):
                size += self.staging.wait(message, wish)
                self.inflight_bytes += size
                self.lasts.await_last(message, one.subjects, size)
                continue
            wanted = self._answers(received_ms, [message], [wish])
            if any(wanted.replies):
                self.inflight_bytes += self._not_stored(one, wanted, size)
            else:
                self.ctx.mark(_dropped(one, wish))
        self.lasts.ask()
        rest = [number not in gone for number in range(len(messages))]
        return list(compress(messages, rest)), list(compress(wishes, rest))

    def _not_stored(self, one: Unfit | Again | NotNow | NotNext, wanted: WantedAnswers, size: int) -> int:
        """Tell who sent it, now or when it may be told. What that takes up until then, in bytes."""
        if isinstance(one, Again):
            by_leader = wanted.by_leader is not None
            wanted = wanted._replace(cursor=one.cursor)
            ack = self._ack(one.offset, wanted, by_leader, duplicate=True, records=one.records)
            return self.repeats.add(ack, size)
        if isinstance(one, NotNow):
            self._tell_refused(wanted, one.code, one.text)
            return 0
        if isinstance(one, NotNext):
            refusal = self._refusal(wanted, one.code, one.text)
            refusal = replace(refusal, next_sequence=one.next_sequence, newest_run=one.newest_run)
            return self.refusing.add(one.place, refusal, size, self.log.hw)
        last = one.last
        if last is None:
            text = f"wrong last sequence: {one.place}; the next message gets offset {one.place}"
            refusal = self._refusal(wanted, ERR_EXPECTED_OFFSET, text, one.place)
            return self.refusing.add(one.place, refusal, size, self.log.hw)
        where = f"the last message of its subject has offset {last}" if last >= 0 else "its subject has none"
        text = f"wrong last sequence: {last + 1}; {where}"
        refusal = self._refusal(wanted, ERR_EXPECTED_LAST, text, last_offset=last)
        return self.refusing.add(last + 1, refusal, size, self.log.hw)

    def wait_no_more(self, known: JudgeNow) -> bool:
        """L9: these have waited for the last records of their subjects. Whether any was stored."""
        if known is NOBODY:
            return False
        self.inflight_bytes -= known.size
        if known.late:
            self.ctx.mark("L9.late")
            wishes = wishes_here(self.log, known.messages, self._name(), self.ids.on)
            text = f"the last message of its subject is not known yet: {known.late}; send it again"
            self._refuse(self.ctx.wall_ms, known.messages, wishes, ERR_NOT_READY, text)
            self.staging.settle(self.lasts)
            return False
        stored = bool(known.messages) and self._take(known.messages, self.ctx.wall_ms)
        self.staging.settle(self.lasts)
        self.lasts.judged()
        return stored

    def _tell_refused(self, wanted: WantedAnswers, code: str, text: str) -> None:
        self.ctx.effects.append(self._refusal(wanted, code, text))

    def _refusal(
        self,
        wanted: WantedAnswers,
        code: str,
        text: str,
        next_offset: int = -1,
        last_offset: int | None = None,
    ) -> RefusePublishes:
        return RefusePublishes(
            partition=self.log.id,
            stream=self._name(),
            epoch=self.leading.epoch,
            code=code,
            description=text,
            replies=wanted.replies,
            full=wanted.full,
            enveloped=wanted.enveloped,
            next_offset=next_offset,
            last_offset=last_offset,
        )

    def _await(self, base: int, end: int, wanted: WantedAnswers, size: int, records: int = 0) -> None:
        """Somebody may wait for an answer about these offsets. `records`: they came in one parcel."""
        self.inflight_bytes += size
        if wanted.by_leader is not None:
            self.syncing.append(Inflight(base, end, wanted.of_policy(by_leader=True), 0, records))
        waiting = Inflight(base, end, wanted.of_policy(by_leader=False), size, records)
        mutants, opens = self.ctx.mutants, wanted.cursor != NO_OFFSET
        early = (records and mutants.parcel_acked_at_append) or (opens and mutants.opening_acked_at_append)
        if mutants.ack_at_append or early:
            self._acknowledge(waiting)
            waiting.silence()
        self.inflight.append(waiting)

    def _acknowledge(self, done: Inflight, by_leader: bool = False) -> None:
        wanted = done.asked
        if wanted is None or not any(wanted.replies):
            return
        last = done.records and self.ctx.mutants.parcel_acked_from_end
        self.ctx.mark("R4.leader-ack" if by_leader else "R4.ack")
        base = done.end - 1 if last else done.base
        self.ctx.effects.append(self._ack(base, wanted, by_leader, records=done.records))

    def _ack(
        self, base: int, wanted: WantedAnswers, by_leader: bool, *, duplicate: bool = False, records: int = 0
    ) -> AckPublishes:
        return AckPublishes(
            partition=self.log.id,
            stream=self._name(),
            epoch=self.leading.epoch,
            incarnation=self.ctx.incarnation,
            offsets_from=base,
            replies=wanted.replies,
            full=wanted.full,
            enveloped=wanted.enveloped,
            by_leader=by_leader and not self.ctx.mutants.leader_ack_as_committed,
            duplicate=duplicate,
            records=records,
            cursor=wanted.cursor,
            batch=wanted.batch,
        )

    def synced(self) -> None:
        """R4: answer those who are content with the leader's own sync."""
        syncing, log = self.syncing, self.log
        while syncing and self.ctx.decides(("R4.leader-synced", syncing[0].end <= log.durable_leo)):
            done = syncing.popleft()
            self._acknowledge(done, by_leader=True)
        self.inflight_bytes -= self.repeats.settled()

    def hw_moved(self) -> None:
        """Acknowledge what is committed now (R4)."""
        hw, inflight = self.log.hw, self.inflight
        while inflight and inflight[0].end <= hw:
            done = inflight.popleft()
            self.inflight_bytes -= done.size
            self._acknowledge(done)
        self.inflight_bytes -= self.refusing.committed(hw) + self.repeats.settled()
        self.staging.fast.committed(hw)
        self.ids.committed()
        self.lasts.ask()

    # -- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        self._watch_bus()
        self.retry_ticks = max(0, self.retry_ticks - 1)
        self.subscribe()
        self.ids.tick()
        self.staging.tick()
        self.wait_no_more(self.lasts.tick())
        self._tell_ready()

    def _watch_bus(self) -> None:
        """N5: a leader that has lost NATS, but not its peers, asks to be relieved."""
        ctx = self.ctx
        if ctx.bus_up:
            self.bus_down_ticks = 0
            self._watch_refusal()
            return
        self.bus_down_ticks += 1
        overdue = self.bus_down_ticks >= ctx.ticks_of(RESIGN_AFTER_MS)
        if overdue and ctx.decides(("N5.still-fenced", not ctx.fenced)):
            self.resign()

    def _watch_refusal(self) -> None:
        """N5: whom NATS refuses hands over to somebody who may be let in; if nobody is left, seldom."""
        ctx, record = self.ctx, self.leading.record
        if not self.refusal:
            return
        self.refused_ticks += 1
        after_ms = REFUSED_TURN_MS if ctx.metadata.refused_by_nats(record) else RESIGN_AFTER_MS
        if self.refused_ticks >= ctx.ticks_of(after_ms) and ctx.node in record.refused and not ctx.fenced:
            self.resign()

    def resign(self, slow: bool = False) -> None:
        """Ask the metadata group for another leader, if there can be one. To be repeated on each tick.

        R17: `slow` if it is for the sake of the others, which wait for our disk.
        """
        record, ctx = self.leading.record, self.ctx
        if any(node != ctx.node and ctx.metadata.is_live(node) for node in record.isr):
            ctx.mark("R17.handover" if slow else "N5.resign")
            ctx.want(Resign(UNSENT, self.log.id, self.leading.epoch, record.version, slow))

    def _name(self) -> str:
        stream = self.ctx.metadata.by_id.get(self.log.id.stream)
        return stream.config.name if stream is not None else ""
