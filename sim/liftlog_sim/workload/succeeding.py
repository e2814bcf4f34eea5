"""A client that cannot wait for a new leader: whoever begins to lead is asked at once, and again until it
does so, for a consumer that begins with what is new (K5).

A leader that does not know yet what of its log was committed before it was elected would have it begin with
what somebody was told long ago to be stored. It does know within a round trip, so nobody else comes in time.
"""

from __future__ import annotations

from liftlog.messages import DELIVER_NEW, ConsumerConfig
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.following import FollowingClient
from liftlog_sim.workload.targets import Target

ASKED_MOST = 40
"""So often each leader is asked."""
PREFIX = "heir-"
"""Each request has a name of its own: an answer to an earlier one tells nothing of what was known later."""
NEW = ConsumerConfig(ack_wait_ms=2000, deliver=DELIVER_NEW)


class SucceedingClient(FollowingClient):
    """One of them."""

    __slots__ = ("_asked", "_epochs")

    name = "succeeding"
    looks_us = 5 * MILLISECOND

    def __init__(self, shared: Clientele) -> None:
        super().__init__(shared)
        self._epochs: dict[Target, int] = {}
        self._asked: dict[Target, int] = {}
        """How often the leader of that epoch was asked so far."""

    def config(self, target: Target, name: str) -> ConsumerConfig:
        return NEW

    def _look_at(self, target: Target) -> None:
        leaders = self._account.truth(target.partition).leaders
        epoch = max(leaders, default=0)
        if epoch != self._epochs.get(target, 0):
            self._epochs[target], self._asked[target] = epoch, 0
        if self._asked.get(target, ASKED_MOST) < ASKED_MOST:
            self._asked[target] += 1
            turn = self._turn()
            self._create(target, f"{PREFIX}{turn.number}", turn)

    def _is_there(self, target: Target, name: str, number: int) -> None:
        """This leader knows what it has."""
        self._asked[target] = ASKED_MOST
        self._delete(target, name, self._turn())
