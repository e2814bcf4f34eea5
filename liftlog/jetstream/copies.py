"""What a stream copies, as JetStream says it: `sources` or `mirror`, and how far it is with each.

Such a stream takes nothing else (R28, R29), so it has no subjects of its own here, and what acts on messages
that are published is refused beside. liftlog's streams all have a subject: this one's is told to nobody.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from liftlog.jetstream.answers import rfc3339
from liftlog.jetstream.consumerconfigs import milliseconds
from liftlog.jetstream.dispatch import Room
from liftlog.jetstream.errors import (
    FILTER_INVALID,
    MIRROR_AND_FIRST,
    MIRROR_AND_SOURCES,
    MIRROR_AND_SUBJECTS,
    MIRROR_NAME_INVALID,
    SOURCE_NAME_INVALID,
    SOURCE_TWICE,
    STREAM_INVALID,
    STREAM_NOT_FOUND,
    Fault,
)
from liftlog.messages import StreamInfo
from liftlog.messages.copying import Elsewhere, Start, elsewhere, is_meant, start_in
from liftlog.subjects.grammar import subject_problem
from liftlog.types import StreamConfig

SUBJECT_PREFIX = "liftlog.copies."
"""Before a stream's name: the subject of one that copies others. Whoever publishes there is told where to."""
HEARD_NOTHING = -1
"""In place of the time since a source was last heard of."""


class JsSource(msgspec.Struct, forbid_unknown_fields=True):
    """One of a stream's sources, or what it mirrors, as clients send it."""

    name: str = ""
    filter_subject: str | None = None
    opt_start_seq: int | None = None
    opt_start_time: str | None = None
    external: External | None = None
    subject_transforms: list[Any] | None = None
    consumer: dict[str, Any] | None = None


class External(msgspec.Struct):
    """A JetStream elsewhere. `api`: what its calls begin with, `$JS.<domain>.API`."""

    api: str = ""
    deliver: str = ""


class SourceAnswer(msgspec.Struct):
    """The same in a configuration that is told."""

    name: str
    opt_start_seq: int | UnsetType = UNSET
    opt_start_time: str | UnsetType = UNSET
    filter_subject: str | UnsetType = UNSET
    external: External | UnsetType = UNSET


class SourceError(msgspec.Struct):
    """Why nothing comes of a source."""

    code: int
    err_code: int
    description: str


class SourceState(msgspec.Struct):
    """How far a stream is with what it copies: `lag` messages are to come. `active`: ns since it was heard
    of.
    """

    name: str
    lag: int = 0
    active: int = HEARD_NOTHING
    filter_subject: str | UnsetType = UNSET
    external: External | UnsetType = UNSET
    error: SourceError | UnsetType = UNSET


NOT_THERE = {
    "subject_transforms": "subjects stay what they are",
    "consumer": "it is read as readers read it",
}
"""Fields of a source, or a mirror, that are refused if they ask for anything, and what is so here."""
BESIDE: dict[str, str] = {
    "subjects": "such a stream takes nothing else",
    "duplicate_window": "messages that are copied are not told apart by their ids; leave it out, or say 0",
    "max_msg_size": "it was minded where they were published",
    "max_msgs_per_subject": "leave limits by subject to what is copied",
    "allow_rollup_hdrs": "messages were rolled up where they were published",
    "allow_msg_ttl": "messages expire where they were published",
    "subject_delete_marker_ttl": "markers are made where messages were published",
    "allow_atomic": "nothing is published to it",
}
"""Fields that a stream that copies others cannot have, and why."""
_DOMAIN = re.compile(r"\$JS\.([A-Za-z0-9_-]{1,64})\.API")
NONE_OF_IT: tuple[object, ...] = (None, False, 0, -1, [])


class Copied(NamedTuple):
    """What a stream is to copy, as the core has it: `mirror`, or `sources`, or nothing; where that begins."""

    mirror: str = ""
    sources: tuple[tuple[str, str], ...] = ()
    starts: tuple[tuple[str, str], ...] = ()
    mirror_filter: str = ""


def wanted_copies(config: Any) -> Copied:
    """What a stream of this `JsStreamConfig` is to copy. Raises JsError."""
    mirror: JsSource | None = config.mirror
    sources: list[JsSource] = config.sources or []
    if mirror is not None and sources:
        raise MIRROR_AND_SOURCES.because()
    if mirror is not None:
        _check(mirror, "a mirror", MIRROR_NAME_INVALID)
        if config.subjects:
            raise MIRROR_AND_SUBJECTS.because()
        if config.first_seq:
            raise MIRROR_AND_FIRST.because()
        _check_beside(config, "mirror")
        return Copied(_called(mirror), starts=_starts([mirror]), mirror_filter=mirror.filter_subject or "")
    told = [(_called(one), one.filter_subject or "") for one in sources]
    for one, pair in zip(sources, told, strict=True):
        _check(one, "a source", SOURCE_NAME_INVALID)
        if told.count(pair) > 1:
            raise SOURCE_TWICE.because()
    if sources:
        _check_beside(config, "sources")
    return Copied(sources=tuple(told), starts=_starts(sources))


def _called(source: JsSource) -> str:
    """What liftlog calls it: `orders@east` if it is of the domain `east`. Raises JsError."""
    if source.external is None or source.external == External():
        return source.name
    domain = _DOMAIN.fullmatch(source.external.api)
    if domain is None or source.external.deliver:
        raise STREAM_INVALID.because(
            f"external of {source.name!r} is not supported as it is: say api = '$JS.<domain>.API' and no "
            "deliver, where the domain is what the nodes' configurations call the other cluster "
            "([clusters.<domain>])"
        )
    return str(Elsewhere(source.name, domain[1]))


