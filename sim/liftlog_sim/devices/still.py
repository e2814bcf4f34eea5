"""Ports for nodes to which nothing happens by itself: no time passes, and neither NATS nor a client is there.

Whoever holds such a node plugs in the ports that it cares for, and hands over timers like any other event.
"""

from __future__ import annotations

from typing import Any


class StillWorld:
    """`Bus`, `ClientReplies`, `Clock` and `Random`."""

    def _nothing(self, *asked: Any) -> None:
        pass

    subscribe = unsubscribe = drain = acknowledge = staged = fast = refuse = publish = reply = _nothing

    def monotonic_ms(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def uniform(self, low: float, high: float) -> float:
        return high

    def bits(self, count: int) -> int:
        return 0


STILL = StillWorld()
