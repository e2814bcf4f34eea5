"""What mirrors lack of what their origins have (R28)."""

from __future__ import annotations

from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.origins import origin_of
from liftlog.types import PartitionId
from liftlog_sim.world import World


def behind(world: World, newest: Metadata) -> str:
    """Which mirror's partition is not as long as its origin's; empty if all are."""
    for stream in newest.streams.values():
        origin = origin_of(newest, stream) if stream.config.mirrors else None
        if origin is None:
            continue
        for partition in stream.partitions:
            source = PartitionId(origin.id, partition.index)
            ends = [world.account.truth(log).hw for log in (source, partition)]
            if ends[0] != ends[1]:
                return f"mirror {partition} is committed up to {ends[1]}, its origin up to {ends[0]}"
    return ""
