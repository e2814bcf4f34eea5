"""Every step of a leader that takes batches, held against the model `batches` (L11).

Nodes on a scripted world, a random walk of publishers, of losses, leaders that die or are cut off, and time.
When a message has been handed to a leader, the model takes it too: its log, and what it keeps of each batch,
have to be those of the leader; so after each stretch of time, in which others are elected.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from liftlog.format import decode_records
from liftlog.messages import PeerMessage
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import Message, Record
from liftlog_spec.models.batches import MESSAGES, Batches
from liftlog_spec.run.stepwise import Refused, Stepper
from tests.core.test_ack_policies import publish
from tests.core.test_atomic_batches import SUBJECT, opened, part

PUBLISHERS = 60
BEFORE = 3
"""Records that the log has before the walk begins."""
STEPPER = Stepper(Batches(Publishers=PUBLISHERS, Records=10**6, Epochs=10**6))
INVARIANTS = ("AllOrNone", "StoredAsExpected")
OPEN_AT_ONCE = 4


class BatchesDisagree(AssertionError):
    """The leader took a step that the model does not allow, or is in another state."""


class BatchWorld:
    """See the module. `counts`: how often each action of the model was taken."""

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        self.random = Random(seed)
        self.world, self.partition = opened(mutants=mutants)
        self.model = STEPPER.first()
        self.epoch = self.world.subscriptions[self.partition][1]
        self.begun = 0
        self.sent: dict[int, int] = {}
        """Of the batches that are under way: how many messages were sent."""
        self.expects: dict[int, int] = {}
        self.counts: dict[str, int] = {}
        self.dead = 0
        self.cut = 0
        self.held = 0

    # -- the model beside it -------------------------------------------------------------------------------

    def take(self, action: str, *parameters: int) -> None:
        found = STEPPER.apply(action, parameters, self.model)
        if isinstance(found, Refused):
            raise BatchesDisagree(f"{found} with {parameters}")
        self.model = found
        self.counts[action] = self.counts.get(action, 0) + 1

    def value(self, name: str) -> Any:
        return STEPPER.value(name, self.model)

    def leader(self) -> int:
        """Who takes messages; 0: nobody."""
        return self.world.subscriptions.get(self.partition, (0, 0))[0]

    def kept(self, leader: int) -> list[int]:
        """Of each publisher, which messages the leader keeps, as the model holds them."""
        roles = self.world.replica(leader, self.partition).roles
        assert roles is not None
        known = roles.leader.staging._open
        ids = (b"p%d" % publisher for publisher in range(1, PUBLISHERS + 1))
        return [(1 << known[id].due - 1) - 1 if id in known else 0 for id in ids]

    def follow(self) -> None:
        """Another one may lead, more may be committed, and batches given up."""
        leader = self.leader()
        if not leader:
            return
        replica = self.world.replica(leader, self.partition)
        epoch = self.world.subscriptions[self.partition][1]
        if epoch != self.epoch:
            self.epoch = epoch
            self.take("Elect", replica.leo - BEFORE)
        if replica.hw - BEFORE > self.value("hw"):
            self.take("Commit", replica.hw - BEFORE)
        for publisher, (kept, known) in enumerate(zip(self.kept(leader), self.value("kept"), strict=True), 1):
            if known and not kept:
                self.take("GiveUp", publisher)
        self.compare(leader)

    def compare(self, leader: int) -> None:
        log = self.world.disks[leader].logs[self.partition]
        found = [told(one, batch.end_offset) for batch in log.batches for one in decode_records(batch)]
        if tuple(found[BEFORE:]) != tuple(self.value("data")):
            raise BatchesDisagree(f"the log has {found[BEFORE:]}, in the model {self.value('data')}")
        if self.kept(leader) != list(self.value("kept")):
            raise BatchesDisagree(f"kept is {self.kept(leader)}, in the model {self.value('kept')}")
        for name in INVARIANTS:
            if not STEPPER.evaluate(name, (), self.model):
                raise BatchesDisagree(f"{name} is violated")

    # -- what happens --------------------------------------------------------------------------------------

    def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.6:
            self.send()
        elif chosen < 0.72:
            self.publish_alone()
        elif chosen < 0.94:
            self.world.run(self.random.choice((0.001, 0.004, 0.02, 0.3)))
        else:
            self.fail()
        self.follow()

    def send(self) -> None:
        """The next message of a batch, which may be lost."""
        if len(self.sent) < OPEN_AT_ONCE and self.begun < PUBLISHERS and self.random.random() < 0.5:
            self.begun += 1
            self.sent[self.begun] = 0
            if self.random.random() < 0.4:
                self.expects[self.begun] = len(self.value("data")) + self.random.choice((0, 0, 1))
                self.take("Expect", self.begun, self.expects[self.begun])
        if not self.sent:
            return
        publisher = self.random.choice(sorted(self.sent))
        number = self.sent[publisher]
        self.sent[publisher] += 1
        ends = number + 1 == MESSAGES
        if ends:
            del self.sent[publisher]
        if self.random.random() < 0.1 or not self.leader():
            self.take("Lose", publisher)
            return
        lines = []
        if number == 0 and publisher in self.expects:
            lines = [f"Liftlog-Expected-Offset: {self.expects[publisher] + BEFORE}"]
        value = b"%d.%d" % (publisher, number)
        self.hand_over(part(f"p{publisher}", number + 1, "1" if ends else "", *lines, value=value))
        self.take("End" if ends else "Arrive", publisher)

    def publish_alone(self) -> None:
        if self.leader():
            self.hand_over(Message(SUBJECT, b"", b"", b"0.0"))
            self.take("Publish")

    def hand_over(self, message: Message) -> None:
        self.follow()
        publish(self.world, self.partition, message)

    def fail(self) -> None:
        """What the leader has is not copied any more, or it dies; or all is well again."""
        leader = self.leader()
        if self.dead:
            self.world.restart(self.dead)
            self.dead = 0
        elif self.cut:
            if self.random.random() < 0.5 and leader == self.cut:
                self.world.kill(leader)
                self.dead = leader
            self.world.drop = lambda sender, to, message: False
            self.cut = 0
        elif leader and self.random.random() < 0.6:
            self.cut = leader
            self.world.drop = self.is_dropped
        elif leader:
            self.world.kill(leader)
            self.dead = leader
        self.world.run(self.random.choice((0.01, 0.5, 3.0)))

    def is_dropped(self, sender: int, to: int, message: PeerMessage) -> bool:
        return self.cut in (sender, to)


def told(record: Record, end: int) -> tuple[int, int, int]:
    """A record as the model has it, in a batch that ends there."""
    value = record.value or b""
    author, place = map(int, value.split(b".")) if b"." in value else (0, 0)
    ends = record.offset + 1 == end or author == 0
    return author, place, int(ends)


def walk(seed: int, steps: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = BatchWorld(seed, mutants)
    for _ in range(steps):
        world.step()
    return world.counts


def test_L11_each_step_of_a_leader_is_one_of_the_model() -> None:
    counts: dict[str, int] = {}
    for seed in range(12):
        for action, number in walk(seed, 150).items():
            counts[action] = counts.get(action, 0) + number
    assert set(counts) == {action.name for action in STEPPER.model.actions}, counts
    assert min(counts.values()) >= 5, counts


@pytest.mark.parametrize(
    "bug",
    ["batch_stored_at_once", "batch_expects_nothing", "batch_begins_anywhere", "L11.due"],
)
def test_L11_the_model_sees_each_planted_bug(bug: str) -> None:
    mutants = Mutants(without=bug) if "." in bug else Mutants(**{bug: True})
    with pytest.raises(BatchesDisagree):
        for seed in range(20):
            walk(seed, 150, mutants)
