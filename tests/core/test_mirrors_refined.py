"""Every step of leaders of a mirror, held against the model `mirrors` (R28).

As `test_sources_refined.py`, with one stream and its mirror, both with journals: messages of the origin are
deleted, and the mirror says which of its offsets are empty before it copies what is there.
"""

from __future__ import annotations

import pytest

from liftlog.core.replica.replica import Replica
from liftlog.messages import DeleteMessageRequest
from liftlog.mutants import Mutants
from liftlog.types import Message, PartitionId
from liftlog_spec.models.mirrors import Mirrors
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees, NodesBeside, counted
from tests.core.test_ack_policies import publish
from tests.core.test_mirrors import a_world, made, mirror_config

STEPPER = Stepper(Mirrors(Records=300, Epochs=10**6, Deletes=300))
INVARIANTS = ("MirrorIsPrefix", "EmptyIsGone", "EmptyIsSaid")
STEPS = 60


class MirroredWorld(NodesBeside):
    """See the module."""

    def __init__(self, seed: int, mutants: Mutants | None = None) -> None:
        world = a_world(3, mutants)
        super().__init__(STEPPER, seed, world)
        self.origin = world.create("s", removal=True)
        self.mirror = PartitionId(0, 0)
        self.sent = 0
        self.values: list[bytes] = []
        """What the origin has."""
        self.epochs = [0, 0]
        """Of the origin's leader and the mirror's, the newest that were seen."""
        assert world.run_until(lambda: self.origin in world.subscriptions)
        self.thin()
        self.mirror = made(world, mirror_config(removal=True))

    # -- the model beside it -------------------------------------------------------------------------------

    def newest(self, partition: PartitionId, side: int) -> Replica | None:
        """The leader with the newest epoch, if it is there."""
        leader = self.world.leader(partition)
        if not leader or self.world.replica(leader, partition).epoch < self.epochs[side]:
            return None
        return self.world.replica(leader, partition)

    def follow(self) -> bool:
        """What has happened in an event; False."""
        origin = self.newest(self.origin, 0)
        if origin is not None:
            self.follow_origin(origin)
        mirror = self.newest(self.mirror, 1)
        if mirror is not None:
            self.follow_mirror(mirror)
        return False

    def entries(self, replica: Replica) -> dict[int, bytes]:
        """What is there, by offset."""
        stored = self.stored(replica.log.ctx.node, replica.id)
        return {one.offset: one.value or b"" for _, one in stored}

    def follow_origin(self, leader: Replica) -> None:
        if leader.epoch != self.epochs[0]:
            if self.epochs[0]:
                self.take("ElectOrigin", leader.leo)
                del self.values[leader.leo :]
            self.epochs[0] = leader.epoch
        if leader.leo > len(self.values):
            there = self.entries(leader)
            for offset in range(len(self.values), leader.leo):
                self.values.append(there[offset])
                self.take("Write")
        while self.value("origin_hw") < leader.hw:
            self.take("CommitOrigin")

    def follow_mirror(self, leader: Replica) -> None:
        if leader.epoch != self.epochs[1]:
            if self.epochs[1]:
                self.take("Elect", leader.leo)
            self.epochs[1] = leader.epoch
        known = len(self.value("mirror"))
        if leader.leo > known:
            there = self.entries(leader)
            for offset in range(known, leader.leo):
                self.appended(leader, offset, there.get(offset))
        if len(self.value("mirror")) != leader.leo:
            raise Disagrees(
                f"the mirror ends at {leader.leo}, in the model {len(self.value('mirror'))}"
            )
        while self.value("hw") < leader.hw:
            self.take("Commit")

    def appended(self, leader: Replica, offset: int, value: bytes | None) -> None:
        """The mirror's leader has this there; None: nothing."""
        if value is None and not self.value("gone") >> offset & 1 and self.is_gone(offset):
            self.take("Delete", offset)
        self.take("Ask", offset)
        if value is None:
            self.say(leader, offset)
        self.take("Take")
        copied = self.value("mirror")[-1]
        if bool(copied) != (value is not None) or (copied and self.values[offset] != value):
            raise Disagrees(f"the mirror has {value!r} at {offset}, in the model {copied}")

    def is_gone(self, offset: int) -> bool:
        """Whether a copy of the origin knows that this was deleted."""
        journals = [node.replicas.get(self.origin.journal) for node in self.world.nodes.values()]
        removed = [one.removed for one in journals if one is not None]
        return any(one is not None and offset in {at for at, _ in one.named()} for one in removed)

    def say(self, leader: Replica, offset: int) -> None:
        """What the leader's journal has of it, committed."""
        journal = self.world.replica(leader.log.ctx.node, self.mirror.journal)
        removed = journal.removed
        assert removed is not None
        if (offset, leader.epoch) in removed and not self.value("says") >> offset & 1:
            self.take("Say")
            self.take("CommitEntry", offset)

    # -- what happens --------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run_until(self.follow, seconds)

    def put(self, count: int = 1) -> None:
        """A batch, unless it would come to a leader that was replaced, whose log the model does not know."""
        subscriber, epoch = self.world.subscriptions.get(self.origin, (0, 0))
        if subscriber and epoch == self.epochs[0] and subscriber == self.world.leader(self.origin):
            numbers = range(self.sent, self.sent + count)
            self.sent += count
            publish(self.world, self.origin, *(Message(b"s", b"", b"", b"%d" % one) for one in numbers))

    def thin(self) -> None:
        """Some messages, of which one is deleted."""
        self.follow()
        self.put(4)
        self.run(0.3)
        self.delete(self.random.randrange(3))

    def delete(self, before_the_end: int) -> None:
        leader, offset = self.world.leader(self.origin), self.value("origin_hw") - 1 - before_the_end
        if leader and offset >= 0:
            self.world.ask(leader, DeleteMessageRequest(self.origin, offset))
            self.run(0.1)

    def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.45:
            self.put()
        elif chosen < 0.75:
            self.run(self.random.choice((0.002, 0.01, 0.1, 0.5)))
        elif chosen < 0.85:
            self.delete(self.random.choice((0, 0, 1, 5)))
        else:
            self.fail()
        self.follow()

    def fail(self) -> None:
        self.fail_or_mend(self.mirror, (self.origin, self.mirror))
        if self.random.random() < 0.6:
            self.thin()
        self.run(self.random.choice((0.01, 1.0, 5.0)))


def walk(seed: int, mutants: Mutants | None = None) -> dict[str, int]:
    world = MirroredWorld(seed, mutants)
    for _ in range(STEPS):
        world.step()
    world.run(1.0)
    world.hold(INVARIANTS)
    return world.counts


def test_R28_each_step_of_a_leader_is_one_of_the_model() -> None:
    counts = counted(walk, 8)
    ours = {action.name for action in STEPPER.model.actions} - {"Save", "Publish"}
    assert set(counts) == ours, counts
    assert min(counts.values()) >= 5, counts


BUGS = [
    *("mirror_of_uncommitted", "mirror_closes_gaps", "mirror_begins_at_hw"),
    *("mirror_says_nothing", "mirror_says_later"),
]


@pytest.mark.parametrize("bug", BUGS)
def test_R28_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(20):
            walk(seed, Mutants(**{bug: True}))
