"""A client that cannot wait: as soon as somebody was told that a message is deleted, the leader is asked for
a consumer that begins with the last message of each subject (K1).

A leader tells of a deletion once it is committed, and may yet have to read it in its journal. So this client
is there where journals are read slowly and consumers are deleted and created all the time; elsewhere whoever
leads has heeded all by the time that anybody asks.
"""

from __future__ import annotations

from liftlog.messages import DELIVER_LASTS, ConsumerConfig
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.consuming import ConsumingClient
from liftlog_sim.workload.following import FollowingClient
from liftlog_sim.workload.grouped import GroupedClient
from liftlog_sim.workload.succeeding import SucceedingClient
from liftlog_sim.workload.targets import Target

PREFIX = "eager-"
"""Each consumer has a name of its own: nobody else has asked for it, and knew less (`truth/consumers.py`)."""
LASTS = ConsumerConfig(ack_wait_ms=2000, deliver=DELIVER_LASTS)


class EagerClient(FollowingClient):
    """One of them."""

    __slots__ = ("_told",)

    name = "eager"
    looks_us = 10 * MILLISECOND

    def __init__(self, shared: Clientele) -> None:
        super().__init__(shared)
        self._told: dict[Target, int] = {}

    def config(self, target: Target, name: str) -> ConsumerConfig:
        return LASTS

    def _look_at(self, target: Target) -> None:
        told = self._account.deletions(target.partition).told
        before, self._told[target] = self._told.get(target, 0), told
        if told > before:
            turn = self._turn()
            self._create(target, f"{PREFIX}{turn.number}", turn)

    def _is_there(self, target: Target, name: str, number: int) -> None:
        """It has told what it was made for."""
        self._delete(target, name, self._turn())


def clients_of_few(shared: Clientele) -> list[ConsumingClient]:
    """The clients of consumers that there are in some worlds only."""
    knobs = shared.cluster.knobs
    grouped: list[ConsumingClient] = [GroupedClient(shared, number) for number in range(knobs.grouped)]
    eager: list[ConsumingClient] = [EagerClient(shared)] if knobs.consumers_anew else []
    succeeding: list[ConsumingClient] = [SucceedingClient(shared)] if knobs.asks_heirs else []
    return [*grouped, *eager, *succeeding]
