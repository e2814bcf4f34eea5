"""Which stream a mirror is a copy of (R28), and which ones a stream with sources has (R29).

A copy names its origins, and means these streams for ever (I1). An origin was there when the copy was
created, so its id is the lower one: a stream of that name with a greater id was created later, and is another
one. Of a source that was given later the copy's own configuration says the id (`gathering.py`).
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from liftlog.core.metadata.elsewhere import named_origin, naming_problem, place_key
from liftlog.core.metadata.records import Records, StreamState
from liftlog.messages.copying import elsewhere, is_meant
from liftlog.types import StreamConfig


def creation_problem(records: Records, config: StreamConfig) -> str:
    """Why a stream cannot become this copy now; empty if it can, or is to be none."""
    unnamed = msgspec.structs.replace(config, origins=UNSET)
    if config.origins is not UNSET and (problem := naming_problem(unnamed, config.origins)):
        return problem
    if elsewhere(config.mirrors) is not None:
        return ""  # It may not be reachable now: it is named, and judged, when it answers.
    if not config.mirrors:
        problems = (source_problem(records, config, name) for name in sources_of(config))
        return next((problem for problem in problems if problem), "")
    origin = records.streams.get(config.mirrors)
    if origin is None:
        return f"mirror = {config.mirrors!r}: there is no such stream; see 'liftlog stream ls'"
    if origin.config.partitions != config.partitions:
        return (
            f"a mirror has as many partitions as its origin: {config.mirrors!r} has "
            f"{origin.config.partitions}, and not {config.partitions}"
        )
    if origin.config.first_offset != config.first_offset:
        first = origin.config.first_offset
        remedy = "leave first_offset out" if first is UNSET else f"set first_offset = {first}"
        return f"a mirror begins where its origin does: for one of {config.mirrors!r}, {remedy}"
    return compacted(origin.config)


def sources_of(config: StreamConfig) -> dict[str, str]:
    """R29: by the names of the streams that it copies, the filter, which is empty for all subjects."""
    return {} if config.sources is UNSET else dict(config.sources)


def source_problem(records: Records, config: StreamConfig, name: str) -> str:
    """R29: why this can be no source of a stream now; empty if it can."""
    if elsewhere(name) is not None:
        return ""
    source = records.streams.get(name)
    if source is None:
        return f"source {name!r}: there is no such stream; see 'liftlog stream ls'"
    if source.config.partitions != config.partitions:
        return (
            f"a stream has as many partitions as each of its sources: {name!r} has "
            f"{source.config.partitions}, and not {config.partitions}"
        )
    return compacted(source.config)


def source_of(records: Records, copy: StreamState, name: str) -> StreamState | None:
    """R29: the source of this name; None if it is there no more, or was never there."""
    source = records.streams.get(name)
    return source if source is not None and is_source(copy.id, copy.config, name, source.id) else None


def position_key(records: Records, copy: StreamState, name: str) -> int | None:
    """R29: by what the position in a source is called: its id, or, of another cluster, which of these it is
    (-1: the first that was named); None: it is none, or was removed.
    """
    if elsewhere(name) is not None:
        return place_key(copy.config, name)
    source = source_of(records, copy, name)
    return source.id if source is not None else None


def is_source(copy: int, config: StreamConfig, name: str, found: int) -> bool:
    """R29: whether the stream of this id, which bears the name now, is the source that is meant."""
    return is_meant(copy, named_origin(config, name), found)


def is_origin(mirror: int, found: int) -> bool:
    """Whether the stream of this id, which bears the origin's name now, is what the mirror of that id was
    made of.
    """
    return found < mirror


def origin_of(records: Records, mirror: StreamState) -> StreamState | None:
    """The stream that a mirror copies; None if it is there no more, or was never there."""
    origin = records.streams.get(mirror.config.mirrors)
    return origin if origin is not None and is_origin(mirror.id, origin.id) else None


def standstill(mirror: StreamConfig, origin: StreamConfig | None) -> str:
    """Why a mirror gets nothing more, by the metadata; empty if it does. `origin`: None if it was removed, or
    is of another cluster.
    """
    if origin is None and elsewhere(mirror.mirrors) is None:
        return (
            f"stream {mirror.mirrors!r}, of which it is a mirror, was removed: it keeps what it has; to "
            f"write to it: liftlog stream alter {mirror.name} --no-mirror"
        )
    if mirror.paused:
        return f"it is paused: liftlog stream resume {mirror.name}"
    if mirror.read_only:
        return f"it is read-only: liftlog stream alter {mirror.name} --read-write"
    return compacted(origin) if origin is not None else ""


def source_standstill(copy: StreamConfig, name: str, source: StreamConfig | None) -> str:
    """R29: why nothing more comes of a source, by the metadata; empty if it does. None: it was removed, or is
    of another cluster.
    """
    if source is None and elsewhere(name) is None:
        return f"source {name!r} was removed: what was copied of it stays"
    if copy.paused:
        return f"it is paused: liftlog stream resume {copy.name}"
    if copy.read_only:
        return f"it is read-only: liftlog stream alter {copy.name} --read-write"
    return compacted(source) if source is not None else ""


def compacted(origin: StreamConfig) -> str:
    """Why nothing is copied of a stream that is compacted; empty if it is not."""
    if not origin.compact:
        return ""
    return (
        f"stream {origin.name!r} is compacted: a deletion may be gone there before a copy has it, and the "
        "copy would keep what was deleted; read it with a program, from the beginning"
    )
