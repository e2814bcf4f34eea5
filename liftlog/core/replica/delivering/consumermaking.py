"""Which consumers of a partition are being made, altered and deleted, by its leader (K1).

    made         an entry says with what, and where it begins; who asks for the same waits for the same entry
    found first  where one begins at a time, or with the last message of each subject, storage is asked where
                 that is: one question at a time, about what is committed now and is not gone by what is
                 committed of the journal. Nothing is written before; the entry then says all of it, so that
                 whoever folds it asks nobody
    deleted      an entry says so
    reset        one entry says that it ends, and that another one of its name and configuration begins: there
                 is no moment without one, and what was asked of the former counts for nothing

With the office all of this is gone; what becomes of entries is open.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from liftlog.core.consumers.agenda import Agenda
from liftlog.core.consumers.entries import (
    LINE_MAX,
    Altered,
    ConsumerDeleted,
    ConsumerEntry,
    Created,
    Delivered,
)
from liftlog.core.consumers.flight import Flight
from liftlog.core.consumers.idle import IdleConsumers
from liftlog.core.consumers.making import (
    LASTS_MAX,
    begins_at,
    is_shared,
    not_altered,
    not_created,
    not_of_queue,
    not_reset,
    shared_with,
    too_many_lasts,
)
from liftlog.core.consumers.state import Consumer, line_between
from liftlog.core.replica.delivering.deadletters import stored_subjects
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.asking import ask_subjects, index_reaches, question_number
from liftlog.core.replica.state.log import LogState
from liftlog.messages import (
    DELIVER_LASTS,
    DELIVER_TIME,
    ERR_FAILED,
    ERR_INDEX_FULL,
    ERR_INVALID,
    ERR_NOT_READY,
    LAST_OF_EACH,
    TO_FLOOR,
    AlterConsumerRequest,
    ClientReply,
    ConsumerConfig,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DoneReply,
    ErrorReply,
    LookupTime,
    Named,
    ResetConsumerRequest,
    SubjectsFolded,
    SubjectsTold,
    TimeFound,
)
from liftlog.types import ClientRef


class Desk(Protocol):
    """Who writes entries and answers: the leader."""

    def write(self, entry: ConsumerEntry) -> int: ...

    def wait_for(self, client: ClientRef, end: int, reply: DoneReply | str) -> None: ...

    def reply(self, client: ClientRef, reply: ClientReply) -> None: ...

    def show(self, client: ClientRef, name: str) -> None: ...

    def flight(self, number: int) -> Flight | None: ...


class Unplaced(NamedTuple):
    """A consumer of which it is being found out where it begins, until a tick. `clients`: who wants it."""

    request: CreateConsumerRequest
    clients: list[ClientRef]
    until: int


class PlaceQuestion(NamedTuple):
    """What storage works on. `until`: about which offsets, those below; `heeds`: without what is gone by the
    journal below there.
    """

    name: str
    number: int
    until: int
    heeds: int


class Lasts(NamedTuple):
    """See `Created`."""

    runs: list[Named]
    since: int
    heeds: int


NO_LASTS = Lasts([], 0, 0)


class ConsumerMaking:
    """Of one leader. `journal`: the log that the entries stand in."""

    __slots__ = (
        *("_altering", "_asked", "_creating", "_ctx", "_data", "_desk", "_finding", "_journal", "_removed"),
        "dropping",
    )

    def __init__(self, journal: LogState, data: LogState, removed: Removed, desk: Desk) -> None:
        self._ctx = data.ctx
        self._journal = journal
        self._data = data
        self._removed = removed
        self._desk = desk
        self._creating: dict[str, tuple[CreateConsumerRequest, int]] = {}
        """By name: what was asked for, and where the entry ends."""
        self._finding: dict[str, Unplaced] = {}
        """By name, in the order in which they were asked for."""
        self._asked: PlaceQuestion | None = None
        self.dropping: dict[int, int] = {}
        """By number: where the entry ends."""
        self._altering: dict[int, tuple[ConsumerConfig, int]] = {}
        """By number: to what, and where the entry ends."""

    @property
    def asked(self) -> int:
        """The question that storage has; 0 = none."""
        return self._asked.number if self._asked is not None else 0

    @property
    def is_making(self) -> bool:
        """R27: whether the entry of one is written, and not folded, or of other filters of one."""
        known = self._removed.consumers.by_number
        return bool(self._creating) or any(
            known[number].config.patterns != config.patterns
            for number, (config, _) in self._altering.items()
            if number in known
        )

    @property
    def settled(self) -> bool:
        """Whether nobody waits for a question."""
        return not self._finding

    # -- making ------------------------------------------------------------------------------------

    def create(self, client: ClientRef, request: CreateConsumerRequest) -> None:
        """K1: whoever asks for the same waits for the same entry."""
        name, config = request.name, request.config
        known, creating = self._removed.consumers.by_name.get(name), self._creating.get(name)
        finding = self._finding.get(name)
        if known is not None and known.number in self.dropping:
            text = f"consumer {name!r} is being deleted, or reset; try again"
            self._desk.reply(client, ErrorReply(ERR_NOT_READY, text, True))
        elif known is not None and known.config == config:
            self._ctx.mark("K1.again")
            self._desk.show(client, name)
        elif creating is not None and creating[0].config == config:
            self._ctx.mark("K1.again")
            self._desk.wait_for(client, creating[1], name)
        elif finding is not None and finding.request.config == config:
            self._ctx.mark("K1.again")
            finding.clients.append(client)
        elif (refusal := self._refusal(request)) is not None:
            self._desk.reply(client, refusal)
        elif config.deliver in (DELIVER_TIME, DELIVER_LASTS):
            until = self._ctx.ticks + self._ctx.ticks_of(self._ctx.config.request_timeout_ms)
            self._finding[name] = Unplaced(request, [client], until)
            self.go_on()
        else:
            data = self._data
            start = begins_at(config, data.log_start, data.hw, self._removed.hidden(data.history))
            self._desk.wait_for(client, self._write(request, start), name)

    def _refusal(self, request: CreateConsumerRequest) -> ErrorReply | None:
        creating = [asked for asked, _ in self._creating.values()]
        creating += [one.request for one in self._finding.values() if one.request is not request]
        consumers = self._removed.consumers
        refusal = not_created(request, consumers, creating, self._data.hw, stored_subjects(self._data))
        config = self._data.config
        if refusal is not None or config is None or not config.is_queue:
            return refusal
        return not_of_queue(request.config) or self._is_shared(request.name, request.config)

    def _is_shared(self, name: str, config: ConsumerConfig) -> ErrorReply | None:
        """R26: why the consumer of this name cannot be given that, in a work queue; None if it can."""
        known = self._removed.consumers
        others = [(one.name, one.config) for one in known.by_number.values()]
        others += [(asked.name, asked.config) for asked, _ in self._creating.values()]
        others += [(one.request.name, one.request.config) for one in self._finding.values()]
        others += [
            (known.by_number[number].name, to)
            for number, (to, _) in self._altering.items()
            if number in known.by_number
        ]
        other = shared_with(config, [each for each in others if each[0] != name])
        return None if self._ctx.decides(("R26.shared", not other)) else is_shared(other)

    def _write(
        self, request: CreateConsumerRequest, start: int, told: Lasts = NO_LASTS, instead: int = 0
    ) -> int:
        """Where the entry ends."""
        line = [entry for entry in self._data.history.entries if entry.start < start][-LINE_MAX:]
        created = Created(request.name, request.config, start, line, *told, instead)
        end = self._desk.write(created)
        self._creating[request.name] = request, end
        return end

    # -- finding out where one begins ------------------------------------------------------------------

    def go_on(self) -> None:
        """Ask storage for the next one, if nothing is to be waited for."""
        one = next(iter(self._finding.values()), None)
        data, removed, ctx = self._data, self._removed, self._ctx
        if one is None or self._asked is not None or ctx.fenced:
            return
        config, until = one.request.config, data.hw
        if not ctx.decides(("K1.unheeded", removed.is_known and removed.folded >= removed.committed)):
            return
        if config.deliver == DELIVER_LASTS and not index_reaches(data, until):
            return
        if config.deliver == DELIVER_TIME:
            number = question_number(self._journal)
            if number:
                ctx.effects.append(LookupTime(data.id, number, config.timestamp_ms))
        else:
            number = ask_subjects(
                self._journal,
                data,
                what=LAST_OF_EACH,
                least=until,
                until=until,
                offset=data.log_start,
                limit=LASTS_MAX,
                gone=removed.hidden(data.history),
                patterns=config.patterns or (">",),
            )
        if number:
            self._asked = PlaceQuestion(one.request.name, number, until, removed.folded)

    def told(self, event: TimeFound | SubjectsTold | SubjectsFolded) -> None:
        """The answer to the question `asked`."""
        asked, self._asked = self._asked, None
        finding = self._finding.get(asked.name) if asked is not None else None
        if asked is None or finding is None:
            pass
        elif isinstance(event, SubjectsFolded):
            self._data.index.reached(event.folded, event.ready)
        elif event.error:
            self._give_up(asked.name, ErrorReply(ERR_FAILED, event.error, True))
        else:
            del self._finding[asked.name]
            self._found(finding, asked, event)
        self.go_on()

    def _found(self, finding: Unplaced, asked: PlaceQuestion, event: TimeFound | SubjectsTold) -> None:
        request, data = finding.request, self._data
        refusal = self._refusal(request)
        told = NO_LASTS
        if isinstance(event, TimeFound):
            start = max(min(event.offset, data.hw), data.log_start)
        else:
            told = Lasts([(run.start, run.end - run.start) for run in event.runs], asked.until, asked.heeds)
            start = event.runs[0].start if event.runs else asked.until
            refusal = refusal or too_many_lasts(event, self._removed.consumers)
        if refusal is not None:
            for client in finding.clients:
                self._desk.reply(client, refusal)
            return
        self._ctx.mark("K1.found")
        end = self._write(request, start, told)
        for client in finding.clients:
            self._desk.wait_for(client, end, request.name)

    def index_folded(self, event: SubjectsFolded) -> None:
        """Storage has gone on with the index, or says why it cannot."""
        if event.error:
            code = ERR_INDEX_FULL if event.full else ERR_FAILED
            for name, one in list(self._finding.items()):
                if one.request.config.deliver == DELIVER_LASTS:
                    self._give_up(name, ErrorReply(code, event.error, not event.full))
        self.go_on()

    def _give_up(self, name: str, reply: ErrorReply) -> None:
        for client in self._finding.pop(name).clients:
            self._desk.reply(client, reply)

    # -- altering, resetting and deleting ------------------------------------------------------------

    def end_one(self, client: ClientRef, request: DeleteConsumerRequest | ResetConsumerRequest) -> bool:
        """Delete one, or have another one take its place. False: there is none of this name."""
        consumer = self._removed.consumers.by_name.get(request.name)
        if consumer is None:
            return False
        if request.name in self._creating:
            text = f"consumer {request.name!r} is being reset; try again"
            self._desk.reply(client, ErrorReply(ERR_NOT_READY, text, True))
        elif isinstance(request, ResetConsumerRequest):
            self._reset(client, request, consumer)
        else:
            end = self.drop(consumer.number)
            if self._ctx.mutants.consumer_deletion_answered_at_append:
                end = 0
            self._desk.wait_for(client, end, DoneReply(f"deleted consumer {request.name}"))
        return True

    def _reset(self, client: ClientRef, request: ResetConsumerRequest, consumer: Consumer) -> None:
        """K1: in one entry."""
        number, name, data, mutants = consumer.number, consumer.name, self._data, self._ctx.mutants
        is_queue = data.config is not None and data.config.is_queue
        if self.changes(number):
            text = f"consumer {name!r} is being altered, or deleted; try again"
            return self._desk.reply(client, ErrorReply(ERR_NOT_READY, text, True))
        if (refusal := not_reset(request, consumer, data.hw, is_queue)) is not None:
            return self._desk.reply(client, refusal)
        self._ctx.mark("K1.reset-to-floor" if request.offset == TO_FLOOR else "K1.reset")
        floor = consumer.position if mutants.consumer_reset_to_position else consumer.floor
        start = max(data.log_start, floor if request.offset == TO_FLOOR else request.offset)
        apart = mutants.consumer_reset_in_two_entries
        if apart:
            self._desk.write(ConsumerDeleted(number))
        anew = CreateConsumerRequest(request.partition, name, consumer.config)
        end = self.dropping[number] = self._write(anew, start, instead=0 if apart else number)
        self._desk.wait_for(client, 0 if mutants.consumer_reset_answered_at_append else end, name)

    def alter(self, client: ClientRef, request: AlterConsumerRequest, consumer: Consumer) -> None:
        """K1: whoever asks for the same waits for the same entry."""
        number, name = consumer.number, consumer.name
        altering = self._altering.get(number)
        if altering is not None and altering[0] == request.config:
            self._ctx.mark("K1.again")
            self._desk.wait_for(client, altering[1], name)
        elif altering is not None:
            text = f"consumer {name!r} is being altered; try again"
            self._desk.reply(client, ErrorReply(ERR_NOT_READY, text, True))
        elif consumer.config == request.config:
            self._ctx.mark("K1.again")
            self._desk.show(client, name)
        elif (refusal := self._not_altered(request, consumer)) is not None:
            self._desk.reply(client, refusal)
        else:
            self._ctx.mark("K1.altered")
            if request.config.patterns != consumer.config.patterns:
                self._ctx.mark("K6.altered")
                self._write_position(number)
            end = self._desk.write(Altered(number, request.config))
            self._altering[number] = request.config, end
            self._desk.wait_for(client, end, name)

    def _write_position(self, number: int) -> None:
        """K6: how far it has come where its filters let nothing through, which is not written otherwise: by
        other filters nobody looks there again.
        """
        flight = self._desk.flight(number)
        if flight is not None and flight.written < flight.ahead:
            line = line_between(self._data.history.entries, flight.written, flight.ahead)
            self._desk.write(Delivered(number, flight.ahead, line, []))
            flight.advance(flight.ahead)

    def _not_altered(self, request: AlterConsumerRequest, consumer: Consumer) -> ErrorReply | None:
        consumers, config = self._removed.consumers, request.config
        refusal = not_altered(request, consumer, consumers, stored_subjects(self._data))
        is_queue = self._data.config is not None and self._data.config.is_queue
        if refusal is not None or not is_queue or config.patterns == consumer.config.patterns:
            return refusal
        flight = self._desk.flight(consumer.number)
        if flight is not None and flight.waiting:
            text = f"{flight.waiting} messages of consumer {consumer.name!r} wait for an ack, and another"
            text = f"{text} consumer of this work queue may come to be given them too: ack them first"
            return ErrorReply(ERR_INVALID, text, False)
        return self._is_shared(consumer.name, config)

    def changes(self, number: int) -> bool:
        """Whether it is being altered or deleted: nothing is delivered until that is folded."""
        return number in self._altering or number in self.dropping

    def drop(self, number: int) -> int:
        """Where the entry ends that says that it is no more."""
        end = self.dropping.get(number)
        if end is None:
            end = self.dropping[number] = self._desk.write(ConsumerDeleted(number))
        return end

    def drop_idle(self, idle: IdleConsumers, agenda: Agenda) -> None:
        """K1: those that nobody has used in so long, and nobody waits for."""
        for consumer in idle.over(self._removed.consumers, self._ctx.ticks):
            flight = agenda.flights.get(consumer.number)
            if flight is not None and flight.pulls:
                idle.heard(consumer)
            elif not self.changes(consumer.number):
                self._ctx.mark("K1.inactive")
                self.drop(consumer.number)

    # -- time and ends -----------------------------------------------------------------------------------

    @property
    def is_changing(self) -> bool:
        """Whether one is being altered, or deleted: what is folded may say that it is."""
        return bool(self._altering or self.dropping)

    def altered(self, end: int) -> list[Consumer]:
        """The journal is folded up to there: whose alteration that has, where it is still there."""
        known = self._removed.consumers.by_number
        altered = [number for number, (_, until) in self._altering.items() if until <= end]
        for number in altered:
            del self._altering[number]
        return [known[number] for number in altered if number in known]

    def folded(self, end: int) -> list[int]:
        """The journal is folded up to there. Whose deletion that has."""
        self._creating = {name: one for name, one in self._creating.items() if one[1] > end}
        dropped = [number for number, until in self.dropping.items() if until <= end]
        for number in dropped:
            del self.dropping[number]
        return dropped

    def tick(self) -> None:
        """Nobody waits for ever."""
        for name, one in list(self._finding.items()):
            if one.until <= self._ctx.ticks:
                text = f"it is not known yet where consumer {name!r} begins: the subject index has come to"
                text = f"{text} offset {max(self._data.index.folded, 0)} of {self._data.hw}; ask again"
                self._give_up(name, ErrorReply(ERR_NOT_READY, text, True))
        self.go_on()

    def end(self, code: str, text: str) -> None:
        """This leader makes none of those for which nothing is written."""
        for name in list(self._finding):
            self._give_up(name, ErrorReply(code, text, True))

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone."""
        for name, one in list(self._finding.items()):
            left = [each for each in one.clients if each != client]
            if left:
                self._finding[name] = one._replace(clients=left)
            else:
                del self._finding[name]
