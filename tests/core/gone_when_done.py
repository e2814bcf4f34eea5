"""Beside nodes with a log whose messages go when consumers are done with them: what the walks beside the
models `work_queue` and `interest` share.

The newest leader's journal is read batch by batch as it is written, and who walks tells the model each entry;
how far it is committed, what each copy hides, and where the data begin, are compared with the model.
A walk ends when one leads again that was replaced and has kept what it had then, uncommitted: a model has one
journal. Messages at even offsets have one subject, those at odd offsets another one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Any

from liftlog.core.consumers.entries import (
    ACKED,
    GONE,
    TERMINATED,
    Altered,
    ConsumerEntry,
    Delivered,
    Done,
    SaidAgain,
    is_consumers,
)
from liftlog.core.consumers.entries import decode_entry as decode_consumers
from liftlog.core.consumers.state import Consumer
from liftlog.core.replica.removal.entries import Outlived, RemovedRuns, Restated, RolledUp, decode_entry
from liftlog.messages import (
    AlterConsumerRequest,
    AskSubjects,
    ConsumerConfig,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DeleteMessageRequest,
    PullReply,
    PullRequest,
    ResetConsumerRequest,
    SettledReply,
    SettleRequest,
    StorageJob,
    offsets_of,
    runs_of,
)
from liftlog.mutants import Mutants
from liftlog.types import Message, PartitionId
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees
from tests.core.node_harness import NETWORK_S, World
from tests.core.test_ack_policies import publish
from tests.core.two_logs import NODES, LineBeside, with_journal

SUBJECTS = (b"a", b"b")
NAMES = ("c", "d", "e")
FILTERS: tuple[tuple[str, ...], ...] = ((), ("a",), ("b",), ("a", "b"))
NUMBERS = (0, 1, 2, 0)
"""What the models call these."""
JournalEntry = ConsumerEntry | RemovedRuns | Restated | RolledUp | Outlived


class Walked(Exception):
    """The model has no room for more."""


def entry_of(data: bytes) -> JournalEntry:
    return decode_consumers(data) if is_consumers(data) else decode_entry(data)


def number_of(config: ConsumerConfig) -> int:
    """The model's filter."""
    return NUMBERS[FILTERS.index(config.patterns)]


class SlowIndexWorld(World):
    """What storage is asked about subjects it answers late."""

    def __init__(self, mutants: Mutants) -> None:
        self.late = Random(7)
        super().__init__(len(NODES), mutants, retention_check_ms=500, restate_entries=12)

    def _store(self, node: int, job: StorageJob) -> None:
        if isinstance(job, AskSubjects):
            answer = self.disks[node].logs[job.log].ask(job)
            self.post(node, answer, self.late.choice((NETWORK_S, 0.01, 0.1)))
        else:
            super()._store(node, job)


def opened(mutants: Mutants, **settings: Any) -> tuple[World, PartitionId]:
    """A cluster with one stream of these settings, whose front is freed soon."""
    world = SlowIndexWorld(mutants)
    return world, with_journal(world, **settings)


