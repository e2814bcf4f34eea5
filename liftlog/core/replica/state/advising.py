"""What the leader of a partition tells whoever listens, as it happens and without an answer: what no door of
JetStream's learns, since nobody asks one (ADR 0091).

Only of streams of one partition: elsewhere an offset does not say which message is meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from liftlog.core.consumers.flight import Flight
from liftlog.core.consumers.pullroom import Pin
from liftlog.core.replica.state.log import LogState
from liftlog.messages import TOLD_BATCH, TOLD_MAX_DELIVERIES, TOLD_PINNED, TOLD_UNPINNED, TellAdvisory


class Advisories:
    """Of one leader. `data`: its partition."""

    __slots__ = ("_data",)

    def __init__(self, data: LogState) -> None:
        self._data = data

    def given_up(self, flight: Flight, offsets: Iterable[int]) -> None:
        """K6: these were delivered as often as they may be, and were not acked."""
        for offset in offsets:
            self._tell(TOLD_MAX_DELIVERIES, flight, offset=offset, count=flight.count(offset))

    def pinned(self, flight: Flight, pin: Pin) -> None:
        """K10: a client is pinned."""
        self._tell(TOLD_PINNED, flight, group=pin.group, pin=pin.id)

    def unpinned(self, flight: Flight, pin: Pin, reason: str) -> None:
        """K10: it is so no more."""
        self._tell(TOLD_UNPINNED, flight, group=pin.group, reason=reason)

    def abandoned(self, batch: bytes, reason: str) -> None:
        """L11: a batch is given up."""
        self._tell(TOLD_BATCH, batch=batch.decode("ascii", "backslashreplace"), reason=reason)

    def _tell(self, kind: str, flight: Flight | None = None, **told: Any) -> None:
        config = self._data.config
        if config is not None and config.partitions == 1:
            consumer = flight.consumer.name if flight is not None else ""
            self._data.ctx.effects.append(TellAdvisory(kind, config.name, consumer, **told))
