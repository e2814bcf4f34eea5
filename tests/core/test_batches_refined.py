"""Every step of a leader that takes batches, held against the model `batches` (L11).

Nodes on a scripted world, a random walk of publishers, of losses, leaders that die or are cut off, and time.
When a message has been handed to a leader, the model takes it too: its log, and what it keeps of each batch,
have to be those of the leader; so after each stretch of time, in which others are elected.
"""

from __future__ import annotations

import pytest

from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import Message, Record
from liftlog_spec.models.batches import MESSAGES, Batches
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import BatchesBeside, Disagrees, counted, planted
from tests.core.test_ack_policies import publish
from tests.core.test_atomic_batches import SUBJECT, opened, part

PUBLISHERS = BatchesBeside.PUBLISHERS
BEFORE = 3
"""Records that the log has before the walk begins."""
STEPPER = Stepper(Batches(Publishers=PUBLISHERS, Records=10**6, Epochs=10**6))
INVARIANTS = ("AllOrNone", "StoredAsExpected")


class BatchWorld(BatchesBeside):
    """See the module."""

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        super().__init__(STEPPER, seed, opened(mutants=mutants), MESSAGES)
        self.expects: dict[int, int] = {}

    # -- the model beside it -------------------------------------------------------------------------------

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
        if self.sees_new_epoch():
            self.take("Elect", replica.leo - BEFORE)
        if replica.hw - BEFORE > self.value("hw"):
            self.take("Commit", replica.hw - BEFORE)
        for publisher, (kept, known) in enumerate(zip(self.kept(leader), self.value("kept"), strict=True), 1):
            if known and not kept:
                self.take("GiveUp", publisher)
        self.compare(leader)

    def compare(self, leader: int) -> None:
        found = [told(one, batch.end_offset) for batch, one in self.stored(leader, self.partition)]
        if tuple(found[BEFORE:]) != tuple(self.value("data")):
            raise Disagrees(f"the log has {found[BEFORE:]}, in the model {self.value('data')}")
        if self.kept(leader) != list(self.value("kept")):
            raise Disagrees(f"kept is {self.kept(leader)}, in the model {self.value('kept')}")
        self.hold(INVARIANTS)

    # -- what happens --------------------------------------------------------------------------------------

    def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.6:
            self.send()
        elif chosen < 0.72:
            self.publish_alone()
        elif chosen < 0.94:
            self.run(self.random.choice((0.001, 0.004, 0.02, 0.3)))
        else:
            self.fail()
        self.follow()

    def begins(self, publisher: int) -> None:
        if self.random.random() < 0.4:
            self.expects[publisher] = len(self.value("data")) + self.random.choice((0, 0, 1))
            self.take("Expect", publisher, self.expects[publisher])

    def send(self) -> None:
        """The next message of a batch, which may be lost."""
        publisher, number = self.next()
        if not publisher:
            return
        ends = number + 1 == MESSAGES
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
    counts = counted(lambda seed: walk(seed, 150), 12)
    assert set(counts) == {action.name for action in STEPPER.model.actions}, counts
    assert min(counts.values()) >= 5, counts


@pytest.mark.parametrize(
    "bug",
    ["batch_stored_at_once", "batch_expects_nothing", "batch_begins_anywhere", "L11.due"],
)
def test_L11_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(20):
            walk(seed, 150, planted(bug))
