"""Every step of a leader that takes fast batches, held against the model `fast-batches` (L12).

As `test_batches_refined.py`. Here a message that has been handed over is stored at once if it is its turn,
and each ack that a leader gives has to be one that the model lets it give.
"""

from __future__ import annotations

import pytest

from liftlog.format import decode_records
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog_spec.models.fast_batches import MESSAGES, AckedByNumber
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import BatchesBeside, Disagrees, counted, planted
from tests.core.test_ack_policies import publish
from tests.core.test_fast_batches import COMMIT, one, opened

STEPPER = Stepper(AckedByNumber(Publishers=BatchesBeside.PUBLISHERS, Records=400, Epochs=10**6))
INVARIANTS = ("AckedIsThere", "InOrder")


class FastBatchWorld(BatchesBeside):
    """See the module."""

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        super().__init__(STEPPER, seed, opened(mutants=mutants), MESSAGES)
        self.heard = 0

    # -- the model beside it -------------------------------------------------------------------------------

    def follow(self) -> bool:
        """What has happened in an event; False."""
        leader = self.leader()
        if leader:
            replica = self.world.replica(leader, self.partition)
            if self.sees_new_epoch():
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
                raise Disagrees(f"{publisher} has come to {batch.last}, in the model to {took}")
        log = self.world.disks[leader].logs[self.partition]
        values = [record.value or b"" for batch in log.batches for record in decode_records(batch)]
        found = tuple((int(value[1:-1]), int(value[-1:])) for value in values)
        if found != tuple(self.value("data")):
            raise Disagrees(f"the log has {found}, in the model {self.value('data')}")

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
        publisher, number = self.next()
        if not publisher:
            return
        number += 1
        self.follow()
        operation = COMMIT if number == MESSAGES else None
        message = one(number, operation, id=f"p{publisher}", flow=self.random.choice((1, 2)))
        publish(self.world, self.partition, message)
        self.take("Arrive", publisher)
        self.follow()

def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = FastBatchWorld(seed, mutants)
    for _ in range(150):
        world.step()
    world.hold(INVARIANTS)
    return world.counts


def test_L12_each_step_of_a_leader_is_one_of_the_model() -> None:
    counts = counted(walk, 10)
    assert set(counts) == {action.name for action in STEPPER.model.actions}, counts
    assert min(counts.values()) >= 5, counts


@pytest.mark.parametrize("bug", ["fast_acked_at_append", "fast_begins_anywhere", "L12.due"])
def test_L12_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(20):
            walk(seed, planted(bug))
