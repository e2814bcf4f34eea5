"""What the leader of a partition tells whoever listens, as it happens and without an answer: what no door of
JetStream's learns, since nobody asks one (ADR 0091).

Only of streams of one partition: elsewhere an offset does not say which message is meant.
"""

from __future__ import annotations

from collections.abc import Iterable

from liftlog.core.consumers.flight import Flight
from liftlog.core.replica.state import LogState
from liftlog.messages import TOLD_MAX_DELIVERIES, TellAdvisory


class Advisories:
    """Of one leader. `data`: its partition."""

    __slots__ = ("_data",)

    def __init__(self, data: LogState) -> None:
        self._data = data

    def given_up(self, flight: Flight, offsets: Iterable[int]) -> None:
        """K6: these were delivered as often as they may be, and were not acked."""
        config = self._data.config
        if config is None or config.partitions != 1:
            return
        name = flight.consumer.name
        for offset in offsets:
            count = flight.count(offset)
            effect = TellAdvisory(TOLD_MAX_DELIVERIES, config.name, name, offset, count)
            self._data.ctx.effects.append(effect)
