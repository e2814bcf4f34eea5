"""R17, R18: a sick node is not everybody's latency, and one that flaps does not oscillate.

Whole nodes with 1,000 messages a second, in groups of ten, on disks that take 2 ms or, when sick, 50 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from liftlog.core.metadata.commands import ChangeIsr, Command
from liftlog.core.metadata.records import CommandResult
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import PartitionId
from tests.core.node_harness import World

GROUP = [b"%d" % number for number in range(10)]
GROUP_S = 0.01
SICK_S = 0.05


class Watched(World):
    """Keeps the changes of the ISR that were applied, and when."""

    changes: list[tuple[float, ChangeIsr]]

    def learned(self, node: int, index: int, command: Command, result: CommandResult) -> None:
        super().learned(node, index, command, result)
        if isinstance(command, ChangeIsr) and not result.code and node == min(self.nodes):
            self.changes.append((self.now, command))


class Busy:
    """A cluster with a steady load. `waits_s`: when each group was acked, and how long after its sending."""

    def __init__(
        self, minimum: int = 2, count: int = 3, mutants: Mutants = NO_MUTANTS, **config: Any
    ) -> None:
        Watched.changes = []
        self.world = Watched(count, mutants, **config)
        self.partition: PartitionId = self.world.create(replicas=count, minimum=minimum)
        self.waits_s: list[tuple[float, float]] = []
        self._sent: dict[bytes, float] = {}
        self._acks = 0

    @property
    def leader(self) -> int:
        return int(self.world.leader(self.partition))

    @property
    def record(self) -> Any:
        return self.world.nodes[self.leader].metadata.partitions[self.partition]

    def followers(self) -> list[int]:
        return [node for node in self.world.nodes if node != self.leader]

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Publish for so long, or until a condition holds."""
        world = self.world
        for _ in range(round(seconds / GROUP_S)):
            reply = b"%d" % len(self._sent)
            if world.publish(self.partition, *GROUP, reply=reply):
                self._sent[reply] = world.now
            if world.run_until(until, GROUP_S):
                return True
            for ack in world.acks[self._acks :]:
                self.waits_s.append((world.now, world.now - self._sent[bytes(ack.replies[-1])]))
            self._acks = len(world.acks)
        return False

    def worst_s(self, since_s: float) -> float:
        return max(wait for at, wait in self.waits_s if at >= since_s)


def test_R17_a_follower_with_a_slow_disk_leaves_the_isr() -> None:
    busy = Busy()
    busy.run(3)
    sick = busy.followers()[0]
    began = busy.world.now
    busy.world.sync_s[sick] = SICK_S
    assert busy.run(1.5, lambda: sick not in busy.record.isr)
    assert busy.record.slow == {sick: 1}
    ended = busy.world.now
    assert 0.9 <= ended - began <= 1.3
    busy.run(5)
    assert busy.worst_s(ended + 0.1) <= 0.02
    assert [change.slow for at, change in busy.world.changes if at >= began] == [True]


def test_R17_no_more_than_the_minimum_may_be_removed() -> None:
    busy = Busy(minimum=3)
    busy.run(1)
    sick = busy.followers()[0]
    busy.world.sync_s[sick] = SICK_S
    busy.run(5)
    assert len(busy.record.isr) == 3 and not busy.record.slow
    assert busy.world.nodes[busy.leader].marks["R17.minimum"] > 0


def test_R17_where_two_of_three_are_slow_nobody_is_removed() -> None:
    """Without either of them nothing would be quicker."""
    busy = Busy()
    busy.run(1)
    for sick in busy.followers():
        busy.world.sync_s[sick] = SICK_S
    busy.run(5)
    assert len(busy.record.isr) == 3 and not busy.record.slow


def test_R17_of_five_both_slow_ones_leave() -> None:
    busy = Busy(count=5)
    busy.run(1)
    sick = busy.followers()[:2]
    for node in sick:
        busy.world.sync_s[node] = SICK_S
    busy.run(4)
    assert sorted(busy.record.slow) == sorted(sick)
    assert len(busy.record.isr) == 3


def test_R17_a_pause_of_half_a_second_removes_nobody() -> None:
    busy = Busy()
    busy.run(2)
    paused = busy.followers()[0]
    for _ in range(4):
        busy.world.pause(paused)
        busy.run(0.5)
        busy.world.resume(paused)
        busy.run(2.5)
    assert len(busy.record.isr) == 3 and not busy.record.slow


def test_R17_a_leader_with_a_slow_disk_hands_over_and_leaves_the_isr() -> None:
    busy = Busy()
    busy.run(3)
    sick, began = busy.leader, busy.world.now
    busy.world.sync_s[sick] = SICK_S
    busy.run(2)
    assert busy.leader != sick
    assert sick not in busy.record.isr
    assert busy.record.slow == {sick: 1}
    busy.run(3)
    assert busy.worst_s(began + 2) <= 0.02


def test_R17_mutant_the_slow_leader_stays() -> None:
    busy = Busy(mutants=Mutants(slow_leader_stays=True))
    busy.run(3)
    sick = busy.leader
    busy.world.sync_s[sick] = SICK_S
    busy.run(5)
    assert busy.leader == sick
    assert busy.worst_s(busy.world.now - 1) >= SICK_S


