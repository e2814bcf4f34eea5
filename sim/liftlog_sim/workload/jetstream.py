"""Clients of JetStream's door (ADR 0088): key-value buckets, and consumers that are pulled.

They speak JetStream's wire. Keys are written by publishing, as always, with the revision that is expected,
and read by direct gets of a door. Pulls and acks go through doors, of which there are two; they die and
come back. Of what clients are told everything is judged: who gets a key is given what was last at some moment
since he asked (SubjectAnswersTrue); what a leader tells a door of consumers is judged as if a client of
liftlog had asked (`workload/consuming.py`); and a message is done for good once a client has heard so
(AckStays).
"""

from __future__ import annotations

import msgspec

from liftlog.messages import (
    ACK,
    TERM,
    AckPublishes,
    ClientMessage,
    ConsumerConfig,
    ConsumersReply,
    CreateConsumerRequest,
    PullReply,
    PullRequest,
    RefusePublishes,
    SettledReply,
    SettleRequest,
    offsets_of,
)
from liftlog.mutants import Mutants
from liftlog.types import NO_OFFSET, NUMBER_MAX, Message
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.lasts import ExpectedLast, LastsJudge
from liftlog_sim.workload import consumer_facts
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.doorways import DoorMessage, DoorProcess, DoorWays
from liftlog_sim.workload.inspecting import CountedPull, leading_of
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.rivalling import Rivalry
from liftlog_sim.workload.targets import WORDS, Target

BUCKET = "KV_b"
"""The stream of the bucket."""
WORK = ConsumerConfig(ack_wait_ms=2000, max_ack_pending=20)
NAMES = ("work-0", "work-1")
"""Its consumers."""
INBOX = b"_INBOX.sim."
FIRST_NUMBER = 2000
"""Clients of the bucket are numbered from here on."""
DOORS = 2
DOOR_US = 3 * SECOND
"""About so long a door lives, or is away, where doors die."""
DIES, AWAY_US = 0.4, 1500 * MILLISECOND
GET_US, PULL_US, ACK_US = 5 * SECOND, 6 * SECOND, 6 * SECOND
"""For so long who has asked listens."""
SOON_US = 1200 * MILLISECOND
"""Within this time what was pulled is acked."""


class DoorGet(msgspec.Struct):
    """A direct get that was answered. `last`: the offset, NO_OFFSET: there is no such message."""

    target: Target
    subject: bytes
    asked_us: int
    told_us: int
    last: int


class JetStreamRoom:
    """The doors of one world, who uses them, and what was told."""

    def __init__(self, shared: Clientele) -> None:
        self.shared = shared
        self.account = shared.account
        self.kernel = shared.cluster.kernel
        self.ways = DoorWays(shared)
        self.gets: list[DoorGet] = []
        self.done: dict[tuple[str, int], int] = {}
        """By consumer and offset: since when a client has known that it is done."""
        self.numbers: dict[str, int] = {}
        count = shared.cluster.knobs.door_clients
        mutants = shared.account.mutants
        self._doors = [DoorSeat(self, seat, mutants) for seat in range(DOORS if count else 0)]
        self.buckets = {
            number: BucketClient(self, number) for number in range(FIRST_NUMBER, FIRST_NUMBER + count)
        }
        self._pullers = [PullingClient(self, number) for number in range(count)]

    def start(self) -> None:
        for door in self._doors:
            door.start()
        for bucket in self.buckets.values():
            bucket.start()
        for puller in self._pullers:
            puller.start()

    def end(self) -> None:
        """The run is over: no door is left with something under way."""
        for door in self._doors:
            door.die()

    @property
    def stopping(self) -> bool:
        return self.shared.stopping

    def bucket(self) -> Target | None:
        return next((target for target in self.shared.targets if target.stream == BUCKET), None)

    def judge(self, request: ClientMessage) -> _LeaderAnswer:
        """A door asks this of a leader."""
        return _LeaderAnswer(self, request)


