"""Worlds whose streams take batches (L11)."""

from __future__ import annotations

import msgspec

from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.profiles.quiet import QUIET_PROFILES

BATCHED = 0.15
"""In so many worlds of this release alone they do."""


def batched(seed: int, knobs: Knobs) -> tuple[StreamConfig, ...]:
    """The streams of a world, which perhaps take batches. Drawn apart from all that is drawn before."""
    draws = Draws(seed, "batches")
    if knobs.profile in QUIET_PROFILES or knobs.mixed_releases or knobs.sick_from_us:
        return knobs.streams
    if draws.random() >= BATCHED:
        return knobs.streams
    return tuple(
        stream if stream.mirrors else msgspec.structs.replace(stream, allow_batches=True)
        for stream in knobs.streams
    )
