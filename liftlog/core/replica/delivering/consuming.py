"""What the leader of a partition does for its consumers: who waits, what is on its way, what is due (K3-K7).

The state of a consumer is a fold of the journal (`liftlog/core/consumers/state.py`). Beside it a leader knows
what it has written and is not folded yet, and decides by both. All of that is thrown away with the office:
the next leader has the fold, and waits until that has reached all that was in both logs at its election.

A message is delivered when the entry that says so is committed. Once it may leave before: its first delivery,
by the leader of the epoch that wrote it (K4). So a message has at most one delivery that nobody knows of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from liftlog.core.consumers.agenda import Agenda
from liftlog.core.consumers.choosing import choose
from liftlog.core.consumers.entries import (
    AT_LIMIT,
    GONE,
    ConsumerEntry,
    Delivered,
    Done,
    encode_entry,
)
from liftlog.core.consumers.flight import Flight, Lapse
from liftlog.core.consumers.idle import IdleConsumers
from liftlog.core.consumers.promised import PromisedAnswers, WaitingAnswer
from liftlog.core.consumers.pullroom import PullTurn, WaitingPull
from liftlog.core.consumers.state import Consumer, line_between, runs_alike
from liftlog.core.replica.delivering.consumermaking import ConsumerMaking
from liftlog.core.replica.delivering.counting import Counting
from liftlog.core.replica.delivering.deadletters import DeadLetters
from liftlog.core.replica.delivering.inherited import Inherited
from liftlog.core.replica.delivering.interest import Interest
from liftlog.core.replica.delivering.priorities import Priorities
from liftlog.core.replica.delivering.settling import Settlements
from liftlog.core.replica.delivering.telling import InfosAsked, is_gone
from liftlog.core.replica.delivering.workqueue import WorkQueue
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.core.replica.state.advising import Advisories
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.core.replica.state.tail import cut_batches
from liftlog.format import CorruptBatch, encode_values
from liftlog.messages import (
    ERR_FAILED,
    ERR_NOT_FOUND,
    ERR_NOT_READY,
    ERR_OVERLOAD,
    ERR_TIMEOUT,
    AlterConsumerRequest,
    ClientReply,
    ConsumerRequest,
    ConsumersReply,
    ConsumersRequest,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DoneReply,
    ErrorReply,
    LetterAnswered,
    LogRead,
    PullReply,
    PullRequest,
    ReadLog,
    ReplyClient,
    ResetConsumerRequest,
    SettledReply,
    SettleRequest,
    SubjectsFolded,
    SubjectsTold,
    TimeFound,
    UnpinRequest,
    runs_of,
)
from liftlog.types import Batch, ClientRef, LiftlogError

PULLS_MAX = 512
"""Pulls of one partition that wait for messages."""
ANSWERS_MAX = 512
"""Answers of one partition that wait for the journal; of those with messages in them `CARRIED_MAX`."""
CARRIED_MAX = 32
SKIPPED_MAX = 65_536
"""So many offsets whose subjects a filter does not match are passed over before that is written."""
PULL_BYTES_MAX = 4 * 1024 * 1024
"""No answer has more bytes of messages, but for the first batch."""


class ConsumersLead:
    """Of one leader, in one epoch. `log`, `leading`: of the journal. `wrote`: told after entries were put."""

    __slots__ = (
        *("_advisories", "_agenda", "_answers", "_asked", "_begun", "_ctx", "_data", "_entries", "_idle"),
        *("_inherited", "_leading", "_log", "_making", "_office", "_priorities", "_queue"),
        *("_removed", "_settling", "_swept", "_wrote", "counting", "interest", "letters"),
    )

    def __init__(
        self,
        log: LogState,
        leading: LeaderState,
        data: LogState,
        office: LeaderState,
        removed: Removed,
        purges: SubjectPurges,
    ) -> None:
        self._log = log
        self._ctx = log.ctx
        self._leading = leading
        self._data = data
        self._office = office
        self._removed = removed
        self._wrote: Callable[[], None] = lambda: None
        self._entries: list[bytes] = []
        """What this step has written so far."""
        self._answers = PromisedAnswers()
        self._agenda = Agenda()
        self._idle = IdleConsumers(self.after)
        self._making = ConsumerMaking(log, data, removed, self)
        self._inherited = Inherited(log, leading, data, office, removed)
        self._begun = False
        """Whether those are looked at of whom messages were pending when this leader began to serve."""
        self.counting = Counting(log, data, removed)
        self.letters = DeadLetters(data, removed, office.epoch, self)
        self._advisories = Advisories(data)
        epoch = leading.epoch
        self._priorities = Priorities(data, epoch, self.counting, self._advisories, self.reply)
        self._settling = Settlements(data, removed, self._agenda, self)
        self._asked = InfosAsked(self.counting, data, removed, self.letters)
        self._queue = WorkQueue(data, office, removed)
        self.interest = Interest(log, data, office, removed, purges, self._making)
        self._swept = (0, 0)
        """K7: the log start, and how many entries deleted messages, when pending ones were last looked at."""

    def tell(self, wrote: Callable[[], None]) -> None:
        """Who is to hear when entries were appended."""
        self._wrote = wrote

    @property
    def settled(self) -> bool:
        """Whether nobody waits for the journal."""
        return not len(self._answers) and self._making.settled

    # -- entries ----------------------------------------------------------------------------------

    def write(self, entry: ConsumerEntry) -> int:
        """Where it ends. The entries of one step are one batch."""
        return self._put([encode_entry(entry)])

    def _put(self, entries: list[bytes]) -> int:
        self._entries += entries
        return self._log.leo + len(self._entries)

    def _flush(self) -> None:
        if not self._entries:
            return
        entries, self._entries = self._entries, []
        log = self._log
        log.append([encode_values(log.id, log.leo, self._leading.epoch, self._ctx.wall_ms, entries)])
        self._wrote()

    def flight(self, number: int) -> Flight | None:
        """Of the consumer with this number, if there is one that nobody has asked to delete."""
        consumer = self._removed.consumers.by_number.get(number)
        if consumer is None or number in self._making.dropping:
            return None
        flight = self._agenda.flights.get(number)
        if flight is None:
            flight = Flight(consumer, self.lapse(consumer), self._patterns(consumer))
            self._agenda.add(flight)
        return flight

    def _patterns(self, consumer: Consumer) -> Sequence[str]:
        return consumer.config.patterns[: 1 if self._ctx.mutants.first_filter_only else None]

    def lapse(self, consumer: Consumer) -> Lapse:
        """When what it was given is due again."""
        return lambda count: self.after(consumer.config.wait_ms(count))

    def after(self, wait_ms: int) -> int:
        """The tick then."""
        return self._ctx.ticks + self._ctx.ticks_of(wait_ms)

    # -- what clients ask ---------------------------------------------------------------------------

    def ask(self, asked: Sequence[tuple[ClientRef, ConsumerRequest]]) -> None:
        """Answer these, or have them wait. What is written for them is one batch."""
        refusal = self._inherited.refusal(self.write)
        room = ANSWERS_MAX - len(self._answers) - len(self._asked) if refusal is None else 0
        if refusal is None and self._making.is_changing and not self._ctx.mutants.folded_unheeded:
            self._heed(self._removed.folded)
        settling = []
        for place, (client, request) in enumerate(asked):
            if place >= room:
                text = "too many requests about consumers wait here; try again"
                self.reply(client, refusal or ErrorReply(ERR_OVERLOAD, text, True))
            elif isinstance(request, SettleRequest):
                settling.append((client, request))
            else:
                self._take(client, request)
        self._settling.settle(settling)
        self._flush()

    def _take(self, client: ClientRef, request: ConsumerRequest) -> None:
        match request:
            case CreateConsumerRequest():
                self._making.create(client, request)
            case AlterConsumerRequest():
                if self.flight(request.consumer) is None:
                    return self.unknown_number(client, request.consumer)
                self._making.alter(client, request, self._removed.consumers.by_number[request.consumer])
            case DeleteConsumerRequest() | ResetConsumerRequest():
                if not self._making.end_one(client, request):
                    text = f"consumer {request.name!r} does not exist"
                    self.reply(client, self._no_consumer(text))
            case ConsumersRequest():
                self.show(client, request.name, waits=True)
            case PullRequest():
                self._pull(client, request)
            case UnpinRequest():
                self._unpin(client, request)

    def _altered(self, consumer: Consumer) -> None:
        """Its alteration is committed."""
        mutants, flight = self._ctx.mutants, self._agenda.flights.get(consumer.number)
        if not mutants.inactive_as_made:
            self._idle.altered(consumer)
        patterns = self._patterns(consumer)
        if flight is None or flight.patterns == tuple(patterns) or mutants.filters_as_found:
            return
        flight.filter_by(patterns, counts_on=mutants.counted_by_old_filters)
        self.interest.look_again()

    def _dropped(self, number: int) -> None:
        """Its deletion is committed."""
        flight = self._agenda.remove(number)
        self.counting.remove(number)
        self._priorities.dropped(number)
        self.interest.look_again()
        for pull in flight.pulls.take_all() if flight is not None else ():
            self.reply(pull.client, self._no_consumer(f"consumer {number} was deleted, or reset"))

    def unknown_number(self, client: ClientRef, number: int) -> None:
        """K1: whoever names it means one that is no more, or is to be no more."""
        if number in self._making.dropping:
            text = f"consumer {number} of this partition is being deleted, or reset; try again"
            self.reply(client, ErrorReply(ERR_NOT_READY, text, True))
            return
        self._ctx.mark("K1.number")
        text = f"no consumer of this partition has number {number}: it was deleted, or reset"
        self.reply(client, self._no_consumer(text))

    def _no_consumer(self, text: str) -> ErrorReply:
        self._ctx.mark("K1.unknown")
        return ErrorReply(ERR_NOT_FOUND, f"{text}; see: liftlog consumer ls", False)

    def show(self, client: ClientRef, name: str, waits: bool = False) -> None:
        """One consumer, or all. `waits`: until it is counted what is to come."""
        consumers = self._removed.consumers
        if name and name not in consumers.by_name:
            self.reply(client, self._no_consumer(f"consumer {name!r} does not exist"))
            return
        if name:
            self._idle.heard(consumers.by_name[name])
        until = self.after(self._ctx.config.request_timeout_ms)
        self._asked.add(client, name, until if waits else self._ctx.ticks)
        self._tell_counted()

    def _tell_counted(self) -> None:
        """K8: answer who has asked, as far as it is counted what is to come."""
        for one, infos in self._asked.take(self._flight_of, self._ctx.ticks):
            told = ConsumersReply(self._data.id, self._leading.epoch, infos)
            gone = one.name and not infos
            self.reply(one.client, self._no_consumer(f"{one.name!r} was deleted") if gone else told)

    def _flight_of(self, consumer: Consumer) -> Flight | None:
        """Of whom nothing is counted it is not made for that."""
        number = consumer.number
        return self.flight(number) if consumer.config.patterns else self._agenda.flights.get(number)

    # -- what is done (K3, K7, K9) ------------------------------------------------------------------

    def done(self, flight: Flight, offsets: Iterable[int], how: str) -> int:
        """Write that these do not come again; R26, R27: and that they go. Where that ends."""
        ending = list(offsets)
        end = self.write(Done(flight.consumer.number, how, runs_of(ending)))
        end = self._put(self._queue.taken(ending, how, end))
        self.interest.ended(ending, end)
        flight.settle(ending, end)
        self._agenda.wrote(flight)
        return end

    def no_more(self, flight: Flight, offsets: list[int], how: str) -> int:
        """K9: these were delivered for the last time. Where the entry ends."""
        if not flight.consumer.config.dead_letter:
            return self.done(flight, offsets, how)
        return self.letters.bury(flight, offsets, how)

    def end_letter(self, number: int, offset: int, how: str) -> None:
        """K9: it is stored where dead letters go, or nobody wants it."""
        flight = self.flight(number)
        if flight is not None and flight.is_pending(offset):
            self.done(flight, [offset], how)

    def letter_answered(self, event: LetterAnswered) -> None:
        """K9: what has become of a dead letter."""
        if self._inherited.serves(self.write):
            self.letters.answered(event)
        self._flush()

    def heard(self, flight: Flight) -> None:
        """Somebody asks for this consumer."""
        if not self._ctx.mutants.inactive_from_creation:
            self._idle.heard(flight.consumer)

    @property
    def asked(self) -> int:
        """The question that storage has about a consumer that is being made; 0 = none."""
        return self._making.asked

    def told(self, event: TimeFound | SubjectsTold | SubjectsFolded) -> bool:
        """The answer to that. What is written is told by `wrote`."""
        self._making.told(event)
        self._flush()
        return False

    def index_folded(self, event: SubjectsFolded) -> None:
        """Storage has gone on with the subject index, or says why it cannot."""
        self._making.index_folded(event)

    # -- deliveries (K4, K6) ------------------------------------------------------------------------

    def _pull(self, client: ClientRef, request: PullRequest) -> None:
        flight = self.flight(request.consumer)
        if flight is None:
            self.unknown_number(client, request.consumer)
            return
        self.heard(flight)
        if self._agenda.pulls() >= PULLS_MAX:
            text = f"{PULLS_MAX} pulls of this partition wait for messages, and no more may; try again"
            self.reply(client, ErrorReply(ERR_OVERLOAD, text, True))
            return
        refusal = self._priorities.refusal(flight, request)
        if refusal is not None:
            self.reply(client, refusal)
            return
        wait_ms = request.wait_ms or (self._ctx.config.request_timeout_ms if flight.filters else 0)
        until = self.after(wait_ms) if wait_ms else self._ctx.ticks + 1
        flight.pulls.add(WaitingPull(client, request, until, self.counting.questions))
        self._agenda.waits(flight)
        self.serve(flight)
        self._serve_now(flight)

    def _serve_now(self, flight: Flight) -> None:
        """Who does not wait is told that there is nothing, if that is known."""
        at_once = [pull for pull in flight.pulls if not pull.request.wait_ms]
        first = flight.pulls.first
        if first is None or not at_once or flight.reading or not self._inherited.heeds():
            return
        # Else who is looked at first is given what there is, and that is not known yet.
        known_for = at_once if flight.consumer.config.priority else [first]
        if all([self.counting.is_known(flight, pull.since) for pull in known_for]):
            for pull in at_once:
                flight.pulls.remove(pull)
                self.reply(pull.client, self._nothing(pull.request))

    def _unpin(self, client: ClientRef, request: UnpinRequest) -> None:
        """K10: others may be given messages."""
        flight = self.flight(request.consumer)
        if flight is None:
            self.unknown_number(client, request.consumer)
            return
        self.heard(flight)
        self.reply(client, self._priorities.unpin(flight, request.group) or DoneReply())
        self.serve(flight)

    def _nothing(self, request: PullRequest) -> PullReply:
        return PullReply(self._data.id, request.consumer, self._leading.epoch)

    def _may_serve(self, flight: Flight) -> bool:
        if self._ctx.wall_ms < flight.consumer.config.pause_until_ms:
            self._ctx.mark("K1.paused")
            return False
        return not self._making.changes(flight.consumer.number) and self._inherited.heeds()

    def serve(self, flight: Flight) -> None:
        """Give to who waits what there is, as far as it is in memory."""
        if not self._may_serve(flight):
            return
        while flight.pulls and not flight.reading and self._answers.carried < CARRIED_MAX:
            self._take_lapsed(flight)
            if flight.lapsed:
                start = min(flight.lapsed)
                if self._is_passed(flight, start):
                    continue
            elif flight.room > 0 and flight.ahead < self._data.hw:
                start = flight.consumer.next_wanted(max(flight.ahead, self._data.log_start))
                if start >= self._data.hw:
                    return
            else:
                return
            turn = self._priorities.turn(flight, start < flight.ahead)
            if turn is None:
                return
            data = self._data
            max_bytes = max(1, min(turn.pull.request.max_bytes, PULL_BYTES_MAX))
            batches = data.cached(start, data.hw, max_bytes)
            if not batches:
                if self._ctx.reads.has_place(data.id):
                    self._agenda.reads(flight, self._ctx.new_ticket(), start)
                    self._ctx.reads.begin(data.id, flight.reading)
                    self._ctx.effects.append(ReadLog(data.id, flight.reading, start, data.hw, max_bytes))
                return
            if not self._deliver(flight, turn, start, batches):
                return

    def on_read(self, event: LogRead) -> None:
        """Storage has read what a consumer is to get, or could not; then it is tried again at a tick."""
        flight = self._agenda.has_read(event.request)
        if flight is None:
            return
        if event.error and flight.start >= self._data.log_start:
            for pull in flight.pulls.take_all():
                self.reply(pull.client, ErrorReply(ERR_FAILED, event.error, True))
        elif flight.pulls and self._inherited.serves(self.write) and self._may_serve(flight):
            batches = cut_batches(self._data.id, event.batches, self._data.hw)
            passed, start = self._is_passed(flight, flight.start), flight.start
            turn = None if passed else self._priorities.turn(flight, start < flight.ahead)
            if passed or (turn is not None and self._deliver(flight, turn, start, batches)):
                self.serve(flight)
        self._flush()

    def _is_passed(self, flight: Flight, start: int) -> bool:
        """K7: whether the log start has passed what was to come, whose bytes may be in memory yet."""
        if start >= self._data.log_start:
            return False
        self._ctx.mark("K7.start")
        if gone := [offset for offset in flight.lapsed if offset < self._data.log_start]:
            self._ctx.mark("K7.written-off")
            self.done(flight, gone, GONE)
        return True

    def _take_lapsed(self, flight: Flight) -> None:
        """K6, K7: of what is due again, what was delivered often enough, or is gone, is written off."""
        limit = flight.consumer.config.max_deliver
        given_up, gone = [], []
        for offset in flight.lapse(self._ctx.ticks):
            if is_gone(offset, self._data, self._removed):
                gone.append(offset)
            elif limit and flight.count(offset) >= limit:
                given_up.append(offset)
            else:
                flight.due(offset)
        if gone:
            self._ctx.mark("K7.written-off")
            self.done(flight, gone, GONE)
        if given_up:
            self._ctx.mark("K6.limit")
            self._advisories.given_up(flight, given_up)
            self.no_more(flight, given_up, AT_LIMIT)

    def _deliver(self, flight: Flight, turn: PullTurn, start: int, batches: list[Batch]) -> bool:
        """Give whose turn it is what is due of these, which hold `start`. Whether there may be more."""
        if not batches or not batches[0].base_offset <= start < batches[-1].end_offset:
            return False
        again = start < flight.ahead
        most = turn.most if again else min(turn.most, flight.room)
        try:
            shown = self._removed.visible(self._data.id, batches)
            counts, frames, end = choose(self._data.id, shown, flight, start, most)
        except (CorruptBatch, LiftlogError) as error:
            flight.pulls.remove(turn.pull)
            self.reply(turn.pull.client, ErrorReply(ERR_FAILED, str(error), True))
            return False
        if again and not counts:
            if start in flight.lapsed:  # Else somebody said that it is in work, or done, during the read.
                self._ctx.mark("K7.written-off")
                self.done(flight, [start], GONE)
            return True
        picky = bool(flight.filters) or start < flight.consumer.since
        if not counts and picky and end - flight.written < SKIPPED_MAX:
            flight.skip(end)
        else:
            self._record(flight, turn.pull, counts, again=again, end=end, frames=frames)
        return True

    def _record(
        self,
        flight: Flight,
        pull: WaitingPull,
        counts: list[tuple[int, int]],
        *,
        again: bool,
        end: int,
        frames: list[bytes],
    ) -> None:
        """Write what is delivered, and answer: before that is committed only if K4 lets it."""
        number, runs = flight.consumer.number, runs_alike(counts)
        end = flight.ahead if again else end
        line = line_between(self._data.history.entries, flight.written, end)
        recorded = self.write(Delivered(number, end, line, runs))
        self._put(self._queue.delivered(counts))
        own = not counts or counts[0][0] >= self._office.epoch_start
        at_once = not again and self._ctx.decides(("K4.own", own))
        timed = at_once or self._ctx.mutants.time_from_record
        first = flight.delivers(counts, recorded, self.lapse(flight.consumer), timed)
        flight.advance(end)
        self._agenda.wrote(flight)
        if not counts:
            return
        flight.was_given(self._ctx.wall_ms)
        flight.pulls.remove(pull)
        first = flight.consumer.sequence + 1 if self._ctx.mutants.numbered_by_folded else first
        reply = PullReply(
            partition=self._data.id,
            consumer=number,
            epoch=self._leading.epoch,
            recorded=0 if at_once else recorded,
            runs=runs,
            batches=frames,
            sequence=first,
            to_come=self.counting.behind(flight),
            pin=self._priorities.gives(flight, pull),
        )
        if at_once:
            self._ctx.mark("K4.unrecorded")
            self.reply(pull.client, reply)
            return
        self._ctx.mark("K4.again" if again else "K4.recorded")
        if again and self._ctx.mutants.redelivery_before_record:
            self.reply(pull.client, reply)
            return
        self.wait_for(pull.client, recorded, reply)

    # -- answers that wait ----------------------------------------------------------------------------

    def wait_for(
        self, client: ClientRef, end: int, reply: PullReply | SettledReply | DoneReply | str
    ) -> None:
        """Answer when the journal is folded up to `end`."""
        until = self.after(self._ctx.config.request_timeout_ms)
        waiting = WaitingAnswer(end, client, until, reply)
        if end <= self._removed.folded:
            self._answer(waiting)
        else:
            self._answers.add(waiting)

    def _answer(self, waiting: WaitingAnswer) -> None:
        reply = waiting.reply
        if isinstance(reply, str):
            self._ctx.mark("K1.created")
            self.show(waiting.client, reply)
        else:
            self.reply(waiting.client, reply)

    def committed(self) -> None:
        """More of the journal may be folded: answer who has waited for that, and go on."""
        folded = self._removed.folded
        if self._ctx.fenced or not self._removed.is_known:
            return
        self._heed(folded)
        while (waiting := self._answers.take(folded)) is not None:
            self._answer(waiting)
        if self._inherited.serves(self.write):
            self.letters.work()
        self.work()

    def _heed(self, folded: int) -> None:
        """Do as the journal says below `folded`."""
        self._agenda.folded(folded, self.lapse)
        for consumer in self._making.altered(folded):
            self._altered(consumer)
        for number in self._making.folded(folded):
            self._dropped(number)

    def work(self) -> None:
        """There may be something for who waits."""
        self._agenda.nobody_waits()
        waits = list(self._agenda.waiting.values())
        if (waits or len(self._asked)) and self._inherited.serves(self.write):
            for flight in waits:
                self.serve(flight)
                self._serve_now(flight)
            self._tell_counted()
        self._flush()

    def tick(self) -> None:
        """Nobody waits for ever."""
        ticks = self._ctx.ticks
        for one in self._answers.take_late(ticks):
            text = "not every replica in sync has it yet; it may still happen, ask again"
            self.reply(one.client, ErrorReply(ERR_TIMEOUT, text, True))
        self._making.tick()
        self._priorities.tick()
        if self._removed.consumers.by_number and self._inherited.serves(self.write):
            self._write_off()
        self.counting.tick()
        self._queue.tick()
        self.committed()
        if self._inherited.serves(self.write) and self.interest.tick():
            self._wrote()
        self._tell_counted()
        for flight in self._agenda.waiting.values():
            for pull in flight.pulls.take(ticks):
                self.reply(pull.client, self._nothing(pull.request))

    def _write_off(self) -> None:
        """K6, K7: also where nobody pulls. Of a consumer without a flight nothing is pending."""
        if not self._begun:
            self._begun = True
            for number, consumer in self._removed.consumers.by_number.items():
                if consumer.pending:
                    self.flight(number)
        self._making.drop_idle(self._idle, self._agenda)
        self._put(self._queue.late())
        for flight in self._agenda.due(self._ctx.ticks):
            if not self._making.changes(flight.consumer.number):
                self._take_lapsed(flight)
            self._agenda.set_alarm(flight)
        now = self._data.log_start, self._removed.others
        moved, self._swept = now != self._swept, now
        if not moved or self._ctx.mutants.gone_kept_pending:
            return
        for number, flight in self._agenda.flights.items():
            gone = [offset for offset in flight.pending() if is_gone(offset, self._data, self._removed)]
            if gone and number not in self._making.dropping:
                self._ctx.mark("K7.written-off")
                self.done(flight, gone, GONE)

    def end(self, code: str, text: str) -> None:
        """This leader answers none of those that wait; what becomes of entries is open."""
        self._making.end(code, text)
        for one in self._answers.take_all():
            self.reply(one.client, ErrorReply(code, text, True))
        for client in self._asked.take_all():
            self.reply(client, ErrorReply(code, text, True))
        for flight in self._agenda.waiting.values():
            for pull in flight.pulls.take_all():
                self.reply(pull.client, ErrorReply(code, text, True))

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone; what it was given is pending."""
        self._answers.forget(client)
        self._asked.forget(client)
        self._making.forget(client)
        for flight in self._agenda.waiting.values():
            flight.pulls.forget(client)

    def reply(self, client: ClientRef, reply: ClientReply) -> None:
        self._ctx.effects.append(ReplyClient(client, reply))
