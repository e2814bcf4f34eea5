"""Streams that overlap: now and then a silent one stores what another one answers (N9), or two share what
comes (N11).
"""

from __future__ import annotations

import msgspec

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


SHARED, SHARED_NAME = 0.15, "shared"
"""In so many worlds of this release alone two streams share a subject, in a group of this name."""


def with_mate(draws: Draws, streams: tuple[StreamConfig, ...]) -> tuple[StreamConfig, ...]:
    """The streams of a world, perhaps with one more, which is in one queue group with the first one. Not
    where it matters to clients in which of them a message lies: by what else is there.
    """
    if draws.random() >= SHARED or not streams or streams[0].remembers_ms or streams[0].has_journal:
        return streams
    if streams[0].allow_batches is True:
        return streams
    first = msgspec.structs.replace(streams[0], queue_group=SHARED_NAME)
    factor = draws.randrange(1, first.replication_factor + 1)
    mate = StreamConfig("mate", first.subject, 1, factor, ack_reply=first.ack_reply, queue_group=SHARED_NAME)
    return (first, *streams[1:], mate)
