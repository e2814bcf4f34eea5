"""A client that cannot wait for a new leader: whoever begins to lead is asked at once, and again until it
does so, for a consumer that begins with what is new (K5).

A leader that does not know yet what of its log was committed before it was elected would have it begin with
what somebody was told long ago to be stored. It does know within a round trip, so nobody else comes in time.
"""

from __future__ import annotations

from liftlog.messages import DELIVER_NEW, ConsumerConfig
from liftlog_sim.chance.chances import Turn
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.consuming import ConsumingClient
from liftlog_sim.workload.targets import Target

LOOKS_US = 5 * MILLISECOND
ASKED_MOST = 40
"""So often each leader is asked."""
PREFIX = "heir-"
"""Each request has a name of its own: an answer to an earlier one tells nothing of what was known later."""
NEW = ConsumerConfig(ack_wait_ms=2000, deliver=DELIVER_NEW)


class SucceedingClient(ConsumingClient):
    """One of them. What it draws has names of its own."""

    __slots__ = ("_asked", "_count", "_epochs")

    def __init__(self, shared: Clientele) -> None:
        super().__init__(shared, 0)
        self._count = 0
        self._epochs: dict[Target, int] = {}
        self._asked: dict[Target, int] = {}
        """How often the leader of that epoch was asked so far."""

    def called(self, number: int) -> str:
        return f"succeeding/{number}"

    def config(self, target: Target, name: str) -> ConsumerConfig:
        return NEW

    def start(self) -> None:
        self.kernel.after(LOOKS_US, self._look)

    def _look(self, first: object, second: object) -> None:
        if self._shared.stopping:
            return
        self.kernel.after(LOOKS_US, self._look)
        for target in self._shared.targets:
            if target.config.has_journal and not target.config.goes_when_done:
                self._look_at(target)

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

    def _turn(self) -> Turn:
        """No plan states it: it follows from what others do."""
        self._count += 1
        chances, client = self._cluster.chances, self.called(0)
        draws = chances.draws(client, self._count)
        return Turn(chances, client, self._count, self.kernel.now_us, draws, "", 0)
