"""The truth about consumers: what the committed journal says, and what clients were told (K1 to K7).

    SameConsumerState  where a copy thinks that consumers stand, having heeded its journal up to an offset,
                       is what the committed entries below that offset say
    AckStays           an ack that was answered is committed below what the answer names; behind its entry no
                       delivery has a record, and none without a record is of a later epoch
    DeliveriesBounded  a message is delivered at most once more than its consumer's limit says, and at most
                       once without a record, by the leader of the epoch that wrote it
    NoneSkipped        a consumer's position passes no message that is not delivered by the same entry, but
                       those that were deleted or lie below a log start; and a message is done when somebody
                       has said so, when it is gone, or was delivered as often as it may be; a consumer
                       begins where it is to begin, and when a world has healed each is emptied
    OfThisIncarnation  answers are about the consumer with the number that was asked for, which was created,
                       and not said to be deleted before, but by who may not know
    PendingExact       where nothing is on its way, a leader tells of a consumer what the journal says
    DeliveriesNumbered what is delivered has the number that its record gives it: one more than there were by
                       the entries before, and by no other record of its epoch
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from liftlog.core.consumers.entries import (
    AT_LIMIT,
    GONE,
    Altered,
    ConsumerDeleted,
    Created,
    Dead,
    Delivered,
    Done,
    Rewound,
    SaidAgain,
    decode_entry,
    is_consumers,
)
from liftlog.core.replica.replica import Replica
from liftlog.format import decode_records, parse_batch
from liftlog.messages import (
    DELIVER_LASTS,
    ConsumerInfo,
    ConsumersReply,
    Counted,
    PullReply,
    offsets_of,
)
from liftlog.types import Record
from liftlog_sim.truth.beginnings import last_of_each, latest_start
from liftlog_sim.truth.invariants import PartitionTruth, Violation, epoch_at
from liftlog_sim.truth.letters import DeadMessage
from liftlog_sim.truth.removals import DeletionTruth
from liftlog_sim.truth.resets import Resets
from liftlog_sim.truth.sought import KnownThen, SoughtConsumers
from liftlog_sim.truth.trueconsumer import Standing, TrueConsumer


class ConsumerTruth:
    """Of one partition. `data`: the truth about its messages; `deletions`: which of them were deleted.
    `log_start`: the greatest log start of any copy.
    """

    __slots__ = (
        "_data",
        "_deletions",
        "_journal",
        "_judged",
        "_log_start",
        "_recorded",
        "_resets",
        "_stood",
        "_to_go",
        "consumers",
        "sought",
        "written",
    )

    def __init__(
        self, data: PartitionTruth, deletions: DeletionTruth, log_start: Callable[[], int]
    ) -> None:
        self._data = data
        self._deletions = deletions
        self._journal = deletions.journal
        self._log_start = log_start
        self.consumers: dict[int, TrueConsumer] = {}
        """By number, those that are deleted too."""
        self._stood: list[tuple[Standing, ...]] = [()]
        """Where all consumers stand that are there, by how much of the journal is heeded."""
        self._recorded: dict[int, Delivered] = {}
        """By where its entry ends."""
        self._judged: dict[tuple[int, int], int] = {}
        self._resets = Resets()
        self._to_go: set[str] = set()
        """Names of those that some client has asked to delete."""
        self.written = 0
        """Where the longest journal ended that was ever seen; its node may be down, and come back."""
        self.sought = SoughtConsumers()

    # -- the fold ------------------------------------------------------------------------------------------

    def known(self) -> dict[int, TrueConsumer]:
        """By what is committed so far."""
        committed = self._journal.contents.committed
        for offset in range(len(self._stood) - 1, len(committed)):
            record = committed[offset]
            value = b"" if record is None else record.value or b""
            if is_consumers(value):
                self._take(offset + 1, decode_entry(value))
                there = [one for one in self.consumers.values() if not one.deleted]
                self._stood.append(tuple(one.standing for one in there))
            else:
                self._stood.append(self._stood[-1])
        return self.consumers

    def _take(self, end: int, entry: object) -> None:
        if isinstance(entry, Created):
            self._created(TrueConsumer(end, entry))
            return
        if isinstance(entry, SaidAgain):
            self._said_again(entry, end)
            return
        assert isinstance(entry, Altered | Delivered | Done | Dead | Rewound | ConsumerDeleted)
        consumer = self.consumers.get(entry.consumer)
        if consumer is None or consumer.deleted:
            return
        match entry:
            case Altered():
                consumer.altered(entry.config)
                self._stays_alone(consumer)
            case Delivered():
                self._recorded[end] = entry
                self._delivered(consumer, entry, end)
            case Done():
                self._done(consumer, entry, end)
            case Dead():
                self._died(consumer, entry, end)
            case Rewound():
                consumer.rewound(entry.to)
            case ConsumerDeleted():
                consumer.deleted = end
        consumer.standing = consumer.stands()

    def _created(self, consumer: TrueConsumer) -> None:
        created = consumer.created
        if created.instead:
            self._checks("OfThisIncarnation")
            former = self.consumers.get(created.instead)
            if problem := self._resets.takes_place(consumer, former, consumer.number):
                raise self._violation("OfThisIncarnation", consumer, problem)
        if all(one.deleted or one.created.name != created.name for one in self.consumers.values()):
            self.consumers[consumer.number] = consumer
            self._stays_alone(consumer)
            if not created.instead:
                self._begins(consumer)

    def _stays_alone(self, consumer: TrueConsumer) -> None:
        """In a work queue: no other one may be given the same."""
        if self._deletions.is_queue:
            there = [one for one in self.consumers.values() if not one.deleted and one is not consumer]
            pairs = [(one.created.name, one.config) for one in there]
            self._deletions.done_with.alone(consumer.created.name, consumer.config, pairs)

    def _begins(self, consumer: TrueConsumer) -> None:
        """NoneSkipped: not behind where it is to begin."""
        self._checks("NoneSkipped")
        config = consumer.created.config
        latest = latest_start(config, self._data, self._log_start())
        self._begins_with(consumer)
        if consumer.created.start > latest:
            text = f"it is to begin with {config.deliver!r}, {config.offset}, and begins at"
            raise self._violation("NoneSkipped", consumer, f"{text} {consumer.created.start}")

    def _begins_with(self, consumer: TrueConsumer) -> None:
        """With the last message of each subject that its filters match, if that is asked for; no others."""
        created, data = consumer.created, self._data
        if created.config.deliver != DELIVER_LASTS:
            return
        meant = last_of_each(consumer, data, lambda offset: self._is_deleted(offset, created.heeds))
        needed = {offset for offset in meant if offset >= self._log_start()}
        if created.since > data.hw or not needed <= consumer.lasts <= meant:
            text = f"below {created.since} it is to begin with {sorted(meant)}, and begins with"
            raise self._violation("NoneSkipped", consumer, f"{text} {sorted(consumer.lasts)}")

    def _said_again(self, entry: SaidAgain, end: int) -> None:
        """It says of a consumer what all entries before it say. SameConsumerState."""
        self._checks("SameConsumerState")
        consumer = self.consumers.get(entry.consumer)
        runs = [(range(first, first + length), count) for first, length, count in entry.pending]
        pending = tuple((offset, count) for run, count in runs for offset in run)
        died = [(range(first, first + length), how) for first, length, how in entry.dead]
        dead = tuple((offset, how) for run, how in died for offset in run)
        said = entry.consumer, entry.name, entry.position, pending, entry.sequence, dead
        same = consumer is not None and not consumer.deleted and consumer.standing == said
        same = same and consumer is not None and consumer.config == entry.config
        if consumer is not None and same and entry.position < consumer.since:
            left = {offset for offset in consumer.lasts if entry.position <= offset < consumer.since}
            same = entry.since == consumer.since and left == set(offsets_of(entry.lasts))
        if not same:
            stands = None if consumer is None or consumer.deleted else consumer.standing
            raise Violation(
                "SameConsumerState",
                f"partition {self._data.id}: the entry at {end} says that a consumer stands at {said}; by "
                f"those before it that is {stands}",
            )

    def _delivered(self, consumer: TrueConsumer, entry: Delivered, end: int) -> None:
        """NoneSkipped, AckStays, DeliveriesBounded of what is recorded."""
        counts = {
            offset: count for first, length, count in entry.runs for offset in range(first, first + length)
        }
        self._checks("NoneSkipped", "AckStays", "DeliveriesBounded")
        for offset, count in counts.items():
            if offset in consumer.done:
                text = f"is recorded as delivered at {end}, behind the entry at {consumer.done[offset]}"
                raise self._violation("AckStays", consumer, f"offset {offset} {text} by which it is done")
            if count > consumer.limit > 0 or count != consumer.pending.get(offset, 0) + 1:
                before = consumer.pending.get(offset, 0)
                text = f"offset {offset} is recorded as delivered {count} times, and before that {before}"
                raise self._violation("DeliveriesBounded", consumer, text)
            unknown = self._record(offset) is None
            if offset >= consumer.position and not unknown and self._is_unwanted(consumer, offset):
                text = f"offset {offset} is recorded as delivered at {end}, which is not for it"
                raise self._violation("NoneSkipped", consumer, text)
        for offset in range(consumer.position, entry.end):
            if offset not in counts and not self._is_over(consumer, offset):
                text = f"passes offset {offset}, which is there and was not delivered"
                raise self._violation("NoneSkipped", consumer, f"the entry at {end} {text}")
        self._numbered(consumer, entry, end)
        consumer.pending.update(counts)
        consumer.position = max(consumer.position, entry.end)

    def _numbered(self, consumer: TrueConsumer, entry: Delivered, end: int) -> None:
        """DeliveriesNumbered of what was given before this record of it was committed."""
        named = epoch_at(self._journal.history, end - 1), consumer.sequence + 1
        if entry.runs:
            consumer.numbered[named] = entry.runs
            self._is_numbered(consumer, consumer.unrecorded.get(named), entry.runs)
        consumer.sequence += sum(length for _, length, _ in entry.runs)

    def _is_numbered(
        self, consumer: TrueConsumer, reply: PullReply | None, runs: list[Counted] | None
    ) -> None:
        """What was given, and what is recorded of that epoch under its number, if both are known."""
        self._checks("DeliveriesNumbered")
        if reply is not None and runs is not None and reply.runs != runs:
            text = f"{reply.runs} has number {reply.sequence} in epoch {reply.epoch}, and by the journal"
            raise self._violation("DeliveriesNumbered", consumer, f"{text} that is {runs}")

    def _is_over(self, consumer: TrueConsumer, offset: int) -> bool:
        """Whether nobody is to get it: it is gone, or not wanted."""
        gone = offset < self._log_start() or self._is_deleted(offset)
        return gone or self._is_unwanted(consumer, offset)

    def _is_unwanted(self, consumer: TrueConsumer, offset: int) -> bool:
        """It is none that the consumer begins with, or its filters leave it out."""
        return not consumer.wants(offset, self._record(offset))

    def _record(self, offset: int) -> Record | None:
        committed = self._data.contents.committed
        return committed[offset] if offset < len(committed) else None

    def _done(self, consumer: TrueConsumer, entry: Done, end: int) -> None:
        """NoneSkipped: it was acked, or delivered as often as it may be, or is gone."""
        self._checks("NoneSkipped")
        for offset in offsets_of(entry.runs):
            count = consumer.pending.pop(offset, 0)
            if not count:
                continue
            if offset in consumer.dead:
                self._buried(consumer, offset, entry.how, end)
                continue
            consumer.done[offset] = end
            due = {
                AT_LIMIT: 0 < consumer.limit <= count,
                GONE: offset < self._log_start() or self._is_deleted(offset),
            }
            if not due.get(entry.how, offset in consumer.said):
                text = f"the entry at {end} says of offset {offset}, delivered {count} times, {entry.how!r}"
                raise self._violation("NoneSkipped", consumer, f"{text}; nobody has said so")

    def _died(self, consumer: TrueConsumer, entry: Dead, end: int) -> None:
        """Behind that nothing is delivered, and no ack counts. NoneSkipped, DeadLettersStored."""
        self._checks("NoneSkipped")
        for offset in offsets_of(entry.runs):
            count = consumer.pending.get(offset, 0)
            if not count or offset in consumer.dead:
                continue
            consumer.dead[offset] = entry.how
            consumer.done[offset] = end
            due = 0 < consumer.limit <= count if entry.how == AT_LIMIT else offset in consumer.said
            if not due:
                text = f"the entry at {end} says of offset {offset}, delivered {count} times, {entry.how!r}"
                raise self._violation("NoneSkipped", consumer, f"{text}, and that is not so")

    def _buried(self, consumer: TrueConsumer, offset: int, how: str, end: int) -> None:
        """It is pending no more: its letter is committed, or there is to be none. DeadLettersStored."""
        self._checks("DeadLettersStored")
        del consumer.dead[offset]
        gone = offset < self._log_start() or self._is_deleted(offset)
        if offset not in consumer.letters and consumer.config.dead_letter and not (how == GONE and gone):
            text = f"the entry at {end} says that offset {offset}, which is dead, is done ({how!r}), and its"
            raise self._violation("DeadLettersStored", consumer, f"{text} letter is committed nowhere")

    def letter(self, message: DeadMessage) -> None:
        """The letter of a message of this partition is committed. DeadLettersStored."""
        self._checks("DeadLettersStored")
        consumer = self.known().get(message.consumer)
        if consumer is None:
            raise Violation("DeadLettersStored", f"{message}: there was no such consumer")
        if not consumer.deleted and message.offset not in consumer.done:
            text = f"the letter of offset {message.offset} is committed, and not that it is dead"
            raise self._violation("DeadLettersStored", consumer, text)
        written = epoch_at(self._data.history, message.offset)
        if message.epoch != written:
            text = f"the letter of offset {message.offset} has the id of another message: it names epoch"
            raise self._violation("DeadLettersStored", consumer, f"{text} {message.epoch}, and not {written}")
        consumer.letters.add(message.offset)

    def unburied(self, number: int) -> list[int]:
        """What is dead, and is to be published yet."""
        consumer = self._of(number)
        there = [] if consumer.deleted else sorted(consumer.dead)
        return [offset for offset in there if offset >= self._log_start() and not self._is_deleted(offset)]

    def _is_deleted(self, offset: int, below: int | None = None) -> bool:
        epoch = epoch_at(self._data.history, offset)
        end = self._deletions.named().get((offset, epoch), 0)
        return end > 0 and (below is None or end <= below)

    # -- copies --------------------------------------------------------------------------------------------

    def same_state(self, node: int, run: int, journal: Replica) -> None:
        """A copy was looked at. SameConsumerState."""
        self.written = max(self.written, journal.leo)
        removed = journal.removed
        assert removed is not None
        place = node, run
        if journal.log_start and not removed.is_known:
            return  # It has not come to the end of what is said again.
        if journal.state != "ready" or self._judged.get(place) == removed.folded:
            return
        self._judged[place] = removed.folded
        self.known()
        if removed.folded >= len(self._stood):
            return  # SameVisible says so.
        self._checks("SameConsumerState")
        stands = tuple((*one[:5], one[-1]) for one in removed.consumers.snapshot())
        if stands != self._stood[removed.folded]:
            raise Violation(
                "SameConsumerState",
                f"partition {self._data.id}: node {node}, with its journal heeded up to {removed.folded}, "
                f"thinks that consumers stand at {stands}; they stand at {self._stood[removed.folded]}",
            )

    # -- what clients are told -----------------------------------------------------------------------------

    def ended(self) -> frozenset[int]:
        """Of which somebody was told that they are deleted."""
        return frozenset(number for number, one in self.consumers.items() if one.told)

    def created(self, name: str, reply: ConsumersReply, ended: frozenset[int]) -> None:
        """A leader says that a consumer is there; when it was asked, these had ended. OfThisIncarnation."""
        self._checks("OfThisIncarnation")
        number = reply.consumers[0].number
        consumer = self._of(number)
        if consumer.created.name != name or (number in ended and reply.epoch > self._deleted_in(consumer)):
            text = f"it is said to be {name!r}, and that it is there"
            raise self._violation("OfThisIncarnation", consumer, text)

    def begun(self, name: str, number: int, known: KnownThen) -> None:
        """It is there, as a client was told that has asked for it. Who begins with what is new is given no
        message that was acknowledged then (K5), and who begins with the last ones knows of the deletions that
        somebody knew of. NoneSkipped.
        """
        self._checks("NoneSkipped")
        consumer = self._of(number)
        if problem := self.sought.begun(consumer, known):
            raise self._violation("NoneSkipped", consumer, problem)

    def _deleted_in(self, consumer: TrueConsumer) -> int:
        """The epoch that did so. A leader of an earlier one may not know."""
        return epoch_at(self._journal.history, consumer.deleted - 1)

    def served(self, number: int, asked_us: int) -> None:
        """A leader has said that messages are done, to who asked for that at this time."""
        consumer = self._of(number)
        consumer.served_us = max(consumer.served_us, asked_us)

    def to_go(self, name: str) -> None:
        """A client is about to ask that it be deleted."""
        self._to_go.add(name)

    def no_more(self, number: int, now_us: int) -> None:
        """A leader says that it is deleted. OfThisIncarnation: somebody has wanted that, or nobody has used
        it for half as long as it is to stay without: clocks differ.
        """
        consumer = self.known().get(number)
        if consumer is None or not consumer.deleted or consumer.created.name in self._to_go:
            return  # Who leads no more may not know it.
        if number in self._resets.ended:
            return
        self._checks("OfThisIncarnation")
        stays_us = consumer.config.inactive_ms * 1000
        if not stays_us or now_us - consumer.served_us < stays_us // 2:
            text = f"is said to be deleted at {now_us} us, and was used at {consumer.served_us}"
            raise self._violation("OfThisIncarnation", consumer, f"it {text}; nobody has wanted that")

    def there(self, name: str) -> list[int]:
        """The numbers of this name that are committed and not deleted."""
        return [n for n, one in self.known().items() if not one.deleted and one.created.name == name]

    def resets(self, name: str) -> None:
        """A client is about to ask that it be reset."""
        self._resets.asks(name)

    def was_reset(self, reply: ConsumersReply, offset: int, there: Iterable[int]) -> None:
        """A leader says so to who has asked for this offset, when those were there. OfThisIncarnation,
        NoneSkipped.
        """
        consumer = self._of(reply.consumers[0].number)
        self.deleted(there)
        self._checks("NoneSkipped")
        if problem := self._resets.begins(consumer, offset, self._log_start()):
            raise self._violation("NoneSkipped", consumer, problem)

    def deleted(self, numbers: Iterable[int]) -> None:
        """A leader says that those are deleted that were there when it was asked. OfThisIncarnation."""
        self._checks("OfThisIncarnation")
        for number in numbers:
            consumer = self.known()[number]
            consumer.told = True
            if not consumer.deleted:
                text = "it is said to be deleted, which no committed entry says"
                raise self._violation("OfThisIncarnation", consumer, text)

    def says(self, number: int, offsets: Iterable[int]) -> None:
        """A client is about to say that these are done."""
        self._of(number).said.update(offsets)

    def settled(
        self, number: int, offsets: Sequence[int], journal: int, foreign: Sequence[int] = ()
    ) -> None:
        """A leader says that these are done, below an offset of the journal. AckStays. `foreign`: it speaks
        of these, too, and nobody has asked for them.
        """
        self._checks("AckStays")
        consumer = self._of(number)
        if foreign:
            text = f"who acked other messages is told of {foreign} that no delivery is known"
            raise self._violation("AckStays", consumer, text)
        for offset in offsets:
            end = consumer.done.get(offset, 0)
            if end == 0 and (offset < self._log_start() or self._is_deleted(offset)):
                continue  # It was passed, since it was gone.
            if not 0 < end <= journal or journal > self._journal.hw:
                text = f"offset {offset} is said to be done below {journal} of the journal; "
                text += f"{self._journal.hw} are committed, and say so at {end}"
                raise self._violation("AckStays", consumer, text)
        self._deletions.acked(journal, self._log_start())

    def purged(self) -> dict[int, int]:
        """By the greatest epoch that had been led by then: what purges were answered up to."""
        return dict(self._data.purged_in)

    def pulled(
        self, number: int, reply: PullReply, ended: frozenset[int], told: int, purged: dict[int, int]
    ) -> None:
        """A client was given this. When it asked, these consumers had ended, these purges were done, and
        somebody had been told of deletions of messages below the offset `told` of the journal.
        """
        self._checks("AckStays", "DeliveriesBounded", "OfThisIncarnation", "ConsistentRead")
        self._checks("LogStartMonotone")
        before = max((start for epoch, start in purged.items() if epoch <= reply.epoch), default=0)
        consumer = self._of(number)
        late = number in ended and (reply.recorded or reply.epoch > self._deleted_in(consumer))
        if reply.consumer != number or late:
            text = f"number {number} was asked for in epoch {reply.epoch}, and {reply.consumer} answered"
            raise self._violation("OfThisIncarnation", consumer, text)
        found = {record.offset: record for frame in reply.batches for record in _records(self._data, frame)}
        if reply.recorded:
            self._is_recorded(consumer, reply)
        self._has_number(consumer, reply)
        for first, length, count in reply.runs:
            for offset in range(first, first + length):
                self._handed(consumer, reply, offset, count)
                self._is_there(consumer, offset, found, told)
                if offset < before:
                    text = f"offset {offset} is delivered; when it was asked for, {before} were purged"
                    raise self._violation("LogStartMonotone", consumer, text)

    def _of(self, number: int) -> TrueConsumer:
        consumer = self.known().get(number)
        if consumer is None:
            text = f"partition {self._data.id}: there is no consumer {number}, and somebody answers for it"
            raise Violation("OfThisIncarnation", text)
        return consumer

    def _is_recorded(self, consumer: TrueConsumer, reply: PullReply) -> None:
        entry = self._recorded.get(reply.recorded)
        if entry is None or entry.consumer != consumer.number or entry.runs != reply.runs:
            text = f"{reply.runs} is said to be recorded at {reply.recorded}; {self._journal.hw} are "
            raise self._violation("DeliveriesBounded", consumer, f"{text}committed, and there is {entry}")

    def _has_number(self, consumer: TrueConsumer, reply: PullReply) -> None:
        """DeliveriesNumbered. A record that is here, and bears another number, is none of this reply."""
        named = reply.epoch, reply.sequence
        if not reply.recorded:
            before = consumer.unrecorded.setdefault(named, reply)
            self._is_numbered(consumer, before, reply.runs)
            self._is_numbered(consumer, reply, consumer.numbered.get(named))
            return
        numbered = consumer.numbered.get(named)
        self._is_numbered(consumer, reply, [] if numbered is None else numbered)

    def _handed(self, consumer: TrueConsumer, reply: PullReply, offset: int, count: int) -> None:
        """AckStays, DeliveriesBounded of what somebody was given."""
        before = consumer.handed.setdefault(offset, [])
        before.append(reply)
        if consumer.most and len(before) > consumer.most + 1:
            text = f"offset {offset} was delivered {len(before)} times; the limit is {consumer.most}"
            raise self._violation("DeliveriesBounded", consumer, text)
        if reply.recorded:
            return
        written = epoch_at(self._data.history, offset)
        unrecorded = sum(not one.recorded for one in before)
        if count != 1 or written != reply.epoch or unrecorded > 1:
            text = f"offset {offset}, of epoch {written}, left without a record in epoch {reply.epoch}, as "
            text += f"delivery {count}, and {unrecorded} times in all"
            raise self._violation("DeliveriesBounded", consumer, text)
        if end := consumer.done.get(offset, 0):
            done_in = epoch_at(self._journal.history, end - 1)
            if reply.epoch > done_in:
                text = f"offset {offset} left without a record in epoch {reply.epoch}; epoch {done_in} has"
                raise self._violation("AckStays", consumer, f"{text} committed that it is done")

    def _is_there(
        self, consumer: TrueConsumer, offset: int, found: dict[int, Record], told: int
    ) -> None:
        """What was given is the committed message, and was not deleted before. ConsistentRead,
        DeletedStaysDeleted.
        """
        committed = self._data.contents.committed
        if offset >= len(committed) or found.get(offset) != committed[offset]:
            text = f"offset {offset} is delivered as {found.get(offset)}, which is not the committed message"
            raise self._violation("ConsistentRead", consumer, text)
        if self._is_deleted(offset, told):
            text = f"offset {offset} is delivered, which somebody knew to be deleted when it was asked for"
            raise self._violation("DeletedStaysDeleted", consumer, text)

    def left(self, number: int) -> list[int]:
        """What is committed, and neither done nor over for this consumer. NoneSkipped."""
        consumer = self._of(number)
        if consumer.deleted:
            return []
        self._checks("NoneSkipped")
        first = max(consumer.created.start, self._log_start())
        open = [offset for offset in range(first, self._data.hw) if offset not in consumer.done]
        left = [offset for offset in open if not self._is_settled(consumer, offset)]
        for offset in left:
            if offset < consumer.position and offset not in consumer.pending:
                text = f"offset {offset} lies below position {consumer.position}, and is neither pending nor"
                raise self._violation("NoneSkipped", consumer, f"{text} done, and it is there")
        return left

    def _is_settled(self, consumer: TrueConsumer, offset: int) -> bool:
        """It does not wait for an ack, and nobody is to get it."""
        if offset in consumer.pending:
            return offset < self._log_start() or self._is_deleted(offset)
        return offset in consumer.passed or self._is_over(consumer, offset)

    def exact(self, info: ConsumerInfo, log_start: int) -> None:
        """What a leader says of a consumer, with nothing on its way. `log_start`: its own. PendingExact."""
        self._checks("PendingExact")
        consumer = self._of(info.number)
        waiting = [
            offset for offset in consumer.pending if offset >= log_start and not self._is_deleted(offset)
        ]
        position = consumer.position
        while position < info.position and self._is_over(consumer, position):
            position += 1  # What no filter lets through is passed, and that is not always written.
        again = sum(consumer.pending[offset] > 1 for offset in waiting)
        floor = min(waiting, default=position), consumer.sequence - len(waiting)
        dead = sum(offset in consumer.dead for offset in waiting)
        meant = position, consumer.sequence, *floor, len(waiting), again, dead
        places = info.position, info.sequence, info.floor, info.floor_sequence
        if (said := (*places, info.ack_pending, info.redelivered, info.dead)) != meant:
            text = "its position and number, floor and its number, pending, redelivered and dead messages are"
            text += f" said to be {said}; they are {meant}"
            raise self._violation("PendingExact", consumer, text)
        to_come = self._wanted(consumer, max(info.position, log_start), self._data.hw)
        nobody_counts = info.num_pending < 0 and bool(info.config.patterns)
        if info.num_pending != len(to_come) and not nobody_counts:
            text = f"{info.num_pending} messages are said to be to come; {len(to_come)} are"
            raise self._violation("PendingExact", consumer, text)

    def refiltered(self) -> int:
        """How often filters of consumers were altered so far."""
        return sum(one.refiltered for one in self.known().values())

    def behind(self, reply: PullReply, committed: int, refiltered: int) -> None:
        """What is said to be to come behind messages that were delivered for the first time. Where the leader
        that was asked leads still, all below `committed` was when it was asked; else 0. `refiltered`: then.
        PendingExact.
        """
        if reply.to_come < 0 or not reply.runs or any(count > 1 for _, _, count in reply.runs):
            return
        self._checks("PendingExact")
        consumer = self._of(reply.consumer)
        if consumer.refiltered and (not committed or refiltered != self.refiltered()):
            return  # By which filters it was counted is not known.
        first = sum(reply.runs[-1][:2])
        left = self._wanted(consumer, max(first, self._log_start()), committed)
        record = self._data.contents.committed
        most = [one for one in range(first, len(record)) if not self._is_unwanted(consumer, one)]
        if not len(left) <= reply.to_come <= len(most):
            text = f"{reply.to_come} messages are said to be to come behind {first}; of those that were"
            text += f" committed when it was asked {len(left)} are, and no more than {len(most)} ever were"
            raise self._violation("PendingExact", consumer, text)

    def _wanted(self, consumer: TrueConsumer, first: int, end: int) -> list[int]:
        """Which messages of these are not deleted, and match."""
        there = [offset for offset in range(first, end) if not self._is_deleted(offset)]
        return [offset for offset in there if not self._is_unwanted(consumer, offset)]

    def _checks(self, *names: str) -> None:
        for name in names:
            self._data.checks[name] += 1

    def _violation(self, name: str, consumer: TrueConsumer, text: str) -> Violation:
        who = f"consumer {consumer.number} ({consumer.created.name!r}, limit {consumer.limit})"
        return Violation(name, f"partition {self._data.id}, {who}: {text}")


def _records(data: PartitionTruth, frame: bytes) -> list[Record]:
    return decode_records(parse_batch(data.id, frame))
