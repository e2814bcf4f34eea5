"""Every step of leaders that copy from sources, held against the model `sources` (R29).

Nodes on a scripted world, with two streams and one that has both as its sources; a random walk of publishers,
of leaders on all sides that die or are cut off, of a log whose front goes, and time. After each event the
model takes what the leader has appended, and what it has passed over; its positions have to be the leader's.
"""

from __future__ import annotations

import pytest

from liftlog.core.metadata.origins import sources_of
from liftlog.messages import AlterStreamRequest, PurgeRequest, StreamChanges
from liftlog.mutants import Mutants
from liftlog.options.copied import copy_of, positions_in
from liftlog.types import Message, PartitionId
from liftlog_spec.models.sources import Sources
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees, NodesBeside, counted
from tests.core.test_ack_policies import publish
from tests.core.test_mirrors import a_world, made
from tests.core.test_sources import all_config

STEPPER = Stepper(Sources(Records=80, Entries=160, Epochs=10**6))
LEFT, RIGHT = 0, 1
STEPS = 60
SOURCES = ("s", "kept"), ("t", "")


class SourcedWorld(NodesBeside):
    """See the module."""

    def __init__(self, seed: int, mutants: Mutants | None = None) -> None:
        world = a_world(3, mutants)
        super().__init__(STEPPER, seed, world)
        self.origins = world.create("s"), world.create("t")
        self.sent = [0, 0]
        self.copy = PartitionId(0, 0)
        self.epoch = 0
        self.put(LEFT)
        self.copy = made(world, all_config(SOURCES))

    # -- the model beside it -------------------------------------------------------------------------------

    def follow(self) -> bool:
        """What has happened in an event; False."""
        for origin, partition in enumerate(self.origins):
            nodes = self.world.nodes.values()
            hw = max((node.replicas[partition].hw for node in nodes if partition in node.replicas), default=0)
            while self.value("committed")[origin] < hw:
                self.take("Grow", origin)
        leader = self.world.leader(self.copy)
        if not leader:
            return False
        replica = self.world.replica(leader, self.copy)
        if replica.epoch < self.epoch:
            return False  # A new one leads, and died, or does not know it yet.
        if replica.epoch != self.epoch:
            if self.epoch:
                self.take("Elect", replica.leo)
            self.epoch = replica.epoch
        if replica.leo != len(self.value("log")):
            self.appended(leader)
        self.altered(leader)
        roles = replica.roles
        positions = roles.sourcing._positions if roles is not None else None
        if positions is not None:
            self.passed(positions)
        while self.value("hw") < replica.hw:
            self.take("Commit")
        while self.value("start") < replica.log_start:
            self.take("Forget")
        return False

    def altered(self, leader: int) -> None:
        """The leader knows which origins were taken away."""
        has = sources_of(self.world.nodes[leader].metadata.by_id[self.copy.stream].config)
        for origin, (name, _) in enumerate(SOURCES):
            if (name not in has) != self.value("away")[origin]:
                self.take("GiveAgain" if name in has else "TakeAway", origin)

    def appended(self, leader: int) -> None:
        """The leader's log has more than the model's."""
        known = len(self.value("log"))
        streams = [origin.stream for origin in self.origins]
        for _, record in self.stored(leader, self.copy):
            if record.offset < known:
                continue
            named, places = copy_of(record.headers), positions_in(record.headers)
            assert named is not None and places is not None
            of, at = streams.index(named[0]), named[1]
            self.pass_over(of, at)
            self.take("Ask", of, at)
            self.take("Take")
            found = (of, at, *(places.get(stream, 0) for stream in streams))
            if found != self.value("log")[-1]:
                raise Disagrees(f"it says {found}, in the model {self.value('log')[-1]}")
        if len(self.value("log")) != self.world.replica(leader, self.copy).leo:
            raise Disagrees(f"the log of node {leader} has fewer records than the model's")

    def passed(self, positions: dict[int, int]) -> None:
        """The leader knows these positions."""
        for origin, partition in enumerate(self.origins):
            place = positions.get(partition.stream, 0)
            self.pass_over(origin, place)
            if self.value("place")[origin] != place:
                text = f"{place} is next of {origin}, in the model {self.value('place')[origin]}"
                raise Disagrees(text)

    def pass_over(self, origin: int, to: int) -> None:
        while self.value("place")[origin] < to:
            self.take("Ask", origin, self.value("place")[origin])
            self.take("PassOver")

    # -- what happens --------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run_until(self.follow, seconds)

    def put(self, origin: int) -> None:
        """A message; of the left stream the first one does not pass."""
        partition, number = self.origins[origin], self.sent[origin]
        if not number:
            assert self.world.run_until(lambda: partition in self.world.subscriptions)
        elif partition not in self.world.subscriptions:
            return
        self.sent[origin] += 1
        subject = b"kept" if number else b"dropped"
        publish(self.world, partition, Message(subject, b"", b"", b"%d" % number))

    def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.5:
            self.put(self.random.choice((LEFT, RIGHT)) if self.sent[RIGHT] else RIGHT)
        elif chosen < 0.85:
            self.run(self.random.choice((0.002, 0.01, 0.1, 0.5)))
        elif chosen < 0.9 and self.value("hw") > 1 and not self.cut and self.world.leader(self.copy):
            before = self.random.randrange(self.value("hw") + 1)
            self.world.ask(self.world.leader(self.copy), PurgeRequest(self.copy, before))
        elif chosen < 0.93:
            self.alter()
        else:
            self.fail()
        self.follow()

    def alter(self) -> None:
        """One is taken away, or both are given."""
        one = self.random.choice(SOURCES)
        wanted = SOURCES if any(self.value("away")) else (one,)
        request = AlterStreamRequest("all", StreamChanges(sources=wanted))
        self.world.ask(self.random.choice(sorted(self.world.nodes)), request)
        self.run(0.5)

    def fail(self) -> None:
        self.fail_or_mend(self.copy, (*self.origins, self.copy, self.copy))
        self.run(self.random.choice((0.01, 1.0, 5.0)))


def walk(seed: int, mutants: Mutants | None = None) -> dict[str, int]:
    world = SourcedWorld(seed, mutants)
    for _ in range(STEPS):
        world.step()
    world.run(1.0)
    world.hold(["EachOnce"])
    return world.counts


def test_R29_each_step_of_a_leader_is_one_of_the_model() -> None:
    counts = counted(walk, 10)
    assert set(counts) == {action.name for action in STEPPER.model.actions}, counts
    assert min(counts.values()) >= 5, counts


@pytest.mark.parametrize(
    "bug",
    [
        *("sources_by_committed", "sources_from_now", "sources_forgotten", "source_named_alone"),
        "source_taken_away_forgotten",
    ],
)
def test_R29_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(30):
            walk(seed, Mutants(**{bug: True}))
