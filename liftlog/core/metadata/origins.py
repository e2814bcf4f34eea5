"""Which stream a mirror is a copy of (R28).

A mirror names its origin, and means one stream for ever (I1). The origin was there when the mirror was
created, so its id is the lower one: a stream of that name with a greater id was created later, and is another
one.
"""

from __future__ import annotations

from msgspec import UNSET

from liftlog.core.metadata.records import Records, StreamState
from liftlog.types import StreamConfig


def creation_problem(records: Records, config: StreamConfig) -> str:
    """Why a stream cannot become this mirror now; empty if it can, or is to be none."""
    if not config.mirrors:
        return ""
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
    return _compacted(origin.config)


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
    """Why a mirror gets nothing more, by the metadata; empty if it does. `origin`: None if it was removed."""
    if origin is None:
        return (
            f"stream {mirror.mirrors!r}, of which it is a mirror, was removed: it keeps what it has; to "
            f"write to it: liftlog stream alter {mirror.name} --no-mirror"
        )
    if mirror.paused:
        return f"it is paused: liftlog stream resume {mirror.name}"
    if mirror.read_only:
        return f"it is read-only: liftlog stream alter {mirror.name} --read-write"
    return _compacted(origin)


def _compacted(origin: StreamConfig) -> str:
    if not origin.compact:
        return ""
    return (
        f"stream {origin.name!r} is compacted: a deletion may be gone there before a mirror has it, and the "
        "mirror would keep what was deleted; read it with a program, from the beginning"
    )
