"""What of a cluster's activity is not told in its stream (N12)."""

from __future__ import annotations

from liftlog.core.metadata.metadata import Metadata
from liftlog_sim.world import World


def untold(world: World, newest: Metadata) -> str:
    """What the activity stream lacks, or what has not left the metadata; empty if all is told."""
    if not newest.outbox.on:
        return ""
    if newest.outbox.events:
        return f"{len(newest.outbox.events)} events wait for stream {newest.outbox.stream}"
    known = world.account.metadata.activity.get(newest.outbox.stream)
    return known.lacks() if known is not None else ""
