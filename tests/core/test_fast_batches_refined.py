"""Every step of a leader that takes fast batches, held against the model `fast-batches` (L12).

As `test_batches_refined.py`. Here a message that has been handed over is stored at once if it is its turn,
and each ack that a leader gives has to be one that the model lets it give.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from liftlog.format import decode_records
from liftlog.messages import PeerMessage
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog_spec.models.fast_batches import MESSAGES, AckedByNumber
from liftlog_spec.run.stepwise import Refused, Stepper
from tests.core.test_ack_policies import publish
from tests.core.test_fast_batches import COMMIT, one, opened

PUBLISHERS = 60
STEPPER = Stepper(AckedByNumber(Publishers=PUBLISHERS, Records=400, Epochs=10**6))
INVARIANTS = ("AckedIsThere", "InOrder")
OPEN_AT_ONCE = 4


class FastBatchesDisagree(AssertionError):
    """The leader took a step that the model does not allow, or is in another state."""


class FastBatchWorld:
    """See the module. `counts`: how often each action of the model was taken."""

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        self.random = Random(seed)
        self.world, self.partition = opened(mutants=mutants)
        self.model = STEPPER.first()
        self.epoch = self.world.subscriptions[self.partition][1]
        self.begun = 0
        self.sent: dict[int, int] = {}
        """Of the batches that are under way: how many messages were sent."""
        self.counts: dict[str, int] = {}
        self.heard = 0
        self.dead = 0
        self.cut = 0

    # -- the model beside it -------------------------------------------------------------------------------

    def take(self, action: str, *parameters: int) -> None:
        found = STEPPER.apply(action, parameters, self.model)
        if isinstance(found, Refused):
            raise FastBatchesDisagree(f"{found} with {parameters}")
        self.model = found
        self.counts[action] = self.counts.get(action, 0) + 1

    def value(self, name: str) -> Any:
        return STEPPER.value(name, self.model)

    def leader(self) -> int:
        """Who takes messages; 0: nobody."""
        return self.world.subscriptions.get(self.partition, (0, 0))[0]

    def follow(self) -> bool:
        """What has happened in an event; False."""
        leader = self.leader()
        if leader:
            replica = self.world.replica(leader, self.partition)
            epoch = self.world.subscriptions[self.partition][1]
            if epoch != self.epoch:
                self.epoch = epoch
                self.take("Elect", replica.leo)
            if replica.hw > self.value("hw"):
                self.take("Commit", replica.hw)
        for told in self.world.fast[self.heard :]:
            publisher = int(told.batch[1:])
            if told.word in ("ack", "end") and told.number > self.value("acked")[publisher - 1]:
                self.take("Ack", publisher, told.number)
        self.heard = len(self.world.fast)
        if leader:
            self.compare(leader)
        return False

    def compare(self, leader: int) -> None:
        roles = self.world.replica(leader, self.partition).roles
        known = roles.leader.staging.fast._open if roles is not None else {}
        for publisher, took in enumerate(self.value("took"), 1):
            batch = known.get(b"p%d" % publisher)
            if batch is None and took:
                self.take("GiveUp", publisher)
            elif batch is not None and batch.last != took:
                raise FastBatchesDisagree(f"{publisher} has come to {batch.last}, in the model to {took}")
        log = self.world.disks[leader].logs[self.partition]
        values = [record.value or b"" for batch in log.batches for record in decode_records(batch)]
        found = tuple((int(value[1:-1]), int(value[-1:])) for value in values)
        if found != tuple(self.value("data")):
            raise FastBatchesDisagree(f"the log has {found}, in the model {self.value('data')}")

    # -- what happens --------------------------------------------------------------------------------------

    def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.65:
            self.send()
        elif chosen < 0.94:
            self.run(self.random.choice((0.001, 0.004, 0.02, 0.3)))
        else:
            self.fail()

    def run(self, seconds: float) -> None:
        self.world.run_until(self.follow, seconds)

    def send(self) -> None:
        """The next message of a batch, which may be lost."""
        if len(self.sent) < OPEN_AT_ONCE and self.begun < PUBLISHERS and self.random.random() < 0.5:
            self.begun += 1
            self.sent[self.begun] = 0
        if not self.sent:
            return
        publisher = self.random.choice(sorted(self.sent))
        number = self.sent[publisher] = self.sent[publisher] + 1
        if number == MESSAGES:
            del self.sent[publisher]
        if self.random.random() < 0.1 or not self.leader():
            self.take("Lose", publisher)
            return
        self.follow()
        operation = COMMIT if number == MESSAGES else None
        message = one(number, operation, id=f"p{publisher}", flow=self.random.choice((1, 2)))
        publish(self.world, self.partition, message)
        self.take("Arrive", publisher)
        self.follow()

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
        self.run(self.random.choice((0.01, 0.5, 3.0)))

    def is_dropped(self, sender: int, to: int, message: PeerMessage) -> bool:
        return self.cut in (sender, to)


def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = FastBatchWorld(seed, mutants)
    for _ in range(150):
        world.step()
    for name in INVARIANTS:
        if not STEPPER.evaluate(name, (), world.model):
            raise FastBatchesDisagree(f"{name} is violated")
    return world.counts


def test_L12_each_step_of_a_leader_is_one_of_the_model() -> None:
    counts: dict[str, int] = {}
    for seed in range(10):
        for action, number in walk(seed).items():
            counts[action] = counts.get(action, 0) + number
    assert set(counts) == {action.name for action in STEPPER.model.actions}, counts
    assert min(counts.values()) >= 5, counts


@pytest.mark.parametrize("bug", ["fast_acked_at_append", "fast_begins_anywhere", "L12.due"])
def test_L12_the_model_sees_each_planted_bug(bug: str) -> None:
    mutants = Mutants(without=bug) if "." in bug else Mutants(**{bug: True})
    with pytest.raises(FastBatchesDisagree):
        for seed in range(20):
            walk(seed, mutants)
