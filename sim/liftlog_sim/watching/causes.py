"""NoFailoverWithoutCause, PromptFailover: what becomes of offices in a world where little happens (N2, M1o).

A pause of half a second, a connection that breaks and is made anew, and a hint about a node that lives are no
reason for an election, neither of a partition's leader nor of the controller, and nobody's session ends by
them. A process that was killed, of which hosts tell, is no leader any more soon, and in no in-sync set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Violation

if TYPE_CHECKING:
    from liftlog_sim.devices.cluster import Cluster

PROMPT_TICKS = 26
"""Of 50 ms each: 1.3 s from a kill to the word of the group that others lead without the dead process. The
lease and its margin, 14, and an election, should that be due, which begins before the lease is over."""


class Causes:
    """Of a quiet world; any other is not judged."""

    __slots__ = ("_account", "_cluster", "active")

    def __init__(self, cluster: Cluster, account: Account) -> None:
        self._cluster = cluster
        self._account = account
        self.active = True
        """Whether the fault phase is not over yet."""

    @property
    def _judging(self) -> bool:
        knobs = self._cluster.knobs
        return self.active and 0 < knobs.quiet_from_us <= self._cluster.kernel.now_us

    def happened(self, what: str) -> None:
        """An office changes hands, or a session ends. Raises Violation if there is no reason for that."""
        if self._judging and not self._cluster.knobs.killed:
            raise Violation("NoFailoverWithoutCause", what)

    def looked(self) -> None:
        """Something was applied: of that it is judged whether there was a reason."""
        self._account.checks.counts["NoFailoverWithoutCause"] += self._judging

    def killed(self, number: int, run: int) -> None:
        """A process dies in a world where others are to take over soon."""
        if self._judging and self._cluster.knobs.killed:
            bound_us = PROMPT_TICKS * self._cluster.knobs.tick_ms * MILLISECOND
            self._cluster.kernel.after(bound_us, self._judge, number, run)

    def _judge(self, number: int, run: int) -> None:
        machine = self._cluster.machines[number]
        newest = self._cluster.newest_metadata()
        if not self.active or machine.up or machine.restarts != run or newest is None:
            return
        self._account.checks.counts["PromptFailover"] += 1
        for partition in newest.partitions.values():
            if (number == partition.leader or number in partition.isr) and len(partition.replicas) > 1:
                limit_ms = PROMPT_TICKS * self._cluster.knobs.tick_ms
                text = f"node {number} was killed {limit_ms} ms ago; {partition.id} is led by node"
                text += f" {partition.leader}, in sync are {list(partition.isr)}"
                self._account.fail(Violation("PromptFailover", text))
