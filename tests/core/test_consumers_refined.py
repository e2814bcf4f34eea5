"""Every step of nodes with a consumer, held against the model `consumers` (K1 to K8).

Nodes on a scripted world, a random walk of publishers, of clients that pull, ack, give back, delete and
reset, of leaders that die or are cut off and live on, and of time. After each event the model has done the
same: each copy has its journal, leader after leader, also those that were replaced; whoever hands out, acks
or says that something is done may do so by the model; where a leader has folded all, consumers stand where
the model has them; and no client was given a message more often, or told of more, than the model knows.

An entry of the program may name several messages, and is as many of the model's. The journal of a copy is
told as what it has after each event, not as what the leader had at one instant (`Copy`), and data by the
epoch that wrote them (`Told`): how both are copied is what `isr-pair` is about, which every step of a
simulated node is held against. Not here: an unclean election, copies in doubt, work queues, dead letters,
filters, what is to come; and that something must happen, as room for what takes the place of what is gone.
"""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.consumers.entries import (
    ACKED,
    AT_LIMIT,
    GONE,
    ConsumerDeleted,
    ConsumerEntry,
    Created,
    Delivered,
    Done,
    SaidAgain,
)
from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.replica import Replica
from liftlog.messages import (
    ConsumerConfig,
    ConsumersReply,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DoneReply,
    PullReply,
    PullRequest,
    PurgeRequest,
    ResetConsumerRequest,
    SettledReply,
    SettleRequest,
    offsets_of,
    runs_of,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog_spec.run.stepwise import Refused
from tests.core.beside import Disagrees, NodesBeside, counted, planted
from tests.core.consumers_told import (
    ENTRIES,
    EPOCHS,
    LIMIT,
    RECORDS,
    ROOM,
    STEPPER,
    Line,
    entry_of,
    weight,
)
from tests.core.test_consumers import made, ready

SPARE = 8
"""A walk ends when so many entries would go beyond what the model has room for."""
CONFIG = ConsumerConfig(ack_wait_ms=400, max_deliver=LIMIT, max_ack_pending=ROOM)
INVARIANTS = ("AckStays", "DeliveriesBounded", "Numbered", "OfThisIncarnation", "DeletedStaysDeleted")
AT_THE_END = ("NoneSkipped", "CountsKept", "ConsumerStays", "RoomForOthers")


class Walked(Exception):
    """The model has no room for more."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.core.replica.removal.restating.CONSUMER_SHARE", 0)


class ConsumedWorld(NodesBeside):
    """See the module. Nodes have numbers from 1 on, the model's replicas from 0."""

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        world, self.partition = ready(2, mutants=mutants, restate_entries=6)
        super().__init__(STEPPER, seed, world)
        self.number = made(world, self.partition, CONFIG)
        journal = self.partition.journal
        assert world.run_until(lambda: world.committed(journal, 1))
        world.run(0.5)
        leader = world.leader(self.partition)
        self.epochs = {world.replica(leader, journal).epoch: 1}
        """The model's epoch by the program's."""
        self.lines: dict[int, Line] = {node: self.line_of(node, []) for node in world.nodes}
        self.seen: dict[int, tuple[Any, ...]] = {}
        self.take("Begin", leader - 1)
        self.counts.clear()
        self.asked: dict[int, tuple[str, int, tuple[int, ...]]] = {}
        """Questions that are open: what, of which consumer, of which messages."""
        self.acked: set[tuple[int, int]] = set()
        """What clients have acked: (consumer, offset)."""
        self.deletions = 0
        """How many were asked for and not written."""
        self.given: dict[tuple[int, int], int] = {}
        for node in world.nodes:
            world.sync_s[node] = self.random.choice((0.002, 0.03))
        self.follow()

    # -- how the two are compared --------------------------------------------------------------------------

    def line_of(self, node: int, before: Line) -> Line:
        """The journal that the node has; what lies below its start is told by `before`, or by a leader."""
        journal = self.partition.journal
        found = [(batch.epoch, one.value or b"") for batch, one in self.stored(node, journal)]
        start = self.world.disks[node].logs[journal].leo - len(found)
        if start > len(before):
            before = next(self.lines[one] for one in self.sources(node) if len(self.lines[one]) >= start)
        return [*before[:start], *found]

    @staticmethod
    def length(line: Line, end: int) -> int:
        """How many entries the model has for so many of the program's."""
        return sum(weight(data) for _, data in line[:end])

    def index(self, node: int, number: int) -> int:
        """Where the model has the consumer's entry of creation: its number there."""
        return self.length(self.lines[node], number - 1)

    def reigns(self, node: int) -> int:
        return int(self.value("reign")[node - 1])

    def insync(self) -> set[int]:
        return {node for node in (1, 2, 3) if self.value("insync") >> node - 1 & 1}

    def follow(self) -> bool:
        """What has happened in an event; False."""
        leaders = [self.world.replica(node, self.partition) for node in self.world.nodes if self.leads(node)]
        while self.value("start") < max((one.log_start for one in leaders), default=0):
            self.take("Trim")
        for node in self.world.nodes:
            replica = self.world.nodes[node].replicas.get(self.partition.journal)
            if replica is None or replica.log.state != "ready":
                continue
            leads = replica.leading is not None
            data = self.world.replica(node, self.partition)
            record = self.world.nodes[node].ctx.metadata.partitions.get(self.partition)
            version = record.version if record is not None else 0
            now = (replica.leo, replica.hw, replica.epoch, leads, data.hw, version, len(self.epochs))
            if self.seen.get(node) != now:
                self.seen[node] = now
                self.look(node, replica, leads)
        self.hear()
        return False

    def look(self, node: int, journal: Replica, leads: bool) -> None:
        """Something of this node's copy has changed."""
        line = self.line_of(node, self.lines[node])
        if leads and journal.epoch not in self.epochs:
            self.elect(node, journal)
        self.tell_data(node)
        if leads and self.epochs.get(journal.epoch) == self.reigns(node):
            self.led(node, journal, line)
        elif not leads:
            self.copied(node, journal, line)

    def tell_data(self, node: int) -> None:
        data = self.world.replica(node, self.partition)
        known = len(self.value("data"))
        if data.hw <= known:
            return
        epochs = {one.offset: batch.epoch for batch, one in self.stored(node, self.partition)}
        for offset in range(known, data.hw):
            if offset == RECORDS:
                raise Walked
            # By a leader that nobody saw to lead: none of those that have.
            earlier = [ours for theirs, ours in self.epochs.items() if theirs <= epochs.get(offset, 0)]
            self.take("Told", max(earlier, default=1))

    def elect(self, node: int, journal: Replica) -> None:
        """It has taken office. What all in sync have synced may be committed before that."""
        if len(self.epochs) == EPOCHS:
            raise Walked
        record = self.world.nodes[node].ctx.metadata.partitions[self.partition]
        self.join(record)
        self.commit(self.value("leader") + 1, self.durable_everywhere())
        self.epochs[journal.epoch] = len(self.epochs) + 1
        self.take("Elect", node - 1)
        self.members(node)

    def durable_everywhere(self) -> int:
        """How many entries of the model all have synced that are in sync."""
        ends = []
        for node in self.insync():
            log = self.world.disks[node].logs[self.partition.journal]
            end = log.batches[log.durable - 1].end_offset if log.durable else log.base
            ends.append(self.length(self.lines[node], end))
        return min(ends)

    def commit(self, node: int, end: int) -> None:
        """As far as the model lets it, and no further than to `end`."""
        while self.value("heard")[node - 1] < end:
            if isinstance(self.stepper.apply("Commit", (), self.model), Refused):
                return
            self.take("Commit")

    def members(self, leader: int) -> None:
        record = self.world.nodes[leader].ctx.metadata.partitions[self.partition]
        if record.epoch != self.world.replica(leader, self.partition).epoch:
            return
        self.join(record)
        for node in sorted(self.insync() - set(record.isr)):
            self.take("Leave", node - 1)

    def join(self, record: PartitionState) -> None:
        for node in sorted(set(record.isr) - self.insync()):
            self.take("Join", node - 1)

    # -- a leader --------------------------------------------------------------------------------------------

    def led(self, node: int, journal: Replica, line: Line) -> None:
        known = self.lines[node]
        if line[: len(known)] != known:
            raise Disagrees(f"node {node} leads and has lost something of its journal")
        present = self.value("leader") == node - 1
        known_end = self.length(line, min(journal.hw, len(known)))
        if self.value("heard")[node - 1] < min(known_end, self.value("hw")):
            self.take("Hear", node - 1, min(known_end, self.value("hw")))
        if present:
            self.members(node)
            self.commit(node, known_end)
        for epoch, data in line[len(known) :]:
            if epoch != journal.epoch:
                raise Disagrees(f"node {node} writes an entry of epoch {epoch} in {journal.epoch}")
            self.room()
            self.write(node, entry_of(data))
            self.lines[node].append((epoch, data))
        if present:
            self.commit(node, self.length(line, journal.hw))
            heard = self.value("heard")[node - 1]
            if heard < self.length(line, journal.hw):
                model = self.stepper.show(self.model)
                shown = {name: model[name] for name in ("insync", "following", "heard")}
                raise Disagrees(f"node {node} takes {journal.hw} entries for committed, the model {shown}")
        self.start(node, journal)
        self.hold(INVARIANTS)
        if journal.removed is not None and journal.removed.folded == journal.leo and present:
            self.stands(node, journal)

    def room(self) -> None:
        if max(map(len, self.value("journal"))) > ENTRIES - SPARE:
            raise Walked

    def write(self, node: int, entry: ConsumerEntry | None) -> None:
        """The model's leader writes the same."""
        r = node - 1
        match entry:
            case Created():
                self.created(node, entry)
            case ConsumerDeleted():
                self.deletions -= 1
                if self.deletions < 0:
                    raise Disagrees(f"node {node} deletes a consumer, which nobody has asked for")
                self.take("Delete", r, self.index(node, entry.consumer))
            case Delivered():
                self.delivered(node, entry)
            case Done():
                self.done(node, entry)
            case SaidAgain():
                self.said_again(node, entry)
            case None:
                pass
            case _:
                raise Disagrees(f"node {node} writes {entry}")

    def created(self, node: int, entry: Created) -> None:
        if entry.start > self.value("start"):
            raise Disagrees(f"the consumer begins at {entry.start}, behind the log start")
        if entry.instead:
            self.take("Reset", node - 1, self.index(node, entry.instead))
        else:
            self.take("Create", node - 1)

    def delivered(self, node: int, entry: Delivered) -> None:
        r, c = node - 1, self.index(node, entry.consumer)
        for offset, length, count in entry.runs:
            for one in range(offset, offset + length):
                anew = one >= self.stepper.evaluate("Position", (r, c), self.model)
                self.take("Deliver" if anew else "Redeliver", r, c, one)
                if self.stepper.evaluate("Times", (r, c, one), self.model) != count:
                    raise Disagrees(f"{one} is delivered for the {count}th time, as node {node} says")
        reached = self.stepper.evaluate("Position", (r, c), self.model)
        if not all(self.is_gone(one) for one in range(reached, entry.end)):
            raise Disagrees(f"node {node} goes on at {entry.end}, and has delivered up to {reached}")

    def done(self, node: int, entry: Done) -> None:
        r, c = node - 1, self.index(node, entry.consumer)
        for one in offsets_of(entry.runs):
            if entry.how == ACKED and (entry.consumer, one) not in self.acked:
                raise Disagrees(f"node {node} says that {one} is acked, which nobody has done")
            if entry.how == AT_LIMIT and self.stepper.evaluate("Times", (r, c, one), self.model) < LIMIT:
                raise Disagrees(f"node {node} gives up {one} too early")
            self.take("WriteOff" if entry.how == GONE else "Ack", r, c, one)

    def said_again(self, node: int, entry: SaidAgain) -> None:
        r, c = node - 1, self.index(node, entry.consumer)
        self.take("Snapshot", c)
        state = self.stepper.types["journal"].show(self.value("journal"))
        said = list(state.values())[r][-1]
        times = {one: count for one, count in said["pending"].items() if count}
        found = {o: count for start, length, count in entry.pending for o in range(start, start + length)}
        skipped = range(said["position"], entry.position)
        same = (found, entry.sequence) == (times, said["nth"]) and said["position"] <= entry.position
        if not same or not all(self.is_gone(one) for one in skipped):
            raise Disagrees(f"node {node} says again {found} of {entry}, in the model {said}")

    def is_gone(self, offset: int) -> bool:
        return bool(self.stepper.evaluate("Gone", (offset,), self.model))

    def start(self, node: int, journal: Replica) -> None:
        """C3: the journal begins later."""
        place = self.length(self.lines[node], journal.log_start)
        kinds = [entry_of(data) for _, data in self.lines[node][journal.log_start :]]
        first = next((one for one in kinds if one is not None), None)
        if place <= self.value("cleaned") or not isinstance(first, SaidAgain):
            return
        # Of one that is gone since, its beginning says nothing.
        if self.stepper.evaluate("Is", (node - 1, self.index(node, first.consumer)), self.model):
            self.take("CleanJournal", place)

    def stands(self, node: int, journal: Replica) -> None:
        """K2: what it has folded is what the model makes of the journal."""
        assert journal.removed is not None
        r = node - 1
        for consumer in journal.removed.consumers.by_number.values():
            c = self.index(node, consumer.number)
            if not self.stepper.evaluate("Is", (r, c), self.model):
                raise Disagrees(f"node {node} knows consumer {consumer.number}, which is gone")
            pending = {
                one: self.stepper.evaluate("Times", (r, c, one), self.model)
                for one in range(RECORDS)
                if self.stepper.evaluate("Pending", (r, c, one), self.model)
            }
            position = self.stepper.evaluate("Position", (r, c), self.model)
            number = self.stepper.evaluate("Number", (r, c), self.model)
            if (consumer.pending, consumer.sequence) != (pending, number) or consumer.position < position:
                found = consumer.pending, consumer.sequence
                raise Disagrees(f"node {node} has {found}, in the model {pending}, {number}")

    # -- a follower ------------------------------------------------------------------------------------------

    def copied(self, node: int, journal: Replica, line: Line) -> None:
        heard = min(journal.hw, len(line))
        anew = line != self.lines[node] or not self.value("following") >> node - 1 & 1
        if not anew and self.value("heard")[node - 1] >= self.length(line, heard):
            return
        for source in self.sources(node):
            followed = self.reigns(source) == self.epochs.get(journal.epoch)
            if not followed or self.lines[source][: len(line)] != line:
                continue
            told = min(self.length(line, heard), self.value("heard")[source - 1])
            self.take("Copy", node - 1, source - 1, self.length(line, len(line)), told)
            self.lines[node] = line
            return
        # It cuts off what the leader lacks; the model follows when the two agree.

    def sources(self, node: int) -> list[int]:
        """Leaders, the newest first."""
        others = [one for one in (1, 2, 3) if one != node and self.reigns(one)]
        return sorted(others, key=self.reigns, reverse=True)

    def kill(self, node: int) -> None:
        """What it has sent is under way still; the model has it lose what was not synced when it is back."""
        super().kill(node)
        self.cut = 0 if self.cut == node else self.cut

    def restart(self) -> None:
        node = self.dead
        line = self.line_of(node, self.lines[node])
        if len(line) < len(self.lines[node]):
            self.take("Lose", node - 1, self.length(line, len(line)))
            self.lines[node] = line
        self.seen.pop(node, None)
        super().restart()

    # -- clients -------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """Answers that have come meanwhile."""
        for question in [one for one in self.asked if one in self.world.replies]:
            what, number, offsets = self.asked.pop(question)
            reply = self.world.replies[question]
            match reply:
                case PullReply(runs=[_, *_]):
                    self.handed(reply)
                case SettledReply() if what == "ack":
                    unknown = set(offsets_of(reply.unknown))
                    self.told_done(number, [one for one in offsets if one not in unknown])
                case DoneReply() if what == "delete":
                    self.told_deleted(number)
                case ConsumersReply(consumers=[told, *_]):
                    if what == "reset" and told.number <= number:
                        raise Disagrees(f"somebody was told that consumer {told.number} takes its own place")
                    self.told_made(told.number)

    def node_of(self, number: int) -> int:
        """Somebody whose journal has this consumer's entry; the newest leader first."""
        return next(node for node in self.sources(0) if len(self.lines[node]) >= number)

    def present(self, number: int) -> bool:
        return bool(self.value("hw")) and self.index(self.node_of(number), number) == self.value("present")

    def handed(self, reply: PullReply) -> None:
        numbered = reply.sequence
        node = next(one for one, epoch in self.reigning().items() if epoch == self.epochs[reply.epoch])
        c = self.index(node, reply.consumer)
        entries = self.stepper.types["journal"].show(self.value("journal"))
        said = list(entries.values())[node - 1]
        for offset, length, _ in reply.runs:
            for one in range(offset, offset + length):
                self.given[reply.consumer, one] = self.given.get((reply.consumer, one), 0) + 1
                found = [
                    each
                    for each in said
                    if (each["kind"], each["consumer"], each["offset"]) == ("delivered", c, one)
                    and each["nth"] == numbered
                ]
                if not found or (not reply.recorded and not found[-1]["handed"]):
                    raise Disagrees(f"{one} is handed out as delivery {numbered}; the model has {found}")
                times = self.given[reply.consumer, one]
                if self.present(reply.consumer) and self.value("given")[one] < times:
                    raise Disagrees(f"{one} was handed out {times} times")
                numbered += 1

    def reigning(self) -> dict[int, int]:
        return {node: self.reigns(node) for node in (1, 2, 3) if self.reigns(node)}

    def told_done(self, number: int, offsets: list[int]) -> None:
        """K3. Somebody was told that these never come again."""
        if not self.present(number):
            return
        for one in offsets:
            if self.value("answered") >> one & 1:
                continue
            nodes = [node for node in self.sources(0) if len(self.lines[node]) >= number]
            if not any(self.is_done(node, number, one) for node in nodes):
                raise Disagrees(f"somebody was told that {one} is done, which is not committed")

    def is_done(self, node: int, number: int, offset: int) -> bool:
        """By what this leader knows to be committed."""
        r, c, heard = node - 1, self.index(node, number), self.value("heard")[node - 1]
        if not self.stepper.evaluate("Done", (r, c, offset, heard), self.model):
            return False
        if self.stepper.evaluate("Is", (r, c), self.model):  # Else it was said before that was deleted.
            self.take("AckAgain", r, c, offset)
        return True

    def told_deleted(self, number: int) -> None:
        """Of the name: of that consumer, or of one that has taken its place meanwhile."""
        since, committed = self.index(self.node_of(number), number), self.value("hw")
        ends = [
            entry["consumer"]
            for entries in self.stepper.types["journal"].show(self.value("journal")).values()
            for entry in entries[:committed]
            if entry["kind"] == "deleted"
        ]
        if max(ends, default=-1) < since:
            raise Disagrees(f"somebody was told that consumer {number} is deleted, which is not committed")

    def told_made(self, number: int) -> None:
        self.number = number
        lines = [(node, line) for node, line in self.lines.items() if len(line) >= number]
        nodes = [node for node, line in lines if isinstance(entry_of(line[number - 1][1]), Created)]
        if not any(self.index(node, number) < self.value("hw") for node in nodes):
            raise Disagrees(f"somebody was told of consumer {number}, which is not committed")

    def ask(self, what: str, request: Any, offsets: tuple[int, ...] = ()) -> None:
        leaders = [node for node in self.world.nodes if self.leads(node)]
        if leaders:
            question = self.world.ask(self.random.choice(leaders), request)
            self.asked[question] = (what, self.number, offsets)

    def leads(self, node: int) -> bool:
        replica = self.world.nodes[node].replicas.get(self.partition)
        return replica is not None and replica.leading is not None

    # -- what happens ----------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run_until(self.follow, seconds)

    def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.06:
            self.world.publish(self.partition, b"m")
        elif chosen < 0.07:
            self.trim()
        elif chosen < 0.36:
            wait_ms = self.random.choice((0, 0, 500))
            pull = PullRequest(self.partition, self.number, self.random.choice((1, 1, 2)), wait_ms=wait_ms)
            self.ask("pull", pull)
        elif chosen < 0.58:
            self.settle()
        elif chosen < 0.6:
            self.ask("reset", ResetConsumerRequest(self.partition, "c", 0))
        elif chosen < 0.61:
            self.deletions += 1
            self.ask("delete", DeleteConsumerRequest(self.partition, "c"))
        elif chosen < 0.64:
            self.ask("made", CreateConsumerRequest(self.partition, "c", CONFIG))
        elif chosen < 0.67:
            self.stall()
        elif chosen < 0.95:
            self.run(self.random.choice((0.001, 0.003, 0.01, 0.1, 0.5)))
        else:
            self.fail()
        self.follow()

    def settle(self) -> None:
        """Of what somebody was given, also by a consumer that is no more."""
        pairs = sorted(self.acked if self.acked and self.random.random() < 0.3 else self.given)
        recent = [pair for pair in pairs if pair[0] == self.number] or pairs
        if recent:
            self.tell(*self.random.choice(recent if self.random.random() < 0.85 else pairs))

    def tell(self, number: int, offset: int, how: str = "") -> None:
        """One of those that lead, what became of this message."""
        how = how or self.random.choice(("ack", "ack", "ack", "nak"))
        if how == "ack":
            self.acked.add((number, offset))
        leaders = [node for node in self.world.nodes if self.leads(node)]
        if leaders:
            request = SettleRequest(self.partition, number, how, runs_of([offset]))
            question = self.world.ask(self.random.choice(leaders), request)
            self.asked[question] = (how, number, (offset,))

    def trim(self) -> None:
        """Where nobody is replaced, so that all who lead know of it."""
        leader, start = self.world.leader(self.partition), self.value("start")
        if self.dead or self.cut or self.world.held or not leader:
            return
        if start >= self.world.replica(leader, self.partition).hw:
            return
        question = self.world.ask(leader, PurgeRequest(self.partition, start + 1))
        self.world.run_until(lambda: self.follow() or question in self.world.replies)

    def stall(self) -> None:
        """Nothing becomes durable on a node any more, or on all again."""
        if self.world.held:
            self.go_on()
        else:
            self.world.hold_storage(self.random.choice(sorted(self.world.nodes)))

    def go_on(self) -> None:
        for node in sorted(self.world.held):
            self.world.release_storage(node)

    def fail(self) -> None:
        """When something was acked of which nobody has heard yet; the client asks again later."""
        pending = [pair for pair in sorted(self.given) if pair[0] == self.number]
        leader = self.world.leader(self.partition)
        dies = bool(leader) and not self.dead and self.random.random() < 0.3
        if dies:
            self.go_on()
            self.world.hold_storage(leader)
        if pending:
            self.tell(*pending[-1], "ack")
        self.run(self.random.choice((0.0, 0.002, 0.02)))
        if dies:
            self.kill(leader)
        else:
            self.go_on()
            self.fail_or_mend(self.partition, (self.partition,))
        if self.random.random() < 0.5:
            self.stall()
        self.run(self.random.choice((0.01, 0.3, 1.0, 5.0)))
        for pair in pending[-1:]:
            self.tell(*pair, "ack")


def walk(seed: int, steps: int = 260, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = ConsumedWorld(seed, mutants)
    try:
        for _ in range(steps):
            world.step()
        world.run(1.0)
    except Walked:
        pass
    world.hold(AT_THE_END)
    return world.counts


def test_K3_each_step_of_nodes_with_a_consumer_is_one_of_the_model() -> None:
    counts = counted(walk, 16)
    named = {action.name for action in STEPPER.model.actions}
    others = {"Publish", "Fetch", "Rewind", "Remove", "ElectInDoubt", "ElectUnclean"}
    assert set(counts) == named - others, counts


BUGS = [
    *("ack_answered_at_append", "repeated_ack_answered_at_once", "ack_of_all_before"),
    *("ack_of_deleted_counts", "consumer_deletion_answered_at_append", "redelivery_before_record"),
    *("consumer_reset_in_two_entries", "consumer_reset_answered_at_append", "time_from_record"),
    *("numbered_by_folded", "said_again_without_pending", "said_again_as_folded"),
    *("said_again_without_sequence", "K2.kept", "K4.own"),
]


@pytest.mark.parametrize("bug", BUGS)
def test_K3_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(30):
            walk(seed, mutants=planted(bug))
