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
from liftlog.types import OPTIONAL

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


ALTERABLE_SINCE: dict[str, int] = dict.fromkeys(
    ("subject", "partitions", "replication_factor", "min_insync_replicas", "max_payload_bytes", *OPTIONAL), 2
)
"""By what an alteration names: the first level of which a node can read it; all else is of level 1."""
CREATABLE_SINCE: dict[str, int] = dict.fromkeys(OPTIONAL, 2)
"""By field of a new stream's configuration: the first level of which a node can read it; all else is of
level 1.
"""


def since(command: Command) -> int:
    """From which level on a node knows this command."""
    if isinstance(command, AlterStream):
        return max((ALTERABLE_SINCE.get(name, FIRST) for name in command.changes.named), default=FIRST)
    if isinstance(command, CreateStream):
        named = [name for name in OPTIONAL if getattr(command.config, name) is not UNSET]
        return max((CREATABLE_SINCE[name] for name in named), default=FIRST)
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
