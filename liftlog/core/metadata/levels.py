"""The cluster's feature level, and what needs which (U2): the one place that says so.

A node of an older release does not know the commands that a newer one has brought: it cannot even read them,
and must not find them in its log. So the metadata has a *level*, which rises only when every node can follow
(`RaiseLevel`), and a command that is newer than the level takes no effect, is not proposed, and is refused to
the client that asks for it. Up to then any node may go back to the release that it came from.

`SINCE` has one line for each kind of command that release 0.1.0 does not know. `PROTOCOL` has one for each
level: which version of the protocol nodes speak at least, so that whoever cannot follow is turned away at the
door, in words that its own release has (U1). `IMAGE` says in which format snapshots are written.
"""

from __future__ import annotations

from msgspec import UNSET

from liftlog.core.metadata.commands import (
    AdmitNode,
    AlterStream,
    Command,
    CopyDropped,
    CreateStream,
    DrainNode,
    FinishMove,
    MoveReplicas,
    PairFailed,
    PassVote,
    RaiseLevel,
    ReadyAgain,
    RemoveNode,
    RetireNode,
    TrimActivity,
)
from liftlog.types import StreamConfig

FIRST, NEWEST = 1, 2
"""Levels of release 0.1.0, and of this liftlog."""

SINCE: dict[type, int] = {
    RaiseLevel: 2,
    MoveReplicas: 2,
    FinishMove: 2,
    CopyDropped: 2,
    DrainNode: 2,
    RetireNode: 2,
    PassVote: 2,
    ReadyAgain: 2,
    AdmitNode: 2,
    RemoveNode: 2,
    PairFailed: 2,
    TrimActivity: 2,
}
"""By kind of command: the first level of which a node knows it; all others are of level 1."""

PROTOCOL: dict[int, int] = {1: 2, 2: 3}
IMAGE: dict[int, int] = {1: 2, 2: 3}


ALTERABLE_SINCE: dict[str, int] = {
    "replication_factor": 2,
    "min_insync_replicas": 2,
    "partitions": 2,
    "paused": 2,
    "dedupe_window_ms": 2,
    "dedupe_ids_max": 2,
    "messages_max": 2,
    "bytes_max": 2,
    "max_messages_per_subject": 2,
    "subject": 2,
    "more_subjects": 2,
    "allow_rollup": 2,
    **{"notes": 2, "deny_delete": 2, "deny_purge": 2, "sealed": 2, "allow_ttl": 2, "interest": 2},
    "marker_ttl_ms": 2,
    "allow_batches": 2,
    "allow_fast_batches": 2,
    "mirror": 2,
    "sources": 2,
    **{"origins": 2, "starts": 2},
    "subject_messages_max": 2,
}
"""By what an alteration names: the first level of which a node can read it; all else is of level 1."""


_LATER: dict[str, int] = {
    "paused": 2,
    "dedupe_window_ms": 2,
    "dedupe_ids_max": 2,
    "messages_max": 2,
    "bytes_max": 2,
    "max_messages_per_subject": 2,
    "allow_rollup": 2,
    "removal": 2,
    "work_queue": 2,
    "interest": 2,
    "more_subjects": 2,
    **{"allow_ttl": 2, "marker_ttl_ms": 2},
    "allow_batches": 2,
    "allow_fast_batches": 2,
    **{"notes": 2, "deny_delete": 2, "deny_purge": 2, "sealed": 2, "queue_group": 2},
    "mirror": 2,
    **{"subject_messages_max": 2, "first_offset": 2},
    "activity": 2,
    "sources": 2,
    **{"origins": 2, "starts": 2, "mirror_filter": 2},
}
"""Fields of a new stream's configuration that may be left out: the first level of which a node can read
them."""


def _has(config: StreamConfig, name: str) -> bool:
    return getattr(config, name) is not UNSET


def since(command: Command) -> int:
    """From which level on a node knows this command."""
    if isinstance(command, AlterStream):
        return max((ALTERABLE_SINCE.get(name, FIRST) for name in command.changes.named), default=FIRST)
    if isinstance(command, CreateStream):
        return max((level for name, level in _LATER.items() if _has(command.config, name)), default=FIRST)
    return SINCE.get(type(command), FIRST)


def is_above(command: Command, level: int) -> bool:
    """Whether a command may mean nothing at this level. What raises the level brings its own reasons."""
    return level < NEWEST and since(command) > level and not isinstance(command, RaiseLevel)


def refusal(command: Command, level: int) -> str:
    """What a client is told of such a command."""
    return (
        f"{type(command).__name__} needs feature level {since(command)}, and this cluster is at {level}: "
        "when every node runs a newer liftlog, raise it with 'liftlog cluster level --raise'"
    )


def too_low(node: int, level: int, can: int) -> str:
    """Why a node cannot go on, or begin; empty if it can."""
    if level <= can:
        return ""
    return (
        f"node {node}: this cluster is at feature level {level}, this liftlog knows levels up to {can}: "
        "start a newer one"
    )
