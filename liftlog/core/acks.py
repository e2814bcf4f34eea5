"""What clients say of the messages that they were given, taken up together (K3).

A program that was given a hundred messages acks each, and all these requests lie in the node's socket at
once. Each for itself would be an entry of the journal, a write, and the answer of a sync. So they wait until
all that has come is taken in (`TIMER_ACKS` is due at once, behind it), or until another request comes, which
may rest on them. Those of one partition are then one entry, as far as they say the same.
"""

from __future__ import annotations

from liftlog.messages import TIMER_ACKS, ClientRequest, Effect, SetTimer, SettleRequest
from liftlog.types import ClientRef, PartitionId

Asked = tuple[ClientRef, SettleRequest]


class Acks:
    """Those of one node that have come and are not taken up yet. Bounded by what one wake-up takes in."""

    __slots__ = ("_effects", "_waiting")

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._waiting: list[Asked] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, event: ClientRequest) -> bool:
        """Whether this is one, and waits now."""
        request = event.request
        if not isinstance(request, SettleRequest):
            return False
        if not self._waiting:
            self._effects.append(SetTimer(TIMER_ACKS, 0, 0))
        self._waiting.append((event.client, request))
        return True

    def take(self) -> dict[PartitionId, list[Asked]]:
        """All of them, by partition, in the order in which they came."""
        waiting, self._waiting = self._waiting, []
        found: dict[PartitionId, list[Asked]] = {}
        for one in waiting:
            found.setdefault(one[1].partition, []).append(one)
        return found
