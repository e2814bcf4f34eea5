"""Ports for nodes to which nothing happens by itself: no time passes, and neither NATS nor a client is there.

Whoever holds such a node plugs in the ports that it cares for, and hands over timers like any other event.
"""

from __future__ import annotations

from liftlog.messages import AckPublishes, RefusePublishes, Subscribe
from liftlog.types import ClientRef, PartitionId


class StillWorld:
    """`Bus`, `ClientReplies`, `Clock` and `Random`."""

    def subscribe(self, request: Subscribe) -> None:
        pass

    def unsubscribe(self, partition: PartitionId) -> None:
        pass

    def drain(self, partition: PartitionId) -> None:
        pass

    def acknowledge(self, acks: AckPublishes) -> None:
        pass

    def refuse(self, refusal: RefusePublishes) -> None:
        pass

    def reply(self, client: ClientRef, reply: object) -> None:
        pass

    def monotonic_ms(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def uniform(self, low: float, high: float) -> float:
        return high

    def bits(self, count: int) -> int:
        return 0


STILL = StillWorld()
