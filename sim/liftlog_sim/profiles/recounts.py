"""Worlds whose activity is told in a stream (N12)."""

from __future__ import annotations

import msgspec

from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.profiles.settings import base_knobs, draw_streams

ACTIVITY = "activity"
TOLD_IN = ("growing", "moves", "replacements", "elections", "kills")
TOLD = 0.1
"""In so many worlds of these profiles it is told, too."""


def activity(draws: Draws) -> Knobs:
    """Streams come and go, nodes too, and so do the leaders of the stream that tells of it. In most worlds
    the metadata has room for few events, and snapshots of it are taken after few commands.
    """
    return base_knobs(
        draws,
        nodes=draws.choice((3, 3, 4)),
        streams=draw_streams(draws, 3, 1),
        names=draws.choice((2, 3)),
        activity_interval_us=draws.choice((500, 1000, 2000)) * MILLISECOND,
        activity_room=draws.choice((2, 3, 6, 20, 4096)),
        snapshot_entries=draws.choice((6, 20, 8192)),
        chunk_records=draws.choice((1, 3, 256)),
        faults=(
            *(("kill", 4), ("power", 3), ("kill_all", 0.5), ("crash_inside", 1), ("stop", 1), ("pause", 2)),
            *(("isolate", 4), ("partition", 3), ("one_way", 2), ("link", 1), ("storm", 1), ("slow_disk", 2)),
            *(("cut_bus", 1), ("sync_failure", 1)),
        ),
        tick_ms=draws.choice((100, 150)),
        hunt_leader=draws.choice((0.0, 0.0, 0.3)),
        fault_interval_us=draws.choice((1000, 2500)) * MILLISECOND,
        fault_duration_us=draws.choice((500, 1500, 3000)) * MILLISECOND,
        publish_interval_us=SECOND,
        publishers=1,
        readers=1,
        read_interval_us=3 * SECOND,
        admin_interval_us=draws.choice((150, 400, 800)) * MILLISECOND,
        alter_interval_us=draws.choice((0, 1000)) * MILLISECOND,
    )


def with_recounts(seed: int, knobs: Knobs) -> Knobs:
    """A world in which perhaps somebody has its activity told. Drawn apart from all that is drawn before."""
    draws = Draws(seed, "activity")
    if knobs.profile not in TOLD_IN or knobs.mixed_releases or draws.random() >= TOLD:
        return knobs
    return msgspec.structs.replace(
        knobs,
        activity_interval_us=draws.choice((1000, 3000)) * MILLISECOND,
        activity_room=draws.choice((5, 50, 4096)),
    )
