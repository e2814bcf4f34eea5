"""Clients of consumers that follow what others do: they look around all the time, and are there at once.

No plan states their turns, which follow from what is stated of others; what they draw has names of its own.
"""

from __future__ import annotations

from liftlog_sim.chance.chances import Turn
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.consuming import ConsumingClient
from liftlog_sim.workload.targets import Target


class FollowingClient(ConsumingClient):
    """One of them. A subclass says how it is called, how often it looks, and what it makes of that."""

    __slots__ = ("_count",)

    name = ""
    looks_us = 0

    def __init__(self, shared: Clientele) -> None:
        self._count = 0
        super().__init__(shared, 0)

    def called(self, number: int) -> str:
        return f"{self.name}/{number}"

    def start(self) -> None:
        self.kernel.after(self.looks_us, self._look)

    def _look(self, first: object, second: object) -> None:
        if self._shared.stopping:
            return
        self.kernel.after(self.looks_us, self._look)
        for target in self._shared.targets:
            if target.config.has_journal and not target.config.goes_when_done:
                self._look_at(target)

    def _look_at(self, target: Target) -> None:
        """Whether there is something to do with this partition, and that."""
        raise NotImplementedError

    def _turn(self) -> Turn:
        """The next one."""
        self._count += 1
        chances, client = self._cluster.chances, self.called(0)
        draws = chances.draws(client, self._count)
        return Turn(chances, client, self._count, self.kernel.now_us, draws, "", 0)
