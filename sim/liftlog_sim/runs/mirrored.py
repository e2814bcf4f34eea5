"""What copies lack of what their origins have: mirrors (R28), and streams with sources (R29)."""

from __future__ import annotations

from msgspec import UNSET

from liftlog.core.metadata.elsewhere import named_origin
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.origins import origin_of, position_key, sources_of
from liftlog.core.metadata.records import StreamState
from liftlog.messages.copying import elsewhere
from liftlog.types import PartitionId
from liftlog_sim.truth.sources import FarSourceTruth
from liftlog_sim.world import World


def behind(world: World, newest: Metadata) -> str:
    """Which mirror's partition is not as long as its origin's, or what of a source is not copied; empty if
    all is there.
    """
    for stream in newest.streams.values():
        if problem := _behind_afar(world, stream):
            return problem
        origin = origin_of(newest, stream) if stream.config.mirrors else None
        if origin is None:
            if problem := _lacking(world, newest, stream):
                return problem
            continue
        for partition in stream.partitions:
            source = PartitionId(origin.id, partition.index)
            ends = [world.account.truth(log).hw for log in (source, partition)]
            if ends[0] != ends[1]:
                return f"mirror {partition} is committed up to {ends[1]}, its origin up to {ends[0]}"
    return ""


def _behind_afar(world: World, stream: StreamState) -> str:
    """What a mirror of another cluster's stream lacks, if that is there."""
    far = world.cluster.far.stream
    if elsewhere(stream.config.mirrors) is None or far is None:
        return ""
    if stream.config.origins is UNSET:
        fits = len(stream.partitions) == len(far.logs)
        return f"mirror {stream.id} names no origin, though {far.identity} answers" if fits else ""
    if named_origin(stream.config, stream.config.mirrors) != far.identity:
        return ""
    for partition in stream.partitions:
        ends = world.account.truth(partition).hw, len(far.logs[partition.index].records)
        if ends[0] != ends[1]:
            return f"mirror {partition} is committed up to {ends[0]}, {far.identity} up to {ends[1]}"
    return ""


def _lacking(world: World, newest: Metadata, stream: StreamState) -> str:
    """What a stream with sources has not of one that is there."""
    wanted = [position_key(newest, stream, name) for name in sources_of(stream.config)]
    for partition in stream.partitions:
        places = world.account.places.get(partition, {})
        for id, source in world.account.sources(partition).items():
            if id not in wanted:
                continue  # It was taken away.
            if isinstance(source, FarSourceTruth):
                far = world.cluster.far.stream
                there = far is not None and source.name == far.identity
            else:
                there = id in newest.by_id
            owed = source.owes(places.get(id, 0), source.end) if there else None
            if owed is not None:
                return f"{partition} has not copied offset {owed} of its source {source.name}"
    return ""
