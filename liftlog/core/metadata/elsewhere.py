"""R28: streams of other clusters, as configurations name them: `orders@east`.

What stands behind the "@" is what the nodes' configurations call the other cluster. Which stream that is the
mirror's own configuration says (`origins`), once and for ever: the other cluster's birth or recovery (M5),
and the stream's id there (I1), as in `1-3f2a90c41d77/12`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET

from liftlog.messages import intake
from liftlog.types import StreamConfig

AT = "@"


class Elsewhere(NamedTuple):
    """A stream's name, and that of its cluster."""

    stream: str
    cluster: str


def elsewhere(name: str) -> Elsewhere | None:
    """What a name says of another cluster; None: it is of this one."""
    stream, at, cluster = name.rpartition(AT)
    return Elsewhere(stream, cluster) if at else None


def place_problem(name: str) -> str:
    """Why a name can be no stream's of another cluster; empty if it can."""
    place = elsewhere(name)
    if place is None:
        return ""
    if intake.name_problem(place.stream) or intake.name_problem(place.cluster):
        return (
            f"{name!r} names no stream of another cluster: say STREAM@CLUSTER, each of 1 to 64 letters, "
            "digits, '_' or '-'"
        )
    return ""


def identity(cluster: str, stream: int) -> str:
    """Which stream it is, of all that there ever were."""
    return f"{cluster}/{stream}"


def named_origin(config: StreamConfig) -> str:
    """The identity of the origin that this mirror names; empty: none yet."""
    return "" if config.origins is UNSET else dict(config.origins).get(config.mirrors, "")


def naming_problem(config: StreamConfig, origins: Sequence[tuple[str, str]]) -> str:
    """Why these cannot be what a stream copies of other clusters; empty if they can."""
    if not origins and config.origins is UNSET:
        return ""
    if elsewhere(config.mirrors) is None or [name for name, _ in origins] != [config.mirrors]:
        return "origins says which stream a mirror of another cluster's is one of, and nothing else"
    if config.origins not in (UNSET, origins):
        return (
            f"stream {config.name!r} is a mirror of {named_origin(config)} for ever, and not of "
            f"{origins[0][1]}: remove it, and make another one"
        )
    return ""


def unfit(mirror: StreamConfig, origin: StreamConfig) -> str:
    """Why this cannot be the origin of a mirror that names none yet; empty if it can."""
    if origin.partitions == mirror.partitions:
        return ""
    name = mirror.name
    remedy = f"liftlog stream alter {name} --partitions {origin.partitions}"
    if origin.partitions < mirror.partitions:
        remedy = f"liftlog stream rm {name}, and create it with --partitions {origin.partitions}"
    return (
        f"a mirror has as many partitions as its origin: {mirror.mirrors!r} has {origin.partitions}, and not "
        f"{mirror.partitions}; {remedy}"
    )


def another(mirror: StreamConfig, found: str) -> str:
    """Why nothing is copied of a stream that is not the one that was named."""
    return (
        f"{mirror.mirrors!r} is {found} now, and this is a mirror of {named_origin(mirror)}, which was "
        "removed, or whose cluster was recovered or made anew: it keeps what it has; to write to it: liftlog "
        f"stream alter {mirror.name} --no-mirror; to copy the other one, remove it and make it again"
    )
