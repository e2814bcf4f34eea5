"""Who holds up the others: how quick each replica is, judged once a tick (R17, R18).

A record is committed when the last member of the ISR has it, so that one slow disk, or one process that is
stopped now and then, is everybody's latency long before it lags far behind (R11).

Nothing is measured for each message. At a tick the leader sees how far every copy is durable, its own too.
What *most* of the ISR has (the median, which one slow copy does not move) and a member lacks waits for that
member; what nobody has waits for the disks and the network of all. By Little's law the number of records that
wait, divided by how many come in a tick, is for how long they wait, in ticks: so a wait of 30 ms shows in
samples that are 100 ms apart, and no clock is read. A member is *late* at a tick if records wait for it for
longer than `replica_slow_ms` and more than twice as long as for most.

One late tick says nothing. Each adds to a member's debt, each other one takes a quarter of one off: who has
been late for `PATIENCE_MS`, or for a good part of a longer time, is slow.

Out of the ISR the same is measured, with half of what is allowed inside: to come back a replica has to be on
time for its whole probation, and each late tick costs ten. The group's record counts the removals of each
replica, `slow`, so that a new leader knows whom it has to do with. Each removal doubles the probation, up to
a limit. After a long good time in the ISR the count is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping

from liftlog.core.context import Context
from liftlog.core.metadata.records import PartitionState

PATIENCE_MS = 1000
"""R17: for so long a replica may hold up the others."""
LATE_WEIGHT = 4
"""A late tick weighs as much as so many good ones."""
KNOWN_LATE_TICKS = 3
"""Who is known to be slow and in the ISR when a leader begins has so many late ticks left."""
RELAPSE_WEIGHT = 10
"""R18: a late tick costs so many ticks of a probation, or of a long good time."""
SMOOTHING = 8
"""The rate at which records come is an average of about so many ticks."""
WAIT_FACTOR = 2
"""A replica is late if records wait for it so many times as long as for most."""
FORGET_FACTOR = 2
"""R18: removals are forgotten after so many times the longest probation."""


class Pace:
    """What the leader of one epoch knows of the pace of the replicas. See the module.

    `debts`: of members of the ISR, in quarters of late ticks. `good_ticks`: of those that the group knows to
    be slow, for how long they have kept up where they are now, inside or outside.
    """

    __slots__ = ("_come", "_ctx", "_inside", "_leo", "_rate", "debts", "good_ticks")

    def __init__(self, ctx: Context, record: PartitionState, leo: int) -> None:
        self._ctx = ctx
        self._leo = leo
        self._come = 0
        self._rate = 0
        """Records in a tick, times SMOOTHING."""
        known = self._limit - KNOWN_LATE_TICKS * LATE_WEIGHT
        self.debts = {node: max(0, known) for node in record.isr if node in record.slow}
        self.good_ticks: dict[int, int] = {}
        self._inside = record.isr

    def view(self, record: PartitionState) -> None:
        """Whoever has come or gone begins anew, at once: what it did inside says nothing of it outside."""
        for node in record.replicas:
            if (node in record.isr) != (node in self._inside):
                self.debts.pop(node, None)
                self.good_ticks.pop(node, None)
            elif node not in record.slow:
                self.good_ticks.pop(node, None)
        self._inside = record.isr

    # -- time -------------------------------------------------------------------------------------

    def tick(self, record: PartitionState, leo: int, hw: int) -> bool:
        """See how many records come. Whether there is anything to weigh."""
        self._come, self._leo = leo - self._leo, leo
        self._rate += self._come - self._rate // SMOOTHING
        return leo > hw or bool(self.debts) or bool(record.slow)

    def weigh(self, record: PartitionState, leo: int, hw: int, reached: Mapping[int, int]) -> None:
        """Who is late at this tick. `reached`: the durable LEO of each replica that was heard of lately."""
        ends = sorted([reached.get(node, -1) for node in record.isr], reverse=True)
        most = ends[len(ends) // 2]
        allowed = self._ctx.config.replica_slow_ms * max(self._rate, self._come * SMOOTHING)
        for node in record.isr:
            behind = most - max(hw, reached.get(node, -1))
            late = self._is_late(behind, allowed, WAIT_FACTOR * (leo - most))
            self._owe(node, late)
            if node in record.slow:
                self._kept_up(node, late)
        for node in record.slow:
            if node not in record.isr:
                behind = most - reached.get(node, -1)
                late = node not in reached or self._is_late(2 * behind, allowed, WAIT_FACTOR * (leo - most))
                self._kept_up(node, late)

    def _is_late(self, behind: int, allowed: int, others: int) -> bool:
        return behind > others and behind * self._ctx.config.tick_ms * SMOOTHING > allowed

    def _owe(self, node: int, late: bool) -> None:
        debt = self.debts.get(node, 0)
        if late:
            self.debts[node] = min(debt + LATE_WEIGHT, self._limit)
        elif debt > 1:
            self.debts[node] = debt - 1
        elif debt:
            del self.debts[node]

    def _kept_up(self, node: int, late: bool) -> None:
        good = self.good_ticks.get(node, 0)
        self.good_ticks[node] = max(0, good - RELAPSE_WEIGHT) if late else good + 1

    # -- what follows from it ---------------------------------------------------------------------

    @property
    def _limit(self) -> int:
        return LATE_WEIGHT * self._ctx.ticks_of(PATIENCE_MS)

    def is_slow(self, node: int) -> bool:
        """R17: whether this member has held up the others for too long."""
        if node not in self.debts or not self._ctx.config.replica_slow_ms:
            return False
        return self.debts[node] >= self._limit

    def probation_ticks(self, removals: int) -> int:
        """R18: for how long one that was removed so often has to keep up before it may come back."""
        config = self._ctx.config
        doubled = config.replica_probation_ms << min(max(removals - 1, 0), 20)
        return self._ctx.ticks_of(min(doubled, config.replica_probation_max_ms))

    def has_served(self, node: int, removals: int) -> bool:
        """R18: whether one that was removed so often may come back."""
        return self.good_ticks.get(node, 0) >= self.probation_ticks(removals)

    def is_forgotten(self, node: int) -> bool:
        """R18: whether this member has kept up for so long that its removals are to be forgotten."""
        limit = FORGET_FACTOR * self._ctx.config.replica_probation_max_ms
        return self.good_ticks.get(node, 0) >= self._ctx.ticks_of(limit)