def refuse_unknown(config: StreamConfig, known: tuple[str, ...] | None) -> None:
    """Raises JsError where it copies a stream of a cluster of which this door's node has never heard."""
    if known is None:
        return
    sources = () if config.sources is UNSET else config.sources
    for name in (config.mirrors, *(name for name, _ in sources)):
        place = elsewhere(name)
        if place is not None and place.cluster not in known:
            raise STREAM_INVALID.because(
                f"external: no domain {place.cluster!r} is known here: name that cluster in the nodes' "
                f"configurations ([clusters.{place.cluster}])"
            )


def _starts(sources: list[JsSource]) -> tuple[tuple[str, str], ...]:
    """Where they begin, of those that say it. Raises JsError."""
    found = []
    for one in sources:
        start = Start(offset=one.opt_start_seq - 1 if one.opt_start_seq else 0)
        if one.opt_start_time and one.opt_start_seq:
            text = f"opt_start_seq and opt_start_time of {one.name!r} exclude each other"
            raise STREAM_INVALID.because(text)
        if one.opt_start_time:
            start = Start(time_ms=max(1, milliseconds(one.opt_start_time)))
        if start != Start():
            found.append((_called(one), str(start)))
    return tuple(found)


def _check(source: JsSource, what: str, nameless: Fault) -> None:
    """Raises JsError for one that cannot be."""
    if not source.name or subject_problem(source.name) or set(source.name) & set("*.>/\\ "):
        raise nameless.because()
    pattern = source.filter_subject or ""
    if pattern and (problem := subject_problem(pattern)):
        raise FILTER_INVALID.because(f"subject filter {pattern!r} for the source: {problem}")
    for field, why in NOT_THERE.items():
        if getattr(source, field) not in NONE_OF_IT:
            raise STREAM_INVALID.because(f"{field} of {what} is not supported: {why}")


def _check_beside(config: Any, what: str) -> None:
    """Raises JsError for a field that a stream with this one cannot have."""
    for field, why in BESIDE.items():
        if getattr(config, field) not in NONE_OF_IT:
            raise STREAM_INVALID.because(f"{field} and {what} exclude each other here: {why}")
    if config.retention != "limits":
        raise STREAM_INVALID.because(f"{what} with retention {config.retention!r} is not supported")
    if config.discard == "new" and max(config.max_msgs, config.max_bytes) > 0:
        text = f"a limit with discard 'new' and {what} exclude each other here"
        raise STREAM_INVALID.because(f"{text}: nothing that is copied is refused; use discard 'old'")


def is_copy(config: StreamConfig) -> bool:
    """Whether a stream has what others have, and takes nothing."""
    return bool(config.mirrors) or config.sources is not UNSET


def as_the_origin(config: StreamConfig, there: list[StreamInfo]) -> StreamConfig:
    """A mirror begins where its origin does; any other stream where it says."""
    origin = next((one.config for one in there if one.config.name == config.mirrors), None)
    if origin is None:
        return config
    return msgspec.structs.replace(config, first_offset=origin.first_offset)


def told_mirror(config: StreamConfig) -> SourceAnswer | UnsetType:
    """What a stream mirrors, as JetStream tells it."""
    if not config.mirrors:
        return UNSET
    return _told(config, config.mirrors, config.mirror_filter or "")


def _told(config: StreamConfig, called: str, filter: str) -> SourceAnswer:
    """One that it copies."""
    start, (name, external) = start_in(config, called), _told_name(called)
    return SourceAnswer(
        name,
        start.offset + 1 if start.offset else UNSET,
        rfc3339(start.time_ms) if start.time_ms else UNSET,
        filter or UNSET,
        external,
    )


def _told_name(called: str) -> tuple[str, External | UnsetType]:
    """Its name, and where else it is."""
    place = elsewhere(called)
    return (called, UNSET) if place is None else (place.stream, External(f"$JS.{place.cluster}.API"))


def told_sources(config: StreamConfig) -> list[SourceAnswer] | UnsetType:
    """The sources of a stream, as JetStream tells them."""
    if config.sources is UNSET:
        return UNSET
    return [_told(config, name, filter) for name, filter in config.sources]


def own_subjects(config: StreamConfig) -> list[str]:
    """What can be published to a stream."""
    return [] if is_copy(config) else list(config.subjects)


async def copied_states(room: Room, info: StreamInfo, behind: dict[str, int]) -> list[SourceState]:
    """How far a stream is with what it copies. `behind`: what its leader knows."""
    sources = () if info.config.sources is UNSET else info.config.sources
    mirrored = (info.config.mirrors, info.config.mirror_filter or "")
    pairs = (mirrored,) if info.config.mirrors else sources
    told = []
    for called, filter in pairs:
        name, external = _told_name(called)
        active = 0 if called in behind else HEARD_NOTHING
        told.append(SourceState(name, behind.get(called, 0), active, filter or UNSET, external))
    if len(behind) < len(told):
        # One that bears such a name, and was created later, is another stream.
        named = {one.config.name: one.id for one in await room.client.streams()}
        said = {} if info.config.origins is UNSET else dict(info.config.origins)
        there = {name for name, id in named.items() if is_meant(info.id, said.get(name, ""), id)}
        missing = STREAM_NOT_FOUND
        for one in told:
            if one.name not in there and one.external is UNSET:
                one.error = SourceError(missing.code, missing.err_code, missing.sentence)
    return told
