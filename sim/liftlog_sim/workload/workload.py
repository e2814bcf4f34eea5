"""Clients of a simulated cluster: they create streams, publish through NATS, read any replica, administer.

Every value ever published is unique: a publisher that gives up on an ack publishes the content again as a new
value, as an application with plain NATS would. So a value that shows up twice, or at another offset than the
ack said, is always somebody's bug.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from liftlog.core.metadata.records import StreamState
from liftlog.messages import (
    ERR_INVALID,
    AckPublishes,
    CreateStreamRequest,
    ErrorReply,
    RaiseLevelRequest,
    RefusePublishes,
    StreamInfoReply,
)
from liftlog.options.headers import stored_id
from liftlog.options.numbered import stored_number
from liftlog.real.nats_wire import FAILS
from liftlog.types import Message, PartitionId
from liftlog_jepsen.history import BY_LEADER
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.workload import asking, batching, parcelling, rolling
from liftlog_sim.workload.admin import EXTRA_STREAMS, Admin
from liftlog_sim.workload.alterer import Alterer
from liftlog_sim.workload.asking import PLAIN, Asking
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.consumed import Emptying
from liftlog_sim.workload.consuming import DEAD, ConsumingClient
from liftlog_sim.workload.eager import clients_of_few
from liftlog_sim.workload.elsewhere import SentElsewhere
from liftlog_sim.workload.filtered import FilteredReader
from liftlog_sim.workload.grouping import GroupRoom, MemberProcess
from liftlog_sim.workload.inspector import Inspector
from liftlog_sim.workload.jetstream import BucketClient, JetStreamRoom
from liftlog_sim.workload.mirroring import Mirrorer
from liftlog_sim.workload.mover import Mover
from liftlog_sim.workload.numbering import NumberedRun, problem_of_repeat
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.processing import SimulatedProcessor
from liftlog_sim.workload.reader import Reader
from liftlog_sim.workload.recounting import Recounter
from liftlog_sim.workload.repeating import TOO_LONG
from liftlog_sim.workload.rivalling import Rivalry
from liftlog_sim.workload.sourcing import Sourcer
from liftlog_sim.workload.subjects import SubjectAsker
from liftlog_sim.workload.targets import Target

ACK_TIMEOUT_US = 5 * SECOND
CREATE_TIMEOUT_US = 20 * SECOND
PROCESSORS_FROM = 9000
"""Above the numbers of all other publishers."""


class Workload:
    """All clients of one world, and the operations they performed."""

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = cluster = shared.cluster
        self._account = shared.account
        self.targets = shared.targets
        self.operations = shared.operations
        self.strange = shared.strange
        self.expectations = shared.expectations
        self.lasts, self.last_told, self.sent_on = shared.lasts, shared.last_told, shared.sent_on
        self.acked: dict[PartitionId, dict[int, bytes]] = {}
        """By offset, what was acknowledged as committed."""
        self._answered_by: dict[bytes, PartitionId] = {}
        self._uncreated = list(cluster.knobs.streams)
        self._creates = 0
        self._extra_bursts = 0
        cluster.bus.on_acks = self._acks
        cluster.bus.on_refusals = self._refusals
        knobs = cluster.knobs
        self.jetstream = JetStreamRoom(shared)
        self._publishers: dict[int, Publisher | SimulatedProcessor | BucketClient] = {
            number: Publisher(shared, number) for number in range(knobs.publishers)
        }
        self._processors = [
            SimulatedProcessor(shared, seat, PROCESSORS_FROM + seat) for seat in range(knobs.processors)
        ]
        self._publishers.update({one.number: one for one in self._processors})
        self._publishers.update(self.jetstream.buckets)
        self._joining: list[Callable[[], None]] = []
        self._readers = [Reader(shared, knobs.publishers + number) for number in range(knobs.readers)]
        self._admin = Admin(shared, knobs.publishers + knobs.readers)
        self._alterer = Alterer(shared)
        self._mover = Mover(shared)
        self._mirrorer, self._sourcer = Mirrorer(shared), Sourcer(shared)
        self._recounter = Recounter(shared)
        self._inspector = Inspector(shared, EXTRA_STREAMS)
        self._asker, self._filtered = SubjectAsker(shared), FilteredReader(shared)
        self._consuming = [ConsumingClient(shared, number) for number in range(knobs.consumers)]
        self._consuming += clients_of_few(shared)
        self.emptying = Emptying(shared)
        self._group = GroupRoom(shared, knobs.members)

    def start(self) -> None:
        """Create the streams, then let everybody loose."""
        self._cluster.kernel.after(SECOND, self._create)

    def stop(self) -> None:
        """No new load; what is under way may end."""
        self._shared.stopping = True

    def look_again(self, streams: Iterable[StreamState]) -> None:
        """Clients use the partitions that were added to their streams meanwhile (R19)."""
        self._shared.look_again(streams)

    def publish(self, target: Target, count: int, with_reply: bool) -> None:
        """Publish a burst now, outside of the drawn load; nothing in it is there to be refused."""
        self._extra_bursts += 1
        draws = self._cluster.chances.draws("burst", self._extra_bursts)
        first = self._publishers[0]
        assert isinstance(first, Publisher)
        first.publish(target, count, with_reply, f"x{self._extra_bursts}", draws, strange=0.0)

    # -- streams -------------------------------------------------------------------------------------------

    def _create(self, first: object, second: object) -> None:
        if self._uncreated:
            request = CreateStreamRequest(self._uncreated[0])
            name = f"create/{self._creates}"
            node = self._shared.any_node(self._cluster.chances.draws(name))
            self._creates += 1
            self._shared.hub.request(name, node, request, self._created, CREATE_TIMEOUT_US)

    def _created(self, reply: object) -> None:
        config = self._uncreated[0]
        if isinstance(reply, StreamInfoReply):
            self._uncreated.pop(0)
            info = reply.streams[0]
            # There are dead letters alone in that one.
            self._shared.know(config, info.id, len(info.partitions), used=config.name != DEAD)
            if not self._shared.performed and not self._uncreated:
                self._let_loose()
            self._create(None, None)
            return
        if isinstance(reply, ErrorReply) and reply.code == ERR_INVALID:
            # The operator does as he is told (U2): a cluster that was recovered does not rise by itself.
            name = f"raise/{self._creates}"
            node = self._shared.any_node(self._cluster.chances.draws(name))
            self._shared.hub.request(name, node, RaiseLevelRequest(), lambda reply: None, CREATE_TIMEOUT_US)
        self._cluster.kernel.after(500 * MILLISECOND, self._create)

    def _let_loose(self) -> None:
        for number in range(self._cluster.knobs.publishers):
            self._publishers[number].start()
        for reader in self._readers:
            reader.start()
        starts: list[Callable[[], None]] = [self._admin.start, self._alterer.start, self._mover.start]
        starts += [self._mirrorer.start, self._sourcer.start, self._recounter.start]
        starts += [self._inspector.start, self._asker.start, self._filtered.start]
        starts += [client.start for client in self._consuming]
        starts += [processor.start for processor in self._processors]
        for start in (*starts, self._group.start, self.jetstream.start, *self._joining):
            start()

    # -- clients from outside ------------------------------------------------------------------------------

    @property
    def joined(self) -> int:
        """How many publishers there are."""
        return len(self._publishers) - len(self._processors) - len(self.jetstream.buckets)

    def join(self, start: Callable[[], None]) -> None:
        """Somebody else begins when the streams are there."""
        self._joining.append(start)

    def add_publisher(self, publisher: Publisher) -> None:
        """It is told what was asked for under its number, and publishes by itself."""
        self._publishers[publisher.number] = publisher

    # -- publishing ----------------------------------------------------------------------------------------

    def _acks(self, acks: AckPublishes) -> None:
        values = self.acked.setdefault(acks.partition, {})
        offset = acks.offsets_from
        for reply in acks.replies:
            owner, _, name = reply[len(INBOX) :].partition(b".")
            for value in self._sent_as(name, acks.records) if reply else ():
                self._one_answer(value, acks.partition)
                known = value if acks.by_leader or acks.duplicate else values.setdefault(offset, value)
                if known != value:
                    self._account.fail(
                        Violation(
                            "NoAckedRecordLost",
                            f"partition {acks.partition}: offset {offset} was acknowledged for two values, "
                            f"{known.decode()} and {value.decode()}",
                        )
                    )
                self._author(int(owner)).acked(value, acks, offset)
                offset += 1
            offset += not reply

    def _refusals(self, refusal: RefusePublishes) -> None:
        for place, reply in enumerate(refusal.replies):
            if reply:
                owner, _, value = reply[len(INBOX) :].partition(b".")
                self._one_answer(value, refusal.partition)
                self._author(int(owner)).refused(value, refusal, place)
                for other in self._account.parcels.of(value)[1:]:
                    self._publishers[int(owner)].ended(other, refusal.code)

    def _author(self, number: int) -> Publisher | MemberProcess | SimulatedProcessor | BucketClient:
        return self._group.members.get(number) or self._publishers[number]

    def _sent_as(self, name: bytes, records: int) -> tuple[bytes, ...]:
        """The values of the message with this name, whose ack speaks of so many; 0: of a plain one."""
        values = self._account.parcels.of(name)
        if len(values) != records:
            text = f"{name.decode()} was sent with {len(values)} values, and {records} are acknowledged"
            self._account.fail(Violation("ParcelWhole", text))
        return values or (name,)

    def _one_answer(self, value: bytes, partition: PartitionId) -> None:
        """Each value is one message: one stream may answer it, as often as its leaders do. OneAnswer."""
        self._account.checks.counts["OneAnswer"] += 1
        known = self._answered_by.setdefault(value, partition)
        if known != partition:
            text = f"{value.decode()} was answered by partition {known} and by partition {partition}"
            self._account.fail(Violation("OneAnswer", text))


INBOX = b"_INBOX.sim."
DUPLICATE = "duplicate"
"""How an operation ends whose message was there already, by its id: under which value, it does not say."""
STRANGE_SHARE = 0.02
STRANGE = (
    b"Nats-Msg-Id: 1",
    b"Nats-Expected-Stream: another",
    b"Nats-Expected-Last-Subject-Sequence: first",
    b"Nats-Rollup: sub",
    b"Nats-TTL: 1",
    b"Nats-Batch-Id: a",
    b"Liftlog-Ack: twice",
    b"Liftlog-Unknown: 1",
)
"""L4: headers that ask for something that is not done here."""


class Publisher:
    """Publishes bursts of unique values, with a reply subject or without, and repeats what was not acked."""

    __slots__ = (
        "_account",
        "_again",
        "_asked",
        "_asks_full",
        "_cluster",
        "_deadlines",
        "_elsewhere",
        "_next",
        "_rivalry",
        "_shared",
        "_since",
        "_turns",
        "_waiting",
        "number",
    )

    def __init__(self, shared: Clientele, number: int) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self.number = number
        mean_us = self._cluster.knobs.publish_interval_us
        self._turns = self._cluster.chances.turns(f"publisher/{number}", mean_us)
        self._asks_full = number % 2 == 0
        self._asked: dict[bytes, Asking] = {}
        """What messages asked for that did not ask for JetStream's ack, or the full one."""
        self._since: dict[bytes, int] = {}
        """How much was committed when such a message was sent."""
        self._rivalry = Rivalry(shared)
        self._elsewhere = SentElsewhere()
        self._next: dict[PartitionId, int] = {}
        """L6: where the next message comes to lie, as far as this publisher has heard."""
        self._waiting: dict[bytes, ClientOperation] = {}
        self._deadlines: deque[tuple[int, list[ClientOperation]]] = deque()
        self._again = 0

    def start(self) -> None:
        self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        self._give_up()
        knobs, draws = self._cluster.knobs, turn.draws
        target = self._shared.target_of(turn)
        if target is not None:
            size = 1 + draws.part("size").randrange(knobs.burst_max) + min(self._again, knobs.burst_max)
            size = turn.count or size
            self._again = 0
            turn.noted(target.name, size)
            with_reply = draws.part("reply").random() < knobs.with_reply
            self.publish(target, size, with_reply, str(turn.number), draws)
        self._turns.take(self._fire)

    def publish(
        self,
        target: Target,
        count: int,
        with_reply: bool,
        burst: str,
        draws: Draws,
        strange: float = STRANGE_SHARE,
    ) -> None:
        """One burst on one subject, at this instant. Values are numbered within their `burst`. `strange`:
        what share is to be refused.
        """
        share = self._cluster.knobs.parcels if strange else 0.0
        if share and draws.part("parcels").random() < share:
            self._publish_parcels(target, count, with_reply, burst, draws.part("parcels", "sent"))
            return
        takes = strange > 0 and target.config.allow_batches is True
        if takes and draws.part("batches").random() < batching.SHARE:
            self._publish_batches(target, count, with_reply, burst, draws.part("batches", "sent"))
            return
        knobs, now_us = self._cluster.knobs, self._cluster.kernel.now_us
        messages: list[Message] = []
        operations: list[ClientOperation] = []
        expected = self._expected(target, draws.part("expecting")) if strange else -1
        run = self._run_for(target, b"plain", draws.part("run")) if strange and expected < 0 else None
        asked = bool(knobs.ask_subjects_us or knobs.filtered_interval_us)
        subject = target.drawn_subject(draws, asked, "" if strange else burst)
        filler = b"." * draws.part("filler").randrange(self._cluster.knobs.value_filler + 1)
        for place in range(count):
            own = draws.part(place)
            wish = PLAIN
            if strange:
                wish = asking.drawn(own.part("answer"), self._cluster.knobs, with_reply, strange)
            value = f"{self.number}-{burst}-{place}".encode()
            reply = INBOX + b"%d." % self.number + value if with_reply else b""
            lines = asking.key_lines(knobs, own, target.config.compact)
            lines += self._wish_lines(target, value, strange, own)
            if run is not None and not wish.enveloped:
                lines.append(self._shared.numbers.number(run, value, 0, own.part("number"))[0])
            elif strange and target.config.remembers_ms and not wish.enveloped:
                lines += self._shared.ids.behind(target.partition, own.part("behind"))
                id = self._shared.ids.draw(target.partition, value, own.part("id"))
                lines += [] if id is None else [b"Nats-Msg-Id: " + id]
            if expected >= 0 and not (wish.enveloped and expected + place == 0):
                # To an envelope offset 0 is none.
                wish = wish._replace(expected=expected + place)
                self._shared.expectations[value] = expected + place
                self._since[value] = self._account.truth(target.partition).hw
            if strange and not wish.enveloped:
                lines += self._rivalry.lines(target, subject, value, place, draws.part("rivalry"))
                lines += rolling.roll_up_lines(target.config, own.part("roll-up"))
                lines += rolling.ttl_lines(target.config, own.part("time"))
            if wish != PLAIN:
                self._asked[value] = wish
            messages.append(
                self._message(target, reply, value, filler, lines=lines, wish=wish, subject=subject)
            )
            said = () if wish.enveloped else lines
            operations.append(ClientOperation("send", self.number, target, now_us, value, said))
        self._send(target, subject, messages, operations, with_reply)

    def _publish_parcels(
        self, target: Target, count: int, with_reply: bool, burst: str, draws: Draws
    ) -> None:
        """The same, but that most values of the burst are sent together with others (L8)."""
        knobs, shared, now_us = self._cluster.knobs, self._shared, self._cluster.kernel.now_us
        filler = b"." * draws.part("filler").randrange(knobs.value_filler + 1)
        expected = self._expected(target, draws.part("expecting"))
        # Some publishers count messages where they should count records, and are refused for it.
        miscounts = draws.part("counting").random() < 0.3
        run = self._run_for(target, b"parcels", draws.part("run")) if expected < 0 else None
        messages: list[Message] = []
        operations: list[ClientOperation] = []
        for size in parcelling.groups(count + 1, draws.part("groups")):
            place = len(operations)
            wanted = expected + (len(messages) if miscounts else place) if expected >= 0 else -1
            own = draws.part(place)
            lines = [b"Liftlog-Ack: full"] if self._asks_full else []
            if run is not None:
                first = f"{self.number}-{burst}-{place}".encode()
                line, size = shared.numbers.number(run, first, size, own.part("number"))
                lines.append(line)
            values = tuple(f"{self.number}-{burst}-{place + nth}".encode() for nth in range(max(1, size)))
            wish = asking.drawn(own.part("answer"), knobs, with_reply, 0.0)
            wish = wish._replace(enveloped=False, expected=wanted)
            lines += asking.header_lines(wish)
            lines += self._rivalry.lines(target, target.subject, values[0], place, draws.part("rivalry"))
            wrong = size > 0 and own.part("wrong").random() < STRANGE_SHARE * parcelling.WRONG_FACTOR
            payload = values[0] + filler
            if size:
                shared.account.parcels.sent(values)
                keys = [asking.key(knobs, own.part("key", nth)) for nth in range(size)]
                keys = keys if target.config.compact else [None] * size
                sent = [value + filler for value in values]
                others = self._rivalry.others(target)
                payload = parcelling.parcel(sent, keys, target.subject, wrong, own.part("parcel"), others)
                lines.append(parcelling.BATCH_LINE)
            if wrong:
                shared.strange.update(values)
            for nth, value in enumerate(values):
                self._asked[value] = wish
                if wanted >= 0:
                    shared.expectations[value] = wanted + nth
                    self._since[value] = self._account.truth(target.partition).hw
                operations.append(ClientOperation("send", self.number, target, now_us, value))
            headers = b"NATS/1.0\r\n%b\r\n" % b"".join(b"%b\r\n" % line for line in lines) if lines else b""
            reply = INBOX + b"%d." % self.number + values[0] if with_reply else b""
            messages.append(Message(target.subject, reply, headers, payload))
        self._send(target, target.subject, messages, operations, with_reply)

    def _publish_batches(
        self, target: Target, count: int, with_reply: bool, burst: str, draws: Draws
    ) -> None:
        """The same, but that values are sent one by one, to be stored together (L11)."""
        knobs, shared, now_us, place = self._cluster.knobs, self._shared, self._cluster.kernel.now_us, 0
        filler = b"." * draws.part("filler").randrange(knobs.value_filler + 1)
        operations: list[ClientOperation] = []
        now: list[Message] = []
        for size in batching.sizes(count, draws.part("sizes")):
            own = draws.part(place)
            values = tuple(f"{self.number}-{burst}-{place + nth}".encode() for nth in range(size))
            keys = [asking.key(knobs, own.part("key", nth)) for nth in range(size)]
            keyed = target.config.compact
            lines = [[b"Liftlog-Key: " + key] if key is not None and keyed else [] for key in keys]
            expected = self._expected(target, own.part("expecting"))
            if expected >= 0:
                lines[0].append(b"Liftlog-Expected-Offset: %d" % expected)
                shared.expectations.update({value: expected + nth for nth, value in enumerate(values)})
                self._since.update(dict.fromkeys(values, self._account.truth(target.partition).hw))
            lines[0] += self._rivalry.lines(target, target.subject, values[0], place, draws.part("rivalry"))
            for value, its in zip(values, lines, strict=True) if target.config.remembers_ms else ():
                its += shared.ids.line(target.partition, value, own.part("id", value))
            shared.account.parcels.sent(values)
            operations += [ClientOperation("send", self.number, target, now_us, value) for value in values]
            ends = [b"Liftlog-Ack: full"] if self._asks_full else []
            reply = INBOX + b"%d." % self.number + values[0] if with_reply else b""
            sent = batching.messages(
                list(zip(values, lines, strict=True)), reply, target.subject, filler, ends, own.part("batch")
            )
            now += batching.begun(self._cluster, sent)
            place += size
        self._send(target, target.subject, now, operations, with_reply)

    def _send(
        self,
        target: Target,
        subject: bytes,
        messages: list[Message],
        operations: list[ClientOperation],
        with_reply: bool,
    ) -> None:
        now_us = self._cluster.kernel.now_us
        heard = self._cluster.bus.publish(subject, messages)
        self._shared.perform(operations)
        copies = []
        for copy in self._shared.copies_of(target, subject):
            # Nobody says whether a silent copy was stored.
            copies += [
                ClientOperation("send", self.number, copy, now_us, operation.value)
                for operation in operations
            ]
        self._shared.perform(copies)
        self._elsewhere.sent(copies)
        if with_reply and heard:
            self._deadlines.append((now_us + ACK_TIMEOUT_US, operations))
            for operation in operations:
                self._waiting[operation.value] = operation
        elif with_reply:
            for operation in operations:
                operation.end("fail", now_us, error="no responders")

    def _message(
        self,
        target: Target,
        reply: bytes,
        value: bytes,
        filler: bytes,
        lines: list[bytes],
        wish: Asking,
        subject: bytes,
    ) -> Message:
        if wish.enveloped:
            self._shared.strange.discard(value)
            if wish.strange >= 0:
                self._shared.strange.add(value)
            keys = [line.partition(b": ")[2] for line in lines if line.startswith(b"Liftlog-Key")]
            key, stream = b"".join(keys), target.stream
            return asking.enveloped(wish, subject, reply, value, value + filler, key, stream)
        lines = lines + asking.header_lines(wish)
        headers = b"NATS/1.0\r\n%b\r\n" % b"".join(b"%b\r\n" % line for line in lines) if lines else b""
        return Message(subject, reply, headers, value + filler)

    def _run_for(self, target: Target, kind: bytes, draws: Draws) -> NumberedRun | None:
        """L2: the run in which a burst is sent, if its messages are numbered."""
        if not target.config.remembers_ms:
            return None
        return self._shared.numbers.run_for(target.partition, self.number, kind, draws)

    def _expected(self, target: Target, draws: Draws) -> int:
        """L6: where the first message of a burst is to lie; -1 = anywhere. Now and then it is wrong."""
        share = self._cluster.knobs.expecting
        if not share or draws.random() >= share:
            return -1
        return max(0, self._next.get(target.partition, 0) + draws.choice((0, 0, 0, 0, 0, 0, 1, -1)))

    def _wish_lines(self, target: Target, value: bytes, strange: float, draws: Draws) -> list[bytes]:
        """What else a message asks for: half of the publishers want the full ack, some name the stream."""
        lines = [b"Liftlog-Ack: full"] if self._asks_full else []
        drawn = draws.random()
        if drawn < strange:
            self._shared.strange.add(value)
            # Before the others: of two equal names the first counts.
            line = rolling.strange(target.config, STRANGE[int(drawn / strange * len(STRANGE))])
            lines.insert(0, TOO_LONG if target.config.remembers_ms and line == STRANGE[0] else line)
        elif drawn > 0.95:
            lines.append(b"Nats-Expected-Stream: " + target.stream.encode())
        return lines

    def acked(self, value: bytes, acks: AckPublishes, offset: int) -> None:
        account, wish = self._account, self._asked.get(value, PLAIN)
        place = 0 if acks.records else offset - acks.offsets_from
        account.checks.counts["HeadersHeeded"] += 1
        what = f"partition {acks.partition} acknowledged {value.decode()}"
        self._next[acks.partition] = max(offset + 1, self._next.get(acks.partition, 0))
        if acks.duplicate:
            self._repeated(value, acks, offset)
        else:
            self._rivalry.acked(value, acks.partition, offset)
        expected = offset if acks.duplicate else self._shared.expectations.get(value, offset)
        account.checks.counts["StoredAsExpected"] += 1
        if expected != offset:
            account.fail(Violation("StoredAsExpected", f"{what} at {offset}, and it expected {expected}"))
        if value in self._shared.strange:
            account.fail(Violation("HeadersHeeded", f"{what}, which asks for what is not done here"))
        problem = asking.problem_of_ack(wish, self._asks_full, value, acks, place)
        if problem:
            account.fail(Violation("HeadersHeeded", what + problem))
        operation = self._waiting.pop(value, None)
        if operation is None:
            return
        now_us = self._cluster.kernel.now_us
        operation = self._elsewhere.meant(operation, acks.partition, now_us)
        if acks.duplicate:
            operation.end("info", now_us, error=DUPLICATE)
            account.count("messages sent again that were there")
            return
        if acks.by_leader:
            operation.end("info", now_us, offset=offset, error=BY_LEADER)
            account.count("acks received of leaders alone")
            return
        full = acks.full is not None and acks.full[place]
        epoch, incarnation = (acks.epoch, acks.incarnation) if full else (0, 0)
        operation.end("ok", now_us, epoch=epoch, incarnation=incarnation, offset=offset)
        account.count("acks received")

    def _repeated(self, value: bytes, acks: AckPublishes, offset: int) -> None:
        """L7: it was there already. AnsweredWithFirst."""
        account, id = self._account, self._shared.ids.of(value)
        truth = account.truth(acks.partition)
        account.checks.counts["AnsweredWithFirst"] += 1
        what = f"partition {acks.partition} says that {value.decode()} was there at {offset}"
        if offset >= truth.hw:
            if not acks.by_leader:
                account.fail(Violation("AnsweredWithFirst", f"{what}; committed is no more than {truth.hw}"))
            return
        record = truth.contents.committed[offset]
        numbered = self._shared.numbers.of(value)
        if id is None and (numbered is not None or acks.records):
            # Of a parcel the first record has the number.
            if record is not None and numbered is not None and not acks.by_leader:
                problem = problem_of_repeat(numbered, stored_number(record.headers))
                if problem:
                    account.fail(Violation("AnsweredWithFirst", f"{what}, {problem}"))
            return
        found = None if record is None else stored_id(record.headers)
        if record is not None and (id is None or found != id) and not acks.by_leader:
            account.fail(Violation("AnsweredWithFirst", f"{what}, with id {id!r}; there is {found!r}"))

    def refused(self, value: bytes, refusal: RefusePublishes, place: int) -> None:
        code = refusal.code
        problem = asking.problem_of_refusal(self._asked.get(value, PLAIN), value, refusal, place)
        if problem:
            what = f"partition {refusal.partition} refused {value.decode()}"
            self._account.fail(Violation("HeadersHeeded", what + problem))
        if refusal.next_offset >= 0:
            self._not_there(value, refusal.partition, refusal.next_offset)
        self._rivalry.refused(value, refusal)
        if refusal.next_sequence >= 0:
            self._shared.numbers.due(value, refusal.next_sequence)
        if refusal.newest_run >= 0:
            self._replaced(value, refusal)
        self.ended(value, code)

    def _replaced(self, value: bytes, refusal: RefusePublishes) -> None:
        """L2: there is a newer run of its producer. RefusedTruly."""
        account, numbered = self._account, self._shared.numbers.of(value)
        self._shared.numbers.replaced(value)
        account.checks.counts["RefusedTruly"] += 1
        known = -1
        if numbered is not None:
            known = account.truth(refusal.partition).numbers.newest_run(numbered.producer)
        if numbered is None or known < refusal.newest_run or refusal.newest_run <= numbered.run:
            what = f"partition {refusal.partition} refused {value.decode()}, {numbered}"
            text = f"{what}, for run {refusal.newest_run}; committed is no more than run {known}"
            account.fail(Violation("RefusedTruly", text))

    def ended(self, value: bytes, code: str) -> None:
        """It was refused, with this code."""
        operation = self._waiting.pop(value, None)
        if operation is not None:
            operation.end("fail" if code in FAILS else "info", self._cluster.kernel.now_us, error=code)
            self._again += 1
            self._shared.numbers.doubtful(value)
            if code not in FAILS:
                self._shared.ids.unknown(operation.target.partition, value)

    def _not_there(self, value: bytes, partition: PartitionId, next_offset: int) -> None:
        """L6: it was refused since the log was not as it expected. RefusedTruly."""
        account, expected = self._account, self._shared.expectations.get(value, -1)
        account.checks.counts["RefusedTruly"] += 1
        self._next[partition] = next_offset
        hw = account.truth(partition).hw
        what = f"partition {partition} refused {value.decode()}, which expected {expected}, for {next_offset}"
        if next_offset > hw:
            account.fail(Violation("RefusedTruly", f"{what}; committed is no more than {hw}"))
        if expected == next_offset or (self._since.get(value) == hw and hw == expected):
            account.fail(Violation("RefusedTruly", f"{what}; while it waited the log ended at {hw}"))

    def _give_up(self) -> None:
        """Values without an ack for too long: their outcome is unknown; publish the content anew."""
        now_us = self._cluster.kernel.now_us
        while self._deadlines and self._deadlines[0][0] <= now_us:
            for operation in self._deadlines.popleft()[1]:
                if self._waiting.pop(operation.value, None) is not None:
                    operation.end("info", now_us, error="no ack in time")
                    self._again += 1
                    self._shared.ids.unknown(operation.target.partition, operation.value)
                    self._shared.numbers.doubtful(operation.value)
