"""A model beside the code: it takes each step that the code takes, and says so when it would not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any

from liftlog.core.replica.replica import Replica
from liftlog.format import decode_records
from liftlog.messages import PeerMessage
from liftlog.mutants import Mutants
from liftlog.types import Batch, PartitionId, Record
from liftlog_spec.run.stepwise import Refused, Stepper
from tests.core.node_harness import World


class Disagrees(AssertionError):
    """The code took a step that the model does not allow, or is in another state."""


class Beside:
    """The model's side of a random walk. `counts`: how often each action of the model was taken."""

    def __init__(self, stepper: Stepper, seed: int) -> None:
        self.random = Random(seed)
        self.stepper = stepper
        self.model = stepper.first()
        self.counts: dict[str, int] = {}

    def take(self, action: str, *parameters: int) -> None:
        found = self.stepper.apply(action, parameters, self.model)
        if isinstance(found, Refused):
            raise Disagrees(f"{found} with {parameters}")
        self.model = found
        self.counts[action] = self.counts.get(action, 0) + 1

    def value(self, name: str) -> Any:
        return self.stepper.value(name, self.model)

    def hold(self, invariants: Iterable[str]) -> None:
        """Raises Disagrees if one of these does not."""
        for name in invariants:
            if not self.stepper.evaluate(name, (), self.model):
                raise Disagrees(f"{name} is violated")


class NodesBeside(Beside):
    """Beside nodes on a scripted world, of which one at a time may be dead, or cut off."""

    def __init__(self, stepper: Stepper, seed: int, world: World) -> None:
        super().__init__(stepper, seed)
        self.world = world
        self.dead = 0
        self.cut = 0

    def stored(self, node: int, log: PartitionId) -> Iterator[tuple[Batch, Record]]:
        """What lies on the disk of a node, from where that begins; each record with its batch."""
        for batch in self.world.disks[node].logs[log].batches:
            for record in decode_records(batch):
                yield batch, record

    def kill(self, node: int) -> None:
        self.world.kill(node)
        self.dead = node

    def restart(self) -> None:
        self.world.restart(self.dead)
        self.dead = 0

    def cut_off(self, node: int) -> None:
        """What it has is not copied any more."""
        self.cut = node
        self.world.drop = self._is_dropped

    def join_up(self) -> None:
        self.world.drop = lambda sender, to, message: False
        self.cut = 0

    def _is_dropped(self, sender: int, to: int, message: PeerMessage) -> bool:
        return self.cut in (sender, to)

    def fail_or_mend(self, copy: PartitionId, dying: Sequence[PartitionId]) -> None:
        """The copy's leader is cut off with what it has appended, or the leader of one of these dies; or all
        is well again.
        """
        leader = self.world.leader(copy)
        if self.dead:
            self.restart()
        elif self.cut:
            self.join_up()
        elif self.random.random() < 0.5 and leader:
            self.cut_off(leader)
        else:
            leader = self.world.leader(self.random.choice(dying))
            if leader:
                self.kill(leader)


class PartitionBeside(NodesBeside):
    """Beside one partition, whose newest leader is followed. `epoch`: that in which it was seen to lead."""

    def __init__(self, stepper: Stepper, seed: int, made: tuple[World, PartitionId]) -> None:
        world, self.partition = made
        super().__init__(stepper, seed, world)
        self.epoch = world.subscriptions[self.partition][1]

    def leader(self) -> int:
        """Who takes messages; 0: nobody."""
        return self.world.subscriptions.get(self.partition, (0, 0))[0]

    def sees_new_epoch(self) -> bool:
        """Whether somebody leads in an epoch that was not seen before; from now on it was."""
        known, self.epoch = self.epoch, self.world.subscriptions[self.partition][1]
        return self.epoch != known

    def run(self, seconds: float) -> None:
        self.world.run(seconds)


class BatchesBeside(PartitionBeside):
    """Beside a partition whose publishers send batches of `messages` messages, some of which are lost."""

    PUBLISHERS = 60
    OPEN_AT_ONCE = 4

    def __init__(
        self, stepper: Stepper, seed: int, opened: tuple[World, PartitionId], messages: int
    ) -> None:
        super().__init__(stepper, seed, opened)
        self.messages = messages
        self.begun = 0
        self.sent: dict[int, int] = {}
        """Of the batches that are under way: how many messages were sent."""

    def begins(self, publisher: int) -> None:
        """A batch does; of it nothing was sent."""

    def next(self) -> tuple[int, int]:
        """Whose turn it is, and with which message, from 0 on; publisher 0: nobody's, or it was lost."""
        if len(self.sent) < self.OPEN_AT_ONCE and self.begun < self.PUBLISHERS and self.random.random() < 0.5:
            self.begun += 1
            self.sent[self.begun] = 0
            self.begins(self.begun)
        if not self.sent:
            return 0, 0
        publisher = self.random.choice(sorted(self.sent))
        number = self.sent[publisher]
        self.sent[publisher] += 1
        if number + 1 == self.messages:
            del self.sent[publisher]
        if self.random.random() < 0.1 or not self.leader():
            self.take("Lose", publisher)
            return 0, 0
        return publisher, number

    def fail(self) -> None:
        """What the leader has is not copied any more, or it dies; or all is well again."""
        leader = self.leader()
        if self.dead:
            self.restart()
        elif self.cut:
            if self.random.random() < 0.5 and leader == self.cut:
                self.kill(leader)
            self.join_up()
        elif leader and self.random.random() < 0.6:
            self.cut_off(leader)
        elif leader:
            self.kill(leader)
        self.run(self.random.choice((0.01, 0.5, 3.0)))


def takes_all(leader: Replica) -> bool:
    """Nothing but numbers, and cursors, keeps this leader from storing a message."""
    roles, leading = leader.roles, leader.leading
    if roles is None or leading is None or leader.ctx.fenced:
        return False
    return roles.leader.ids.whole and len(leading.record.isr) >= leading.record.min_insync


def counted(walk: Callable[[int], dict[str, int]], seeds: int) -> dict[str, int]:
    """How often all these walks together took each action."""
    counts: dict[str, int] = {}
    for seed in range(seeds):
        for action, number in walk(seed).items():
            counts[action] = counts.get(action, 0) + number
    return counts


def planted(bug: str) -> Mutants:
    """Of a switch, or of a guard that is lacking."""
    return Mutants(without=bug) if "." in bug else Mutants(**{bug: True})