class _LeaderAnswer:
    """What a door asked, and is to be told. Called with the answer."""

    def __init__(self, room: JetStreamRoom, request: ClientMessage) -> None:
        self._room = room
        self._request = request
        self._target = target = room.bucket()
        self._operation = None
        if target is None or not isinstance(request, PullRequest | SettleRequest):
            return
        account = room.account
        truth = account.consumers(target.partition)
        self._operation = consumer_facts.begun(room.shared, target, request)
        if isinstance(request, SettleRequest):
            if request.how in (ACK, TERM):
                truth.says(request.consumer, offsets_of(request.runs))
            return
        self._told = account.deletions(target.partition).told
        self._ended, self._purged = truth.ended(), truth.purged()
        self._counted = CountedPull(account, target)

    def __call__(self, reply: object) -> None:
        room, target, request = self._room, self._target, self._request
        consumer_facts.ended(self._operation, reply, room.kernel.now_us)
        if target is None:
            return
        truth = room.account.consumers(target.partition)
        try:
            if isinstance(request, PullRequest) and isinstance(reply, PullReply) and reply.runs:
                room.account.count("pulls of doors answered with messages")
                truth.pulled(request.consumer, reply, self._ended, self._told, self._purged)
                self._counted.judge(reply)
            elif isinstance(request, SettleRequest) and isinstance(reply, SettledReply):
                unknown = set(offsets_of(reply.unknown))
                known = [offset for offset in offsets_of(request.runs) if offset not in unknown]
                if request.how in (ACK, TERM):
                    truth.settled(request.consumer, known, reply.journal)
        except Violation as violation:
            room.account.fail(violation)


class DoorSeat:
    """A door that dies now and then, and is started again."""

    def __init__(self, room: JetStreamRoom, seat: int, mutants: Mutants) -> None:
        self._room = room
        self._seat = seat
        self._mutants = mutants
        self._runs = 0
        self._process: DoorProcess | None = None
        self._turns = room.shared.cluster.chances.turns(f"door/{seat}", DOOR_US)

    def start(self) -> None:
        self._begin()
        self._turns.take(self._fire)

    def _begin(self) -> None:
        self._runs += 1
        room = self._room
        name = f"door/{self._seat}/{self._runs}"
        self._process = DoorProcess(room.shared, room.ways, name, room.judge, self._mutants)

    def die(self) -> None:
        if self._process is not None:
            self._process.die()
            self._process = None

    def _fire(self, turn: Turn, second: object) -> None:
        if self._room.stopping:
            return
        turn.noted()
        if self._process is not None and turn.draws.random() < DIES:
            self._room.account.count("doors died")
            self.die()
            away_us = turn.draws.part("away").randrange(AWAY_US)
            self._room.kernel.after(away_us, self._comes_back)
        self._turns.take(self._fire)

    def _comes_back(self, first: object, second: object) -> None:
        if not self._room.stopping and self._process is None:
            self._begin()


# -- keys ----------------------------------------------------------------------------------------------------