class GoneWhenDone(LineBeside):
    """See the module. Of the model the walk uses Commit, Elect, Free, and `hw`, `start` and `journal`."""

    NAMED: tuple[str, ...]
    """The model's words for entries that say that a message is gone."""

    def __init__(self, stepper: Stepper, seed: int, made: tuple[World, PartitionId]) -> None:
        super().__init__(stepper, seed, *made)
        self.records: int = stepper.model.bindings["Records"]
        self.entries: int = stepper.model.bindings["Entries"]
        self.consumers: int = stepper.model.bindings["Consumers"]
        self.kinds = stepper.types["journal"].of.fields["what"].names  # type: ignore[attr-defined]
        self.ends: list[int] = []
        """Of the line: so many entries of the model there are up to each."""
        self.numbers: dict[int, int] = {}
        """The model's number of each consumer."""
        self.asked: dict[int, tuple[str, int, tuple[int, ...]]] = {}
        """Questions that are open: what, of which consumer, of which messages."""
        self.given: list[tuple[int, int]] = []
        """Of which consumers clients have been given what."""
        self.ending: set[tuple[int, int]] = set()
        """What clients have said to be done, of which consumers."""
        self.deleting: set[int] = set()
        """What somebody has asked to delete."""
        self.compared: dict[int, tuple[Any, ...]] = {}

    # -- the model beside it -------------------------------------------------------------------------------

    def follow(self) -> bool:
        """What has happened in an event; False."""
        self.hear_data()
        leader = self.newest()
        if leader and self.copy(leader).epoch > self.epoch:
            self.elected(leader)
        if self.over:
            return False
        if leader:
            self.entered(leader)
        self.hear_committed()
        for node in self.world.nodes:
            self.follow_copy(node)
        if leader:
            self.looked(leader)
        self.answered()
        return False

    def hear_data(self) -> None:
        """More of the data may be committed."""

    def begins(self, end: int) -> None:
        del self.ends[end:]
        self.take("Elect", self.model_end(end))

    def model_end(self, end: int) -> int:
        """How many entries of the model these are."""
        return self.ends[end - 1] if end else 0

    def entered(self, leader: int) -> None:
        """What the leader has written into its journal."""
        if self.journal(leader).leo == len(self.line):
            return
        by_batch: dict[int, list[bytes]] = {}
        for data, batch in self.written(leader):
            by_batch.setdefault(batch.base_offset, []).append(data)
        for batch_of in by_batch.values():
            self.wrote_batch(leader, batch_of)
        self.is_in_line(leader)

    @abstractmethod
    def wrote_batch(self, leader: int, batch: Sequence[bytes]) -> None:
        """Have the model write the same; `noted` for each."""

    def noted(self, *entries: bytes) -> None:
        """The model has written the same by now."""
        self.line += [(self.epoch, data) for data in entries]
        self.ends += [len(self.value("journal"))] * len(entries)
        if len(self.value("journal")) > self.entries - 8 or len(self.numbers) >= self.consumers:
            raise Walked

    def new_number(self, created: int) -> int:
        """The model's, of a consumer whose entry of creation is the one to come."""
        self.numbers[created] = max(self.numbers.values(), default=-1) + 1
        return self.numbers[created]

    def write(self, action: str, *parameters: int) -> None:
        if len(self.value("journal")) == self.entries:
            raise Walked
        self.take(action, *parameters)

    def hear_committed(self) -> None:
        """Some copy knows that more is."""
        end = self.heard()
        if end > len(self.line):
            raise Disagrees(f"{end} entries are committed, and the newest leader has {len(self.line)}")
        self.committed = max(self.committed, end)
        while self.value("hw") < self.model_end(self.committed):
            self.take("Commit")

    def folded(self, end: int) -> tuple[int, dict[int, dict[int, bool]]]:
        """What is gone by so many entries of the model, as a set, and of each consumer that is there what it
        was given: whether it is done with it.
        """
        gone = 0
        there: dict[int, dict[int, bool]] = {}
        for entry in self.value("journal")[:end]:
            kind, consumer, place = self.kinds[entry[0]], entry[1], entry[2]
            if kind in self.NAMED and self.names(entry):
                gone |= 1 << place
            if kind == "made":
                there[consumer] = {}
            elif kind == "deleted":
                del there[consumer]
            elif kind in ("given", "acked", "given-up", "done"):
                there[consumer][place] = kind != "given"
        return gone, there

    def names(self, entry: Any) -> bool:
        return True

    # -- copies --------------------------------------------------------------------------------------------

    def follow_copy(self, node: int) -> None:
        """What a copy hides, and where its consumers stand. It shows nothing before it knows what is gone."""
        replicas = self.world.nodes[node].replicas
        copy, journal = replicas.get(self.partition), replicas.get(self.partition.journal)
        removed = journal.removed if journal is not None else None
        if copy is None or removed is None or not copy.is_whole() or not removed.is_known:
            return
        told = copy.log_start, copy.hw, removed.folded, id(removed), self.epoch
        if self.compared.get(node) == told:
            return
        self.compared[node] = told
        while self.value("start") < copy.log_start:
            self.take("Free")
        gone, there = self.folded(self.model_end(removed.folded))
        shown = range(copy.log_start, copy.hw)
        hidden = removed.hidden(copy.log.history)
        if wrong := [one for one in shown if (one in hidden) != bool(gone >> one & 1)]:
            raise Disagrees(f"node {node} hides, or shows, {wrong}; in the model {gone:b} is gone")
        found = {self.numbers[n]: set(one.pending) for n, one in removed.consumers.by_number.items()}
        pending = {c: {one for one, over in places.items() if not over} for c, places in there.items()}
        if found != pending:
            raise Disagrees(f"consumers of node {node} have {found}, in the model {pending}")

    # -- the newest leader ---------------------------------------------------------------------------------

    def looked(self, leader: int) -> None:
        """What it has done beside what it wrote."""

    def pending(self, number: int) -> set[int]:
        """What waits for an ack of this consumer by what is written."""
        places = self.folded(self.entries)[1].get(self.numbers[number], {})
        return {one for one, over in places.items() if not over}

    def may_end(self, entry: Done) -> None:
        """Whether somebody has said so, or what others have removed is committed."""
        for one in offsets_of(entry.runs):
            if entry.how in (ACKED, TERMINATED) and (entry.consumer, one) not in self.ending:
                raise Disagrees(f"{one} is {entry.how}, which nobody has said")
            if entry.how == GONE and not self.folded(self.value("hw"))[0] >> one & 1:
                raise Disagrees(f"{one} is written off, and is not gone")

    def delivered(self, entry: Delivered) -> None:
        for offset, length, count in entry.runs:
            for one in range(offset, offset + length):
                if count == 1:
                    self.write("Give", self.numbers[entry.consumer], one)
                else:
                    self.again(entry.consumer, one)

    def said_again(self, entry: SaidAgain) -> None:
        said = {one for run in entry.pending for one in range(run[0], run[0] + run[1])}
        if said != self.pending(entry.consumer):
            raise Disagrees(f"it is said again that {said} wait for an ack")

    def removed(self, entry: RemovedRuns) -> None:
        """Somebody has deleted a message, or what is gone is said again."""
        gone, _ = self.folded(self.value("hw"))
        for one in [offset for offset, _ in entry.named() if not gone >> offset & 1]:
            if one not in self.deleting or entry.done_with:
                raise Disagrees(f"{one} is gone, and nobody has asked for that")
            self.write("Remove", one)

    def is_filtered(self, leader: int, entry: Altered) -> bool:
        """Whether it is given other filters."""
        known = self.journal(leader).removed
        assert known is not None
        return known.consumers.by_number[entry.consumer].config.patterns != entry.config.patterns

    def again(self, consumer: int, offset: int) -> None:
        """The leader says that this was delivered once more."""
        if offset not in self.pending(consumer):
            raise Disagrees(f"{offset} is delivered again, and does not wait for an ack")

    # -- answers -------------------------------------------------------------------------------------------

    def answered(self) -> None:
        for question in [one for one in self.asked if one in self.world.replies]:
            what, consumer, offsets = self.asked.pop(question)
            reply = self.world.replies[question]
            if isinstance(reply, PullReply):
                self.given += [(consumer, one) for run in reply.runs for one in range(run[0], sum(run[:2]))]
                if reply.recorded > self.committed:
                    raise Disagrees(f"{reply.runs} are handed out before that is committed")
            elif isinstance(reply, SettledReply) and what in ("ack", "term"):
                unknown = set(offsets_of(reply.unknown))
                self.told_done(consumer, {*offsets} - unknown, reply.journal)

    def told_done(self, number: int, offsets: set[int], end: int) -> None:
        """Somebody was told that a consumer is done with these, by the first so many entries."""
        if end > self.committed:
            raise Disagrees(f"{offsets} are done, as somebody was told, by entries that are not committed")
        _, there = self.folded(self.model_end(end))
        if self.numbers.get(number) not in there:  # What it was done with counts no more.
            return
        known = there[self.numbers[number]]
        if left := [one for one in offsets if one in known and not known[one]]:
            raise Disagrees(f"somebody was told that {left} are done, and by {end} entries they are not")

    # -- what happens --------------------------------------------------------------------------------------

    def step(self) -> None:
        leader, chosen = self.newest(), self.random.random()
        if chosen < 0.12:
            self.put()
        elif chosen < 0.37:
            self.run(self.random.choice((0.002, 0.01, 0.1, 0.5)))
        elif chosen < 0.93 and leader:
            self.of_clients(leader)
        elif chosen > 0.93:
            self.fail()
        self.follow()

    def of_clients(self, leader: int) -> None:
        chosen, known = self.random.random(), self.known(leader)
        if not known or chosen < 0.1:
            self.make(leader)
        elif chosen < 0.4:
            self.pull(leader, self.random.choice(known))
        elif chosen < 0.85:
            self.settle(leader)
        elif chosen < 0.93:
            self.change(leader, self.random.choice(known))
        elif chosen < 0.96:
            self.ask(leader, "delete", DeleteConsumerRequest(self.partition, self.random.choice(known).name))
        else:
            self.delete_message(leader)
        self.run(self.random.choice((0.0, 0.0, 0.0, 0.003, 0.1)))

    def known(self, leader: int) -> list[Consumer]:
        removed = self.journal(leader).removed
        return list(removed.consumers.by_number.values()) if removed is not None else []

    def ask(self, leader: int, what: str, request: Any, number: int = 0, *offsets: int) -> None:
        self.asked[self.world.ask(leader, request)] = what, number, offsets

    def put(self) -> None:
        """A few, unless they would come to a leader that was replaced, whose log the model does not know."""
        leader, epoch = self.world.subscriptions.get(self.partition, (0, 0))
        if not leader or epoch != self.epoch or leader != self.newest():
            return
        leo, count = self.copy(leader).leo, self.random.choice((1, 1, 2, 4))
        if leo + count <= self.records:
            subjects = [SUBJECTS[one % 2] for one in range(leo, leo + count)]
            publish(self.world, self.partition, *(Message(one, b"", b"", b"m") for one in subjects))

    def config(self) -> ConsumerConfig:
        return ConsumerConfig(ack_wait_ms=400, max_deliver=2, max_ack_pending=6)

    def filtered(self, config: ConsumerConfig) -> ConsumerConfig:
        patterns = self.random.choice(FILTERS)
        return config.__replace__(filter=patterns[0] if patterns else "", filters=patterns[1:])

    def make(self, leader: int) -> None:
        name = self.random.choice(NAMES)
        self.ask(leader, "made", CreateConsumerRequest(self.partition, name, self.filtered(self.config())))

    def pull(self, leader: int, consumer: Consumer) -> None:
        wait_ms, most = self.random.choice((0, 0, 500)), self.random.choice((1, 2, 4))
        request = PullRequest(self.partition, consumer.number, most, wait_ms=wait_ms)
        self.ask(leader, "pull", request, consumer.number)

    def settle(self, leader: int) -> None:
        """What somebody was given; the newest ones sooner."""
        if not self.given:
            return
        number, first = self.random.choice(self.given[-6:] if self.random.random() < 0.8 else self.given)
        others = [one for of, one in self.given[-6:] if of == number]
        offsets = sorted({first, *others[: self.random.choice((0, 0, 1, 3))]})
        how = self.random.choice(("ack", "ack", "ack", "ack", "term", "nak", "progress"))
        if how in ("ack", "term"):
            self.ending |= {(number, one) for one in offsets}
        request = SettleRequest(self.partition, number, how, runs_of(offsets))
        self.ask(leader, how, request, number, *offsets)

    def change(self, leader: int, consumer: Consumer) -> None:
        """It is given another filter, or begins again."""
        if self.random.random() < 0.3:
            self.ask(leader, "reset", ResetConsumerRequest(self.partition, consumer.name, 0))
            return
        was = consumer.config
        request = AlterConsumerRequest(self.partition, consumer.number, was, self.filtered(was))
        self.ask(leader, "alter", request)

    def delete_message(self, leader: int) -> None:
        if end := self.copy(leader).hw:
            offset = self.random.randrange(end)
            self.deleting.add(offset)
            self.ask(leader, "delete-message", DeleteMessageRequest(self.partition, offset))

    # -- what fails ----------------------------------------------------------------------------------------

    def leave_some(self, leader: int) -> None:
        """Something is on its way when the leader dies."""
        self.put()
        for _ in range(self.random.choice((1, 2, 3))):
            self.of_clients(leader)
        self.run(self.random.choice((0.001, 0.002, 0.003, 0.004)))

    def ask_next(self, before: int) -> None:
        """The next one is asked for this and that as soon as it leads."""
        self.await_next(before)
        for _ in range(self.random.choice((0, 2, 4))):
            if self.newest() and not self.over:
                self.of_clients(self.newest())

    # -- a walk --------------------------------------------------------------------------------------------

    def walk(self, steps: int, invariants: Sequence[str]) -> None:
        """So many steps, or as far as the model has room."""
        try:
            for number in range(steps):
                self.step()
                if self.over:
                    break
                if number % 25 == 0:
                    self.hold(invariants)
            self.run(1.0)
        except Walked:
            pass
        self.hold(invariants)