def test_R17_nobody_is_slow_where_the_limit_is_0() -> None:
    busy = Busy(replica_slow_ms=0)
    busy.run(1)
    busy.world.sync_s[busy.followers()[0]] = SICK_S
    busy.run(4)
    assert len(busy.record.isr) == 3


def test_R17_slow_ones_are_elected_last() -> None:
    busy = Busy(replica_probation_ms=1000)
    busy.run(1)
    sick = busy.leader
    busy.world.sync_s[sick] = SICK_S
    busy.run(2.5)
    del busy.world.sync_s[sick]
    assert busy.run(10, lambda: sick in busy.record.isr)
    assert sick in busy.record.slow
    busy.world.kill(busy.leader)
    assert busy.run(10, lambda: busy.leader not in (0, sick))


def test_R18_a_well_one_comes_back_after_its_probation() -> None:
    busy = Busy()
    busy.run(1)
    sick = busy.followers()[0]
    busy.world.sync_s[sick] = SICK_S
    busy.run(3)
    del busy.world.sync_s[sick]
    well = busy.world.now
    assert busy.run(15, lambda: sick in busy.record.isr)
    assert 9.8 <= busy.world.now - well <= 11
    assert busy.record.slow == {sick: 1}


def test_R18_who_flaps_is_removed_once_and_stays_out() -> None:
    busy = Busy()
    busy.run(2)
    flaps = busy.followers()[0]
    began = busy.world.now
    for _ in range(6):
        busy.world.pause(flaps)
        busy.run(2)
        busy.world.resume(flaps)
        busy.run(3)
    changes = [change for at, change in busy.world.changes if at >= began]
    assert [change.slow for change in changes] == [True]
    assert busy.record.slow == {flaps: 1}


def test_R18_each_removal_doubles_the_probation() -> None:
    busy = Busy(replica_probation_ms=1000)
    busy.run(1)
    sick, served = busy.followers()[0], []
    for _ in range(3):
        busy.world.sync_s[sick] = SICK_S
        assert busy.run(3, lambda: sick not in busy.record.isr)
        del busy.world.sync_s[sick]
        well = busy.world.now
        assert busy.run(20, lambda: sick in busy.record.isr)
        served.append(round(busy.world.now - well))
    assert served == [1, 2, 4]
    assert busy.record.slow == {sick: 3}


def test_R18_a_long_good_time_inside_is_no_probation_outside() -> None:
    """Until the tick after its removal it counted as one, and the replica was back at its next fetch."""
    busy = Busy(replica_probation_ms=1000)
    busy.run(1)
    sick = busy.followers()[0]
    for probation_s in (1, 2):
        busy.world.sync_s[sick] = SICK_S
        assert busy.run(3, lambda: sick not in busy.record.isr)
        del busy.world.sync_s[sick]
        removed = busy.world.now
        assert busy.run(5, lambda: sick in busy.record.isr)
        assert busy.world.now - removed >= probation_s
        busy.run(20)


def test_R18_a_new_leader_knows_who_is_slow() -> None:
    """It would let him in at once, and learn the same again."""
    busy = Busy(count=5)
    busy.run(1)
    sick = busy.followers()[0]
    busy.world.sync_s[sick] = SICK_S
    busy.run(3)
    del busy.world.sync_s[sick]
    first = busy.leader
    busy.world.kill(first)
    assert busy.run(10, lambda: busy.leader not in (0, first))
    elected = busy.world.now
    assert busy.run(20, lambda: sick in busy.record.isr)
    assert busy.world.now - elected >= 9


def test_R18_below_the_minimum_everybody_is_welcome() -> None:
    busy = Busy()
    busy.run(1)
    sick, other = busy.followers()
    busy.world.sync_s[sick] = SICK_S
    busy.run(3)
    assert sick not in busy.record.isr
    busy.world.kill(other)
    assert busy.run(4, lambda: sick in busy.record.isr)


def test_R18_a_new_run_begins_anew() -> None:
    busy = Busy()
    busy.run(1)
    sick = busy.followers()[0]
    busy.world.sync_s[sick] = SICK_S
    busy.run(3)
    busy.world.kill(sick)
    del busy.world.sync_s[sick]
    busy.world.restart(sick)
    assert busy.run(5, lambda: sick in busy.record.isr)
    assert not busy.record.slow


def test_R18_removals_are_forgotten_after_a_long_good_time() -> None:
    busy = Busy(replica_probation_ms=500, replica_probation_max_ms=1000)
    busy.run(1)
    sick = busy.followers()[0]
    busy.world.sync_s[sick] = SICK_S
    busy.run(2)
    del busy.world.sync_s[sick]
    assert busy.run(5, lambda: sick in busy.record.isr)
    assert busy.record.slow
    assert busy.run(4, lambda: not busy.record.slow)
    assert len(busy.record.isr) == 3


@pytest.mark.parametrize("pause_s", [2.0, 0.5])
def test_R18_mutant_without_a_probation_it_oscillates(pause_s: float) -> None:
    busy = Busy(mutants=Mutants(without="R18.probation"))
    busy.run(2)
    flaps = busy.followers()[0]
    for _ in range(4):
        busy.world.pause(flaps)
        busy.run(pause_s)
        busy.world.resume(flaps)
        busy.run(3)
    assert busy.record.slow.get(flaps, 0) == (4 if pause_s > 1 else 0)