class BucketClient:
    """Puts, creates, updates, deletes and gets keys. What it knows of revisions is what it was told."""

    def __init__(self, room: JetStreamRoom, number: int) -> None:
        self._room = room
        self._shared = room.shared
        self._account = room.account
        self._number = number
        self._rivalry = Rivalry(room.shared)
        self._revisions: dict[bytes, int] = {}
        """By subject: the offset of the newest message that it has heard of."""
        self._sent: dict[bytes, ClientOperation] = {}
        self._writes = 0
        cluster = room.shared.cluster
        self._turns = cluster.chances.turns(f"bucket/{number}", cluster.knobs.door_interval_us)

    def start(self) -> None:
        self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._room.stopping:
            return
        turn.noted()
        target = self._room.bucket()
        if target is not None:
            self._act(target, turn.draws)
        self._turns.take(self._fire)

    def _act(self, target: Target, draws: Draws) -> None:
        subject = target.subject_with(draws.part("key").choice(WORDS))
        known, what = self._revisions.get(subject, NO_OFFSET), draws.random()
        if what < 0.45:
            self._get(target, subject)
        elif what < 0.55:
            self._write(target, subject, None)
        elif what < 0.62:
            self._write(target, subject, NO_OFFSET)
        elif what < 0.95:
            self._write(target, subject, known)
        else:
            self._write(target, subject, known, b"KV-Operation: DEL")

    def _write(self, target: Target, subject: bytes, expected: int | None, *more: bytes) -> None:
        """`expected`: the revision as an offset, NO_OFFSET: there is to be none; None: whatever there is."""
        shared, now_us = self._shared, self._room.kernel.now_us
        self._writes += 1
        value = f"{self._number}-{self._writes}".encode()
        lines = [*more]
        shared.sent_on[value] = subject
        if expected is not None:
            hw = self._account.truth(target.partition).hw
            journal = self._account.truth(target.partition.journal).hw
            shared.lasts[value] = ExpectedLast(expected, subject, hw, journal)
            lines.append(b"Nats-Expected-Last-Subject-Sequence: %d" % (expected + 1))
        headers = b"NATS/1.0\r\n%b\r\n" % b"".join(b"%b\r\n" % line for line in lines) if lines else b""
        reply = INBOX + b"%d." % self._number + value
        operation = ClientOperation("send", self._number, target, now_us, value)
        self._sent[value] = operation
        shared.perform([operation])
        self._account.count("keys written")
        if not shared.cluster.bus.publish(subject, [Message(subject, reply, headers, value)]):
            operation.end("fail", now_us, error="no responders")

    def acked(self, value: bytes, acks: AckPublishes, offset: int) -> None:
        self._rivalry.acked(value, acks.partition, offset)
        subject = self._shared.sent_on[value]
        self._revisions[subject] = max(offset, self._revisions.get(subject, NO_OFFSET))
        operation = self._sent.pop(value, None)
        if operation is not None:
            operation.end("ok", self._room.kernel.now_us, offset=offset)
            self._account.count("acks received")

    def refused(self, value: bytes, refusal: RefusePublishes, place: int) -> None:
        if refusal.last_offset is not None:
            self._rivalry.refused(value, refusal)
            self._revisions[self._shared.sent_on[value]] = refusal.last_offset
            self._account.count("keys not written")
        self.ended(value, refusal.code)

    def ended(self, value: bytes, code: str) -> None:
        operation = self._sent.pop(value, None)
        if operation is not None:
            operation.end("info", self._room.kernel.now_us, error=code)

    def _get(self, target: Target, subject: bytes) -> None:
        room, truth = self._room, self._account.truth(target.partition)
        asked_us, acked, told = room.kernel.now_us, truth.acked_end, 0
        told = self._account.deletions(target.partition).told
        inbox = ""

        def came(message: DoorMessage) -> None:
            room.ways.leave(inbox)
            if message.status not in (0, 404):
                return
            last = int(message.header("Nats-Sequence")) - 1 if not message.status else NO_OFFSET
            self._account.count("keys got")
            self._judge(target, ExpectedLast(last, subject, acked, told), message)
            self._revisions[subject] = last
            if self._shared.keep_values:
                room.gets.append(DoorGet(target, subject, asked_us, room.kernel.now_us, last))

        inbox = room.ways.listen(came)
        room.ways.ask(f"$JS.API.DIRECT.GET.{BUCKET}.{subject.decode()}", reply=inbox)
        room.kernel.after(GET_US, lambda first, second: room.ways.leave(inbox))

    def _judge(self, target: Target, seen: ExpectedLast, message: DoorMessage) -> None:
        """SubjectAnswersTrue."""
        truth = self._account.truth(target.partition)
        self._account.checks.counts["SubjectAnswersTrue"] += 1
        judge = LastsJudge(
            truth.contents,
            self._account.furthest_start(target.partition),
            target.config.compact,
            self._account.deletions(target.partition).end_of,
        )
        problem = judge.seen(seen, truth.hw)
        if not problem and seen.last != NO_OFFSET:
            record = truth.contents.committed[seen.last]
            if record is None or (record.value or b"") != message.body:
                problem = f"which is given as {message.body!r}, and is {record}"
        if problem:
            text = f"partition {target.partition}: {seen.subject.decode()} was got at {seen.last}"
            self._account.fail(Violation("SubjectAnswersTrue", f"{text}: {problem}"))


