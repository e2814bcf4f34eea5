"""Beside nodes with a log and its journal: what the walks beside models of such logs share.

A node may die, be cut off in both logs or in one of them, or not come to sync. Where a walk follows the
newest leader's journal entry by entry (`LineBeside`), whoever leads next has to have what is committed of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from liftlog.core.metadata import levels
from liftlog.core.replica.replica import Replica
from liftlog.format import decode_values
from liftlog.messages import PeerMessage
from liftlog.types import Batch, PartitionId
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees, NodesBeside
from tests.core.node_harness import World

NODES = (1, 2, 3)


def with_journal(world: World, **settings: Any) -> PartitionId:
    """A stream of these settings whose messages can be deleted, once somebody takes them."""
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(removal=True, **settings)
    assert world.run_until(lambda: partition in world.subscriptions)
    return partition


def mask(runs: Sequence[tuple[int, int]]) -> int:
    """Offsets, as a model holds a set of them."""
    return sum((1 << end) - (1 << start) for start, end in runs)


class TwoLogsBeside(NodesBeside):
    """See the module. `epoch`: the newest that was seen."""

    DIES, STANDS_STILL = 0.5, 0.6
    """Below the first a draw lets a node die, below the second its disk stand still; else it is cut off."""
    WAITS_S: tuple[float, ...] = (0.01, 0.3, 3.0)

    def __init__(self, stepper: Stepper, seed: int, world: World, partition: PartitionId) -> None:
        super().__init__(stepper, seed, world)
        self.partition = partition
        self.cuts: Sequence[PartitionId | None] = (None, partition, *[partition.journal] * 3)
        """In which log a node is cut off; None: in all."""
        self.cut_log: PartitionId | None = None
        """In which one it is."""
        self.slow = 0
        """Whose disk does not come to sync."""
        self.epoch = self.copy(world.leader(partition)).epoch
        self.over = False
        """A leader came back whose logs the model does not know."""

    def copy(self, node: int) -> Replica:
        return self.world.replica(node, self.partition)

    def journal(self, node: int) -> Replica:
        return self.world.replica(node, self.partition.journal)

    def newest(self) -> int:
        """The leader of the newest epoch, if it is there."""
        leader = self.world.leader(self.partition)
        return leader if leader and self.copy(leader).epoch >= self.epoch else 0

    # -- what fails ----------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let time pass."""
        raise NotImplementedError

    def _is_dropped(self, sender: int, to: int, message: PeerMessage) -> bool:
        about = getattr(message, "partition", None)
        return self.cut in (sender, to) and self.cut_log in (None, about)

    def fail(self) -> None:
        """A node dies, is cut off, or does not come to sync, sooner if it leads; or all is well again."""
        leader, chosen = self.newest(), self.random.random()
        node = self.random.choice((*NODES, leader or 1, leader or 2))
        if self.dead:
            self.restart()
        elif self.slow:
            self.go_on()
        elif self.cut:
            if chosen < 0.4:
                self.kill(self.cut)
            self.join_up()
        elif chosen < self.DIES:
            if node == leader:
                self.leave_some(leader)
            self.kill(node)
            if node == leader:
                self.ask_next(leader)
        elif chosen < self.STANDS_STILL:
            self.world.hold_storage(node)
            self.slow = node
        else:
            self.cut_log = self.random.choice(self.cuts)
            self.cut_off(node)
        self.run(self.random.choice(self.WAITS_S))

    def go_on(self) -> None:
        """The disk that stood still does."""
        self.world.release_storage(self.slow)
        self.slow = 0

    def leave_some(self, leader: int) -> None:
        """Something may be on its way when the leader dies."""

    def ask_next(self, before: int) -> None:
        """The next one may be asked for something as soon as it leads."""

    def await_next(self, before: int) -> int:
        """Who leads next, if somebody does soon."""
        self.world.run_until(lambda: self.follow() or self.newest() not in (0, before), 5.0)
        return self.newest()

    def follow(self) -> bool:
        """What has happened in an event; False."""
        raise NotImplementedError


class LineBeside(TwoLogsBeside):
    """`line`: the newest leader's journal from its first entry on, each with its epoch. `committed`: so many
    of these.
    """

    def __init__(self, stepper: Stepper, seed: int, world: World, partition: PartitionId) -> None:
        super().__init__(stepper, seed, world, partition)
        self.line: list[tuple[int, bytes]] = []
        self.committed = 0

    def run(self, seconds: float) -> None:
        self.world.run_until(self.follow, seconds)

    def on_disk(self, node: int, start: int) -> list[tuple[int, int, bytes, Batch]]:
        """The entries that its journal has from there on: offset, epoch, what it says, its batch."""
        return [
            (offset, batch.epoch, data, batch)
            for batch in self.world.disks[node].logs[self.partition.journal].batches
            if batch.end_offset > start
            for offset, data in enumerate(decode_values(batch), batch.base_offset)
            if offset >= start
        ]

    def elected(self, leader: int) -> None:
        """Another one leads. It is over if it has entries that the line has not; what it lacks is cut."""
        self.epoch = self.copy(leader).epoch
        journal = self.journal(leader).log
        assert journal.leading is not None
        end = journal.leading.epoch_start
        for offset, epoch, data, _ in self.on_disk(leader, journal.log_start):
            if offset >= end:
                break
            if self.line[offset : offset + 1] != [(epoch, data)]:
                if offset < self.committed:
                    raise Disagrees(f"node {leader} leads, and has another entry at {offset}")
                self.over = True
                return
        if end < self.committed:
            raise Disagrees(f"node {leader} leads, and lacks entries from {end} on")
        del self.line[end:]
        self.begins(end)

    def begins(self, end: int) -> None:
        """The model's new leader has so many entries of the line."""
        raise NotImplementedError

    def written(self, leader: int) -> list[tuple[bytes, Batch]]:
        """What the leader has written behind the line, each with its batch."""
        found = self.on_disk(leader, len(self.line))
        for _, epoch, _, _ in found:
            if epoch != self.epoch:
                raise Disagrees(f"node {leader} writes an entry of epoch {epoch} in {self.epoch}")
        return [(data, batch) for _, _, data, batch in found]

    def is_in_line(self, leader: int) -> None:
        """Raises Disagrees if the leader has more, or less."""
        if self.journal(leader).leo != len(self.line):
            raise Disagrees(f"the journal of node {leader} ends at {self.journal(leader).leo}")

    def heard(self) -> int:
        """So many entries some copy knows to be committed."""
        log = self.partition.journal
        there = [node.replicas[log].hw for node in self.world.nodes.values() if log in node.replicas]
        return max(there, default=0)
