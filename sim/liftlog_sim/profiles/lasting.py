"""Worlds that last: what they store is kept short, as in a cluster that is meant to live for long.

A usual world is over before anything of it weighs, so that its streams may keep all, and its metadata group
may keep its log. In a world of an hour every process that starts would read all of both again.
"""

from __future__ import annotations

import msgspec

from liftlog.types import StreamConfig
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.kernel import SECOND

USUAL_US = 300 * SECOND
"""What takes longer lasts."""
ENTRIES = 200
"""M1p: so many entries the group applies between two snapshots, if it took none otherwise."""
SPAN = 256
"""M3: within so many entries a command means something, and its result is remembered, at most."""
MESSAGES, OF_A_SEGMENT = 500, 50
"""So many messages a stream keeps that kept all."""


def kept_short(knobs: Knobs) -> Knobs:
    """This world, if it is a usual one; else with a bound on what its nodes store."""
    if knobs.duration_us <= USUAL_US:
        return knobs
    entries = knobs.snapshot_entries if knobs.takes_snapshots else ENTRIES
    return msgspec.structs.replace(
        knobs,
        snapshot_entries=entries,
        proposal_span=min(knobs.proposal_span, SPAN),
        streams=tuple(_bounded(one) for one in knobs.streams),
    )


def _bounded(stream: StreamConfig) -> StreamConfig:
    """Compacted ones are short, and what goes in other ways has rules of its own."""
    if stream.compact or stream.has_journal or stream.remembers_ms or not stream.retention.unlimited:
        return stream
    return msgspec.structs.replace(
        stream, retention_messages=MESSAGES, segment_records=stream.segment_records or OF_A_SEGMENT
    )
