"""Worlds whose streams take batches (L11, L12)."""

from __future__ import annotations

import msgspec

from liftlog.core.metadata.limits import limits_problem
from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.profiles.quiet import QUIET_PROFILES

BATCHED = 0.15
"""In so many worlds of this release alone they do."""
FAST = 0.7
"""In so many of these they take fast ones too (L12)."""


def batched(seed: int, knobs: Knobs) -> tuple[StreamConfig, ...]:
    """The streams of a world, which perhaps take batches. Drawn apart from all that is drawn before."""
    draws = Draws(seed, "batches")
    if knobs.profile in QUIET_PROFILES or knobs.mixed_releases or knobs.sick_from_us:
        return knobs.streams
    if draws.random() >= BATCHED:
        return knobs.streams
    fast = Draws(seed, "fast batches").random() < FAST
    return tuple(_taking(stream, fast) for stream in knobs.streams)


def _taking(stream: StreamConfig, fast: bool) -> StreamConfig:
    """The stream, which takes batches, and fast ones if it can."""
    if stream.mirrors:
        return stream
    takes = msgspec.structs.replace(stream, allow_batches=True)
    both = msgspec.structs.replace(takes, allow_fast_batches=True)
    return takes if not fast or limits_problem(both) else both