# -- consumers -----------------------------------------------------------------------------------------------


class PullingClient:
    """Pulls, and acks what it is given, mostly."""

    def __init__(self, room: JetStreamRoom, number: int) -> None:
        self._room = room
        self._account = room.account
        cluster = room.shared.cluster
        self._turns = cluster.chances.turns(f"puller/{number}", cluster.knobs.door_interval_us)

    def start(self) -> None:
        self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._room.stopping:
            return
        turn.noted()
        target, name = self._room.bucket(), turn.draws.choice(NAMES)
        if target is not None and name in self._room.numbers:
            self._pull(target, name, turn.draws.part("pull"))
        elif target is not None:
            self._create(target, name, turn)
        self._turns.take(self._fire)

    def _create(self, target: Target, name: str, turn: Turn) -> None:
        truth, leading = self._account.consumers(target.partition), leading_of(self._account, target)
        ended = truth.ended()

        def answered(reply: object) -> None:
            if isinstance(reply, ConsumersReply) and reply.consumers:
                self._room.numbers[name] = reply.consumers[0].number
                truth.created(name, reply, ended)

        if leading is not None:
            request = CreateConsumerRequest(target.partition, name, WORK)
            self._room.shared.hub.request(turn.name, leading[1], request, answered, PULL_US)

    def _pull(self, target: Target, name: str, draws: Draws) -> None:
        room, asked_us, given = self._room, self._room.kernel.now_us, 0

        def came(message: DoorMessage) -> None:
            nonlocal given
            if message.status:
                if message.status != 100:
                    room.ways.leave(inbox)
                return
            given += 1
            self._given(target, name, message, asked_us, draws.part("given", given))

        inbox = room.ways.listen(came)
        expires_ns = draws.choice((100, 500, 2000)) * 1_000_000
        wish = {"batch": 1 + draws.randrange(6), "expires": expires_ns}
        if draws.random() < 0.3:
            wish = {"batch": 3, "no_wait": True}
        room.ways.ask(f"$JS.API.CONSUMER.MSG.NEXT.{BUCKET}.{name}", msgspec.json.encode(wish), inbox)
        room.kernel.after(PULL_US, lambda first, second: room.ways.leave(inbox))

    def _given(self, target: Target, name: str, message: DoorMessage, asked_us: int, draws: Draws) -> None:
        """A message has come. AckStays: a client knew already that it is done."""
        offset = int(message.reply.split(".")[5]) - 1
        self._account.count("messages of doors pulled")
        self._account.checks.counts["AckStays"] += 1
        if self._room.done.get((name, offset), asked_us) < asked_us:
            text = f"partition {target.partition}: offset {offset} is given by {name}"
            self._account.fail(Violation("AckStays", f"{text}, and was done when that was pulled"))
        if draws.random() < 0.8:
            after_us = draws.part("soon").randrange(SOON_US)
            self._room.kernel.after(after_us, lambda first, second: self._ack(target, name, offset, message))

    def _ack(self, target: Target, name: str, offset: int, message: DoorMessage) -> None:
        room = self._room

        def came(answer: DoorMessage) -> None:
            room.ways.leave(inbox)
            if not answer.status:
                self._acked(target, name, offset)

        inbox = room.ways.listen(came)
        room.ways.ask(message.reply, b"+ACK", inbox)
        room.kernel.after(ACK_US, lambda first, second: room.ways.leave(inbox))

    def _acked(self, target: Target, name: str, offset: int) -> None:
        """A door says that it is done. AckStays: that is committed."""
        self._account.count("acks of doors answered")
        self._account.checks.counts["AckStays"] += 1
        consumer = self._account.consumers(target.partition).known()[self._room.numbers[name]]
        gone = offset < self._account.furthest_start(target.partition)
        gone = gone or self._account.deletions(target.partition).end_of(offset) < NUMBER_MAX
        if offset not in consumer.done and not gone:
            text = f"a door says that offset {offset} of partition {target.partition} is done for {name}"
            self._account.fail(Violation("AckStays", f"{text}; no committed entry does"))
        self._room.done.setdefault((name, offset), self._room.kernel.now_us)
