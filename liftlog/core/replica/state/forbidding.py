"""What a stream lets nobody do, by its configuration (R19): store, delete one message, or purge."""

from __future__ import annotations

from msgspec import UNSET

from liftlog.messages import ERR_INVALID, ErrorReply
from liftlog.mutants import Mutants
from liftlog.types import StreamConfig

_FOR_EVER = (
    "that was switched on for this stream and cannot be taken back; what is to go from it goes with its "
    "retention, or with the whole stream (stream rm)"
)


def takes_nothing(config: StreamConfig, mutants: Mutants) -> bool:
    """Whether its leaders refuse every message: it is read-only (R19), copies others (R28, R29), or tells the
    cluster's activity (N12).
    """
    mirrors = bool(config.mirrors and not mutants.mirror_takes_messages)
    tells = config.activity is True and not mutants.activity_takes_messages
    return config.read_only or mirrors or tells or config.sources is not UNSET


def read_only(config: StreamConfig) -> str:
    """What a publisher is told."""
    name = config.name
    if config.mirrors:
        return (
            f"stream '{name}' is a mirror: it takes what '{config.mirrors}' has, and nothing else; publish "
            f"to that, or make it a stream of its own: liftlog stream alter {name} --no-mirror"
        )
    if config.activity is True:
        return (
            f"stream '{name}' tells what happens in the cluster, and takes nothing else; publish to another "
            "stream"
        )
    if config.sources is not UNSET:
        those = ", ".join(f"'{source}'" for source, _ in config.sources)
        return (
            f"stream '{name}' has what its sources have, and nothing else; publish to one of them: {those}; "
            f"or make it a stream of its own: liftlog stream alter {name} --no-sources"
        )
    if config.sealed is True:
        return f"stream '{name}' is sealed: it takes nothing any more, for ever; publish to another stream"
    return f"stream '{name}' is read-only; to write to it again: liftlog stream alter {name} --read-write"


def not_deleted(config: StreamConfig | None) -> ErrorReply | None:
    """Why no single message can be deleted; None if they can."""
    if config is None or config.deny_delete is not True:
        return None
    return ErrorReply(ERR_INVALID, f"stream '{config.name}' has deny_delete: {_FOR_EVER}", False)


def not_purged(config: StreamConfig | None) -> ErrorReply | None:
    """Why it cannot be purged, its front or by subjects; None if it can."""
    if config is None or config.deny_purge is not True:
        return None
    return ErrorReply(ERR_INVALID, f"stream '{config.name}' has deny_purge: {_FOR_EVER}", False)
