"""Every step of leaders that take messages with numbers, held against the model `producers` (L2).

Nodes on a scripted world, a random walk of producers with runs, whose messages are sent, lost, and sent again
at any time, of replaced runs too, to whoever believes to lead; of leaders and followers that die or are cut
off, of log starts that move, and time. After each event the model takes what has happened to each copy: what
was copied and cut, who leads and is in sync, what is committed, where the log begins. What a leader has
stored has to be what the model lets it store, and what it refuses or answers is what the model's table says;
that table is compared with the leader's own as soon as that one has read its log.

The variant is `start-waits`, as the code does it: `JoinEpoch` makes the table of a new leader. A producer's
last `KEPT` messages are remembered, not 1024.

What is left out. Time passes, but never so that somebody is forgotten whose last messages are remembered by
the model, which has no time: that is `message-ids` (`Expire` is of another variant). All clocks agree, so
`ids_by_arrival` changes nothing. How many producers fit (`L2.full`, `full_table_forgets`) the model does not
know, nor when a refusal is told (`L6.uncommitted`). Leaders change since one dies or is cut off: none hands
over in order, when an answer may be on its way that the model, which copies at once, has not. A copy's HW in
the model may be ahead of the node's, which hears of it in a message and loses it in a restart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from liftlog.core.metadata import levels
from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.publishing import producer_table
from liftlog.core.replica.replica import Replica
from liftlog.messages import (
    ERR_FENCED,
    ERR_LONG_STORED,
    ERR_NOT_DUE,
    ERR_NOT_READY,
    ERR_TOO_FEW_INSYNC,
    Published,
    PurgeRequest,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.parcel import ParcelRecord, seal_parcel
from liftlog.types import Message, PartitionId
from liftlog_spec.models.producers import Producers
from liftlog_spec.run.stepwise import Refused, Stepper
from tests.core.beside import Disagrees, NodesBeside, counted, planted, takes_all
from tests.core.node_harness import WALL_START_MS, World
from tests.core.test_producers import numbers

NODES, PRODUCERS, RUNS, MESSAGES, RECORDS = 3, 2, 12, 8, 100
KEPT = 3
ROOM = 4 * KEPT * PRODUCERS
"""More than one step stores."""
WINDOW_MS = 1000
T0 = 2 * WALL_START_MS
"""Later than any clock of the nodes."""
NOWHERE = -1
"""Where a message lies that the model knows no place of."""
STEPPER = Stepper(
    Producers(
        variant="start-waits",
        Replicas=NODES,
        Producers=PRODUCERS,
        Runs=RUNS,
        Messages=MESSAGES,
        InFlight=KEPT,
        Records=RECORDS,
        Epochs=100,
        Retains=100,
    )
)
INVARIANTS = (
    *("NoDuplicate", "InOrder", "ZombieFenced", "AckedIsCommitted"),
    *("RetryIsAnswered", "RetryIsStored", "CommittedOnIsr"),
)
STEPS = 120
"""Of a walk, if no log is full before."""
Which = tuple[int, int, int]
"""Of a message: its producer, run and number."""


class Stored(NamedTuple):
    """A message in a log: a parcel takes several offsets."""

    offset: int
    end: int
    epoch: int
    which: Which
    stamp_ms: int


class Verdict(NamedTuple):
    """What a leader has to say of a message that it does not store: its place, or why it is refused."""

    place: int = -1
    code: str = ""
    due: int = -1
    newest_run: int = -1


class Sent(NamedTuple):
    """A message that was handed to a leader. `verdict`: None if it was stored."""

    which: Which
    verdict: Verdict | None


def remembering(mutants: Mutants) -> tuple[World, PartitionId]:
    """A stream that has a window, and keeps little more than it has to."""
    world = World(NODES, mutants, retention_check_ms=500)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(dedupe_window_ms=WINDOW_MS, retention_messages=4)
    assert world.run_until(lambda: partition in world.subscriptions)
    return world, partition


def span_of(number: int) -> int:
    """Of a message: it is a parcel, or not."""
    return 3 if number % 3 == 1 else 1


def message_of(which: Which, reply: bytes) -> Message:
    producer, run, number = which
    span = span_of(number)
    values = [b"%d.%d.%d.%d" % (*which, place) for place in range(span)]
    name = f"p{producer}"
    if span == 1:
        return Message(b"orders", reply, numbers(run, number, producer=name), values[0])
    payload = seal_parcel([ParcelRecord(value) for value in values])
    return Message(b"orders", reply, numbers(run, number, "Liftlog-Batch: 1", producer=name), payload)


class ProducerWorld(NodesBeside):
    """See the module."""

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        world, self.partition = remembering(mutants)
        super().__init__(STEPPER, seed, world)
        self.logs: dict[int, list[Stored]] = {node: [] for node in world.disks}
        """Of each copy what the model has, and where that lies."""
        self.seen: dict[int, tuple[int, object]] = {}
        """Of each copy: how it ended when it was looked at."""
        self.clock_ms = T0
        self.sent: list[Sent] = []
        """By the number in their replies."""
        self.heard = self.refused = 0
        self.known = world.nodes[1].metadata.partitions[self.partition]
        self.epochs = {self.known.epoch: 1}
        """The model's, by those of the group."""
        leaders = list(self.value("leaders"))
        leaders[1] = self.known.leader - 1
        self.model = self.stepper.with_values(self.model, {"leaders": tuple(leaders)})

    # -- what is there -------------------------------------------------------------------------------------

    def record(self) -> PartitionState:
        """The newest metadata that a node has, or had, of the partition."""
        records = [node.metadata.partitions.get(self.partition) for node in self.world.nodes.values()]
        known = [self.known, *(one for one in records if one is not None)]
        self.known = max(known, key=lambda one: (one.epoch, one.version))
        return self.known

    def replicas(self) -> dict[int, Replica]:
        """Of the nodes that run, and have opened the log."""
        nodes = self.world.nodes.items()
        return {number: node.replicas[self.partition] for number, node in nodes if self.is_open(number)}

    def is_open(self, node: int) -> bool:
        replica = self.world.nodes[node].replicas.get(self.partition)
        return replica is not None and replica.log.state == "ready"

    def leaders(self) -> list[int]:
        """Who believes to lead, and takes messages."""
        found = self.replicas().items()
        return [node for node, one in found if one.roles is not None and one.roles.leader.subscribed]

    def of_disk(self, node: int) -> list[Stored]:
        """What lies on the disk of a node, from where that begins."""
        found = []
        for batch, record in self.stored(node, self.partition):
            *which, place = map(int, (record.value or b"").split(b"."))
            if place == 0:
                end, key = record.offset + span_of(which[2]), (which[0], which[1], which[2])
                found.append(Stored(record.offset, end, batch.epoch, key, record.timestamp_ms))
        return found

    def ends(self, node: int) -> tuple[int, object]:
        """Where the log of a node ends, and with what."""
        log = self.world.disks[node].logs[self.partition]
        return log.leo, log.batches[-1] if log.batches else None

    def place(self, node: int, offset: int) -> int:
        """How many messages of the model's log lie below this offset."""
        return sum(one.end <= offset for one in self.logs[node])

    # -- the model beside it -------------------------------------------------------------------------------

    def follow(self) -> bool:
        """What has happened in an event; False."""
        found = self.replicas()
        self.elect()
        for node, replica in found.items():
            self.copy(node, replica)
        for node, replica in found.items():
            self.join(node, replica)
        self.change_isr()
        for node, replica in found.items():
            if replica.leading is not None:
                self.commit(node, replica)
        self.begin_later(found)
        self.answer()
        for node, replica in found.items():
            if replica.roles is not None:
                self.compare(node, replica)
        return False

    def elect(self) -> None:
        record = self.record()
        if record.leader and record.epoch not in self.epochs:
            self.epochs[record.epoch] = self.value("newest") + 1
            self.take("Elect", record.leader - 1)

    def join(self, node: int, replica: Replica) -> None:
        known = self.epochs.get(replica.epoch, 0)
        if known == self.value("newest") > self.value("epoch")[node - 1]:
            self.take("JoinEpoch", node - 1)

    def copy(self, node: int, replica: Replica) -> None:
        """A follower may have copied and cut, and have heard what is committed."""
        if replica.follower is None:
            return
        leader = replica.follower.following.leader
        ends = self.ends(node)
        if self.seen.get(node) != ends:
            self.join(node, replica)
            if self.copied(node, leader):
                self.seen[node] = ends
        if self.is_behind(node, replica.hw):
            self.hear_hw(leader)

    def copied(self, node: int, leader: int) -> bool:
        """What a follower has is its leader's, and the model's; False: some of it is not, and will be cut."""
        found, theirs, ours = self.of_disk(node), self.logs[leader], self.logs[node]
        if any(one not in theirs for one in found):
            return False
        if ours != theirs[: len(ours)]:
            self.take("Truncate", node - 1, leader - 1)
            del ours[sum(one == other for one, other in zip(ours, theirs, strict=False)) :]
        if self.world.disks[node].logs[self.partition].base > (ours[-1].end if ours else 0):
            self.take("BeginAtLogStart", node - 1, leader - 1)
            ours[:] = theirs[: self.value("start")[leader - 1]]
        while found and ours[-1:] != found[-1:] and len(ours) < len(theirs):
            self.take("Fetch", node - 1, leader - 1)
            ours.append(theirs[len(ours)])
        return True

    def is_behind(self, node: int, hw: int) -> bool:
        """The node knows that more is committed than the model knows of it."""
        ours, known = self.logs[node], self.value("hw")[node - 1]
        return known < len(ours) and ours[known].end <= hw

    def hear_hw(self, leader: int) -> None:
        """Before it has more: what is on its way says up to where all is committed."""
        for node, ours in self.logs.items():
            told = min(self.value("hw")[leader - 1], len(ours))
            same = self.value("epoch")[node - 1] == self.value("epoch")[leader - 1]
            if node != leader and same and ours == self.logs[leader] and told > self.value("hw")[node - 1]:
                self.take("Fetch", node - 1, leader - 1)

    def commit(self, node: int, replica: Replica) -> None:
        while self.is_behind(node, replica.hw):
            self.take("Commit", node - 1)

    def change_isr(self) -> None:
        """The group knows more of who is in sync; also who left when nothing could be committed any more."""
        record = self.record()
        known, lead = self.value("isr"), record.leader - 1
        wanted = sum(1 << node - 1 for node in {*record.isr, *record.eligible})
        if known == wanted or lead < 0 or self.value("epoch")[lead] < self.value("newest"):
            return
        for node in range(NODES):
            if wanted & ~known & 1 << node:
                self.take("Expand", lead, node)
            elif known & ~wanted & 1 << node:
                self.take("Shrink", lead, node)

    def begin_later(self, found: dict[int, Replica]) -> None:
        """Log starts may have moved."""
        for node, replica in found.items():
            begin = self.place(node, self.world.disks[node].logs[self.partition].log_start)
            if begin <= self.value("start")[node - 1]:
                continue
            if replica.leading is not None and self.epochs.get(replica.epoch) == self.value("newest"):
                self.take("Retain", node - 1, begin)
            elif replica.follower is not None:
                leader = replica.follower.following.leader
                self.hear_hw(leader)
                self.take("FollowStart", node - 1, leader - 1)

    def answer(self) -> None:
        """Leaders have told who has sent what where that lies, or why it is not stored."""
        for ack in self.world.acks[self.heard :]:
            offset = ack.offsets_from
            node = self.value("leaders")[self.epochs[ack.epoch]] + 1
            for reply in ack.replies:
                if reply:
                    sent = self.sent[int(reply[1:])]
                    self.acknowledged(node, sent, offset)
                    offset += 1
        self.heard = len(self.world.acks)
        for refusal in self.world.refusals[self.refused :]:
            for reply in filter(None, refusal.replies):
                sent = self.sent[int(reply[1:])]
                told = Verdict(-1, refusal.code, refusal.next_sequence, refusal.newest_run)
                busy = refusal.code in (ERR_NOT_READY, ERR_TOO_FEW_INSYNC)
                if not busy and sent.verdict != told:
                    raise Disagrees(f"{sent.which} is refused: {told}, in the model {sent.verdict}")
        self.refused = len(self.world.refusals)

    def acknowledged(self, node: int, sent: Sent, offset: int) -> None:
        if sent.verdict is not None and sent.verdict.code:
            raise Disagrees(f"{sent.which} is said to be at {offset}, in the model {sent.verdict}")
        producer, run, number = sent.which
        lead = node - 1
        if self.value("answered")[producer][run - 1][number] == NOWHERE:
            line_run = self.value("table")[lead][producer][0]
            if line_run > run:
                self.take("AnswerLate", lead, self.place(node, offset))
            else:
                self.take("Answer", lead, producer, run, number)
        place = self.value("answered")[producer][run - 1][number]
        if place == NOWHERE or self.logs[node][place].offset != offset:
            raise Disagrees(f"{sent.which} is said to be at {offset}, in the model at place {place}")

    def compare(self, node: int, replica: Replica) -> None:
        """A leader's log, and what it knows of producers."""
        ends = self.ends(node)
        if self.seen.get(node) != ends:
            self.seen[node] = ends
            found = self.of_disk(node)
            if found != self.logs[node][len(self.logs[node]) - len(found) :]:
                raise Disagrees(f"node {node} has {found}, in the model {self.logs[node]}")
        roles = replica.roles
        assert roles is not None
        ids = roles.leader.ids
        if ids.whole and self.value("epoch")[node - 1] == self.epochs[replica.epoch]:
            for producer in range(PRODUCERS):
                self.compare_line(node, producer, ids._producers._lines.get(b"p%d" % producer))

    def compare_line(self, node: int, producer: int, line: Any) -> None:
        """Newest run, the number that is due, and where the last messages lie."""
        run, due, places = self.value("table")[node - 1][producer]
        first = max(due - KEPT, 0)
        kept = [places[number] for number in range(first, due)]
        wanted = run, due, [self.logs[node][place].offset for place in kept if place != NOWHERE]
        found = (0, 0, list[int]())
        if line is not None:
            found = line.run, line.due, list(line.offsets[-KEPT:])
        if found != wanted:
            raise Disagrees(f"node {node} knows of producer {producer} {found}, in the model {wanted}")

    # -- what happens --------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run_until(self.follow, seconds)

    def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.5:
            self.hand_over(*(self.chosen() for _ in range(self.random.choice((1, 1, 2, 3)))))
        elif chosen < 0.8:
            self.run(self.random.choice((0.001, 0.003, 0.01, 0.1)))
        elif chosen < 0.87:
            self.pass_time(self.random.choice((100, 300)))
        elif chosen < 0.89:
            self.purge()
        elif chosen < 0.92:
            self.rush()
        else:
            self.fail()

    def may_send(self, producer: int, run: int) -> bool:
        """Not too many wait for answers."""
        return not isinstance(self.stepper.apply("Send", (producer, run), self.model), Refused)

    def chosen(self) -> Which:
        """A message: the next one, or one that was sent before."""
        producer = self.random.randrange(PRODUCERS)
        run = newest = self.value("current")[producer]
        if self.random.random() < 0.2:
            run = self.random.randint(max(1, newest - 2), newest)
        elif newest < RUNS and self.value("sent")[producer][run - 1] and self.random.random() < 0.07:
            self.take("Restart", producer)
            run = newest + 1
        if self.random.random() < 0.5 and self.may_send(producer, run):
            self.take("Send", producer, run)
        sent = self.value("sent")[producer][run - 1]
        if not sent:
            self.take("Send", producer, run)
            sent = 1
        waiting = [n for n in range(sent) if self.value("answered")[producer][run - 1][n] == NOWHERE]
        if waiting and self.random.random() < 0.7:
            return producer, run, waiting[0]
        return producer, run, self.random.randint(max(0, sent - KEPT - 2), sent - 1)

    def hand_over(self, *messages: Which) -> None:
        """To somebody who believes to lead."""
        self.follow()
        leaders = self.leaders()
        if not leaders:
            return
        leader = self.random.choice(leaders)
        self.hear_hw(leader)
        begun = len(self.sent)
        replies = (b"_%d" % number for number in range(begun, begun + len(messages)))
        made = [message_of(which, reply) for which, reply in zip(messages, replies, strict=True)]
        replica = self.replicas()[leader]
        known = replica.leo
        self.world.step(leader, Published(self.partition, replica.epoch, made, self.clock_ms))
        new = [one for one in self.of_disk(leader) if one.offset >= known]
        for which in messages:
            verdict = self.verdict(leader - 1, which)
            if new and new[0].which == which:
                self.take("Publish", leader - 1, *which)
                self.logs[leader].append(new.pop(0))
                self.sent.append(Sent(which, None))
                continue
            if verdict is None and takes_all(replica):
                raise Disagrees(f"node {leader} has not stored {which}, which is due")
            self.sent.append(Sent(which, verdict))
        if new:
            raise Disagrees(f"node {leader} has stored {new}")
        self.follow()

    def verdict(self, lead: int, which: Which) -> Verdict | None:
        """What the model's table says of a message; None: it is due."""
        if not isinstance(self.stepper.apply("Publish", (lead, *which), self.model), Refused):
            return None
        producer, run, number = which
        line_run, due, places = self.value("table")[lead][producer]
        if line_run > run:
            return Verdict(code=ERR_FENCED, newest_run=line_run)
        if line_run < run or number > due:
            return Verdict(code=ERR_NOT_DUE, due=due if line_run == run else 0)
        if self.stepper.evaluate("TooOld", (lead, *which), self.model):
            return Verdict(code=ERR_LONG_STORED)
        return Verdict(place=places[number])

    def pass_time(self, ms: int) -> None:
        """But nothing is forgotten that is remembered by what is committed, or in flight."""
        node = max(self.logs, key=lambda one: self.value("hw")[one - 1])
        committed = self.logs[node][: self.value("hw")[node - 1]]
        needed = [one for log in self.logs.values() for one in log[len(committed) :]]
        for producer in range(PRODUCERS):
            own = [one for one in committed if one.which[0] == producer]
            needed += [one for one in own if one.which[1] == own[-1].which[1]][-KEPT:]
        limit = min((one.stamp_ms for one in needed), default=self.clock_ms) + WINDOW_MS - 1
        self.clock_ms = max(self.clock_ms, min(self.clock_ms + ms, limit))

    def purge(self) -> None:
        """Up to a message, whether it is needed or not."""
        leader = self.world.leader(self.partition)
        committed = self.value("hw")[leader - 1] if leader else 0
        if committed:
            before = self.logs[leader][self.random.randrange(committed)].offset
            self.world.ask(leader, PurgeRequest(self.partition, before))
            self.run(0.02)

    def rush(self) -> None:
        """All send a lot, in little time, and then nothing for a while."""
        for _ in range(2 * KEPT):
            for producer in range(PRODUCERS):
                run = self.value("current")[producer]
                if self.may_send(producer, run):
                    self.take("Send", producer, run)
                elif self.value("sent")[producer][run - 1] == MESSAGES and run < RUNS:
                    self.take("Restart", producer)
                    self.take("Send", producer, run + 1)
            self.hand_over(*(self.due(producer) for producer in range(PRODUCERS)))
            self.run(0.02)
            self.pass_time(300)
        self.run(1.0)

    def due(self, producer: int) -> Which:
        """The first message of the newest run that is not answered, or the last one."""
        run = self.value("current")[producer]
        sent = self.value("sent")[producer][run - 1] or 1
        answered = self.value("answered")[producer][run - 1]
        if not self.value("sent")[producer][run - 1]:
            self.take("Send", producer, run)
        return producer, run, next((n for n in range(sent) if answered[n] == NOWHERE), sent - 1)

    def fail(self) -> None:
        """Somebody dies or is cut off, often the leader; or all is well again."""
        leader = self.world.leader(self.partition)
        if self.dead:
            self.restart()
        elif self.cut:
            self.join_up()
        elif leader:
            node = leader if self.random.random() < 0.7 else self.random.randint(1, NODES)
            if self.random.random() < 0.5:
                self.cut_off(node)
            elif len(self.record().isr) > 1:
                self.kill(node)
        if self.random.random() < 0.5:
            self.fail_over(leader)
        else:
            self.run(self.random.choice((0.01, 0.5, 3.0)))

    def fail_over(self, leader: int) -> None:
        """If another one leads, it is asked at once."""

        def led() -> bool:
            self.follow()
            return any(node != leader for node in self.leaders())

        if leader in (self.dead, self.cut) and self.world.run_until(led, 10.0):
            self.hand_over(*(self.chosen() for _ in range(2)))


def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = ProducerWorld(seed, mutants)
    for step in range(STEPS):
        if max(map(len, world.logs.values())) > RECORDS - ROOM:
            break
        world.step()
        if step % 20 == 0:
            world.hold(INVARIANTS)
    world.hold(INVARIANTS)
    return world.counts


@pytest.fixture(autouse=True)
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_table, "PLACES", KEPT)


def test_L2_each_step_of_a_leader_is_one_of_the_model() -> None:
    counts = counted(walk, 12)
    assert set(counts) == {action.name for action in STEPPER.model.actions}, counts
    assert min(counts.values()) >= 5, counts


BUGS = [
    *("parcel_not_marked", "L2.unread", "L2.stored", "L2.fenced", "L2.due"),
    *("ids_of_own_epoch", "ids_read_to_hw", "retention_forgets_ids", "L7.purge"),
    *("repeat_gets_own_place", "L7.uncommitted"),
]
"""Those of L2, and those of L7 that are about numbers as well."""


@pytest.mark.parametrize("bug", BUGS)
def test_L2_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(20):
            walk(seed, planted(bug))
