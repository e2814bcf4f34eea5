"""Streams that overlap: now and then a silent one stores what another one answers (N9)."""

from __future__ import annotations

from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws

COPY_SHARE = 0.15
"""Share of worlds in which two streams overlap."""


def with_copy(draws: Draws, streams: tuple[StreamConfig, ...]) -> tuple[StreamConfig, ...]:
    """The streams of a world, perhaps with a silent copy that also takes messages of its own."""
    if draws.random() >= COPY_SHARE or not streams:
        return streams
    first = streams[0]
    subject = f"{first.subject.partition('.')[0]}.*"
    factor = draws.randrange(1, first.replication_factor + 1)
    return (*streams, StreamConfig("copy", subject, 1, factor, ack_reply=False))
