"""Worlds whose streams begin elsewhere than at offset 0 (C7)."""

from __future__ import annotations

import msgspec

from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.profiles.batched import batched
from liftlog_sim.profiles.quiet import QUIET_PROFILES

BEGUN = 0.15
"""In so many worlds of this release alone they do."""


def begun(seed: int, knobs: Knobs) -> tuple[StreamConfig, ...]:
    """The streams of a world, which perhaps take batches, and perhaps begin later. Drawn apart from all that
    is drawn before.
    """
    streams, draws = batched(seed, knobs), Draws(seed, "first offsets")
    if knobs.profile in QUIET_PROFILES or knobs.mixed_releases or knobs.sick_from_us:
        return streams
    if draws.random() >= BEGUN:
        return streams
    first = draws.choice((1, 7, 100, 300))
    return tuple(msgspec.structs.replace(stream, first_offset=first) for stream in streams)
