"""R28, R29: streams of other clusters, as configurations name them: `orders@east`.

What stands behind the "@" is what the nodes' configurations call the other cluster. Which stream that is the
copy's own configuration says (`origins`), once and for ever: the other cluster's birth or recovery (M5),
and the stream's id there (I1), as in `1-3f2a90c41d77/12`. A source that was given later, or was taken away
(R29), is written there too, if it is of this cluster: `/12`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET

from liftlog.messages import intake
from liftlog.messages.copying import elsewhere
from liftlog.types import StreamConfig


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


def _far(names: Iterable[str]) -> list[str]:
    """Those of other clusters."""
    return [name for name in names if elsewhere(name) is not None]


def elsewhere_of(config: StreamConfig) -> list[str]:
    """What it copies of other clusters, as it calls that."""
    sources = () if config.sources is UNSET else config.sources
    return _far([config.mirrors, *(name for name, _ in sources)])


def place_key(config: StreamConfig, name: str) -> int | None:
    """R29: by what the position in a source of another cluster is called: -1 is the one that was named first.
    None: it is no source. Those of this cluster are called by their ids.
    """
    named = _far(called for called, _ in (() if config.origins is UNSET else config.origins))
    far = [*named, *(one for one in elsewhere_of(config) if one not in named)]
    return -1 - far.index(name) if name in far else None


def named_origin(config: StreamConfig, name: str) -> str:
    """The identity of an origin that it copies, and calls so; empty: none is named yet."""
    return "" if config.origins is UNSET else dict(config.origins).get(name, "")


def naming(config: StreamConfig, name: str, found: str) -> tuple[tuple[str, str], ...]:
    """All that it names, with one more."""
    return (*(() if config.origins is UNSET else config.origins), (name, found))


def naming_problem(config: StreamConfig, origins: Sequence[tuple[str, str]]) -> str:
    """Why these cannot be what a stream copies, or has copied; empty if they can."""
    there = () if config.origins is UNSET else config.origins
    if not origins and not there:
        return ""
    names, known = [name for name, _ in origins], dict(origins)
    more = [name for name in names if name not in dict(there)]
    if len(known) < len(names) or any(name not in elsewhere_of(config) for name in more):
        return "origins says of streams of other clusters which ones they are, once of each that is copied"
    for name, identity in there:
        if known.get(name) != identity:
            return (
                f"what stream {config.name!r} calls {name!r} is {identity} for ever, and not "
                f"{known.get(name)}: remove the stream, and make another one"
            )
    return ""


def unfit(copy: StreamConfig, called: str, origin: StreamConfig) -> str:
    """Why this cannot be an origin of a copy that names none yet; empty if it can."""
    if origin.partitions == copy.partitions:
        return ""
    name = copy.name
    remedy = f"liftlog stream alter {name} --partitions {origin.partitions}"
    if origin.partitions < copy.partitions:
        remedy = f"liftlog stream rm {name}, and create it with --partitions {origin.partitions}"
    return (
        f"a copy has as many partitions as its origin: {called!r} has {origin.partitions}, and not "
        f"{copy.partitions}; {remedy}"
    )


def another(copy: StreamConfig, called: str, found: str) -> str:
    """Why nothing is copied of a stream that is not the one that was named."""
    end = "mirror" if copy.mirrors else "sources"
    return (
        f"{called!r} is {found} now, and this copies {named_origin(copy, called)}, which was removed, or "
        "whose cluster was recovered or made anew: what it has of that stays; to write to it: liftlog stream "
        f"alter {copy.name} --no-{end}; to copy the other one, remove it and make it again"
    )
