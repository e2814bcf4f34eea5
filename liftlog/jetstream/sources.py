"""A stream's `sources` as JetStream says them, and how far it is with each.

Such a stream takes nothing else (R29), so it has no subjects of its own here, and what acts on messages that
are published is refused beside sources. liftlog's streams all have a subject: this one's is told to nobody.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from liftlog.jetstream.dispatch import Room
from liftlog.jetstream.errors import (
    FILTER_INVALID,
    MIRROR_AND_SOURCES,
    SOURCE_NAME_INVALID,
    SOURCE_TWICE,
    STREAM_INVALID,
    STREAM_NOT_FOUND,
)
from liftlog.messages import StreamInfo
from liftlog.subjects.grammar import subject_problem
from liftlog.types import StreamConfig

SUBJECT_PREFIX = "liftlog.sources."
"""Before a stream's name: the subject of one that has sources. Whoever publishes there is told where to."""
HEARD_NOTHING = -1
"""In place of the time since a source was last heard of."""


class JsSource(msgspec.Struct, forbid_unknown_fields=True):
    """One of a stream's sources, as clients send it."""

    name: str = ""
    filter_subject: str | None = None
    opt_start_seq: int | None = None
    opt_start_time: str | None = None
    external: dict[str, Any] | None = None
    subject_transforms: list[Any] | None = None
    consumer: dict[str, Any] | None = None


class SourceAnswer(msgspec.Struct):
    """The same in a configuration that is told."""

    name: str
    filter_subject: str | UnsetType = UNSET


class SourceError(msgspec.Struct):
    """Why nothing comes of a source."""

    code: int
    err_code: int
    description: str


class SourceState(msgspec.Struct):
    """How far a stream is with a source: `lag` messages are to come. `active`: ns since it was heard of."""

    name: str
    lag: int = 0
    active: int = HEARD_NOTHING
    filter_subject: str | UnsetType = UNSET
    error: SourceError | UnsetType = UNSET


NOT_THERE = {
    "opt_start_seq": "all that a source has is copied",
    "opt_start_time": "all that a source has is copied",
    "external": "sources are streams of the same cluster",
    "subject_transforms": "subjects stay what they are",
    "consumer": "sources are read as readers read them",
}
"""Fields of a source that are refused if they ask for anything, and what is so here."""
BESIDE: dict[str, str] = {
    "subjects": "such a stream takes nothing else",
    "duplicate_window": "messages are not told apart by their ids, which each source has for itself",
    "max_msg_size": "it was minded where they were published",
    "max_msgs_per_subject": "leave limits by subject to the sources",
    "allow_rollup_hdrs": "messages were rolled up where they were published",
    "allow_msg_ttl": "messages expire where they were published",
    "subject_delete_marker_ttl": "markers are made where messages were published",
    "allow_atomic": "nothing is published to it",
}
"""Fields that a stream with sources cannot have, and why."""
NONE_OF_IT: tuple[object, ...] = (None, False, 0, -1, [])


def wanted_sources(config: Any) -> tuple[tuple[str, str], ...]:
    """The sources of a `JsStreamConfig`, as the core has them; none if it has none. Raises JsError."""
    sources: list[JsSource] = config.sources or []
    if not sources:
        return ()
    if config.mirror:
        raise MIRROR_AND_SOURCES.because()
    told = [(one.name, one.filter_subject or "") for one in sources]
    for one, pair in zip(sources, told, strict=True):
        _check(one)
        if told.count(pair) > 1:
            raise SOURCE_TWICE.because()
    for field, why in BESIDE.items():
        if getattr(config, field) not in NONE_OF_IT:
            raise STREAM_INVALID.because(f"{field} and sources exclude each other here: {why}")
    if config.retention != "limits":
        raise STREAM_INVALID.because(f"sources with retention {config.retention!r} is not supported")
    if config.discard == "new" and max(config.max_msgs, config.max_bytes) > 0:
        text = "a limit with discard 'new' and sources exclude each other here"
        raise STREAM_INVALID.because(f"{text}: nothing that a source has is refused; use discard 'old'")
    return tuple(told)


def _check(source: JsSource) -> None:
    """Raises JsError for one that cannot be."""
    if not source.name or subject_problem(source.name) or set(source.name) & set("*.>/\\ "):
        raise SOURCE_NAME_INVALID.because()
    pattern = source.filter_subject or ""
    if pattern and (problem := subject_problem(pattern)):
        raise FILTER_INVALID.because(f"subject filter {pattern!r} for the source: {problem}")
    for field, why in NOT_THERE.items():
        if getattr(source, field) not in NONE_OF_IT:
            raise STREAM_INVALID.because(f"{field} of a source is not supported: {why}")


def told_sources(config: StreamConfig) -> list[SourceAnswer] | UnsetType:
    """The sources of a stream, as JetStream tells them."""
    if config.sources is UNSET:
        return UNSET
    return [SourceAnswer(name, filter or UNSET) for name, filter in config.sources]


def own_subjects(config: StreamConfig) -> list[str]:
    """What can be published to a stream."""
    return list(config.subjects) if config.sources is UNSET else []


async def source_states(
    room: Room, info: StreamInfo, behind: dict[str, int]
) -> list[SourceState] | UnsetType:
    """How far a stream is with its sources. `behind`: what its leader knows."""
    if info.config.sources is UNSET:
        return UNSET
    told = [
        SourceState(name, behind.get(name, 0), 0 if name in behind else HEARD_NOTHING, filter or UNSET)
        for name, filter in info.config.sources
    ]
    if len(behind) < len(told):
        # One that bears a source's name, and was created later, is another stream.
        there = {one.config.name for one in await room.client.streams() if one.id < info.id}
        missing = STREAM_NOT_FOUND
        for one in told:
            if one.name not in there:
                one.error = SourceError(missing.code, missing.err_code, missing.sentence)
    return told
